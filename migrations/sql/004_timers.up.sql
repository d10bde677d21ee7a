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

-- A time that the library can represent, so that every difference of two of them can be computed and printed. The
-- server would accept an infinite time, and one such row would fail every statement that subtracts it from another. It
-- is a domain for the same reason, and guards every column with times, in this table and in those that belong to it. A
-- range costs less than two comparisons: each column of an insert, NULL or not, prepares the check.
CREATE DOMAIN "{{schema}}"."timers_time" AS timestamptz CONSTRAINT "timers_time_check" CHECK (
    VALUE <@ '[0001-01-01 00:00:00+00, 9999-12-31 00:00:00+00]'::tstzrange
);

-- The values that columns may have, in domains for the same reason.
CREATE DOMAIN "{{schema}}"."timers_key_value" AS text
    CONSTRAINT "timers_key_check" CHECK (octet_length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN "{{schema}}"."timers_generation_value" AS integer
    CONSTRAINT "timers_generation_check" CHECK (VALUE >= 1);

CREATE TABLE "{{schema}}"."timers" (
    id uuid PRIMARY KEY DEFAULT encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid,
    due_at "{{schema}}"."timers_time" NOT NULL DEFAULT now(),
    created_at "{{schema}}"."timers_time" NOT NULL DEFAULT now(),
    max_attempts integer NOT NULL DEFAULT 15,
    "fire_at" "{{schema}}"."timers_time" NOT NULL,
    "generation" "{{schema}}"."timers_generation_value" NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    status smallint NOT NULL DEFAULT 0,
    waiting boolean NOT NULL DEFAULT false,
    locked_until "{{schema}}"."timers_time",
    completed_at "{{schema}}"."timers_time",
    owner_token uuid,
    failed_at "{{schema}}"."timers_time",
    cancelled_at "{{schema}}"."timers_time",
    last_error text,
    headers jsonb,
    retry "{{schema}}"."timers_retry",
    "key" "{{schema}}"."timers_key_value" NOT NULL,
    "topic" text NOT NULL,
    "payload" bytea NOT NULL,
    "schedule" text,
    -- Which times each status has. It is short because every statement that writes parses the checks anew: a row in
    -- progress has locked_until (1), a done one has completed_at, which counts twice (2), and a failed one has
    -- completed_at and failed_at (3). A ready row is not cancelled: no claim would end it.
    CONSTRAINT "timers_state_check" CHECK (
        status = num_nonnulls(completed_at, completed_at, failed_at, locked_until)
        AND CASE WHEN completed_at IS NOT NULL THEN locked_until IS NULL
            ELSE failed_at IS NULL AND CASE WHEN locked_until IS NULL THEN cancelled_at IS NULL
                ELSE owner_token IS NOT NULL AND NOT waiting END
            END
    ),
    -- A Ready row without attempts left would fail every claim that finds it. A row in progress may be at its last
    -- attempt. The status is subtracted because a sum would overflow in a row whose maximum is the greatest integer.
    CONSTRAINT "timers_attempts_check"
        CHECK (max_attempts > 0 AND attempts >= 0 AND attempts - status < max_attempts)
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

-- Notifies workers, unless an announcer does so for this transaction. A trigger of another table, which no announcer
-- watches, passes an argument so that it always notifies.
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
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END);
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_announce"() FROM PUBLIC;

CREATE TRIGGER "timers_announce" AFTER INSERT ON "{{schema}}"."timers"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."timers_announce"();

-- What {{schema}}.timers_fetch returns: rows, and one end. A later version appends columns at the end.
CREATE TYPE "{{schema}}"."timers_fetched" AS (
    entry text,
    place integer,
    id uuid,
    locked_until timestamptz,
    due_at timestamptz,
    created_at timestamptz,
    attempts integer,
    max_attempts integer,
    lost integer,
    headers jsonb,
    "key" text,
    "topic" text,
    "payload" bytea,
    "fire_at" timestamptz,
    "generation" integer,
    "schedule" text,
    again_in double precision,
    more boolean,
    held text,
    cursor text
);

-- Ready -> InProgress for at most n rows of the lanes, which are read in the order of the arguments, each behind the
-- place that the cursor names. Returns them in claim order, and then one end: whether there may be more, in how many
-- seconds to fetch again if no notification comes, why rows may be left (held), and the next cursor.
--
-- heard are the payloads of the notifications since the previous fetch was sent: they move places back. A sweep reads
-- from the start, and finds what no notification has announced. It comes when its time has come, unless sweep says
-- otherwise, and takes at most one part in 40 of the time.
--
-- The function locks the rows that it returns and, of a table with topics, those that it sets aside. Its caller may
-- stay in the transaction, so it bounds how long the session may be idle.
CREATE FUNCTION "{{schema}}"."timers_fetch"(
    owner_token uuid,
    lease interval,
    n integer,
    cursor text DEFAULT NULL,
    heard text[] DEFAULT NULL,
    sweep boolean DEFAULT NULL
) RETURNS SETOF "{{schema}}"."timers_fetched"
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
<<own>>
DECLARE
    nobody CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    batch integer := $3;
    place timestamptz[];
    place_id uuid[];
    reached timestamptz[];
    reached_id uuid[];
    digest text;
    fields text[];
    sweep_at bigint := 0; -- like all times of a cursor in microseconds, as are lengths of time
    sweep_took bigint := 0;
    unswept integer := 1;
    turn integer := 0;
    lead integer := 1; -- the lane that is read first
    heard_at timestamptz;
    fronts boolean;
    clock bigint;
    took bigint;
    is_sweep boolean;
    is_refused boolean := false;
    is_full boolean;
    got integer := 0;
    returned integer;
    due_in double precision;
    rule record;
    result "{{schema}}"."timers_fetched";
    began CONSTANT timestamptz := clock_timestamp();
    s record;
    taken tid[] := '{}';
BEGIN
    IF ($1 >= '00000000-0001-0000-0000-000000000000' AND $1::text LIKE '______________8%') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must be of version 8 and begin with the 48 bits of a process, which are not 0',
            HINT = 'Make one for every claim: owner_token(process) does.';
    END IF;
    IF ($2 BETWEEN interval '1 seconds' AND interval '86400 seconds') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'lease',
            MESSAGE = 'lease must be between 1 and 86400 seconds',
            HINT = 'Take a lease that a dead worker may hold its rows for, and extend it while they run.';
    END IF;
    IF ($3 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'n',
            MESSAGE = 'n must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF ($5 IS NULL OR cardinality($5) <= 10000
        AND array_position($5, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'heard',
            MESSAGE = 'heard must be at most 10000 payloads, none of them NULL',
            HINT = 'Pass sweep => true instead of the payloads.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a fetch needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    place := array_fill('-infinity'::timestamptz, ARRAY[1]);
    place_id := array_fill(own.nobody, ARRAY[1]);

    digest := left(encode(sha256(convert_to(jsonb_build_array('{{schema}}.timers')::text, 'UTF8')), 'hex'), 16);
    IF $4 IS NOT NULL THEN
        IF (octet_length($4) <= 8192 AND $4 ~ '^[0-9]{1,9} [0-9a-f]{16}( [^ ]+)*$') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'cursor',
            MESSAGE = 'cursor is not what an earlier call has returned',
            HINT = 'Pass the cursor of your last call that committed, or NULL to begin anew.';
    END IF;
        fields := string_to_array($4, ' ');
        IF own.fields[1] = '1' AND own.fields[2] = own.digest THEN
            IF ($4 ~ concat('^[0-9]+ [0-9a-f]{16} [0-9]{1,17} [0-9]{1,12} [01] [0-9]{1,6}( (-|-?[0-9]{1,17})/[0-9a-f]{32}){', cardinality(own.place), '}$')) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'cursor',
            MESSAGE = 'cursor is not what an earlier call has returned',
            HINT = 'Pass the cursor of your last call that committed, or NULL to begin anew.';
    END IF;
            sweep_at := own.fields[3];
            sweep_took := own.fields[4];
            unswept := own.fields[5];
            turn := own.fields[6];
            FOR s IN
                SELECT u.ord::integer AS ord,
                    CASE split_part(u.text, '/', 1) WHEN '-' THEN '-infinity'
                        ELSE 'epoch'::timestamptz + split_part(u.text, '/', 1)::bigint * interval '1 microsecond'
                    END AS due,
                    split_part(u.text, '/', 2)::uuid AS id,
                    convert_from(decode(split_part(u.text, '/', 3), 'hex'), 'UTF8') AS topic
                FROM unnest(own.fields[7:]) WITH ORDINALITY AS u (text, ord)
            LOOP
                place[own.s.ord] := own.s.due;
                place_id[own.s.ord] := own.s.id;
            END LOOP;
        END IF;
    END IF;
    clock := extract(epoch FROM own.began) * 1000000;
    is_sweep := coalesce($6, own.clock >= own.sweep_at OR own.sweep_at > own.clock + 60000000);
    IF $5 IS NOT NULL THEN
        SELECT 'epoch'::timestamptz + min(substring(h.payload FROM '^(?:fold:)?([0-9]{1,16})$')::bigint)
                * interval '1 microsecond',
            bool_or(starts_with(h.payload, 'front:'))
        INTO own.heard_at, own.fronts
        FROM unnest($5) AS h (payload);
        FOR i IN 1..cardinality(own.place) LOOP
            IF own.heard_at <= own.place[i] THEN
                place[i] := own.heard_at;
                place_id[i] := own.nobody;
            END IF;
        END LOOP;
    END IF;
    IF own.fronts THEN
        BEGIN
            FOR s IN
                SELECT l.ord::integer AS ord, min((substr(h.payload, 7)::jsonb ->> 'all')::timestamptz) AS due
                FROM unnest(own.place) WITH ORDINALITY
                    AS l (place, ord)
                CROSS JOIN unnest($5) AS h (payload)
                WHERE starts_with(h.payload, 'front:')
                GROUP BY l.ord
            LOOP
                IF own.s.due <= own.place[own.s.ord] THEN
                    place[own.s.ord] := own.s.due;
                    place_id[own.s.ord] := own.nobody;
                END IF;
            END LOOP;
        EXCEPTION WHEN data_exception THEN
            is_sweep := true; -- every login may send anything
        END;
    END IF;
    reached := own.place;
    reached_id := own.place_id;
    IF own.is_sweep THEN
        reached := array_fill('-infinity'::timestamptz, ARRAY[cardinality(own.place)]);
        reached_id := array_fill(own.nobody, ARRAY[cardinality(own.place)]);
    END IF;

    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), $2)))::bigint::text,
        true);
    IF NOT own.is_refused THEN
        FOR s IN
            SELECT c.ord, array_agg(c.ctid) AS rows, (array_agg(c.due_at))[count(*)] AS due_at,
                (array_agg(c.id))[count(*)] AS id
            FROM (
SELECT c.ctid, l.ord::integer AS ord, c.due_at, c.id
    FROM unnest(own.reached::timestamptz[], own.reached_id::uuid[])
        WITH ORDINALITY AS l (after_due, after_id, ord)
    CROSS JOIN LATERAL (
        SELECT r.ctid, r.due_at, r.id
        FROM "{{schema}}"."timers" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= own.began
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
        ORDER BY r.due_at, r.id
        LIMIT own.batch::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT own.batch::int) AS c
            GROUP BY c.ord
        LOOP
            taken := own.taken || own.s.rows;
            reached[own.s.ord] := own.s.due_at;
            reached_id[own.s.ord] := own.s.id;
        END LOOP;
    END IF;
    got := cardinality(own.taken);
    is_full := own.got >= own.batch;

    IF own.got > 0 THEN
        RETURN QUERY
        WITH changed AS (
UPDATE "{{schema}}"."timers" AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = $1::uuid,
    locked_until = clock_timestamp() + $2::interval
WHERE t.ctid = ANY (own.taken)
RETURNING t.*
        )
        SELECT 'row', (row_number() OVER ())::integer, c.id, c.locked_until::timestamptz, c.due_at::timestamptz,
            c.created_at::timestamptz, c.attempts, c.max_attempts, coalesce(pg_catalog."substring"(c.headers OPERATOR(pg_catalog.->>) 'txwork-lost-together', '^[0-9]{1,4}$')::bigint, 0)::integer, c.headers,
            c."key"::text,
            c."topic",
            c."payload",
            c."fire_at"::timestamptz,
            c."generation"::integer,
            c."schedule",
            NULL::double precision, NULL::boolean, NULL, NULL
        FROM (
            SELECT c.*
            FROM changed AS c
            ORDER BY c.due_at, c.id) AS c;
        GET DIAGNOSTICS returned = ROW_COUNT;
        IF own.returned <> own.got THEN
            RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
                MESSAGE = format('%s of %s rows were not claimed', own.got - own.returned, own.got),
                HINT = 'A trigger of the table suppresses updates: it has to let claims pass.';
        END IF;
    END IF;

    FOR i IN 1..cardinality(own.place) LOOP
        IF own.reached[i] <> '-infinity' THEN
            place[i] := own.reached[i];
            place_id[i] := own.reached_id[i];
        END IF;
    END LOOP;
    IF NOT own.is_refused THEN
        unswept := (NOT own.is_sweep OR own.is_full)::integer;
    END IF;
    result.entry := 'end';
    result.more := own.is_full AND NOT own.is_refused;
    IF NOT own.is_refused AND NOT own.result.more THEN
        SELECT d.seconds INTO own.due_in
        FROM (
SELECT own.began AS asked_at, extract(epoch FROM min(d.due_at) - clock_timestamp())::float8 AS seconds,
    min(d.due_at) AS due_at
FROM (SELECT) AS l
CROSS JOIN LATERAL (
    SELECT r.due_at
    FROM "{{schema}}"."timers" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 0
      AND r.due_at > least(own.began::timestamptz, own.began)
    ORDER BY r.due_at, r.id
    LIMIT 1
) AS d) AS d;
    END IF;

    clock := extract(epoch FROM clock_timestamp()) * 1000000;
    IF own.is_sweep AND NOT own.is_refused THEN -- one may be slow by accident, so the quicker of two counts
        took := own.clock - extract(epoch FROM own.began) * 1000000;
        sweep_at := own.clock
            + least(greatest(40 * least(own.took, own.sweep_took), 10000), 60000000);
        sweep_took := own.took;
    END IF;
    -- While a limit holds jobs back, a settle of another process announces nothing.
    result.again_in := 0;
    IF NOT own.result.more THEN
        result.again_in := least(60, CASE WHEN own.due_in IS NOT NULL THEN greatest(own.due_in, 0) END,
            CASE WHEN own.unswept = 1 AND NOT own.is_refused
                THEN greatest((own.sweep_at - own.clock) / 1000000.0, 0.25) END);
    END IF;
    result.cursor := concat_ws(' ', '1', own.digest, own.sweep_at, own.sweep_took, own.unswept,
        own.turn, (
        SELECT string_agg(concat(CASE WHEN u.due = '-infinity' THEN '-'
            ELSE (extract(epoch FROM u.due) * 1000000)::bigint::text END, '/', replace(u.id::text, '-', '')), ' ' ORDER BY u.ord)
        FROM unnest(own.place, own.place_id) WITH ORDINALITY AS u (due, id, ord)));
    RETURN NEXT own.result;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_fetch"(uuid, interval, integer, text, text[], boolean) FROM PUBLIC;

-- Settles rows with one outcome, in the order of their ids, which are sorted and of which none is repeated. It returns
-- the result of each row that did not become what is usual, see settle_one.sql. All settles of the other functions are
-- made here, so each statement is there once. With strict, ids that the claim does not hold are an error.
CREATE FUNCTION "{{schema}}"."timers_settle_rows"(outcome text, ids uuid[], tokens uuid[], delays bigint[], times timestamptz[], errors text[], strict boolean) RETURNS jsonb
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
<<own>>
DECLARE
    refused record;
    changed uuid[];
    answers jsonb := '{}';
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a settle needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 minute')))::bigint::text,
        true);
    CASE $1
    WHEN 'ack' THEN
        IF $3[1] = ALL ($3) THEN -- the rows are of one claim
        WITH settled AS (
UPDATE "{{schema}}"."timers" AS t
SET status = 2,
    completed_at = clock_timestamp(),
    locked_until = NULL
WHERE t.id = ANY ($2::uuid[]) AND t.owner_token = $3[1]::uuid AND coalesce(t.status = 1, false)
RETURNING t.id
)
        SELECT coalesce(array_agg(c.id), '{}')
        INTO own.changed
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (2) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'done') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
        ELSE
        WITH settled AS (
UPDATE "{{schema}}"."timers" AS t
SET status = 2,
    completed_at = clock_timestamp(),
    locked_until = NULL
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id
)
        SELECT coalesce(array_agg(c.id), '{}')
        INTO own.changed
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (2) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'done') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
        END IF;
    WHEN 'retry' THEN
        WITH settled AS (
UPDATE "{{schema}}"."timers" AS t
SET status = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE clock_timestamp() + coalesce(s.delay * interval '1 microsecond', CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 900000000) * (1 - 0.2 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
    last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE coalesce(s.error, 'abandoned without an error') END
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), unnest($4::bigint[]), unnest($6::text[]),
        generate_subscripts('{}'::int[], 1)) AS s (id, token, delay, error)
WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END) FILTER (WHERE CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END <> 'ready'), '{}')
        INTO own.changed, own.answers
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (0, 3) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'ready') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'snooze' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."timers" AS t
    SET status = CASE WHEN t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.cancelled_at IS NOT NULL THEN t.due_at ELSE coalesce(clock_timestamp() + s.delay * interval '1 microsecond', t.due_at) END,
    completed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END,
        last_error = CASE
            WHEN s.error IS NULL OR t.cancelled_at IS NOT NULL OR starts_with(t.last_error, s.error || ' since ')
            THEN t.last_error
            ELSE s.error || ' since ' || to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END
    FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), unnest($4::bigint[]), unnest($6::text[]),
            generate_subscripts('{}'::int[], 1)) AS s (id, token, delay, error)
    WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled,
        CASE WHEN t.status = 0 AND s.delay IS NULL THEN t.due_at END AS back
), told AS MATERIALIZED (
    SELECT FROM changed
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
), settled AS (
SELECT changed.id, changed.status, changed.cancelled FROM changed, told)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END) FILTER (WHERE CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END <> 'ready'), '{}')
        INTO own.changed, own.answers
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (0, 3) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'ready') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'wait_until' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."timers" AS t
    SET status = CASE WHEN t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.cancelled_at IS NOT NULL THEN t.due_at ELSE greatest(clock_timestamp(), s.delay) END,
    completed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END,
        last_error = CASE
            WHEN s.error IS NULL OR t.cancelled_at IS NOT NULL OR starts_with(t.last_error, s.error || ' since ')
            THEN t.last_error
            ELSE s.error || ' since ' || to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END
    FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), unnest($5::timestamptz[]), unnest($6::text[]),
            generate_subscripts('{}'::int[], 1)) AS s (id, token, delay, error)
    WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled,
        CASE WHEN t.status = 0 AND s.delay IS NULL THEN t.due_at END AS back
), told AS MATERIALIZED (
    SELECT FROM changed
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
), settled AS (
SELECT changed.id, changed.status, changed.cancelled FROM changed, told)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END) FILTER (WHERE CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END <> 'ready'), '{}')
        INTO own.changed, own.answers
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (0, 3) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'ready') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'leave' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."timers" AS t
    SET status = CASE WHEN t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.cancelled_at IS NOT NULL THEN t.due_at ELSE coalesce(clock_timestamp() + s.delay * interval '1 microsecond', t.due_at) END,
    completed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        waiting = t.waiting,
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END,
        last_error = CASE
            WHEN s.error IS NULL OR t.cancelled_at IS NOT NULL OR starts_with(t.last_error, s.error || ' since ')
            THEN t.last_error
            ELSE s.error || ' since ' || to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END
    FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), unnest($4::bigint[]), unnest($6::text[]),
            generate_subscripts('{}'::int[], 1)) AS s (id, token, delay, error)
    WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
), settled AS (
SELECT changed.id, changed.status, changed.cancelled FROM changed)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END) FILTER (WHERE CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END <> 'ready'), '{}')
        INTO own.changed, own.answers
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (0, 3) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'ready') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'release' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."timers" AS t
    SET status = CASE WHEN t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    completed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END
    FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
    WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled,
        CASE WHEN t.status = 0 THEN t.due_at END AS back
), told AS MATERIALIZED (
    SELECT FROM changed
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
), settled AS (
SELECT changed.id, changed.status, changed.cancelled FROM changed, told)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END) FILTER (WHERE CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END <> 'ready'), '{}')
        INTO own.changed, own.answers
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (0, 3) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'ready') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'fail' THEN
        WITH settled AS (
UPDATE "{{schema}}"."timers" AS t
SET status = 3,
    completed_at = clock_timestamp(),
    failed_at = clock_timestamp(),
    cancelled_at = CASE WHEN s.cancelled THEN coalesce(t.cancelled_at, clock_timestamp()) ELSE t.cancelled_at END,
    locked_until = NULL,
    last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE coalesce(s.error, 'failed without an error') END
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), unnest($6::text[]), unnest(array_fill(false, ARRAY[cardinality($2)])::boolean[]),
        generate_subscripts('{}'::int[], 1)) AS s (id, token, error, cancelled)
WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END) FILTER (WHERE CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END <> 'failed'), '{}')
        INTO own.changed, own.answers
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (3) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'failed') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'cancel' THEN
        WITH settled AS (
UPDATE "{{schema}}"."timers" AS t
SET status = 3,
    completed_at = clock_timestamp(),
    failed_at = clock_timestamp(),
    cancelled_at = CASE WHEN s.cancelled THEN coalesce(t.cancelled_at, clock_timestamp()) ELSE t.cancelled_at END,
    locked_until = NULL,
    last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE coalesce(s.error, 'failed without an error') END
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), unnest(ARRAY(SELECT 'cancelled: ' || coalesce(u.e, 'no reason given') FROM unnest($6) AS u (e))::text[]), unnest(array_fill(true, ARRAY[cardinality($2)])::boolean[]),
        generate_subscripts('{}'::int[], 1)) AS s (id, token, error, cancelled)
WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END) FILTER (WHERE CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END <> 'cancelled'), '{}')
        INTO own.changed, own.answers
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (3) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'cancelled') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'unavailable' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."timers" AS t
    SET status = CASE WHEN t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.cancelled_at IS NOT NULL THEN t.due_at ELSE clock_timestamp() + (interval '10000 ms') * (1 - 0.2 * random()) END,
    completed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END,
        last_error = CASE
            WHEN s.error IS NULL OR t.cancelled_at IS NOT NULL OR starts_with(t.last_error, s.error || ' since ')
            THEN t.last_error
            ELSE s.error || ' since ' || to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END
    FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), unnest($4::bigint[]), unnest($6::text[]),
            generate_subscripts('{}'::int[], 1)) AS s (id, token, delay, error)
    WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
), settled AS (
SELECT changed.id, changed.status, changed.cancelled, NULL::text AS begun FROM changed)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END) FILTER (WHERE CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END <> 'ready'), '{}')
        INTO own.changed, own.answers
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (0, 3) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'ready') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    END CASE;
    IF $7 THEN
        SELECT count(*) AS n, min(a.key || ' is ' || a.value) AS sample INTO own.refused
        FROM jsonb_each_text(own.answers) AS a
        WHERE a.value IN ('lost', 'gone', 'repeated');
        IF own.refused.n > 0 THEN
            RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'ids',
                MESSAGE = format('ids names %s rows that the claim does not hold: %s', own.refused.n,
                    own.refused.sample),
                HINT = 'Roll back: another worker has such a row, or it has ended.';
        END IF;
    END IF;
    RETURN own.answers;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_settle_rows"(text, uuid[], uuid[], bigint[], timestamptz[], text[], boolean) FROM PUBLIC;

-- Settles rows with an outcome for each, kind by kind. It tells what each row became: see settle_one.sql. What an
-- element says is checked before anything is written or locked.
CREATE FUNCTION "{{schema}}"."timers_settle"(outcomes jsonb, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    refused record;
    all_ids uuid[];
    all_tokens uuid[];
    all_kinds text[];
    all_delays bigint[];
    all_times timestamptz[];
    all_errors text[];
    sorted uuid[];
    tokens uuid[];
    delays bigint[];
    times timestamptz[];
    errors text[];
    kind text;
    answers jsonb := '{}';
BEGIN
    IF (CASE WHEN jsonb_typeof($1) = 'array' THEN jsonb_array_length($1) <= 10000 END) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'outcomes',
            MESSAGE = 'outcomes must be an array of at most 10000 objects',
            HINT = 'Call once for each part of a longer array.';
    END IF;
    IF ($2 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'strict',
            MESSAGE = 'strict must not be NULL',
            HINT = 'Leave it out for false.';
    END IF;
    SELECT e.place, e.wrong INTO own.refused
    FROM (
        SELECT u.place, CASE
            WHEN jsonb_typeof(u.o) <> 'object' THEN 'is no object'
            WHEN jsonb_typeof(u.o -> 'id') IS DISTINCT FROM 'string' THEN 'has no id, which is a string'
            WHEN jsonb_typeof(u.o -> 'token') IS DISTINCT FROM 'string' THEN 'has no token, which is a string'
            WHEN u.o - CASE u.o ->> 'outcome'
                WHEN 'ack' THEN ARRAY['id', 'token', 'outcome']
                WHEN 'retry' THEN ARRAY['id', 'token', 'outcome', 'delay', 'error']
                WHEN 'snooze' THEN ARRAY['id', 'token', 'outcome', 'delay', 'error']
                WHEN 'wait_until' THEN ARRAY['id', 'token', 'outcome', 'at', 'error']
                WHEN 'leave' THEN ARRAY['id', 'token', 'outcome', 'delay', 'error']
                WHEN 'release' THEN ARRAY['id', 'token', 'outcome']
                WHEN 'fail' THEN ARRAY['id', 'token', 'outcome', 'error']
                WHEN 'cancel' THEN ARRAY['id', 'token', 'outcome', 'error']
                WHEN 'unavailable' THEN ARRAY['id', 'token', 'outcome', 'error']
                END <> '{}' IS NOT FALSE THEN 'has an unknown outcome, or a field that its outcome does not take'
            WHEN NOT u.o ?& CASE u.o ->> 'outcome'
                WHEN 'ack' THEN ARRAY[]::text[]
                WHEN 'retry' THEN ARRAY[]::text[]
                WHEN 'snooze' THEN ARRAY['delay']::text[]
                WHEN 'wait_until' THEN ARRAY['at']::text[]
                WHEN 'leave' THEN ARRAY['delay']::text[]
                WHEN 'release' THEN ARRAY[]::text[]
                WHEN 'fail' THEN ARRAY['error']::text[]
                WHEN 'cancel' THEN ARRAY['error']::text[]
                WHEN 'unavailable' THEN ARRAY[]::text[]
                END THEN 'lacks a field that its outcome needs'
            WHEN jsonb_typeof(u.o -> 'delay') <> 'number' THEN 'has a delay that is no number of seconds'
            WHEN (u.o ->> 'delay')::numeric NOT BETWEEN 0 AND 315360000
                THEN 'has a delay that is not between 0 and 315360000 seconds'
            WHEN jsonb_typeof(u.o -> 'at') <> 'string' THEN 'has an at that is no string'
            WHEN jsonb_typeof(u.o -> 'error') <> 'string' THEN 'has an error that is no string'
            END AS wrong
        FROM jsonb_array_elements($1) WITH ORDINALITY AS u (o, place)) AS e
    WHERE e.wrong IS NOT NULL
    ORDER BY e.place
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'outcomes',
            MESSAGE = 'outcomes has an element that is refused: ' || concat('number ' || own.refused.place || ' ', own.refused.wrong),
            HINT = 'retry takes delay and error, if you like; fail and cancel error; snooze and leave delay, wait_until at,'
                ' and all three error, if you like; unavailable takes error, if you like; ack and release nothing.';
    END IF;
    BEGIN
        SELECT array_agg(e.id), array_agg(e.token), array_agg(e.outcome), array_agg((e.delay * 1000000)::bigint),
            array_agg(e.at), array_agg(nullif(e.error, ''))
        INTO own.all_ids, own.all_tokens, own.all_kinds, own.all_delays, own.all_times, own.all_errors
        FROM (
            SELECT u.*
            FROM jsonb_to_recordset($1)
                AS u (id uuid, token uuid, outcome text, delay numeric, at timestamptz, error text)
            ORDER BY u.id) AS e;
    EXCEPTION WHEN data_exception THEN -- an id, a token or a time that is none
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'outcomes',
            MESSAGE = 'outcomes has an element that is refused: ' || concat('number ' || NULL || ' ', SQLERRM),
            HINT = 'retry takes delay and error, if you like; fail and cancel error; snooze and leave delay, wait_until at,'
                ' and all three error, if you like; unavailable takes error, if you like; ack and release nothing.';
    END;
    SELECT min(u.place) AS place, CASE WHEN count(*) > 1 THEN 'names a row that another element names'
        ELSE 'has an at that is not between the years 1 and 9999' END AS wrong
    FROM ROWS FROM (jsonb_to_recordset($1) AS (id uuid, at timestamptz)) WITH ORDINALITY AS u (id, at, place)
    GROUP BY u.id
    HAVING count(*) > 1 OR bool_or(NOT u.at <@ '[0001-01-01 00:00:00+00, 9999-12-31 00:00:00+00]'::tstzrange)
    ORDER BY 1
    LIMIT 1
    INTO own.refused;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'outcomes',
            MESSAGE = 'outcomes has an element that is refused: ' || concat('number ' || own.refused.place || ' ', own.refused.wrong),
            HINT = 'retry takes delay and error, if you like; fail and cancel error; snooze and leave delay, wait_until at,'
                ' and all three error, if you like; unavailable takes error, if you like; ack and release nothing.';
    END IF;
    FOR i IN 1..coalesce(cardinality(own.all_ids), 0) LOOP
        IF octet_length(own.all_errors[i]) > 8192 THEN
            all_errors[i] := left(nullif(all_errors[i], ''), 8192); WHILE octet_length(all_errors[i]) > 8192 LOOP all_errors[i] := left(all_errors[i], -greatest((octet_length(all_errors[i]) - 8192) / 4, 1)); END LOOP;
        END IF;
    END LOOP;
    FOREACH own.kind IN ARRAY '{ack, retry, snooze, wait_until, leave, release, fail, cancel, unavailable}'::text[] LOOP
        IF own.kind = ANY (own.all_kinds) THEN
            SELECT array_agg(u.id), array_agg(u.token), array_agg(u.delay), array_agg(u.at), array_agg(u.error)
            FROM unnest(own.all_ids, own.all_tokens, own.all_kinds, own.all_delays, own.all_times, own.all_errors)
                AS u (id, token, kind, delay, at, error)
            WHERE u.kind = own.kind
            INTO own.sorted, own.tokens, own.delays, own.times, own.errors;
            own.answers := own.answers
                || "{{schema}}"."timers_settle_rows"(own.kind, own.sorted, own.tokens, own.delays, own.times, own.errors, false);
        END IF;
    END LOOP;
    IF $2 THEN
        SELECT count(*) AS n, min(a.key || ' is ' || a.value) AS sample INTO own.refused
        FROM jsonb_each_text(own.answers) AS a
        WHERE a.value IN ('lost', 'gone', 'repeated');
        IF own.refused.n > 0 THEN
            RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'outcomes',
                MESSAGE = format('outcomes names %s rows that the claim does not hold: %s', own.refused.n,
                    own.refused.sample),
                HINT = 'Roll back: another worker has such a row, or it has ended.';
        END IF;
    END IF;
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, CASE u.outcome
        WHEN 'ack' THEN 'done'
        WHEN 'retry' THEN 'ready'
        WHEN 'snooze' THEN 'ready'
        WHEN 'wait_until' THEN 'ready'
        WHEN 'leave' THEN 'ready'
        WHEN 'release' THEN 'ready'
        WHEN 'fail' THEN 'failed'
        WHEN 'cancel' THEN 'cancelled'
        WHEN 'unavailable' THEN 'ready'
        END)
    FROM ROWS FROM (jsonb_to_recordset($1) AS (id uuid, outcome text)) WITH ORDINALITY AS u (id, outcome, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_settle"(jsonb, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."timers_ack"(owner_token uuid, ids uuid[], strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    sorted uuid[];
    answers jsonb;
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for every claim, and the claim''s for its rows.';
    END IF;
    IF (coalesce(array_ndims($2), 1) = 1 AND cardinality($2) <= 10000 AND array_position($2, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($3 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'strict',
            MESSAGE = 'strict must not be NULL',
            HINT = 'Leave it out for false.';
    END IF;
    sorted := ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id);
    answers := "{{schema}}"."timers_settle_rows"('ack', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, NULL, $3);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'done')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_ack"(uuid, uuid[], boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."timers_retry"(owner_token uuid, ids uuid[], delay interval DEFAULT NULL, error text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    sorted uuid[];
    answers jsonb;
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for every claim, and the claim''s for its rows.';
    END IF;
    IF (coalesce(array_ndims($2), 1) = 1 AND cardinality($2) <= 10000 AND array_position($2, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($3 IS NULL OR $3 BETWEEN interval '0' AND interval '87600 hours') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'delay',
            MESSAGE = 'delay must be between 0 and 87600 hours',
            HINT = 'NULL is the table''s own backoff.';
    END IF;
    error := left(nullif(error, ''), 8192); WHILE octet_length(error) > 8192 LOOP error := left(error, -greatest((octet_length(error) - 8192) / 4, 1)); END LOOP;
    IF ($5 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'strict',
            MESSAGE = 'strict must not be NULL',
            HINT = 'Leave it out for false.';
    END IF;
    sorted := ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id);
    answers := "{{schema}}"."timers_settle_rows"('retry', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        array_fill((extract(epoch FROM $3) * 1000000)::bigint, ARRAY[cardinality(own.sorted)]), NULL, array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_retry"(uuid, uuid[], interval, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."timers_snooze"(owner_token uuid, ids uuid[], delay interval, reason text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    sorted uuid[];
    answers jsonb;
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for every claim, and the claim''s for its rows.';
    END IF;
    IF (coalesce(array_ndims($2), 1) = 1 AND cardinality($2) <= 10000 AND array_position($2, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($3 BETWEEN interval '0' AND interval '87600 hours') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'delay',
            MESSAGE = 'delay must be between 0 and 87600 hours',
            HINT = 'Say for how long the rows are to wait.';
    END IF;
    reason := left(nullif(reason, ''), 8192); WHILE octet_length(reason) > 8192 LOOP reason := left(reason, -greatest((octet_length(reason) - 8192) / 4, 1)); END LOOP;
    IF ($5 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'strict',
            MESSAGE = 'strict must not be NULL',
            HINT = 'Leave it out for false.';
    END IF;
    sorted := ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id);
    answers := "{{schema}}"."timers_settle_rows"('snooze', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        array_fill((extract(epoch FROM $3) * 1000000)::bigint, ARRAY[cardinality(own.sorted)]), NULL, array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_snooze"(uuid, uuid[], interval, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."timers_wait_until"(owner_token uuid, ids uuid[], at timestamptz, reason text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    sorted uuid[];
    answers jsonb;
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for every claim, and the claim''s for its rows.';
    END IF;
    IF (coalesce(array_ndims($2), 1) = 1 AND cardinality($2) <= 10000 AND array_position($2, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($3 <@ '[0001-01-01 00:00:00+00, 9999-12-31 00:00:00+00]'::tstzrange) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'at',
            MESSAGE = 'at must be between the years 1 and 9999',
            HINT = 'Say until when the rows are to wait.';
    END IF;
    reason := left(nullif(reason, ''), 8192); WHILE octet_length(reason) > 8192 LOOP reason := left(reason, -greatest((octet_length(reason) - 8192) / 4, 1)); END LOOP;
    IF ($5 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'strict',
            MESSAGE = 'strict must not be NULL',
            HINT = 'Leave it out for false.';
    END IF;
    sorted := ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id);
    answers := "{{schema}}"."timers_settle_rows"('wait_until', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, array_fill($3, ARRAY[cardinality(own.sorted)]), array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_wait_until"(uuid, uuid[], timestamptz, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."timers_release"(owner_token uuid, ids uuid[], strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    sorted uuid[];
    answers jsonb;
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for every claim, and the claim''s for its rows.';
    END IF;
    IF (coalesce(array_ndims($2), 1) = 1 AND cardinality($2) <= 10000 AND array_position($2, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($3 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'strict',
            MESSAGE = 'strict must not be NULL',
            HINT = 'Leave it out for false.';
    END IF;
    sorted := ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id);
    answers := "{{schema}}"."timers_settle_rows"('release', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, NULL, $3);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_release"(uuid, uuid[], boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."timers_fail"(owner_token uuid, ids uuid[], error text, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    sorted uuid[];
    answers jsonb;
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for every claim, and the claim''s for its rows.';
    END IF;
    IF (coalesce(array_ndims($2), 1) = 1 AND cardinality($2) <= 10000 AND array_position($2, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($3 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'error',
            MESSAGE = 'error must not be NULL',
            HINT = 'Say why the rows failed.';
    END IF;
    error := left(nullif(error, ''), 8192); WHILE octet_length(error) > 8192 LOOP error := left(error, -greatest((octet_length(error) - 8192) / 4, 1)); END LOOP;
    IF ($4 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'strict',
            MESSAGE = 'strict must not be NULL',
            HINT = 'Leave it out for false.';
    END IF;
    sorted := ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id);
    answers := "{{schema}}"."timers_settle_rows"('fail', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, array_fill($3, ARRAY[cardinality(own.sorted)]), $4);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'failed')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_fail"(uuid, uuid[], text, boolean) FROM PUBLIC;

-- Renews leases, and tells of each row whether that was done: extended; cancelled, which is extended, too, but a cancel
-- has been asked for; busy if another transaction has the row locked, such as its own settle; lost or gone.
CREATE FUNCTION "{{schema}}"."timers_extend"(owner_token uuid, ids uuid[], lease interval, within interval DEFAULT NULL) RETURNS TABLE (place integer, id uuid, result text, locked_until timestamptz)
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
<<own>>
DECLARE
    sorted uuid[];
    changed uuid[];
    until timestamptz; -- of the row whose lease ends first
    answers jsonb := '{}';
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for every claim, and the claim''s for its rows.';
    END IF;
    IF (coalesce(array_ndims($2), 1) = 1 AND cardinality($2) <= 10000 AND array_position($2, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($3 BETWEEN interval '1 seconds' AND interval '86400 seconds') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'lease',
            MESSAGE = 'lease must be between 1 and 86400 seconds',
            HINT = 'Take a lease that a dead worker may hold its rows for, and extend it while they run.';
    END IF;
    IF ($4 IS NULL OR $4 BETWEEN interval '0' AND interval '87600 hours') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'within',
            MESSAGE = 'within must be between 0 and 87600 hours',
            HINT = 'NULL is the table''s own.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a settle needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    sorted := ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id);
    WITH settled AS (
UPDATE "{{schema}}"."timers" AS t
SET locked_until = clock_timestamp() + $3::interval,
    headers = CASE
        WHEN jsonb_typeof(coalesce(t.headers, '{}'::jsonb)) <> 'object'
            OR coalesce(split_part((t.headers ->> 'txwork-running'), ' ', 3) = t.owner_token::text, false) AND coalesce(s.within::text = split_part((t.headers ->> 'txwork-running'), ' ', 2), true)
        THEN t.headers
        ELSE coalesce(t.headers, '{}'::jsonb) || jsonb_build_object('txwork-running', concat(
            CASE WHEN coalesce(split_part((t.headers ->> 'txwork-running'), ' ', 3) = t.owner_token::text, false) THEN split_part((t.headers ->> 'txwork-running'), ' ', 1)
                ELSE (extract(epoch FROM coalesce(t.locked_until - NULL::interval, clock_timestamp()))
                    * 1000000)::bigint::text END,
            ' ', s.within, ' ', t.owner_token)) END
FROM ROWS FROM (unnest(own.sorted::uuid[]), unnest(array_fill($1, ARRAY[cardinality(own.sorted)])::uuid[]), unnest(array_fill((extract(epoch FROM $4) * 1000000)::bigint, ARRAY[cardinality(own.sorted)])::bigint[]),
        generate_subscripts('{}'::int[], 1)) AS s (id, token, within)
WHERE t.id = ANY (ARRAY(
    SELECT r.id
    FROM ROWS FROM (unnest(own.sorted::uuid[]), unnest(array_fill($1, ARRAY[cardinality(own.sorted)])::uuid[]), generate_subscripts('{}'::int[], 1)) AS h (id, token)
    JOIN "{{schema}}"."timers" AS r ON r.id = h.id
    WHERE r.id = ANY (own.sorted::uuid[]) AND r.owner_token = h.token AND coalesce(r.status = 1, false)
    FOR NO KEY UPDATE OF r SKIP LOCKED))
  AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.cancelled_at IS NOT NULL AS cancelled, t.locked_until::timestamptz
)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.cancelled THEN 'cancelled' ELSE 'extended' END) FILTER (WHERE CASE WHEN c.cancelled THEN 'cancelled' ELSE 'extended' END <> 'extended'), '{}'), min(c.locked_until)
        INTO own.changed, own.answers, own.until
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality(own.sorted) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (1) THEN 'busy' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'extended') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest(own.sorted::uuid[]), unnest(array_fill($1, ARRAY[cardinality(own.sorted)])::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers" AS t ON t.id = ANY (own.sorted::uuid[]) AND t.id = s.id) AS k;
        END IF;
    RETURN QUERY
    SELECT u.place::integer, u.id, u.result, CASE WHEN u.result IN ('extended', 'cancelled') THEN own.until END
    FROM (
        SELECT v.place, v.id, coalesce(own.answers ->> v.id::text, 'extended') AS result
        FROM unnest($2) WITH ORDINALITY AS v (id, place)) AS u;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_extend"(uuid, uuid[], interval, interval) FROM PUBLIC;

-- The ack of one row in the transaction of its effects: an error unless the claim holds the row, so that the effects
-- are rolled back, too. A repetition is one: what an earlier transaction did with this token has its effects.
CREATE FUNCTION "{{schema}}"."timers_complete"(owner_token uuid, id uuid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    told text;
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for every claim, and the claim''s for its rows.';
    END IF;
    IF ($2 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'id',
            MESSAGE = 'id must not be NULL',
            HINT = 'Name the row that is completed.';
    END IF;
    SELECT a.result INTO told FROM "{{schema}}"."timers_ack"($1, ARRAY[$2]) AS a;
    IF told IS DISTINCT FROM 'done' THEN
        RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'id',
            MESSAGE = format('id is of a row that the claim does not hold: %s is %s', $2, told),
            HINT = 'Roll back: another worker has such a row, or it has ended.';
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_complete"(uuid, uuid) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_reap_expired"(max_rows integer DEFAULT 1000) RETURNS TABLE (requeued integer, failed integer, cancelled integer, dead_letters jsonb)
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
    IF ($1 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    RETURN QUERY
WITH taken AS MATERIALIZED (
    SELECT r.ctid, r.id, substring(uuid_send(r.owner_token) FROM 1 FOR 6) AS process,
        r.headers ->> 'txwork-lost-beside' IS NOT DISTINCT FROM r.owner_token::text AS noted,
        r.max_attempts > 1 AND r.attempts > 0
            AND jsonb_typeof(coalesce(r.headers, '{}'::jsonb)) = 'object' AS returnable,
        coalesce(substring(r.headers ->> 'txwork-lost-alone' FROM '^[0-9]{1,4}$')::int, 0) AS alone,
        coalesce(substring(r.headers ->> 'txwork-lost-together' FROM '^[0-9]{1,4}$')::int, 0) AS together
    FROM "{{schema}}"."timers" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND r.locked_until < now()
    ORDER BY r.due_at, r.id
    LIMIT $1::int
    FOR NO KEY UPDATE SKIP LOCKED
), beside AS MATERIALIZED (
    SELECT r.ctid, substring(uuid_send(r.owner_token) FROM 1 FOR 6) AS process
    FROM "{{schema}}"."timers" AS r
    WHERE EXISTS (SELECT FROM taken)
      AND r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND substring(uuid_send(r.owner_token) FROM 1 FOR 6) = ANY (ARRAY(SELECT k.process FROM taken AS k))
      AND r.id <> ALL (ARRAY(SELECT k.id FROM taken AS k))
), left_alone AS (
    UPDATE "{{schema}}"."timers" AS t
    SET headers = coalesce(t.headers, '{}'::jsonb)
        || jsonb_build_object('txwork-lost-beside', t.owner_token::text)
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM "{{schema}}"."timers" AS r
        WHERE r.ctid = ANY (ARRAY(
            SELECT (array_agg(b.ctid))[1] FROM beside AS b GROUP BY b.process HAVING count(*) = 1))
          AND r.status = 1
          AND jsonb_typeof(coalesce(r.headers, '{}'::jsonb)) = 'object'
          AND r.headers ->> 'txwork-lost-beside' IS DISTINCT FROM r.owner_token::text
        FOR NO KEY UPDATE SKIP LOCKED))
), lost AS MATERIALIZED (
    SELECT k.ctid, k.alone, k.together, s.shared,
        s.shared AND k.returnable AND k.alone = 0 AND k.together < 5 AS returned
    FROM (
        SELECT l.*, count(*) OVER (PARTITION BY l.process) AS rows FROM taken AS l) AS k
    CROSS JOIN LATERAL (
        SELECT k.rows > 1 OR k.noted OR k.process = ANY (ARRAY(SELECT b.process FROM beside AS b)) AS shared) AS s
), changed AS (
    UPDATE "{{schema}}"."timers" AS t
    SET status = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE greatest(clock_timestamp(), t.locked_until + CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 900000000) * (1 - 0.2 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        owner_token = NULL,
        attempts = CASE WHEN l.returned AND t.cancelled_at IS NULL THEN t.attempts - 1 ELSE t.attempts END,
        headers = CASE WHEN jsonb_typeof(coalesce(t.headers, '{}'::jsonb)) <> 'object' THEN t.headers
            ELSE coalesce(t.headers, '{}'::jsonb) - ARRAY['txwork-lost-beside', 'txwork-running'] || jsonb_build_object(
                CASE WHEN l.shared THEN 'txwork-lost-together' ELSE 'txwork-lost-alone' END,
                (1 + CASE WHEN l.shared THEN l.together ELSE l.alone END)::text,
                'txwork-lost-at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) END,
        last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE 'lease expired at ' ||
            to_char(t.locked_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' in attempt ' || t.attempts
            || CASE WHEN l.returned THEN ', which does not count: other rows of its process were lost with it'
                WHEN NOT l.shared AND l.alone > 0
                    THEN ', lost alone ' || 1 + l.alone || ' times: it may end its process'
                ELSE '' END END
    FROM lost AS l
    WHERE t.ctid = l.ctid
    RETURNING t.status, t.cancelled_at, CASE WHEN t.status = 3 AND t.cancelled_at IS NULL THEN jsonb_build_object(
        'id', t.id, 'attempt', t.attempts, 'max_attempts', t.max_attempts, 'error', t.last_error,
        'labels', jsonb_build_array(t."topic")) END AS dead_letter
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled,
       jsonb_agg(changed.dead_letter) FILTER (WHERE changed.dead_letter IS NOT NULL) AS dead_letters
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_reap_expired"(integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_stats"() RETURNS TABLE (ready bigint, scheduled bigint, in_progress bigint, expired bigint, waiting bigint, failed bigint, cancelled bigint, oldest_ready_seconds double precision, partial boolean)
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
SELECT count(*) FILTER (WHERE r.status = 0 AND r.due_at <= now()) AS ready,
       count(*) FILTER (WHERE r.status = 0 AND r.due_at > now()) AS scheduled,
       count(*) FILTER (WHERE r.status = 1) AS in_progress,
       count(*) FILTER (WHERE r.status = 1 AND r.locked_until < now()) AS expired,
       (SELECT count(*) FROM "{{schema}}"."timers" AS w WHERE w.completed_at IS NULL AND w.waiting) AS waiting,
       (SELECT count(*) FROM "{{schema}}"."timers" AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NULL) AS failed,
       (SELECT count(*) FROM "{{schema}}"."timers" AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NOT NULL) AS cancelled,
       coalesce(extract(epoch FROM now() - min(r.due_at) FILTER (WHERE r.status = 0 AND r.due_at <= now())), 0)::float8
           AS oldest_ready_seconds,
       row_security_active('"{{schema}}"."timers"'::regclass) AS partial
FROM "{{schema}}"."timers" AS r
WHERE r.completed_at IS NULL AND NOT r.waiting;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_stats"() FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_run_now"(ids uuid[]) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    IF (coalesce(array_ndims($1), 1) = 1 AND cardinality($1) <= 10000 AND array_position($1, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    PERFORM FROM "{{schema}}"."timers" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."timers" AS t
    SET due_at = now()::timestamptz
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 0
      AND (t.due_at > now()::timestamptz OR t.due_at < now()::timestamptz AND NOT true::boolean)
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
), hit AS (
SELECT unnest(told.ids) AS id FROM told
), named AS (
    SELECT s.id, s.place, bool_or(s.place IS NULL) OVER (PARTITION BY s.id) AS changed
    FROM (
        SELECT u.id, u.place FROM unnest($1) WITH ORDINALITY AS u (id, place)
        UNION ALL SELECT h.id, NULL FROM hit AS h
    ) AS s
)
SELECT n.place::integer, n.id, n.changed,
       CASE WHEN t.id IS NULL THEN 'gone' WHEN n.changed THEN CASE WHEN t.waiting THEN 'waiting' ELSE 'ready' END ELSE CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END,
       CASE WHEN n.changed THEN NULL WHEN t.id IS NULL THEN 'there is no such row'
           WHEN t.status = 0 AND t.waiting THEN 'it is due, and waits for its key, a join or its topic'
           WHEN t.status = 0 THEN 'it is due already' ELSE 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END
FROM named AS n
LEFT JOIN "{{schema}}"."timers" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_run_now"(uuid[]) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_reschedule"(ids uuid[], at timestamptz) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    IF (coalesce(array_ndims($1), 1) = 1 AND cardinality($1) <= 10000 AND array_position($1, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($2 BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'at',
            MESSAGE = 'at must be a time between the years 1 and 9999',
            HINT = 'Give the time, or call run_now.';
    END IF;
    PERFORM FROM "{{schema}}"."timers" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."timers" AS t
    SET due_at = $2::timestamptz
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 0
      AND (t.due_at > $2::timestamptz OR t.due_at < $2::timestamptz AND NOT false::boolean)
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
), hit AS (
SELECT unnest(told.ids) AS id FROM told
), named AS (
    SELECT s.id, s.place, bool_or(s.place IS NULL) OVER (PARTITION BY s.id) AS changed
    FROM (
        SELECT u.id, u.place FROM unnest($1) WITH ORDINALITY AS u (id, place)
        UNION ALL SELECT h.id, NULL FROM hit AS h
    ) AS s
)
SELECT n.place::integer, n.id, n.changed,
       CASE WHEN t.id IS NULL THEN 'gone' WHEN n.changed THEN CASE WHEN t.waiting THEN 'waiting' WHEN $2 > clock_timestamp() THEN 'scheduled' ELSE 'ready' END ELSE CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END,
       CASE WHEN n.changed THEN NULL WHEN t.id IS NULL THEN 'there is no such row'
           WHEN t.status = 0 THEN 'it is due at that time already' ELSE 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END
FROM named AS n
LEFT JOIN "{{schema}}"."timers" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_reschedule"(uuid[], timestamptz) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_redrive"(ids uuid[], actor text DEFAULT NULL) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    IF (coalesce(array_ndims($1), 1) = 1 AND cardinality($1) <= 10000 AND array_position($1, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    actor := left(nullif(actor, ''), 1024);
    PERFORM FROM "{{schema}}"."timers" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
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
        headers = CASE WHEN jsonb_typeof(t.headers) = 'object' THEN t.headers - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent']
            ELSE coalesce(t.headers, '{}'::jsonb) END || jsonb_build_object(
            'txwork-redriven-by', coalesce($2::text, session_user::text),
            'txwork-redriven-at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 3
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
), hit AS (
SELECT unnest(told.ids) AS id FROM told
), named AS (
    SELECT s.id, s.place, bool_or(s.place IS NULL) OVER (PARTITION BY s.id) AS changed
    FROM (
        SELECT u.id, u.place FROM unnest($1) WITH ORDINALITY AS u (id, place)
        UNION ALL SELECT h.id, NULL FROM hit AS h
    ) AS s
)
SELECT n.place::integer, n.id, n.changed,
       CASE WHEN t.id IS NULL THEN 'gone' WHEN n.changed THEN CASE WHEN false THEN 'waiting' ELSE 'ready' END ELSE CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END,
       CASE WHEN n.changed THEN NULL WHEN t.id IS NULL THEN 'there is no such row' ELSE 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END
FROM named AS n
LEFT JOIN "{{schema}}"."timers" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_redrive"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_cancel"(ids uuid[], reason text) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    IF (coalesce(array_ndims($1), 1) = 1 AND cardinality($1) <= 10000 AND array_position($1, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($2 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'reason',
            MESSAGE = 'reason must not be NULL',
            HINT = 'Say why; an empty text says nothing.';
    END IF;
    reason := 'cancelled: ' || CASE WHEN $2 = '' THEN 'no reason given' ELSE left($2, 1024) END;
    PERFORM FROM "{{schema}}"."timers" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."timers" AS t
    SET cancelled_at = clock_timestamp(),
        status = CASE WHEN t.status = 0 THEN 3 ELSE t.status END,
        completed_at = CASE WHEN t.status = 0 THEN clock_timestamp() END,
        failed_at = CASE WHEN t.status = 0 THEN clock_timestamp() END,
        owner_token = CASE WHEN t.status = 1 THEN t.owner_token END,
        last_error = $2::text
    WHERE t.id = ANY ($1::uuid[]) AND t.status IN (0, 1) AND t.cancelled_at IS NULL
    RETURNING t.id, t.status
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN bool_or(changed.status = 1) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers', 'cancel') ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END
), hit AS (
SELECT unnest(told.ids) AS id FROM told
), named AS (
    SELECT s.id, s.place, bool_or(s.place IS NULL) OVER (PARTITION BY s.id) AS changed
    FROM (
        SELECT u.id, u.place FROM unnest($1) WITH ORDINALITY AS u (id, place)
        UNION ALL SELECT h.id, NULL FROM hit AS h
    ) AS s
)
SELECT n.place::integer, n.id, n.changed,
       CASE WHEN t.id IS NULL THEN 'gone' WHEN n.changed THEN CASE WHEN t.status = 0 THEN 'cancelled' ELSE 'in_progress' END ELSE CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END,
       CASE WHEN n.changed THEN NULL WHEN t.id IS NULL THEN 'there is no such row'
           WHEN t.status = 1 THEN 'its cancel was asked for before' ELSE 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END
FROM named AS n
LEFT JOIN "{{schema}}"."timers" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_cancel"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_discard"(ids uuid[], reason text) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    IF (coalesce(array_ndims($1), 1) = 1 AND cardinality($1) <= 10000 AND array_position($1, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($2 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'reason',
            MESSAGE = 'reason must not be NULL',
            HINT = 'Say why; an empty text says nothing.';
    END IF;
    reason := 'discarded: ' || CASE WHEN $2 = '' THEN 'no reason given' ELSE left($2, 1024) END;
    PERFORM FROM "{{schema}}"."timers" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH hit AS (
UPDATE "{{schema}}"."timers" AS t
SET cancelled_at = clock_timestamp(),
    last_error = left(concat_ws('; ', $2::text, t.last_error), 2048)
WHERE t.id = ANY ($1::uuid[]) AND t.status = 3 AND t.cancelled_at IS NULL
RETURNING t.id
), named AS (
    SELECT s.id, s.place, bool_or(s.place IS NULL) OVER (PARTITION BY s.id) AS changed
    FROM (
        SELECT u.id, u.place FROM unnest($1) WITH ORDINALITY AS u (id, place)
        UNION ALL SELECT h.id, NULL FROM hit AS h
    ) AS s
)
SELECT n.place::integer, n.id, n.changed,
       CASE WHEN t.id IS NULL THEN 'gone' WHEN n.changed THEN 'cancelled' ELSE CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END,
       CASE WHEN n.changed THEN NULL WHEN t.id IS NULL THEN 'there is no such row'
           WHEN t.status IN (0, 1) THEN 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END || ': cancel it' ELSE 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END
FROM named AS n
LEFT JOIN "{{schema}}"."timers" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_discard"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_delete"(ids uuid[]) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    IF (coalesce(array_ndims($1), 1) = 1 AND cardinality($1) <= 10000 AND array_position($1, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    PERFORM FROM "{{schema}}"."timers" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR UPDATE;
    RETURN QUERY
WITH hit AS (
DELETE FROM "{{schema}}"."timers" AS t
WHERE t.id = ANY ($1::uuid[]) AND t.status IN (2, 3)
RETURNING t.id
), named AS (
    SELECT s.id, s.place, bool_or(s.place IS NULL) OVER (PARTITION BY s.id) AS changed
    FROM (
        SELECT u.id, u.place FROM unnest($1) WITH ORDINALITY AS u (id, place)
        UNION ALL SELECT h.id, NULL FROM hit AS h
    ) AS s
)
SELECT n.place::integer, n.id, n.changed,
       CASE WHEN t.id IS NULL THEN 'gone' WHEN n.changed THEN 'deleted' ELSE CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END,
       CASE WHEN n.changed THEN NULL WHEN t.id IS NULL THEN 'there is no such row'
           WHEN t.status IN (0, 1) THEN 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END || ': cancel it first' ELSE 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END
FROM named AS n
LEFT JOIN "{{schema}}"."timers" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_delete"(uuid[]) FROM PUBLIC;

-- Nothing -> Ready, in the caller's transaction: one row, as Table.Insert writes it, for programs in any language. It
-- runs with its caller's rights, so the rights on the table's columns and row-level security apply as to an INSERT.
--
-- An id that is not given is a UUID version 7, so that keys grow with time. For a row with unique values that are
-- taken, it returns the row that is there. If that is deleted meanwhile, the values are free, and it tries again.
--
-- #variable_conflict: the names in ON CONFLICT are columns. Parameters are written as $1, $2, ....
CREATE FUNCTION "{{schema}}"."timers_set"(
    "key" text,
    "topic" text,
    "scheduled_at" timestamptz,
    "payload" bytea,
    "headers" jsonb DEFAULT NULL,
    "max_attempts" integer DEFAULT NULL,
    INOUT "id" uuid DEFAULT NULL,
    OUT duplicate boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $txwork$
#variable_conflict use_column
DECLARE
    own CONSTANT uuid := coalesce($7, encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid);
BEGIN
    IF ($5 IS NULL OR jsonb_typeof($5) = 'object') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'headers',
            MESSAGE = 'headers must be a JSON object',
            HINT = 'Give an object of texts, or NULL for none.';
    END IF;
    IF ($3 IS NULL OR $3 BETWEEN '1970-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'scheduled_at',
            MESSAGE = 'scheduled_at must be between 1970 and 9999',
            HINT = 'NULL and a time in the past mean now.';
    END IF;
    IF ($6 IS NULL OR $6 BETWEEN 1 AND 1000000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_attempts',
            MESSAGE = 'max_attempts must be between 1 and 1000000',
            HINT = 'NULL is the table''s own.';
    END IF;
    IF ($3 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'scheduled_at',
            MESSAGE = 'scheduled_at must not be NULL',
            HINT = 'Say when the timer is to fire.';
    END IF;
    IF (octet_length($1) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'key',
            MESSAGE = 'key must have 1 to 255 bytes, and must not be NULL',
            HINT = 'Such a row could not be stored.';
    END IF;
    IF (octet_length($2) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'topic',
            MESSAGE = 'topic must have 1 to 255 bytes, and must not be NULL',
            HINT = 'Such a row could not be stored.';
    END IF;
    IF (octet_length($4) <= 1048576) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'payload',
            MESSAGE = 'payload must have at most 1048576 bytes, and must not be NULL',
            HINT = 'Such a row could not be stored.';
    END IF;
    IF (NOT starts_with($1, 'schedule/')) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'key',
            MESSAGE = 'key must not begin with schedule/, as the occurrences of schedules do',
            HINT = 'Take another key.';
    END IF;
    IF $5 IS NOT NULL THEN
    IF ((SELECT coalesce(sum(octet_length(h.name) + coalesce(octet_length(h.value), 0)), 0) FROM jsonb_each_text($5) AS h (name, value)) <= 65536) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'headers',
            MESSAGE = 'headers must have at most 65536 bytes',
            HINT = 'Put what is larger into the payload.';
    END IF;
    END IF;
    duplicate := false;
    FOR attempt IN 1..10 LOOP
WITH wanted AS MATERIALIZED (
    SELECT s.ord, s.key, s.topic, s.payload, s.headers::jsonb AS headers,
           coalesce(s.max_attempts, 15) AS max_attempts,
           coalesce(s.fire_at, clock_timestamp() + s.delay * interval '1 microsecond') AS fire_at
    FROM ROWS FROM (unnest(ARRAY[$1]::text[]), unnest(ARRAY[$2]::text[]), unnest(ARRAY[$4]::bytea[]), unnest(ARRAY[$5]::text[]),
            unnest(ARRAY[$6]::bigint[]), unnest(ARRAY[$3]::timestamptz[]), unnest(ARRAY[NULL]::bigint[]), generate_subscripts('{}'::int[], 1))
        WITH ORDINALITY AS s (key, topic, payload, headers, max_attempts, fire_at, delay, many, ord)
), held AS MATERIALIZED (
    SELECT t.id FROM "{{schema}}"."timers" AS t WHERE t.key = ANY (ARRAY[$1]::text[]) ORDER BY t.key FOR NO KEY UPDATE
), changed AS (
    UPDATE "{{schema}}"."timers" AS t
    SET generation = CASE WHEN t.generation < 2147483647 THEN t.generation + 1 ELSE 1 END,
        fire_at = CASE WHEN t.status = 1 THEN t.fire_at ELSE w.fire_at END,
        topic = CASE WHEN t.status = 1 THEN t.topic ELSE w.topic END,
        payload = CASE WHEN t.status = 1 THEN t.payload ELSE w.payload END,
        headers = CASE WHEN t.status = 1 THEN t.headers ELSE w.headers END,
        max_attempts = CASE WHEN t.status = 1 THEN t.max_attempts ELSE w.max_attempts END,
        due_at = CASE WHEN t.status = 1 THEN t.due_at ELSE greatest(w.fire_at, now()) END,
        status = CASE WHEN t.status = 1 THEN 1 ELSE 0 END,
        attempts = CASE WHEN t.status = 1 THEN t.attempts ELSE 0 END,
        owner_token = CASE WHEN t.status = 1 THEN t.owner_token END,
        cancelled_at = CASE WHEN t.status = 1 THEN t.cancelled_at END,
        last_error = CASE WHEN t.status = 1 THEN t.last_error END,
        completed_at = NULL,
        failed_at = NULL,
        waiting = false,
        rearm_at = CASE WHEN t.status = 1 THEN w.fire_at END,
        rearm_topic = CASE WHEN t.status = 1 THEN w.topic END,
        rearm_payload = CASE WHEN t.status = 1 THEN w.payload END,
        rearm_headers = CASE WHEN t.status = 1 THEN w.headers END,
        rearm_max_attempts = CASE WHEN t.status = 1 THEN w.max_attempts END
    FROM wanted AS w
    WHERE t.id = ANY (ARRAY(SELECT h.id FROM held AS h)) AND t.key = w.key
    RETURNING t.id, t.key, t.status
)
SELECT c.id, CASE WHEN c.status = 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL ELSE c.status = 1 END
FROM wanted AS w
LEFT JOIN changed AS c ON c.key = w.key
        INTO id, duplicate;
        IF duplicate THEN
            RETURN;
        END IF;
        duplicate := false;
        id := own;
        INSERT INTO "{{schema}}"."timers" (id, due_at, max_attempts, headers, "key", "topic", "payload", "fire_at", "generation")
        VALUES (id,
            greatest($3, now()),
            coalesce($6, 15),
            nullif($5 - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent'], '{}'),
            $1,
            $2,
            $4,
            $3,
            1)
        ON CONFLICT ("key")
            WHERE "key" IS NOT NULL DO NOTHING;
        IF FOUND THEN
            RETURN;
        END IF;
    END LOOP;
            RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
                MESSAGE = '{{schema}}.timers took a row and stored none: does a trigger, a rule or a policy of the '
                    'table suppress it, or hide the row that has its unique values?';
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_set"(text, text, timestamptz, bytea, jsonb, integer, uuid) FROM PUBLIC;

-- The same for a payload of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."timers_set"(
    "key" text,
    "topic" text,
    "scheduled_at" timestamptz,
    "payload" text DEFAULT '',
    "headers" jsonb DEFAULT NULL,
    "max_attempts" integer DEFAULT NULL,
    INOUT "id" uuid DEFAULT NULL,
    OUT duplicate boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    SELECT w.id, w.duplicate
    INTO id, duplicate
    FROM "{{schema}}"."timers_set"($1, $2, $3, convert_to($4, 'UTF8'), $5, $6, $7) AS w;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_set"(text, text, timestamptz, text, jsonb, integer, uuid) FROM PUBLIC;

-- The same for a payload of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."timers_set"(
    "key" text,
    "topic" text,
    "scheduled_at" timestamptz,
    "payload" json,
    "headers" jsonb DEFAULT NULL,
    "max_attempts" integer DEFAULT NULL,
    INOUT "id" uuid DEFAULT NULL,
    OUT duplicate boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    SELECT w.id, w.duplicate
    INTO id, duplicate
    FROM "{{schema}}"."timers_set"($1, $2, $3, convert_to($4::text, 'UTF8'), $5, $6, $7) AS w;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_set"(text, text, timestamptz, json, jsonb, integer, uuid) FROM PUBLIC;

-- The same for a payload of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."timers_set"(
    "key" text,
    "topic" text,
    "scheduled_at" timestamptz,
    "payload" jsonb,
    "headers" jsonb DEFAULT NULL,
    "max_attempts" integer DEFAULT NULL,
    INOUT "id" uuid DEFAULT NULL,
    OUT duplicate boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    SELECT w.id, w.duplicate
    INTO id, duplicate
    FROM "{{schema}}"."timers_set"($1, $2, $3, convert_to($4::text, 'UTF8'), $5, $6, $7) AS w;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_set"(text, text, timestamptz, jsonb, jsonb, integer, uuid) FROM PUBLIC;

-- Nothing -> Ready, in the caller's transaction: the rows that the function for one row would write, from an array of
-- objects whose fields are its parameters. A field that is null is left out. It returns a row for each object, in their
-- order. All objects are checked before a row is written, and nothing is locked before. What only the function for one
-- row checks is refused when it is called, and undone.
--
-- insert.sql writes the rows, as for Go. Those that it leaves, since their unique values are taken, and those that need
-- statements of their own, go to the function for one row, which tries again if a holder was deleted meanwhile.
--
-- Ids that are not given are UUIDs version 7 that grow in the order of the objects: behind the time, 14 bits count.
--
-- The arrays are made in the order of a subquery. No aggregate beside them has an order of its own: PostgreSQL 16 and
-- later sort the rows of all aggregates for one that has.
--
-- #variable_conflict: the names in ON CONFLICT are columns.
CREATE FUNCTION "{{schema}}"."timers_set_many"("rows" jsonb)
RETURNS TABLE (place integer, id uuid, duplicate boolean, replaced boolean)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $txwork$
#variable_conflict use_column
DECLARE
    began CONSTANT text := lpad(to_hex(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0');
    a1 text[];
    a2 text[];
    a3 timestamptz[];
    a4 bytea[];
    a5 jsonb[];
    a6 integer[];
    a7 uuid[];
    size integer;
    bad bigint;
    keyed boolean;
    holds boolean;
    locks bigint[];
    alone boolean[];
    places integer[];
    ords bigint[];
    done uuid[];
    holders uuid[];
    written boolean[];
    replaces boolean[];
    one record;
    i integer;
BEGIN
    IF (jsonb_typeof($1) = 'array') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rows',
            MESSAGE = 'rows must be an array of objects',
            HINT = 'Give a JSON array with an object for each row.';
    END IF;
    IF (jsonb_array_length($1) <= 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rows',
            MESSAGE = 'rows must have at most 10000 elements',
            HINT = 'Write them by several calls.';
    END IF;
    SELECT min(e.ord) INTO bad
    FROM jsonb_array_elements($1) WITH ORDINALITY AS e (value, ord)
    WHERE CASE jsonb_typeof(e.value) WHEN 'object' THEN e.value - ARRAY['key', 'topic', 'scheduled_at', 'payload', 'payload_text', 'payload_base64', 'headers', 'max_attempts', 'id'] <> '{}' OR (e.value ? 'payload')::int + (e.value ? 'payload_text')::int + (e.value ? 'payload_base64')::int > 1 ELSE true END;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rows',
            MESSAGE = format('%s, it must be an object with known fields: %s', 'rows has a wrong element ' || bad,
                left($1 ->> (bad - 1)::integer, 100)),
            HINT = 'Fields are key, topic, scheduled_at, payload, payload_text, payload_base64, headers, max_attempts, id; a payload is in one of its fields.';
    END IF;
    BEGIN
        SELECT count(*)::integer, min(r.ord * 1000 + CASE
                WHEN (r.c5 IS NULL OR jsonb_typeof(r.c5) = 'object') IS NOT TRUE THEN 1
                WHEN (r.c3 IS NULL OR r.c3 BETWEEN '1970-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00') IS NOT TRUE THEN 2
                WHEN (r.c6 IS NULL OR r.c6 BETWEEN 1 AND 1000000) IS NOT TRUE THEN 3
                WHEN (r.c3 IS NOT NULL) IS NOT TRUE THEN 4
                WHEN (octet_length(r.c1) BETWEEN 1 AND 255) IS NOT TRUE THEN 5
                WHEN (octet_length(r.c2) BETWEEN 1 AND 255) IS NOT TRUE THEN 6
                WHEN (octet_length(r.c4) <= 1048576) IS NOT TRUE THEN 7
                WHEN (NOT starts_with(r.c1, 'schedule/')) IS NOT TRUE THEN 8
                WHEN r.c5 IS NOT NULL AND ((SELECT coalesce(sum(octet_length(h.name) + coalesce(octet_length(h.value), 0)), 0) FROM jsonb_each_text(r.c5) AS h (name, value)) <= 65536) IS NOT TRUE THEN 9 END),
            bool_or(false), bool_or(true),
            NULL,
            array_agg(false) FILTER (WHERE r.last), array_agg(r.at), array_agg(r.ord),
            array_agg(r.c1) FILTER (WHERE r.last),
            array_agg(r.c2) FILTER (WHERE r.last),
            array_agg(r.c3) FILTER (WHERE r.last),
            array_agg(r.c4) FILTER (WHERE r.last),
            array_agg(r.c5) FILTER (WHERE r.last),
            array_agg(r.c6) FILTER (WHERE r.last),
            array_agg(r.id) FILTER (WHERE r.last)
        INTO size, bad, keyed, holds, locks, alone, places, ords, a1, a2, a3, a4, a5, a6, a7
        FROM (
            SELECT q.*, dense_rank() OVER (ORDER BY (q.c1) COLLATE "C") AS at,
                q.ord = max(q.ord) OVER (PARTITION BY (q.c1) COLLATE "C") AS last
            FROM (
            SELECT f.ord,
                f.f1 AS c1,
                f.f2 AS c2,
                f.f3 AS c3,
                coalesce(convert_to(f.f4::text, 'UTF8'), convert_to(f.f5, 'UTF8'), decode(f.f6, 'base64'), '') AS c4,
                f.f7 AS c5,
                f.f8 AS c6,
                coalesce(f.f9, (began || '7' || lpad(to_hex(f.ord >> 2), 3, '0') || to_hex(8 + (f.ord & 3)) || substr(gen_random_uuid()::text, 21))::uuid) AS id
            FROM ROWS FROM (jsonb_to_recordset($1) AS ("key" text, "topic" text, "scheduled_at" timestamptz, "payload" jsonb, "payload_text" text, "payload_base64" text, "headers" jsonb, "max_attempts" integer, "id" uuid))
                WITH ORDINALITY AS f (f1, f2, f3, f4, f5, f6, f7, f8, f9, ord)
            OFFSET 0) AS q
            ORDER BY (q.c1) COLLATE "C", q.ord) AS r;
    EXCEPTION WHEN data_exception THEN
        FOR bad IN 1..jsonb_array_length($1) LOOP -- which one is it?
            BEGIN
                PERFORM r.* FROM (
            SELECT f.ord,
                f.f1 AS c1,
                f.f2 AS c2,
                f.f3 AS c3,
                coalesce(convert_to(f.f4::text, 'UTF8'), convert_to(f.f5, 'UTF8'), decode(f.f6, 'base64'), '') AS c4,
                f.f7 AS c5,
                f.f8 AS c6,
                coalesce(f.f9, (began || '7' || lpad(to_hex(f.ord >> 2), 3, '0') || to_hex(8 + (f.ord & 3)) || substr(gen_random_uuid()::text, 21))::uuid) AS id
            FROM ROWS FROM (jsonb_to_recordset(jsonb_build_array($1 -> bad - 1)) AS ("key" text, "topic" text, "scheduled_at" timestamptz, "payload" jsonb, "payload_text" text, "payload_base64" text, "headers" jsonb, "max_attempts" integer, "id" uuid))
                WITH ORDINALITY AS f (f1, f2, f3, f4, f5, f6, f7, f8, f9, ord)) AS r;
            EXCEPTION WHEN data_exception THEN
                RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rows',
                    MESSAGE = format('%s, a value is not of its field''s type: %s', 'rows has a wrong element ' || bad, SQLERRM),
                    HINT = 'Fields are key, topic, scheduled_at, payload, payload_text, payload_base64, headers, max_attempts, id; a payload is in one of its fields.';
            END;
        END LOOP;
        RAISE;
    END;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rows',
            MESSAGE = format('%s: %s', 'rows has a wrong element ' || bad / 1000, (ARRAY[
                'headers must be a JSON object',
                'scheduled_at must be between 1970 and 9999',
                'max_attempts must be between 1 and 1000000',
                'scheduled_at must not be NULL',
                'key must have 1 to 255 bytes, and must not be NULL',
                'topic must have 1 to 255 bytes, and must not be NULL',
                'payload must have at most 1048576 bytes, and must not be NULL',
                'key must not begin with schedule/, as the occurrences of schedules do',
                'headers must have at most 65536 bytes'])[bad % 1000]),
            HINT = 'Fields are key, topic, scheduled_at, payload, payload_text, payload_base64, headers, max_attempts, id; a payload is in one of its fields.';
    END IF;
    IF size = 0 THEN
        RETURN;
    END IF;
    IF keyed AND true = ANY (alone) THEN -- rows of a key keep their order
        alone := array_fill(true, ARRAY[size]);
    END IF;
    SELECT array_agg(p.at ORDER BY p.ord) INTO places FROM unnest(places, ords) AS p (at, ord);
    holders := array_fill(NULL::uuid, ARRAY[cardinality(a7)]);
    FOR one IN
WITH wanted AS MATERIALIZED (
    SELECT s.ord, s.key, s.topic, s.payload, s.headers::jsonb AS headers,
           coalesce(s.max_attempts, 15) AS max_attempts,
           coalesce(s.fire_at, clock_timestamp() + s.delay * interval '1 microsecond') AS fire_at
    FROM ROWS FROM (unnest(a1::text[]), unnest(a2::text[]), unnest(a4::bytea[]), unnest(a5::text[]),
            unnest(a6::bigint[]), unnest(a3::timestamptz[]), unnest(ARRAY[NULL]::bigint[]), generate_subscripts('{}'::int[], 1))
        WITH ORDINALITY AS s (key, topic, payload, headers, max_attempts, fire_at, delay, many, ord)
), held AS MATERIALIZED (
    SELECT t.id FROM "{{schema}}"."timers" AS t WHERE t.key = ANY (a1::text[]) ORDER BY t.key FOR NO KEY UPDATE
), changed AS (
    UPDATE "{{schema}}"."timers" AS t
    SET generation = CASE WHEN t.generation < 2147483647 THEN t.generation + 1 ELSE 1 END,
        fire_at = CASE WHEN t.status = 1 THEN t.fire_at ELSE w.fire_at END,
        topic = CASE WHEN t.status = 1 THEN t.topic ELSE w.topic END,
        payload = CASE WHEN t.status = 1 THEN t.payload ELSE w.payload END,
        headers = CASE WHEN t.status = 1 THEN t.headers ELSE w.headers END,
        max_attempts = CASE WHEN t.status = 1 THEN t.max_attempts ELSE w.max_attempts END,
        due_at = CASE WHEN t.status = 1 THEN t.due_at ELSE greatest(w.fire_at, now()) END,
        status = CASE WHEN t.status = 1 THEN 1 ELSE 0 END,
        attempts = CASE WHEN t.status = 1 THEN t.attempts ELSE 0 END,
        owner_token = CASE WHEN t.status = 1 THEN t.owner_token END,
        cancelled_at = CASE WHEN t.status = 1 THEN t.cancelled_at END,
        last_error = CASE WHEN t.status = 1 THEN t.last_error END,
        completed_at = NULL,
        failed_at = NULL,
        waiting = false,
        rearm_at = CASE WHEN t.status = 1 THEN w.fire_at END,
        rearm_topic = CASE WHEN t.status = 1 THEN w.topic END,
        rearm_payload = CASE WHEN t.status = 1 THEN w.payload END,
        rearm_headers = CASE WHEN t.status = 1 THEN w.headers END,
        rearm_max_attempts = CASE WHEN t.status = 1 THEN w.max_attempts END
    FROM wanted AS w
    WHERE t.id = ANY (ARRAY(SELECT h.id FROM held AS h)) AND t.key = w.key
    RETURNING t.id, t.key, t.status
)
SELECT w.ord, w.fire_at, c.id,
       CASE WHEN c.status = 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END AS told
FROM wanted AS w
LEFT JOIN changed AS c ON c.key = w.key
    LOOP
        holders[one.ord] := one.id;
    END LOOP;
        WITH w AS (
            INSERT INTO "{{schema}}"."timers" (id, due_at, max_attempts, headers, "key", "topic", "payload", "fire_at", "generation")
            SELECT s.id, greatest(s.c3, now()), coalesce(s.c6, 15), nullif(s.c5 - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent'], '{}'), s.c1, s.c2, s.c4, s.c3, 1
            FROM unnest(
                a7::uuid[],
                a1::text[],
                a2::text[],
                a3::timestamptz[],
                a4::bytea[],
                a5::jsonb[],
                a6::integer[],
                alone::boolean[],
                holders::uuid[]
            ) WITH ORDINALITY AS s (id, c1, c2, c3, c4, c5, c6, alone, held, ord)
            WHERE s.held IS NULL
            ORDER BY (s.c1) COLLATE "C", s.ord
            ON CONFLICT ("key")
                WHERE "key" IS NOT NULL DO NOTHING
            RETURNING id
        )
        SELECT array_agg(w.id) INTO done FROM w;

    IF cardinality(done) = cardinality(a7) THEN
        written := array_fill(true, ARRAY[cardinality(done)]);
        holders := a7;
    ELSE
        SELECT array_agg(g.written ORDER BY g.ord) INTO written
        FROM (
            SELECT u.ord, bool_or(u.ord IS NULL) OVER (PARTITION BY u.id) AS written
            FROM (SELECT s.id, s.ord FROM unnest(a7) WITH ORDINALITY AS s (id, ord)
                UNION ALL SELECT w.id, NULL FROM unnest(done) AS w (id)) AS u) AS g
        WHERE g.ord IS NOT NULL;
        SELECT array_agg(CASE WHEN s.written THEN s.id ELSE s.held END ORDER BY s.ord) INTO holders
        FROM unnest(a7, a1, a2, a3, a4, a5, a6, holders, written, alone) WITH ORDINALITY
            AS s (id, c1, c2, c3, c4, c5, c6, held, written, alone, ord);
        BEGIN
            FOR i IN
                SELECT s.ord FROM unnest(a7, a1, a2, a3, a4, a5, a6, holders, holders) WITH ORDINALITY
            AS s (id, c1, c2, c3, c4, c5, c6, held, holders, ord)
            WHERE s.holders IS NULL ORDER BY (s.c1) COLLATE "C", s.ord
            LOOP
                SELECT w.* INTO one
                FROM "{{schema}}"."timers_set"(a1[i], a2[i], a3[i], a4[i], a5[i], a6[i], a7[i]) AS w;
                holders[i] := one.id;
                written[i] := NOT one.duplicate;
            END LOOP;
        EXCEPTION WHEN invalid_parameter_value THEN -- what only the function for one row checks
            RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rows',
                MESSAGE = format('rows has a wrong element %s: %s', i, SQLERRM), HINT = 'Fields are key, topic, scheduled_at, payload, payload_text, payload_base64, headers, max_attempts, id; a payload is in one of its fields.';
        END;
    END IF;
    RETURN QUERY
    SELECT l.ord::integer, holders[l.at], NOT written[l.at], NOT written[l.at]
    FROM unnest(places) WITH ORDINALITY AS l (at, ord)
    ORDER BY l.ord;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_set_many"(jsonb) FROM PUBLIC;

-- One transaction of the procedure fold: each fold of the table once. The cursor says how far each fold came, so that
-- notes that are deleted but not yet vacuumed are not read again, and when the next pass from the start is due, which
-- finds notes that older transactions have written behind the cursor: after forty times as long as the last pass took,
-- and after between a second and a minute. A cursor of another table counts as none, and so does a pass that is further
-- ahead than that, as it is after a failover. The numbers are microseconds.
CREATE FUNCTION "{{schema}}"."timers_fold_step"(
    max_notes integer, INOUT cursor text, INOUT folded integer, OUT again_in double precision, OUT busy boolean,
    OUT more boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_variable
DECLARE
    started constant timestamptz := clock_timestamp();
    own constant text := left(md5('{{schema}}.timers'), 8);
    said text[] := regexp_match(cursor, '^fold1 ([0-9a-f]{8}) ([0-9]{1,17}) ([0-9,]{0,99})$');
    places bigint[] := array_fill(NULL::bigint, ARRAY[0]);
    next_pass timestamptz;
    whole boolean := true;
    f record;
BEGIN
    IF (max_notes BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_notes',
            MESSAGE = 'max_notes must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF (cursor IS NULL OR said IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'cursor',
            MESSAGE = 'cursor is not what an earlier call has returned',
            HINT = 'Pass the cursor of your last call that committed, or NULL to begin anew.';
    END IF;
    IF said[1] = own THEN
        places := string_to_array(said[3], ',', '')::bigint[];
        next_pass := 'epoch'::timestamptz + said[2]::bigint * interval '1 microsecond';
        whole := started NOT BETWEEN next_pass - interval '1 minute' AND next_pass;
    END IF;
    folded := coalesce(folded, 0);
    again_in := 60;
    busy := false;
    more := false;
    IF whole AND NOT busy THEN
        next_pass := clock_timestamp()
            + greatest(interval '1 second', least(40 * (clock_timestamp() - started), interval '1 minute'));
    END IF;
    again_in := CASE WHEN more THEN 0
        ELSE least(again_in, greatest(extract(epoch FROM next_pass - clock_timestamp()), 0)) END;
    IF busy THEN
        again_in := greatest(again_in, 1);
    END IF;
    cursor := format('fold1 %s %s %s', own, coalesce((extract(epoch FROM next_pass) * 1000000)::bigint, 0),
        array_to_string(places, ',', ''));
END
$txwork$;

-- Applies the notes that triggers have written, until none is due. It commits after each step, so that a caller who
-- stays in a transaction afterwards holds no lock that keeps others from folding; in a caller's transaction PostgreSQL
-- refuses it (2D000). It cannot pin a search_path: every name is qualified, and no operator is used. If a crash undoes
-- a fold, its notes are still there, so its commits do not wait for the log.
CREATE PROCEDURE "{{schema}}"."timers_fold"(
    INOUT cursor text DEFAULT NULL, INOUT folded integer DEFAULT NULL, INOUT again_in double precision DEFAULT NULL,
    INOUT busy boolean DEFAULT NULL
)
LANGUAGE plpgsql
AS $txwork$
DECLARE
    more pg_catalog.bool;
BEGIN
    SELECT 0 INTO folded;
    FOR round IN 1..10000 LOOP
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
        SET LOCAL synchronous_commit TO off;
        SELECT s.cursor, s.folded, s.again_in, s.busy, s.more INTO cursor, folded, again_in, busy, more
        FROM "{{schema}}"."timers_fold_step"(1000, cursor, folded) AS s;
        EXIT WHEN more IS NOT TRUE;
    END LOOP;
    COMMIT;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_fold_step"(integer, text, integer) FROM PUBLIC;
REVOKE ALL ON PROCEDURE "{{schema}}"."timers_fold"(text, integer, double precision, boolean) FROM PUBLIC;

-- Does one kind of maintenance although rows are in its way, such as a row that a foreign key of the application keeps
-- from being deleted: the part of the rows that failed is halved until the row is by itself, and skipped. The next part
-- is twice as large as one that succeeded. Each part is a subtransaction, so n rows cost at most about three each, and
-- a few bad rows some tens together. A part waits little for locks, because the next ones wait for it.
--
-- If nothing succeeds, the rows are not the cause, and the error is raised: one about rights or names at once, another
-- after 16 rows.
CREATE FUNCTION "{{schema}}"."timers_each"(
    kind text, max_rows integer, age interval, except_ids uuid[],
    OUT done integer, OUT failed integer, OUT cancelled integer, OUT dead_letters jsonb, OUT skipped uuid[],
    OUT problems text[]
)
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
SET lock_timeout = '50ms'
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    ids uuid[];
    part uuid[];
    beside uuid[]; -- rows that are not the only one of their process
    place integer := 1;
    size integer;
    changed record;
    state text;
    said text;
BEGIN
    IF ($2 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    done := 0;
    failed := 0;
    cancelled := 0;
    skipped := '{}';
    problems := '{}';
    CASE $1
    WHEN 'reap_expired' THEN
        ids := ARRAY(
    SELECT r.id
    FROM "{{schema}}"."timers" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND r.locked_until < now()
      AND r.id <> ALL ($4)
    ORDER BY r.due_at, r.id
    LIMIT $2::int);
        beside := ARRAY(
            SELECT p.id
            FROM (
                SELECT r.id, count(*) OVER (PARTITION BY substring(uuid_send(r.owner_token) FROM 1 FOR 6)) AS rows
                FROM "{{schema}}"."timers" AS r
                WHERE r.completed_at IS NULL
                  AND NOT r.waiting
                  AND r.status = 1
                  AND r.due_at <= now()) AS p
            WHERE p.rows > 1);
    WHEN 'purge_done' THEN
        ids := ARRAY(
    SELECT r.id
    FROM "{{schema}}"."timers" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - $3::interval
      AND r.id <> ALL ($4)
    ORDER BY r.completed_at
    LIMIT $2::int);
    WHEN 'purge_failed' THEN
        ids := ARRAY(
    SELECT r.id
    FROM "{{schema}}"."timers" AS r
    WHERE r.failed_at IS NOT NULL
      AND r.cancelled_at IS NULL
      AND r.failed_at < now() - $3::interval
      AND r.id <> ALL ($4)
    ORDER BY r.failed_at, r.id
    LIMIT $2::int);
    END CASE;
    size := cardinality(ids);
    WHILE place <= cardinality(ids) LOOP
        part := ids[place:place + size - 1];
        BEGIN
            CASE $1
            WHEN 'reap_expired' THEN
                FOR changed IN
WITH taken AS MATERIALIZED (
    SELECT r.ctid, r.id, substring(uuid_send(r.owner_token) FROM 1 FOR 6) AS process,
        r.headers ->> 'txwork-lost-beside' IS NOT DISTINCT FROM r.owner_token::text OR r.id = ANY (own.beside) AS noted,
        r.max_attempts > 1 AND r.attempts > 0
            AND jsonb_typeof(coalesce(r.headers, '{}'::jsonb)) = 'object' AS returnable,
        coalesce(substring(r.headers ->> 'txwork-lost-alone' FROM '^[0-9]{1,4}$')::int, 0) AS alone,
        coalesce(substring(r.headers ->> 'txwork-lost-together' FROM '^[0-9]{1,4}$')::int, 0) AS together
    FROM "{{schema}}"."timers" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND r.locked_until < now()
      AND r.id = ANY (own.part)
    ORDER BY r.due_at, r.id
    LIMIT own.size::int
    FOR NO KEY UPDATE SKIP LOCKED
), lost AS MATERIALIZED (
    SELECT k.ctid, k.alone, k.together, s.shared,
        s.shared AND k.returnable AND k.alone = 0 AND k.together < 5 AS returned
    FROM (
        SELECT l.*, count(*) OVER (PARTITION BY l.process) AS rows FROM taken AS l) AS k
    CROSS JOIN LATERAL (
        SELECT k.rows > 1 OR k.noted AS shared) AS s
), changed AS (
    UPDATE "{{schema}}"."timers" AS t
    SET status = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE greatest(clock_timestamp(), t.locked_until + CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 900000000) * (1 - 0.2 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        owner_token = NULL,
        attempts = CASE WHEN l.returned AND t.cancelled_at IS NULL THEN t.attempts - 1 ELSE t.attempts END,
        headers = CASE WHEN jsonb_typeof(coalesce(t.headers, '{}'::jsonb)) <> 'object' THEN t.headers
            ELSE coalesce(t.headers, '{}'::jsonb) - ARRAY['txwork-lost-beside', 'txwork-running'] || jsonb_build_object(
                CASE WHEN l.shared THEN 'txwork-lost-together' ELSE 'txwork-lost-alone' END,
                (1 + CASE WHEN l.shared THEN l.together ELSE l.alone END)::text,
                'txwork-lost-at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) END,
        last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE 'lease expired at ' ||
            to_char(t.locked_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' in attempt ' || t.attempts
            || CASE WHEN l.returned THEN ', which does not count: other rows of its process were lost with it'
                WHEN NOT l.shared AND l.alone > 0
                    THEN ', lost alone ' || 1 + l.alone || ' times: it may end its process'
                ELSE '' END END
    FROM lost AS l
    WHERE t.ctid = l.ctid
    RETURNING t.status, t.cancelled_at, CASE WHEN t.status = 3 AND t.cancelled_at IS NULL THEN jsonb_build_object(
        'id', t.id, 'attempt', t.attempts, 'max_attempts', t.max_attempts, 'error', t.last_error,
        'labels', jsonb_build_array(t."topic")) END AS dead_letter
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled,
       jsonb_agg(changed.dead_letter) FILTER (WHERE changed.dead_letter IS NOT NULL) AS dead_letters
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END
                LOOP
                    done := done + changed.requeued;
                    failed := failed + changed.failed;
                    cancelled := cancelled + changed.cancelled;
                    dead_letters := coalesce(dead_letters, '[]') || coalesce(changed.dead_letters, '[]');
                END LOOP;
            WHEN 'purge_done' THEN
                WITH purged AS (
DELETE FROM "{{schema}}"."timers" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."timers" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - $3::interval
      AND r.id = ANY (own.part)
    ORDER BY r.completed_at
    LIMIT own.size::int
    FOR UPDATE SKIP LOCKED))
RETURNING t.id)
                SELECT done + count(*) INTO done FROM purged;
            WHEN 'purge_failed' THEN
                WITH purged AS (
DELETE FROM "{{schema}}"."timers" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."timers" AS r
    WHERE r.failed_at IS NOT NULL
      AND r.cancelled_at IS NULL
      AND r.failed_at < now() - $3::interval
      AND r.id = ANY (own.part)
    ORDER BY r.failed_at, r.id
    LIMIT own.size::int
    FOR UPDATE SKIP LOCKED))
RETURNING t.id)
                SELECT done + count(*) INTO done FROM purged;
            END CASE;
            place := place + size;
            size := size * 2;
        EXCEPTION WHEN others THEN
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, said = MESSAGE_TEXT;
            IF size > 1 THEN
                size := size / 2;
            ELSE
                skipped := skipped || ids[place];
                problems := problems || (said || ' (SQLSTATE ' || state || ')');
                place := place + 1;
                IF done + failed = 0
                    AND (cardinality(skipped) >= 16 OR place > cardinality(ids) AND state LIKE '42%') THEN
                    RAISE EXCEPTION '%', said USING ERRCODE = state;
                END IF;
            END IF;
        END;
    END LOOP;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_each"(text, integer, interval, uuid[]) FROM PUBLIC;

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
    IF ($1 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF ($2 IS NULL OR $2 BETWEEN interval '0' AND interval '87600 hours') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'retention',
            MESSAGE = 'retention must be between 0 and 87600 hours',
            HINT = 'NULL keeps all rows.';
    END IF;
    IF ($3 IS NULL OR $3 BETWEEN interval '0' AND interval '87600 hours') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'failed_retention',
            MESSAGE = 'failed_retention must be between 0 and 87600 hours',
            HINT = 'NULL keeps all rows.';
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

-- One transaction of one kind of maintenance. It returns what kept it from doing all instead of raising it, so that the
-- other kinds still get their turn. crowded says that it did as much as it may, so that much is left. If it fails, and
-- while there are rows that it has skipped, it does the rows that it can with the function each. A sweep or a fold that
-- fails is left as it is. A role that does not see all rows is refused, so that the procedure does not record that it
-- ran.
CREATE FUNCTION "{{schema}}"."timers_maintain_step"(
    kind text, most integer, retention interval, failed_retention interval, INOUT skipped uuid[], INOUT problem text,
    OUT more boolean, OUT crowded boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $txwork$
DECLARE
    n integer;
    e record;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."timers"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.timers or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($2 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF ($3 IS NULL OR $3 BETWEEN interval '0' AND interval '87600 hours') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'retention',
            MESSAGE = 'retention must be between 0 and 87600 hours',
            HINT = 'NULL keeps all rows.';
    END IF;
    IF ($4 IS NULL OR $4 BETWEEN interval '0' AND interval '87600 hours') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'failed_retention',
            MESSAGE = 'failed_retention must be between 0 and 87600 hours',
            HINT = 'NULL keeps all rows.';
    END IF;
    more := false;
    crowded := false;
    IF cardinality(skipped) = 0 THEN
        BEGIN
            CASE $1
            WHEN 'reap_expired' THEN
                n := (SELECT r.requeued + r.failed FROM "{{schema}}"."timers_reap_expired"($2) AS r);
            WHEN 'purge_done' THEN
                n := (SELECT p.done FROM "{{schema}}"."timers_purge"($2, $3, NULL) AS p);
            WHEN 'purge_failed' THEN
                n := (SELECT p.failed FROM "{{schema}}"."timers_purge"($2, NULL, $4) AS p);
            WHEN 'fold' THEN
                n := (SELECT f.folded FROM "{{schema}}"."timers_fold_step"($2, NULL, 0) AS f);
            END CASE;
            more := n > 0;
            crowded := n >= $2;
            RETURN;
        EXCEPTION WHEN others THEN
            problem := $1 || ': ' || SQLERRM;
        END;
    END IF;
    IF $1 NOT IN ('reap_expired', 'purge_done', 'purge_failed') OR cardinality(skipped) >= 5000 THEN
        RETURN;
    END IF;
    BEGIN
        SELECT * INTO e
        FROM "{{schema}}"."timers_each"($1, $2, CASE $1 WHEN 'purge_done' THEN $3 WHEN 'purge_failed' THEN $4 END, skipped);
    EXCEPTION WHEN others THEN
        problem := $1 || ': ' || SQLERRM;
        RETURN;
    END;
    n := e.done + e.failed + cardinality(e.skipped);
    more := n > 0;
    crowded := n >= $2;
    skipped := skipped || e.skipped;
    IF cardinality(skipped) = 0 AND more THEN -- if nothing was done, the failure has another cause than rows
        problem := NULL;
    ELSIF cardinality(e.skipped) > 0 THEN
        problem := format('%s skipped %s rows, such as %s: %s', $1, cardinality(skipped), e.skipped[1], e.problems[1]);
    END IF;
END
$txwork$;

-- All maintenance of the table, until nothing is left. A kind that has much to do lets the others have their turn after
-- 100 transactions, so that a long deletion does not keep expired leases from being requeued. It commits, so
-- a call cannot be part of a transaction, and it cannot pin a search_path: every name is qualified instead, and no
-- operator is used. At the end it records when it ran and what it left undone, for the check that looks for tables
-- without maintenance. It skips that if the schema has no table for the record, such as a schema with only an
-- application's own tables, or if the role may not write to it. Then it raises what it left undone.
CREATE PROCEDURE "{{schema}}"."timers_maintain"(
    max_rows integer DEFAULT 1000,
    retention interval DEFAULT interval '168 hours',
    failed_retention interval DEFAULT NULL
)
LANGUAGE plpgsql
AS $txwork$
DECLARE
    kind pg_catalog.text;
    more boolean;
    crowded boolean;
    unfinished boolean;
    skipped pg_catalog.uuid[];
    said pg_catalog.text;
    problem pg_catalog.text;
BEGIN
    FOR round IN 1..10000 LOOP
        SELECT false, NULL INTO unfinished, problem;
        FOREACH kind IN ARRAY ARRAY['reap_expired', 'purge_done', 'purge_failed', 'fold'] LOOP
            SELECT ARRAY[]::pg_catalog.uuid[], NULL INTO skipped, said;
            FOR step IN 1..100 LOOP
                COMMIT;
                SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
                SELECT s.more, s.crowded, s.skipped, s.problem INTO more, crowded, skipped, said
                FROM "{{schema}}"."timers_maintain_step"(kind, max_rows, retention, failed_retention, skipped, said) AS s;
                EXIT WHEN more IS NOT TRUE;
            END LOOP;
            IF crowded THEN
                SELECT true INTO unfinished;
            END IF;
            IF said IS NOT NULL THEN
                RAISE WARNING '%', said;
                SELECT pg_catalog.concat_ws('; ', problem, said) INTO problem;
            END IF;
        END LOOP;
        EXIT WHEN NOT unfinished;
    END LOOP;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    BEGIN
        PERFORM "{{schema}}"."leader_note"('{{schema}}.timers', problem);
    EXCEPTION WHEN undefined_function OR insufficient_privilege THEN
        NULL;
    END;
    COMMIT;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'a part of the maintenance failed, the rest is done: %', problem;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_purge"(integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."timers_maintain_step"(text, integer, interval, interval, uuid[], text) FROM PUBLIC;
REVOKE ALL ON PROCEDURE "{{schema}}"."timers_maintain"(integer, interval, interval) FROM PUBLIC;

-- Keys are compared byte by byte, whatever the database's collation, so that the unique index also serves listing by
-- prefix. The rearm columns hold the values that a timer gets after the firing that is under way.
ALTER TABLE "{{schema}}"."timers"
    ALTER COLUMN "key" TYPE "{{schema}}"."timers_key_value" COLLATE "C",
    ADD COLUMN rearm_at "{{schema}}"."timers_time",
    ADD COLUMN rearm_topic text,
    ADD COLUMN rearm_payload bytea,
    ADD COLUMN rearm_headers jsonb,
    ADD COLUMN rearm_max_attempts integer,
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
    PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END);
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

-- Cancels timers by key, as Timers.Cancel does. There is a row for each key, in their order: the timer is cancelled, or
-- cancelling if it fires and its handler was told to stop; it had ended before; or it is gone: no timer has the key.
CREATE FUNCTION "{{schema}}"."timers_cancel"(keys text[]) RETURNS TABLE (key text, result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $txwork$
#variable_conflict use_column
DECLARE
    live text[] := '{}';
    ids uuid[] := '{}';
    was jsonb;
    one record;
BEGIN
    IF ($1 IS NOT NULL AND array_position($1, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'keys',
            MESSAGE = 'keys must not be or have NULL',
            HINT = 'Give an array of keys.';
    END IF;
    IF (cardinality($1) <= 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'keys',
            MESSAGE = 'keys must have at most 10000 elements',
            HINT = 'Cancel them by several calls.';
    END IF;
    FOR one IN
        WITH held AS (
            SELECT t.id, t.key, t.rearm_at IS NOT NULL AS rearmed
            FROM "{{schema}}"."timers" AS t
            WHERE t.key = ANY ($1::text[]) AND t.completed_at IS NULL
            ORDER BY t.key
            FOR NO KEY UPDATE OF t
        ), dropped AS (
            UPDATE "{{schema}}"."timers" AS t
            SET rearm_at = NULL,
                rearm_topic = NULL,
                rearm_payload = NULL,
                rearm_headers = NULL,
                rearm_max_attempts = NULL
            FROM held AS h
            WHERE t.id = h.id AND h.rearmed
        )
        SELECT held.id, held.key, held.rearmed FROM held
    LOOP
        live := live || one.key;
        ids := ids || one.id;
    END LOOP;
    FOR one IN
        WITH changed AS (
            UPDATE "{{schema}}"."timers" AS t
            SET cancelled_at = clock_timestamp(),
                status = CASE WHEN t.status = 0 THEN 3 ELSE t.status END,
                completed_at = CASE WHEN t.status = 0 THEN clock_timestamp() END,
                failed_at = CASE WHEN t.status = 0 THEN clock_timestamp() END,
                owner_token = CASE WHEN t.status = 1 THEN t.owner_token END,
                last_error = 'cancelled: by its key'::text
            WHERE t.id = ANY (ids::uuid[]) AND t.status IN (0, 1) AND t.cancelled_at IS NULL
            RETURNING t.id, t.status
        ), told AS (
            SELECT array_agg(changed.id) AS ids
            FROM changed
            HAVING CASE WHEN bool_or(changed.status = 1) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers', 'cancel') ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END
        )
        SELECT unnest(told.ids) AS id FROM told
    LOOP
    END LOOP;
    was := jsonb_object(live, live);
    RETURN QUERY
    SELECT u.key, CASE
        WHEN t.status IS NULL THEN 'gone'
        WHEN NOT was ? u.key THEN 'ended'
        WHEN t.status = 1 THEN 'cancelling'
        ELSE 'cancelled' END
    FROM unnest($1) WITH ORDINALITY AS u (key, ord)
    LEFT JOIN LATERAL (SELECT t.status FROM "{{schema}}"."timers" AS t WHERE t.key = u.key OFFSET 0) AS t ON true
    ORDER BY u.ord;
END
$txwork$;

-- A timer by its key, as Timers.Get reads it; no row if no timer has the key.
CREATE FUNCTION "{{schema}}"."timers_get"(
    INOUT key text, OUT id uuid, OUT topic text, OUT payload bytea, OUT headers jsonb, OUT scheduled_at timestamptz,
    OUT due_at timestamptz, OUT generation integer, OUT schedule text, OUT status integer, OUT attempts integer,
    OUT max_attempts integer, OUT last_error text, OUT created_at timestamptz, OUT completed_at timestamptz,
    OUT cancelled_at timestamptz, OUT rearm_at timestamptz
) RETURNS SETOF record
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $txwork$
#variable_conflict use_column
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'key',
            MESSAGE = 'key must not be NULL',
            HINT = 'Give the timer''s key.';
    END IF;
    RETURN QUERY
    SELECT g.key::text, g.id, g.topic, g.payload, g.headers::jsonb, g.fire_at::timestamptz, g.due_at::timestamptz,
        g.generation::integer, g.schedule, g.status::integer, g.attempts, g.max_attempts, g.last_error,
        g.created_at::timestamptz, g.completed_at::timestamptz, g.cancelled_at::timestamptz, g.rearm_at::timestamptz
    FROM (
        SELECT t.id, t.key, t.topic, t.payload, t.headers::text, t.fire_at, t.due_at, t.generation, t.schedule,
               t.status, t.attempts, t.max_attempts, coalesce(t.last_error, ''), t.created_at, t.completed_at, t.cancelled_at,
               t.rearm_at
        FROM "{{schema}}"."timers" AS t
        WHERE t.key = $1
    ) AS g (id, key, topic, payload, headers, fire_at, due_at, generation, schedule, status, attempts, max_attempts,
        last_error, created_at, completed_at, cancelled_at, rearm_at);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_cancel"(text[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."timers_get"(text) FROM PUBLIC;

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

-- A time that the library can represent, so that every difference of two of them can be computed and printed. The
-- server would accept an infinite time, and one such row would fail every statement that subtracts it from another. It
-- is a domain for the same reason, and guards every column with times, in this table and in those that belong to it. A
-- range costs less than two comparisons: each column of an insert, NULL or not, prepares the check.
CREATE DOMAIN "{{schema}}"."timers_schedule_time" AS timestamptz CONSTRAINT "timers_schedule_time_check" CHECK (
    VALUE <@ '[0001-01-01 00:00:00+00, 9999-12-31 00:00:00+00]'::tstzrange
);

CREATE TABLE "{{schema}}"."timers_schedule" (
    id uuid PRIMARY KEY DEFAULT encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid,
    due_at "{{schema}}"."timers_schedule_time" NOT NULL DEFAULT now(),
    created_at "{{schema}}"."timers_schedule_time" NOT NULL DEFAULT now(),
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
    locked_until "{{schema}}"."timers_schedule_time",
    completed_at "{{schema}}"."timers_schedule_time",
    owner_token uuid,
    failed_at "{{schema}}"."timers_schedule_time",
    cancelled_at "{{schema}}"."timers_schedule_time",
    last_error text,
    headers jsonb,
    retry "{{schema}}"."timers_schedule_retry",
    "name" text NOT NULL,
    "expr" text NOT NULL,
    "zone" text NOT NULL,
    "misfire" text NOT NULL,
    "overlap" text NOT NULL,
    "template" bytea NOT NULL,
    "next_at" "{{schema}}"."timers_schedule_time",
    "last_at" "{{schema}}"."timers_schedule_time",
    "buffered_at" "{{schema}}"."timers_schedule_time",
    "owed" jsonb,
    "anchor" "{{schema}}"."timers_schedule_time",
    "version" bigint,
    "resumed_at" "{{schema}}"."timers_schedule_time",
    "triggers" jsonb,
    -- Which times each status has. It is short because every statement that writes parses the checks anew: a row in
    -- progress has locked_until (1), a done one has completed_at, which counts twice (2), and a failed one has
    -- completed_at and failed_at (3). A ready row is not cancelled: no claim would end it.
    CONSTRAINT "timers_schedule_state_check" CHECK (
        status = num_nonnulls(completed_at, completed_at, failed_at, locked_until)
        AND CASE WHEN completed_at IS NOT NULL THEN locked_until IS NULL
            ELSE failed_at IS NULL AND CASE WHEN locked_until IS NULL THEN cancelled_at IS NULL
                ELSE owner_token IS NOT NULL AND NOT waiting END
            END
    ),
    -- A Ready row without attempts left would fail every claim that finds it. A row in progress may be at its last
    -- attempt. The status is subtracted because a sum would overflow in a row whose maximum is the greatest integer.
    CONSTRAINT "timers_schedule_attempts_check"
        CHECK (max_attempts > 0 AND attempts >= 0 AND attempts - status < max_attempts)
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

-- Notifies workers, unless an announcer does so for this transaction. A trigger of another table, which no announcer
-- watches, passes an argument so that it always notifies.
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
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END);
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_announce"() FROM PUBLIC;

CREATE TRIGGER "timers_schedule_announce" AFTER INSERT ON "{{schema}}"."timers_schedule"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."timers_schedule_announce"();

-- What {{schema}}.timers_schedule_fetch returns: rows, and one end. A later version appends columns at the end.
CREATE TYPE "{{schema}}"."timers_schedule_fetched" AS (
    entry text,
    place integer,
    id uuid,
    locked_until timestamptz,
    due_at timestamptz,
    created_at timestamptz,
    attempts integer,
    max_attempts integer,
    lost integer,
    headers jsonb,
    "name" text,
    "expr" text,
    "zone" text,
    "misfire" text,
    "cap" integer,
    "grace" bigint,
    "overlap" text,
    "jitter" bigint,
    "paused" boolean,
    "next_at" timestamptz,
    "last_at" timestamptz,
    "buffered_at" timestamptz,
    "fired" bigint,
    "skipped" bigint,
    again_in double precision,
    more boolean,
    held text,
    cursor text
);

-- Ready -> InProgress for at most n rows of the lanes, which are read in the order of the arguments, each behind the
-- place that the cursor names. Returns them in claim order, and then one end: whether there may be more, in how many
-- seconds to fetch again if no notification comes, why rows may be left (held), and the next cursor.
--
-- heard are the payloads of the notifications since the previous fetch was sent: they move places back. A sweep reads
-- from the start, and finds what no notification has announced. It comes when its time has come, unless sweep says
-- otherwise, and takes at most one part in 40 of the time.
--
-- The function locks the rows that it returns and, of a table with topics, those that it sets aside. Its caller may
-- stay in the transaction, so it bounds how long the session may be idle.
CREATE FUNCTION "{{schema}}"."timers_schedule_fetch"(
    owner_token uuid,
    lease interval,
    n integer,
    cursor text DEFAULT NULL,
    heard text[] DEFAULT NULL,
    sweep boolean DEFAULT NULL
) RETURNS SETOF "{{schema}}"."timers_schedule_fetched"
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
<<own>>
DECLARE
    nobody CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    batch integer := $3;
    place timestamptz[];
    place_id uuid[];
    reached timestamptz[];
    reached_id uuid[];
    digest text;
    fields text[];
    sweep_at bigint := 0; -- like all times of a cursor in microseconds, as are lengths of time
    sweep_took bigint := 0;
    unswept integer := 1;
    turn integer := 0;
    lead integer := 1; -- the lane that is read first
    heard_at timestamptz;
    fronts boolean;
    clock bigint;
    took bigint;
    is_sweep boolean;
    is_refused boolean := false;
    is_full boolean;
    got integer := 0;
    returned integer;
    due_in double precision;
    rule record;
    result "{{schema}}"."timers_schedule_fetched";
    began CONSTANT timestamptz := clock_timestamp();
    s record;
    taken tid[] := '{}';
BEGIN
    IF ($1 >= '00000000-0001-0000-0000-000000000000' AND $1::text LIKE '______________8%') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must be of version 8 and begin with the 48 bits of a process, which are not 0',
            HINT = 'Make one for every claim: owner_token(process) does.';
    END IF;
    IF ($2 BETWEEN interval '1 seconds' AND interval '86400 seconds') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'lease',
            MESSAGE = 'lease must be between 1 and 86400 seconds',
            HINT = 'Take a lease that a dead worker may hold its rows for, and extend it while they run.';
    END IF;
    IF ($3 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'n',
            MESSAGE = 'n must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF ($5 IS NULL OR cardinality($5) <= 10000
        AND array_position($5, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'heard',
            MESSAGE = 'heard must be at most 10000 payloads, none of them NULL',
            HINT = 'Pass sweep => true instead of the payloads.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a fetch needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    place := array_fill('-infinity'::timestamptz, ARRAY[1]);
    place_id := array_fill(own.nobody, ARRAY[1]);

    digest := left(encode(sha256(convert_to(jsonb_build_array('{{schema}}.timers_schedule')::text, 'UTF8')), 'hex'), 16);
    IF $4 IS NOT NULL THEN
        IF (octet_length($4) <= 8192 AND $4 ~ '^[0-9]{1,9} [0-9a-f]{16}( [^ ]+)*$') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'cursor',
            MESSAGE = 'cursor is not what an earlier call has returned',
            HINT = 'Pass the cursor of your last call that committed, or NULL to begin anew.';
    END IF;
        fields := string_to_array($4, ' ');
        IF own.fields[1] = '1' AND own.fields[2] = own.digest THEN
            IF ($4 ~ concat('^[0-9]+ [0-9a-f]{16} [0-9]{1,17} [0-9]{1,12} [01] [0-9]{1,6}( (-|-?[0-9]{1,17})/[0-9a-f]{32}){', cardinality(own.place), '}$')) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'cursor',
            MESSAGE = 'cursor is not what an earlier call has returned',
            HINT = 'Pass the cursor of your last call that committed, or NULL to begin anew.';
    END IF;
            sweep_at := own.fields[3];
            sweep_took := own.fields[4];
            unswept := own.fields[5];
            turn := own.fields[6];
            FOR s IN
                SELECT u.ord::integer AS ord,
                    CASE split_part(u.text, '/', 1) WHEN '-' THEN '-infinity'
                        ELSE 'epoch'::timestamptz + split_part(u.text, '/', 1)::bigint * interval '1 microsecond'
                    END AS due,
                    split_part(u.text, '/', 2)::uuid AS id,
                    convert_from(decode(split_part(u.text, '/', 3), 'hex'), 'UTF8') AS topic
                FROM unnest(own.fields[7:]) WITH ORDINALITY AS u (text, ord)
            LOOP
                place[own.s.ord] := own.s.due;
                place_id[own.s.ord] := own.s.id;
            END LOOP;
        END IF;
    END IF;
    clock := extract(epoch FROM own.began) * 1000000;
    is_sweep := coalesce($6, own.clock >= own.sweep_at OR own.sweep_at > own.clock + 60000000);
    IF $5 IS NOT NULL THEN
        SELECT 'epoch'::timestamptz + min(substring(h.payload FROM '^(?:fold:)?([0-9]{1,16})$')::bigint)
                * interval '1 microsecond',
            bool_or(starts_with(h.payload, 'front:'))
        INTO own.heard_at, own.fronts
        FROM unnest($5) AS h (payload);
        FOR i IN 1..cardinality(own.place) LOOP
            IF own.heard_at <= own.place[i] THEN
                place[i] := own.heard_at;
                place_id[i] := own.nobody;
            END IF;
        END LOOP;
    END IF;
    IF own.fronts THEN
        BEGIN
            FOR s IN
                SELECT l.ord::integer AS ord, min((substr(h.payload, 7)::jsonb ->> 'all')::timestamptz) AS due
                FROM unnest(own.place) WITH ORDINALITY
                    AS l (place, ord)
                CROSS JOIN unnest($5) AS h (payload)
                WHERE starts_with(h.payload, 'front:')
                GROUP BY l.ord
            LOOP
                IF own.s.due <= own.place[own.s.ord] THEN
                    place[own.s.ord] := own.s.due;
                    place_id[own.s.ord] := own.nobody;
                END IF;
            END LOOP;
        EXCEPTION WHEN data_exception THEN
            is_sweep := true; -- every login may send anything
        END;
    END IF;
    reached := own.place;
    reached_id := own.place_id;
    IF own.is_sweep THEN
        reached := array_fill('-infinity'::timestamptz, ARRAY[cardinality(own.place)]);
        reached_id := array_fill(own.nobody, ARRAY[cardinality(own.place)]);
    END IF;

    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), $2)))::bigint::text,
        true);
    IF NOT own.is_refused THEN
        FOR s IN
            SELECT c.ord, array_agg(c.ctid) AS rows, (array_agg(c.due_at))[count(*)] AS due_at,
                (array_agg(c.id))[count(*)] AS id
            FROM (
SELECT c.ctid, l.ord::integer AS ord, c.due_at, c.id
    FROM unnest(own.reached::timestamptz[], own.reached_id::uuid[])
        WITH ORDINALITY AS l (after_due, after_id, ord)
    CROSS JOIN LATERAL (
        SELECT r.ctid, r.due_at, r.id
        FROM "{{schema}}"."timers_schedule" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= own.began
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
        ORDER BY r.due_at, r.id
        LIMIT own.batch::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT own.batch::int) AS c
            GROUP BY c.ord
        LOOP
            taken := own.taken || own.s.rows;
            reached[own.s.ord] := own.s.due_at;
            reached_id[own.s.ord] := own.s.id;
        END LOOP;
    END IF;
    got := cardinality(own.taken);
    is_full := own.got >= own.batch;

    IF own.got > 0 THEN
        RETURN QUERY
        WITH changed AS (
UPDATE "{{schema}}"."timers_schedule" AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = $1::uuid,
    locked_until = clock_timestamp() + $2::interval
WHERE t.ctid = ANY (own.taken)
RETURNING t.*
        )
        SELECT 'row', (row_number() OVER ())::integer, c.id, c.locked_until::timestamptz, c.due_at::timestamptz,
            c.created_at::timestamptz, c.attempts, c.max_attempts, coalesce(pg_catalog."substring"(c.headers OPERATOR(pg_catalog.->>) 'txwork-lost-together', '^[0-9]{1,4}$')::bigint, 0)::integer, c.headers,
            c."name",
            c."expr",
            c."zone",
            c."misfire",
            c."cap",
            c."grace",
            c."overlap",
            c."jitter",
            c."paused",
            c."next_at"::timestamptz,
            c."last_at"::timestamptz,
            c."buffered_at"::timestamptz,
            c."fired",
            c."skipped",
            NULL::double precision, NULL::boolean, NULL, NULL
        FROM (
            SELECT c.*
            FROM changed AS c
            ORDER BY c.due_at, c.id) AS c;
        GET DIAGNOSTICS returned = ROW_COUNT;
        IF own.returned <> own.got THEN
            RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
                MESSAGE = format('%s of %s rows were not claimed', own.got - own.returned, own.got),
                HINT = 'A trigger of the table suppresses updates: it has to let claims pass.';
        END IF;
    END IF;

    FOR i IN 1..cardinality(own.place) LOOP
        IF own.reached[i] <> '-infinity' THEN
            place[i] := own.reached[i];
            place_id[i] := own.reached_id[i];
        END IF;
    END LOOP;
    IF NOT own.is_refused THEN
        unswept := (NOT own.is_sweep OR own.is_full)::integer;
    END IF;
    result.entry := 'end';
    result.more := own.is_full AND NOT own.is_refused;
    IF NOT own.is_refused AND NOT own.result.more THEN
        SELECT d.seconds INTO own.due_in
        FROM (
SELECT own.began AS asked_at, extract(epoch FROM min(d.due_at) - clock_timestamp())::float8 AS seconds,
    min(d.due_at) AS due_at
FROM (SELECT) AS l
CROSS JOIN LATERAL (
    SELECT r.due_at
    FROM "{{schema}}"."timers_schedule" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 0
      AND r.due_at > least(own.began::timestamptz, own.began)
    ORDER BY r.due_at, r.id
    LIMIT 1
) AS d) AS d;
    END IF;

    clock := extract(epoch FROM clock_timestamp()) * 1000000;
    IF own.is_sweep AND NOT own.is_refused THEN -- one may be slow by accident, so the quicker of two counts
        took := own.clock - extract(epoch FROM own.began) * 1000000;
        sweep_at := own.clock
            + least(greatest(40 * least(own.took, own.sweep_took), 10000), 60000000);
        sweep_took := own.took;
    END IF;
    -- While a limit holds jobs back, a settle of another process announces nothing.
    result.again_in := 0;
    IF NOT own.result.more THEN
        result.again_in := least(60, CASE WHEN own.due_in IS NOT NULL THEN greatest(own.due_in, 0) END,
            CASE WHEN own.unswept = 1 AND NOT own.is_refused
                THEN greatest((own.sweep_at - own.clock) / 1000000.0, 0.25) END);
    END IF;
    result.cursor := concat_ws(' ', '1', own.digest, own.sweep_at, own.sweep_took, own.unswept,
        own.turn, (
        SELECT string_agg(concat(CASE WHEN u.due = '-infinity' THEN '-'
            ELSE (extract(epoch FROM u.due) * 1000000)::bigint::text END, '/', replace(u.id::text, '-', '')), ' ' ORDER BY u.ord)
        FROM unnest(own.place, own.place_id) WITH ORDINALITY AS u (due, id, ord)));
    RETURN NEXT own.result;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_fetch"(uuid, interval, integer, text, text[], boolean) FROM PUBLIC;

-- Settles rows with one outcome, in the order of their ids, which are sorted and of which none is repeated. It returns
-- the result of each row that did not become what is usual, see settle_one.sql. All settles of the other functions are
-- made here, so each statement is there once. With strict, ids that the claim does not hold are an error.
CREATE FUNCTION "{{schema}}"."timers_schedule_settle_rows"(outcome text, ids uuid[], tokens uuid[], delays bigint[], times timestamptz[], errors text[], strict boolean) RETURNS jsonb
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
<<own>>
DECLARE
    refused record;
    changed uuid[];
    answers jsonb := '{}';
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a settle needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 minute')))::bigint::text,
        true);
    CASE $1
    WHEN 'ack' THEN
        IF $3[1] = ALL ($3) THEN -- the rows are of one claim
        WITH settled AS (
UPDATE "{{schema}}"."timers_schedule" AS t
SET status = 2,
    completed_at = clock_timestamp(),
    locked_until = NULL
WHERE t.id = ANY ($2::uuid[]) AND t.owner_token = $3[1]::uuid AND coalesce(t.status = 1, false)
RETURNING t.id
)
        SELECT coalesce(array_agg(c.id), '{}')
        INTO own.changed
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (2) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'done') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
        ELSE
        WITH settled AS (
UPDATE "{{schema}}"."timers_schedule" AS t
SET status = 2,
    completed_at = clock_timestamp(),
    locked_until = NULL
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id
)
        SELECT coalesce(array_agg(c.id), '{}')
        INTO own.changed
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (2) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'done') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
        END IF;
    WHEN 'retry' THEN
        WITH settled AS (
UPDATE "{{schema}}"."timers_schedule" AS t
SET status = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE clock_timestamp() + coalesce(s.delay * interval '1 microsecond', CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 60000000) * (1 - 0.5 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
    last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE coalesce(s.error, 'abandoned without an error') END
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), unnest($4::bigint[]), unnest($6::text[]),
        generate_subscripts('{}'::int[], 1)) AS s (id, token, delay, error)
WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END) FILTER (WHERE CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END <> 'ready'), '{}')
        INTO own.changed, own.answers
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (0, 3) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'ready') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'snooze' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."timers_schedule" AS t
    SET status = CASE WHEN t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.cancelled_at IS NOT NULL THEN t.due_at ELSE coalesce(clock_timestamp() + s.delay * interval '1 microsecond', t.due_at) END,
    completed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END,
        last_error = CASE
            WHEN s.error IS NULL OR t.cancelled_at IS NOT NULL OR starts_with(t.last_error, s.error || ' since ')
            THEN t.last_error
            ELSE s.error || ' since ' || to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END
    FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), unnest($4::bigint[]), unnest($6::text[]),
            generate_subscripts('{}'::int[], 1)) AS s (id, token, delay, error)
    WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled,
        CASE WHEN t.status = 0 AND s.delay IS NULL THEN t.due_at END AS back
), told AS MATERIALIZED (
    SELECT FROM changed
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers_schedule', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
), settled AS (
SELECT changed.id, changed.status, changed.cancelled FROM changed, told)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END) FILTER (WHERE CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END <> 'ready'), '{}')
        INTO own.changed, own.answers
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (0, 3) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'ready') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'wait_until' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."timers_schedule" AS t
    SET status = CASE WHEN t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.cancelled_at IS NOT NULL THEN t.due_at ELSE greatest(clock_timestamp(), s.delay) END,
    completed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END,
        last_error = CASE
            WHEN s.error IS NULL OR t.cancelled_at IS NOT NULL OR starts_with(t.last_error, s.error || ' since ')
            THEN t.last_error
            ELSE s.error || ' since ' || to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END
    FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), unnest($5::timestamptz[]), unnest($6::text[]),
            generate_subscripts('{}'::int[], 1)) AS s (id, token, delay, error)
    WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled,
        CASE WHEN t.status = 0 AND s.delay IS NULL THEN t.due_at END AS back
), told AS MATERIALIZED (
    SELECT FROM changed
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers_schedule', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
), settled AS (
SELECT changed.id, changed.status, changed.cancelled FROM changed, told)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END) FILTER (WHERE CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END <> 'ready'), '{}')
        INTO own.changed, own.answers
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (0, 3) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'ready') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'leave' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."timers_schedule" AS t
    SET status = CASE WHEN t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.cancelled_at IS NOT NULL THEN t.due_at ELSE coalesce(clock_timestamp() + s.delay * interval '1 microsecond', t.due_at) END,
    completed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        waiting = t.waiting,
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END,
        last_error = CASE
            WHEN s.error IS NULL OR t.cancelled_at IS NOT NULL OR starts_with(t.last_error, s.error || ' since ')
            THEN t.last_error
            ELSE s.error || ' since ' || to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END
    FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), unnest($4::bigint[]), unnest($6::text[]),
            generate_subscripts('{}'::int[], 1)) AS s (id, token, delay, error)
    WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
), settled AS (
SELECT changed.id, changed.status, changed.cancelled FROM changed)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END) FILTER (WHERE CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END <> 'ready'), '{}')
        INTO own.changed, own.answers
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (0, 3) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'ready') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'release' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."timers_schedule" AS t
    SET status = CASE WHEN t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    completed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END
    FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
    WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled,
        CASE WHEN t.status = 0 THEN t.due_at END AS back
), told AS MATERIALIZED (
    SELECT FROM changed
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers_schedule', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
), settled AS (
SELECT changed.id, changed.status, changed.cancelled FROM changed, told)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END) FILTER (WHERE CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END <> 'ready'), '{}')
        INTO own.changed, own.answers
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (0, 3) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'ready') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'fail' THEN
        WITH settled AS (
UPDATE "{{schema}}"."timers_schedule" AS t
SET status = 3,
    completed_at = clock_timestamp(),
    failed_at = clock_timestamp(),
    cancelled_at = CASE WHEN s.cancelled THEN coalesce(t.cancelled_at, clock_timestamp()) ELSE t.cancelled_at END,
    locked_until = NULL,
    last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE coalesce(s.error, 'failed without an error') END
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), unnest($6::text[]), unnest(array_fill(false, ARRAY[cardinality($2)])::boolean[]),
        generate_subscripts('{}'::int[], 1)) AS s (id, token, error, cancelled)
WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END) FILTER (WHERE CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END <> 'failed'), '{}')
        INTO own.changed, own.answers
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (3) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'failed') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'cancel' THEN
        WITH settled AS (
UPDATE "{{schema}}"."timers_schedule" AS t
SET status = 3,
    completed_at = clock_timestamp(),
    failed_at = clock_timestamp(),
    cancelled_at = CASE WHEN s.cancelled THEN coalesce(t.cancelled_at, clock_timestamp()) ELSE t.cancelled_at END,
    locked_until = NULL,
    last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE coalesce(s.error, 'failed without an error') END
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), unnest(ARRAY(SELECT 'cancelled: ' || coalesce(u.e, 'no reason given') FROM unnest($6) AS u (e))::text[]), unnest(array_fill(true, ARRAY[cardinality($2)])::boolean[]),
        generate_subscripts('{}'::int[], 1)) AS s (id, token, error, cancelled)
WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END) FILTER (WHERE CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END <> 'cancelled'), '{}')
        INTO own.changed, own.answers
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (3) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'cancelled') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'unavailable' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."timers_schedule" AS t
    SET status = CASE WHEN t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.cancelled_at IS NOT NULL THEN t.due_at ELSE clock_timestamp() + (interval '10000 ms') * (1 - 0.2 * random()) END,
    completed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END,
        last_error = CASE
            WHEN s.error IS NULL OR t.cancelled_at IS NOT NULL OR starts_with(t.last_error, s.error || ' since ')
            THEN t.last_error
            ELSE s.error || ' since ' || to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END
    FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), unnest($4::bigint[]), unnest($6::text[]),
            generate_subscripts('{}'::int[], 1)) AS s (id, token, delay, error)
    WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
), settled AS (
SELECT changed.id, changed.status, changed.cancelled, NULL::text AS begun FROM changed)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END) FILTER (WHERE CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END <> 'ready'), '{}')
        INTO own.changed, own.answers
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality($2) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (0, 3) THEN 'repeated' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'ready') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    END CASE;
    IF $7 THEN
        SELECT count(*) AS n, min(a.key || ' is ' || a.value) AS sample INTO own.refused
        FROM jsonb_each_text(own.answers) AS a
        WHERE a.value IN ('lost', 'gone', 'repeated');
        IF own.refused.n > 0 THEN
            RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'ids',
                MESSAGE = format('ids names %s rows that the claim does not hold: %s', own.refused.n,
                    own.refused.sample),
                HINT = 'Roll back: another worker has such a row, or it has ended.';
        END IF;
    END IF;
    RETURN own.answers;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_settle_rows"(text, uuid[], uuid[], bigint[], timestamptz[], text[], boolean) FROM PUBLIC;

-- Settles rows with an outcome for each, kind by kind. It tells what each row became: see settle_one.sql. What an
-- element says is checked before anything is written or locked.
CREATE FUNCTION "{{schema}}"."timers_schedule_settle"(outcomes jsonb, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    refused record;
    all_ids uuid[];
    all_tokens uuid[];
    all_kinds text[];
    all_delays bigint[];
    all_times timestamptz[];
    all_errors text[];
    sorted uuid[];
    tokens uuid[];
    delays bigint[];
    times timestamptz[];
    errors text[];
    kind text;
    answers jsonb := '{}';
BEGIN
    IF (CASE WHEN jsonb_typeof($1) = 'array' THEN jsonb_array_length($1) <= 10000 END) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'outcomes',
            MESSAGE = 'outcomes must be an array of at most 10000 objects',
            HINT = 'Call once for each part of a longer array.';
    END IF;
    IF ($2 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'strict',
            MESSAGE = 'strict must not be NULL',
            HINT = 'Leave it out for false.';
    END IF;
    SELECT e.place, e.wrong INTO own.refused
    FROM (
        SELECT u.place, CASE
            WHEN jsonb_typeof(u.o) <> 'object' THEN 'is no object'
            WHEN jsonb_typeof(u.o -> 'id') IS DISTINCT FROM 'string' THEN 'has no id, which is a string'
            WHEN jsonb_typeof(u.o -> 'token') IS DISTINCT FROM 'string' THEN 'has no token, which is a string'
            WHEN u.o - CASE u.o ->> 'outcome'
                WHEN 'ack' THEN ARRAY['id', 'token', 'outcome']
                WHEN 'retry' THEN ARRAY['id', 'token', 'outcome', 'delay', 'error']
                WHEN 'snooze' THEN ARRAY['id', 'token', 'outcome', 'delay', 'error']
                WHEN 'wait_until' THEN ARRAY['id', 'token', 'outcome', 'at', 'error']
                WHEN 'leave' THEN ARRAY['id', 'token', 'outcome', 'delay', 'error']
                WHEN 'release' THEN ARRAY['id', 'token', 'outcome']
                WHEN 'fail' THEN ARRAY['id', 'token', 'outcome', 'error']
                WHEN 'cancel' THEN ARRAY['id', 'token', 'outcome', 'error']
                WHEN 'unavailable' THEN ARRAY['id', 'token', 'outcome', 'error']
                END <> '{}' IS NOT FALSE THEN 'has an unknown outcome, or a field that its outcome does not take'
            WHEN NOT u.o ?& CASE u.o ->> 'outcome'
                WHEN 'ack' THEN ARRAY[]::text[]
                WHEN 'retry' THEN ARRAY[]::text[]
                WHEN 'snooze' THEN ARRAY['delay']::text[]
                WHEN 'wait_until' THEN ARRAY['at']::text[]
                WHEN 'leave' THEN ARRAY['delay']::text[]
                WHEN 'release' THEN ARRAY[]::text[]
                WHEN 'fail' THEN ARRAY['error']::text[]
                WHEN 'cancel' THEN ARRAY['error']::text[]
                WHEN 'unavailable' THEN ARRAY[]::text[]
                END THEN 'lacks a field that its outcome needs'
            WHEN jsonb_typeof(u.o -> 'delay') <> 'number' THEN 'has a delay that is no number of seconds'
            WHEN (u.o ->> 'delay')::numeric NOT BETWEEN 0 AND 315360000
                THEN 'has a delay that is not between 0 and 315360000 seconds'
            WHEN jsonb_typeof(u.o -> 'at') <> 'string' THEN 'has an at that is no string'
            WHEN jsonb_typeof(u.o -> 'error') <> 'string' THEN 'has an error that is no string'
            END AS wrong
        FROM jsonb_array_elements($1) WITH ORDINALITY AS u (o, place)) AS e
    WHERE e.wrong IS NOT NULL
    ORDER BY e.place
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'outcomes',
            MESSAGE = 'outcomes has an element that is refused: ' || concat('number ' || own.refused.place || ' ', own.refused.wrong),
            HINT = 'retry takes delay and error, if you like; fail and cancel error; snooze and leave delay, wait_until at,'
                ' and all three error, if you like; unavailable takes error, if you like; ack and release nothing.';
    END IF;
    BEGIN
        SELECT array_agg(e.id), array_agg(e.token), array_agg(e.outcome), array_agg((e.delay * 1000000)::bigint),
            array_agg(e.at), array_agg(nullif(e.error, ''))
        INTO own.all_ids, own.all_tokens, own.all_kinds, own.all_delays, own.all_times, own.all_errors
        FROM (
            SELECT u.*
            FROM jsonb_to_recordset($1)
                AS u (id uuid, token uuid, outcome text, delay numeric, at timestamptz, error text)
            ORDER BY u.id) AS e;
    EXCEPTION WHEN data_exception THEN -- an id, a token or a time that is none
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'outcomes',
            MESSAGE = 'outcomes has an element that is refused: ' || concat('number ' || NULL || ' ', SQLERRM),
            HINT = 'retry takes delay and error, if you like; fail and cancel error; snooze and leave delay, wait_until at,'
                ' and all three error, if you like; unavailable takes error, if you like; ack and release nothing.';
    END;
    SELECT min(u.place) AS place, CASE WHEN count(*) > 1 THEN 'names a row that another element names'
        ELSE 'has an at that is not between the years 1 and 9999' END AS wrong
    FROM ROWS FROM (jsonb_to_recordset($1) AS (id uuid, at timestamptz)) WITH ORDINALITY AS u (id, at, place)
    GROUP BY u.id
    HAVING count(*) > 1 OR bool_or(NOT u.at <@ '[0001-01-01 00:00:00+00, 9999-12-31 00:00:00+00]'::tstzrange)
    ORDER BY 1
    LIMIT 1
    INTO own.refused;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'outcomes',
            MESSAGE = 'outcomes has an element that is refused: ' || concat('number ' || own.refused.place || ' ', own.refused.wrong),
            HINT = 'retry takes delay and error, if you like; fail and cancel error; snooze and leave delay, wait_until at,'
                ' and all three error, if you like; unavailable takes error, if you like; ack and release nothing.';
    END IF;
    FOR i IN 1..coalesce(cardinality(own.all_ids), 0) LOOP
        IF octet_length(own.all_errors[i]) > 8192 THEN
            all_errors[i] := left(nullif(all_errors[i], ''), 8192); WHILE octet_length(all_errors[i]) > 8192 LOOP all_errors[i] := left(all_errors[i], -greatest((octet_length(all_errors[i]) - 8192) / 4, 1)); END LOOP;
        END IF;
    END LOOP;
    FOREACH own.kind IN ARRAY '{ack, retry, snooze, wait_until, leave, release, fail, cancel, unavailable}'::text[] LOOP
        IF own.kind = ANY (own.all_kinds) THEN
            SELECT array_agg(u.id), array_agg(u.token), array_agg(u.delay), array_agg(u.at), array_agg(u.error)
            FROM unnest(own.all_ids, own.all_tokens, own.all_kinds, own.all_delays, own.all_times, own.all_errors)
                AS u (id, token, kind, delay, at, error)
            WHERE u.kind = own.kind
            INTO own.sorted, own.tokens, own.delays, own.times, own.errors;
            own.answers := own.answers
                || "{{schema}}"."timers_schedule_settle_rows"(own.kind, own.sorted, own.tokens, own.delays, own.times, own.errors, false);
        END IF;
    END LOOP;
    IF $2 THEN
        SELECT count(*) AS n, min(a.key || ' is ' || a.value) AS sample INTO own.refused
        FROM jsonb_each_text(own.answers) AS a
        WHERE a.value IN ('lost', 'gone', 'repeated');
        IF own.refused.n > 0 THEN
            RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'outcomes',
                MESSAGE = format('outcomes names %s rows that the claim does not hold: %s', own.refused.n,
                    own.refused.sample),
                HINT = 'Roll back: another worker has such a row, or it has ended.';
        END IF;
    END IF;
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, CASE u.outcome
        WHEN 'ack' THEN 'done'
        WHEN 'retry' THEN 'ready'
        WHEN 'snooze' THEN 'ready'
        WHEN 'wait_until' THEN 'ready'
        WHEN 'leave' THEN 'ready'
        WHEN 'release' THEN 'ready'
        WHEN 'fail' THEN 'failed'
        WHEN 'cancel' THEN 'cancelled'
        WHEN 'unavailable' THEN 'ready'
        END)
    FROM ROWS FROM (jsonb_to_recordset($1) AS (id uuid, outcome text)) WITH ORDINALITY AS u (id, outcome, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_settle"(jsonb, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."timers_schedule_ack"(owner_token uuid, ids uuid[], strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    sorted uuid[];
    answers jsonb;
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for every claim, and the claim''s for its rows.';
    END IF;
    IF (coalesce(array_ndims($2), 1) = 1 AND cardinality($2) <= 10000 AND array_position($2, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($3 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'strict',
            MESSAGE = 'strict must not be NULL',
            HINT = 'Leave it out for false.';
    END IF;
    sorted := ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id);
    answers := "{{schema}}"."timers_schedule_settle_rows"('ack', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, NULL, $3);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'done')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_ack"(uuid, uuid[], boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."timers_schedule_retry"(owner_token uuid, ids uuid[], delay interval DEFAULT NULL, error text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    sorted uuid[];
    answers jsonb;
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for every claim, and the claim''s for its rows.';
    END IF;
    IF (coalesce(array_ndims($2), 1) = 1 AND cardinality($2) <= 10000 AND array_position($2, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($3 IS NULL OR $3 BETWEEN interval '0' AND interval '87600 hours') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'delay',
            MESSAGE = 'delay must be between 0 and 87600 hours',
            HINT = 'NULL is the table''s own backoff.';
    END IF;
    error := left(nullif(error, ''), 8192); WHILE octet_length(error) > 8192 LOOP error := left(error, -greatest((octet_length(error) - 8192) / 4, 1)); END LOOP;
    IF ($5 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'strict',
            MESSAGE = 'strict must not be NULL',
            HINT = 'Leave it out for false.';
    END IF;
    sorted := ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id);
    answers := "{{schema}}"."timers_schedule_settle_rows"('retry', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        array_fill((extract(epoch FROM $3) * 1000000)::bigint, ARRAY[cardinality(own.sorted)]), NULL, array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_retry"(uuid, uuid[], interval, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."timers_schedule_snooze"(owner_token uuid, ids uuid[], delay interval, reason text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    sorted uuid[];
    answers jsonb;
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for every claim, and the claim''s for its rows.';
    END IF;
    IF (coalesce(array_ndims($2), 1) = 1 AND cardinality($2) <= 10000 AND array_position($2, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($3 BETWEEN interval '0' AND interval '87600 hours') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'delay',
            MESSAGE = 'delay must be between 0 and 87600 hours',
            HINT = 'Say for how long the rows are to wait.';
    END IF;
    reason := left(nullif(reason, ''), 8192); WHILE octet_length(reason) > 8192 LOOP reason := left(reason, -greatest((octet_length(reason) - 8192) / 4, 1)); END LOOP;
    IF ($5 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'strict',
            MESSAGE = 'strict must not be NULL',
            HINT = 'Leave it out for false.';
    END IF;
    sorted := ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id);
    answers := "{{schema}}"."timers_schedule_settle_rows"('snooze', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        array_fill((extract(epoch FROM $3) * 1000000)::bigint, ARRAY[cardinality(own.sorted)]), NULL, array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_snooze"(uuid, uuid[], interval, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."timers_schedule_wait_until"(owner_token uuid, ids uuid[], at timestamptz, reason text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    sorted uuid[];
    answers jsonb;
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for every claim, and the claim''s for its rows.';
    END IF;
    IF (coalesce(array_ndims($2), 1) = 1 AND cardinality($2) <= 10000 AND array_position($2, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($3 <@ '[0001-01-01 00:00:00+00, 9999-12-31 00:00:00+00]'::tstzrange) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'at',
            MESSAGE = 'at must be between the years 1 and 9999',
            HINT = 'Say until when the rows are to wait.';
    END IF;
    reason := left(nullif(reason, ''), 8192); WHILE octet_length(reason) > 8192 LOOP reason := left(reason, -greatest((octet_length(reason) - 8192) / 4, 1)); END LOOP;
    IF ($5 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'strict',
            MESSAGE = 'strict must not be NULL',
            HINT = 'Leave it out for false.';
    END IF;
    sorted := ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id);
    answers := "{{schema}}"."timers_schedule_settle_rows"('wait_until', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, array_fill($3, ARRAY[cardinality(own.sorted)]), array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_wait_until"(uuid, uuid[], timestamptz, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."timers_schedule_release"(owner_token uuid, ids uuid[], strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    sorted uuid[];
    answers jsonb;
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for every claim, and the claim''s for its rows.';
    END IF;
    IF (coalesce(array_ndims($2), 1) = 1 AND cardinality($2) <= 10000 AND array_position($2, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($3 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'strict',
            MESSAGE = 'strict must not be NULL',
            HINT = 'Leave it out for false.';
    END IF;
    sorted := ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id);
    answers := "{{schema}}"."timers_schedule_settle_rows"('release', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, NULL, $3);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_release"(uuid, uuid[], boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."timers_schedule_fail"(owner_token uuid, ids uuid[], error text, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    sorted uuid[];
    answers jsonb;
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for every claim, and the claim''s for its rows.';
    END IF;
    IF (coalesce(array_ndims($2), 1) = 1 AND cardinality($2) <= 10000 AND array_position($2, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($3 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'error',
            MESSAGE = 'error must not be NULL',
            HINT = 'Say why the rows failed.';
    END IF;
    error := left(nullif(error, ''), 8192); WHILE octet_length(error) > 8192 LOOP error := left(error, -greatest((octet_length(error) - 8192) / 4, 1)); END LOOP;
    IF ($4 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'strict',
            MESSAGE = 'strict must not be NULL',
            HINT = 'Leave it out for false.';
    END IF;
    sorted := ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id);
    answers := "{{schema}}"."timers_schedule_settle_rows"('fail', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, array_fill($3, ARRAY[cardinality(own.sorted)]), $4);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'failed')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_fail"(uuid, uuid[], text, boolean) FROM PUBLIC;

-- Renews leases, and tells of each row whether that was done: extended; cancelled, which is extended, too, but a cancel
-- has been asked for; busy if another transaction has the row locked, such as its own settle; lost or gone.
CREATE FUNCTION "{{schema}}"."timers_schedule_extend"(owner_token uuid, ids uuid[], lease interval, within interval DEFAULT NULL) RETURNS TABLE (place integer, id uuid, result text, locked_until timestamptz)
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
<<own>>
DECLARE
    sorted uuid[];
    changed uuid[];
    until timestamptz; -- of the row whose lease ends first
    answers jsonb := '{}';
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for every claim, and the claim''s for its rows.';
    END IF;
    IF (coalesce(array_ndims($2), 1) = 1 AND cardinality($2) <= 10000 AND array_position($2, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($3 BETWEEN interval '1 seconds' AND interval '86400 seconds') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'lease',
            MESSAGE = 'lease must be between 1 and 86400 seconds',
            HINT = 'Take a lease that a dead worker may hold its rows for, and extend it while they run.';
    END IF;
    IF ($4 IS NULL OR $4 BETWEEN interval '0' AND interval '87600 hours') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'within',
            MESSAGE = 'within must be between 0 and 87600 hours',
            HINT = 'NULL is the table''s own.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a settle needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    sorted := ARRAY(SELECT DISTINCT u.id FROM unnest($2) AS u (id) ORDER BY u.id);
    WITH settled AS (
UPDATE "{{schema}}"."timers_schedule" AS t
SET locked_until = clock_timestamp() + $3::interval,
    headers = CASE
        WHEN jsonb_typeof(coalesce(t.headers, '{}'::jsonb)) <> 'object'
            OR coalesce(split_part((t.headers ->> 'txwork-running'), ' ', 3) = t.owner_token::text, false) AND coalesce(s.within::text = split_part((t.headers ->> 'txwork-running'), ' ', 2), true)
        THEN t.headers
        ELSE coalesce(t.headers, '{}'::jsonb) || jsonb_build_object('txwork-running', concat(
            CASE WHEN coalesce(split_part((t.headers ->> 'txwork-running'), ' ', 3) = t.owner_token::text, false) THEN split_part((t.headers ->> 'txwork-running'), ' ', 1)
                ELSE (extract(epoch FROM coalesce(t.locked_until - NULL::interval, clock_timestamp()))
                    * 1000000)::bigint::text END,
            ' ', s.within, ' ', t.owner_token)) END
FROM ROWS FROM (unnest(own.sorted::uuid[]), unnest(array_fill($1, ARRAY[cardinality(own.sorted)])::uuid[]), unnest(array_fill((extract(epoch FROM $4) * 1000000)::bigint, ARRAY[cardinality(own.sorted)])::bigint[]),
        generate_subscripts('{}'::int[], 1)) AS s (id, token, within)
WHERE t.id = ANY (ARRAY(
    SELECT r.id
    FROM ROWS FROM (unnest(own.sorted::uuid[]), unnest(array_fill($1, ARRAY[cardinality(own.sorted)])::uuid[]), generate_subscripts('{}'::int[], 1)) AS h (id, token)
    JOIN "{{schema}}"."timers_schedule" AS r ON r.id = h.id
    WHERE r.id = ANY (own.sorted::uuid[]) AND r.owner_token = h.token AND coalesce(r.status = 1, false)
    FOR NO KEY UPDATE OF r SKIP LOCKED))
  AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.cancelled_at IS NOT NULL AS cancelled, t.locked_until::timestamptz
)
        SELECT coalesce(array_agg(c.id), '{}'),
            own.answers
                || coalesce(jsonb_object_agg(c.id, CASE WHEN c.cancelled THEN 'cancelled' ELSE 'extended' END) FILTER (WHERE CASE WHEN c.cancelled THEN 'cancelled' ELSE 'extended' END <> 'extended'), '{}'), min(c.locked_until)
        INTO own.changed, own.answers, own.until
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality(own.sorted) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN (1) THEN 'busy' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, 'extended') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest(own.sorted::uuid[]), unnest(array_fill($1, ARRAY[cardinality(own.sorted)])::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "{{schema}}"."timers_schedule" AS t ON t.id = ANY (own.sorted::uuid[]) AND t.id = s.id) AS k;
        END IF;
    RETURN QUERY
    SELECT u.place::integer, u.id, u.result, CASE WHEN u.result IN ('extended', 'cancelled') THEN own.until END
    FROM (
        SELECT v.place, v.id, coalesce(own.answers ->> v.id::text, 'extended') AS result
        FROM unnest($2) WITH ORDINALITY AS v (id, place)) AS u;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_extend"(uuid, uuid[], interval, interval) FROM PUBLIC;

-- The ack of one row in the transaction of its effects: an error unless the claim holds the row, so that the effects
-- are rolled back, too. A repetition is one: what an earlier transaction did with this token has its effects.
CREATE FUNCTION "{{schema}}"."timers_schedule_complete"(owner_token uuid, id uuid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    told text;
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for every claim, and the claim''s for its rows.';
    END IF;
    IF ($2 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'id',
            MESSAGE = 'id must not be NULL',
            HINT = 'Name the row that is completed.';
    END IF;
    SELECT a.result INTO told FROM "{{schema}}"."timers_schedule_ack"($1, ARRAY[$2]) AS a;
    IF told IS DISTINCT FROM 'done' THEN
        RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'id',
            MESSAGE = format('id is of a row that the claim does not hold: %s is %s', $2, told),
            HINT = 'Roll back: another worker has such a row, or it has ended.';
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_complete"(uuid, uuid) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_schedule_reap_expired"(max_rows integer DEFAULT 1000) RETURNS TABLE (requeued integer, failed integer, cancelled integer, dead_letters jsonb)
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
    IF ($1 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    RETURN QUERY
WITH taken AS MATERIALIZED (
    SELECT r.ctid, r.id, substring(uuid_send(r.owner_token) FROM 1 FOR 6) AS process,
        r.headers ->> 'txwork-lost-beside' IS NOT DISTINCT FROM r.owner_token::text AS noted,
        r.max_attempts > 1 AND r.attempts > 0
            AND jsonb_typeof(coalesce(r.headers, '{}'::jsonb)) = 'object' AS returnable,
        coalesce(substring(r.headers ->> 'txwork-lost-alone' FROM '^[0-9]{1,4}$')::int, 0) AS alone,
        coalesce(substring(r.headers ->> 'txwork-lost-together' FROM '^[0-9]{1,4}$')::int, 0) AS together
    FROM "{{schema}}"."timers_schedule" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND r.locked_until < now()
    ORDER BY r.due_at, r.id
    LIMIT $1::int
    FOR NO KEY UPDATE SKIP LOCKED
), beside AS MATERIALIZED (
    SELECT r.ctid, substring(uuid_send(r.owner_token) FROM 1 FOR 6) AS process
    FROM "{{schema}}"."timers_schedule" AS r
    WHERE EXISTS (SELECT FROM taken)
      AND r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND substring(uuid_send(r.owner_token) FROM 1 FOR 6) = ANY (ARRAY(SELECT k.process FROM taken AS k))
      AND r.id <> ALL (ARRAY(SELECT k.id FROM taken AS k))
), left_alone AS (
    UPDATE "{{schema}}"."timers_schedule" AS t
    SET headers = coalesce(t.headers, '{}'::jsonb)
        || jsonb_build_object('txwork-lost-beside', t.owner_token::text)
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM "{{schema}}"."timers_schedule" AS r
        WHERE r.ctid = ANY (ARRAY(
            SELECT (array_agg(b.ctid))[1] FROM beside AS b GROUP BY b.process HAVING count(*) = 1))
          AND r.status = 1
          AND jsonb_typeof(coalesce(r.headers, '{}'::jsonb)) = 'object'
          AND r.headers ->> 'txwork-lost-beside' IS DISTINCT FROM r.owner_token::text
        FOR NO KEY UPDATE SKIP LOCKED))
), lost AS MATERIALIZED (
    SELECT k.ctid, k.alone, k.together, s.shared,
        s.shared AND k.returnable AND k.alone = 0 AND k.together < 5 AS returned
    FROM (
        SELECT l.*, count(*) OVER (PARTITION BY l.process) AS rows FROM taken AS l) AS k
    CROSS JOIN LATERAL (
        SELECT k.rows > 1 OR k.noted OR k.process = ANY (ARRAY(SELECT b.process FROM beside AS b)) AS shared) AS s
), changed AS (
    UPDATE "{{schema}}"."timers_schedule" AS t
    SET status = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE greatest(clock_timestamp(), t.locked_until + CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 60000000) * (1 - 0.5 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        owner_token = NULL,
        attempts = CASE WHEN l.returned AND t.cancelled_at IS NULL THEN t.attempts - 1 ELSE t.attempts END,
        headers = CASE WHEN jsonb_typeof(coalesce(t.headers, '{}'::jsonb)) <> 'object' THEN t.headers
            ELSE coalesce(t.headers, '{}'::jsonb) - ARRAY['txwork-lost-beside', 'txwork-running'] || jsonb_build_object(
                CASE WHEN l.shared THEN 'txwork-lost-together' ELSE 'txwork-lost-alone' END,
                (1 + CASE WHEN l.shared THEN l.together ELSE l.alone END)::text,
                'txwork-lost-at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) END,
        last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE 'lease expired at ' ||
            to_char(t.locked_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' in attempt ' || t.attempts
            || CASE WHEN l.returned THEN ', which does not count: other rows of its process were lost with it'
                WHEN NOT l.shared AND l.alone > 0
                    THEN ', lost alone ' || 1 + l.alone || ' times: it may end its process'
                ELSE '' END END
    FROM lost AS l
    WHERE t.ctid = l.ctid
    RETURNING t.status, t.cancelled_at, CASE WHEN t.status = 3 AND t.cancelled_at IS NULL THEN jsonb_build_object(
        'id', t.id, 'attempt', t.attempts, 'max_attempts', t.max_attempts, 'error', t.last_error,
        'labels', jsonb_build_array(t."name")) END AS dead_letter
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled,
       jsonb_agg(changed.dead_letter) FILTER (WHERE changed.dead_letter IS NOT NULL) AS dead_letters
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_reap_expired"(integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_schedule_stats"() RETURNS TABLE (ready bigint, scheduled bigint, in_progress bigint, expired bigint, waiting bigint, failed bigint, cancelled bigint, oldest_ready_seconds double precision, partial boolean)
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
SELECT count(*) FILTER (WHERE r.status = 0 AND r.due_at <= now()) AS ready,
       count(*) FILTER (WHERE r.status = 0 AND r.due_at > now()) AS scheduled,
       count(*) FILTER (WHERE r.status = 1) AS in_progress,
       count(*) FILTER (WHERE r.status = 1 AND r.locked_until < now()) AS expired,
       (SELECT count(*) FROM "{{schema}}"."timers_schedule" AS w WHERE w.completed_at IS NULL AND w.waiting) AS waiting,
       (SELECT count(*) FROM "{{schema}}"."timers_schedule" AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NULL) AS failed,
       (SELECT count(*) FROM "{{schema}}"."timers_schedule" AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NOT NULL) AS cancelled,
       coalesce(extract(epoch FROM now() - min(r.due_at) FILTER (WHERE r.status = 0 AND r.due_at <= now())), 0)::float8
           AS oldest_ready_seconds,
       row_security_active('"{{schema}}"."timers_schedule"'::regclass) AS partial
FROM "{{schema}}"."timers_schedule" AS r
WHERE r.completed_at IS NULL AND NOT r.waiting;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_stats"() FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_schedule_run_now"(ids uuid[]) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    IF (coalesce(array_ndims($1), 1) = 1 AND cardinality($1) <= 10000 AND array_position($1, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    PERFORM FROM "{{schema}}"."timers_schedule" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."timers_schedule" AS t
    SET due_at = now()::timestamptz
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 0
      AND (t.due_at > now()::timestamptz OR t.due_at < now()::timestamptz AND NOT true::boolean)
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
), hit AS (
SELECT unnest(told.ids) AS id FROM told
), named AS (
    SELECT s.id, s.place, bool_or(s.place IS NULL) OVER (PARTITION BY s.id) AS changed
    FROM (
        SELECT u.id, u.place FROM unnest($1) WITH ORDINALITY AS u (id, place)
        UNION ALL SELECT h.id, NULL FROM hit AS h
    ) AS s
)
SELECT n.place::integer, n.id, n.changed,
       CASE WHEN t.id IS NULL THEN 'gone' WHEN n.changed THEN CASE WHEN t.waiting THEN 'waiting' ELSE 'ready' END ELSE CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END,
       CASE WHEN n.changed THEN NULL WHEN t.id IS NULL THEN 'there is no such row'
           WHEN t.status = 0 AND t.waiting THEN 'it is due, and waits for its key, a join or its topic'
           WHEN t.status = 0 THEN 'it is due already' ELSE 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END
FROM named AS n
LEFT JOIN "{{schema}}"."timers_schedule" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_run_now"(uuid[]) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_schedule_reschedule"(ids uuid[], at timestamptz) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    IF (coalesce(array_ndims($1), 1) = 1 AND cardinality($1) <= 10000 AND array_position($1, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($2 BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'at',
            MESSAGE = 'at must be a time between the years 1 and 9999',
            HINT = 'Give the time, or call run_now.';
    END IF;
    PERFORM FROM "{{schema}}"."timers_schedule" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."timers_schedule" AS t
    SET due_at = $2::timestamptz
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 0
      AND (t.due_at > $2::timestamptz OR t.due_at < $2::timestamptz AND NOT false::boolean)
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
), hit AS (
SELECT unnest(told.ids) AS id FROM told
), named AS (
    SELECT s.id, s.place, bool_or(s.place IS NULL) OVER (PARTITION BY s.id) AS changed
    FROM (
        SELECT u.id, u.place FROM unnest($1) WITH ORDINALITY AS u (id, place)
        UNION ALL SELECT h.id, NULL FROM hit AS h
    ) AS s
)
SELECT n.place::integer, n.id, n.changed,
       CASE WHEN t.id IS NULL THEN 'gone' WHEN n.changed THEN CASE WHEN t.waiting THEN 'waiting' WHEN $2 > clock_timestamp() THEN 'scheduled' ELSE 'ready' END ELSE CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END,
       CASE WHEN n.changed THEN NULL WHEN t.id IS NULL THEN 'there is no such row'
           WHEN t.status = 0 THEN 'it is due at that time already' ELSE 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END
FROM named AS n
LEFT JOIN "{{schema}}"."timers_schedule" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_reschedule"(uuid[], timestamptz) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_schedule_redrive"(ids uuid[], actor text DEFAULT NULL) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    IF (coalesce(array_ndims($1), 1) = 1 AND cardinality($1) <= 10000 AND array_position($1, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    actor := left(nullif(actor, ''), 1024);
    PERFORM FROM "{{schema}}"."timers_schedule" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
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
        headers = CASE WHEN jsonb_typeof(t.headers) = 'object' THEN t.headers - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent']
            ELSE coalesce(t.headers, '{}'::jsonb) END || jsonb_build_object(
            'txwork-redriven-by', coalesce($2::text, session_user::text),
            'txwork-redriven-at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 3
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
), hit AS (
SELECT unnest(told.ids) AS id FROM told
), named AS (
    SELECT s.id, s.place, bool_or(s.place IS NULL) OVER (PARTITION BY s.id) AS changed
    FROM (
        SELECT u.id, u.place FROM unnest($1) WITH ORDINALITY AS u (id, place)
        UNION ALL SELECT h.id, NULL FROM hit AS h
    ) AS s
)
SELECT n.place::integer, n.id, n.changed,
       CASE WHEN t.id IS NULL THEN 'gone' WHEN n.changed THEN CASE WHEN false THEN 'waiting' ELSE 'ready' END ELSE CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END,
       CASE WHEN n.changed THEN NULL WHEN t.id IS NULL THEN 'there is no such row' ELSE 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END
FROM named AS n
LEFT JOIN "{{schema}}"."timers_schedule" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_redrive"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_schedule_cancel"(ids uuid[], reason text) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    IF (coalesce(array_ndims($1), 1) = 1 AND cardinality($1) <= 10000 AND array_position($1, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($2 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'reason',
            MESSAGE = 'reason must not be NULL',
            HINT = 'Say why; an empty text says nothing.';
    END IF;
    reason := 'cancelled: ' || CASE WHEN $2 = '' THEN 'no reason given' ELSE left($2, 1024) END;
    PERFORM FROM "{{schema}}"."timers_schedule" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."timers_schedule" AS t
    SET cancelled_at = clock_timestamp(),
        status = CASE WHEN t.status = 0 THEN 3 ELSE t.status END,
        completed_at = CASE WHEN t.status = 0 THEN clock_timestamp() END,
        failed_at = CASE WHEN t.status = 0 THEN clock_timestamp() END,
        owner_token = CASE WHEN t.status = 1 THEN t.owner_token END,
        last_error = $2::text
    WHERE t.id = ANY ($1::uuid[]) AND t.status IN (0, 1) AND t.cancelled_at IS NULL
    RETURNING t.id, t.status
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN bool_or(changed.status = 1) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers_schedule', 'cancel') ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END
), hit AS (
SELECT unnest(told.ids) AS id FROM told
), named AS (
    SELECT s.id, s.place, bool_or(s.place IS NULL) OVER (PARTITION BY s.id) AS changed
    FROM (
        SELECT u.id, u.place FROM unnest($1) WITH ORDINALITY AS u (id, place)
        UNION ALL SELECT h.id, NULL FROM hit AS h
    ) AS s
)
SELECT n.place::integer, n.id, n.changed,
       CASE WHEN t.id IS NULL THEN 'gone' WHEN n.changed THEN CASE WHEN t.status = 0 THEN 'cancelled' ELSE 'in_progress' END ELSE CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END,
       CASE WHEN n.changed THEN NULL WHEN t.id IS NULL THEN 'there is no such row'
           WHEN t.status = 1 THEN 'its cancel was asked for before' ELSE 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END
FROM named AS n
LEFT JOIN "{{schema}}"."timers_schedule" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_cancel"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_schedule_discard"(ids uuid[], reason text) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    IF (coalesce(array_ndims($1), 1) = 1 AND cardinality($1) <= 10000 AND array_position($1, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    IF ($2 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'reason',
            MESSAGE = 'reason must not be NULL',
            HINT = 'Say why; an empty text says nothing.';
    END IF;
    reason := 'discarded: ' || CASE WHEN $2 = '' THEN 'no reason given' ELSE left($2, 1024) END;
    PERFORM FROM "{{schema}}"."timers_schedule" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH hit AS (
UPDATE "{{schema}}"."timers_schedule" AS t
SET cancelled_at = clock_timestamp(),
    last_error = left(concat_ws('; ', $2::text, t.last_error), 2048)
WHERE t.id = ANY ($1::uuid[]) AND t.status = 3 AND t.cancelled_at IS NULL
RETURNING t.id
), named AS (
    SELECT s.id, s.place, bool_or(s.place IS NULL) OVER (PARTITION BY s.id) AS changed
    FROM (
        SELECT u.id, u.place FROM unnest($1) WITH ORDINALITY AS u (id, place)
        UNION ALL SELECT h.id, NULL FROM hit AS h
    ) AS s
)
SELECT n.place::integer, n.id, n.changed,
       CASE WHEN t.id IS NULL THEN 'gone' WHEN n.changed THEN 'cancelled' ELSE CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END,
       CASE WHEN n.changed THEN NULL WHEN t.id IS NULL THEN 'there is no such row'
           WHEN t.status IN (0, 1) THEN 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END || ': cancel it' ELSE 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END
FROM named AS n
LEFT JOIN "{{schema}}"."timers_schedule" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_discard"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."timers_schedule_delete"(ids uuid[]) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    IF (coalesce(array_ndims($1), 1) = 1 AND cardinality($1) <= 10000 AND array_position($1, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of one dimension, of at most 10000 elements, of which none is NULL',
            HINT = 'Leave out NULL, and call once for each part of a longer array.';
    END IF;
    PERFORM FROM "{{schema}}"."timers_schedule" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR UPDATE;
    RETURN QUERY
WITH hit AS (
DELETE FROM "{{schema}}"."timers_schedule" AS t
WHERE t.id = ANY ($1::uuid[]) AND t.status IN (2, 3)
RETURNING t.id
), named AS (
    SELECT s.id, s.place, bool_or(s.place IS NULL) OVER (PARTITION BY s.id) AS changed
    FROM (
        SELECT u.id, u.place FROM unnest($1) WITH ORDINALITY AS u (id, place)
        UNION ALL SELECT h.id, NULL FROM hit AS h
    ) AS s
)
SELECT n.place::integer, n.id, n.changed,
       CASE WHEN t.id IS NULL THEN 'gone' WHEN n.changed THEN 'deleted' ELSE CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END,
       CASE WHEN n.changed THEN NULL WHEN t.id IS NULL THEN 'there is no such row'
           WHEN t.status IN (0, 1) THEN 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END || ': cancel it first' ELSE 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END
FROM named AS n
LEFT JOIN "{{schema}}"."timers_schedule" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_delete"(uuid[]) FROM PUBLIC;

-- One transaction of the procedure fold: each fold of the table once. The cursor says how far each fold came, so that
-- notes that are deleted but not yet vacuumed are not read again, and when the next pass from the start is due, which
-- finds notes that older transactions have written behind the cursor: after forty times as long as the last pass took,
-- and after between a second and a minute. A cursor of another table counts as none, and so does a pass that is further
-- ahead than that, as it is after a failover. The numbers are microseconds.
CREATE FUNCTION "{{schema}}"."timers_schedule_fold_step"(
    max_notes integer, INOUT cursor text, INOUT folded integer, OUT again_in double precision, OUT busy boolean,
    OUT more boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_variable
DECLARE
    started constant timestamptz := clock_timestamp();
    own constant text := left(md5('{{schema}}.timers_schedule'), 8);
    said text[] := regexp_match(cursor, '^fold1 ([0-9a-f]{8}) ([0-9]{1,17}) ([0-9,]{0,99})$');
    places bigint[] := array_fill(NULL::bigint, ARRAY[0]);
    next_pass timestamptz;
    whole boolean := true;
    f record;
BEGIN
    IF (max_notes BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_notes',
            MESSAGE = 'max_notes must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF (cursor IS NULL OR said IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'cursor',
            MESSAGE = 'cursor is not what an earlier call has returned',
            HINT = 'Pass the cursor of your last call that committed, or NULL to begin anew.';
    END IF;
    IF said[1] = own THEN
        places := string_to_array(said[3], ',', '')::bigint[];
        next_pass := 'epoch'::timestamptz + said[2]::bigint * interval '1 microsecond';
        whole := started NOT BETWEEN next_pass - interval '1 minute' AND next_pass;
    END IF;
    folded := coalesce(folded, 0);
    again_in := 60;
    busy := false;
    more := false;
    IF whole AND NOT busy THEN
        next_pass := clock_timestamp()
            + greatest(interval '1 second', least(40 * (clock_timestamp() - started), interval '1 minute'));
    END IF;
    again_in := CASE WHEN more THEN 0
        ELSE least(again_in, greatest(extract(epoch FROM next_pass - clock_timestamp()), 0)) END;
    IF busy THEN
        again_in := greatest(again_in, 1);
    END IF;
    cursor := format('fold1 %s %s %s', own, coalesce((extract(epoch FROM next_pass) * 1000000)::bigint, 0),
        array_to_string(places, ',', ''));
END
$txwork$;

-- Applies the notes that triggers have written, until none is due. It commits after each step, so that a caller who
-- stays in a transaction afterwards holds no lock that keeps others from folding; in a caller's transaction PostgreSQL
-- refuses it (2D000). It cannot pin a search_path: every name is qualified, and no operator is used. If a crash undoes
-- a fold, its notes are still there, so its commits do not wait for the log.
CREATE PROCEDURE "{{schema}}"."timers_schedule_fold"(
    INOUT cursor text DEFAULT NULL, INOUT folded integer DEFAULT NULL, INOUT again_in double precision DEFAULT NULL,
    INOUT busy boolean DEFAULT NULL
)
LANGUAGE plpgsql
AS $txwork$
DECLARE
    more pg_catalog.bool;
BEGIN
    SELECT 0 INTO folded;
    FOR round IN 1..10000 LOOP
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
        SET LOCAL synchronous_commit TO off;
        SELECT s.cursor, s.folded, s.again_in, s.busy, s.more INTO cursor, folded, again_in, busy, more
        FROM "{{schema}}"."timers_schedule_fold_step"(1000, cursor, folded) AS s;
        EXIT WHEN more IS NOT TRUE;
    END LOOP;
    COMMIT;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_fold_step"(integer, text, integer) FROM PUBLIC;
REVOKE ALL ON PROCEDURE "{{schema}}"."timers_schedule_fold"(text, integer, double precision, boolean) FROM PUBLIC;

-- Does one kind of maintenance although rows are in its way, such as a row that a foreign key of the application keeps
-- from being deleted: the part of the rows that failed is halved until the row is by itself, and skipped. The next part
-- is twice as large as one that succeeded. Each part is a subtransaction, so n rows cost at most about three each, and
-- a few bad rows some tens together. A part waits little for locks, because the next ones wait for it.
--
-- If nothing succeeds, the rows are not the cause, and the error is raised: one about rights or names at once, another
-- after 16 rows.
CREATE FUNCTION "{{schema}}"."timers_schedule_each"(
    kind text, max_rows integer, age interval, except_ids uuid[],
    OUT done integer, OUT failed integer, OUT cancelled integer, OUT dead_letters jsonb, OUT skipped uuid[],
    OUT problems text[]
)
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
SET lock_timeout = '50ms'
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    ids uuid[];
    part uuid[];
    beside uuid[]; -- rows that are not the only one of their process
    place integer := 1;
    size integer;
    changed record;
    state text;
    said text;
BEGIN
    IF ($2 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    done := 0;
    failed := 0;
    cancelled := 0;
    skipped := '{}';
    problems := '{}';
    CASE $1
    WHEN 'reap_expired' THEN
        ids := ARRAY(
    SELECT r.id
    FROM "{{schema}}"."timers_schedule" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND r.locked_until < now()
      AND r.id <> ALL ($4)
    ORDER BY r.due_at, r.id
    LIMIT $2::int);
        beside := ARRAY(
            SELECT p.id
            FROM (
                SELECT r.id, count(*) OVER (PARTITION BY substring(uuid_send(r.owner_token) FROM 1 FOR 6)) AS rows
                FROM "{{schema}}"."timers_schedule" AS r
                WHERE r.completed_at IS NULL
                  AND NOT r.waiting
                  AND r.status = 1
                  AND r.due_at <= now()) AS p
            WHERE p.rows > 1);
    WHEN 'purge_done' THEN
        ids := ARRAY(
    SELECT r.id
    FROM "{{schema}}"."timers_schedule" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - $3::interval
      AND r.id <> ALL ($4)
    ORDER BY r.completed_at
    LIMIT $2::int);
    WHEN 'purge_failed' THEN
        ids := ARRAY(
    SELECT r.id
    FROM "{{schema}}"."timers_schedule" AS r
    WHERE r.failed_at IS NOT NULL
      AND r.cancelled_at IS NULL
      AND r.failed_at < now() - $3::interval
      AND r.id <> ALL ($4)
    ORDER BY r.failed_at, r.id
    LIMIT $2::int);
    END CASE;
    size := cardinality(ids);
    WHILE place <= cardinality(ids) LOOP
        part := ids[place:place + size - 1];
        BEGIN
            CASE $1
            WHEN 'reap_expired' THEN
                FOR changed IN
WITH taken AS MATERIALIZED (
    SELECT r.ctid, r.id, substring(uuid_send(r.owner_token) FROM 1 FOR 6) AS process,
        r.headers ->> 'txwork-lost-beside' IS NOT DISTINCT FROM r.owner_token::text OR r.id = ANY (own.beside) AS noted,
        r.max_attempts > 1 AND r.attempts > 0
            AND jsonb_typeof(coalesce(r.headers, '{}'::jsonb)) = 'object' AS returnable,
        coalesce(substring(r.headers ->> 'txwork-lost-alone' FROM '^[0-9]{1,4}$')::int, 0) AS alone,
        coalesce(substring(r.headers ->> 'txwork-lost-together' FROM '^[0-9]{1,4}$')::int, 0) AS together
    FROM "{{schema}}"."timers_schedule" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND r.locked_until < now()
      AND r.id = ANY (own.part)
    ORDER BY r.due_at, r.id
    LIMIT own.size::int
    FOR NO KEY UPDATE SKIP LOCKED
), lost AS MATERIALIZED (
    SELECT k.ctid, k.alone, k.together, s.shared,
        s.shared AND k.returnable AND k.alone = 0 AND k.together < 5 AS returned
    FROM (
        SELECT l.*, count(*) OVER (PARTITION BY l.process) AS rows FROM taken AS l) AS k
    CROSS JOIN LATERAL (
        SELECT k.rows > 1 OR k.noted AS shared) AS s
), changed AS (
    UPDATE "{{schema}}"."timers_schedule" AS t
    SET status = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE greatest(clock_timestamp(), t.locked_until + CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 60000000) * (1 - 0.5 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN NOT l.returned AND t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        owner_token = NULL,
        attempts = CASE WHEN l.returned AND t.cancelled_at IS NULL THEN t.attempts - 1 ELSE t.attempts END,
        headers = CASE WHEN jsonb_typeof(coalesce(t.headers, '{}'::jsonb)) <> 'object' THEN t.headers
            ELSE coalesce(t.headers, '{}'::jsonb) - ARRAY['txwork-lost-beside', 'txwork-running'] || jsonb_build_object(
                CASE WHEN l.shared THEN 'txwork-lost-together' ELSE 'txwork-lost-alone' END,
                (1 + CASE WHEN l.shared THEN l.together ELSE l.alone END)::text,
                'txwork-lost-at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) END,
        last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE 'lease expired at ' ||
            to_char(t.locked_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' in attempt ' || t.attempts
            || CASE WHEN l.returned THEN ', which does not count: other rows of its process were lost with it'
                WHEN NOT l.shared AND l.alone > 0
                    THEN ', lost alone ' || 1 + l.alone || ' times: it may end its process'
                ELSE '' END END
    FROM lost AS l
    WHERE t.ctid = l.ctid
    RETURNING t.status, t.cancelled_at, CASE WHEN t.status = 3 AND t.cancelled_at IS NULL THEN jsonb_build_object(
        'id', t.id, 'attempt', t.attempts, 'max_attempts', t.max_attempts, 'error', t.last_error,
        'labels', jsonb_build_array(t."name")) END AS dead_letter
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled,
       jsonb_agg(changed.dead_letter) FILTER (WHERE changed.dead_letter IS NOT NULL) AS dead_letters
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END
                LOOP
                    done := done + changed.requeued;
                    failed := failed + changed.failed;
                    cancelled := cancelled + changed.cancelled;
                    dead_letters := coalesce(dead_letters, '[]') || coalesce(changed.dead_letters, '[]');
                END LOOP;
            WHEN 'purge_done' THEN
                WITH purged AS (
DELETE FROM "{{schema}}"."timers_schedule" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."timers_schedule" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - $3::interval
      AND r.id = ANY (own.part)
    ORDER BY r.completed_at
    LIMIT own.size::int
    FOR UPDATE SKIP LOCKED))
RETURNING t.id)
                SELECT done + count(*) INTO done FROM purged;
            WHEN 'purge_failed' THEN
                WITH purged AS (
DELETE FROM "{{schema}}"."timers_schedule" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."timers_schedule" AS r
    WHERE r.failed_at IS NOT NULL
      AND r.cancelled_at IS NULL
      AND r.failed_at < now() - $3::interval
      AND r.id = ANY (own.part)
    ORDER BY r.failed_at, r.id
    LIMIT own.size::int
    FOR UPDATE SKIP LOCKED))
RETURNING t.id)
                SELECT done + count(*) INTO done FROM purged;
            END CASE;
            place := place + size;
            size := size * 2;
        EXCEPTION WHEN others THEN
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, said = MESSAGE_TEXT;
            IF size > 1 THEN
                size := size / 2;
            ELSE
                skipped := skipped || ids[place];
                problems := problems || (said || ' (SQLSTATE ' || state || ')');
                place := place + 1;
                IF done + failed = 0
                    AND (cardinality(skipped) >= 16 OR place > cardinality(ids) AND state LIKE '42%') THEN
                    RAISE EXCEPTION '%', said USING ERRCODE = state;
                END IF;
            END IF;
        END;
    END LOOP;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_each"(text, integer, interval, uuid[]) FROM PUBLIC;

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
    IF ($1 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF ($2 IS NULL OR $2 BETWEEN interval '0' AND interval '87600 hours') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'retention',
            MESSAGE = 'retention must be between 0 and 87600 hours',
            HINT = 'NULL keeps all rows.';
    END IF;
    IF ($3 IS NULL OR $3 BETWEEN interval '0' AND interval '87600 hours') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'failed_retention',
            MESSAGE = 'failed_retention must be between 0 and 87600 hours',
            HINT = 'NULL keeps all rows.';
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

-- One transaction of one kind of maintenance. It returns what kept it from doing all instead of raising it, so that the
-- other kinds still get their turn. crowded says that it did as much as it may, so that much is left. If it fails, and
-- while there are rows that it has skipped, it does the rows that it can with the function each. A sweep or a fold that
-- fails is left as it is. A role that does not see all rows is refused, so that the procedure does not record that it
-- ran.
CREATE FUNCTION "{{schema}}"."timers_schedule_maintain_step"(
    kind text, most integer, retention interval, failed_retention interval, INOUT skipped uuid[], INOUT problem text,
    OUT more boolean, OUT crowded boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $txwork$
DECLARE
    n integer;
    e record;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."timers_schedule"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.timers_schedule or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($2 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF ($3 IS NULL OR $3 BETWEEN interval '0' AND interval '87600 hours') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'retention',
            MESSAGE = 'retention must be between 0 and 87600 hours',
            HINT = 'NULL keeps all rows.';
    END IF;
    IF ($4 IS NULL OR $4 BETWEEN interval '0' AND interval '87600 hours') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'failed_retention',
            MESSAGE = 'failed_retention must be between 0 and 87600 hours',
            HINT = 'NULL keeps all rows.';
    END IF;
    more := false;
    crowded := false;
    IF cardinality(skipped) = 0 THEN
        BEGIN
            CASE $1
            WHEN 'reap_expired' THEN
                n := (SELECT r.requeued + r.failed FROM "{{schema}}"."timers_schedule_reap_expired"($2) AS r);
            WHEN 'purge_done' THEN
                n := (SELECT p.done FROM "{{schema}}"."timers_schedule_purge"($2, $3, NULL) AS p);
            WHEN 'purge_failed' THEN
                n := (SELECT p.failed FROM "{{schema}}"."timers_schedule_purge"($2, NULL, $4) AS p);
            WHEN 'fold' THEN
                n := (SELECT f.folded FROM "{{schema}}"."timers_schedule_fold_step"($2, NULL, 0) AS f);
            END CASE;
            more := n > 0;
            crowded := n >= $2;
            RETURN;
        EXCEPTION WHEN others THEN
            problem := $1 || ': ' || SQLERRM;
        END;
    END IF;
    IF $1 NOT IN ('reap_expired', 'purge_done', 'purge_failed') OR cardinality(skipped) >= 5000 THEN
        RETURN;
    END IF;
    BEGIN
        SELECT * INTO e
        FROM "{{schema}}"."timers_schedule_each"($1, $2, CASE $1 WHEN 'purge_done' THEN $3 WHEN 'purge_failed' THEN $4 END, skipped);
    EXCEPTION WHEN others THEN
        problem := $1 || ': ' || SQLERRM;
        RETURN;
    END;
    n := e.done + e.failed + cardinality(e.skipped);
    more := n > 0;
    crowded := n >= $2;
    skipped := skipped || e.skipped;
    IF cardinality(skipped) = 0 AND more THEN -- if nothing was done, the failure has another cause than rows
        problem := NULL;
    ELSIF cardinality(e.skipped) > 0 THEN
        problem := format('%s skipped %s rows, such as %s: %s', $1, cardinality(skipped), e.skipped[1], e.problems[1]);
    END IF;
END
$txwork$;

-- All maintenance of the table, until nothing is left. A kind that has much to do lets the others have their turn after
-- 100 transactions, so that a long deletion does not keep expired leases from being requeued. It commits, so
-- a call cannot be part of a transaction, and it cannot pin a search_path: every name is qualified instead, and no
-- operator is used. At the end it records when it ran and what it left undone, for the check that looks for tables
-- without maintenance. It skips that if the schema has no table for the record, such as a schema with only an
-- application's own tables, or if the role may not write to it. Then it raises what it left undone.
CREATE PROCEDURE "{{schema}}"."timers_schedule_maintain"(
    max_rows integer DEFAULT 1000,
    retention interval DEFAULT interval '168 hours',
    failed_retention interval DEFAULT NULL
)
LANGUAGE plpgsql
AS $txwork$
DECLARE
    kind pg_catalog.text;
    more boolean;
    crowded boolean;
    unfinished boolean;
    skipped pg_catalog.uuid[];
    said pg_catalog.text;
    problem pg_catalog.text;
BEGIN
    FOR round IN 1..10000 LOOP
        SELECT false, NULL INTO unfinished, problem;
        FOREACH kind IN ARRAY ARRAY['reap_expired', 'purge_done', 'purge_failed', 'fold'] LOOP
            SELECT ARRAY[]::pg_catalog.uuid[], NULL INTO skipped, said;
            FOR step IN 1..100 LOOP
                COMMIT;
                SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
                SELECT s.more, s.crowded, s.skipped, s.problem INTO more, crowded, skipped, said
                FROM "{{schema}}"."timers_schedule_maintain_step"(kind, max_rows, retention, failed_retention, skipped, said) AS s;
                EXIT WHEN more IS NOT TRUE;
            END LOOP;
            IF crowded THEN
                SELECT true INTO unfinished;
            END IF;
            IF said IS NOT NULL THEN
                RAISE WARNING '%', said;
                SELECT pg_catalog.concat_ws('; ', problem, said) INTO problem;
            END IF;
        END LOOP;
        EXIT WHEN NOT unfinished;
    END LOOP;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    BEGIN
        PERFORM "{{schema}}"."leader_note"('{{schema}}.timers_schedule', problem);
    EXCEPTION WHEN undefined_function OR insufficient_privilege THEN
        NULL;
    END;
    COMMIT;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'a part of the maintenance failed, the rest is done: %', problem;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_purge"(integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_maintain_step"(text, integer, interval, interval, uuid[], text) FROM PUBLIC;
REVOKE ALL ON PROCEDURE "{{schema}}"."timers_schedule_maintain"(integer, interval, interval) FROM PUBLIC;

-- Pauses a schedule, as Plan.Pause does. The result is paused, also if it was before, or gone: there is none of that
-- name.
CREATE FUNCTION "{{schema}}"."timers_schedule_pause"(name text, OUT result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $txwork$
#variable_conflict use_column
BEGIN
    IF (octet_length($1) BETWEEN 1 AND 200) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'name',
            MESSAGE = 'name must have 1 to 200 bytes',
            HINT = 'Give the name of a schedule.';
    END IF;
    PERFORM FROM "{{schema}}"."timers_schedule" AS t WHERE t.name = $1 FOR NO KEY UPDATE;
    result := CASE WHEN FOUND THEN 'paused' ELSE 'gone' END;
    UPDATE "{{schema}}"."timers_schedule" AS t
        SET paused = true,
            due_at = CASE WHEN t.status = 1 OR t.triggers IS NOT NULL THEN t.due_at ELSE '9999-12-31 00:00:00+00' END,
            skipped = t.skipped + CASE WHEN t.buffered_at IS NULL THEN 0 ELSE 1 END
                + (SELECT count(*) FROM jsonb_path_query(t.owed, 'lax $[*].due[*]')),
            buffered_at = NULL,
            owed = NULL,
            resumed_at = NULL
        WHERE t.name = $1 AND NOT t.paused;
END
$txwork$;

-- Ends a pause, as Plan.Resume does, but that a scheduler finds the next time. The result is resumed, also if it was
-- not paused, or gone.
CREATE FUNCTION "{{schema}}"."timers_schedule_resume"(name text, OUT result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $txwork$
#variable_conflict use_column
DECLARE
    own uuid;
    held boolean;
    told text;
BEGIN
    IF (octet_length($1) BETWEEN 1 AND 200) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'name',
            MESSAGE = 'name must have 1 to 200 bytes',
            HINT = 'Give the name of a schedule.';
    END IF;
    SELECT t.id, t.paused INTO own, held FROM "{{schema}}"."timers_schedule" AS t WHERE t.name = $1 FOR NO KEY UPDATE;
    result := CASE WHEN FOUND THEN 'resumed' ELSE 'gone' END;
    IF held THEN
        WITH changed AS (
            UPDATE "{{schema}}"."timers_schedule" AS t
            SET paused = false,
                next_at = NULL::timestamptz,
                due_at = CASE
                    WHEN t.status = 1 OR t.triggers IS NOT NULL THEN t.due_at
                    ELSE greatest(NULL::timestamptz, now())
                END,
                resumed_at = clock_timestamp()::timestamptz
            WHERE t.id = own
            RETURNING t.id
        )
        SELECT changed.id, (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END)::text FROM changed INTO own, told;
    END IF;
END
$txwork$;

-- Asks schedulers for an occurrence outside of the plan. The result is triggered, with the id that the timer or job
-- will have; gone; ended: the schedule is never due again, and no scheduler looks at it; or full, if 1000
-- of them wait for a scheduler.
CREATE FUNCTION "{{schema}}"."timers_schedule_trigger"(name text, OUT id uuid, OUT result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $txwork$
#variable_conflict use_column
DECLARE
    own uuid;
    told text;
BEGIN
    IF (octet_length($1) BETWEEN 1 AND 200) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'name',
            MESSAGE = 'name must have 1 to 200 bytes',
            HINT = 'Give the name of a schedule.';
    END IF;
    SELECT t.id, CASE
        WHEN t.completed_at IS NOT NULL THEN 'ended'
        WHEN jsonb_array_length(t.triggers) >= 1000 THEN 'full'
        ELSE 'triggered' END
    INTO own, result
    FROM "{{schema}}"."timers_schedule" AS t WHERE t.name = $1 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        result := 'gone';
    ELSIF result = 'triggered' THEN
        id := encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid;
        WITH changed AS (
            UPDATE "{{schema}}"."timers_schedule" AS t
            SET triggers = coalesce(t.triggers, '[]') || jsonb_build_object('id', $2::uuid, 'at', clock_timestamp()),
                due_at = CASE WHEN t.status = 1 THEN t.due_at ELSE least(t.due_at, now()) END
            WHERE t.id = own
            RETURNING t.id
        )
        SELECT changed.id, (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.timers_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END)::text FROM changed INTO own, told;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_pause"(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_resume"(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."timers_schedule_trigger"(text) FROM PUBLIC;
