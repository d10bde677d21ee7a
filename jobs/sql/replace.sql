-- Ready -> Ready as the job that Replace was called with: its args, headers, priority, due time, attempts and backoff.
-- What the holder has on record of its own work, its steps, progress and output, goes, for it is another job's: trail,
-- false, makes the steps void, which producers may not delete. Its attempts' history stays. A row that is being claimed is waited for; it then is
-- in progress, and left alone. The workers are told, since the row may be due earlier than it was.
--
-- The rows are locked in the order of their ids by a part of its own, so that concurrent calls cannot deadlock: the join
-- of an update takes them in whatever order its plan has.
WITH locked AS MATERIALIZED (
    SELECT t.id FROM {{.Table}} AS t WHERE t.id = ANY ($1::uuid[]) ORDER BY t.id FOR NO KEY UPDATE
), changed AS (
    UPDATE {{.Table}} AS t
    SET args = s.args,
        priority = s.priority,
        due_at = greatest(s.due_at, now()),
        headers = s.headers::jsonb,
        max_attempts = coalesce(s.max_attempts, {{.MaxAttempts}}),
        retry = s.retry::jsonb,
        unique_states = s.unique_states,
        attempts = 0,
        last_error = NULL,
        trail = CASE WHEN t.trail IS NOT NULL OR t.attempts > 0 THEN false END,
        progress = NULL,
        progress_note = NULL,
        output = NULL
    FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::bigint[], $5::timestamptz[], $6::text[], $7::bigint[], $8::text[], $9::bigint[])
        AS s (id, unique_key, args, priority, due_at, headers, max_attempts, retry, unique_states)
    JOIN locked AS l ON l.id = s.id
    WHERE t.id = s.id AND t.unique_key = s.unique_key AND t.status = 0
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN {{.Announce}} IS NOT NULL END
)
SELECT unnest(told.ids) AS id FROM told
