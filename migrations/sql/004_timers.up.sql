-- A retry policy that cannot be computed would fail the reaper's whole batch. It is a domain because the server parses
-- a CHECK of a table anew for every statement that writes to the table, and that of a domain once in a session. Delays
-- are whole microseconds, and a jitter is 0 or large enough to matter: NaN would pass a comparison by >=, and numbers
-- that are too large or too small make a multiplication fail. The types of each operator match its operands exactly, so
-- that no operator in the caller's search_path fits better.
CREATE DOMAIN "{{schema}}"."timers_retry" AS jsonb CONSTRAINT "timers_retry_check" CHECK (
    VALUE IS NULL
    OR ((VALUE ->> 'base_us')::bigint BETWEEN 0 AND 315360000000000
        AND (VALUE ->> 'cap_us')::bigint BETWEEN 0 AND 315360000000000
        AND (VALUE ->> 'growth') = ANY (ARRAY['constant'::text, 'linear'::text, 'quadratic'::text, 'exponential'::text])
        AND (coalesce((VALUE ->> 'jitter')::float8, 0::float8) = 0::float8
            OR (VALUE ->> 'jitter')::float8 BETWEEN 1e-09::float8 AND 1::float8)) IS TRUE
);

CREATE TABLE "{{schema}}"."timers" (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    due_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    max_attempts integer NOT NULL DEFAULT 10,
    "fire_at" timestamptz NOT NULL,
    "generation" integer NOT NULL,
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
    retry "{{schema}}"."timers_retry",
    "key" text NOT NULL,
    "topic" text NOT NULL,
    "payload" bytea NOT NULL,
    "schedule" text,
    -- Which times each status has. It is short because every statement that writes parses the checks anew: a row in
    -- progress has locked_until (1), a done one has completed_at, which counts twice (2), and a failed one has
    -- completed_at and failed_at (3).
    CONSTRAINT "timers_state_check" CHECK (
        status = num_nonnulls(completed_at, completed_at, failed_at, locked_until)
        AND CASE WHEN completed_at IS NULL THEN failed_at ELSE locked_until END IS NULL
        AND (locked_until IS NULL OR owner_token IS NOT NULL AND NOT waiting)
    ),
    -- A Ready row without attempts left would fail every claim that finds it. A row in progress may be at its last
    -- attempt.
    CONSTRAINT "timers_attempts_check"
        CHECK (max_attempts > 0 AND attempts >= 0 AND attempts < max_attempts + status),
    CONSTRAINT "timers_due_check" CHECK (isfinite(due_at))
) WITH (
    fillfactor = 42,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);

COMMENT ON TABLE "{{schema}}"."timers" IS 'txwork core 1';

CREATE INDEX "timers_claim_idx" ON "{{schema}}"."timers" (due_at, id)
    WHERE completed_at IS NULL AND NOT waiting;

CREATE INDEX "timers_waiting_idx" ON "{{schema}}"."timers" (id) WHERE completed_at IS NULL AND waiting;

CREATE INDEX "timers_done_idx" ON "{{schema}}"."timers" (completed_at)
    WHERE completed_at IS NOT NULL AND (failed_at IS NULL OR cancelled_at IS NOT NULL);

CREATE INDEX "timers_failed_idx" ON "{{schema}}"."timers" (failed_at, id) WHERE failed_at IS NOT NULL;

CREATE UNIQUE INDEX "timers_unique_idx" ON "{{schema}}"."timers"
    ("key")
    WHERE "key" IS NOT NULL;

-- Notifies workers, unless an announcer does so for this transaction: see Spec.MustAnnounce. A trigger of another
-- table, which no announcer watches, passes an argument so that it always notifies.
--
-- No search_path is pinned; every name is qualified instead. Setting and resetting it would cost the server a tenth of
-- a transaction that inserts one row.
CREATE FUNCTION "{{schema}}"."timers_announce"() RETURNS trigger
LANGUAGE plpgsql
AS $txwork$
BEGIN
    IF TG_NARGS OPERATOR(pg_catalog.>) 0 OR (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.timers announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.timers announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.timers silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.timers announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.timers announcer', 0)) ELSE false END)
        ELSE true END) THEN
        PERFORM pg_catalog.pg_notify('{{schema}}.timers', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text);
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_announce"() FROM PUBLIC;

CREATE TRIGGER "timers_announce" AFTER INSERT ON "{{schema}}"."timers"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."timers_announce"();

CREATE FUNCTION "{{schema}}"."timers_claim"(owner_token uuid, lease_seconds integer, batch_size integer) RETURNS SETOF uuid
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
WITH changed AS (
UPDATE "{{schema}}"."timers" AS t
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
        FROM "{{schema}}"."timers" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= now()
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
        ORDER BY r.due_at, r.id
        LIMIT $3::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT $3::int))
RETURNING t AS claimed
)
SELECT (c.claimed).id FROM changed AS c ORDER BY (c.claimed).due_at, (c.claimed).id;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_claim"(uuid, integer, integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_claim_rows"(owner_token uuid, lease_seconds integer, batch_size integer) RETURNS SETOF "{{schema}}"."timers"
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
WITH changed AS (
UPDATE "{{schema}}"."timers" AS t
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
        FROM "{{schema}}"."timers" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= now()
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
        ORDER BY r.due_at, r.id
        LIMIT $3::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT $3::int))
RETURNING t AS claimed
)
SELECT (c.claimed).* FROM changed AS c ORDER BY (c.claimed).due_at, (c.claimed).id;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_claim_rows"(uuid, integer, integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_ack"(owner_token uuid, ids uuid[]) RETURNS SETOF uuid
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
UPDATE "{{schema}}"."timers" AS t
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

REVOKE ALL ON FUNCTION "{{schema}}"."timers_ack"(uuid, uuid[]) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_abandon"(owner_token uuid, ids uuid[], delay_seconds integer DEFAULT NULL, error text DEFAULT NULL) RETURNS SETOF uuid
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
    error := left(error, 8192); WHILE octet_length(error) > 8192 LOOP error := left(error, -greatest((octet_length(error) - 8192) / 4, 1)); END LOOP;
    RETURN QUERY
WITH changed AS (
UPDATE "{{schema}}"."timers" AS t
SET status = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE clock_timestamp() + coalesce(s.delay * interval '1 microsecond', CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 900000000) * (1 - 0.2 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
    last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE coalesce(s.error, 'abandoned without an error') END
FROM unnest(ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[], array_fill($1, ARRAY[coalesce(cardinality($2), 0)])::uuid[], array_fill($3::bigint * 1000000, ARRAY[coalesce(cardinality($2), 0)])::bigint[], array_fill($4, ARRAY[coalesce(cardinality($2), 0)])::text[]) AS s (id, token, delay, error)
WHERE t.id = ANY (ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
)
SELECT changed.id FROM changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_abandon"(uuid, uuid[], integer, text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_fail"(owner_token uuid, ids uuid[], error text) RETURNS SETOF uuid
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
    error := left(error, 8192); WHILE octet_length(error) > 8192 LOOP error := left(error, -greatest((octet_length(error) - 8192) / 4, 1)); END LOOP;
    RETURN QUERY
WITH changed AS (
UPDATE "{{schema}}"."timers" AS t
SET status = 3,
    completed_at = clock_timestamp(),
    failed_at = clock_timestamp(),
    cancelled_at = CASE WHEN s.cancelled THEN coalesce(t.cancelled_at, clock_timestamp()) ELSE t.cancelled_at END,
    locked_until = NULL,
    last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE coalesce(s.error, 'failed without an error') END
FROM unnest(ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[], array_fill($1, ARRAY[coalesce(cardinality($2), 0)])::uuid[], array_fill($3, ARRAY[coalesce(cardinality($2), 0)])::text[], array_fill(false, ARRAY[coalesce(cardinality($2), 0)])::boolean[]) AS s (id, token, error, cancelled)
WHERE t.id = ANY (ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
)
SELECT changed.id FROM changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_fail"(uuid, uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_extend"(owner_token uuid, ids uuid[], lease_seconds integer) RETURNS SETOF uuid
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
UPDATE "{{schema}}"."timers" AS t
SET locked_until = clock_timestamp() + make_interval(secs => $3)::interval
FROM (
    SELECT r.id
    FROM unnest(ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[], array_fill($1, ARRAY[coalesce(cardinality($2), 0)])::uuid[]) AS s (id, token)
    JOIN "{{schema}}"."timers" AS r ON r.id = s.id
    WHERE r.id = ANY (ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[]) AND r.owner_token = s.token AND coalesce(r.status = 1, false)
    FOR NO KEY UPDATE OF r SKIP LOCKED
) AS held
WHERE t.id = held.id AND t.status = 1
RETURNING t.id, t.cancelled_at IS NOT NULL AS cancelled
)
SELECT changed.id FROM changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_extend"(uuid, uuid[], integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_reap_expired"(max_rows integer DEFAULT 1000) RETURNS TABLE (requeued integer, failed integer, cancelled integer)
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
    UPDATE "{{schema}}"."timers" AS t
    SET status = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE greatest(clock_timestamp(), t.locked_until + CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 900000000) * (1 - 0.2 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        owner_token = NULL,
        last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE 'lease expired at ' ||
            to_char(t.locked_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' in attempt ' || t.attempts END
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM "{{schema}}"."timers" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 1
          AND r.due_at <= now()
          AND r.locked_until < now()
        ORDER BY r.due_at, r.id
        LIMIT $1::int
        FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING t.status, t.cancelled_at
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN pg_catalog.pg_notify('{{schema}}.timers', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) IS NOT NULL ELSE true END;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_reap_expired"(integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_redrive"(ids uuid[]) RETURNS SETOF uuid
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
    UPDATE "{{schema}}"."timers" AS t
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
    HAVING CASE WHEN count(*) > 0 THEN pg_catalog.pg_notify('{{schema}}.timers', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) IS NOT NULL END
)
SELECT unnest(told.ids) AS id FROM told;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_redrive"(uuid[]) FROM PUBLIC;

-- Applies the notes that triggers have written, and returns how many it applied. Workers written in SQL call it before
-- they claim.
CREATE FUNCTION "{{schema}}"."timers_fold"(max_notes integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    notes integer := 0;
BEGIN
    IF ($1 >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'max_notes must be at least 1' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN notes;
END
$txwork$;

-- Deletes rows that ended longer ago than their retention: the caller's, or the table's own by default. A NULL
-- retention keeps rows for ever. Cancelled rows are kept and counted like done ones.
CREATE FUNCTION "{{schema}}"."timers_purge"(
    max_rows integer DEFAULT 1000,
    retention interval DEFAULT interval '168 hours',
    failed_retention interval DEFAULT NULL
) RETURNS TABLE (done integer, failed integer)
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
    IF ($1 >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'max_rows must be at least 1' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF least($2, $3) < interval '0' THEN
        RAISE EXCEPTION 'a retention must not be negative; NULL keeps all' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY
    WITH purged_done AS (
DELETE FROM "{{schema}}"."timers" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."timers" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - $2::interval
    ORDER BY r.completed_at
    LIMIT $1::int
    FOR UPDATE SKIP LOCKED))
RETURNING t.id
    ), purged_failed AS (
DELETE FROM "{{schema}}"."timers" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."timers" AS r
    WHERE r.failed_at IS NOT NULL
      AND r.cancelled_at IS NULL
      AND r.failed_at < now() - $3::interval
    ORDER BY r.failed_at, r.id
    LIMIT $1::int
    FOR UPDATE SKIP LOCKED))
RETURNING t.id
    )
    SELECT (SELECT count(*)::integer FROM purged_done), (SELECT count(*)::integer FROM purged_failed);
END
$txwork$;

-- One transaction of one kind of maintenance. It returns an error instead of raising it, so that the other kinds still
-- get their turn.
CREATE FUNCTION "{{schema}}"."timers_maintain_step"(
    kind text, most integer, retention interval, failed_retention interval, OUT more boolean, OUT problem text
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $txwork$
BEGIN
    IF ($2 >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'max_rows must be at least 1' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    BEGIN
        CASE $1
        WHEN 'reap_expired' THEN
            more := (SELECT r.requeued + r.failed FROM "{{schema}}"."timers_reap_expired"($2) AS r) > 0;
        WHEN 'purge' THEN
            more := (SELECT p.done + p.failed FROM "{{schema}}"."timers_purge"($2, $3, $4) AS p) > 0;
        WHEN 'fold' THEN
            more := (SELECT "{{schema}}"."timers_fold"($2)) > 0;
        END CASE;
    EXCEPTION WHEN others THEN
        more := false;
        problem := $1 || ': ' || SQLERRM;
    END;
END
$txwork$;

-- All maintenance of the table: each kind until nothing is left, in at most 100 transactions. It commits, so
-- a call cannot be part of a transaction, and it cannot pin a search_path: every name is qualified instead, and no
-- operator is used. At the end it records when it ran, for the check that looks for tables without maintenance. It
-- skips that if the schema has no table for the record, such as a schema with only an application's own tables, or if
-- the role may not write to it.
CREATE PROCEDURE "{{schema}}"."timers_maintain"(
    max_rows integer DEFAULT 1000,
    retention interval DEFAULT interval '168 hours',
    failed_retention interval DEFAULT NULL
)
LANGUAGE plpgsql
AS $txwork$
DECLARE
    kind text;
    more boolean;
    said text;
    problem text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['reap_expired', 'purge', 'fold'] LOOP
        FOR step IN 1..100 LOOP
            COMMIT;
            SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
            SELECT s.more, s.problem INTO more, said
            FROM "{{schema}}"."timers_maintain_step"(kind, max_rows, retention, failed_retention) AS s;
            EXIT WHEN more IS NOT TRUE;
        END LOOP;
        IF said IS NOT NULL THEN
            RAISE WARNING '%', said;
            SELECT said INTO problem;
        END IF;
    END LOOP;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'a part of the maintenance failed, the rest is done: %', problem;
    END IF;
    BEGIN
        PERFORM "{{schema}}"."leader_note"('{{schema}}.timers');
    EXCEPTION WHEN undefined_function OR insufficient_privilege THEN
        NULL;
    END;
    COMMIT;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_fold"(integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."timers_purge"(integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."timers_maintain_step"(text, integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON PROCEDURE "{{schema}}"."timers_maintain"(integer, interval, interval) FROM PUBLIC;

-- Keys are compared byte by byte, whatever the database's collation, so that the unique index also serves listing by
-- prefix. The rearm columns hold the values that a timer gets after the firing that is under way.
ALTER TABLE "{{schema}}"."timers"
    ALTER COLUMN "key" TYPE text COLLATE "C",
    ADD COLUMN rearm_at timestamptz,
    ADD COLUMN rearm_topic text,
    ADD COLUMN rearm_payload bytea,
    ADD COLUMN rearm_headers jsonb,
    ADD COLUMN rearm_max_attempts integer,
    ADD CONSTRAINT "timers_key_check" CHECK (octet_length("key") BETWEEN 1 AND 255),
    ADD CONSTRAINT "timers_fire_check" CHECK (isfinite(fire_at) AND (rearm_at IS NULL OR isfinite(rearm_at))
        AND isfinite(completed_at) AND isfinite(failed_at) AND isfinite(cancelled_at)), -- producers may write these
    ADD CONSTRAINT "timers_generation_check" CHECK (generation > 0),
    -- Values are set aside only while the timer fires, so none are ever stranded.
    ADD CONSTRAINT "timers_rearm_check" CHECK (rearm_at IS NULL OR status = 1 AND rearm_topic IS NOT NULL
        AND rearm_payload IS NOT NULL AND rearm_max_attempts IS NOT NULL AND rearm_max_attempts > 0);

CREATE INDEX "timers_schedule_idx" ON "{{schema}}"."timers" (schedule) WHERE completed_at IS NULL AND schedule IS NOT NULL;

-- When a firing ends during which the timer was set again, this makes the timer Ready at its new time with fresh
-- attempts, whatever ended the firing (ack, abandon, snooze, fail or the reaper; from Go or from SQL). It runs inside
-- the core's guarded settle, on the version of the row that the settle has locked: it sees a Set that committed before,
-- and a later Set waits for the row and finds it settled. A cancel of the firing ends with the firing. The last error
-- stays, as a trace of a firing that failed. Claims and renewals do not write completed_at, and settles of other timers
-- only cost the WHEN test.
CREATE FUNCTION "{{schema}}"."timers_rearm"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    NEW.fire_at := OLD.rearm_at;
    NEW.topic := OLD.rearm_topic;
    NEW.payload := OLD.rearm_payload;
    NEW.headers := OLD.rearm_headers;
    NEW.max_attempts := OLD.rearm_max_attempts;
    NEW.due_at := greatest(OLD.rearm_at, clock_timestamp());
    NEW.status := 0;
    NEW.attempts := 0;
    NEW.completed_at := NULL;
    NEW.failed_at := NULL;
    NEW.cancelled_at := NULL;
    NEW.rearm_at := NULL;
    NEW.rearm_topic := NULL;
    NEW.rearm_payload := NULL;
    NEW.rearm_headers := NULL;
    NEW.rearm_max_attempts := NULL;
    PERFORM pg_catalog.pg_notify('{{schema}}.timers', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text);
    RETURN NEW;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_rearm"() FROM PUBLIC;

CREATE TRIGGER "timers_rearm" BEFORE UPDATE OF completed_at ON "{{schema}}"."timers"
FOR EACH ROW WHEN (OLD.rearm_at IS NOT NULL AND OLD.status = 1 AND NEW.status <> 1)
EXECUTE FUNCTION "{{schema}}"."timers_rearm"();

-- The first cancel of a firing, by key or by the core's own cancel, drops what was set during it. The core does not
-- touch a firing that was cancelled before; what was set since then is dropped by Timers.Cancel, which finds timers by
-- key.
CREATE FUNCTION "{{schema}}"."timers_disarm"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    NEW.rearm_at := NULL;
    NEW.rearm_topic := NULL;
    NEW.rearm_payload := NULL;
    NEW.rearm_headers := NULL;
    NEW.rearm_max_attempts := NULL;
    RETURN NEW;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_disarm"() FROM PUBLIC;

CREATE TRIGGER "timers_disarm" BEFORE UPDATE OF cancelled_at ON "{{schema}}"."timers"
FOR EACH ROW WHEN (OLD.rearm_at IS NOT NULL AND OLD.cancelled_at IS NULL AND NEW.cancelled_at IS NOT NULL
    AND NEW.status = 1)
EXECUTE FUNCTION "{{schema}}"."timers_disarm"();

-- A retry policy that cannot be computed would fail the reaper's whole batch. It is a domain because the server parses
-- a CHECK of a table anew for every statement that writes to the table, and that of a domain once in a session. Delays
-- are whole microseconds, and a jitter is 0 or large enough to matter: NaN would pass a comparison by >=, and numbers
-- that are too large or too small make a multiplication fail. The types of each operator match its operands exactly, so
-- that no operator in the caller's search_path fits better.
CREATE DOMAIN "{{schema}}"."timers_schedule_retry" AS jsonb CONSTRAINT "timers_schedule_retry_check" CHECK (
    VALUE IS NULL
    OR ((VALUE ->> 'base_us')::bigint BETWEEN 0 AND 315360000000000
        AND (VALUE ->> 'cap_us')::bigint BETWEEN 0 AND 315360000000000
        AND (VALUE ->> 'growth') = ANY (ARRAY['constant'::text, 'linear'::text, 'quadratic'::text, 'exponential'::text])
        AND (coalesce((VALUE ->> 'jitter')::float8, 0::float8) = 0::float8
            OR (VALUE ->> 'jitter')::float8 BETWEEN 1e-09::float8 AND 1::float8)) IS TRUE
);

CREATE TABLE "{{schema}}"."timers_schedule" (
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
    retry "{{schema}}"."timers_schedule_retry",
    "name" text NOT NULL,
    "expr" text NOT NULL,
    "zone" text NOT NULL,
    "misfire" text NOT NULL,
    "overlap" text NOT NULL,
    "template" bytea NOT NULL,
    "next_at" timestamptz,
    "last_at" timestamptz,
    "buffered_at" timestamptz,
    -- Which times each status has. It is short because every statement that writes parses the checks anew: a row in
    -- progress has locked_until (1), a done one has completed_at, which counts twice (2), and a failed one has
    -- completed_at and failed_at (3).
    CONSTRAINT "timers_schedule_state_check" CHECK (
        status = num_nonnulls(completed_at, completed_at, failed_at, locked_until)
        AND CASE WHEN completed_at IS NULL THEN failed_at ELSE locked_until END IS NULL
        AND (locked_until IS NULL OR owner_token IS NOT NULL AND NOT waiting)
    ),
    -- A Ready row without attempts left would fail every claim that finds it. A row in progress may be at its last
    -- attempt.
    CONSTRAINT "timers_schedule_attempts_check"
        CHECK (max_attempts > 0 AND attempts >= 0 AND attempts < max_attempts + status),
    CONSTRAINT "timers_schedule_due_check" CHECK (isfinite(due_at))
) WITH (
    fillfactor = 42,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);

COMMENT ON TABLE "{{schema}}"."timers_schedule" IS 'txwork core 1';

CREATE INDEX "timers_schedule_claim_idx" ON "{{schema}}"."timers_schedule" (due_at, id)
    WHERE completed_at IS NULL AND NOT waiting;

CREATE INDEX "timers_schedule_waiting_idx" ON "{{schema}}"."timers_schedule" (id) WHERE completed_at IS NULL AND waiting;

CREATE INDEX "timers_schedule_done_idx" ON "{{schema}}"."timers_schedule" (completed_at)
    WHERE completed_at IS NOT NULL AND (failed_at IS NULL OR cancelled_at IS NOT NULL);

CREATE INDEX "timers_schedule_failed_idx" ON "{{schema}}"."timers_schedule" (failed_at, id) WHERE failed_at IS NOT NULL;

CREATE UNIQUE INDEX "timers_schedule_unique_idx" ON "{{schema}}"."timers_schedule"
    ("name")
    WHERE "name" IS NOT NULL;

-- Notifies workers, unless an announcer does so for this transaction: see Spec.MustAnnounce. A trigger of another
-- table, which no announcer watches, passes an argument so that it always notifies.
--
-- No search_path is pinned; every name is qualified instead. Setting and resetting it would cost the server a tenth of
-- a transaction that inserts one row.
CREATE FUNCTION "{{schema}}"."timers_schedule_announce"() RETURNS trigger
LANGUAGE plpgsql
AS $txwork$
BEGIN
    IF TG_NARGS OPERATOR(pg_catalog.>) 0 OR (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.timers_schedule announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.timers_schedule announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.timers_schedule silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.timers_schedule announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.timers_schedule announcer', 0)) ELSE false END)
        ELSE true END) THEN
        PERFORM pg_catalog.pg_notify('{{schema}}.timers_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text);
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_announce"() FROM PUBLIC;

CREATE TRIGGER "timers_schedule_announce" AFTER INSERT ON "{{schema}}"."timers_schedule"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."timers_schedule_announce"();

CREATE FUNCTION "{{schema}}"."timers_schedule_claim"(owner_token uuid, lease_seconds integer, batch_size integer) RETURNS SETOF uuid
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
WITH changed AS (
UPDATE "{{schema}}"."timers_schedule" AS t
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
        FROM "{{schema}}"."timers_schedule" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= now()
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
        ORDER BY r.due_at, r.id
        LIMIT $3::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT $3::int))
RETURNING t AS claimed
)
SELECT (c.claimed).id FROM changed AS c ORDER BY (c.claimed).due_at, (c.claimed).id;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_claim"(uuid, integer, integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_schedule_claim_rows"(owner_token uuid, lease_seconds integer, batch_size integer) RETURNS SETOF "{{schema}}"."timers_schedule"
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
WITH changed AS (
UPDATE "{{schema}}"."timers_schedule" AS t
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
        FROM "{{schema}}"."timers_schedule" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= now()
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
        ORDER BY r.due_at, r.id
        LIMIT $3::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT $3::int))
RETURNING t AS claimed
)
SELECT (c.claimed).* FROM changed AS c ORDER BY (c.claimed).due_at, (c.claimed).id;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_claim_rows"(uuid, integer, integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_schedule_ack"(owner_token uuid, ids uuid[]) RETURNS SETOF uuid
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
UPDATE "{{schema}}"."timers_schedule" AS t
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

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_ack"(uuid, uuid[]) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_schedule_abandon"(owner_token uuid, ids uuid[], delay_seconds integer DEFAULT NULL, error text DEFAULT NULL) RETURNS SETOF uuid
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
    error := left(error, 8192); WHILE octet_length(error) > 8192 LOOP error := left(error, -greatest((octet_length(error) - 8192) / 4, 1)); END LOOP;
    RETURN QUERY
WITH changed AS (
UPDATE "{{schema}}"."timers_schedule" AS t
SET status = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE clock_timestamp() + coalesce(s.delay * interval '1 microsecond', CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 60000000) * (1 - 0.5 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
    last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE coalesce(s.error, 'abandoned without an error') END
FROM unnest(ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[], array_fill($1, ARRAY[coalesce(cardinality($2), 0)])::uuid[], array_fill($3::bigint * 1000000, ARRAY[coalesce(cardinality($2), 0)])::bigint[], array_fill($4, ARRAY[coalesce(cardinality($2), 0)])::text[]) AS s (id, token, delay, error)
WHERE t.id = ANY (ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
)
SELECT changed.id FROM changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_abandon"(uuid, uuid[], integer, text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_schedule_fail"(owner_token uuid, ids uuid[], error text) RETURNS SETOF uuid
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
    error := left(error, 8192); WHILE octet_length(error) > 8192 LOOP error := left(error, -greatest((octet_length(error) - 8192) / 4, 1)); END LOOP;
    RETURN QUERY
WITH changed AS (
UPDATE "{{schema}}"."timers_schedule" AS t
SET status = 3,
    completed_at = clock_timestamp(),
    failed_at = clock_timestamp(),
    cancelled_at = CASE WHEN s.cancelled THEN coalesce(t.cancelled_at, clock_timestamp()) ELSE t.cancelled_at END,
    locked_until = NULL,
    last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE coalesce(s.error, 'failed without an error') END
FROM unnest(ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[], array_fill($1, ARRAY[coalesce(cardinality($2), 0)])::uuid[], array_fill($3, ARRAY[coalesce(cardinality($2), 0)])::text[], array_fill(false, ARRAY[coalesce(cardinality($2), 0)])::boolean[]) AS s (id, token, error, cancelled)
WHERE t.id = ANY (ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
)
SELECT changed.id FROM changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_fail"(uuid, uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_schedule_extend"(owner_token uuid, ids uuid[], lease_seconds integer) RETURNS SETOF uuid
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
UPDATE "{{schema}}"."timers_schedule" AS t
SET locked_until = clock_timestamp() + make_interval(secs => $3)::interval
FROM (
    SELECT r.id
    FROM unnest(ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[], array_fill($1, ARRAY[coalesce(cardinality($2), 0)])::uuid[]) AS s (id, token)
    JOIN "{{schema}}"."timers_schedule" AS r ON r.id = s.id
    WHERE r.id = ANY (ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[]) AND r.owner_token = s.token AND coalesce(r.status = 1, false)
    FOR NO KEY UPDATE OF r SKIP LOCKED
) AS held
WHERE t.id = held.id AND t.status = 1
RETURNING t.id, t.cancelled_at IS NOT NULL AS cancelled
)
SELECT changed.id FROM changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_extend"(uuid, uuid[], integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_schedule_reap_expired"(max_rows integer DEFAULT 1000) RETURNS TABLE (requeued integer, failed integer, cancelled integer)
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
    UPDATE "{{schema}}"."timers_schedule" AS t
    SET status = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE greatest(clock_timestamp(), t.locked_until + CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 60000000) * (1 - 0.5 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        owner_token = NULL,
        last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE 'lease expired at ' ||
            to_char(t.locked_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' in attempt ' || t.attempts END
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM "{{schema}}"."timers_schedule" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 1
          AND r.due_at <= now()
          AND r.locked_until < now()
        ORDER BY r.due_at, r.id
        LIMIT $1::int
        FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING t.status, t.cancelled_at
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN pg_catalog.pg_notify('{{schema}}.timers_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) IS NOT NULL ELSE true END;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_reap_expired"(integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_schedule_redrive"(ids uuid[]) RETURNS SETOF uuid
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
    UPDATE "{{schema}}"."timers_schedule" AS t
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
    HAVING CASE WHEN count(*) > 0 THEN pg_catalog.pg_notify('{{schema}}.timers_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) IS NOT NULL END
)
SELECT unnest(told.ids) AS id FROM told;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_redrive"(uuid[]) FROM PUBLIC;

-- Applies the notes that triggers have written, and returns how many it applied. Workers written in SQL call it before
-- they claim.
CREATE FUNCTION "{{schema}}"."timers_schedule_fold"(max_notes integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    notes integer := 0;
BEGIN
    IF ($1 >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'max_notes must be at least 1' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN notes;
END
$txwork$;

-- Deletes rows that ended longer ago than their retention: the caller's, or the table's own by default. A NULL
-- retention keeps rows for ever. Cancelled rows are kept and counted like done ones.
CREATE FUNCTION "{{schema}}"."timers_schedule_purge"(
    max_rows integer DEFAULT 1000,
    retention interval DEFAULT interval '168 hours',
    failed_retention interval DEFAULT NULL
) RETURNS TABLE (done integer, failed integer)
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
    IF ($1 >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'max_rows must be at least 1' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF least($2, $3) < interval '0' THEN
        RAISE EXCEPTION 'a retention must not be negative; NULL keeps all' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY
    WITH purged_done AS (
DELETE FROM "{{schema}}"."timers_schedule" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."timers_schedule" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - $2::interval
    ORDER BY r.completed_at
    LIMIT $1::int
    FOR UPDATE SKIP LOCKED))
RETURNING t.id
    ), purged_failed AS (
DELETE FROM "{{schema}}"."timers_schedule" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."timers_schedule" AS r
    WHERE r.failed_at IS NOT NULL
      AND r.cancelled_at IS NULL
      AND r.failed_at < now() - $3::interval
    ORDER BY r.failed_at, r.id
    LIMIT $1::int
    FOR UPDATE SKIP LOCKED))
RETURNING t.id
    )
    SELECT (SELECT count(*)::integer FROM purged_done), (SELECT count(*)::integer FROM purged_failed);
END
$txwork$;

-- One transaction of one kind of maintenance. It returns an error instead of raising it, so that the other kinds still
-- get their turn.
CREATE FUNCTION "{{schema}}"."timers_schedule_maintain_step"(
    kind text, most integer, retention interval, failed_retention interval, OUT more boolean, OUT problem text
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $txwork$
BEGIN
    IF ($2 >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'max_rows must be at least 1' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    BEGIN
        CASE $1
        WHEN 'reap_expired' THEN
            more := (SELECT r.requeued + r.failed FROM "{{schema}}"."timers_schedule_reap_expired"($2) AS r) > 0;
        WHEN 'purge' THEN
            more := (SELECT p.done + p.failed FROM "{{schema}}"."timers_schedule_purge"($2, $3, $4) AS p) > 0;
        WHEN 'fold' THEN
            more := (SELECT "{{schema}}"."timers_schedule_fold"($2)) > 0;
        END CASE;
    EXCEPTION WHEN others THEN
        more := false;
        problem := $1 || ': ' || SQLERRM;
    END;
END
$txwork$;

-- All maintenance of the table: each kind until nothing is left, in at most 100 transactions. It commits, so
-- a call cannot be part of a transaction, and it cannot pin a search_path: every name is qualified instead, and no
-- operator is used. At the end it records when it ran, for the check that looks for tables without maintenance. It
-- skips that if the schema has no table for the record, such as a schema with only an application's own tables, or if
-- the role may not write to it.
CREATE PROCEDURE "{{schema}}"."timers_schedule_maintain"(
    max_rows integer DEFAULT 1000,
    retention interval DEFAULT interval '168 hours',
    failed_retention interval DEFAULT NULL
)
LANGUAGE plpgsql
AS $txwork$
DECLARE
    kind text;
    more boolean;
    said text;
    problem text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['reap_expired', 'purge', 'fold'] LOOP
        FOR step IN 1..100 LOOP
            COMMIT;
            SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
            SELECT s.more, s.problem INTO more, said
            FROM "{{schema}}"."timers_schedule_maintain_step"(kind, max_rows, retention, failed_retention) AS s;
            EXIT WHEN more IS NOT TRUE;
        END LOOP;
        IF said IS NOT NULL THEN
            RAISE WARNING '%', said;
            SELECT said INTO problem;
        END IF;
    END LOOP;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'a part of the maintenance failed, the rest is done: %', problem;
    END IF;
    BEGIN
        PERFORM "{{schema}}"."leader_note"('{{schema}}.timers_schedule');
    EXCEPTION WHEN undefined_function OR insufficient_privilege THEN
        NULL;
    END;
    COMMIT;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_fold"(integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_purge"(integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_maintain_step"(text, integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON PROCEDURE "{{schema}}"."timers_schedule_maintain"(integer, interval, interval) FROM PUBLIC;
