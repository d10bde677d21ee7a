-- Sets the timers whose keys exist, and reports the others, which are inserted afterwards. A Ready timer moves; a Done
-- or Failed one begins again; for a firing timer the new values are set aside, and the end of the firing makes it Ready
-- with them (see timers_rearm). The rows are locked in key order, so that concurrent calls cannot deadlock. If a row
-- was settled or claimed while this waited for its lock, its new state decides. Claims skip a locked row; the settle of
-- a firing waits for this transaction.
WITH wanted AS MATERIALIZED (
    SELECT s.ord, s.key, s.topic, s.payload, s.headers::jsonb AS headers,
           coalesce(s.max_attempts, {{.MaxAttempts}}) AS max_attempts,
           coalesce(s.fire_at, clock_timestamp() + s.delay * interval '1 microsecond') AS fire_at
    FROM ROWS FROM (unnest($1::text[]), unnest($2::text[]), unnest($3::bytea[]), unnest($4::text[]),
            unnest($5::bigint[]), unnest($6::timestamptz[]), unnest($7::bigint[]), generate_subscripts('{}'::int[], 1))
        WITH ORDINALITY AS s (key, topic, payload, headers, max_attempts, fire_at, delay, many, ord)
), held AS MATERIALIZED (
    SELECT t.id FROM {{.Table}} AS t WHERE t.key = ANY ($1::text[]) ORDER BY t.key FOR NO KEY UPDATE
), changed AS (
    UPDATE {{.Table}} AS t
    SET generation = CASE WHEN t.generation < 2147483647 THEN t.generation + 1 ELSE 1 END,
        fire_at = CASE WHEN t.status = 1 THEN t.fire_at ELSE w.fire_at END,
        topic = CASE WHEN t.status = 1 THEN t.topic ELSE w.topic END,
        payload = CASE WHEN t.status = 1 THEN t.payload ELSE w.payload END,
        headers = CASE WHEN t.status = 1 THEN t.headers ELSE w.headers END,
        max_attempts = CASE WHEN t.status = 1 THEN t.max_attempts ELSE w.max_attempts END,
        due_at = CASE WHEN t.status = 1 THEN t.due_at ELSE greatest(w.fire_at, now()) END,
        status = CASE WHEN t.status = 1 THEN 1 ELSE 0 END,
        attempts = CASE WHEN t.status = 1 THEN t.attempts ELSE 0 END,
        owner_token = CASE WHEN t.status = 1 THEN t.owner_token END,
        cancelled_at = CASE WHEN t.status = 1 THEN t.cancelled_at END,
        last_error = CASE WHEN t.status = 1 THEN t.last_error END,
        completed_at = NULL,
        failed_at = NULL,
        waiting = false,
        rearm_at = CASE WHEN t.status = 1 THEN w.fire_at END,
        rearm_topic = CASE WHEN t.status = 1 THEN w.topic END,
        rearm_payload = CASE WHEN t.status = 1 THEN w.payload END,
        rearm_headers = CASE WHEN t.status = 1 THEN w.headers END,
        rearm_max_attempts = CASE WHEN t.status = 1 THEN w.max_attempts END
    FROM wanted AS w
    WHERE t.id = ANY (ARRAY(SELECT h.id FROM held AS h)) AND t.key = w.key
    RETURNING t.id, t.key, t.status
)
SELECT {{if .One}}c.id, CASE WHEN c.status = 0 THEN {{.Announce}} IS NOT NULL ELSE c.status = 1 END
{{- else}}w.ord, w.fire_at, c.id,
       CASE WHEN c.status = 0 THEN {{.Announce}} IS NOT NULL END AS told
{{- end}}
FROM wanted AS w
LEFT JOIN changed AS c ON c.key = w.key
