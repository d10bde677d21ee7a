-- The jobs' additions to the core's table.
-- The live jobs of a schedule, which decide whether the next one may start.
CREATE INDEX {{.Named "live_schedule_idx"}} ON {{.Table}} (schedule)
    WHERE completed_at IS NULL AND schedule IS NOT NULL;

-- How the attempts ended that did not succeed. A trigger writes the rows, and nothing changes them.
CREATE TABLE {{.Attempt}} (
    job_id uuid NOT NULL,
    attempt integer NOT NULL,
    ended_at {{.Function "time"}} NOT NULL,
    outcome text NOT NULL,
    error text
);

-- There is no key: attempts begin at 1 again after a redrive. A publication needs a replica identity to replicate
-- deletions.
ALTER TABLE {{.Attempt}} REPLICA IDENTITY FULL;

CREATE INDEX {{.Named "attempt_idx"}} ON {{.Attempt}} (job_id, ended_at);

-- The results of steps, so that a later attempt need not repeat them.
CREATE TABLE {{.Step}} (
    job_id uuid NOT NULL,
    name text NOT NULL,
    result bytea NOT NULL,
    created_at {{.Function "time"}} NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, name)
);
