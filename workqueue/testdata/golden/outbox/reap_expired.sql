-- $1 max_rows
WITH taken AS MATERIALIZED (
    SELECT r.ctid, r.id, substring(pg_catalog.uuid_send(r.owner_token) FROM 1 FOR 6) AS process,
        r.headers ->> 'txwork-lost-beside' IS NOT DISTINCT FROM r.owner_token::pg_catalog.text AS noted,
        r.max_attempts > 1 AND r.attempts > 0
            AND pg_catalog.jsonb_typeof(coalesce(r.headers, '{}'::pg_catalog.jsonb)) = 'object' AS returnable,
        coalesce(substring(r.headers ->> 'txwork-lost-alone' FROM '^[0-9]{1,4}$')::int, 0) AS alone,
        coalesce(substring(r.headers ->> 'txwork-lost-together' FROM '^[0-9]{1,4}$')::int, 0) AS together
    FROM "txwork"."outbox" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= pg_catalog.now()
      AND r.locked_until < pg_catalog.now()
    ORDER BY r.due_at, r.id
    LIMIT $1::int
    FOR NO KEY UPDATE SKIP LOCKED
), beside AS MATERIALIZED (
    SELECT r.ctid, substring(pg_catalog.uuid_send(r.owner_token) FROM 1 FOR 6) AS process
    FROM "txwork"."outbox" AS r
    WHERE EXISTS (SELECT FROM taken)
      AND r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= pg_catalog.now()
      AND substring(pg_catalog.uuid_send(r.owner_token) FROM 1 FOR 6) = ANY (ARRAY(SELECT k.process FROM taken AS k))
      AND r.id <> ALL (ARRAY(SELECT k.id FROM taken AS k))
), left_alone AS (
    UPDATE "txwork"."outbox" AS t
    SET headers = coalesce(t.headers, '{}'::pg_catalog.jsonb)
        || pg_catalog.jsonb_build_object('txwork-lost-beside', t.owner_token::pg_catalog.text)
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM "txwork"."outbox" AS r
        WHERE r.ctid = ANY (ARRAY(
            SELECT (pg_catalog.array_agg(b.ctid))[1] FROM beside AS b GROUP BY b.process HAVING pg_catalog.count(*) = 1))
          AND r.status = 1
          AND pg_catalog.jsonb_typeof(coalesce(r.headers, '{}'::pg_catalog.jsonb)) = 'object'
          AND r.headers ->> 'txwork-lost-beside' IS DISTINCT FROM r.owner_token::pg_catalog.text
        FOR NO KEY UPDATE SKIP LOCKED))
), lost AS MATERIALIZED (
    SELECT k.ctid, k.alone, k.together, s.shared,
        s.shared AND k.returnable AND k.alone = 0 AND k.together < 5 AS returned
    FROM (
        SELECT l.*, pg_catalog.count(*) OVER (PARTITION BY l.process) AS rows FROM taken AS l) AS k
    CROSS JOIN LATERAL (
        SELECT k.rows > 1 OR k.noted OR k.process = ANY (ARRAY(SELECT b.process FROM beside AS b)) AS shared) AS s
), changed AS (
    UPDATE "txwork"."outbox" AS t
    SET status = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE greatest(pg_catalog.clock_timestamp(), t.locked_until + CASE WHEN t.retry IS NULL THEN least(1000000 * (2::pg_catalog.float8 ^ least(t.attempts - 1, 60)), 900000000) * (1 - 0.2 * pg_catalog.random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::pg_catalog.float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::pg_catalog.float8 WHEN 'quadratic' THEN t.attempts::pg_catalog.float8 ^ 2 WHEN 'exponential' THEN 2::pg_catalog.float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::pg_catalog.float8) * (1 - coalesce((t.retry ->> 'jitter')::pg_catalog.float8, 0) * pg_catalog.random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN pg_catalog.clock_timestamp() END,
    failed_at = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN pg_catalog.clock_timestamp() END,
    locked_until = NULL,
        owner_token = NULL,
        attempts = CASE WHEN l.returned AND t.cancelled_at IS NULL THEN t.attempts - 1 ELSE t.attempts END,
        headers = CASE WHEN pg_catalog.jsonb_typeof(coalesce(t.headers, '{}'::pg_catalog.jsonb)) <> 'object' THEN t.headers
            ELSE coalesce(t.headers, '{}'::pg_catalog.jsonb) - ARRAY['txwork-lost-beside', 'txwork-running'] || pg_catalog.jsonb_build_object(
                CASE WHEN l.shared THEN 'txwork-lost-together' ELSE 'txwork-lost-alone' END,
                (1 + CASE WHEN l.shared THEN l.together ELSE l.alone END)::pg_catalog.text,
                'txwork-lost-at', pg_catalog.to_char(pg_catalog.clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) END,
        last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE 'lease expired at ' ||
            pg_catalog.to_char(t.locked_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' in attempt ' || t.attempts
            || CASE WHEN l.returned THEN ', which does not count: other rows of its process were lost with it'
                WHEN NOT l.shared AND l.alone > 0
                    THEN ', lost alone ' || 1 + l.alone || ' times: it may end its process'
                ELSE '' END END
    FROM lost AS l
    WHERE t.ctid = l.ctid
    RETURNING t.status, t.cancelled_at, CASE WHEN t.status = 3 AND t.cancelled_at IS NULL THEN pg_catalog.jsonb_build_object(
        'id', t.id, 'attempt', t.attempts, 'max_attempts', t.max_attempts, 'error', t.last_error,
        'labels', pg_catalog.jsonb_build_array()) END AS dead_letter
)
SELECT (pg_catalog.count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (pg_catalog.count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (pg_catalog.count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled,
       pg_catalog.jsonb_agg(changed.dead_letter) FILTER (WHERE changed.dead_letter IS NOT NULL) AS dead_letters
FROM changed
HAVING CASE WHEN pg_catalog.bool_or(changed.status = 0) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('txwork.outbox', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END;
