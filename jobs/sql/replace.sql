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
-- update would lock them in the order of its plan. The update looks up the ids that were locked, so it begins when all
-- are, and what else it says is for the planner, as in the core's ack.sql.
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
    FROM ROWS FROM (unnest($1::uuid[]), unnest($2::text[]), unnest($3::bytea[]), unnest($4::bigint[]),
            unnest($5::timestamptz[]), unnest($6::text[]), unnest($7::bigint[]), unnest($8::text[]),
            unnest($9::bigint[]), unnest($10::text[]), unnest($11::text[]), unnest($12::text[]), unnest($13::bigint[]),
            unnest($14::bigint[]), unnest($15::double precision[]), unnest($16::bigint[]),
            generate_subscripts('{}'::int[], 1))
        AS s (id, unique_key, args, priority, due_at, headers, max_attempts, retry, unique_states, queue, schedule,
            concurrency_key, key_limit, key_policy, key_rate, key_burst)
    WHERE t.id = ANY (ARRAY(SELECT l.id FROM locked AS l)) AND t.id = s.id AND t.unique_key = s.unique_key
      AND coalesce(t.status = 0, false)
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN {{.Announce}} IS NOT NULL END
)
SELECT {{if .One}}true{{else}}unnest(told.ids) AS id{{end}} FROM told
