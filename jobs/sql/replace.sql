-- Ready -> Ready with the values that Replace was called with: args, headers, priority, due time, attempts and backoff.
-- The old job's steps, progress and output are dropped, because they belong to another job. trail = false makes the
-- steps void, since producers may not delete them. The history of attempts stays. This waits for a claim that holds the
-- row; the row is then in progress, and left alone. Workers are notified, since the row may be due earlier than before.
--
-- A separate CTE locks the rows in the order of their ids, so that concurrent calls cannot deadlock: the join of the
-- update would lock them in the order of its plan.
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
    FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::bigint[], $5::timestamptz[], $6::text[], $7::bigint[],
            $8::text[], $9::bigint[])
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
