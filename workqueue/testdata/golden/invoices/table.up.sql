-- A retry policy that cannot be computed would fail the reaper's whole batch. It is a domain because the server parses
-- a CHECK of a table anew for every statement that writes to the table, and that of a domain once in a session. Delays
-- are whole microseconds, and a jitter is 0 or large enough to matter: NaN would pass a comparison by >=, and numbers
-- that are too large or too small make a multiplication fail. The types of each operator match its operands exactly, so
-- that no operator in the caller's search_path fits better.
CREATE DOMAIN "billing"."invoices_retry" AS jsonb CONSTRAINT "invoices_retry_check" CHECK (
    VALUE IS NULL
    OR ((VALUE ->> 'base_us')::bigint BETWEEN 0 AND 315360000000000
        AND (VALUE ->> 'cap_us')::bigint BETWEEN 0 AND 315360000000000
        AND (VALUE ->> 'growth') = ANY (ARRAY['constant'::text, 'linear'::text, 'quadratic'::text, 'exponential'::text])
        AND (coalesce((VALUE ->> 'jitter')::float8, 0::float8) = 0::float8
            OR (VALUE ->> 'jitter')::float8 BETWEEN 1e-09::float8 AND 1::float8)) IS TRUE
);

CREATE TABLE "billing"."invoices" (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    due_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    max_attempts integer NOT NULL DEFAULT 5,
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
    retry "billing"."invoices_retry",
    "region" text NOT NULL,
    "amount" numeric,
    "order" jsonb,
    "due" date,
    -- Which times each status has. It is short because every statement that writes parses the checks anew: a row in
    -- progress has locked_until (1), a done one has completed_at, which counts twice (2), and a failed one has
    -- completed_at and failed_at (3).
    CONSTRAINT "invoices_state_check" CHECK (
        status = num_nonnulls(completed_at, completed_at, failed_at, locked_until)
        AND CASE WHEN completed_at IS NULL THEN failed_at ELSE locked_until END IS NULL
        AND (locked_until IS NULL OR owner_token IS NOT NULL AND NOT waiting)
    ),
    -- A Ready row without attempts left would fail every claim that finds it. A row in progress may be at its last
    -- attempt.
    CONSTRAINT "invoices_attempts_check"
        CHECK (max_attempts > 0 AND attempts >= 0 AND attempts < max_attempts + status),
    CONSTRAINT "invoices_due_check" CHECK (isfinite(due_at))
) WITH (
    fillfactor = 42,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);

COMMENT ON TABLE "billing"."invoices" IS 'txwork core 1';

CREATE INDEX "invoices_claim_idx" ON "billing"."invoices" ("region", "priority", due_at, id)
    WHERE completed_at IS NULL AND NOT waiting;

CREATE INDEX "invoices_waiting_idx" ON "billing"."invoices" (id) WHERE completed_at IS NULL AND waiting;

CREATE INDEX "invoices_done_idx" ON "billing"."invoices" (completed_at)
    WHERE completed_at IS NOT NULL AND (failed_at IS NULL OR cancelled_at IS NOT NULL);

CREATE INDEX "invoices_failed_idx" ON "billing"."invoices" (failed_at, id) WHERE failed_at IS NOT NULL;

-- Notifies workers, unless an announcer does so for this transaction: see Spec.MustAnnounce. A trigger of another
-- table, which no announcer watches, passes an argument so that it always notifies.
--
-- No search_path is pinned; every name is qualified instead. Setting and resetting it would cost the server a tenth of
-- a transaction that inserts one row.
CREATE FUNCTION "billing"."invoices_announce"() RETURNS trigger
LANGUAGE plpgsql
AS $txwork$
BEGIN
    IF TG_NARGS OPERATOR(pg_catalog.>) 0 OR (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('billing.invoices announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('billing.invoices announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('billing.invoices silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('billing.invoices announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('billing.invoices announcer', 0)) ELSE false END)
        ELSE true END) THEN
        PERFORM pg_catalog.pg_notify('billing.invoices', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text);
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "billing"."invoices_announce"() FROM PUBLIC;

CREATE TRIGGER "invoices_announce" AFTER INSERT ON "billing"."invoices"
FOR EACH STATEMENT EXECUTE FUNCTION "billing"."invoices_announce"();

CREATE FUNCTION "billing"."invoices_claim"(owner_token uuid, lease_seconds integer, batch_size integer, "region" text, "priority" smallint) RETURNS SETOF uuid
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
UPDATE "billing"."invoices" AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = $1::uuid,
    locked_until = clock_timestamp() + make_interval(secs => $2)::interval
WHERE t.ctid = ANY (ARRAY(
    SELECT c.ctid
    FROM unnest(ARRAY['-infinity']::timestamptz[], ARRAY['00000000-0000-0000-0000-000000000000']::uuid[], ARRAY[$4]::text[], ARRAY[$5]::smallint[])
        AS l (after_due, after_id, c1, c2)
    CROSS JOIN LATERAL (
        SELECT r.ctid
        FROM "billing"."invoices" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= now()
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
          AND r."region" = l.c1
          AND r."priority" = l.c2
        ORDER BY r."region", r."priority", r.due_at, r.id
        LIMIT $3::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT $3::int))
RETURNING t AS claimed
)
SELECT (c.claimed).id FROM changed AS c ORDER BY (c.claimed).due_at, (c.claimed).id;
END
$txwork$;

REVOKE ALL ON FUNCTION "billing"."invoices_claim"(uuid, integer, integer, text, smallint) FROM PUBLIC;

CREATE FUNCTION "billing"."invoices_claim_rows"(owner_token uuid, lease_seconds integer, batch_size integer, "region" text, "priority" smallint) RETURNS SETOF "billing"."invoices"
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
UPDATE "billing"."invoices" AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = $1::uuid,
    locked_until = clock_timestamp() + make_interval(secs => $2)::interval
WHERE t.ctid = ANY (ARRAY(
    SELECT c.ctid
    FROM unnest(ARRAY['-infinity']::timestamptz[], ARRAY['00000000-0000-0000-0000-000000000000']::uuid[], ARRAY[$4]::text[], ARRAY[$5]::smallint[])
        AS l (after_due, after_id, c1, c2)
    CROSS JOIN LATERAL (
        SELECT r.ctid
        FROM "billing"."invoices" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= now()
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
          AND r."region" = l.c1
          AND r."priority" = l.c2
        ORDER BY r."region", r."priority", r.due_at, r.id
        LIMIT $3::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT $3::int))
RETURNING t AS claimed
)
SELECT (c.claimed).* FROM changed AS c ORDER BY (c.claimed).due_at, (c.claimed).id;
END
$txwork$;

REVOKE ALL ON FUNCTION "billing"."invoices_claim_rows"(uuid, integer, integer, text, smallint) FROM PUBLIC;

CREATE FUNCTION "billing"."invoices_ack"(owner_token uuid, ids uuid[]) RETURNS SETOF uuid
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
DELETE FROM "billing"."invoices" AS t
USING unnest(ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[], array_fill($1, ARRAY[coalesce(cardinality($2), 0)])::uuid[]) AS s (id, token)
WHERE t.id = ANY (ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id
)
SELECT changed.id FROM changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "billing"."invoices_ack"(uuid, uuid[]) FROM PUBLIC;

CREATE FUNCTION "billing"."invoices_abandon"(owner_token uuid, ids uuid[], delay_seconds integer DEFAULT NULL, error text DEFAULT NULL) RETURNS SETOF uuid
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
UPDATE "billing"."invoices" AS t
SET status = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE clock_timestamp() + coalesce(s.delay * interval '1 microsecond', CASE WHEN t.retry IS NULL THEN least(5000000 * (t.attempts::float8), 3600000000) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
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

REVOKE ALL ON FUNCTION "billing"."invoices_abandon"(uuid, uuid[], integer, text) FROM PUBLIC;

CREATE FUNCTION "billing"."invoices_fail"(owner_token uuid, ids uuid[], error text) RETURNS SETOF uuid
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
UPDATE "billing"."invoices" AS t
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

REVOKE ALL ON FUNCTION "billing"."invoices_fail"(uuid, uuid[], text) FROM PUBLIC;

CREATE FUNCTION "billing"."invoices_extend"(owner_token uuid, ids uuid[], lease_seconds integer) RETURNS SETOF uuid
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
UPDATE "billing"."invoices" AS t
SET locked_until = clock_timestamp() + make_interval(secs => $3)::interval
FROM (
    SELECT r.id
    FROM unnest(ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[], array_fill($1, ARRAY[coalesce(cardinality($2), 0)])::uuid[]) AS s (id, token)
    JOIN "billing"."invoices" AS r ON r.id = s.id
    WHERE r.id = ANY (ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id)::uuid[]) AND r.owner_token = s.token AND coalesce(r.status = 1, false)
    FOR NO KEY UPDATE OF r SKIP LOCKED
) AS held
WHERE t.id = held.id AND t.status = 1
RETURNING t.id, t.cancelled_at IS NOT NULL AS cancelled
)
SELECT changed.id FROM changed;
END
$txwork$;

REVOKE ALL ON FUNCTION "billing"."invoices_extend"(uuid, uuid[], integer) FROM PUBLIC;

CREATE FUNCTION "billing"."invoices_reap_expired"(max_rows integer DEFAULT 1000) RETURNS TABLE (requeued integer, failed integer, cancelled integer)
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
    UPDATE "billing"."invoices" AS t
    SET status = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE greatest(clock_timestamp(), t.locked_until + CASE WHEN t.retry IS NULL THEN least(5000000 * (t.attempts::float8), 3600000000) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        owner_token = NULL,
        last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE 'lease expired at ' ||
            to_char(t.locked_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' in attempt ' || t.attempts END
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM "billing"."invoices" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 1
          AND r.due_at <= now()
          AND r.locked_until < now()
        ORDER BY r."region", r."priority", r.due_at, r.id
        LIMIT $1::int
        FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING t.status, t.cancelled_at
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN pg_catalog.pg_notify('billing.invoices', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) IS NOT NULL ELSE true END;
END
$txwork$;

REVOKE ALL ON FUNCTION "billing"."invoices_reap_expired"(integer) FROM PUBLIC;

CREATE FUNCTION "billing"."invoices_redrive"(ids uuid[]) RETURNS SETOF uuid
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
    UPDATE "billing"."invoices" AS t
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
    HAVING CASE WHEN count(*) > 0 THEN pg_catalog.pg_notify('billing.invoices', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) IS NOT NULL END
)
SELECT unnest(told.ids) AS id FROM told;
END
$txwork$;

REVOKE ALL ON FUNCTION "billing"."invoices_redrive"(uuid[]) FROM PUBLIC;

-- Applies the notes that triggers have written, and returns how many it applied. Workers written in SQL call it before
-- they claim.
CREATE FUNCTION "billing"."invoices_fold"(max_notes integer DEFAULT 1000) RETURNS integer
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
CREATE FUNCTION "billing"."invoices_purge"(
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
DELETE FROM "billing"."invoices" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "billing"."invoices" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - $2::interval
    ORDER BY r.completed_at
    LIMIT $1::int
    FOR UPDATE SKIP LOCKED))
RETURNING t.id
    ), purged_failed AS (
DELETE FROM "billing"."invoices" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "billing"."invoices" AS r
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
CREATE FUNCTION "billing"."invoices_maintain_step"(
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
            more := (SELECT r.requeued + r.failed FROM "billing"."invoices_reap_expired"($2) AS r) > 0;
        WHEN 'purge' THEN
            more := (SELECT p.done + p.failed FROM "billing"."invoices_purge"($2, $3, $4) AS p) > 0;
        WHEN 'fold' THEN
            more := (SELECT "billing"."invoices_fold"($2)) > 0;
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
CREATE PROCEDURE "billing"."invoices_maintain"(
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
            FROM "billing"."invoices_maintain_step"(kind, max_rows, retention, failed_retention) AS s;
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
        PERFORM "billing"."leader_note"('billing.invoices');
    EXCEPTION WHEN undefined_function OR insufficient_privilege THEN
        NULL;
    END;
    COMMIT;
END
$txwork$;

REVOKE ALL ON FUNCTION "billing"."invoices_fold"(integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION "billing"."invoices_purge"(integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION "billing"."invoices_maintain_step"(text, integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON PROCEDURE "billing"."invoices_maintain"(integer, interval, interval) FROM PUBLIC;
