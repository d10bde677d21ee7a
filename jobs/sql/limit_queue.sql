-- A queue's limits. Where a limit of running jobs comes, those that run already are to be counted: see
-- slot_sweep.
INSERT INTO {{.Queue}} AS q (name, max_running, rate, burst, adopt)
VALUES ($1::text, $2::integer, $3::float8, $4::integer, $2::integer IS NOT NULL)
ON CONFLICT (name) DO UPDATE
SET max_running = excluded.max_running,
    rate = excluded.rate,
    burst = excluded.burst,
    adopt = excluded.adopt AND (q.adopt OR q.max_running IS NULL),
    changed_at = clock_timestamp()
