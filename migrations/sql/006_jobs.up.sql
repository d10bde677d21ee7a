-- A policy that cannot be computed would fail the reaper's whole batch. A domain, because the server reads a CHECK of
-- a table anew for every statement that writes to the table, and a domain's once in a session. Whole microseconds and
-- a jitter that is none or felt: NaN passes a >=, and what is too large or too small fails a multiplication. Each
-- operator has the very types of its operands, so that none of somebody's search_path fits better.
CREATE DOMAIN "{{schema}}"."jobs_retry" AS jsonb CONSTRAINT "jobs_retry_check" CHECK (
    VALUE IS NULL
    OR ((VALUE ->> 'base_us')::bigint BETWEEN 0 AND 315360000000000
        AND (VALUE ->> 'cap_us')::bigint BETWEEN 0 AND 315360000000000
        AND (coalesce((VALUE ->> 'jitter')::float8, 0::float8) = 0::float8
            OR (VALUE ->> 'jitter')::float8 BETWEEN 1e-09::float8 AND 1::float8)) IS TRUE
);

CREATE TABLE "{{schema}}"."jobs" (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    due_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    max_attempts integer NOT NULL DEFAULT 10,
    "priority" smallint NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    status smallint NOT NULL DEFAULT 0,
    waiting boolean NOT NULL DEFAULT false,
    locked_until timestamptz,
    completed_at timestamptz,
    owner_token uuid,
    failed_at timestamptz,
    cancelled_at timestamptz,
    last_error text,
    headers jsonb,
    retry "{{schema}}"."jobs_retry",
    "kind" text NOT NULL,
    "queue" text NOT NULL,
    "args" bytea NOT NULL,
    "unique_key" text,
    "unique_states" smallint,
    "schedule" text,
    "slot" boolean,
    "trail" boolean,
    "progress" smallint,
    "progress_note" text,
    "output" bytea,
    "joined" boolean,
    "gate_key" text,
    "gate_limit" integer,
    "gate_policy" smallint,
    "gate_rate" double precision,
    "gate_burst" integer,
    "gate_seq" bigint,
    CONSTRAINT "jobs_state_check" CHECK (CASE status
        WHEN 0 THEN locked_until IS NULL AND completed_at IS NULL AND failed_at IS NULL
            AND attempts < max_attempts -- a row that no claim may start would block every claim
        WHEN 1 THEN locked_until IS NOT NULL AND completed_at IS NULL AND failed_at IS NULL
            AND owner_token IS NOT NULL AND NOT waiting
        WHEN 2 THEN locked_until IS NULL AND completed_at IS NOT NULL AND failed_at IS NULL
        WHEN 3 THEN locked_until IS NULL AND completed_at IS NOT NULL AND failed_at IS NOT NULL
        ELSE false
    END),
    CONSTRAINT "jobs_attempts_check" CHECK (attempts BETWEEN 0 AND max_attempts AND max_attempts > 0),
    CONSTRAINT "jobs_due_check" CHECK (isfinite(due_at))
) WITH (
    fillfactor = 42,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);

COMMENT ON TABLE "{{schema}}"."jobs" IS 'txwork core 1';

CREATE INDEX "jobs_claim_idx" ON "{{schema}}"."jobs" ("queue", "priority", due_at, id) WHERE completed_at IS NULL AND NOT waiting;

CREATE INDEX "jobs_waiting_idx" ON "{{schema}}"."jobs" (id) WHERE completed_at IS NULL AND waiting;

CREATE INDEX "jobs_done_idx" ON "{{schema}}"."jobs" (completed_at) WHERE completed_at IS NOT NULL AND failed_at IS NULL;

CREATE INDEX "jobs_failed_idx" ON "{{schema}}"."jobs" (failed_at, id) WHERE failed_at IS NOT NULL;

CREATE UNIQUE INDEX "jobs_unique_idx" ON "{{schema}}"."jobs" ("unique_key") WHERE "unique_key" IS NOT NULL;

-- No search_path is pinned, every name is qualified instead: to set one and set it back is a tenth of what a
-- transaction that inserts one row costs the server.
CREATE FUNCTION "{{schema}}"."jobs_announce"() RETURNS trigger
LANGUAGE plpgsql
AS $txwork$
BEGIN
    PERFORM pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text);
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_announce"() FROM PUBLIC;

CREATE TRIGGER "jobs_announce" AFTER INSERT ON "{{schema}}"."jobs"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."jobs_announce"();

CREATE FUNCTION "{{schema}}"."jobs_claim"(owner_token uuid, lease_seconds integer, batch_size integer, "queue" text, "priority" smallint) RETURNS SETOF uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = on
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_tidscan = on
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN RAISE EXCEPTION 'owner_token must not be NULL: use a fresh one for every claim' USING ERRCODE = 'invalid_parameter_value'; END IF;
    IF ($2 >= 1) IS NOT TRUE THEN RAISE EXCEPTION 'lease_seconds must be at least 1' USING ERRCODE = 'invalid_parameter_value'; END IF;
    IF ($3 >= 1) IS NOT TRUE THEN RAISE EXCEPTION 'batch_size must be at least 1' USING ERRCODE = 'invalid_parameter_value'; END IF;
    RETURN QUERY
WITH claimed AS (
UPDATE "{{schema}}"."jobs" AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = $1::uuid,
    locked_until = clock_timestamp() + make_interval(secs => $2)::interval
WHERE t.ctid = ANY (ARRAY(
    SELECT c.ctid
    FROM unnest(ARRAY['-infinity']::timestamptz[], ARRAY['00000000-0000-0000-0000-000000000000']::uuid[], ARRAY[$4]::text[], ARRAY[$5]::smallint[])
        AS l (after_due, after_id, c2, c3)
    CROSS JOIN LATERAL (
        SELECT r.ctid
        FROM "{{schema}}"."jobs" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= now()
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
          AND r."queue" = l.c2
          AND r."priority" = l.c3
        ORDER BY r."queue", r."priority", r.due_at, r.id
        LIMIT $3::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT $3::int))
RETURNING t.id, t.due_at, t.created_at, t.attempts, t.max_attempts, t.headers::text AS headers, t."kind", t."queue", t."priority", t."args", t."schedule", t."trail", t."gate_key"
)
SELECT claimed.id FROM claimed ORDER BY claimed.due_at, claimed.id;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_claim"(uuid, integer, integer, text, smallint) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_ack"(owner_token uuid, ids uuid[]) RETURNS SETOF uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = on
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_tidscan = on
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
BEGIN
    RETURN QUERY
WITH changed AS (
UPDATE "{{schema}}"."jobs" AS t
SET status = 2,
    completed_at = clock_timestamp(),
    locked_until = NULL
FROM unnest(ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[], array_fill($1, ARRAY[coalesce(cardinality($2), 0)])::uuid[]) AS s (id, token)
WHERE t.id = ANY (ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id
)
SELECT changed.id FROM changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_ack"(uuid, uuid[]) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_abandon"(owner_token uuid, ids uuid[], delay_seconds integer DEFAULT 0, error text DEFAULT NULL) RETURNS SETOF uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = on
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_tidscan = on
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
BEGIN
    IF ($3 IS NULL OR $3 >= 0) IS NOT TRUE THEN RAISE EXCEPTION 'delay_seconds must not be negative; NULL is the table''s own backoff' USING ERRCODE = 'invalid_parameter_value'; END IF;
    RETURN QUERY
WITH changed AS (
UPDATE "{{schema}}"."jobs" AS t
SET status = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE clock_timestamp() + coalesce(s.delay * interval '1 microsecond', CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 900000000) * (1 - 0.2 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
    last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE coalesce(s.error, 'abandoned without an error') END
FROM unnest(ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[], array_fill($1, ARRAY[coalesce(cardinality($2), 0)])::uuid[], array_fill($3::bigint * 1000000, ARRAY[coalesce(cardinality($2), 0)])::bigint[], array_fill($4, ARRAY[coalesce(cardinality($2), 0)])::text[]) AS s (id, token, delay, error)
WHERE t.id = ANY (ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id
)
SELECT changed.id FROM changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_abandon"(uuid, uuid[], integer, text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_fail"(owner_token uuid, ids uuid[], error text) RETURNS SETOF uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = on
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_tidscan = on
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
BEGIN
    RETURN QUERY
WITH changed AS (
UPDATE "{{schema}}"."jobs" AS t
SET status = 3,
    completed_at = clock_timestamp(),
    failed_at = clock_timestamp(),
    cancelled_at = CASE WHEN s.cancelled THEN coalesce(t.cancelled_at, clock_timestamp()) ELSE t.cancelled_at END,
    locked_until = NULL,
    last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE coalesce(s.error, 'failed without an error') END
FROM unnest(ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[], array_fill($1, ARRAY[coalesce(cardinality($2), 0)])::uuid[], array_fill($3, ARRAY[coalesce(cardinality($2), 0)])::text[], array_fill(false, ARRAY[coalesce(cardinality($2), 0)])::boolean[]) AS s (id, token, error, cancelled)
WHERE t.id = ANY (ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id
)
SELECT changed.id FROM changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_fail"(uuid, uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_extend"(owner_token uuid, ids uuid[], lease_seconds integer) RETURNS SETOF uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = on
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_tidscan = on
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
BEGIN
    IF ($3 >= 1) IS NOT TRUE THEN RAISE EXCEPTION 'lease_seconds must be at least 1' USING ERRCODE = 'invalid_parameter_value'; END IF;
    RETURN QUERY
WITH changed AS (
UPDATE "{{schema}}"."jobs" AS t
SET locked_until = clock_timestamp() + make_interval(secs => $3)::interval
FROM (
    SELECT r.id
    FROM unnest(ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[], array_fill($1, ARRAY[coalesce(cardinality($2), 0)])::uuid[]) AS s (id, token)
    JOIN "{{schema}}"."jobs" AS r ON r.id = s.id
    WHERE r.id = ANY (ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[]) AND r.owner_token = s.token AND coalesce(r.status = 1, false)
    FOR NO KEY UPDATE OF r SKIP LOCKED
) AS held
WHERE t.id = held.id AND t.status = 1
RETURNING t.id, t.cancelled_at IS NOT NULL AS cancelled
)
SELECT changed.id FROM changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_extend"(uuid, uuid[], integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_reap_expired"(max_rows integer DEFAULT 1000) RETURNS TABLE (requeued integer, failed integer)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = on
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_tidscan = on
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
BEGIN
    IF ($1 >= 1) IS NOT TRUE THEN RAISE EXCEPTION 'max_rows must be at least 1' USING ERRCODE = 'invalid_parameter_value'; END IF;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."jobs" AS t
    SET status = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE greatest(clock_timestamp(), t.locked_until + CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 900000000) * (1 - 0.2 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        owner_token = NULL,
        last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE 'lease expired at ' || to_char(t.locked_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' in attempt ' || t.attempts END
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM "{{schema}}"."jobs" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 1
          AND r.due_at <= now()
          AND r.locked_until < now()
        ORDER BY r."queue", r."priority", r.due_at, r.id
        LIMIT $1::int
        FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING t.status
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) IS NOT NULL ELSE true END;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_reap_expired"(integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_redrive"(ids uuid[]) RETURNS SETOF uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = on
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_tidscan = on
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
BEGIN
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."jobs" AS t
    SET status = 0,
        waiting = t."gate_key" IS NOT NULL,
        attempts = 0,
        due_at = clock_timestamp(),
        completed_at = NULL,
        failed_at = NULL,
        cancelled_at = NULL,
        owner_token = NULL,
        headers = coalesce(t.headers, '{}'::jsonb) || jsonb_build_object(
            'txwork-redriven-by', coalesce(NULL::text, session_user::text),
            'txwork-redriven-at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 3
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) IS NOT NULL END
)
SELECT unnest(told.ids) AS id FROM told;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_redrive"(uuid[]) FROM PUBLIC;

-- What the jobs add to the core's table. A priority that no worker serves would never be claimed.
ALTER TABLE "{{schema}}"."jobs"
    ADD CONSTRAINT "jobs_kind_check" CHECK (octet_length(kind) BETWEEN 1 AND 255),
    ADD CONSTRAINT "jobs_queue_check" CHECK (octet_length(queue) BETWEEN 1 AND 255),
    ADD CONSTRAINT "jobs_priority_check" CHECK (priority BETWEEN 1 AND 3),
    ADD CONSTRAINT "jobs_progress_check" CHECK (progress BETWEEN 0 AND 100);

-- The jobs of a schedule that have not ended: whether the next may start.
CREATE INDEX "jobs_live_schedule_idx" ON "{{schema}}"."jobs" (schedule) WHERE completed_at IS NULL AND schedule IS NOT NULL;

-- How attempts ended that did not succeed. Written by a trigger, never changed.
CREATE TABLE "{{schema}}"."jobs_attempt" (
    job_id uuid NOT NULL,
    attempt integer NOT NULL,
    ended_at timestamptz NOT NULL,
    outcome text NOT NULL,
    error text
);

CREATE INDEX "jobs_attempt_idx" ON "{{schema}}"."jobs_attempt" (job_id, ended_at);

-- The results of steps, so that a later attempt need not repeat them.
CREATE TABLE "{{schema}}"."jobs_step" (
    job_id uuid NOT NULL,
    name text NOT NULL,
    result bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, name)
);

-- The rules of queues, written by applications in transactions of theirs, which may be long. What claims
-- and settles write is in tables of its own, so that neither ever waits for such a transaction.
CREATE TABLE "{{schema}}"."jobs_queue" (
    name text PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
    paused boolean NOT NULL DEFAULT false,
    max_running integer CHECK (max_running > 0),
    rate double precision CHECK (rate BETWEEN 1e-09::double precision AND 1e+09::double precision),
    burst integer CHECK (burst > 0),
    adopt boolean NOT NULL DEFAULT false, -- jobs that ran already when the limit came are still to be counted
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((rate IS NULL) = (burst IS NULL))
);

-- One row for each limited queue: the lock under which its claims are admitted, and its tokens.
CREATE TABLE "{{schema}}"."jobs_bucket" (
    queue text PRIMARY KEY,
    tokens double precision,
    refilled_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);

-- One row for each running job of a queue with a limit. Claims insert, settles delete, and neither changes a
-- row that the other needs.
CREATE TABLE "{{schema}}"."jobs_slot" (
    job_id uuid PRIMARY KEY,
    queue text NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);

CREATE INDEX "jobs_slot_queue_idx" ON "{{schema}}"."jobs_slot" (queue);

-- A changed rule wakes the workers.
CREATE TRIGGER "jobs_queue_announce" AFTER INSERT OR UPDATE OR DELETE ON "{{schema}}"."jobs_queue"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."jobs_announce"();

-- Frees a job's unique key when it enters an ended state that does not hold it, in the settle's transaction:
-- whoever waits for the key in the unique index goes on when that commits.
--
-- A BEFORE trigger would spare the second version of the row, and would have every update of every job, claims
-- and renewals included, take a row lock of its own first. This one costs jobs without a key the test of WHEN.
CREATE FUNCTION "{{schema}}"."jobs_free_key"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $txwork$
BEGIN
    UPDATE "{{schema}}"."jobs" AS t SET unique_key = NULL WHERE t.id = OLD.id;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_free_key"() FROM PUBLIC;

CREATE TRIGGER "jobs_free_key" AFTER UPDATE OF completed_at ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (NEW.completed_at IS NOT NULL AND NEW.unique_key IS NOT NULL
    AND coalesce(NEW.unique_states::integer, 0) & (1 << NEW.status::integer) = 0)
EXECUTE FUNCTION "{{schema}}"."jobs_free_key"();

-- Puts an attempt on record that did not succeed: a reported failure, a lost lease, a cancel. An attempt that
-- was given back (snooze, shutdown) is none, and one that succeeded is on the job's own row. It runs in the
-- transaction that ends the attempt, whoever does, and locks nothing beside the job's row, which is locked.
-- A settle may end a thousand attempts, so it does no more than this, and pins no plans, which an INSERT has not.
CREATE FUNCTION "{{schema}}"."jobs_record"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    INSERT INTO "{{schema}}"."jobs_attempt" (job_id, attempt, ended_at, outcome, error)
    VALUES (OLD.id, OLD.attempts, clock_timestamp(), CASE
        WHEN NEW.status = 3 AND NEW.cancelled_at IS NOT NULL THEN 'cancelled'
        WHEN NEW.owner_token IS NULL THEN 'lost'
        ELSE 'failed'
    END, NEW.last_error);
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_record"() FROM PUBLIC;

CREATE TRIGGER "jobs_record" AFTER UPDATE OF completed_at ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (OLD.status = 1 AND NEW.status IN (0, 3) AND NEW.attempts = OLD.attempts)
EXECUTE FUNCTION "{{schema}}"."jobs_record"();

-- Deletes what is on record about a job that is deleted. Jobs without a record, which is most of them, cost
-- the test of WHEN; a foreign key would cost each a look-up in two tables. A job has attempts on record only if it
-- failed, needed more than one, or was redriven, which counts its attempts anew; its steps have set trail.
CREATE FUNCTION "{{schema}}"."jobs_forget"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $txwork$
BEGIN
    DELETE FROM "{{schema}}"."jobs_attempt" AS a WHERE a.job_id = OLD.id;
    DELETE FROM "{{schema}}"."jobs_step" AS s WHERE s.job_id = OLD.id;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_forget"() FROM PUBLIC;

CREATE TRIGGER "jobs_forget" AFTER DELETE ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (OLD.trail OR OLD.attempts > 1 OR OLD.failed_at IS NOT NULL OR OLD.headers ->> 'txwork-redriven-at' IS NOT NULL)
EXECUTE FUNCTION "{{schema}}"."jobs_forget"();

-- How many of want jobs of a queue may be claimed now; if tokens are what is short, after how many seconds to
-- ask again; and whether the queue has a rule at all. Call it in the claim's transaction, before the claim, and the function take after
-- it.
--
-- Claims of one limited queue are admitted one after the other: the bucket's row stays locked until the
-- claim's transaction ends. The slots are counted by a statement of their own after the lock was granted, so
-- its snapshot (READ COMMITTED) has the slots of the claim before. A settle that deletes a slot takes no part
-- in this: one that has not committed yet still counts, so the limit is never passed.
CREATE FUNCTION "{{schema}}"."jobs_admit"(queue text, want integer) RETURNS TABLE (admitted integer, again double precision, bounded boolean)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $txwork$
#variable_conflict use_column
DECLARE
    rule "{{schema}}"."jobs_queue"%ROWTYPE;
    bucket "{{schema}}"."jobs_bucket"%ROWTYPE;
    n bigint := $2;
    pause double precision := 0;
    available double precision;
BEGIN
    SELECT q.* INTO rule FROM "{{schema}}"."jobs_queue" AS q WHERE q.name = $1;
    IF rule.paused THEN
        RETURN QUERY SELECT 0, pause, true;
        RETURN;
    END IF;
    IF rule.max_running IS NULL AND rule.rate IS NULL THEN
        RETURN QUERY SELECT $2, pause, false;
        RETURN;
    END IF;

    SELECT b.* INTO bucket FROM "{{schema}}"."jobs_bucket" AS b WHERE b.queue = $1 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        INSERT INTO "{{schema}}"."jobs_bucket" (queue) VALUES ($1) ON CONFLICT DO NOTHING;
        SELECT b.* INTO bucket FROM "{{schema}}"."jobs_bucket" AS b WHERE b.queue = $1 FOR NO KEY UPDATE;
    END IF;

    IF rule.max_running IS NOT NULL THEN
        SELECT least(n, rule.max_running - count(*)) INTO n FROM "{{schema}}"."jobs_slot" AS s WHERE s.queue = $1;
    END IF;
    IF rule.rate IS NOT NULL THEN
        available := least(rule.burst, coalesce(bucket.tokens, rule.burst)
            + rule.rate * greatest(extract(epoch FROM clock_timestamp() - bucket.refilled_at)::double precision, 0));
        IF floor(available) < n THEN
            n := floor(available);
            pause := (n + 1 - available) / rule.rate;
        END IF;
    END IF;
    RETURN QUERY SELECT greatest(n, 0)::integer, pause, true;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_admit"(text, integer) FROM PUBLIC;

-- Takes slots and tokens for jobs that were claimed in this transaction, after admit. The bucket's row and
-- the jobs' rows are locked already. Jobs of queues without a limit take none.
CREATE FUNCTION "{{schema}}"."jobs_take"(queue text, ids uuid[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $txwork$
#variable_conflict use_column
DECLARE
    rule "{{schema}}"."jobs_queue"%ROWTYPE;
BEGIN
    SELECT q.* INTO rule FROM "{{schema}}"."jobs_queue" AS q WHERE q.name = $1;
    IF rule.max_running IS NOT NULL THEN
        INSERT INTO "{{schema}}"."jobs_slot" (job_id, queue)
        SELECT u.id, $1 FROM unnest($2) AS u (id)
        ON CONFLICT (job_id) DO UPDATE SET queue = excluded.queue, taken_at = excluded.taken_at;
        UPDATE "{{schema}}"."jobs" AS t SET slot = true WHERE t.id = ANY ($2) AND t.slot IS NOT TRUE;
    END IF;
    IF rule.rate IS NOT NULL THEN
        UPDATE "{{schema}}"."jobs_bucket" AS b
        SET tokens = least(rule.burst, coalesce(b.tokens, rule.burst)
                + rule.rate * greatest(extract(epoch FROM clock_timestamp() - b.refilled_at)::double precision, 0)) - cardinality($2),
            refilled_at = clock_timestamp()
        WHERE b.queue = $1;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_take"(text, uuid[]) FROM PUBLIC;

-- Gives a job's slot back when the job is no longer in progress, whoever ends that: a settle, the reaper, a
-- deletion. It deletes a row that no other transaction changes, so it waits for nobody; the workers that wait
-- for room are told when it commits.
CREATE FUNCTION "{{schema}}"."jobs_give_slot"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $txwork$
BEGIN
    DELETE FROM "{{schema}}"."jobs_slot" AS s WHERE s.job_id = OLD.id;
    IF FOUND THEN
        PERFORM pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text);
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_give_slot"() FROM PUBLIC;

CREATE TRIGGER "jobs_give_slot" AFTER UPDATE OF completed_at ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (OLD.slot AND OLD.status = 1 AND NEW.status <> 1)
EXECUTE FUNCTION "{{schema}}"."jobs_give_slot"();

CREATE TRIGGER "jobs_drop_slot" AFTER DELETE ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (OLD.slot AND OLD.status = 1)
EXECUTE FUNCTION "{{schema}}"."jobs_give_slot"();

-- Makes the slots agree with the jobs, a bounded number at a time, and returns how many it gave back.
--
-- A queue that gets a limit has jobs running that took no slot. They are given theirs here, for as long after
-- the change as a worker may still claim without having heard of it. Jobs that are being settled are skipped.
--
-- A slot without its job is given back: somebody has changed the job past the triggers. Slots are given back
-- only when they are older than any statement that might still see the job as it was before.
CREATE FUNCTION "{{schema}}"."jobs_slot_sweep"(max_rows integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $txwork$
#variable_conflict use_column
DECLARE
    rule record;
    given integer;
BEGIN
    IF ($1 >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'max_rows must be at least 1' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR rule IN
        SELECT q.name, q.changed_at FROM "{{schema}}"."jobs_queue" AS q WHERE q.adopt ORDER BY q.name FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        WITH running AS (
            SELECT r.id
            FROM "{{schema}}"."jobs" AS r
            WHERE r.completed_at IS NULL
              AND NOT r.waiting
              AND r.queue = rule.name
              AND r.status = 1
              AND NOT EXISTS (SELECT FROM "{{schema}}"."jobs_slot" AS s WHERE s.job_id = r.id)
            LIMIT $1
            FOR NO KEY UPDATE OF r SKIP LOCKED
        ), marked AS (
            UPDATE "{{schema}}"."jobs" AS t SET slot = true FROM running AS r WHERE t.id = r.id RETURNING t.id
        )
        INSERT INTO "{{schema}}"."jobs_slot" (job_id, queue) SELECT m.id, rule.name FROM marked AS m ON CONFLICT DO NOTHING;

        IF rule.changed_at < clock_timestamp() - interval '10 seconds' AND NOT FOUND THEN
            UPDATE "{{schema}}"."jobs_queue" AS q SET adopt = false WHERE q.name = rule.name;
        END IF;
    END LOOP;

    DELETE FROM "{{schema}}"."jobs_slot" AS d
    WHERE d.ctid = ANY (ARRAY(
        SELECT s.ctid
        FROM "{{schema}}"."jobs_slot" AS s
        WHERE s.taken_at < clock_timestamp() - interval '10 seconds'
          AND NOT EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = s.job_id AND t.status = 1 AND t.slot)
        LIMIT $1
        FOR UPDATE OF s SKIP LOCKED));
    GET DIAGNOSTICS given = ROW_COUNT;
    IF given > 0 THEN
        PERFORM pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text);
    END IF;
    RETURN given;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_slot_sweep"(integer) FROM PUBLIC;

-- A join counts how its members settle. Every UPDATE of it but the one that ends it is heap-only, since
-- no column that it sets stands in an index: a wide fan-in updates one row often.
CREATE TABLE "{{schema}}"."jobs_join" (
    id uuid NOT NULL,
    status smallint NOT NULL DEFAULT 0,
    policy smallint NOT NULL DEFAULT 0,
    expected integer NOT NULL DEFAULT 0,
    succeeded integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    late integer NOT NULL DEFAULT 0,
    on_complete uuid,
    on_fail uuid,
    deadline timestamptz,
    label text,
    last_error text,
    created_at timestamptz NOT NULL DEFAULT now(),
    completed_at timestamptz,
    look_at timestamptz NOT NULL DEFAULT now() + interval '1 minute', -- when the sweep has to look
    retention interval NOT NULL, -- how long it is kept after its end
    CONSTRAINT "jobs_join_pkey" PRIMARY KEY (id),
    CONSTRAINT "jobs_join_check" CHECK (
        status BETWEEN 0 AND 3
        AND policy BETWEEN 0 AND 2
        AND (status = 0) = (completed_at IS NULL)
        AND succeeded >= 0 AND failed >= 0 AND late >= 0
        AND succeeded + failed <= expected AND late <= expected
        AND retention BETWEEN interval '0' AND interval '1000 years' -- an end that cannot be computed never comes
        AND (deadline IS NULL OR isfinite(deadline))
    )
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

COMMENT ON TABLE "{{schema}}"."jobs_join" IS 'txwork joins of {{schema}}.jobs. status: 0 pending, 1 completed, 2 failed, 3 cancelled; policy: 0 wait for all, 1 fail fast, 2 any outcome';

CREATE UNIQUE INDEX "jobs_join_done_idx" ON "{{schema}}"."jobs_join" (on_complete) WHERE on_complete IS NOT NULL;

CREATE UNIQUE INDEX "jobs_join_fail_idx" ON "{{schema}}"."jobs_join" (on_fail) WHERE on_fail IS NOT NULL;

CREATE INDEX "jobs_join_look_idx" ON "{{schema}}"."jobs_join" (look_at);

CREATE INDEX "jobs_join_end_idx" ON "{{schema}}"."jobs_join" (completed_at) WHERE completed_at IS NOT NULL;

CREATE INDEX "jobs_join_label_idx" ON "{{schema}}"."jobs_join" (label, id) WHERE label IS NOT NULL;

-- No foreign keys: members outlive neither purge nor an ack that deletes, and every INSERT would lock the
-- join's row.
CREATE TABLE "{{schema}}"."jobs_join_member" (
    member_id uuid NOT NULL,
    join_id uuid NOT NULL,
    outcome smallint, -- 1 succeeded, 2 failed: what counted while the join was pending
    late smallint,    -- the same, after the join had ended
    CONSTRAINT "jobs_join_member_pk" PRIMARY KEY (member_id, join_id),
    CONSTRAINT "jobs_join_member_ck" CHECK (outcome IN (1, 2) AND late IN (1, 2))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

CREATE INDEX "jobs_join_member_ix" ON "{{schema}}"."jobs_join_member" (join_id);

-- pending -> completed, failed or cancelled: the one place that ends a join. Without a verdict the counts
-- and the policy decide, and a join that is not over stays as it is. Returns how many continuations it
-- released or ended.
--
-- status = 0 in the UPDATE makes it happen once: whoever comes second waits for the join's row and then
-- finds it ended. The continuations follow in the same transaction. They are waiting, so nobody claims or
-- settles them meanwhile; one that somebody has cancelled is left alone, and so is one that was redriven after
-- that and now waits for its gate only. Locks are taken join first, then continuation, which is the direction
-- of the graph.
--
-- What becomes of a continuation: released is 0, Ready; an on_fail that is not needed is 2, Done, as if it
-- had run and found nothing to do, since a dead letter that somebody redrives would undo what succeeded; an
-- on_complete that will not run is 3, Failed and cancelled.
CREATE FUNCTION "{{schema}}"."jobs_join_end"(ids uuid[], verdict smallint, error text) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_sort = on
SET jit = off
AS $txwork$
#variable_conflict use_column
DECLARE
    targets uuid[];
    states smallint[];
    reasons text[];
    changed integer;
BEGIN
    WITH ended AS (
        UPDATE "{{schema}}"."jobs_join" AS j
        SET status = coalesce($2, CASE WHEN j.failed > 0 AND j.policy <> 2 THEN 2 ELSE 1 END),
            completed_at = clock_timestamp(),
            look_at = clock_timestamp() + j.retention,
            last_error = coalesce($3, CASE WHEN j.failed > 0 AND j.policy <> 2 THEN (
                SELECT format('%s of %s steps failed, among them %s: %s', j.failed, j.expected, m.member_id,
                              left(coalesce(t.last_error, 'the row is gone'), 1000))
                FROM "{{schema}}"."jobs_join_member" AS m
                LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = m.member_id
                WHERE m.join_id = j.id AND m.outcome = 2
                LIMIT 1
            ) END)
        WHERE j.id = ANY ($1)
          AND j.status = 0
          AND ($2 IS NOT NULL OR j.succeeded + j.failed >= j.expected OR j.failed > 0 AND j.policy = 1)
        RETURNING j.id, j.status, j.on_complete, j.on_fail, j.last_error
    ), continuation AS (
        SELECT e.on_complete AS id,
               CASE WHEN e.status = 1 OR e.status = 2 AND e.on_complete = e.on_fail THEN 0 ELSE 3 END AS state,
               e.id AS join_id, e.status, e.last_error
        FROM ended AS e
        WHERE e.on_complete IS NOT NULL
        UNION ALL
        SELECT e.on_fail, CASE WHEN e.status = 2 THEN 0 ELSE 2 END, e.id, e.status, e.last_error
        FROM ended AS e
        WHERE e.on_fail IS NOT NULL AND e.on_fail IS DISTINCT FROM e.on_complete
    )
    SELECT array_agg(c.id ORDER BY c.id),
           array_agg(c.state ORDER BY c.id),
           array_agg(CASE WHEN c.state > 0 THEN format(
               CASE WHEN c.state = 2 THEN 'not needed: join %s %s%s' ELSE 'cancelled: join %s %s%s' END,
               c.join_id, CASE c.status WHEN 1 THEN 'completed' WHEN 2 THEN 'failed' ELSE 'was cancelled' END, ': ' || c.last_error
           ) END ORDER BY c.id)
    INTO targets, states, reasons
    FROM continuation AS c;
    IF targets IS NULL THEN
        RETURN 0;
    END IF;

    UPDATE "{{schema}}"."jobs" AS t
    SET waiting = c.state > 0, -- a row that ends has not been let through, as with a cancel
        status = c.state,
        due_at = CASE WHEN c.state = 0 THEN greatest(t.due_at, now()) ELSE t.due_at END, -- now(): a drain inside a transaction can claim it
        completed_at = CASE WHEN c.state > 0 THEN clock_timestamp() END,
        failed_at = CASE WHEN c.state = 3 THEN clock_timestamp() END,
        cancelled_at = CASE WHEN c.state > 0 THEN clock_timestamp() END,
        last_error = coalesce(c.reason, t.last_error)
    FROM unnest(targets, states, reasons) AS c (id, state, reason)
    -- CASE hides from the planner that few rows of the table wait: it would read all of it to find them.
    WHERE t.id = c.id AND CASE WHEN t.status = 0 THEN t.waiting AND t.gate_seq IS NULL ELSE false END;
    GET DIAGNOSTICS changed = ROW_COUNT;

    IF 0 = ANY (states) THEN
        PERFORM pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text);
    END IF;
    RETURN changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_end"(uuid[], smallint, text) FROM PUBLIC;

-- Counts settled members in their joins and ends the joins that this completes or fails.
--
-- Two transactions that settle the last two members at once must not each miss the other's. The join's row
-- is locked before anything is read of it: the second waits there until the first has committed, and its
-- next statement, whose snapshot is taken afterwards under READ COMMITTED, sees the first one's count.
-- (Under REPEATABLE READ it fails with 40001 instead, and nothing is lost either.)
--
-- All joins of a statement are locked in the order of their ids. Deadlocks remain possible between
-- transactions that settle with several statements, and along the edges of a graph; the core runs its own
-- transactions again.
--
-- The members are reached from the notes, one index look-up each: a condition on the array of joins would be
-- a filter that is searched for every row.
--
-- A member counts once in a join: outcome and late are set where they are NULL. A redrive takes the failure
-- back where it was counted last.
CREATE FUNCTION "{{schema}}"."jobs_join_count"(notes text[]) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_sort = on
SET jit = off
AS $txwork$
#variable_conflict use_column
DECLARE
    touched uuid[];
BEGIN
    SELECT array_agg(l.id) INTO touched
    FROM (
        SELECT j.id
        FROM "{{schema}}"."jobs_join" AS j
        WHERE j.id = ANY (ARRAY(
            SELECT m.join_id
            FROM "{{schema}}"."jobs_join_member" AS m
            WHERE m.member_id = ANY (ARRAY(SELECT left(n.note, 36)::uuid FROM unnest($1) AS n (note)))))
        ORDER BY j.id
        FOR NO KEY UPDATE
    ) AS l;
    IF touched IS NULL THEN
        RETURN 0;
    END IF;

    WITH changed AS (
        UPDATE "{{schema}}"."jobs_join_member" AS m
        SET outcome = CASE WHEN j.status = 0 THEN nullif(n.outcome, 0) ELSE m.outcome END,
            late = CASE WHEN j.status = 0 THEN m.late ELSE nullif(n.outcome, 0) END
        FROM (SELECT left(u.note, 36)::uuid, right(u.note, 1)::smallint FROM unnest($1) AS u (note)) AS n (id, outcome),
             "{{schema}}"."jobs_join" AS j
        WHERE m.member_id = n.id
          AND j.id = m.join_id
          AND CASE WHEN n.outcome > 0
              THEN CASE WHEN j.status = 0 THEN m.outcome ELSE m.late END IS NULL
              ELSE CASE WHEN j.status = 0 THEN m.outcome ELSE m.late END = 2
          END
        RETURNING m.join_id, n.outcome, j.status = 0 AS counts
    ), sums AS (
        SELECT c.join_id,
               count(*) FILTER (WHERE c.counts AND c.outcome = 1) AS succeeded,
               count(*) FILTER (WHERE c.counts AND c.outcome = 2) - count(*) FILTER (WHERE c.counts AND c.outcome = 0) AS failed,
               count(*) FILTER (WHERE NOT c.counts AND c.outcome > 0) - count(*) FILTER (WHERE NOT c.counts AND c.outcome = 0) AS late
        FROM changed AS c
        GROUP BY c.join_id
    )
    -- More members than are expected were written by hand. To refuse their count would refuse their settle.
    UPDATE "{{schema}}"."jobs_join" AS j
    SET succeeded = j.succeeded + s.succeeded,
        failed = j.failed + s.failed,
        late = j.late + s.late,
        expected = greatest(j.expected, j.succeeded + s.succeeded + j.failed + s.failed, j.late + s.late)
    FROM sums AS s
    WHERE j.id = s.join_id;

    RETURN "{{schema}}"."jobs_join_end"(touched, NULL, NULL);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_count"(text[]) FROM PUBLIC;

-- Notes that a member has settled, or was redriven, for the statement's flush: the id and its outcome, 1
-- succeeded, 2 failed, 0 taken back. The notes are a setting that is local to the transaction, so a
-- rollback, also one to a savepoint, forgets them. Nothing is locked here.
--
-- A row that is deleted while it is live never settled. It counts as failed, whoever held it.
CREATE FUNCTION "{{schema}}"."jobs_join_collect"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    outcome text := '2';
BEGIN
    IF TG_OP = 'UPDATE' THEN
        outcome := CASE WHEN NEW.completed_at IS NULL THEN '0' WHEN NEW.status = 2 THEN '1' ELSE '2' END;
    END IF;
    PERFORM set_config('txwork_join_notes.{{schema}}.jobs', coalesce(current_setting('txwork_join_notes.{{schema}}.jobs', true), '') || OLD.id || outcome || ',', true);
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_collect"() FROM PUBLIC;

CREATE TRIGGER "jobs_join_settle" AFTER UPDATE OF completed_at ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (OLD.completed_at IS NULL AND NEW.completed_at IS NOT NULL AND NEW.joined)
EXECUTE FUNCTION "{{schema}}"."jobs_join_collect"();

CREATE TRIGGER "jobs_join_redrive" AFTER UPDATE OF completed_at ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (OLD.status = 3 AND NEW.completed_at IS NULL AND NEW.joined)
EXECUTE FUNCTION "{{schema}}"."jobs_join_collect"();

CREATE TRIGGER "jobs_join_delete" AFTER DELETE ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (OLD.completed_at IS NULL AND OLD.joined)
EXECUTE FUNCTION "{{schema}}"."jobs_join_collect"();

-- Counts what the statement's rows have noted: one call of count for the whole statement, so that its joins
-- are locked in one order. PostgreSQL runs it after the row triggers of the same statement. A statement
-- without members pays for reading one setting.
--
-- Ending a join may end rows which are members of other joins. Their statement finds the flush running
-- and leaves its notes to the loop: however deep the graph, the stack is not.
CREATE FUNCTION "{{schema}}"."jobs_join_flush"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    notes text := current_setting('txwork_join_notes.{{schema}}.jobs', true);
BEGIN
    IF coalesce(notes, '') = '' OR current_setting('txwork_join_flushing.{{schema}}.jobs', true) = 'yes' THEN
        RETURN NULL;
    END IF;
    PERFORM set_config('txwork_join_flushing.{{schema}}.jobs', 'yes', true);
    WHILE notes <> '' LOOP
        PERFORM set_config('txwork_join_notes.{{schema}}.jobs', '', true);
        PERFORM "{{schema}}"."jobs_join_count"(string_to_array(rtrim(notes, ','), ','));
        notes := current_setting('txwork_join_notes.{{schema}}.jobs', true);
    END LOOP;
    PERFORM set_config('txwork_join_flushing.{{schema}}.jobs', '', true);
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_flush"() FROM PUBLIC;

CREATE TRIGGER "jobs_join_flush" AFTER UPDATE OF completed_at OR DELETE ON "{{schema}}"."jobs"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."jobs_join_flush"();

-- Deletes joins with their members. The caller holds the joins' rows FOR UPDATE: a late member that waits
-- for one in count then finds no join, and nothing to count.
CREATE FUNCTION "{{schema}}"."jobs_join_forget"(ids uuid[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_sort = on
SET jit = off
AS $txwork$
BEGIN
    DELETE FROM "{{schema}}"."jobs_join_member" AS m WHERE m.join_id = ANY ($1);
    DELETE FROM "{{schema}}"."jobs_join" AS j WHERE j.id = ANY ($1);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_forget"(uuid[]) FROM PUBLIC;

-- Deletes up to max_rows joins that ended longer ago than age, oldest first.
CREATE FUNCTION "{{schema}}"."jobs_join_purge"(age interval, max_rows integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_sort = on
SET jit = off
AS $txwork$
DECLARE
    old uuid[];
BEGIN
    SELECT array_agg(l.id) INTO old
    FROM (
        SELECT j.id
        FROM "{{schema}}"."jobs_join" AS j
        WHERE j.completed_at IS NOT NULL AND j.completed_at < now() - $1
        ORDER BY j.completed_at
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) AS l;
    PERFORM "{{schema}}"."jobs_join_forget"(old);
    RETURN coalesce(cardinality(old), 0);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_purge"(interval, integer) FROM PUBLIC;

-- What no settle can do: fails joins whose deadline has passed, by the database's clock; repairs pending
-- joins whose counts are behind their members' rows; forgets ended joins after their retention. Returns
-- how many continuations it released or ended.
--
-- One index tells which joins are to be looked at: at their deadline, and before that after a minute, two,
-- four, … of their age, at least every quarter of an hour. SKIP LOCKED leaves alone a join that is being
-- counted or swept this moment. The locks are held before the members are read, so a settle is either
-- committed and seen here or waits in count until this has ended.
CREATE FUNCTION "{{schema}}"."jobs_join_sweep"(max_rows integer DEFAULT 100) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_sort = on
SET jit = off
AS $txwork$
#variable_conflict use_column
DECLARE
    pending uuid[];
    ended uuid[];
    changed integer;
BEGIN
    IF (max_rows >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'max_rows must be at least 1' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT array_agg(l.id) FILTER (WHERE l.status = 0), array_agg(l.id) FILTER (WHERE l.status <> 0)
    INTO pending, ended
    FROM (
        SELECT j.id, j.status
        FROM "{{schema}}"."jobs_join" AS j
        WHERE j.look_at <= now()
        ORDER BY j.look_at
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    ) AS l;
    IF ended IS NOT NULL THEN
        PERFORM "{{schema}}"."jobs_join_forget"(ended);
    END IF;
    IF pending IS NULL THEN
        RETURN 0;
    END IF;
    -- Some hundred milliseconds' worth of members, but one join at least. The next sweep goes on.
    pending := ARRAY(
        SELECT s.id
        FROM (
            SELECT j.id, sum(j.expected) OVER (ORDER BY j.look_at, j.id) - j.expected AS members_before
            FROM "{{schema}}"."jobs_join" AS j
            WHERE j.id = ANY (pending)
        ) AS s
        WHERE s.members_before < 20000);

    UPDATE "{{schema}}"."jobs_join_member" AS m
    SET outcome = CASE WHEN t.status = 2 THEN 1 ELSE 2 END
    FROM "{{schema}}"."jobs_join_member" AS o
    LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = o.member_id
    WHERE o.join_id = ANY (pending)
      AND o.outcome IS NULL
      AND (t.id IS NULL OR t.completed_at IS NOT NULL)
      AND m.member_id = o.member_id
      AND m.join_id = o.join_id;

    UPDATE "{{schema}}"."jobs_join" AS j
    SET expected = c.expected,
        succeeded = c.succeeded,
        failed = c.failed
    FROM (
        SELECT m.join_id,
               count(*) AS expected,
               count(*) FILTER (WHERE m.outcome = 1) AS succeeded,
               count(*) FILTER (WHERE m.outcome = 2) AS failed
        FROM "{{schema}}"."jobs_join_member" AS m
        WHERE m.join_id = ANY (pending)
        GROUP BY m.join_id
    ) AS c
    WHERE j.id = c.join_id
      AND (j.expected, j.succeeded, j.failed) IS DISTINCT FROM (c.expected, c.succeeded, c.failed);

    changed := "{{schema}}"."jobs_join_end"(pending, NULL, NULL);
    changed := changed + "{{schema}}"."jobs_join_end"(
        ARRAY(SELECT j.id FROM "{{schema}}"."jobs_join" AS j WHERE j.id = ANY (pending) AND j.status = 0 AND j.deadline <= now()),
        2::smallint, 'the deadline has passed');
    UPDATE "{{schema}}"."jobs_join" AS j
    SET look_at = least(j.deadline, now() + least(greatest(now() - j.created_at, interval '1 minute'), interval '15 minutes'))
    WHERE j.id = ANY (pending) AND j.status = 0;
    RETURN changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_sweep"(integer) FROM PUBLIC;

-- Gates of "{{schema}}"."jobs": rows with a gate_key wait outside the claim index until their key lets them through.
--
-- gate_limit = 0, a serial key: one live row at a time, in commit order. Writers of a key serialise on an
-- advisory lock that they hold until they commit, so that gate_seq, drawn under it, grows in commit order. A
-- row that finds no other live row of its key enters at once, every other waits for the settle of the one
-- before it. A settle takes no lock of the writers, so it waits for no application. Hence the one gap: a
-- writer sees the last row live, that row settles without seeing the writer's uncommitted one, and nobody
-- lets it through. The insert's notification makes workers sweep, and the sweep finds it.
--
-- gate_limit = n > 0: at most n rows outside the gate, by due time. Their writers take no lock and always
-- wait for a sweep; a row that goes back for a retry gives its place up and waits again.
CREATE SEQUENCE "{{schema}}"."jobs_gate_seq";

CREATE TABLE "{{schema}}"."jobs_gate_cursor" (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    serial_key text NOT NULL DEFAULT '', -- where the next sweep goes on
    limited_key text NOT NULL DEFAULT '',
    rate_key text NOT NULL DEFAULT ''
) WITH (fillfactor = 10);

INSERT INTO "{{schema}}"."jobs_gate_cursor" DEFAULT VALUES;

CREATE TABLE "{{schema}}"."jobs_gate_rate" (
    gate_key text PRIMARY KEY,
    tokens double precision NOT NULL,
    refilled_at timestamptz NOT NULL,
    rate double precision NOT NULL,
    burst integer NOT NULL
) WITH (fillfactor = 50);

-- What a gate may look like is checked where a row comes to it: the server reads a CHECK anew for every statement
-- that writes to the table, also for those whose rows have no gate.
ALTER TABLE "{{schema}}"."jobs" ADD CONSTRAINT "jobs_gate_check" CHECK ((gate_key IS NULL) = (gate_limit IS NULL));

-- Who waits, by key: serial ones in their order, others by due time.
CREATE INDEX "jobs_gate_wait_idx" ON "{{schema}}"."jobs" (gate_key, gate_seq)
    WHERE completed_at IS NULL AND waiting AND gate_limit = 0 AND gate_seq IS NOT NULL;
CREATE INDEX "jobs_gate_queue_idx" ON "{{schema}}"."jobs" (gate_key, due_at, gate_seq)
    WHERE completed_at IS NULL AND waiting AND gate_limit > 0 AND gate_seq IS NOT NULL;

-- Who is through. That a serial key has one such row at most holds whatever the rest of this file does.
CREATE UNIQUE INDEX "jobs_gate_one_idx" ON "{{schema}}"."jobs" (gate_key)
    WHERE completed_at IS NULL AND NOT waiting AND gate_limit = 0 AND gate_seq IS NOT NULL;
CREATE INDEX "jobs_gate_live_idx" ON "{{schema}}"."jobs" (gate_key)
    WHERE completed_at IS NULL AND NOT waiting AND gate_limit > 0 AND gate_seq IS NOT NULL;

-- Dead letters that stand in the way of the rows behind them.
CREATE INDEX "jobs_gate_fail_idx" ON "{{schema}}"."jobs" (gate_key, gate_seq)
    WHERE failed_at IS NOT NULL AND cancelled_at IS NULL AND gate_policy > 0;

-- A row comes to its gate when it is inserted. The lock comes first and every statement after it has a snapshot of
-- its own (READ COMMITTED), so what an earlier writer of the key committed is seen. Under a stricter isolation it
-- may not be: such a row always waits.
CREATE FUNCTION "{{schema}}"."jobs_gate_enter"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $txwork$
BEGIN
    IF (octet_length(NEW.gate_key) BETWEEN 1 AND 255 AND NEW.gate_limit >= 0 AND NEW.gate_policy BETWEEN 0 AND 2
        AND (NEW.gate_rate IS NULL) = (NEW.gate_burst IS NULL)
        AND (NEW.gate_rate IS NULL OR NEW.gate_limit > 0 AND NEW.gate_rate BETWEEN 1e-09 AND 1e+09 AND NEW.gate_burst >= 1)) IS NOT TRUE THEN
        RAISE EXCEPTION 'the gate of key % cannot be: it needs a key of 1 to 255 bytes, a limit of at least 0, a policy of 0 to 2, and a rate of 1e-09 to 1e+09 and a burst together, with a limit', left(NEW.gate_key, 40)
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_gate_check';
    END IF;
    IF NEW.waiting THEN
        NEW.gate_seq := NULL; -- it waits for something else first
        RETURN NEW;
    END IF;
    IF NEW.gate_limit = 0 THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('{{schema}}.jobs ' || NEW.gate_key, 1));
    END IF;
    NEW.gate_seq := nextval('"{{schema}}"."jobs_gate_seq"');
    NEW.waiting := NEW.gate_limit > 0
        OR current_setting('transaction_isolation') <> 'read committed'
        OR EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.gate_key = NEW.gate_key AND t.gate_limit = 0 AND t.completed_at IS NULL AND NOT t.waiting AND t.gate_seq IS NOT NULL)
        OR EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.gate_key = NEW.gate_key AND t.gate_limit = 0 AND t.completed_at IS NULL AND t.waiting AND t.gate_seq IS NOT NULL)
        OR EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.gate_key = NEW.gate_key AND t.failed_at IS NOT NULL AND t.cancelled_at IS NULL AND t.gate_policy > 0);
    RETURN NEW;
END
$txwork$;

-- A row comes to its gate later: what it waited for before, a join, released it, or it is redriven and never got
-- so far. It waits: only an insert takes the writers' lock, which a settle must not wait for.
--
-- This and the next are AFTER triggers with an UPDATE of their own. A BEFORE UPDATE trigger would lock each row that
-- any statement updates first, claims and acks of rows without a gate included.
CREATE FUNCTION "{{schema}}"."jobs_gate_come"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $txwork$
BEGIN
    UPDATE "{{schema}}"."jobs" AS t
    SET waiting = true, gate_seq = nextval('"{{schema}}"."jobs_gate_seq"')
    WHERE t.id = NEW.id AND t.status = 0 AND t.gate_seq IS NULL;
    RETURN NULL;
END
$txwork$;

-- A row gives its place among several up: it was put back for later.
CREATE FUNCTION "{{schema}}"."jobs_gate_back"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $txwork$
BEGIN
    UPDATE "{{schema}}"."jobs" AS t SET waiting = true WHERE t.id = NEW.id AND t.status = 0;
    PERFORM "{{schema}}"."jobs_gate_promote"(NEW.gate_key, false, false);
    RETURN NULL;
END
$txwork$;

-- Lets through what the key has room for. Promoters of a key take turns by an advisory lock of their own,
-- held for a few statements; whoever finds it taken leaves the work to its holder or to the next sweep, so
-- settles cannot deadlock here. Nor do they wait for a row: one that somebody holds locked, such as an
-- application that is cancelling it, is left to the next sweep, too. careful is for callers that have not just
-- taken a row of the key out of play: an application may be writing the key's first row this moment, and they
-- must not wait for it; and they look before they take locks, of which the server has not many.
--
-- A row that is let through is due now at the earliest, and now is when the transaction began: the notification
-- leads claim cursors back to there, and a drain inside a transaction can claim it.
CREATE FUNCTION "{{schema}}"."jobs_gate_promote"(k text, serial boolean, careful boolean) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $txwork$
DECLARE
    head record;
    obstacle record;
    room integer;
    n integer := 0;
BEGIN
    IF serial THEN
        SELECT t.id INTO head FROM "{{schema}}"."jobs" AS t
        WHERE t.gate_key = k AND t.completed_at IS NULL AND t.waiting AND t.gate_limit = 0 AND t.gate_seq IS NOT NULL
        ORDER BY t.gate_key, t.gate_seq LIMIT 1;
    ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN 0; -- it cannot see who is through
    ELSE
        SELECT t.id, t.gate_limit, t.gate_rate, t.gate_burst INTO head FROM "{{schema}}"."jobs" AS t
        WHERE t.gate_key = k AND t.completed_at IS NULL AND t.waiting AND t.gate_limit > 0 AND t.gate_seq IS NOT NULL
          AND t.due_at <= clock_timestamp()
        ORDER BY t.gate_key, t.due_at, t.gate_seq LIMIT 1;
        IF careful AND "{{schema}}"."jobs_gate_room"(k, head.gate_limit) <= 0 THEN
            RETURN 0;
        END IF;
    END IF;
    IF head.id IS NULL OR NOT pg_try_advisory_xact_lock(hashtextextended('{{schema}}.jobs ' || k, 2))
        OR careful AND serial AND NOT pg_try_advisory_xact_lock(hashtextextended('{{schema}}.jobs ' || k, 1)) THEN
        RETURN 0;
    END IF;

    IF serial THEN
        -- What was read before the lock may be out of date; the statements below see what the last holder did.
        IF EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.gate_key = k AND t.completed_at IS NULL AND NOT t.waiting AND t.gate_limit = 0 AND t.gate_seq IS NOT NULL) THEN
            RETURN 0;
        END IF;
        SELECT t.id, t.gate_seq INTO head FROM "{{schema}}"."jobs" AS t
        WHERE t.gate_key = k AND t.completed_at IS NULL AND t.waiting AND t.gate_limit = 0 AND t.gate_seq IS NOT NULL
        ORDER BY t.gate_key, t.gate_seq LIMIT 1;
        SELECT t.id, t.gate_policy INTO obstacle FROM "{{schema}}"."jobs" AS t
        WHERE t.gate_key = k AND t.failed_at IS NOT NULL AND t.cancelled_at IS NULL AND t.gate_policy > 0 AND t.gate_seq < head.gate_seq
        ORDER BY t.gate_key, t.gate_seq LIMIT 1;
        IF obstacle.gate_policy = 2 THEN
            RETURN "{{schema}}"."jobs_gate_park"(k, obstacle.id);
        ELSIF obstacle.id IS NOT NULL THEN
            RETURN 0;
        END IF;
        UPDATE "{{schema}}"."jobs" AS t SET waiting = false, due_at = greatest(t.due_at, now())
        WHERE t.ctid = ANY (ARRAY(
            SELECT r.ctid FROM "{{schema}}"."jobs" AS r
            WHERE r.id = head.id AND r.waiting AND r.completed_at IS NULL
            FOR NO KEY UPDATE SKIP LOCKED));
        GET DIAGNOSTICS n = ROW_COUNT;
    ELSE
        room := least("{{schema}}"."jobs_gate_room"(k, head.gate_limit), 1000);
        IF room > 0 AND head.gate_rate IS NOT NULL THEN
            room := least(room, floor("{{schema}}"."jobs_gate_refill"(k, head.gate_rate, head.gate_burst)));
        END IF;
        IF room <= 0 THEN
            RETURN 0;
        END IF;
        UPDATE "{{schema}}"."jobs" AS t SET waiting = false, due_at = greatest(t.due_at, now())
        WHERE t.ctid = ANY (ARRAY(
            SELECT r.ctid FROM "{{schema}}"."jobs" AS r
            WHERE r.gate_key = k AND r.completed_at IS NULL AND r.waiting AND r.gate_limit > 0 AND r.gate_seq IS NOT NULL
              AND r.due_at <= clock_timestamp()
            ORDER BY r.gate_key, r.due_at, r.gate_seq
            LIMIT room
            FOR NO KEY UPDATE SKIP LOCKED));
        GET DIAGNOSTICS n = ROW_COUNT;
        IF head.gate_rate IS NOT NULL THEN
            UPDATE "{{schema}}"."jobs_gate_rate" AS b SET tokens = b.tokens - n WHERE b.gate_key = k;
        END IF;
    END IF;
    IF n > 0 THEN
        PERFORM pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text);
    END IF;
    RETURN n;
END
$txwork$;

-- How many more rows of a limited key may be through. Counts no more than the limit, and nothing without one.
CREATE FUNCTION "{{schema}}"."jobs_gate_room"(k text, most integer) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF most = 2147483647 THEN
        RETURN most;
    END IF;
    RETURN most - count(*) FROM (
        SELECT FROM "{{schema}}"."jobs" AS t
        WHERE t.gate_key = k AND t.completed_at IS NULL AND NOT t.waiting AND t.gate_limit > 0 AND t.gate_seq IS NOT NULL
        LIMIT most) AS live;
END
$txwork$;

-- The tokens of a key's bucket now. Called under the promoters' lock only. A clock that was set back takes no
-- tokens away.
CREATE FUNCTION "{{schema}}"."jobs_gate_refill"(k text, rate double precision, burst integer) RETURNS double precision
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $txwork$
    INSERT INTO "{{schema}}"."jobs_gate_rate" AS b (gate_key, tokens, refilled_at, rate, burst)
    VALUES (k, $3, clock_timestamp(), $2, $3)
    ON CONFLICT (gate_key) DO UPDATE
    SET tokens = least($3, b.tokens + $2 * greatest(extract(epoch FROM clock_timestamp() - b.refilled_at)::float8, 0)),
        refilled_at = clock_timestamp(),
        rate = $2,
        burst = $3
    RETURNING b.tokens
$txwork$;

-- Ready -> Failed for the rows that wait behind a dead letter whose policy is Park.
CREATE FUNCTION "{{schema}}"."jobs_gate_park"(k text, behind uuid) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $txwork$
DECLARE
    n integer;
BEGIN
    UPDATE "{{schema}}"."jobs" AS t
    SET status = 3,
        completed_at = clock_timestamp(),
        failed_at = clock_timestamp(),
        last_error = 'parked behind ' || behind
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid FROM "{{schema}}"."jobs" AS r
        WHERE r.gate_key = k AND r.completed_at IS NULL AND r.waiting AND r.gate_limit = 0 AND r.gate_seq IS NOT NULL
        ORDER BY r.gate_key, r.gate_seq
        LIMIT 1000
        FOR NO KEY UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$txwork$;

-- A row of the key is out of play, or came back: the key may have room.
CREATE FUNCTION "{{schema}}"."jobs_gate_leave"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    -- Only a row that was through and is settled leaves the key certainly without another writer's first row.
    PERFORM "{{schema}}"."jobs_gate_promote"(OLD.gate_key, OLD.gate_limit = 0, OLD.completed_at IS NOT NULL);
    RETURN NULL;
END
$txwork$;

-- Takes dead letters out of the way of the rows behind them, as if their policy had been Skip.
CREATE FUNCTION "{{schema}}"."jobs_gate_skip"(ids uuid[]) RETURNS SETOF uuid
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $txwork$
    UPDATE "{{schema}}"."jobs" AS t SET gate_policy = 0
    WHERE t.id = ANY (ids) AND t.failed_at IS NOT NULL AND t.gate_policy > 0
    RETURNING t.id
$txwork$;

-- Lets through what no settle did: rows of a key that wait although it has room. Goes through the keys from
-- where the last sweep ended, 5000 of each sort at most; the cursor's row lock makes sweeps take turns.
CREATE FUNCTION "{{schema}}"."jobs_gate_sweep"(max_rows integer) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $txwork$
DECLARE
    place record;
    k text;
    seq bigint;
    seen text;
    full_keys text[];
    n integer := 0;
BEGIN
    IF (max_rows >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'max_rows must be at least 1' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT c.serial_key, c.limited_key, c.rate_key INTO place FROM "{{schema}}"."jobs_gate_cursor" AS c FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        INSERT INTO "{{schema}}"."jobs_gate_cursor" DEFAULT VALUES ON CONFLICT DO NOTHING; -- somebody truncated it
        RETURN 0;
    END IF;
    IF NOT EXISTS (SELECT FROM "{{schema}}"."jobs" AS t
        WHERE t.completed_at IS NULL AND t.waiting AND t.gate_limit = 0 AND t.gate_seq IS NOT NULL AND t.gate_key > place.serial_key) THEN
        place.serial_key := ''; -- the last sweep ended at the last key
    END IF;
    seen := '';
    FOR k, seq IN
        WITH RECURSIVE keys AS (
            (SELECT t.gate_key AS key, t.gate_seq AS seq, 1 AS nth FROM "{{schema}}"."jobs" AS t
                WHERE t.completed_at IS NULL AND t.waiting AND t.gate_limit = 0 AND t.gate_seq IS NOT NULL AND t.gate_key > place.serial_key
                ORDER BY t.gate_key, t.gate_seq LIMIT 1)
            UNION ALL
            SELECT head.gate_key, head.gate_seq, keys.nth + 1
            FROM keys LEFT JOIN LATERAL (
                SELECT t.gate_key, t.gate_seq FROM "{{schema}}"."jobs" AS t
                WHERE t.completed_at IS NULL AND t.waiting AND t.gate_limit = 0 AND t.gate_seq IS NOT NULL AND t.gate_key > keys.key
                ORDER BY t.gate_key, t.gate_seq LIMIT 1) AS head ON true
            WHERE keys.key IS NOT NULL AND keys.nth < 5000
        )
        SELECT keys.key, keys.seq FROM keys
    LOOP
        seen := k; -- NULL past the last key: start again
        CONTINUE WHEN k IS NULL
            OR EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.gate_key = k AND t.completed_at IS NULL AND NOT t.waiting AND t.gate_limit = 0 AND t.gate_seq IS NOT NULL)
            OR 1 = (SELECT t.gate_policy FROM "{{schema}}"."jobs" AS t
                WHERE t.gate_key = k AND t.failed_at IS NOT NULL AND t.cancelled_at IS NULL AND t.gate_policy > 0 AND t.gate_seq < seq
                ORDER BY t.gate_key, t.gate_seq LIMIT 1);
        n := n + "{{schema}}"."jobs_gate_promote"(k, true, true);
        EXIT WHEN n >= max_rows;
    END LOOP;
    place.serial_key := coalesce(seen, '');

    IF NOT EXISTS (SELECT FROM "{{schema}}"."jobs" AS t
        WHERE t.completed_at IS NULL AND t.waiting AND t.gate_limit > 0 AND t.gate_seq IS NOT NULL AND t.gate_key > place.limited_key) THEN
        place.limited_key := '';
    END IF;
    seen := '';
    FOR k IN
        WITH RECURSIVE keys AS (
            SELECT (SELECT t.gate_key FROM "{{schema}}"."jobs" AS t
                WHERE t.completed_at IS NULL AND t.waiting AND t.gate_limit > 0 AND t.gate_seq IS NOT NULL AND t.gate_key > place.limited_key
                ORDER BY t.gate_key, t.due_at, t.gate_seq LIMIT 1) AS key, 1 AS nth
            UNION ALL
            SELECT (SELECT t.gate_key FROM "{{schema}}"."jobs" AS t
                WHERE t.completed_at IS NULL AND t.waiting AND t.gate_limit > 0 AND t.gate_seq IS NOT NULL AND t.gate_key > keys.key
                ORDER BY t.gate_key, t.due_at, t.gate_seq LIMIT 1), keys.nth + 1
            FROM keys WHERE keys.key IS NOT NULL AND keys.nth < 5000
        )
        SELECT keys.key FROM keys
    LOOP
        seen := k;
        CONTINUE WHEN k IS NULL;
        n := n + "{{schema}}"."jobs_gate_promote"(k, false, true);
        EXIT WHEN n >= max_rows;
    END LOOP;
    place.limited_key := coalesce(seen, '');

    -- A full bucket is as good as none. A hundred of them are looked at in a sweep.
    SELECT array_agg(l.gate_key), max(l.gate_key) INTO full_keys, seen
    FROM (
        SELECT b.gate_key FROM "{{schema}}"."jobs_gate_rate" AS b
        WHERE b.gate_key > place.rate_key ORDER BY b.gate_key LIMIT 100) AS l;
    place.rate_key := coalesce(seen, '');
    DELETE FROM "{{schema}}"."jobs_gate_rate" AS b
    WHERE b.ctid = ANY (ARRAY(
        SELECT r.ctid FROM "{{schema}}"."jobs_gate_rate" AS r
        WHERE r.gate_key = ANY (full_keys) AND r.refilled_at < now() - interval '1 minute'
          AND r.tokens + r.rate * extract(epoch FROM now() - r.refilled_at)::float8 >= r.burst
        FOR UPDATE SKIP LOCKED));
    UPDATE "{{schema}}"."jobs_gate_cursor" AS c
    SET serial_key = place.serial_key, limited_key = place.limited_key, rate_key = place.rate_key
    WHERE (c.serial_key, c.limited_key, c.rate_key) <> (place.serial_key, place.limited_key, place.rate_key);
    RETURN n;
END
$txwork$;

CREATE TRIGGER "jobs_gate_enter" BEFORE INSERT ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (NEW.gate_key IS NOT NULL) EXECUTE FUNCTION "{{schema}}"."jobs_gate_enter"();

CREATE TRIGGER "jobs_gate_come" AFTER UPDATE OF waiting ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (NEW.gate_key IS NOT NULL AND NEW.gate_seq IS NULL AND NEW.status = 0
    AND (OLD.waiting AND NOT NEW.waiting OR OLD.status = 3))
EXECUTE FUNCTION "{{schema}}"."jobs_gate_come"();

CREATE TRIGGER "jobs_gate_back" AFTER UPDATE OF status ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (NEW.gate_seq IS NOT NULL AND NEW.gate_limit > 0 AND OLD.status = 1 AND NEW.status = 0)
EXECUTE FUNCTION "{{schema}}"."jobs_gate_back"();

CREATE TRIGGER "jobs_gate_leave" AFTER UPDATE OF completed_at, waiting, gate_policy ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (NEW.gate_seq IS NOT NULL AND (
    NOT OLD.waiting AND OLD.completed_at IS NULL AND NEW.completed_at IS NOT NULL
    OR OLD.completed_at IS NOT NULL AND NEW.completed_at IS NULL
    OR OLD.gate_policy > 0 AND NEW.gate_policy = 0))
EXECUTE FUNCTION "{{schema}}"."jobs_gate_leave"();

CREATE TRIGGER "jobs_gate_gone" AFTER DELETE ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (OLD.gate_seq IS NOT NULL AND (OLD.failed_at IS NOT NULL OR OLD.completed_at IS NULL AND NOT OLD.waiting))
EXECUTE FUNCTION "{{schema}}"."jobs_gate_leave"();

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_gate_enter"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_gate_come"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_gate_back"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_gate_leave"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_gate_sweep"(integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_gate_skip"(uuid[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_gate_promote"(text, boolean, boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_gate_room"(text, integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_gate_refill"(text, double precision, integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_gate_park"(text, uuid) FROM PUBLIC;

-- A policy that cannot be computed would fail the reaper's whole batch. A domain, because the server reads a CHECK of
-- a table anew for every statement that writes to the table, and a domain's once in a session. Whole microseconds and
-- a jitter that is none or felt: NaN passes a >=, and what is too large or too small fails a multiplication. Each
-- operator has the very types of its operands, so that none of somebody's search_path fits better.
CREATE DOMAIN "{{schema}}"."jobs_schedule_retry" AS jsonb CONSTRAINT "jobs_schedule_retry_check" CHECK (
    VALUE IS NULL
    OR ((VALUE ->> 'base_us')::bigint BETWEEN 0 AND 315360000000000
        AND (VALUE ->> 'cap_us')::bigint BETWEEN 0 AND 315360000000000
        AND (coalesce((VALUE ->> 'jitter')::float8, 0::float8) = 0::float8
            OR (VALUE ->> 'jitter')::float8 BETWEEN 1e-09::float8 AND 1::float8)) IS TRUE
);

CREATE TABLE "{{schema}}"."jobs_schedule" (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    due_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    max_attempts integer NOT NULL DEFAULT 1000000,
    "grace" bigint NOT NULL,
    "jitter" bigint NOT NULL,
    "fired" bigint NOT NULL,
    "skipped" bigint NOT NULL,
    "cap" integer NOT NULL,
    "paused" boolean NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    status smallint NOT NULL DEFAULT 0,
    waiting boolean NOT NULL DEFAULT false,
    locked_until timestamptz,
    completed_at timestamptz,
    owner_token uuid,
    failed_at timestamptz,
    cancelled_at timestamptz,
    last_error text,
    headers jsonb,
    retry "{{schema}}"."jobs_schedule_retry",
    "name" text NOT NULL,
    "expr" text NOT NULL,
    "zone" text NOT NULL,
    "misfire" text NOT NULL,
    "overlap" text NOT NULL,
    "template" bytea NOT NULL,
    "next_at" timestamptz,
    "last_at" timestamptz,
    "buffered_at" timestamptz,
    CONSTRAINT "jobs_schedule_state_check" CHECK (CASE status
        WHEN 0 THEN locked_until IS NULL AND completed_at IS NULL AND failed_at IS NULL
            AND attempts < max_attempts -- a row that no claim may start would block every claim
        WHEN 1 THEN locked_until IS NOT NULL AND completed_at IS NULL AND failed_at IS NULL
            AND owner_token IS NOT NULL AND NOT waiting
        WHEN 2 THEN locked_until IS NULL AND completed_at IS NOT NULL AND failed_at IS NULL
        WHEN 3 THEN locked_until IS NULL AND completed_at IS NOT NULL AND failed_at IS NOT NULL
        ELSE false
    END),
    CONSTRAINT "jobs_schedule_attempts_check" CHECK (attempts BETWEEN 0 AND max_attempts AND max_attempts > 0),
    CONSTRAINT "jobs_schedule_due_check" CHECK (isfinite(due_at))
) WITH (
    fillfactor = 42,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);

COMMENT ON TABLE "{{schema}}"."jobs_schedule" IS 'txwork core 1';

CREATE INDEX "jobs_schedule_claim_idx" ON "{{schema}}"."jobs_schedule" (due_at, id) WHERE completed_at IS NULL AND NOT waiting;

CREATE INDEX "jobs_schedule_waiting_idx" ON "{{schema}}"."jobs_schedule" (id) WHERE completed_at IS NULL AND waiting;

CREATE INDEX "jobs_schedule_done_idx" ON "{{schema}}"."jobs_schedule" (completed_at) WHERE completed_at IS NOT NULL AND failed_at IS NULL;

CREATE INDEX "jobs_schedule_failed_idx" ON "{{schema}}"."jobs_schedule" (failed_at, id) WHERE failed_at IS NOT NULL;

CREATE UNIQUE INDEX "jobs_schedule_unique_idx" ON "{{schema}}"."jobs_schedule" ("name") WHERE "name" IS NOT NULL;

-- No search_path is pinned, every name is qualified instead: to set one and set it back is a tenth of what a
-- transaction that inserts one row costs the server.
CREATE FUNCTION "{{schema}}"."jobs_schedule_announce"() RETURNS trigger
LANGUAGE plpgsql
AS $txwork$
BEGIN
    PERFORM pg_catalog.pg_notify('{{schema}}.jobs_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text);
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_announce"() FROM PUBLIC;

CREATE TRIGGER "jobs_schedule_announce" AFTER INSERT ON "{{schema}}"."jobs_schedule"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."jobs_schedule_announce"();

CREATE FUNCTION "{{schema}}"."jobs_schedule_claim"(owner_token uuid, lease_seconds integer, batch_size integer) RETURNS SETOF uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = on
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_tidscan = on
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN RAISE EXCEPTION 'owner_token must not be NULL: use a fresh one for every claim' USING ERRCODE = 'invalid_parameter_value'; END IF;
    IF ($2 >= 1) IS NOT TRUE THEN RAISE EXCEPTION 'lease_seconds must be at least 1' USING ERRCODE = 'invalid_parameter_value'; END IF;
    IF ($3 >= 1) IS NOT TRUE THEN RAISE EXCEPTION 'batch_size must be at least 1' USING ERRCODE = 'invalid_parameter_value'; END IF;
    RETURN QUERY
WITH claimed AS (
UPDATE "{{schema}}"."jobs_schedule" AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = $1::uuid,
    locked_until = clock_timestamp() + make_interval(secs => $2)::interval
WHERE t.ctid = ANY (ARRAY(
    SELECT c.ctid
    FROM unnest(ARRAY['-infinity']::timestamptz[], ARRAY['00000000-0000-0000-0000-000000000000']::uuid[])
        AS l (after_due, after_id)
    CROSS JOIN LATERAL (
        SELECT r.ctid
        FROM "{{schema}}"."jobs_schedule" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= now()
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
        ORDER BY r.due_at, r.id
        LIMIT $3::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT $3::int))
RETURNING t.id, t.due_at, t.created_at, t.attempts, t.max_attempts, t.headers::text AS headers, t."name", t."expr", t."zone", t."misfire", t."cap", t."grace", t."overlap", t."jitter", t."template", t."paused", t."next_at", t."last_at", t."buffered_at", t."fired", t."skipped"
)
SELECT claimed.id FROM claimed ORDER BY claimed.due_at, claimed.id;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_claim"(uuid, integer, integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_schedule_ack"(owner_token uuid, ids uuid[]) RETURNS SETOF uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = on
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_tidscan = on
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
BEGIN
    RETURN QUERY
WITH changed AS (
UPDATE "{{schema}}"."jobs_schedule" AS t
SET status = 2,
    completed_at = clock_timestamp(),
    locked_until = NULL
FROM unnest(ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[], array_fill($1, ARRAY[coalesce(cardinality($2), 0)])::uuid[]) AS s (id, token)
WHERE t.id = ANY (ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id
)
SELECT changed.id FROM changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_ack"(uuid, uuid[]) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_schedule_abandon"(owner_token uuid, ids uuid[], delay_seconds integer DEFAULT 0, error text DEFAULT NULL) RETURNS SETOF uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = on
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_tidscan = on
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
BEGIN
    IF ($3 IS NULL OR $3 >= 0) IS NOT TRUE THEN RAISE EXCEPTION 'delay_seconds must not be negative; NULL is the table''s own backoff' USING ERRCODE = 'invalid_parameter_value'; END IF;
    RETURN QUERY
WITH changed AS (
UPDATE "{{schema}}"."jobs_schedule" AS t
SET status = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE clock_timestamp() + coalesce(s.delay * interval '1 microsecond', CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 60000000) * (1 - 0.5 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
    last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE coalesce(s.error, 'abandoned without an error') END
FROM unnest(ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[], array_fill($1, ARRAY[coalesce(cardinality($2), 0)])::uuid[], array_fill($3::bigint * 1000000, ARRAY[coalesce(cardinality($2), 0)])::bigint[], array_fill($4, ARRAY[coalesce(cardinality($2), 0)])::text[]) AS s (id, token, delay, error)
WHERE t.id = ANY (ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id
)
SELECT changed.id FROM changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_abandon"(uuid, uuid[], integer, text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_schedule_fail"(owner_token uuid, ids uuid[], error text) RETURNS SETOF uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = on
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_tidscan = on
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
BEGIN
    RETURN QUERY
WITH changed AS (
UPDATE "{{schema}}"."jobs_schedule" AS t
SET status = 3,
    completed_at = clock_timestamp(),
    failed_at = clock_timestamp(),
    cancelled_at = CASE WHEN s.cancelled THEN coalesce(t.cancelled_at, clock_timestamp()) ELSE t.cancelled_at END,
    locked_until = NULL,
    last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE coalesce(s.error, 'failed without an error') END
FROM unnest(ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[], array_fill($1, ARRAY[coalesce(cardinality($2), 0)])::uuid[], array_fill($3, ARRAY[coalesce(cardinality($2), 0)])::text[], array_fill(false, ARRAY[coalesce(cardinality($2), 0)])::boolean[]) AS s (id, token, error, cancelled)
WHERE t.id = ANY (ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id
)
SELECT changed.id FROM changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_fail"(uuid, uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_schedule_extend"(owner_token uuid, ids uuid[], lease_seconds integer) RETURNS SETOF uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = on
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_tidscan = on
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
BEGIN
    IF ($3 >= 1) IS NOT TRUE THEN RAISE EXCEPTION 'lease_seconds must be at least 1' USING ERRCODE = 'invalid_parameter_value'; END IF;
    RETURN QUERY
WITH changed AS (
UPDATE "{{schema}}"."jobs_schedule" AS t
SET locked_until = clock_timestamp() + make_interval(secs => $3)::interval
FROM (
    SELECT r.id
    FROM unnest(ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[], array_fill($1, ARRAY[coalesce(cardinality($2), 0)])::uuid[]) AS s (id, token)
    JOIN "{{schema}}"."jobs_schedule" AS r ON r.id = s.id
    WHERE r.id = ANY (ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[]) AND r.owner_token = s.token AND coalesce(r.status = 1, false)
    FOR NO KEY UPDATE OF r SKIP LOCKED
) AS held
WHERE t.id = held.id AND t.status = 1
RETURNING t.id, t.cancelled_at IS NOT NULL AS cancelled
)
SELECT changed.id FROM changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_extend"(uuid, uuid[], integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_schedule_reap_expired"(max_rows integer DEFAULT 1000) RETURNS TABLE (requeued integer, failed integer)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = on
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_tidscan = on
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
BEGIN
    IF ($1 >= 1) IS NOT TRUE THEN RAISE EXCEPTION 'max_rows must be at least 1' USING ERRCODE = 'invalid_parameter_value'; END IF;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."jobs_schedule" AS t
    SET status = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE greatest(clock_timestamp(), t.locked_until + CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 60000000) * (1 - 0.5 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        owner_token = NULL,
        last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE 'lease expired at ' || to_char(t.locked_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' in attempt ' || t.attempts END
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM "{{schema}}"."jobs_schedule" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 1
          AND r.due_at <= now()
          AND r.locked_until < now()
        ORDER BY r.due_at, r.id
        LIMIT $1::int
        FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING t.status
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN pg_catalog.pg_notify('{{schema}}.jobs_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) IS NOT NULL ELSE true END;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_reap_expired"(integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_schedule_redrive"(ids uuid[]) RETURNS SETOF uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = on
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_tidscan = on
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
BEGIN
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."jobs_schedule" AS t
    SET status = 0,
        waiting = false,
        attempts = 0,
        due_at = clock_timestamp(),
        completed_at = NULL,
        failed_at = NULL,
        cancelled_at = NULL,
        owner_token = NULL,
        headers = coalesce(t.headers, '{}'::jsonb) || jsonb_build_object(
            'txwork-redriven-by', coalesce(NULL::text, session_user::text),
            'txwork-redriven-at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 3
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN pg_catalog.pg_notify('{{schema}}.jobs_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) IS NOT NULL END
)
SELECT unnest(told.ids) AS id FROM told;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_redrive"(uuid[]) FROM PUBLIC;
