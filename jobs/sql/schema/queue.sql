-- The rules of queues. Applications write them in their own transactions, which may be long. Claims and settles write
-- to other tables, so that they never wait for such a transaction.
CREATE TABLE {{.Queue}} (
    name text PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND {{.MaxQueue}}),
    paused boolean NOT NULL DEFAULT false,
    max_running integer CHECK (max_running > 0),
    rate double precision CHECK (rate BETWEEN {{.MinRate}}::double precision AND {{.MaxRate}}::double precision),
    burst integer CHECK (burst > 0),
    adopt boolean NOT NULL DEFAULT false, -- jobs that ran already when the limit was set still need slots
    changed_at {{.Function "time"}} NOT NULL DEFAULT clock_timestamp(),
    CHECK ((rate IS NULL) = (burst IS NULL))
);

-- One row for each start of a queue with a rate. A start takes a span of 1/rate, which begins at the time of at, in
-- microseconds since 1970. Claims insert rows and delete those that no rate asks for any more; what puts jobs
-- back that have not started deletes as many rows of their claim.
CREATE TABLE {{.Start}} (
    queue text NOT NULL,
    at bigint NOT NULL,
    job_id uuid NOT NULL,
    owner_token uuid NOT NULL,
    PRIMARY KEY (queue, at, owner_token) -- two claims with different rates may take the same time
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);

-- One row for each running job of a queue with a limit. Claims insert rows, settles delete them, and neither changes a
-- row that the other needs.
CREATE TABLE {{.Slot}} (
    job_id uuid PRIMARY KEY,
    queue text NOT NULL,
    permit integer, -- NULL: the job ran before the queue had a limit
    taken_at {{.Function "time"}} NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);

CREATE UNIQUE INDEX {{.Named "slot_queue_idx"}} ON {{.Slot}} (queue, permit);

-- A changed rule wakes the workers.
CREATE TRIGGER {{.Named "queue_announce"}} AFTER INSERT OR UPDATE OR DELETE ON {{.Queue}}
FOR EACH STATEMENT EXECUTE FUNCTION {{.Function "announce"}}('always');
