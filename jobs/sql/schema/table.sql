-- What the jobs add to the core's table.
ALTER TABLE {{.Table}}
    ALTER COLUMN kind TYPE {{.Function "kind_name"}},
    ALTER COLUMN queue TYPE {{.Function "queue_name"}},
    ALTER COLUMN priority TYPE {{.Function "priority"}},
    ALTER COLUMN progress TYPE {{.Function "progress"}};

-- The jobs of a schedule that have not ended: whether the next may start.
CREATE INDEX {{.Named "live_schedule_idx"}} ON {{.Table}} (schedule) WHERE completed_at IS NULL AND schedule IS NOT NULL;

-- How attempts ended that did not succeed. Written by a trigger, never changed.
CREATE TABLE {{.Attempt}} (
    job_id uuid NOT NULL,
    attempt integer NOT NULL,
    ended_at timestamptz NOT NULL,
    outcome text NOT NULL,
    error text
);

-- There is no key: attempts begin at 1 again after a redrive. A publication that has the table needs to know what is
-- deleted.
ALTER TABLE {{.Attempt}} REPLICA IDENTITY FULL;

CREATE INDEX {{.Named "attempt_idx"}} ON {{.Attempt}} (job_id, ended_at);

-- The results of steps, so that a later attempt need not repeat them.
CREATE TABLE {{.Step}} (
    job_id uuid NOT NULL,
    name text NOT NULL,
    result bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, name)
);
