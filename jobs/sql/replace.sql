-- Ready -> Ready with the values that Replace was called with: args, headers, queue, priority, due time, attempts,
-- backoff, schedule and concurrency key. The old job's steps, progress and output are dropped, because they belong to
-- another job. trail = false makes the steps void, since producers may not delete them. The history of attempts stays.
-- This waits for a claim that holds the row; the row is then in progress, and left alone. Workers are notified, since
-- the row may be due earlier than before.
--
-- A row whose concurrency key changes leaves the old key and enters the new one, by the trigger key_move. The insert
-- that found the holder has locked the new key's writers.
--
-- A separate CTE locks the rows in the order of their ids, so that concurrent calls cannot deadlock: the join of the
-- update would lock them in the order of its plan.
WITH locked AS MATERIALIZED (
    SELECT t.id FROM {{.Table}} AS t WHERE t.id = ANY ($1::uuid[]) ORDER BY t.id FOR NO KEY UPDATE
), changed AS (
    UPDATE {{.Table}} AS t
    SET args = s.args,
        queue = s.queue,
        priority = s.priority,
        due_at = greatest(s.due_at, now()),
        headers = s.headers::jsonb,
        max_attempts = coalesce(s.max_attempts, {{.MaxAttempts}}),
        retry = s.retry::jsonb,
        unique_states = s.unique_states,
        schedule = s.schedule,
        concurrency_key = s.concurrency_key,
        key_limit = s.key_limit,
        key_policy = s.key_policy,
        key_rate = s.key_rate,
        key_burst = s.key_burst,
        attempts = 0,
        last_error = NULL,
        trail = CASE WHEN t.trail IS NOT NULL OR t.attempts > 0 THEN false END,
        progress = NULL,
        progress_note = NULL,
        output = NULL
    FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::bigint[], $5::timestamptz[], $6::text[], $7::bigint[],
            $8::text[], $9::bigint[], $10::text[], $11::text[], $12::text[], $13::bigint[], $14::bigint[],
            $15::double precision[], $16::bigint[])
        AS s (id, unique_key, args, priority, due_at, headers, max_attempts, retry, unique_states, queue, schedule,
            concurrency_key, key_limit, key_policy, key_rate, key_burst)
    JOIN locked AS l ON l.id = s.id
    WHERE t.id = s.id AND t.unique_key = s.unique_key AND t.status = 0
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN {{.Announce}} IS NOT NULL END
)
SELECT unnest(told.ids) AS id FROM told
