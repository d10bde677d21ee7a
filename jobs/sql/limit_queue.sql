-- Sets a queue's limits. adopt is set when a queue gets a limit of running jobs, so that slot_sweep gives slots to the
-- jobs that run already.
INSERT INTO {{.Queue}} AS q (name, max_running, rate, burst, adopt)
VALUES ($1::text, $2::integer, $3::float8, $4::integer, $2::integer IS NOT NULL)
ON CONFLICT (name) DO UPDATE
SET max_running = excluded.max_running,
    rate = excluded.rate,
    burst = excluded.burst,
    adopt = excluded.adopt AND (q.adopt OR q.max_running IS NULL),
    changed_at = clock_timestamp()
