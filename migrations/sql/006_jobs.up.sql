-- A retry policy that cannot be computed would fail the reaper's whole batch. It is a domain because the server parses
-- a CHECK of a table anew for every statement that writes to the table, and that of a domain once in a session. Delays
-- are whole microseconds, and a jitter is 0 or large enough to matter: NaN would pass a comparison by >=, and numbers
-- that are too large or too small make a multiplication fail. The types of each operator match its operands exactly, so
-- that no operator in the caller's search_path fits better.
CREATE DOMAIN "{{schema}}"."jobs_retry" AS jsonb CONSTRAINT "jobs_retry_check" CHECK (
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
CREATE DOMAIN "{{schema}}"."jobs_time" AS timestamptz CONSTRAINT "jobs_time_check" CHECK (
    VALUE <@ '[0001-01-01 00:00:00+00, 9999-12-31 00:00:00+00]'::tstzrange
);

-- The values that columns may have, in domains for the same reason.
CREATE DOMAIN "{{schema}}"."jobs_kind_value" AS text
    CONSTRAINT "jobs_kind_check" CHECK (octet_length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN "{{schema}}"."jobs_queue_value" AS text
    CONSTRAINT "jobs_queue_check" CHECK (octet_length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN "{{schema}}"."jobs_priority_value" AS smallint
    CONSTRAINT "jobs_priority_check" CHECK (VALUE BETWEEN 1 AND 3);
CREATE DOMAIN "{{schema}}"."jobs_progress_value" AS smallint
    CONSTRAINT "jobs_progress_check" CHECK (VALUE BETWEEN 0 AND 100);

CREATE TABLE "{{schema}}"."jobs" (
    id uuid PRIMARY KEY DEFAULT encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid,
    due_at "{{schema}}"."jobs_time" NOT NULL DEFAULT now(),
    created_at "{{schema}}"."jobs_time" NOT NULL DEFAULT now(),
    max_attempts integer NOT NULL DEFAULT 30,
    "priority" "{{schema}}"."jobs_priority_value" NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    status smallint NOT NULL DEFAULT 0,
    waiting boolean NOT NULL DEFAULT false,
    locked_until "{{schema}}"."jobs_time",
    completed_at "{{schema}}"."jobs_time",
    owner_token uuid,
    failed_at "{{schema}}"."jobs_time",
    cancelled_at "{{schema}}"."jobs_time",
    last_error text,
    headers jsonb,
    retry "{{schema}}"."jobs_retry",
    "kind" "{{schema}}"."jobs_kind_value" NOT NULL,
    "queue" "{{schema}}"."jobs_queue_value" NOT NULL,
    "args" bytea NOT NULL,
    "unique_key" text,
    "freed_key" text,
    "unique_states" smallint,
    "schedule" text,
    "slot" boolean,
    "trail" boolean,
    "progress" "{{schema}}"."jobs_progress_value",
    "progress_note" text,
    "output" bytea,
    "joined" boolean,
    "concurrency_key" text,
    "key_limit" integer,
    "key_policy" smallint,
    "key_rate" double precision,
    "key_burst" integer,
    "key_seq" bigint,
    -- Which times each status has. It is short because every statement that writes parses the checks anew: a row in
    -- progress has locked_until (1), a done one has completed_at, which counts twice (2), and a failed one has
    -- completed_at and failed_at (3). A ready row is not cancelled: no claim would end it.
    CONSTRAINT "jobs_state_check" CHECK (
        status = num_nonnulls(completed_at, completed_at, failed_at, locked_until)
        AND CASE WHEN completed_at IS NOT NULL THEN locked_until IS NULL
            ELSE failed_at IS NULL AND CASE WHEN locked_until IS NULL THEN cancelled_at IS NULL
                ELSE owner_token IS NOT NULL AND NOT waiting END
            END
    ),
    -- A Ready row without attempts left would fail every claim that finds it. A row in progress may be at its last
    -- attempt. The status is subtracted because a sum would overflow in a row whose maximum is the greatest integer.
    CONSTRAINT "jobs_attempts_check"
        CHECK (max_attempts > 0 AND attempts >= 0 AND attempts - status < max_attempts)
) WITH (
    fillfactor = 42,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);

COMMENT ON TABLE "{{schema}}"."jobs" IS 'txwork core 1';

CREATE INDEX "jobs_claim_idx" ON "{{schema}}"."jobs" ("queue", "priority", due_at, id)
    WHERE completed_at IS NULL AND NOT waiting;

CREATE INDEX "jobs_waiting_idx" ON "{{schema}}"."jobs" (id) WHERE completed_at IS NULL AND waiting;

CREATE INDEX "jobs_done_idx" ON "{{schema}}"."jobs" (completed_at)
    WHERE completed_at IS NOT NULL AND (failed_at IS NULL OR cancelled_at IS NOT NULL);

CREATE INDEX "jobs_failed_idx" ON "{{schema}}"."jobs" (failed_at, id) WHERE failed_at IS NOT NULL;

CREATE UNIQUE INDEX "jobs_unique_idx" ON "{{schema}}"."jobs"
    ("unique_key")
    WHERE "unique_key" IS NOT NULL;

-- Notifies workers, unless an announcer does so for this transaction. A trigger of another table, which no announcer
-- watches, passes an argument so that it always notifies.
--
-- No search_path is pinned; every name is qualified instead. Setting and resetting it would cost the server a tenth of
-- a transaction that inserts one row.
CREATE FUNCTION "{{schema}}"."jobs_announce"() RETURNS trigger
LANGUAGE plpgsql
AS $txwork$
BEGIN
    IF TG_NARGS OPERATOR(pg_catalog.>) 0 OR (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) ELSE false END)
        ELSE true END) THEN
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END);
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_announce"() FROM PUBLIC;

CREATE TRIGGER "jobs_announce" AFTER INSERT ON "{{schema}}"."jobs"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."jobs_announce"();

-- Ready -> InProgress for as many rows as the rule of a lane admits. It calls the domain's functions admit, starts and
-- permit before the claim and take after it, all in one call, so that a client cannot freeze in between. Every row
-- repeats the result of admit; if no row was claimed, one row has only that.
--
-- What these lock is locked until the claim commits, so a claim that got fewer than are free asks again soon.
-- take is called once, after the update is complete, with the ids of all its rows.
CREATE FUNCTION "{{schema}}"."jobs_claim_admitted"(
    owner_token uuid, lease interval, batch_size integer, after_due timestamptz[], after_id uuid[], "queue" text[], "priority" smallint[]
) RETURNS TABLE (admitted integer, again double precision, bounded boolean, claimed "{{schema}}"."jobs")
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
    rule record;
    starts bigint[];
    permits integer[];
    free integer;
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for every claim, and the claim''s for its rows.';
    END IF;
    IF ($2 BETWEEN interval '1 seconds' AND interval '86400 seconds') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'lease',
            MESSAGE = 'lease must be between 1 and 86400 seconds',
            HINT = 'Take a lease that a dead worker may hold its rows for, and extend it while they run.';
    END IF;
    IF ($3 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'batch_size',
            MESSAGE = 'batch_size must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF (($6)[1] = ALL ($6)) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'queue',
            MESSAGE = 'queue must be the same in all lanes of a claim',
            HINT = 'Claim from each queue by itself.';
    END IF;
    SELECT a.admitted, a.again, a.bounded INTO rule FROM "{{schema}}"."jobs_admit"($6[1], $3) AS a;
    IF rule.bounded AND rule.admitted > 0 THEN
        starts := "{{schema}}"."jobs_starts"($6[1], rule.admitted);
        free := least(rule.admitted, cardinality(array_remove(starts, NULL)));
        permits := "{{schema}}"."jobs_permit"($6[1], free);
        free := least(free, cardinality(array_remove(permits, NULL)));
        IF free < rule.admitted THEN
            rule.admitted := free;
            rule.again := 0.05;
        END IF;
    END IF;
    IF rule.admitted < 1 THEN
        RETURN QUERY SELECT 0, rule.again, rule.bounded, NULL::"{{schema}}"."jobs";
        RETURN;
    END IF;
    RETURN QUERY
    WITH changed AS (
UPDATE "{{schema}}"."jobs" AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = $1::uuid,
    locked_until = clock_timestamp() + $2::interval
WHERE t.ctid = ANY (ARRAY(
    SELECT c.ctid
    FROM unnest($4::timestamptz[], $5::uuid[], $6::text[], $7::smallint[])
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
        LIMIT least($3, rule.admitted)::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT least($3, rule.admitted)::int))
RETURNING t AS claimed
    ), taken AS MATERIALIZED (
        SELECT "{{schema}}"."jobs_take"($6[1], $1, array_agg((c.claimed).id), permits, starts)
        FROM changed AS c
        HAVING count(*) > 0 AND rule.bounded
    )
    SELECT rule.admitted, rule.again, rule.bounded, c.claimed
    FROM (SELECT count(*) FROM taken) AS t
    LEFT JOIN changed AS c ON true;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_claim_admitted"(
    uuid, interval, integer, timestamptz[], uuid[], text[], smallint[]
) FROM PUBLIC;

-- What {{schema}}.jobs_fetch returns: rows, and one end. A later version appends columns at the end.
CREATE TYPE "{{schema}}"."jobs_fetched" AS (
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
    "kind" text,
    "queue" text,
    "priority" smallint,
    "args" bytea,
    "schedule" text,
    "trail" boolean,
    "concurrency_key" text,
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
CREATE FUNCTION "{{schema}}"."jobs_fetch"(
    owner_token uuid,
    lease interval,
    n integer,
    "queue" text DEFAULT 'default',
    "priority" integer[] DEFAULT '{1,2,3}',
    cursor text DEFAULT NULL,
    heard text[] DEFAULT NULL,
    sweep boolean DEFAULT NULL
) RETURNS SETOF "{{schema}}"."jobs_fetched"
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
    lane1 text[];
    lane2 smallint[];
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
    result "{{schema}}"."jobs_fetched";
    began CONSTANT timestamptz := clock_timestamp();
    s record;
    taken tid[] := '{}';
    ids uuid[] := '{}';
    starts bigint[];
    permits integer[];
    want integer;
    is_short boolean := false; -- the lanes had no more rows
    start timestamptz[];
    start_id uuid[];
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
    IF ($4 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'queue',
            MESSAGE = 'queue must not be NULL',
            HINT = 'Name the lane to fetch from.';
    END IF;
    IF (1 * cardinality($5) BETWEEN 1 AND 64 AND array_position($5, NULL) IS NULL AND -32768 <= ALL ($5) AND 32767 >= ALL ($5)) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'priority',
            MESSAGE = 'priority must have values, none of them NULL, of at most 64 lanes and each a smallint',
            HINT = 'Pass the lanes to fetch from, the most urgent first.';
    END IF;
    IF ($7 IS NULL OR cardinality($7) <= 10000
        AND array_position($7, NULL) IS NULL) IS NOT TRUE THEN
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
    SELECT array_agg($4::text ORDER BY e2.ord),
        array_agg(e2.value::smallint ORDER BY e2.ord)
    INTO own.lane1, own.lane2
    FROM unnest($5) WITH ORDINALITY AS e2 (value, ord)
    WHERE array_position($5, e2.value) = e2.ord;
    place := array_fill('-infinity'::timestamptz, ARRAY[cardinality(own.lane1)]);
    place_id := array_fill(own.nobody, ARRAY[cardinality(own.lane1)]);

    digest := left(encode(sha256(convert_to(jsonb_build_array('{{schema}}.jobs', own.lane1, own.lane2)::text, 'UTF8')), 'hex'), 16);
    IF $6 IS NOT NULL THEN
        IF (octet_length($6) <= 8192 AND $6 ~ '^[0-9]{1,9} [0-9a-f]{16}( [^ ]+)*$') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'cursor',
            MESSAGE = 'cursor is not what an earlier call has returned',
            HINT = 'Pass the cursor of your last call that committed, or NULL to begin anew.';
    END IF;
        fields := string_to_array($6, ' ');
        IF own.fields[1] = '1' AND own.fields[2] = own.digest THEN
            IF ($6 ~ concat('^[0-9]+ [0-9a-f]{16} [0-9]{1,17} [0-9]{1,12} [01] [0-9]{1,6}( (-|-?[0-9]{1,17})/[0-9a-f]{32}){', cardinality(own.place), '}$')) IS NOT TRUE THEN
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
    is_sweep := coalesce($8, own.clock >= own.sweep_at OR own.sweep_at > own.clock + 60000000);
    IF $7 IS NOT NULL THEN
        SELECT 'epoch'::timestamptz + min(substring(h.payload FROM '^(?:fold:)?([0-9]{1,16})$')::bigint)
                * interval '1 microsecond',
            bool_or(starts_with(h.payload, 'front:'))
        INTO own.heard_at, own.fronts
        FROM unnest($7) AS h (payload);
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
                SELECT l.ord::integer AS ord, min((substr(h.payload, 7)::jsonb ->> left(encode(sha256(convert_to(jsonb_build_array(l.c2, l.c3)::text, 'UTF8')), 'hex'), 16))::timestamptz) AS due
                FROM unnest(own.lane1, own.lane2, own.place) WITH ORDINALITY
                    AS l (c2, c3, place, ord)
                CROSS JOIN unnest($7) AS h (payload)
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

    turn := (own.turn + 1) % 1000000;
    IF own.turn % 8 = 0 AND cardinality(own.place) > 1 THEN
        lead := cardinality(own.place) - own.turn / 8 % (cardinality(own.place) - 1);
        place := own.place[own.lead] || own.place[:own.lead - 1] || own.place[own.lead + 1:];
        place_id := own.place_id[own.lead] || own.place_id[:own.lead - 1] || own.place_id[own.lead + 1:];
        reached := own.reached[own.lead] || own.reached[:own.lead - 1] || own.reached[own.lead + 1:];
        reached_id := own.reached_id[own.lead] || own.reached_id[:own.lead - 1] || own.reached_id[own.lead + 1:];
        lane1 := own.lane1[own.lead] || own.lane1[:own.lead - 1] || own.lane1[own.lead + 1:];
        lane2 := own.lane2[own.lead] || own.lane2[:own.lead - 1] || own.lane2[own.lead + 1:];
    END IF;

    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), $2)))::bigint::text,
        true);
    SELECT a.admitted, a.again, a.bounded, a.held INTO own.rule
    FROM "{{schema}}"."jobs_admit"($4, $3) AS a;
    batch := least($3, own.rule.admitted);
    is_refused := own.batch < 1;
    IF own.rule.bounded AND NOT own.is_refused THEN
        -- The caller may stay in its transaction, so it must not keep starts and permits without rows. They are let go
        -- by the rollback of a subtransaction, and as many as there are rows are locked anew.
        want := own.batch;
        start := own.reached;
        start_id := own.reached_id;
        LOOP
            BEGIN
                starts := "{{schema}}"."jobs_starts"($4, own.want);
                batch := least(own.want, cardinality(array_remove(own.starts, NULL)));
                permits := "{{schema}}"."jobs_permit"($4, own.batch);
                batch := least(own.batch, cardinality(array_remove(own.permits, NULL)));
        FOR s IN
            SELECT c.ord, array_agg(c.ctid) AS rows, (array_agg(c.due_at))[count(*)] AS due_at,
                (array_agg(c.id))[count(*)] AS id, array_agg(c.id) AS ids
            FROM (
SELECT c.ctid, l.ord::integer AS ord, c.due_at, c.id
    FROM unnest(own.reached::timestamptz[], own.reached_id::uuid[], own.lane1::text[], own.lane2::smallint[])
        WITH ORDINALITY AS l (after_due, after_id, c2, c3, ord)
    CROSS JOIN LATERAL (
        SELECT r.ctid, r.due_at, r.id
        FROM "{{schema}}"."jobs" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= own.began
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
          AND r."queue" = l.c2
          AND r."priority" = l.c3
        ORDER BY r."queue", r."priority", r.due_at, r.id
        LIMIT own.batch::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT own.batch::int) AS c
            GROUP BY c.ord
        LOOP
            taken := own.taken || own.s.rows;
            ids := own.ids || own.s.ids;
            reached[own.s.ord] := own.s.due_at;
            reached_id[own.s.ord] := own.s.id;
        END LOOP;
                EXIT WHEN (greatest(cardinality(own.starts), cardinality(own.permits)) > cardinality(own.ids))
                    IS NOT TRUE;
                RAISE SQLSTATE 'TXP01';
            EXCEPTION WHEN SQLSTATE 'TXP01' THEN
                is_short := own.is_short OR cardinality(own.ids) < own.batch;
                want := cardinality(own.ids);
                taken := '{}';
                ids := '{}';
                reached := own.start;
                reached_id := own.start_id;
            END;
        END LOOP;
        IF own.batch < own.want OR own.batch = 0 AND NOT own.is_short THEN -- others have them
            is_refused := own.batch = 0;
            rule.held := 'busy';
            rule.again := 0.05;
        END IF;
    ELSIF NOT own.is_refused THEN
        FOR s IN
            SELECT c.ord, array_agg(c.ctid) AS rows, (array_agg(c.due_at))[count(*)] AS due_at,
                (array_agg(c.id))[count(*)] AS id, array_agg(c.id) AS ids
            FROM (
SELECT c.ctid, l.ord::integer AS ord, c.due_at, c.id
    FROM unnest(own.reached::timestamptz[], own.reached_id::uuid[], own.lane1::text[], own.lane2::smallint[])
        WITH ORDINALITY AS l (after_due, after_id, c2, c3, ord)
    CROSS JOIN LATERAL (
        SELECT r.ctid, r.due_at, r.id
        FROM "{{schema}}"."jobs" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= own.began
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
          AND r."queue" = l.c2
          AND r."priority" = l.c3
        ORDER BY r."queue", r."priority", r.due_at, r.id
        LIMIT own.batch::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT own.batch::int) AS c
            GROUP BY c.ord
        LOOP
            taken := own.taken || own.s.rows;
            ids := own.ids || own.s.ids;
            reached[own.s.ord] := own.s.due_at;
            reached_id[own.s.ord] := own.s.id;
        END LOOP;
    END IF;
    got := cardinality(own.taken);
    is_full := own.got >= greatest(own.batch, 1) AND NOT own.is_short;

    IF own.got > 0 THEN
        RETURN QUERY
        WITH changed AS (
UPDATE "{{schema}}"."jobs" AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = $1::uuid,
    locked_until = clock_timestamp() + $2::interval
WHERE t.ctid = ANY (own.taken)
RETURNING t.*
        )
        SELECT 'row', (row_number() OVER ())::integer, c.id, c.locked_until::timestamptz, c.due_at::timestamptz,
            c.created_at::timestamptz, c.attempts, c.max_attempts, coalesce(pg_catalog."substring"(c.headers OPERATOR(pg_catalog.->>) 'txwork-lost-together', '^[0-9]{1,4}$')::bigint, 0)::integer, c.headers,
            c."kind"::text,
            c."queue"::text,
            c."priority"::smallint,
            c."args",
            c."schedule",
            c."trail",
            c."concurrency_key",
            NULL::double precision, NULL::boolean, NULL, NULL
        FROM (
            SELECT c.*
            FROM changed AS c
            JOIN unnest(own.lane1, own.lane2) WITH ORDINALITY
                AS l (c2, c3, ord)
                ON c."queue" = l.c2 AND c."priority" = l.c3
            ORDER BY l.ord, c.due_at, c.id) AS c;
        GET DIAGNOSTICS returned = ROW_COUNT;
        IF own.returned <> own.got THEN
            RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
                MESSAGE = format('%s of %s rows were not claimed', own.got - own.returned, own.got),
                HINT = 'A trigger of the table suppresses updates: it has to let claims pass.';
        END IF;
        IF own.rule.bounded THEN
            PERFORM "{{schema}}"."jobs_take"($4, $1, own.ids, own.permits, own.starts);
        END IF;
    END IF;

    FOR i IN 1..cardinality(own.place) LOOP
        IF own.reached[i] <> '-infinity' THEN
            place[i] := own.reached[i];
            place_id[i] := own.reached_id[i];
        END IF;
    END LOOP;
    IF own.lead > 1 THEN
        place := own.place[2:own.lead] || own.place[1] || own.place[own.lead + 1:];
        place_id := own.place_id[2:own.lead] || own.place_id[1] || own.place_id[own.lead + 1:];
    END IF;
    IF NOT own.is_refused THEN
        unswept := (NOT own.is_sweep OR own.is_full)::integer;
    END IF;
    result.entry := 'end';
    result.more := own.is_full AND NOT own.is_refused;
    IF own.rule.held IS NOT NULL THEN
        result.held := own.rule.held;
        result.more := false;
    END IF;
    IF NOT own.is_refused AND NOT own.result.more THEN
        SELECT d.seconds INTO own.due_in
        FROM (
SELECT own.began AS asked_at, extract(epoch FROM min(d.due_at) - clock_timestamp())::float8 AS seconds,
    min(d.due_at) AS due_at
FROM unnest(own.lane1::text[], own.lane2::smallint[])
    AS l (c2, c3)
CROSS JOIN LATERAL (
    SELECT r.due_at
    FROM "{{schema}}"."jobs" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 0
      AND r.due_at > least(own.began::timestamptz, own.began)
      AND r."queue" = l.c2
      AND r."priority" = l.c3
    ORDER BY r."queue", r."priority", r.due_at, r.id
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
                THEN greatest((own.sweep_at - own.clock) / 1000000.0, 0.25) END,
            CASE WHEN own.rule.again > 0 THEN own.rule.again WHEN own.rule.held = 'limit' THEN 1 END);
    END IF;
    result.cursor := concat_ws(' ', '1', own.digest, own.sweep_at, own.sweep_took, own.unswept,
        own.turn, (
        SELECT string_agg(concat(CASE WHEN u.due = '-infinity' THEN '-'
            ELSE (extract(epoch FROM u.due) * 1000000)::bigint::text END, '/', replace(u.id::text, '-', '')), ' ' ORDER BY u.ord)
        FROM unnest(own.place, own.place_id) WITH ORDINALITY AS u (due, id, ord)));
    RETURN NEXT own.result;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_fetch"(uuid, interval, integer, text, integer[], text, text[], boolean) FROM PUBLIC;

-- Settles rows with one outcome, in the order of their ids, which are sorted and of which none is repeated. It returns
-- the result of each row that did not become what is usual, see settle_one.sql. All settles of the other functions are
-- made here, so each statement is there once. With strict, ids that the claim does not hold are an error.
CREATE FUNCTION "{{schema}}"."jobs_settle_rows"(outcome text, ids uuid[], tokens uuid[], delays bigint[], times timestamptz[], errors text[], strict boolean) RETURNS jsonb
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
UPDATE "{{schema}}"."jobs" AS t
SET status = 2,
    completed_at = clock_timestamp(),
    locked_until = NULL,
    "unique_key" = CASE WHEN t."unique_states" & 4 > 0 THEN t."unique_key" END
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
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
        ELSE
        WITH settled AS (
UPDATE "{{schema}}"."jobs" AS t
SET status = 2,
    completed_at = clock_timestamp(),
    locked_until = NULL,
    "unique_key" = CASE WHEN t."unique_states" & 4 > 0 THEN t."unique_key" END
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
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
        END IF;
    WHEN 'retry' THEN
        WITH settled AS (
UPDATE "{{schema}}"."jobs" AS t
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
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'snooze' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."jobs" AS t
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
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'wait_until' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."jobs" AS t
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
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'leave' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."jobs" AS t
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
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled, t."queue" AS rule, s.token AS owner
), given AS MATERIALIZED (
    SELECT "{{schema}}"."jobs_give_start"(changed.rule, changed.owner, array_agg(changed.id)) FROM changed
    GROUP BY changed.rule, changed.owner
), settled AS (
SELECT changed.id, changed.status, changed.cancelled FROM changed, (SELECT count(*) FROM given) AS given)
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
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'release' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."jobs" AS t
    SET status = CASE WHEN t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    completed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END
    FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
    WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled, t."queue" AS rule, s.token AS owner,
        CASE WHEN t.status = 0 THEN t.due_at END AS back
), told AS MATERIALIZED (
    SELECT FROM changed
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
), given AS MATERIALIZED (
    SELECT "{{schema}}"."jobs_give_start"(changed.rule, changed.owner, array_agg(changed.id)) FROM changed
    GROUP BY changed.rule, changed.owner
), settled AS (
SELECT changed.id, changed.status, changed.cancelled FROM changed, told, (SELECT count(*) FROM given) AS given)
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
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'fail' THEN
        WITH settled AS (
UPDATE "{{schema}}"."jobs" AS t
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
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'cancel' THEN
        WITH settled AS (
UPDATE "{{schema}}"."jobs" AS t
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
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'unavailable' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."jobs" AS t
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
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
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

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_settle_rows"(text, uuid[], uuid[], bigint[], timestamptz[], text[], boolean) FROM PUBLIC;

-- Settles rows with an outcome for each, kind by kind. It tells what each row became: see settle_one.sql. What an
-- element says is checked before anything is written or locked.
CREATE FUNCTION "{{schema}}"."jobs_settle"(outcomes jsonb, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
                || "{{schema}}"."jobs_settle_rows"(own.kind, own.sorted, own.tokens, own.delays, own.times, own.errors, false);
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

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_settle"(jsonb, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."jobs_ack"(owner_token uuid, ids uuid[], strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."jobs_settle_rows"('ack', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, NULL, $3);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'done')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_ack"(uuid, uuid[], boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."jobs_retry"(owner_token uuid, ids uuid[], delay interval DEFAULT NULL, error text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."jobs_settle_rows"('retry', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        array_fill((extract(epoch FROM $3) * 1000000)::bigint, ARRAY[cardinality(own.sorted)]), NULL, array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_retry"(uuid, uuid[], interval, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."jobs_snooze"(owner_token uuid, ids uuid[], delay interval, reason text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."jobs_settle_rows"('snooze', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        array_fill((extract(epoch FROM $3) * 1000000)::bigint, ARRAY[cardinality(own.sorted)]), NULL, array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_snooze"(uuid, uuid[], interval, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."jobs_wait_until"(owner_token uuid, ids uuid[], at timestamptz, reason text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."jobs_settle_rows"('wait_until', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, array_fill($3, ARRAY[cardinality(own.sorted)]), array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_wait_until"(uuid, uuid[], timestamptz, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."jobs_release"(owner_token uuid, ids uuid[], strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."jobs_settle_rows"('release', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, NULL, $3);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_release"(uuid, uuid[], boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."jobs_fail"(owner_token uuid, ids uuid[], error text, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."jobs_settle_rows"('fail', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, array_fill($3, ARRAY[cardinality(own.sorted)]), $4);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'failed')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_fail"(uuid, uuid[], text, boolean) FROM PUBLIC;

-- Renews leases, and tells of each row whether that was done: extended; cancelled, which is extended, too, but a cancel
-- has been asked for; busy if another transaction has the row locked, such as its own settle; lost or gone.
CREATE FUNCTION "{{schema}}"."jobs_extend"(owner_token uuid, ids uuid[], lease interval, within interval DEFAULT NULL) RETURNS TABLE (place integer, id uuid, result text, locked_until timestamptz)
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
UPDATE "{{schema}}"."jobs" AS t
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
    JOIN "{{schema}}"."jobs" AS r ON r.id = h.id
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
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = ANY (own.sorted::uuid[]) AND t.id = s.id) AS k;
        END IF;
    RETURN QUERY
    SELECT u.place::integer, u.id, u.result, CASE WHEN u.result IN ('extended', 'cancelled') THEN own.until END
    FROM (
        SELECT v.place, v.id, coalesce(own.answers ->> v.id::text, 'extended') AS result
        FROM unnest($2) WITH ORDINALITY AS v (id, place)) AS u;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_extend"(uuid, uuid[], interval, interval) FROM PUBLIC;

-- The ack of one row in the transaction of its effects: an error unless the claim holds the row, so that the effects
-- are rolled back, too. A repetition is one: what an earlier transaction did with this token has its effects.
CREATE FUNCTION "{{schema}}"."jobs_complete"(owner_token uuid, id uuid) RETURNS void
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
    SELECT a.result INTO told FROM "{{schema}}"."jobs_ack"($1, ARRAY[$2]) AS a;
    IF told IS DISTINCT FROM 'done' THEN
        RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'id',
            MESSAGE = format('id is of a row that the claim does not hold: %s is %s', $2, told),
            HINT = 'Roll back: another worker has such a row, or it has ended.';
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_complete"(uuid, uuid) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_reap_expired"(max_rows integer DEFAULT 1000) RETURNS TABLE (requeued integer, failed integer, cancelled integer, dead_letters jsonb)
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
    FROM "{{schema}}"."jobs" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND r.locked_until < now()
    ORDER BY r."queue", r."priority", r.due_at, r.id
    LIMIT $1::int
    FOR NO KEY UPDATE SKIP LOCKED
), beside AS MATERIALIZED (
    SELECT r.ctid, substring(uuid_send(r.owner_token) FROM 1 FOR 6) AS process
    FROM "{{schema}}"."jobs" AS r
    WHERE EXISTS (SELECT FROM taken)
      AND r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND substring(uuid_send(r.owner_token) FROM 1 FOR 6) = ANY (ARRAY(SELECT k.process FROM taken AS k))
      AND r.id <> ALL (ARRAY(SELECT k.id FROM taken AS k))
), left_alone AS (
    UPDATE "{{schema}}"."jobs" AS t
    SET headers = coalesce(t.headers, '{}'::jsonb)
        || jsonb_build_object('txwork-lost-beside', t.owner_token::text)
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM "{{schema}}"."jobs" AS r
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
    UPDATE "{{schema}}"."jobs" AS t
    SET status = CASE WHEN NOT l.returned AND (t.attempts >= t.max_attempts OR NOT l.shared AND 1 + l.alone >= 10 AND t.max_attempts = 30) OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN NOT l.returned AND (t.attempts >= t.max_attempts OR NOT l.shared AND 1 + l.alone >= 10 AND t.max_attempts = 30) OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE greatest(clock_timestamp(), t.locked_until + CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 900000000) * (1 - 0.2 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN NOT l.returned AND (t.attempts >= t.max_attempts OR NOT l.shared AND 1 + l.alone >= 10 AND t.max_attempts = 30) OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN NOT l.returned AND (t.attempts >= t.max_attempts OR NOT l.shared AND 1 + l.alone >= 10 AND t.max_attempts = 30) OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
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
        'labels', jsonb_build_array(t."kind", t."queue")) END AS dead_letter
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled,
       jsonb_agg(changed.dead_letter) FILTER (WHERE changed.dead_letter IS NOT NULL) AS dead_letters
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_reap_expired"(integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_stats"() RETURNS TABLE (ready bigint, scheduled bigint, in_progress bigint, expired bigint, waiting bigint, failed bigint, cancelled bigint, oldest_ready_seconds double precision, partial boolean)
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
       (SELECT count(*) FROM "{{schema}}"."jobs" AS w WHERE w.completed_at IS NULL AND w.waiting) AS waiting,
       (SELECT count(*) FROM "{{schema}}"."jobs" AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NULL) AS failed,
       (SELECT count(*) FROM "{{schema}}"."jobs" AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NOT NULL) AS cancelled,
       coalesce(extract(epoch FROM now() - min(r.due_at) FILTER (WHERE r.status = 0 AND r.due_at <= now())), 0)::float8
           AS oldest_ready_seconds,
       row_security_active('"{{schema}}"."jobs"'::regclass) AS partial
FROM "{{schema}}"."jobs" AS r
WHERE r.completed_at IS NULL AND NOT r.waiting;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_stats"() FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_run_now"(ids uuid[]) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."jobs" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."jobs" AS t
    SET due_at = now()::timestamptz
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 0
      AND (t.due_at > now()::timestamptz OR t.due_at < now()::timestamptz AND NOT true::boolean)
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_run_now"(uuid[]) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_reschedule"(ids uuid[], at timestamptz) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."jobs" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."jobs" AS t
    SET due_at = $2::timestamptz
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 0
      AND (t.due_at > $2::timestamptz OR t.due_at < $2::timestamptz AND NOT false::boolean)
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_reschedule"(uuid[], timestamptz) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_redrive"(ids uuid[], actor text DEFAULT NULL) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."jobs" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."jobs" AS t
    SET status = 0,
        waiting = t."concurrency_key" IS NOT NULL,
        "unique_key" = coalesce(t."unique_key", t."freed_key"),
        "freed_key" = NULL,
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
      AND (t."freed_key" IS NULL OR t.id IN (
            SELECT DISTINCT ON (f."freed_key") f.id
            FROM "{{schema}}"."jobs" AS f
            WHERE f.id = ANY ($1::uuid[]) AND f.status = 3 AND f."freed_key" IS NOT NULL
              AND (SELECT h.id FROM "{{schema}}"."jobs" AS h WHERE h."unique_key" = f."freed_key") IS NULL
            ORDER BY f."freed_key", f.failed_at, f.id))
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
       CASE WHEN t.id IS NULL THEN 'gone' WHEN n.changed THEN CASE WHEN t."concurrency_key" IS NOT NULL THEN 'waiting' ELSE 'ready' END ELSE CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END,
       CASE WHEN n.changed THEN NULL WHEN t.id IS NULL THEN 'there is no such row'
           WHEN t.status = 3 THEN coalesce('row ' || (SELECT h.id FROM "{{schema}}"."jobs" AS h WHERE h."unique_key" = t."freed_key") || ' holds its unique key', 'another of these rows takes its unique key') ELSE 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END
FROM named AS n
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_redrive"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_cancel"(ids uuid[], reason text) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."jobs" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."jobs" AS t
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
    HAVING CASE WHEN bool_or(changed.status = 1) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', 'cancel') ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END
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
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_cancel"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_discard"(ids uuid[], reason text) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."jobs" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH hit AS (
UPDATE "{{schema}}"."jobs" AS t
SET cancelled_at = clock_timestamp(),
    key_policy = CASE WHEN t.key_policy > 0 THEN 0 ELSE t.key_policy END,
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
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_discard"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_delete"(ids uuid[]) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."jobs" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR UPDATE;
    RETURN QUERY
WITH hit AS (
DELETE FROM "{{schema}}"."jobs" AS t
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
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_delete"(uuid[]) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_unblock"(ids uuid[]) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."jobs" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH hit AS (
UPDATE "{{schema}}"."jobs" AS t SET key_policy = 0
WHERE t.id = ANY ($1::uuid[]) AND t.failed_at IS NOT NULL AND t.key_policy > 0
RETURNING t.id
), named AS (
    SELECT s.id, s.place, bool_or(s.place IS NULL) OVER (PARTITION BY s.id) AS changed
    FROM (
        SELECT u.id, u.place FROM unnest($1) WITH ORDINALITY AS u (id, place)
        UNION ALL SELECT h.id, NULL FROM hit AS h
    ) AS s
)
SELECT n.place::integer, n.id, n.changed,
       CASE WHEN t.id IS NULL THEN 'gone' WHEN n.changed THEN CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END ELSE CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END,
       CASE WHEN n.changed THEN NULL WHEN t.id IS NULL THEN 'there is no such row'
           WHEN t.status = 3 AND t.key_policy = 0 THEN 'the rows of its key do not wait for it'
           WHEN t.status = 3 THEN 'it has no ordered key' ELSE 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END
FROM named AS n
LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_unblock"(uuid[]) FROM PUBLIC;

-- Nothing -> Ready, in the caller's transaction: one row, as Table.Insert writes it, for programs in any language. It
-- runs with its caller's rights, so the rights on the table's columns and row-level security apply as to an INSERT.
--
-- An id that is not given is a UUID version 7, so that keys grow with time. For a row with unique values that are
-- taken, it returns the row that is there. If that is deleted meanwhile, the values are free, and it tries again.
--
-- #variable_conflict: the names in ON CONFLICT are columns. Parameters are written as $1, $2, ....
CREATE FUNCTION "{{schema}}"."jobs_enqueue"(
    "kind" text,
    "args" bytea,
    "queue" text DEFAULT 'default',
    "priority" integer DEFAULT 2,
    "unique_key" text DEFAULT NULL,
    "unique_while" text[] DEFAULT '{}',
    "ordered_key" text DEFAULT NULL,
    "on_failure" text DEFAULT 'block',
    "limited_key" text DEFAULT NULL,
    "max_running" integer DEFAULT NULL,
    "rate" double precision DEFAULT NULL,
    "burst" integer DEFAULT NULL,
    "scheduled_at" timestamptz DEFAULT NULL,
    "headers" jsonb DEFAULT NULL,
    "max_attempts" integer DEFAULT NULL,
    INOUT "id" uuid DEFAULT NULL,
    "unique_fields" jsonb DEFAULT NULL,
    "unique_until" text DEFAULT 'end',
    "on_conflict" text DEFAULT 'keep',
    OUT duplicate boolean,
    OUT "replaced" boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $txwork$
#variable_conflict use_column
DECLARE
    own CONSTANT uuid := coalesce($16, encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid);
BEGIN
    IF ($14 IS NULL OR jsonb_typeof($14) = 'object') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'headers',
            MESSAGE = 'headers must be a JSON object',
            HINT = 'Give an object of texts, or NULL for none.';
    END IF;
    IF ($13 IS NULL OR $13 BETWEEN '1970-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'scheduled_at',
            MESSAGE = 'scheduled_at must be between 1970 and 9999',
            HINT = 'NULL and a time in the past mean now.';
    END IF;
    IF ($15 IS NULL OR $15 BETWEEN 1 AND 1000000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_attempts',
            MESSAGE = 'max_attempts must be between 1 and 1000000',
            HINT = 'NULL is the table''s own.';
    END IF;
    IF ($8 IN ('block', 'park', 'skip')) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'on_failure',
            MESSAGE = 'on_failure must be block, park or skip',
            HINT = 'Leave it out for block.';
    END IF;
    IF ($7 IS NULL OR $9 IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'limited_key',
            MESSAGE = 'limited_key must be NULL beside an ordered_key',
            HINT = 'Give one of the two.';
    END IF;
    IF ($7 IS NULL OR octet_length($7) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ordered_key',
            MESSAGE = 'ordered_key must have 1 to 255 bytes',
            HINT = 'NULL is a row whose order does not matter.';
    END IF;
    IF ($9 IS NULL OR octet_length($9) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'limited_key',
            MESSAGE = 'limited_key must have 1 to 255 bytes',
            HINT = 'NULL is a row without a limit.';
    END IF;
    IF ($9 IS NOT NULL OR num_nonnulls($10, $11, $12) = 0) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'limited_key',
            MESSAGE = 'limited_key must be given with max_running, rate and burst',
            HINT = 'Give a limited_key, or none of the three.';
    END IF;
    IF ($9 IS NULL OR num_nonnulls($10, $11) > 0) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'limited_key',
            MESSAGE = 'limited_key needs max_running or rate',
            HINT = 'Give one or both of them.';
    END IF;
    IF ($10 IS NULL OR $10 >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_running',
            MESSAGE = 'max_running must be at least 1',
            HINT = 'To stop the rows of a key, set them to a later time.';
    END IF;
    IF ($11 IS NULL OR $11 BETWEEN 1e-09 AND 1e+09) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rate',
            MESSAGE = 'rate must be between 1e-09 and 1e+09',
            HINT = 'Give starts a second; NULL is no limit.';
    END IF;
    IF ($12 IS NULL OR $11 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'burst',
            MESSAGE = 'burst needs a rate',
            HINT = 'Give a rate, or no burst.';
    END IF;
    IF ($12 IS NULL OR $12 >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'burst',
            MESSAGE = 'burst must be at least 1',
            HINT = 'NULL is the starts of one second.';
    END IF;
    IF (octet_length($1) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'kind',
            MESSAGE = 'kind must have 1 to 255 bytes, and must not be NULL',
            HINT = 'Such a row could not be stored.';
    END IF;
    IF (octet_length($3) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'queue',
            MESSAGE = 'queue must have 1 to 255 bytes, and must not be NULL',
            HINT = 'Such a row could not be stored.';
    END IF;
    IF ($4 BETWEEN 1 AND 3) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'priority',
            MESSAGE = 'priority must be 1 to 3, and must not be NULL',
            HINT = 'Such a row could not be stored.';
    END IF;
    IF (octet_length($2) <= 1048576) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'args',
            MESSAGE = 'args must have at most 1048576 bytes, and must not be NULL',
            HINT = 'Such a row could not be stored.';
    END IF;
    IF ($5 IS NULL OR octet_length($5) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'unique_key',
            MESSAGE = 'unique_key must have 1 to 255 bytes',
            HINT = 'NULL is a job that is not unique.';
    END IF;
    IF (num_nonnulls($5, $17) = 0 OR strpos($1, chr(31)) = 0) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'kind',
            MESSAGE = 'kind must not have the character U+001F, which ends the kind in the key of a unique job',
            HINT = 'Take another kind.';
    END IF;
    IF ($6 <@ ARRAY['done', 'failed']) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'unique_while',
            MESSAGE = 'unique_while may have done and failed',
            HINT = 'An empty array has the key free once the job has ended.';
    END IF;
    IF $14 IS NOT NULL THEN
    IF ((SELECT coalesce(sum(octet_length(h.name) + coalesce(octet_length(h.value), 0)), 0) FROM jsonb_each_text($14) AS h (name, value)) <= 65536) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'headers',
            MESSAGE = 'headers must have at most 65536 bytes',
            HINT = 'Put what is larger into the payload.';
    END IF;
    END IF;
    replaced := false;
    IF num_nonnulls($5, $17) = 0 THEN
    IF ($18 = 'end' AND $19 = 'keep' AND cardinality($6) = 0) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'unique_key',
            MESSAGE = 'unique_key or unique_fields must be given beside unique_while, unique_until and on_conflict',
            HINT = 'Give one, or leave these out.';
    END IF;
    ELSE
    IF (num_nonnulls($5, $17) = 1) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'unique_fields',
            MESSAGE = 'unique_fields must not be given beside unique_key',
            HINT = 'Give one of them.';
    END IF;
    IF ($18 IN ('end', 'start', 'start_in_turn')) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'unique_until',
            MESSAGE = 'unique_until must be end, start or start_in_turn',
            HINT = 'Give one of them, or leave it out.';
    END IF;
    IF ($19 IN ('keep', 'replace', 'reject')) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'on_conflict',
            MESSAGE = 'on_conflict must be keep, replace or reject',
            HINT = 'Give one of them, or leave it out.';
    END IF;
    IF ($18 = 'end' OR cardinality($6) = 0) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'unique_while',
            MESSAGE = 'unique_while must be empty beside unique_until, by which the key is free before the job ends',
            HINT = 'Leave one of them out.';
    END IF;
    IF ($18 <> 'start_in_turn' OR num_nonnulls($7, $9) = 0) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'unique_until',
            MESSAGE = 'unique_until must not be start_in_turn for a job with ordered_key or limited_key, since it sets these',
            HINT = 'Use start for a job with a key of its own.';
    END IF;
        $5 := CASE WHEN $5 IS NULL THEN concat('f:', $1, chr(31), "{{schema}}"."jobs_unique_hash"($17))
            ELSE concat('u:', $1, chr(31), $5) END;
        IF $18 = 'start_in_turn' THEN
            $7 := 'unique/' || translate(encode(sha256(convert_to($5, 'UTF8')), 'base64'), '+/=', '-_');
            $8 := 'skip';
        END IF;
    END IF;
    IF (coalesce($7, $9)) IS NOT NULL THEN
        PERFORM WHERE CASE WHEN pg_catalog.texteq(pg_catalog.current_setting('session_replication_role'), 'replica') THEN pg_catalog.concat('txwork refuses the session: session_replication_role is ', pg_catalog.current_setting('session_replication_role'))::int END IS NULL;
    END IF;
    duplicate := false;
    IF NOT (($5) IS NOT NULL) THEN
        id := own;
        INSERT INTO "{{schema}}"."jobs" (id, due_at, max_attempts, headers, "kind", "queue", "priority", "args", "unique_key", "unique_states", "concurrency_key", "key_limit", "key_policy", "key_rate", "key_burst")
        VALUES (id,
            greatest($13, now()),
            coalesce($15, 30),
            nullif($14 - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent'], '{}'),
            $1,
            $3,
            $4::smallint,
            $2,
            $5,
            CASE WHEN $5 IS NOT NULL THEN nullif(CASE WHEN 'done' = ANY ($6) THEN 4 ELSE 0 END + CASE WHEN 'failed' = ANY ($6) THEN 8 ELSE 0 END + CASE WHEN $18 = 'end' THEN 0 ELSE 2 END, 0) END,
            coalesce($7, $9),
            CASE WHEN $7 IS NOT NULL THEN 0 WHEN $9 IS NOT NULL THEN coalesce($10, 2147483647) END,
            CASE WHEN $7 IS NOT NULL THEN CASE $8 WHEN 'block' THEN 1 WHEN 'park' THEN 2 WHEN 'skip' THEN 0 END WHEN $9 IS NOT NULL THEN 0 END,
            $11,
            CASE WHEN $11 IS NOT NULL THEN coalesce($12, greatest(1, ceil(least($11, 2147483647)))::integer) END);
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
                MESSAGE = '{{schema}}.jobs took a row and stored none: does a trigger, a rule or a policy of the '
                    'table suppress it, or hide the row that has its unique values?';
        END IF;
        RETURN;
    END IF;
    FOR attempt IN 1..10 LOOP
        id := own;
        INSERT INTO "{{schema}}"."jobs" (id, due_at, max_attempts, headers, "kind", "queue", "priority", "args", "unique_key", "unique_states", "concurrency_key", "key_limit", "key_policy", "key_rate", "key_burst")
        VALUES (id,
            greatest($13, now()),
            coalesce($15, 30),
            nullif($14 - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent'], '{}'),
            $1,
            $3,
            $4::smallint,
            $2,
            $5,
            CASE WHEN $5 IS NOT NULL THEN nullif(CASE WHEN 'done' = ANY ($6) THEN 4 ELSE 0 END + CASE WHEN 'failed' = ANY ($6) THEN 8 ELSE 0 END + CASE WHEN $18 = 'end' THEN 0 ELSE 2 END, 0) END,
            coalesce($7, $9),
            CASE WHEN $7 IS NOT NULL THEN 0 WHEN $9 IS NOT NULL THEN coalesce($10, 2147483647) END,
            CASE WHEN $7 IS NOT NULL THEN CASE $8 WHEN 'block' THEN 1 WHEN 'park' THEN 2 WHEN 'skip' THEN 0 END WHEN $9 IS NOT NULL THEN 0 END,
            $11,
            CASE WHEN $11 IS NOT NULL THEN coalesce($12, greatest(1, ceil(least($11, 2147483647)))::integer) END)
        ON CONFLICT ("unique_key")
            WHERE "unique_key" IS NOT NULL DO NOTHING;
        IF FOUND THEN
            RETURN;
        END IF;
        SELECT t.id INTO id
        FROM "{{schema}}"."jobs" AS t
        WHERE t."unique_key" = ($5);
        IF FOUND THEN
            duplicate := true;
            IF $19 = 'reject' THEN
                RAISE EXCEPTION USING ERRCODE = 'unique_violation', COLUMN = 'unique_key',
                    MESSAGE = format('unique_key is held by job %s', "jobs_enqueue".id),
                    HINT = 'Roll back, or use another on_conflict.';
            ELSIF $19 = 'replace' THEN
WITH locked AS MATERIALIZED (
    SELECT t.id FROM "{{schema}}"."jobs" AS t WHERE t.id = ANY (ARRAY["jobs_enqueue".id]::uuid[]) ORDER BY t.id FOR NO KEY UPDATE
), changed AS (
    UPDATE "{{schema}}"."jobs" AS t
    SET args = s.args,
        queue = s.queue,
        priority = s.priority,
        due_at = greatest(s.due_at, now()),
        headers = s.headers::jsonb,
        max_attempts = coalesce(s.max_attempts, 30),
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
    FROM ROWS FROM (unnest(ARRAY["jobs_enqueue".id]::uuid[]), unnest(ARRAY[($5)]::text[]), unnest(ARRAY[($2)]::bytea[]), unnest(ARRAY[($4::smallint)]::bigint[]),
            unnest(ARRAY[(greatest($13, now()))]::timestamptz[]), unnest(ARRAY[(nullif($14 - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent'], '{}'))]::text[]), unnest(ARRAY[(coalesce($15, 30))]::bigint[]), unnest(ARRAY[NULL]::text[]),
            unnest(ARRAY[(CASE WHEN $5 IS NOT NULL THEN nullif(CASE WHEN 'done' = ANY ($6) THEN 4 ELSE 0 END + CASE WHEN 'failed' = ANY ($6) THEN 8 ELSE 0 END + CASE WHEN $18 = 'end' THEN 0 ELSE 2 END, 0) END)]::bigint[]), unnest(ARRAY[($3)]::text[]), unnest(ARRAY[NULL]::text[]), unnest(ARRAY[(coalesce($7, $9))]::text[]), unnest(ARRAY[(CASE WHEN $7 IS NOT NULL THEN 0 WHEN $9 IS NOT NULL THEN coalesce($10, 2147483647) END)]::bigint[]),
            unnest(ARRAY[(CASE WHEN $7 IS NOT NULL THEN CASE $8 WHEN 'block' THEN 1 WHEN 'park' THEN 2 WHEN 'skip' THEN 0 END WHEN $9 IS NOT NULL THEN 0 END)]::bigint[]), unnest(ARRAY[($11)]::double precision[]), unnest(ARRAY[(CASE WHEN $11 IS NOT NULL THEN coalesce($12, greatest(1, ceil(least($11, 2147483647)))::integer) END)]::bigint[]),
            generate_subscripts('{}'::int[], 1))
        AS s (id, unique_key, args, priority, due_at, headers, max_attempts, retry, unique_states, queue, schedule,
            concurrency_key, key_limit, key_policy, key_rate, key_burst)
    WHERE t.id = ANY (ARRAY(SELECT l.id FROM locked AS l)) AND t.id = s.id AND t.unique_key = s.unique_key
      AND coalesce(t.status = 0, false)
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
)
SELECT true FROM told
                INTO replaced;
                replaced := FOUND;
            END IF;
            RETURN;
        END IF;
    END LOOP;
            RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
                MESSAGE = '{{schema}}.jobs took a row and stored none: does a trigger, a rule or a policy of the '
                    'table suppress it, or hide the row that has its unique values?';
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_enqueue"(text, bytea, text, integer, text, text[], text, text, text, integer, double precision, integer, timestamptz, jsonb, integer, uuid, jsonb, text, text) FROM PUBLIC;

-- The same for a payload of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."jobs_enqueue"(
    "kind" text,
    "args" text,
    "queue" text DEFAULT 'default',
    "priority" integer DEFAULT 2,
    "unique_key" text DEFAULT NULL,
    "unique_while" text[] DEFAULT '{}',
    "ordered_key" text DEFAULT NULL,
    "on_failure" text DEFAULT 'block',
    "limited_key" text DEFAULT NULL,
    "max_running" integer DEFAULT NULL,
    "rate" double precision DEFAULT NULL,
    "burst" integer DEFAULT NULL,
    "scheduled_at" timestamptz DEFAULT NULL,
    "headers" jsonb DEFAULT NULL,
    "max_attempts" integer DEFAULT NULL,
    INOUT "id" uuid DEFAULT NULL,
    "unique_fields" jsonb DEFAULT NULL,
    "unique_until" text DEFAULT 'end',
    "on_conflict" text DEFAULT 'keep',
    OUT duplicate boolean,
    OUT "replaced" boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    SELECT w.id, w.duplicate, w."replaced"
    INTO id, duplicate, "replaced"
    FROM "{{schema}}"."jobs_enqueue"($1, convert_to($2, 'UTF8'), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) AS w;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_enqueue"(text, text, text, integer, text, text[], text, text, text, integer, double precision, integer, timestamptz, jsonb, integer, uuid, jsonb, text, text) FROM PUBLIC;

-- The same for a payload of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."jobs_enqueue"(
    "kind" text,
    "args" json,
    "queue" text DEFAULT 'default',
    "priority" integer DEFAULT 2,
    "unique_key" text DEFAULT NULL,
    "unique_while" text[] DEFAULT '{}',
    "ordered_key" text DEFAULT NULL,
    "on_failure" text DEFAULT 'block',
    "limited_key" text DEFAULT NULL,
    "max_running" integer DEFAULT NULL,
    "rate" double precision DEFAULT NULL,
    "burst" integer DEFAULT NULL,
    "scheduled_at" timestamptz DEFAULT NULL,
    "headers" jsonb DEFAULT NULL,
    "max_attempts" integer DEFAULT NULL,
    INOUT "id" uuid DEFAULT NULL,
    "unique_fields" jsonb DEFAULT NULL,
    "unique_until" text DEFAULT 'end',
    "on_conflict" text DEFAULT 'keep',
    OUT duplicate boolean,
    OUT "replaced" boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    SELECT w.id, w.duplicate, w."replaced"
    INTO id, duplicate, "replaced"
    FROM "{{schema}}"."jobs_enqueue"($1, convert_to($2::text, 'UTF8'), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) AS w;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_enqueue"(text, json, text, integer, text, text[], text, text, text, integer, double precision, integer, timestamptz, jsonb, integer, uuid, jsonb, text, text) FROM PUBLIC;

-- The same for a payload of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."jobs_enqueue"(
    "kind" text,
    "args" jsonb,
    "queue" text DEFAULT 'default',
    "priority" integer DEFAULT 2,
    "unique_key" text DEFAULT NULL,
    "unique_while" text[] DEFAULT '{}',
    "ordered_key" text DEFAULT NULL,
    "on_failure" text DEFAULT 'block',
    "limited_key" text DEFAULT NULL,
    "max_running" integer DEFAULT NULL,
    "rate" double precision DEFAULT NULL,
    "burst" integer DEFAULT NULL,
    "scheduled_at" timestamptz DEFAULT NULL,
    "headers" jsonb DEFAULT NULL,
    "max_attempts" integer DEFAULT NULL,
    INOUT "id" uuid DEFAULT NULL,
    "unique_fields" jsonb DEFAULT NULL,
    "unique_until" text DEFAULT 'end',
    "on_conflict" text DEFAULT 'keep',
    OUT duplicate boolean,
    OUT "replaced" boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    SELECT w.id, w.duplicate, w."replaced"
    INTO id, duplicate, "replaced"
    FROM "{{schema}}"."jobs_enqueue"($1, convert_to($2::text, 'UTF8'), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) AS w;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_enqueue"(text, jsonb, text, integer, text, text[], text, text, text, integer, double precision, integer, timestamptz, jsonb, integer, uuid, jsonb, text, text) FROM PUBLIC;

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
CREATE FUNCTION "{{schema}}"."jobs_enqueue_many"("rows" jsonb)
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
    a2 bytea[];
    a3 text[];
    a4 integer[];
    a5 text[];
    a6 text[];
    a7 text[];
    a8 text[];
    a9 text[];
    a10 integer[];
    a11 double precision[];
    a12 integer[];
    a13 timestamptz[];
    a14 jsonb[];
    a15 integer[];
    a16 uuid[];
    a17 jsonb[];
    a18 text[];
    a19 text[];
    size integer;
    bad bigint;
    keyed boolean;
    holds boolean;
    locks bigint[];
    alone boolean[];
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
    WHERE CASE jsonb_typeof(e.value) WHEN 'object' THEN e.value - ARRAY['kind', 'args', 'args_text', 'args_base64', 'queue', 'priority', 'unique_key', 'unique_while', 'ordered_key', 'on_failure', 'limited_key', 'max_running', 'rate', 'burst', 'scheduled_at', 'headers', 'max_attempts', 'id', 'unique_fields', 'unique_until', 'on_conflict'] <> '{}' OR (e.value ? 'args')::int + (e.value ? 'args_text')::int + (e.value ? 'args_base64')::int > 1 ELSE true END;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rows',
            MESSAGE = format('%s, it must be an object with known fields: %s', 'rows has a wrong element ' || bad,
                left($1 ->> (bad - 1)::integer, 100)),
            HINT = 'Fields are kind, args, args_text, args_base64, queue, priority, unique_key, unique_while, ordered_key, on_failure, limited_key, max_running, rate, burst, scheduled_at, headers, max_attempts, id, unique_fields, unique_until, on_conflict; a payload is in one of its fields.';
    END IF;
    BEGIN
        SELECT count(*)::integer, min(r.ord * 1000 + CASE
                WHEN (r.c14 IS NULL OR jsonb_typeof(r.c14) = 'object') IS NOT TRUE THEN 1
                WHEN (r.c13 IS NULL OR r.c13 BETWEEN '1970-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00') IS NOT TRUE THEN 2
                WHEN (r.c15 IS NULL OR r.c15 BETWEEN 1 AND 1000000) IS NOT TRUE THEN 3
                WHEN (r.c8 IN ('block', 'park', 'skip')) IS NOT TRUE THEN 4
                WHEN (r.c7 IS NULL OR r.c9 IS NULL) IS NOT TRUE THEN 5
                WHEN (r.c7 IS NULL OR octet_length(r.c7) BETWEEN 1 AND 255) IS NOT TRUE THEN 6
                WHEN (r.c9 IS NULL OR octet_length(r.c9) BETWEEN 1 AND 255) IS NOT TRUE THEN 7
                WHEN (r.c9 IS NOT NULL OR num_nonnulls(r.c10, r.c11, r.c12) = 0) IS NOT TRUE THEN 8
                WHEN (r.c9 IS NULL OR num_nonnulls(r.c10, r.c11) > 0) IS NOT TRUE THEN 9
                WHEN (r.c10 IS NULL OR r.c10 >= 1) IS NOT TRUE THEN 10
                WHEN (r.c11 IS NULL OR r.c11 BETWEEN 1e-09 AND 1e+09) IS NOT TRUE THEN 11
                WHEN (r.c12 IS NULL OR r.c11 IS NOT NULL) IS NOT TRUE THEN 12
                WHEN (r.c12 IS NULL OR r.c12 >= 1) IS NOT TRUE THEN 13
                WHEN (octet_length(r.c1) BETWEEN 1 AND 255) IS NOT TRUE THEN 14
                WHEN (octet_length(r.c3) BETWEEN 1 AND 255) IS NOT TRUE THEN 15
                WHEN (r.c4 BETWEEN 1 AND 3) IS NOT TRUE THEN 16
                WHEN (octet_length(r.c2) <= 1048576) IS NOT TRUE THEN 17
                WHEN (r.c5 IS NULL OR octet_length(r.c5) BETWEEN 1 AND 255) IS NOT TRUE THEN 18
                WHEN (num_nonnulls(r.c5, r.c17) = 0 OR strpos(r.c1, chr(31)) = 0) IS NOT TRUE THEN 19
                WHEN (r.c6::text[] <@ ARRAY['done', 'failed']) IS NOT TRUE THEN 20
                WHEN r.c14 IS NOT NULL AND ((SELECT coalesce(sum(octet_length(h.name) + coalesce(octet_length(h.value), 0)), 0) FROM jsonb_each_text(r.c14) AS h (name, value)) <= 65536) IS NOT TRUE THEN 21 END),
            bool_or((coalesce(r.c7, r.c9)) IS NOT NULL), bool_or((r.c5) IS NOT NULL),
            array_agg(CASE WHEN (r.c7) IS NOT NULL THEN hashtextextended('{{schema}}.jobs ' || (r.c7), 1) END),
            array_agg(num_nonnulls(r.c5, r.c17) > 0 OR r.c18 <> 'end' OR r.c19 <> 'keep' OR cardinality(r.c6::text[]) > 0),
            array_agg(r.c1),
            array_agg(r.c2),
            array_agg(r.c3),
            array_agg(r.c4),
            array_agg(r.c5),
            array_agg(r.c6),
            array_agg(r.c7),
            array_agg(r.c8),
            array_agg(r.c9),
            array_agg(r.c10),
            array_agg(r.c11),
            array_agg(r.c12),
            array_agg(r.c13),
            array_agg(r.c14),
            array_agg(r.c15),
            array_agg(r.id),
            array_agg(r.c17),
            array_agg(r.c18),
            array_agg(r.c19)
        INTO size, bad, keyed, holds, locks, alone, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19
        FROM (
            SELECT f.ord,
                f.f1 AS c1,
                coalesce(convert_to(f.f2::text, 'UTF8'), convert_to(f.f3, 'UTF8'), decode(f.f4, 'base64')) AS c2,
                coalesce(f.f5, 'default') AS c3,
                coalesce(f.f6, 2) AS c4,
                f.f7 AS c5,
                (coalesce(f.f8, '{}'))::text AS c6,
                f.f9 AS c7,
                coalesce(f.f10, 'block') AS c8,
                f.f11 AS c9,
                f.f12 AS c10,
                f.f13 AS c11,
                f.f14 AS c12,
                f.f15 AS c13,
                f.f16 AS c14,
                f.f17 AS c15,
                coalesce(f.f18, (began || '7' || lpad(to_hex(f.ord >> 2), 3, '0') || to_hex(8 + (f.ord & 3)) || substr(gen_random_uuid()::text, 21))::uuid) AS id,
                f.f19 AS c17,
                coalesce(f.f20, 'end') AS c18,
                coalesce(f.f21, 'keep') AS c19
            FROM ROWS FROM (jsonb_to_recordset($1) AS ("kind" text, "args" jsonb, "args_text" text, "args_base64" text, "queue" text, "priority" integer, "unique_key" text, "unique_while" text[], "ordered_key" text, "on_failure" text, "limited_key" text, "max_running" integer, "rate" double precision, "burst" integer, "scheduled_at" timestamptz, "headers" jsonb, "max_attempts" integer, "id" uuid, "unique_fields" jsonb, "unique_until" text, "on_conflict" text))
                WITH ORDINALITY AS f (f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, ord)
            OFFSET 0) AS r;
    EXCEPTION WHEN data_exception THEN
        FOR bad IN 1..jsonb_array_length($1) LOOP -- which one is it?
            BEGIN
                PERFORM r.* FROM (
            SELECT f.ord,
                f.f1 AS c1,
                coalesce(convert_to(f.f2::text, 'UTF8'), convert_to(f.f3, 'UTF8'), decode(f.f4, 'base64')) AS c2,
                coalesce(f.f5, 'default') AS c3,
                coalesce(f.f6, 2) AS c4,
                f.f7 AS c5,
                (coalesce(f.f8, '{}'))::text AS c6,
                f.f9 AS c7,
                coalesce(f.f10, 'block') AS c8,
                f.f11 AS c9,
                f.f12 AS c10,
                f.f13 AS c11,
                f.f14 AS c12,
                f.f15 AS c13,
                f.f16 AS c14,
                f.f17 AS c15,
                coalesce(f.f18, (began || '7' || lpad(to_hex(f.ord >> 2), 3, '0') || to_hex(8 + (f.ord & 3)) || substr(gen_random_uuid()::text, 21))::uuid) AS id,
                f.f19 AS c17,
                coalesce(f.f20, 'end') AS c18,
                coalesce(f.f21, 'keep') AS c19
            FROM ROWS FROM (jsonb_to_recordset(jsonb_build_array($1 -> bad - 1)) AS ("kind" text, "args" jsonb, "args_text" text, "args_base64" text, "queue" text, "priority" integer, "unique_key" text, "unique_while" text[], "ordered_key" text, "on_failure" text, "limited_key" text, "max_running" integer, "rate" double precision, "burst" integer, "scheduled_at" timestamptz, "headers" jsonb, "max_attempts" integer, "id" uuid, "unique_fields" jsonb, "unique_until" text, "on_conflict" text))
                WITH ORDINALITY AS f (f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, ord)) AS r;
            EXCEPTION WHEN data_exception THEN
                RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rows',
                    MESSAGE = format('%s, a value is not of its field''s type: %s', 'rows has a wrong element ' || bad, SQLERRM),
                    HINT = 'Fields are kind, args, args_text, args_base64, queue, priority, unique_key, unique_while, ordered_key, on_failure, limited_key, max_running, rate, burst, scheduled_at, headers, max_attempts, id, unique_fields, unique_until, on_conflict; a payload is in one of its fields.';
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
                'on_failure must be block, park or skip',
                'limited_key must be NULL beside an ordered_key',
                'ordered_key must have 1 to 255 bytes',
                'limited_key must have 1 to 255 bytes',
                'limited_key must be given with max_running, rate and burst',
                'limited_key needs max_running or rate',
                'max_running must be at least 1',
                'rate must be between 1e-09 and 1e+09',
                'burst needs a rate',
                'burst must be at least 1',
                'kind must have 1 to 255 bytes, and must not be NULL',
                'queue must have 1 to 255 bytes, and must not be NULL',
                'priority must be 1 to 3, and must not be NULL',
                'args must have at most 1048576 bytes, and must not be NULL',
                'unique_key must have 1 to 255 bytes',
                'kind must not have the character U+001F, which ends the kind in the key of a unique job',
                'unique_while may have done and failed',
                'headers must have at most 65536 bytes'])[bad % 1000]),
            HINT = 'Fields are kind, args, args_text, args_base64, queue, priority, unique_key, unique_while, ordered_key, on_failure, limited_key, max_running, rate, burst, scheduled_at, headers, max_attempts, id, unique_fields, unique_until, on_conflict; a payload is in one of its fields.';
    END IF;
    IF size = 0 THEN
        RETURN;
    END IF;
    IF keyed THEN
        PERFORM WHERE CASE WHEN pg_catalog.texteq(pg_catalog.current_setting('session_replication_role'), 'replica') THEN pg_catalog.concat('txwork refuses the session: session_replication_role is ', pg_catalog.current_setting('session_replication_role'))::int END IS NULL;
    END IF;
    -- In the same order in every transaction, to avoid deadlocks. More of them than a transaction may take are not
    -- taken: the insert then refuses them with a message.
    locks := ARRAY(SELECT DISTINCT k.lock FROM unnest(locks) AS k (lock) WHERE k.lock IS NOT NULL ORDER BY 1);
    IF cardinality(locks) > 1 AND cardinality(locks) <= current_setting('max_locks_per_transaction')::integer * (current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer) / 4 THEN
        PERFORM pg_advisory_xact_lock(k.lock) FROM unnest(locks) AS k (lock);
    END IF;
    IF keyed AND true = ANY (alone) THEN -- rows of a key keep their order
        alone := array_fill(true, ARRAY[size]);
    END IF;
    IF holds THEN
        WITH w AS (
            INSERT INTO "{{schema}}"."jobs" (id, due_at, max_attempts, headers, "kind", "queue", "priority", "args", "unique_key", "unique_states", "concurrency_key", "key_limit", "key_policy", "key_rate", "key_burst")
            SELECT s.id, greatest(s.c13, now()), coalesce(s.c15, 30), nullif(s.c14 - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent'], '{}'), s.c1, s.c3, s.c4::smallint, s.c2, s.c5, CASE WHEN s.c5 IS NOT NULL THEN nullif(CASE WHEN 'done' = ANY (s.c6::text[]) THEN 4 ELSE 0 END + CASE WHEN 'failed' = ANY (s.c6::text[]) THEN 8 ELSE 0 END + CASE WHEN s.c18 = 'end' THEN 0 ELSE 2 END, 0) END, coalesce(s.c7, s.c9), CASE WHEN s.c7 IS NOT NULL THEN 0 WHEN s.c9 IS NOT NULL THEN coalesce(s.c10, 2147483647) END, CASE WHEN s.c7 IS NOT NULL THEN CASE s.c8 WHEN 'block' THEN 1 WHEN 'park' THEN 2 WHEN 'skip' THEN 0 END WHEN s.c9 IS NOT NULL THEN 0 END, s.c11, CASE WHEN s.c11 IS NOT NULL THEN coalesce(s.c12, greatest(1, ceil(least(s.c11, 2147483647)))::integer) END
            FROM unnest(
                a16::uuid[],
                a1::text[],
                a2::bytea[],
                a3::text[],
                a4::integer[],
                a5::text[],
                a6::text[],
                a7::text[],
                a8::text[],
                a9::text[],
                a10::integer[],
                a11::double precision[],
                a12::integer[],
                a13::timestamptz[],
                a14::jsonb[],
                a15::integer[],
                a17::jsonb[],
                a18::text[],
                a19::text[],
                alone::boolean[]
            ) WITH ORDINALITY AS s (id, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c17, c18, c19, alone, ord)
            WHERE NOT s.alone
            ORDER BY CASE WHEN NOT keyed THEN (s.c5) COLLATE "C" END, s.ord
            ON CONFLICT ("unique_key")
                WHERE "unique_key" IS NOT NULL DO NOTHING
            RETURNING id
        )
        SELECT array_agg(w.id) INTO done FROM w;
    ELSE
        WITH w AS (
            INSERT INTO "{{schema}}"."jobs" (id, due_at, max_attempts, headers, "kind", "queue", "priority", "args", "unique_key", "unique_states", "concurrency_key", "key_limit", "key_policy", "key_rate", "key_burst")
            SELECT s.id, greatest(s.c13, now()), coalesce(s.c15, 30), nullif(s.c14 - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent'], '{}'), s.c1, s.c3, s.c4::smallint, s.c2, s.c5, CASE WHEN s.c5 IS NOT NULL THEN nullif(CASE WHEN 'done' = ANY (s.c6::text[]) THEN 4 ELSE 0 END + CASE WHEN 'failed' = ANY (s.c6::text[]) THEN 8 ELSE 0 END + CASE WHEN s.c18 = 'end' THEN 0 ELSE 2 END, 0) END, coalesce(s.c7, s.c9), CASE WHEN s.c7 IS NOT NULL THEN 0 WHEN s.c9 IS NOT NULL THEN coalesce(s.c10, 2147483647) END, CASE WHEN s.c7 IS NOT NULL THEN CASE s.c8 WHEN 'block' THEN 1 WHEN 'park' THEN 2 WHEN 'skip' THEN 0 END WHEN s.c9 IS NOT NULL THEN 0 END, s.c11, CASE WHEN s.c11 IS NOT NULL THEN coalesce(s.c12, greatest(1, ceil(least(s.c11, 2147483647)))::integer) END
            FROM unnest(
                a16::uuid[],
                a1::text[],
                a2::bytea[],
                a3::text[],
                a4::integer[],
                a5::text[],
                a6::text[],
                a7::text[],
                a8::text[],
                a9::text[],
                a10::integer[],
                a11::double precision[],
                a12::integer[],
                a13::timestamptz[],
                a14::jsonb[],
                a15::integer[],
                a17::jsonb[],
                a18::text[],
                a19::text[],
                alone::boolean[]
            ) WITH ORDINALITY AS s (id, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c17, c18, c19, alone, ord)
            WHERE NOT s.alone
            ORDER BY s.ord
            RETURNING id
        )
        SELECT array_agg(w.id) INTO done FROM w;
    END IF;

    IF cardinality(done) = cardinality(a16) THEN
        written := array_fill(true, ARRAY[cardinality(done)]);
        holders := a16;
    ELSE
        SELECT array_agg(g.written ORDER BY g.ord) INTO written
        FROM (
            SELECT u.ord, bool_or(u.ord IS NULL) OVER (PARTITION BY u.id) AS written
            FROM (SELECT s.id, s.ord FROM unnest(a16) WITH ORDINALITY AS s (id, ord)
                UNION ALL SELECT w.id, NULL FROM unnest(done) AS w (id)) AS u) AS g
        WHERE g.ord IS NOT NULL;
        SELECT array_agg(CASE WHEN s.written THEN s.id ELSE NULL END ORDER BY s.ord) INTO holders
        FROM unnest(a16, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a17, a18, a19, written, alone) WITH ORDINALITY
            AS s (id, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c17, c18, c19, written, alone, ord);
        BEGIN
            FOR i IN
                SELECT s.ord FROM unnest(a16, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a17, a18, a19, holders) WITH ORDINALITY
            AS s (id, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c17, c18, c19, holders, ord)
            WHERE s.holders IS NULL ORDER BY CASE WHEN NOT keyed THEN (s.c5) COLLATE "C" END, s.ord
            LOOP
                SELECT w.* INTO one
                FROM "{{schema}}"."jobs_enqueue"(a1[i], a2[i], a3[i], a4[i], a5[i], a6[i]::text[], a7[i], a8[i], a9[i], a10[i], a11[i], a12[i], a13[i], a14[i], a15[i], a16[i], a17[i], a18[i], a19[i]) AS w;
                holders[i] := one.id;
                written[i] := NOT one.duplicate;
                replaces[i] := one."replaced";
            END LOOP;
        EXCEPTION WHEN invalid_parameter_value THEN -- what only the function for one row checks
            RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rows',
                MESSAGE = format('rows has a wrong element %s: %s', i, SQLERRM), HINT = 'Fields are kind, args, args_text, args_base64, queue, priority, unique_key, unique_while, ordered_key, on_failure, limited_key, max_running, rate, burst, scheduled_at, headers, max_attempts, id, unique_fields, unique_until, on_conflict; a payload is in one of its fields.';
        END;
    END IF;
    RETURN QUERY
    SELECT s.ord::integer, s.id, NOT s.written, coalesce(replaces[s.ord], false)
    FROM unnest(holders, written) WITH ORDINALITY
        AS s (id, written, ord)
    ORDER BY s.ord;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_enqueue_many"(jsonb) FROM PUBLIC;

-- One transaction of the procedure fold: each fold of the table once. The cursor says how far each fold came, so that
-- notes that are deleted but not yet vacuumed are not read again, and when the next pass from the start is due, which
-- finds notes that older transactions have written behind the cursor: after forty times as long as the last pass took,
-- and after between a second and a minute. A cursor of another table counts as none, and so does a pass that is further
-- ahead than that, as it is after a failover. The numbers are microseconds.
CREATE FUNCTION "{{schema}}"."jobs_fold_step"(
    max_notes integer, INOUT cursor text, INOUT folded integer, OUT again_in double precision, OUT busy boolean,
    OUT more boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_variable
DECLARE
    started constant timestamptz := clock_timestamp();
    own constant text := left(md5('{{schema}}.jobs'), 8);
    said text[] := regexp_match(cursor, '^fold1 ([0-9a-f]{8}) ([0-9]{1,17}) ([0-9,]{0,99})$');
    places bigint[] := array_fill(NULL::bigint, ARRAY[2]);
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
    SELECT r.folded, r.again, (extract(epoch FROM r.upto) * 1000000)::bigint AS upto INTO f
    FROM "{{schema}}"."jobs_join_fold"(max_notes, CASE WHEN whole OR places[1] IS NULL THEN '-infinity'
        ELSE 'epoch'::timestamptz + places[1] * interval '1 microsecond' END) AS r;
    IF f.folded IS NULL THEN
        busy := true;
    ELSE
        folded := folded + f.folded;
        more := more OR f.folded > 0 AND f.again <= 0;
        again_in := least(again_in, CASE WHEN f.again IS NOT NULL THEN greatest(f.again, 0) END);
        places[1] := CASE WHEN f.folded > 0 AND f.again <= 0 THEN f.upto
            ELSE greatest(f.upto, places[1]) END;
    END IF;
    SELECT r.folded, r.again, (extract(epoch FROM r.upto) * 1000000)::bigint AS upto INTO f
    FROM "{{schema}}"."jobs_key_fold"(max_notes, CASE WHEN whole OR places[2] IS NULL THEN '-infinity'
        ELSE 'epoch'::timestamptz + places[2] * interval '1 microsecond' END) AS r;
    IF f.folded IS NULL THEN
        busy := true;
    ELSE
        folded := folded + f.folded;
        more := more OR f.folded > 0 AND f.again <= 0;
        again_in := least(again_in, CASE WHEN f.again IS NOT NULL THEN greatest(f.again, 0) END);
        places[2] := CASE WHEN f.folded > 0 AND f.again <= 0 THEN f.upto
            ELSE greatest(f.upto, places[2]) END;
    END IF;
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
CREATE PROCEDURE "{{schema}}"."jobs_fold"(
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
        FROM "{{schema}}"."jobs_fold_step"(1000, cursor, folded) AS s;
        EXIT WHEN more IS NOT TRUE;
    END LOOP;
    COMMIT;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_fold_step"(integer, text, integer) FROM PUBLIC;
REVOKE ALL ON PROCEDURE "{{schema}}"."jobs_fold"(text, integer, double precision, boolean) FROM PUBLIC;

-- Does one kind of maintenance although rows are in its way, such as a row that a foreign key of the application keeps
-- from being deleted: the part of the rows that failed is halved until the row is by itself, and skipped. The next part
-- is twice as large as one that succeeded. Each part is a subtransaction, so n rows cost at most about three each, and
-- a few bad rows some tens together. A part waits little for locks, because the next ones wait for it.
--
-- If nothing succeeds, the rows are not the cause, and the error is raised: one about rights or names at once, another
-- after 16 rows.
CREATE FUNCTION "{{schema}}"."jobs_each"(
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
    FROM "{{schema}}"."jobs" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND r.locked_until < now()
      AND r.id <> ALL ($4)
    ORDER BY r."queue", r."priority", r.due_at, r.id
    LIMIT $2::int);
        beside := ARRAY(
            SELECT p.id
            FROM (
                SELECT r.id, count(*) OVER (PARTITION BY substring(uuid_send(r.owner_token) FROM 1 FOR 6)) AS rows
                FROM "{{schema}}"."jobs" AS r
                WHERE r.completed_at IS NULL
                  AND NOT r.waiting
                  AND r.status = 1
                  AND r.due_at <= now()) AS p
            WHERE p.rows > 1);
    WHEN 'purge_done' THEN
        ids := ARRAY(
    SELECT r.id
    FROM "{{schema}}"."jobs" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - $3::interval
      AND r.id <> ALL ($4)
    ORDER BY r.completed_at
    LIMIT $2::int);
    WHEN 'purge_failed' THEN
        ids := ARRAY(
    SELECT r.id
    FROM "{{schema}}"."jobs" AS r
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
    FROM "{{schema}}"."jobs" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND r.locked_until < now()
      AND r.id = ANY (own.part)
    ORDER BY r."queue", r."priority", r.due_at, r.id
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
    UPDATE "{{schema}}"."jobs" AS t
    SET status = CASE WHEN NOT l.returned AND (t.attempts >= t.max_attempts OR NOT l.shared AND 1 + l.alone >= 10 AND t.max_attempts = 30) OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN NOT l.returned AND (t.attempts >= t.max_attempts OR NOT l.shared AND 1 + l.alone >= 10 AND t.max_attempts = 30) OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE greatest(clock_timestamp(), t.locked_until + CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 900000000) * (1 - 0.2 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN NOT l.returned AND (t.attempts >= t.max_attempts OR NOT l.shared AND 1 + l.alone >= 10 AND t.max_attempts = 30) OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN NOT l.returned AND (t.attempts >= t.max_attempts OR NOT l.shared AND 1 + l.alone >= 10 AND t.max_attempts = 30) OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
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
        'labels', jsonb_build_array(t."kind", t."queue")) END AS dead_letter
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled,
       jsonb_agg(changed.dead_letter) FILTER (WHERE changed.dead_letter IS NOT NULL) AS dead_letters
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END
                LOOP
                    done := done + changed.requeued;
                    failed := failed + changed.failed;
                    cancelled := cancelled + changed.cancelled;
                    dead_letters := coalesce(dead_letters, '[]') || coalesce(changed.dead_letters, '[]');
                END LOOP;
            WHEN 'purge_done' THEN
                WITH purged AS (
DELETE FROM "{{schema}}"."jobs" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."jobs" AS r
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
DELETE FROM "{{schema}}"."jobs" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."jobs" AS r
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

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_each"(text, integer, interval, uuid[]) FROM PUBLIC;

-- Deletes rows that ended longer ago than their retention: the caller's, or the table's own by default. A NULL
-- retention keeps rows for ever. Cancelled rows are kept and counted like done ones.
CREATE FUNCTION "{{schema}}"."jobs_purge"(
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
DELETE FROM "{{schema}}"."jobs" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."jobs" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - $2::interval
    ORDER BY r.completed_at
    LIMIT $1::int
    FOR UPDATE SKIP LOCKED))
RETURNING t.id
    ), purged_failed AS (
DELETE FROM "{{schema}}"."jobs" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."jobs" AS r
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
CREATE FUNCTION "{{schema}}"."jobs_maintain_step"(
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
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
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
                n := (SELECT r.requeued + r.failed FROM "{{schema}}"."jobs_reap_expired"($2) AS r);
            WHEN 'slot_sweep' THEN
                n := (SELECT "{{schema}}"."jobs_slot_sweep"($2));
            WHEN 'join_sweep' THEN
                n := (SELECT "{{schema}}"."jobs_join_sweep"($2));
            WHEN 'key_sweep' THEN
                n := (SELECT "{{schema}}"."jobs_key_sweep"($2));
            WHEN 'purge_done' THEN
                n := (SELECT p.done FROM "{{schema}}"."jobs_purge"($2, $3, NULL) AS p);
            WHEN 'purge_failed' THEN
                n := (SELECT p.failed FROM "{{schema}}"."jobs_purge"($2, NULL, $4) AS p);
            WHEN 'fold' THEN
                n := (SELECT f.folded FROM "{{schema}}"."jobs_fold_step"($2, NULL, 0) AS f);
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
        FROM "{{schema}}"."jobs_each"($1, $2, CASE $1 WHEN 'purge_done' THEN $3 WHEN 'purge_failed' THEN $4 END, skipped);
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
CREATE PROCEDURE "{{schema}}"."jobs_maintain"(
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
        FOREACH kind IN ARRAY ARRAY['reap_expired', 'slot_sweep', 'join_sweep', 'key_sweep', 'purge_done', 'purge_failed', 'fold'] LOOP
            SELECT ARRAY[]::pg_catalog.uuid[], NULL INTO skipped, said;
            FOR step IN 1..100 LOOP
                COMMIT;
                SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
                SELECT s.more, s.crowded, s.skipped, s.problem INTO more, crowded, skipped, said
                FROM "{{schema}}"."jobs_maintain_step"(kind, max_rows, retention, failed_retention, skipped, said) AS s;
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
        PERFORM "{{schema}}"."leader_note"('{{schema}}.jobs', problem);
    EXCEPTION WHEN undefined_function OR insufficient_privilege THEN
        NULL;
    END;
    COMMIT;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'a part of the maintenance failed, the rest is done: %', problem;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_purge"(integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_maintain_step"(text, integer, interval, interval, uuid[], text) FROM PUBLIC;
REVOKE ALL ON PROCEDURE "{{schema}}"."jobs_maintain"(integer, interval, interval) FROM PUBLIC;

-- The jobs' additions to the core's table.
-- The live jobs of a schedule, which decide whether the next one may start.
CREATE INDEX "jobs_live_schedule_idx" ON "{{schema}}"."jobs" (schedule)
    WHERE completed_at IS NULL AND schedule IS NOT NULL;

-- How the attempts ended that did not succeed. A trigger writes the rows, and nothing changes them.
CREATE TABLE "{{schema}}"."jobs_attempt" (
    job_id uuid NOT NULL,
    attempt integer NOT NULL,
    ended_at "{{schema}}"."jobs_time" NOT NULL,
    outcome text NOT NULL,
    error text
);

-- There is no key: attempts begin at 1 again after a redrive. A publication needs a replica identity to replicate
-- deletions.
ALTER TABLE "{{schema}}"."jobs_attempt" REPLICA IDENTITY FULL;

CREATE INDEX "jobs_attempt_idx" ON "{{schema}}"."jobs_attempt" (job_id, ended_at);

-- The results of steps, so that a later attempt need not repeat them.
CREATE TABLE "{{schema}}"."jobs_step" (
    job_id uuid NOT NULL,
    name text NOT NULL,
    result bytea NOT NULL,
    created_at "{{schema}}"."jobs_time" NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, name)
);

-- The rules of queues. Applications write them in their own transactions, which may be long. Claims and settles write
-- to other tables, so that they never wait for such a transaction.
CREATE TABLE "{{schema}}"."jobs_queue" (
    name text PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
    paused boolean NOT NULL DEFAULT false,
    max_running integer CHECK (max_running > 0),
    rate double precision CHECK (rate BETWEEN 1e-09::double precision AND 1e+09::double precision),
    burst integer CHECK (burst > 0),
    adopt boolean NOT NULL DEFAULT false, -- jobs that ran already when the limit was set still need slots
    changed_at "{{schema}}"."jobs_time" NOT NULL DEFAULT clock_timestamp(),
    CHECK ((rate IS NULL) = (burst IS NULL))
);

-- One row for each start of a queue with a rate. A start takes a span of 1/rate, which begins at the time of at, in
-- microseconds since 1970. Claims insert rows and delete those that no rate asks for any more; what puts jobs
-- back that have not started deletes as many rows of their claim.
CREATE TABLE "{{schema}}"."jobs_start" (
    queue text NOT NULL,
    at bigint NOT NULL,
    job_id uuid NOT NULL,
    owner_token uuid NOT NULL,
    PRIMARY KEY (queue, at, owner_token) -- two claims with different rates may take the same time
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);

-- One row for each running job of a queue with a limit. Claims insert rows, settles delete them, and neither changes a
-- row that the other needs.
CREATE TABLE "{{schema}}"."jobs_slot" (
    job_id uuid PRIMARY KEY,
    queue text NOT NULL,
    permit integer, -- NULL: the job ran before the queue had a limit
    taken_at "{{schema}}"."jobs_time" NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);

CREATE UNIQUE INDEX "jobs_slot_queue_idx" ON "{{schema}}"."jobs_slot" (queue, permit);

-- A changed rule wakes the workers.
CREATE TRIGGER "jobs_queue_announce" AFTER INSERT OR UPDATE OR DELETE ON "{{schema}}"."jobs_queue"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."jobs_announce"('always');

-- Frees a job's unique key when the job enters an ended state that does not hold the key, or starts, if it holds the
-- key only until then. It runs in the transaction of the settle or the claim: an insert that waits for the key in the
-- unique index continues when that commits. The row keeps the key in freed_key, with which a redrive takes it again.
-- Acks have freed the key in their own UPDATE, see Spec.KeptColumn: this is for what is rarer, and for SQL of users.
--
-- A BEFORE trigger would save the second version of the row, but it would make every update of every job, claims and
-- renewals included, lock the row first. This trigger costs jobs without a key only the test of WHEN. The test is
-- short, because every settle parses it anew; the function itself checks which states hold the key.
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
    IF NEW.status = 1 OR coalesce(NEW.unique_states::integer, 0) & (1 << NEW.status::integer) = 0 THEN
        UPDATE "{{schema}}"."jobs" AS t
        SET unique_key = NULL, freed_key = CASE WHEN NEW.status <> 2 THEN t.unique_key END
        WHERE t.id = OLD.id;
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_free_key"() FROM PUBLIC;

CREATE TRIGGER "jobs_free_key" AFTER UPDATE OF completed_at ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (NEW.completed_at IS NOT NULL AND NEW.unique_key IS NOT NULL)
EXECUTE FUNCTION "{{schema}}"."jobs_free_key"();

-- Only a claim changes the attempts of a row in progress.
CREATE TRIGGER "jobs_start_key" AFTER UPDATE OF attempts ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (NEW.unique_states = 2 AND NEW.unique_key IS NOT NULL AND NEW.status = 1)
EXECUTE FUNCTION "{{schema}}"."jobs_free_key"();

-- Frees the key of a running job for a job that its own transaction writes, see Delivery.Tx: a job may enqueue its
-- successor. The transaction is marked with the id of the job that it settles. Until it commits, the index has others
-- that want the key wait; if it does not, the job still holds its key. The job's row is locked only from here on, so
-- that its lease is renewed as long as possible.
CREATE FUNCTION "{{schema}}"."jobs_chain_key"(key text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $txwork$
BEGIN
    UPDATE "{{schema}}"."jobs" AS t SET unique_key = NULL, freed_key = t.unique_key
    WHERE t.unique_key = $1 AND t.id::text = current_setting('txwork.claim_tx') AND t.status = 1;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_chain_key"(text) FROM PUBLIC;

-- Refuses a key that is in none of the forms of Go and jobs_enqueue, whoever writes it: it would meet no other. The
-- condition of the trigger is all that it costs a job without a key, and is therefore no longer than this.
CREATE FUNCTION "{{schema}}"."jobs_check_key"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    own CONSTANT text := substr(NEW.unique_key, length(NEW.kind) + 4);
BEGIN
    IF (strpos(NEW.kind, chr(31)) = 0
        AND substr(NEW.unique_key, 3, length(NEW.kind) + 1) = NEW.kind || chr(31)
        AND CASE left(NEW.unique_key, 2)
            WHEN 'u:' THEN octet_length(own) BETWEEN 1 AND 255
            WHEN 'f:' THEN own ~ '^[A-Za-z0-9_-]{43}$'
            WHEN 'a:' THEN own ~ '^[A-Za-z0-9_-]{43}$'
        END) IS NOT TRUE
    THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', COLUMN = 'unique_key',
            MESSAGE = 'unique_key of {{schema}}.jobs must be u:, f: or a:, the kind, the character U+001F, and a key or hash',
            HINT = 'Enqueue the job by {{schema}}.jobs_enqueue, which makes the key of unique_key or unique_fields.';
    END IF;
    IF coalesce(NEW.unique_states, 0) NOT IN (0, 2, 4, 8, 12) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', COLUMN = 'unique_states',
            MESSAGE = format('unique_states of {{schema}}.jobs is %s, which is no set of states', NEW.unique_states),
            HINT = 'Enqueue the job by {{schema}}.jobs_enqueue, which takes unique_while and unique_until.';
    END IF;
    IF current_setting('txwork.claim_tx', true) <> '' THEN
        PERFORM "{{schema}}"."jobs_chain_key"(NEW.unique_key);
    END IF;
    RETURN NEW;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_check_key"() FROM PUBLIC;

CREATE TRIGGER "jobs_check_key" BEFORE INSERT ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (NEW.unique_key IS NOT NULL)
EXECUTE FUNCTION "{{schema}}"."jobs_check_key"();

-- The hash of unique fields, which is the same in every language: the SHA-256 of their canonical form in base64url. The
-- form is all fields, sorted by the bytes of their names, each as length:name type length:value. docs/sql.md describes
-- it. It must never change, since the keys of jobs are made of it.
CREATE FUNCTION "{{schema}}"."jobs_unique_hash"(unique_fields jsonb) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    field record;
    value bytea;
    letter text;
    form bytea := '';
BEGIN
    IF (jsonb_typeof(unique_fields) = 'object') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'unique_fields',
            MESSAGE = 'unique_fields must be a JSON object',
            HINT = 'Give 1 to 16 texts, numbers, true, false or null by name, such as {"customer": 7}; docs/sql.md has the rules.';
    END IF;
    IF ((SELECT count(*) FROM jsonb_each(unique_fields)) BETWEEN 1 AND 16) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'unique_fields',
            MESSAGE = 'unique_fields must have 1 to 16 fields',
            HINT = 'Give 1 to 16 texts, numbers, true, false or null by name, such as {"customer": 7}; docs/sql.md has the rules.';
    END IF;
    FOR field IN
        SELECT convert_to(e.key, 'UTF8') AS name, jsonb_typeof(e.value) AS type, e.value #>> '{}' AS text
        FROM jsonb_each(unique_fields) AS e ORDER BY 1
    LOOP
        letter := CASE field.type WHEN 'string' THEN 's' WHEN 'number' THEN 'n' WHEN 'boolean' THEN 'b'
            WHEN 'null' THEN 'z' END;
        IF (letter IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'unique_fields',
            MESSAGE = 'unique_fields must have no arrays and objects',
            HINT = 'Give 1 to 16 texts, numbers, true, false or null by name, such as {"customer": 7}; docs/sql.md has the rules.';
    END IF;
        IF (octet_length(field.name) BETWEEN 1 AND 63) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'unique_fields',
            MESSAGE = 'unique_fields must have names of 1 to 63 bytes',
            HINT = 'Give 1 to 16 texts, numbers, true, false or null by name, such as {"customer": 7}; docs/sql.md has the rules.';
    END IF;
        IF letter = 'n' THEN
            IF (abs(field.text::numeric) < 1e38 AND scale(trim_scale(field.text::numeric)) <= 38) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'unique_fields',
            MESSAGE = 'unique_fields must have numbers of at most 38 digits before and behind the point',
            HINT = 'Give 1 to 16 texts, numbers, true, false or null by name, such as {"customer": 7}; docs/sql.md has the rules.';
    END IF;
            field.text := trim_scale(field.text::numeric);
        END IF;
        value := convert_to(coalesce(field.text, ''), 'UTF8');
        IF (octet_length(value) <= 1024) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'unique_fields',
            MESSAGE = 'unique_fields must have texts of at most 1024 bytes',
            HINT = 'Give 1 to 16 texts, numbers, true, false or null by name, such as {"customer": 7}; docs/sql.md has the rules.';
    END IF;
        form := form || convert_to(octet_length(field.name) || ':', 'UTF8') || field.name
            || convert_to(letter || octet_length(value) || ':', 'UTF8') || value;
    END LOOP;
    RETURN translate(encode(sha256(form), 'base64'), '+/=', '-_');
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_unique_hash"(jsonb) FROM PUBLIC;

-- Records an attempt that did not succeed: a reported failure, a lost lease or a cancel. A snooze, a shutdown or a
-- lease lost together with others gives the attempt back, so it is not recorded, and a success is stored in the job's
-- own row. This runs in the transaction that ends the attempt, and locks nothing but the job's row, which is locked
-- already. A settle may end a thousand attempts, so it does nothing else, and pins no planner settings, since an INSERT
-- has only one plan. It runs with its owner's rights, so that nobody else need be able to write a history.
CREATE FUNCTION "{{schema}}"."jobs_record"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
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

-- Deletes the recorded attempts and steps of a job that is deleted. For jobs without any, which is most of them, this
-- costs the test of WHEN; a foreign key would cost each a look-up in two tables. A job has recorded attempts only if it
-- failed, needed more than one attempt, or was redriven, which resets its attempts. Steps set trail, and so does a
-- Replace. It runs with its owner's rights: policies show attempts and steps to those who see their job, which is gone.
CREATE FUNCTION "{{schema}}"."jobs_forget"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $txwork$
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs_attempt"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_step"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs_attempt or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    DELETE FROM "{{schema}}"."jobs_attempt" AS a WHERE a.job_id = OLD.id;
    DELETE FROM "{{schema}}"."jobs_step" AS s WHERE s.job_id = OLD.id;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_forget"() FROM PUBLIC;

CREATE TRIGGER "jobs_forget" AFTER DELETE ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (OLD.trail IS NOT NULL OR OLD.attempts > 1 OR OLD.failed_at IS NOT NULL
    OR OLD.headers ->> 'txwork-redriven-at' IS NOT NULL)
EXECUTE FUNCTION "{{schema}}"."jobs_forget"();

-- Looks for up to want starts that the rate of a queue allows now. Each is the beginning of a span of 1/rate, in
-- microseconds since 1970. again says in how many seconds there will be one more. Without a rate, both are NULL.
--
-- The spans of all starts lie one behind the other, and begin no later than now and no earlier than a burst less one
-- before it: the generic cell rate algorithm (ITU-T I.371), which admits what a token bucket does. In any time W, no
-- more than rate * W + burst jobs start. Spans are rounded up to whole microseconds.
--
-- A span that is taken is a row. Until that is visible, advisory locks stand for it, so claims never wait for each
-- other, and a claim whose transaction stays open holds back only what it has taken. Claims do not begin their spans at
-- the same times, so the locks are on cells of the length of a span, which lie fixed in time: a span locks the one or
-- two that it touches, and spans that overlap touch the same cell. So do neighbours, unless they begin where cells do:
-- behind what others have locked, spans begin there. The rows are looked at once more when the cells are
-- locked, by a separate statement, so its snapshot (READ COMMITTED) includes those of all claims that had them before.
-- Rows are deleted a while after they have ceased to matter. A claim that was suspended for as long takes none of the
-- spans that it had found.
--
-- A start that is given back, or whose claim was rolled back, leaves a gap behind the newest start. Gaps are taken when
-- too few are free before it, among the newest starts only, so that a claim reads a bounded number of rows.
CREATE FUNCTION "{{schema}}"."jobs_spans"(
    queue text, want integer, locking boolean, OUT starts bigint[], OUT again double precision
)
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
    moment bigint := floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    length bigint;
    depth bigint;
    next bigint;
    place bigint;
    ahead integer;
    gap record;
BEGIN
    SELECT q.* INTO rule FROM "{{schema}}"."jobs_queue" AS q WHERE q.name = $1;
    IF rule.rate IS NULL THEN
        RETURN;
    END IF;
    length := ceil(1000000 / rule.rate::numeric)::bigint;
    depth := least((rule.burst - 1) * ceil(1000000 / rule.rate::numeric), 4e18)::bigint;
    next := coalesce((
        SELECT s.at + length
        FROM "{{schema}}"."jobs_start" AS s
        WHERE s.queue = $1 AND s.at > moment - depth - length AND s.at < moment + length
        ORDER BY s.at DESC
        LIMIT 1), moment - depth);
    starts := '{}';
    place := next;
    WHILE place <= moment AND cardinality(starts) < $2 LOOP
        IF NOT $3 OR pg_try_advisory_xact_lock(hashtextextended('{{schema}}.jobs start ' || length || ' ' || $1, place / length))
            AND pg_try_advisory_xact_lock(hashtextextended('{{schema}}.jobs start ' || length || ' ' || $1, (place + length - 1) / length)) THEN
            starts := starts || place;
            place := place + length;
        ELSE
            place := (place / length + 1) * length;
        END IF;
    END LOOP;
    ahead := cardinality(starts);
    IF ahead < $2 THEN
        FOR gap IN
            SELECT u.at - length AS last, u.previous + length AS first
            FROM (
                SELECT n.at, coalesce(lead(n.at) OVER (ORDER BY n.at DESC),
                    CASE WHEN count(*) OVER () < 1000 THEN moment - depth - length END) AS previous
                FROM (
                    SELECT s.at
                    FROM "{{schema}}"."jobs_start" AS s
                    WHERE s.queue = $1 AND s.at > moment - depth - length AND s.at < next -- not among those ahead
                    ORDER BY s.at DESC
                    LIMIT 1000) AS n) AS u
            WHERE u.at - u.previous >= 2 * length
            ORDER BY u.at DESC
        LOOP
            place := gap.last;
            WHILE place >= gap.first AND cardinality(starts) < $2 LOOP
                IF NOT $3 OR pg_try_advisory_xact_lock(hashtextextended('{{schema}}.jobs start ' || length || ' ' || $1, place / length))
            AND pg_try_advisory_xact_lock(hashtextextended('{{schema}}.jobs start ' || length || ' ' || $1, (place + length - 1) / length)) THEN
                    starts := starts || place;
                END IF;
                place := place - length;
            END LOOP;
            EXIT WHEN cardinality(starts) >= $2;
        END LOOP;
    END IF;
    again := greatest(next + ahead * length - moment, 1000) / 1000000.0;
    IF NOT $3 THEN
        RETURN;
    END IF;
    starts := ARRAY(
        SELECT CASE WHEN u.at + depth + 10000000 > extract(epoch FROM clock_timestamp()) * 1000000
            AND NOT EXISTS (
                SELECT FROM "{{schema}}"."jobs_start" AS s WHERE s.queue = $1 AND s.at > u.at - length AND s.at < u.at + length)
            THEN u.at END
        FROM unnest(starts) AS u (at));
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_spans"(text, integer, boolean) FROM PUBLIC;

-- Locks up to want starts that the rate of a queue allows, and returns them. NULL is one that was taken before it was
-- locked. If the queue has no rate, the result is NULL. See Spec.Admission of package workqueue.
CREATE FUNCTION "{{schema}}"."jobs_starts"(queue text, want integer) RETURNS bigint[]
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $txwork$
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs_queue"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_start"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_slot"'::pg_catalog.regclass) THEN
        IF EXISTS (
            SELECT FROM pg_catalog.unnest(ARRAY['"{{schema}}"."jobs_queue"'::pg_catalog.regclass, '"{{schema}}"."jobs_start"'::pg_catalog.regclass, '"{{schema}}"."jobs_slot"'::pg_catalog.regclass]) AS s (id)
            WHERE (SELECT bool_or(p.polname = 'txwork_read') AND bool_and(p.polpermissive) FROM pg_catalog.pg_policy AS p
                WHERE p.polrelid = s.id) IS NOT TRUE)
        THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs_queue or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
        END IF;
    END IF;
    RETURN (SELECT s.starts FROM "{{schema}}"."jobs_spans"($1, $2, true) AS s);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_starts"(text, integer) FROM PUBLIC;

-- Returns how many of want jobs of a queue may be claimed now; if they are fewer, in how many seconds to ask again,
-- where 0 leaves that to the caller; whether the queue has a rule at all; and which one keeps jobs back. See
-- Spec.Admission of package workqueue.
--
-- This counts only: the claim then gets permits and starts, which nobody else has. It admits no more than
-- 64 jobs, because each of these is an entry of the lock table, and half as many of a queue with both.
CREATE FUNCTION "{{schema}}"."jobs_admit"(queue text, want integer)
RETURNS TABLE (admitted integer, again double precision, bounded boolean, held text)
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
    n bigint := $2;
    pause double precision := 0;
    allowed record;
    reason text;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs_queue"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_start"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_slot"'::pg_catalog.regclass) THEN
        IF EXISTS (
            SELECT FROM pg_catalog.unnest(ARRAY['"{{schema}}"."jobs_queue"'::pg_catalog.regclass, '"{{schema}}"."jobs_start"'::pg_catalog.regclass, '"{{schema}}"."jobs_slot"'::pg_catalog.regclass]) AS s (id)
            WHERE (SELECT bool_or(p.polname = 'txwork_read') AND bool_and(p.polpermissive) FROM pg_catalog.pg_policy AS p
                WHERE p.polrelid = s.id) IS NOT TRUE)
        THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs_queue or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
        END IF;
    END IF;
    SELECT q.* INTO rule FROM "{{schema}}"."jobs_queue" AS q WHERE q.name = $1;
    IF rule.paused THEN
        RETURN QUERY SELECT 0, pause, true, 'paused';
        RETURN;
    END IF;
    IF rule.max_running IS NULL AND rule.rate IS NULL THEN
        RETURN QUERY SELECT $2, pause, false, NULL;
        RETURN;
    END IF;

    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'claims of queue % need READ COMMITTED, because it has a limit: the transaction is %',
            $1, current_setting('transaction_isolation') USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF rule.max_running IS NOT NULL THEN
        SELECT least(n, rule.max_running - count(*)) INTO n FROM "{{schema}}"."jobs_slot" AS s WHERE s.queue = $1;
        IF n < $2 THEN
            reason := 'limit';
        END IF;
    END IF;
    n := least(n, 64 / CASE WHEN rule.max_running IS NULL OR rule.rate IS NULL THEN 1 ELSE 2 END);
    IF rule.rate IS NOT NULL AND n > 0 THEN
        SELECT cardinality(f.starts) AS starts, f.again INTO allowed
        FROM "{{schema}}"."jobs_spans"($1, n::integer, false) AS f;
        IF allowed.starts < n THEN
            n := allowed.starts;
            pause := allowed.again;
            reason := 'rate';
        END IF;
    END IF;
    RETURN QUERY SELECT greatest(n, 0)::integer, pause, true, reason;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_admit"(text, integer) FROM PUBLIC;

-- Locks up to want free permits of a queue with a limit of running jobs, and returns them. NULL is one that was free,
-- and has been taken before it was locked. If the queue has no such limit, the result is NULL.
--
-- The permits are the numbers from 1 to the limit. A running job has one, by its slot. Until the slot of a job that is
-- being claimed is visible, an advisory lock on its number stands for it, so claims never wait for each other, and a
-- claim whose transaction stays open holds back only what it has taken. The slots are looked at once more after the
-- numbers are locked, by a separate statement, so its snapshot (READ COMMITTED) includes those of all claims that had
-- them before. A settle deletes its slot without a lock: until it commits, the slot still counts.
--
-- Jobs that ran before there was a limit have a slot without a number, and others a number beyond a limit that was
-- lowered. As many of the highest numbers stay unused: only those up to edge are given out, where edge and the slots
-- beyond it are no more than the limit. Claims have different edges if slots are given back meanwhile, and the limit
-- still holds: no claim adds a slot beyond the greatest edge, and up to it each number has one.
CREATE FUNCTION "{{schema}}"."jobs_permit"(queue text, want integer) RETURNS integer[]
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
    most integer;
    edge integer;
    beyond integer;
    taken integer[];
    numbers integer[];
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs_queue"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_start"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_slot"'::pg_catalog.regclass) THEN
        IF EXISTS (
            SELECT FROM pg_catalog.unnest(ARRAY['"{{schema}}"."jobs_queue"'::pg_catalog.regclass, '"{{schema}}"."jobs_start"'::pg_catalog.regclass, '"{{schema}}"."jobs_slot"'::pg_catalog.regclass]) AS s (id)
            WHERE (SELECT bool_or(p.polname = 'txwork_read') AND bool_and(p.polpermissive) FROM pg_catalog.pg_policy AS p
                WHERE p.polrelid = s.id) IS NOT TRUE)
        THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs_queue or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
        END IF;
    END IF;
    SELECT q.max_running INTO most FROM "{{schema}}"."jobs_queue" AS q WHERE q.name = $1;
    IF most IS NULL THEN
        RETURN NULL;
    END IF;
    taken := ARRAY(SELECT s.permit FROM "{{schema}}"."jobs_slot" AS s WHERE s.queue = $1);
    edge := most;
    LOOP
        beyond := (SELECT count(*) FROM unnest(taken) AS u (number) WHERE (u.number <= edge) IS NOT TRUE);
        EXIT WHEN edge <= most - beyond;
        edge := most - beyond;
    END LOOP;
    numbers := ARRAY(
        SELECT f.number
        FROM (
            SELECT g.number
            FROM (SELECT generate_series(1, edge) AS number) AS g -- not in FROM, where all would be computed
            WHERE g.number NOT IN (SELECT u.number FROM unnest(taken) AS u (number) WHERE u.number IS NOT NULL)
            OFFSET 0) AS f
        WHERE pg_try_advisory_xact_lock(hashtextextended('{{schema}}.jobs queue ' || $1, f.number))
        LIMIT $2);
    RETURN ARRAY(
        SELECT CASE WHEN NOT EXISTS (SELECT FROM "{{schema}}"."jobs_slot" AS s WHERE s.queue = $1 AND s.permit = u.number)
            THEN u.number END
        FROM unnest(numbers) AS u (number));
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_permit"(text, integer) FROM PUBLIC;

-- Takes slots and starts for the jobs that this transaction has claimed after calling admit, starts and permit. The
-- jobs' rows are locked already. A job that still has a slot keeps it. If the queue has got a limit since permit was
-- called, the slots have no number, as those of jobs that ran before.
--
-- Of the starts that have ceased to matter it deletes the newest ones, so that it reads few rows, even where a snapshot
-- that is held keeps all that were ever deleted. slot_sweep deletes the others.
CREATE FUNCTION "{{schema}}"."jobs_take"(
    queue text, owner_token uuid, ids uuid[], permits integer[], starts bigint[]
) RETURNS void
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
    old bigint;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs_queue"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_start"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_slot"'::pg_catalog.regclass) THEN
        IF EXISTS (
            SELECT FROM pg_catalog.unnest(ARRAY['"{{schema}}"."jobs_queue"'::pg_catalog.regclass, '"{{schema}}"."jobs_start"'::pg_catalog.regclass, '"{{schema}}"."jobs_slot"'::pg_catalog.regclass]) AS s (id)
            WHERE (SELECT bool_or(p.polname = 'txwork_read') AND bool_and(p.polpermissive) FROM pg_catalog.pg_policy AS p
                WHERE p.polrelid = s.id) IS NOT TRUE)
        THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs_queue or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
        END IF;
    END IF;
    SELECT q.* INTO rule FROM "{{schema}}"."jobs_queue" AS q WHERE q.name = $1;
    IF rule.max_running IS NOT NULL THEN
        INSERT INTO "{{schema}}"."jobs_slot" (job_id, queue, permit)
        SELECT u.id, $1, u.permit FROM unnest($3, array_remove($4, NULL)) AS u (id, permit) WHERE u.id IS NOT NULL
        ON CONFLICT (job_id) DO NOTHING;
        UPDATE "{{schema}}"."jobs" AS t SET slot = true WHERE t.id = ANY ($3) AND t.slot IS NOT TRUE;
    END IF;
    IF rule.rate IS NOT NULL THEN
        INSERT INTO "{{schema}}"."jobs_start" (queue, at, job_id, owner_token)
        SELECT $1, u.at, u.id, $2
        FROM unnest($3, array_remove($5, NULL)) AS u (id, at)
        WHERE u.id IS NOT NULL AND u.at IS NOT NULL;
        old := (floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint - least((rule.burst - 1) * ceil(1000000 / rule.rate::numeric), 4e18)::bigint - ceil(1000000 / rule.rate::numeric)::bigint - 10000000);
        DELETE FROM "{{schema}}"."jobs_start" AS d
        WHERE d.ctid = ANY (ARRAY(
            SELECT s.ctid
            FROM "{{schema}}"."jobs_start" AS s
            WHERE s.queue = $1 AND s.at >= old - 256 * ceil(1000000 / rule.rate::numeric)::bigint AND s.at < old
            LIMIT 256
            FOR UPDATE SKIP LOCKED));
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_take"(text, uuid, uuid[], integer[], bigint[]) FROM PUBLIC;

-- Gives starts of a queue back: jobs were claimed with an owner token, and put back before they started. The settle
-- that puts them back calls it. Starts of one claim are alike, so as many of the newest of them are deleted: what is
-- left is as if the claim had taken fewer. It waits for nobody, and those that another settle is giving back are passed
-- over. Only the newest starts of the queue are looked at. A role that does not see the queue's rule gives nothing
-- back: the settle must not fail. Workers that wait for a start are notified.
CREATE FUNCTION "{{schema}}"."jobs_give_start"(queue text, owner_token uuid, ids uuid[]) RETURNS void
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
    SELECT q.* INTO rule FROM "{{schema}}"."jobs_queue" AS q WHERE q.name = $1 AND q.rate IS NOT NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    DELETE FROM "{{schema}}"."jobs_start" AS d
    WHERE d.ctid = ANY (ARRAY(
        SELECT s.ctid
        FROM "{{schema}}"."jobs_start" AS s
        WHERE s.queue = $1
          AND s.at = ANY (ARRAY(
              SELECT m.at
              FROM (
                  SELECT r.at, r.owner_token
                  FROM "{{schema}}"."jobs_start" AS r
                  WHERE r.queue = $1 AND r.at >= (floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint - least((rule.burst - 1) * ceil(1000000 / rule.rate::numeric), 4e18)::bigint - ceil(1000000 / rule.rate::numeric)::bigint - 10000000)
                  ORDER BY r.at DESC
                  LIMIT 10000) AS m
              WHERE m.owner_token = $2))
          AND s.owner_token = $2
        ORDER BY s.at DESC
        LIMIT cardinality($3)
        FOR UPDATE SKIP LOCKED));
    IF FOUND THEN
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END);
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_give_start"(text, uuid, uuid[]) FROM PUBLIC;

-- Gives a job's slot back when the job is no longer in progress, after a settle, a reap or a deletion. It deletes a row
-- that no other transaction changes, so it never waits. Workers that wait for room are notified when it commits. It
-- runs with its owner's rights, so that nobody else need be able to free slots.
CREATE FUNCTION "{{schema}}"."jobs_give_slot"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
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
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END);
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

-- Reconciles the slots with the jobs and deletes old starts, a bounded number at a time, and returns how many of both
-- it removed.
--
-- When a queue gets a limit, it may have running jobs without a slot. This gives them slots, for as long after the
-- change as workers that do not know of it yet may still claim. Jobs that are being settled are skipped.
--
-- Starts that no rate asks for any more are deleted, and those more than a day ahead, which a clock that was set wrong
-- has left.
--
-- A slot without its job is freed: the job was changed while the triggers were bypassed. A slot is freed only when it
-- is older than any statement that might still see the job's previous state.
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
    old integer := 0;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_queue"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_start"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_slot"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($1 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
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

    FOR rule IN
        WITH RECURSIVE named AS (
            (SELECT s.queue AS name FROM "{{schema}}"."jobs_start" AS s ORDER BY s.queue LIMIT 1)
            UNION ALL
            SELECT (SELECT s.queue FROM "{{schema}}"."jobs_start" AS s WHERE s.queue > n.name ORDER BY s.queue LIMIT 1)
            FROM named AS n
            WHERE n.name IS NOT NULL
        )
        SELECT n.name, CASE WHEN q.rate IS NULL THEN 9223372036854775807 ELSE (floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint - least((q.burst - 1) * ceil(1000000 / q.rate::numeric), 4e18)::bigint - ceil(1000000 / q.rate::numeric)::bigint - 10000000) END AS old
        FROM named AS n
        LEFT JOIN "{{schema}}"."jobs_queue" AS q ON q.name = n.name
        WHERE n.name IS NOT NULL
    LOOP
        DELETE FROM "{{schema}}"."jobs_start" AS d
        WHERE d.ctid = ANY (ARRAY(
            SELECT s.ctid
            FROM "{{schema}}"."jobs_start" AS s
            WHERE s.queue = rule.name AND s.at < rule.old
            LIMIT $1
            FOR UPDATE SKIP LOCKED) || ARRAY(
            SELECT s.ctid
            FROM "{{schema}}"."jobs_start" AS s
            WHERE s.queue = rule.name
              AND s.at > extract(epoch FROM clock_timestamp() + interval '1 day')::bigint * 1000000
            LIMIT $1
            FOR UPDATE SKIP LOCKED));
        GET DIAGNOSTICS given = ROW_COUNT;
        old := old + given;
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
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END);
    END IF;
    RETURN given + old;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_slot_sweep"(integer) FROM PUBLIC;

-- Makes policies of the side tables that follow those of the jobs, if the table of jobs has row-level security, and
-- takes them away if it has none. For the owner of the tables, who calls it after each change of that.
--
-- Attempts and steps are seen by those who see their job; only a trigger writes attempts. A limit counts the jobs of
-- all, so its rules, starts and slots are seen by all. Only who sees all rows changes rules. Slots and starts are taken
-- for jobs that the role sees in progress, and starts are given back for jobs that it sees.
CREATE FUNCTION "{{schema}}"."jobs_policies"() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $txwork$
BEGIN
    DROP POLICY IF EXISTS txwork_read ON "{{schema}}"."jobs_attempt";
    DROP POLICY IF EXISTS txwork_all ON "{{schema}}"."jobs_step";
    DROP POLICY IF EXISTS txwork_read ON "{{schema}}"."jobs_queue";
    DROP POLICY IF EXISTS txwork_read ON "{{schema}}"."jobs_slot";
    DROP POLICY IF EXISTS txwork_insert ON "{{schema}}"."jobs_slot";
    DROP POLICY IF EXISTS txwork_read ON "{{schema}}"."jobs_start";
    DROP POLICY IF EXISTS txwork_insert ON "{{schema}}"."jobs_start";
    DROP POLICY IF EXISTS txwork_update ON "{{schema}}"."jobs_start";
    DROP POLICY IF EXISTS txwork_delete ON "{{schema}}"."jobs_start";
    IF NOT (SELECT c.relrowsecurity FROM pg_class AS c WHERE c.oid = '"{{schema}}"."jobs"'::regclass) THEN
        ALTER TABLE "{{schema}}"."jobs_attempt" DISABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."jobs_step" DISABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."jobs_queue" DISABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."jobs_slot" DISABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."jobs_start" DISABLE ROW LEVEL SECURITY;
        RETURN;
    END IF;
    ALTER TABLE "{{schema}}"."jobs_attempt" ENABLE ROW LEVEL SECURITY;
    ALTER TABLE "{{schema}}"."jobs_step" ENABLE ROW LEVEL SECURITY;
    ALTER TABLE "{{schema}}"."jobs_queue" ENABLE ROW LEVEL SECURITY;
    ALTER TABLE "{{schema}}"."jobs_slot" ENABLE ROW LEVEL SECURITY;
    ALTER TABLE "{{schema}}"."jobs_start" ENABLE ROW LEVEL SECURITY;

    CREATE POLICY txwork_read ON "{{schema}}"."jobs_attempt" FOR SELECT
        USING (EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = "{{schema}}"."jobs_attempt".job_id));
    CREATE POLICY txwork_all ON "{{schema}}"."jobs_step"
        USING (EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = "{{schema}}"."jobs_step".job_id));

    CREATE POLICY txwork_read ON "{{schema}}"."jobs_queue" FOR SELECT USING (true);
    CREATE POLICY txwork_read ON "{{schema}}"."jobs_slot" FOR SELECT USING (true);
    CREATE POLICY txwork_insert ON "{{schema}}"."jobs_slot" FOR INSERT WITH CHECK (
        EXISTS (SELECT FROM "{{schema}}"."jobs" AS t
            WHERE t.id = "{{schema}}"."jobs_slot".job_id AND t.status = 1 AND t.queue = "{{schema}}"."jobs_slot".queue));
    CREATE POLICY txwork_read ON "{{schema}}"."jobs_start" FOR SELECT USING (true);
    CREATE POLICY txwork_insert ON "{{schema}}"."jobs_start" FOR INSERT WITH CHECK (
        EXISTS (SELECT FROM "{{schema}}"."jobs" AS t
            WHERE t.id = "{{schema}}"."jobs_start".job_id AND t.status = 1 AND t.queue = "{{schema}}"."jobs_start".queue));
    CREATE POLICY txwork_update ON "{{schema}}"."jobs_start" FOR UPDATE
        USING (EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = "{{schema}}"."jobs_start".job_id));
    CREATE POLICY txwork_delete ON "{{schema}}"."jobs_start" FOR DELETE
        USING (EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = "{{schema}}"."jobs_start".job_id));
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_policies"() FROM PUBLIC;

-- What a handler in another language does with its job while it holds the job's lease. Each function is guarded by the
-- id and the owner token, as the settles are. A job that is lost is an error, SQLSTATE TXL01, but in put_step, which
-- says so.

-- The recorded steps of a job.
CREATE FUNCTION "{{schema}}"."jobs_steps"(owner_token uuid, id uuid) RETURNS TABLE (name text, result bytea)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $txwork$
#variable_conflict use_column
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Give the token of the claim.';
    END IF;
    IF ($2 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'id',
            MESSAGE = 'id must not be NULL',
            HINT = 'Give the id of the job.';
    END IF;
    IF NOT EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = $2 AND t.owner_token = $1 AND t.status = 1) THEN
        RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'id',
            MESSAGE = format('id is of a job of {{schema}}.jobs that the claim does not hold: %s', $2),
            HINT = 'Roll back: another worker has the job, or it has ended. Do no more for it.';
    END IF;
    RETURN QUERY
    WITH job AS MATERIALIZED (
        SELECT t.id, t.trail FROM "{{schema}}"."jobs" AS t WHERE t.id = $2::uuid
    ), forgotten AS (
        DELETE FROM "{{schema}}"."jobs_step" AS d USING job WHERE d.job_id = job.id AND NOT job.trail
    )
    SELECT s.name, s.result FROM "{{schema}}"."jobs_step" AS s JOIN job ON s.job_id = job.id AND job.trail;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_steps"(uuid, uuid) FROM PUBLIC;

-- Records a step: put, or kept if the step is on record, whose result is then the one that was recorded first.
CREATE FUNCTION "{{schema}}"."jobs_put_step"(owner_token uuid, id uuid, name text, value bytea)
RETURNS TABLE (result text, recorded bytea)
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
    held boolean;
    put boolean;
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Give the token of the claim.';
    END IF;
    IF ($2 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'id',
            MESSAGE = 'id must not be NULL',
            HINT = 'Give the id of the job.';
    END IF;
    IF (octet_length($3) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'name',
            MESSAGE = 'name must have 1 to 255 bytes',
            HINT = 'Name the step, differently from the other steps of the job.';
    END IF;
    IF (octet_length($4) <= 1048576) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'value',
            MESSAGE = 'value must not be NULL, and have at most 1048576 bytes',
            HINT = 'Keep larger data elsewhere, and its address here.';
    END IF;
    DELETE FROM "{{schema}}"."jobs_step" AS s -- those that a Replace has made void
    WHERE s.job_id = $2 AND EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = $2 AND t.owner_token = $1 AND t.status = 1 AND NOT t.trail);
    WITH held AS (
        UPDATE "{{schema}}"."jobs" AS t
        SET trail = true
        WHERE t.id = $2::uuid AND t.owner_token = $1::uuid AND t.status = 1
        RETURNING t.id
    ), put AS (
        INSERT INTO "{{schema}}"."jobs_step" AS s (job_id, name, result)
        SELECT held.id, $3::text, $4::bytea FROM held
        ON CONFLICT (job_id, name) DO NOTHING
        RETURNING s.job_id
    )
    SELECT EXISTS (SELECT FROM held), EXISTS (SELECT FROM put) INTO held, put;
    IF NOT held THEN
        RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'id',
            MESSAGE = format('id is of a job of {{schema}}.jobs that the claim does not hold: %s', $2),
            HINT = 'Roll back: another worker has the job, or it has ended. Do no more for it.';
    ELSIF put THEN
        RETURN QUERY SELECT 'put', $4;
    ELSE
        RETURN QUERY SELECT 'kept', s.result FROM "{{schema}}"."jobs_step" AS s WHERE s.job_id = $2 AND s.name = $3;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_put_step"(uuid, uuid, text, bytea) FROM PUBLIC;

-- Says how far the job is, in per cent.
CREATE FUNCTION "{{schema}}"."jobs_progress"(
    owner_token uuid, id uuid, percent integer, note text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $txwork$
#variable_conflict use_column
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Give the token of the claim.';
    END IF;
    IF ($2 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'id',
            MESSAGE = 'id must not be NULL',
            HINT = 'Give the id of the job.';
    END IF;
    IF ($3 BETWEEN 0 AND 100) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'percent',
            MESSAGE = 'percent must be between 0 and 100',
            HINT = 'Give per cent.';
    END IF;
    IF ($4 IS NULL OR octet_length($4) <= 1024) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'note',
            MESSAGE = 'note must have at most 1024 bytes',
            HINT = 'Shorten it.';
    END IF;
    UPDATE "{{schema}}"."jobs" AS t
    SET progress = $3::smallint,
        progress_note = $4::text
    WHERE t.id = $2::uuid AND t.owner_token = $1::uuid AND t.status = 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'id',
            MESSAGE = format('id is of a job of {{schema}}.jobs that the claim does not hold: %s', $2),
            HINT = 'Roll back: another worker has the job, or it has ended. Do no more for it.';
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_progress"(uuid, uuid, integer, text) FROM PUBLIC;

-- Records the job's output, in the place of one that was recorded before.
CREATE FUNCTION "{{schema}}"."jobs_output"(owner_token uuid, id uuid, output bytea) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $txwork$
#variable_conflict use_column
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Give the token of the claim.';
    END IF;
    IF ($2 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'id',
            MESSAGE = 'id must not be NULL',
            HINT = 'Give the id of the job.';
    END IF;
    IF (octet_length($3) <= 1048576) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'output',
            MESSAGE = 'output must not be NULL, and have at most 1048576 bytes',
            HINT = 'Keep larger data elsewhere, and its address here.';
    END IF;
    UPDATE "{{schema}}"."jobs" AS t
    SET output = $3::bytea
    WHERE t.id = $2::uuid AND t.owner_token = $1::uuid AND t.status = 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'id',
            MESSAGE = format('id is of a job of {{schema}}.jobs that the claim does not hold: %s', $2),
            HINT = 'Roll back: another worker has the job, or it has ended. Do no more for it.';
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_output"(uuid, uuid, bytea) FROM PUBLIC;

-- InProgress -> Done, with the job's output; NULL is none, or the one that is recorded. A repetition after a lost reply
-- finds what the first call left, and is no error.
CREATE FUNCTION "{{schema}}"."jobs_complete"(owner_token uuid, id uuid, output bytea) RETURNS void
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
    done uuid;
BEGIN
    IF ($1 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Give the token of the claim.';
    END IF;
    IF ($2 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'id',
            MESSAGE = 'id must not be NULL',
            HINT = 'Give the id of the job.';
    END IF;
    IF $3 IS NOT NULL THEN
        IF (octet_length($3) <= 1048576) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'output',
            MESSAGE = 'output must not be NULL, and have at most 1048576 bytes',
            HINT = 'Keep larger data elsewhere, and its address here.';
    END IF;
    UPDATE "{{schema}}"."jobs" AS t
    SET output = $3::bytea
    WHERE t.id = $2::uuid AND t.owner_token = $1::uuid AND t.status = 1;
    END IF;
    UPDATE "{{schema}}"."jobs" AS t
    SET status = 2,
        completed_at = clock_timestamp(),
        locked_until = NULL,
        "unique_key" = CASE WHEN t."unique_states" & 4 > 0 THEN t."unique_key" END
    WHERE t.id = ANY (ARRAY[$2]::uuid[]) AND t.owner_token = $1::uuid AND coalesce(t.status = 1, false)
    RETURNING t.id INTO done;
    IF done IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'id',
            MESSAGE = format('id is of a job of {{schema}}.jobs that the claim does not hold: %s', $2),
            HINT = 'Roll back: another worker has the job, or it has ended. Do no more for it.';
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_complete"(uuid, uuid, bytea) FROM PUBLIC;

-- The same for a value of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."jobs_put_step"(owner_token uuid, id uuid, name text, value text) RETURNS TABLE (result text, recorded bytea)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    RETURN QUERY SELECT p.result, p.recorded FROM "{{schema}}"."jobs_put_step"($1, $2, $3, convert_to($4::text, 'UTF8')) AS p;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_put_step"(uuid, uuid, text, text) FROM PUBLIC;

-- The same for a value of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."jobs_output"(owner_token uuid, id uuid, output text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    PERFORM "{{schema}}"."jobs_output"($1, $2, convert_to($3::text, 'UTF8'));
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_output"(uuid, uuid, text) FROM PUBLIC;

-- The same for a value of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."jobs_complete"(owner_token uuid, id uuid, output text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    PERFORM "{{schema}}"."jobs_complete"($1, $2, convert_to($3::text, 'UTF8'));
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_complete"(uuid, uuid, text) FROM PUBLIC;

-- The same for a value of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."jobs_put_step"(owner_token uuid, id uuid, name text, value json) RETURNS TABLE (result text, recorded bytea)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    RETURN QUERY SELECT p.result, p.recorded FROM "{{schema}}"."jobs_put_step"($1, $2, $3, convert_to($4::text, 'UTF8')) AS p;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_put_step"(uuid, uuid, text, json) FROM PUBLIC;

-- The same for a value of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."jobs_output"(owner_token uuid, id uuid, output json) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    PERFORM "{{schema}}"."jobs_output"($1, $2, convert_to($3::text, 'UTF8'));
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_output"(uuid, uuid, json) FROM PUBLIC;

-- The same for a value of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."jobs_complete"(owner_token uuid, id uuid, output json) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    PERFORM "{{schema}}"."jobs_complete"($1, $2, convert_to($3::text, 'UTF8'));
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_complete"(uuid, uuid, json) FROM PUBLIC;

-- The same for a value of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."jobs_put_step"(owner_token uuid, id uuid, name text, value jsonb) RETURNS TABLE (result text, recorded bytea)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    RETURN QUERY SELECT p.result, p.recorded FROM "{{schema}}"."jobs_put_step"($1, $2, $3, convert_to($4::text, 'UTF8')) AS p;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_put_step"(uuid, uuid, text, jsonb) FROM PUBLIC;

-- The same for a value of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."jobs_output"(owner_token uuid, id uuid, output jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    PERFORM "{{schema}}"."jobs_output"($1, $2, convert_to($3::text, 'UTF8'));
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_output"(uuid, uuid, jsonb) FROM PUBLIC;

-- The same for a value of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."jobs_complete"(owner_token uuid, id uuid, output jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    PERFORM "{{schema}}"."jobs_complete"($1, $2, convert_to($3::text, 'UTF8'));
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_complete"(uuid, uuid, jsonb) FROM PUBLIC;

-- Pauses a queue, ends its pause, or replaces its limits, as Client.Pause, Resume and SetLimits do. The caller has to
-- see all rows, since a rule is for the jobs of all.
CREATE FUNCTION "{{schema}}"."jobs_pause"(queue text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_queue"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_start"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_slot"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (octet_length($1) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'queue',
            MESSAGE = 'queue must have 1 to 255 bytes',
            HINT = 'Give the queue''s name.';
    END IF;
    INSERT INTO "{{schema}}"."jobs_queue" AS q (name, paused) VALUES ($1::text, true::boolean)
    ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, changed_at = clock_timestamp();
END
$txwork$;

CREATE FUNCTION "{{schema}}"."jobs_resume"(queue text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_queue"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_start"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_slot"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (octet_length($1) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'queue',
            MESSAGE = 'queue must have 1 to 255 bytes',
            HINT = 'Give the queue''s name.';
    END IF;
    INSERT INTO "{{schema}}"."jobs_queue" AS q (name, paused) VALUES ($1::text, false::boolean)
    ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, changed_at = clock_timestamp();
END
$txwork$;

-- NULL is no limit. A burst that is not given is the starts of one second.
CREATE FUNCTION "{{schema}}"."jobs_limit"(
    queue text, max_running integer DEFAULT NULL, rate double precision DEFAULT NULL, burst integer DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_queue"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_start"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_slot"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (octet_length($1) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'queue',
            MESSAGE = 'queue must have 1 to 255 bytes',
            HINT = 'Give the queue''s name.';
    END IF;
    IF ($2 IS NULL OR $2 >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_running',
            MESSAGE = 'max_running must be at least 1',
            HINT = 'NULL is no limit.';
    END IF;
    IF ($3 IS NULL OR $3 BETWEEN 1e-09 AND 1e+09) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rate',
            MESSAGE = 'rate must be between 1e-09 and 1e+09',
            HINT = 'Give starts a second; NULL is no limit.';
    END IF;
    IF ($4 IS NULL OR $4 >= 1 AND $3 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'burst',
            MESSAGE = 'burst must be at least 1, and needs a rate',
            HINT = 'NULL is the starts of one second.';
    END IF;
    $4 := CASE WHEN $3 IS NOT NULL THEN coalesce($4, greatest(1, ceil(least($3, 2147483647)))::integer) END;
    INSERT INTO "{{schema}}"."jobs_queue" AS q (name, max_running, rate, burst, adopt)
    VALUES ($1::text, $2::integer, $3::float8, $4::integer, $2::integer IS NOT NULL)
    ON CONFLICT (name) DO UPDATE
    SET max_running = excluded.max_running,
        rate = excluded.rate,
        burst = excluded.burst,
        adopt = excluded.adopt AND (q.adopt OR q.max_running IS NULL),
        changed_at = clock_timestamp();
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_pause"(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_resume"(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_limit"(text, integer, double precision, integer) FROM PUBLIC;

-- A join counts how its members settle. Every UPDATE except the one that ends the join is heap-only, since it sets no
-- indexed column: a join with many members updates one row often.
--
-- Only folds count members and end joins, see join_fold. Applications start, extend, cancel and purge joins, and hold
-- the join's row until they commit.
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
    deadline "{{schema}}"."jobs_time",
    label text,
    last_error text,
    created_at "{{schema}}"."jobs_time" NOT NULL DEFAULT now(),
    completed_at "{{schema}}"."jobs_time",
    look_at "{{schema}}"."jobs_time" NOT NULL DEFAULT now() + interval '1 minute', -- when the sweep looks at it
    retention interval NOT NULL, -- how long it is kept after its end
    CONSTRAINT "jobs_join_pkey" PRIMARY KEY (id),
    CONSTRAINT "jobs_join_check" CHECK (
        status BETWEEN 0 AND 3
        AND policy BETWEEN 0 AND 2
        AND (status = 0) = (completed_at IS NULL)
        AND succeeded >= 0 AND failed >= 0 AND late >= 0
        AND succeeded + failed <= expected AND late <= expected
        AND retention BETWEEN interval '0' AND interval '1000 years' -- end.sql must be able to add it to now
    )
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

COMMENT ON TABLE "{{schema}}"."jobs_join" IS 'txwork joins of {{schema}}.jobs. status: 0 pending, 1 completed, 2 failed, 3 cancelled; '
    'policy: 0 wait for all, 1 fail fast, 2 any outcome';

CREATE UNIQUE INDEX "jobs_join_done_idx" ON "{{schema}}"."jobs_join" (on_complete) WHERE on_complete IS NOT NULL;

CREATE UNIQUE INDEX "jobs_join_fail_idx" ON "{{schema}}"."jobs_join" (on_fail) WHERE on_fail IS NOT NULL;

CREATE INDEX "jobs_join_look_idx" ON "{{schema}}"."jobs_join" (look_at);

CREATE INDEX "jobs_join_end_idx" ON "{{schema}}"."jobs_join" (completed_at) WHERE completed_at IS NOT NULL;

CREATE INDEX "jobs_join_label_idx" ON "{{schema}}"."jobs_join" (label, id) WHERE label IS NOT NULL;

-- There are no foreign keys: a row may be purged, or deleted by its ack, before its membership, and every INSERT would
-- lock the join's row.
CREATE TABLE "{{schema}}"."jobs_join_member" (
    member_id uuid NOT NULL,
    join_id uuid NOT NULL,
    outcome smallint, -- 1 succeeded, 2 failed: counted while the join was pending
    late smallint,    -- the same, counted after the join had ended; 0: the row was redriven since
    CONSTRAINT "jobs_join_member_pk" PRIMARY KEY (member_id, join_id),
    CONSTRAINT "jobs_join_member_ck" CHECK (outcome IN (1, 2) AND late IN (0, 1, 2))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

CREATE INDEX "jobs_join_member_ix" ON "{{schema}}"."jobs_join_member" (join_id);

-- What a fold has to look at, once the time at is reached: a member that was settled, redriven or deleted; or a join.
-- gone is the outcome that counts if the member's row is gone by then. A note is written in the transaction of the
-- change, and deleted in the one that applies it.
CREATE TABLE "{{schema}}"."jobs_join_note" (
    at "{{schema}}"."jobs_time" NOT NULL DEFAULT clock_timestamp(),
    member_id uuid,
    gone smallint,
    join_id uuid
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Without a replica identity, PostgreSQL refuses to delete notes as soon as a publication contains the table, even if
-- that is an unrelated one FOR ALL TABLES.
ALTER TABLE "{{schema}}"."jobs_join_note" REPLICA IDENTITY FULL;

CREATE INDEX "jobs_join_note_idx" ON "{{schema}}"."jobs_join_note" (at);

-- Where the next sweep of waiting rows continues.
CREATE TABLE "{{schema}}"."jobs_join_cursor" (
    one boolean DEFAULT true,
    row_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    swept_at timestamptz NOT NULL DEFAULT '-infinity',
    CONSTRAINT "jobs_join_cursor_pk" PRIMARY KEY (one),
    CONSTRAINT "jobs_join_cursor_ck" CHECK (one)
) WITH (fillfactor = 10);

INSERT INTO "{{schema}}"."jobs_join_cursor" DEFAULT VALUES;

-- Writes a note that a member has settled, was redriven, or was deleted while it was live. It reads and locks nothing,
-- so a settle never waits for a join. It runs with its owner's rights, so that no role that settles needs any on the
-- notes.
--
-- A row that is deleted while it is live never settled. It counts as failed, even if a worker held it.
CREATE FUNCTION "{{schema}}"."jobs_join_settled"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    gone smallint := 2;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        gone := CASE WHEN NEW.completed_at IS NULL THEN NULL WHEN NEW.status = 2 THEN 1 ELSE 2 END;
    END IF;
    INSERT INTO "{{schema}}"."jobs_join_note" (member_id, gone) VALUES (OLD.id, gone);
    IF (CASE WHEN pg_catalog.current_setting('txwork.folds', true) OPERATOR(pg_catalog.=) '{{schema}}.jobs' THEN false ELSE (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) ELSE false END)
        ELSE true END) END) THEN
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_settled"() FROM PUBLIC;

CREATE TRIGGER "jobs_join_settle" AFTER UPDATE OF completed_at ON "{{schema}}"."jobs"
FOR EACH ROW WHEN ((OLD.completed_at IS NULL) <> (NEW.completed_at IS NULL) AND NEW.joined)
EXECUTE FUNCTION "{{schema}}"."jobs_join_settled"();

CREATE TRIGGER "jobs_join_delete" AFTER DELETE ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (OLD.completed_at IS NULL AND OLD.joined)
EXECUTE FUNCTION "{{schema}}"."jobs_join_settled"();

-- pending -> completed, failed or cancelled: the one place that ends a join. Without a verdict, the counts, the policy
-- and the deadline decide, and a join that is not over stays as it is. Returns how many continuations it released.
--
-- status = 0 in the UPDATE ends each join only once. The continuations change in the same transaction. They are
-- waiting, so no worker claims or settles them meanwhile. A continuation that was cancelled is left alone, and so is
-- one that was redriven after that and now waits only for its key. A session that cancels a join waits here for the
-- sessions that hold its continuations; a fold has locked all of them before.
--
-- A role from which row-level security hides rows may cancel joins whose continuations it sees, and end no others: the
-- join would end, and a continuation that it does not see would wait for ever.
--
-- The state of a continuation becomes 0, Ready, if it is released; 2, Done, for an on_fail that is not needed, as if it
-- had run and found nothing to do, since a dead letter could be redriven and would undo what succeeded; and 3, Failed
-- and cancelled, for an on_complete that will not run.
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
    released integer;
BEGIN
    IF (pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_cursor"'::pg_catalog.regclass))
        AND ($2 IS NULL OR EXISTS (
            SELECT FROM "{{schema}}"."jobs_join" AS j
            CROSS JOIN LATERAL (VALUES (j.on_complete), (j.on_fail)) AS c (id)
            WHERE j.id = ANY ($1) AND c.id IS NOT NULL AND NOT EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = c.id)))
    THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    WITH ended AS (
        UPDATE "{{schema}}"."jobs_join" AS j
        SET status = coalesce($2, CASE WHEN NOT (j.succeeded + j.failed >= j.expected OR j.failed > 0 AND j.policy = 1) OR j.failed > 0 AND j.policy <> 2 THEN 2 ELSE 1 END),
            completed_at = clock_timestamp(),
            look_at = clock_timestamp() + j.retention,
            last_error = coalesce($3, CASE
                WHEN $2 IS NULL AND NOT (j.succeeded + j.failed >= j.expected OR j.failed > 0 AND j.policy = 1) THEN 'the deadline has passed'
                WHEN j.failed > 0 AND j.policy <> 2 THEN coalesce((
                    SELECT format('%s of %s steps failed, among them %s: %s', j.failed, j.expected, m.member_id,
                                  left(coalesce(t.last_error, 'the row is gone'), 1000))
                    FROM "{{schema}}"."jobs_join_member" AS m
                    LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = m.member_id
                    WHERE m.join_id = j.id AND m.outcome = 2
                    LIMIT 1), 'nobody knows what its steps were')
            END)
        WHERE j.id = ANY ($1)
          AND j.status = 0
          AND ($2 IS NOT NULL OR ((j.succeeded + j.failed >= j.expected OR j.failed > 0 AND j.policy = 1) OR coalesce(j.deadline <= clock_timestamp(), false)))
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
               c.join_id, CASE c.status WHEN 1 THEN 'completed' WHEN 2 THEN 'failed' ELSE 'was cancelled' END,
               ': ' || c.last_error
           ) END ORDER BY c.id)
    INTO targets, states, reasons
    FROM continuation AS c;
    IF targets IS NULL THEN
        RETURN 0;
    END IF;

    WITH changed AS (
        UPDATE "{{schema}}"."jobs" AS t
        SET waiting = c.state > 0, -- a continuation that ends keeps waiting, as a cancelled row does
            status = c.state,
            -- now() and not clock_timestamp(), so that a drain inside a transaction can claim it
            due_at = CASE WHEN c.state = 0 THEN greatest(t.due_at, now()) ELSE t.due_at END,
            completed_at = CASE WHEN c.state > 0 THEN clock_timestamp() END,
            failed_at = CASE WHEN c.state = 3 THEN clock_timestamp() END,
            cancelled_at = CASE WHEN c.state > 0 THEN clock_timestamp() END,
            last_error = coalesce(c.reason, t.last_error)
        FROM unnest(targets, states, reasons) AS c (id, state, reason)
        -- CASE hides from the planner that few rows wait: it would otherwise scan the whole table to find them.
        WHERE t.id = c.id
          AND CASE WHEN t.status = 0 THEN t.waiting AND t.key_seq IS NULL ELSE false END
        RETURNING c.state
    )
    SELECT count(*) FILTER (WHERE c.state = 0) INTO released FROM changed AS c;

    IF released > 0 THEN
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', pg_catalog.concat('fold:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
    END IF;
    RETURN released;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_end"(uuid[], smallint, text) FROM PUBLIC;

-- Ends the given joins that are over, up to 300 of them, and writes notes for the rest. The caller holds the
-- joins. A join with a continuation that another session holds is tried again in half a second. careful ends the joins
-- one by one, and puts off those that the database refuses for a minute.
CREATE FUNCTION "{{schema}}"."jobs_join_finish"(ids uuid[], careful boolean) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
DECLARE
    free uuid[];
    held uuid[];
    one uuid;
    released integer := 0;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    SELECT array_agg(s.id) FILTER (WHERE s.free), array_agg(s.id) FILTER (WHERE NOT s.free)
    INTO free, held
    FROM (
        SELECT j.id,
               (SELECT count(*) FROM "{{schema}}"."jobs" AS t WHERE t.id IN (j.on_complete, j.on_fail))
               = (SELECT count(*) FROM (
                   SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id IN (j.on_complete, j.on_fail) FOR NO KEY UPDATE SKIP LOCKED
               ) AS l) AS free
        FROM (
            SELECT * FROM "{{schema}}"."jobs_join" AS j WHERE j.id = ANY ($1) AND j.status = 0 AND ((j.succeeded + j.failed >= j.expected OR j.failed > 0 AND j.policy = 1) OR coalesce(j.deadline <= clock_timestamp(), false)) LIMIT 300
        ) AS j
    ) AS s;
    IF held IS NOT NULL THEN
        INSERT INTO "{{schema}}"."jobs_join_note" (at, join_id) SELECT clock_timestamp() + interval '500 milliseconds', u.id FROM unnest(held) AS u (id);
    END IF;
    IF free IS NULL THEN
        RETURN 0;
    END IF;
    -- A role that may end no join would put all of them off.
    IF careful AND has_function_privilege('"{{schema}}"."jobs_join_end"(uuid[], smallint, text)', 'EXECUTE') THEN
        FOREACH one IN ARRAY free LOOP
            BEGIN
                released := released + "{{schema}}"."jobs_join_end"(ARRAY[one], NULL, NULL);
            EXCEPTION WHEN OTHERS THEN
                RAISE WARNING 'join % of {{schema}}.jobs cannot end: %', one, SQLERRM;
                INSERT INTO "{{schema}}"."jobs_join_note" (at, join_id) VALUES (clock_timestamp() + interval '1 minute', one);
            END;
        END LOOP;
    ELSE
        released := "{{schema}}"."jobs_join_end"(free, NULL, NULL);
    END IF;
    IF cardinality($1) > 300 THEN
        INSERT INTO "{{schema}}"."jobs_join_note" (join_id)
        SELECT j.id FROM "{{schema}}"."jobs_join" AS j
        WHERE j.id = ANY ($1) AND j.status = 0 AND ((j.succeeded + j.failed >= j.expected OR j.failed > 0 AND j.policy = 1) OR coalesce(j.deadline <= clock_timestamp(), false))
        EXCEPT SELECT u.id FROM unnest(free || held) AS u (id);
    END IF;
    RETURN released;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_finish"(uuid[], boolean) FROM PUBLIC;

-- Counts pending joins anew from their members' rows, which also repairs changes without a note, such as a restore
-- without triggers; and sums up ended joins anew. The caller holds the joins. A member whose row is gone without an
-- outcome counts as failed, unless a pending note will say how it ended. All members of a join without memberships
-- count as failed. It counts at least one join, and stops after 20000 members; for the other joins it writes
-- notes.
CREATE FUNCTION "{{schema}}"."jobs_join_recount"(ids uuid[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
DECLARE
    chosen uuid[];
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    chosen := ARRAY(
        SELECT s.id
        FROM (
            SELECT j.id, sum(j.expected::bigint) OVER (ORDER BY j.id) - j.expected AS members_before
            FROM "{{schema}}"."jobs_join" AS j
            WHERE j.id = ANY ($1)
        ) AS s
        WHERE s.members_before < 20000);
    INSERT INTO "{{schema}}"."jobs_join_note" (join_id)
    SELECT u.id FROM unnest($1) AS u (id) EXCEPT SELECT u.id FROM unnest(chosen) AS u (id);

    WITH missed AS MATERIALIZED (
        SELECT m.ctid AS place,
               CASE WHEN t.status = 2 THEN 1 WHEN t.completed_at IS NOT NULL OR t.id IS NULL THEN 2 END AS outcome
        FROM "{{schema}}"."jobs_join" AS j
        JOIN "{{schema}}"."jobs_join_member" AS m ON m.join_id = j.id
        LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = m.member_id
        WHERE j.id = ANY (chosen)
          AND j.status = 0
          AND CASE WHEN t.id IS NULL
              THEN m.outcome IS NULL
                  AND m.member_id NOT IN (SELECT n.member_id FROM "{{schema}}"."jobs_join_note" AS n WHERE n.member_id IS NOT NULL)
              ELSE m.outcome IS DISTINCT FROM CASE WHEN t.status = 2 THEN 1 WHEN t.completed_at IS NOT NULL THEN 2 END
          END
        FOR NO KEY UPDATE OF m SKIP LOCKED
    )
    UPDATE "{{schema}}"."jobs_join_member" AS m SET outcome = s.outcome FROM missed AS s WHERE m.ctid = s.place;

    UPDATE "{{schema}}"."jobs_join" AS j
    SET expected = c.expected,
        succeeded = c.succeeded,
        failed = c.failed,
        late = c.late
    FROM (
        SELECT m.join_id,
               count(*) AS expected,
               count(*) FILTER (WHERE m.outcome = 1) AS succeeded,
               count(*) FILTER (WHERE m.outcome = 2) AS failed,
               count(*) FILTER (WHERE m.late > 0) AS late
        FROM "{{schema}}"."jobs_join_member" AS m
        WHERE m.join_id = ANY (chosen)
        GROUP BY m.join_id
    ) AS c
    WHERE j.id = c.join_id
      AND (j.expected, j.succeeded, j.failed, j.late) IS DISTINCT FROM (c.expected, c.succeeded, c.failed, c.late);

    UPDATE "{{schema}}"."jobs_join" AS j
    SET succeeded = 0, failed = j.expected
    WHERE j.id = ANY (chosen)
      AND j.status = 0
      AND NOT EXISTS (SELECT FROM "{{schema}}"."jobs_join_member" AS m WHERE m.join_id = j.id);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_recount"(uuid[]) FROM PUBLIC;

-- Applies notes in batches, for about a tenth of a second. The continuations that this ends may be members of other
-- joins, and their notes come next. So a failure propagates down a graph level by level, and the next fold continues
-- where this one stops.
--
-- It reads each member's current state, so duplicate or reordered notes do no harm. If a member's row is gone, the note
-- says how it ended; a row that succeeded is never redriven, so its outcome 1 is final.
--
-- The members' rows record the outcomes, the join's row has the sums. While another session holds the join, to extend
-- or to cancel it, its members are marked all the same, and the join is counted anew in half a second.
CREATE FUNCTION "{{schema}}"."jobs_join_apply"(max_notes integer, since timestamptz, careful boolean)
RETURNS TABLE (folded integer, released integer, again double precision, upto timestamptz)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
DECLARE
    until constant timestamptz := clock_timestamp() + interval '100 milliseconds';
    upper timestamptz := clock_timestamp();
    taken integer;
    latest timestamptz;
    members uuid[];
    gone smallint[];
    asked uuid[];
    places tid[];
    known smallint[];
    joins uuid[];
    pairs bigint;
    held uuid[];
    missed uuid[];
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($1 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_notes',
            MESSAGE = 'max_notes must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    folded := 0;
    released := 0;
    LOOP
        WITH note AS (
            DELETE FROM "{{schema}}"."jobs_join_note" AS d
            WHERE d.ctid = ANY (ARRAY(
                SELECT r.ctid
                FROM "{{schema}}"."jobs_join_note" AS r
                WHERE r.at >= since AND r.at <= upper
                ORDER BY r.at
                LIMIT least(max_notes - folded, 100)
                FOR UPDATE SKIP LOCKED))
            RETURNING d.at, d.member_id, d.gone, d.join_id
        )
        SELECT count(*), max(n.at), array_agg(n.member_id), array_agg(n.gone),
               coalesce(array_agg(n.join_id) FILTER (WHERE n.join_id IS NOT NULL), '{}')
        INTO taken, latest, members, gone, asked
        FROM note AS n;
        EXIT WHEN taken = 0;
        folded := folded + taken;
        upto := greatest(upto, latest);

        SELECT coalesce(array_agg(l.place), '{}'), array_agg(l.gone), coalesce(array_agg(DISTINCT l.join_id), '{}'),
               (SELECT count(*) FROM "{{schema}}"."jobs_join_member" AS m WHERE m.member_id = ANY (members))
        INTO places, known, joins, pairs
        FROM (
            SELECT m.ctid AS place, m.join_id, n.gone
            FROM (SELECT u.id, min(u.gone) AS gone FROM unnest(members, gone) AS u (id, gone) GROUP BY u.id) AS n
            JOIN "{{schema}}"."jobs_join_member" AS m ON m.member_id = n.id
            FOR NO KEY UPDATE OF m SKIP LOCKED
        ) AS l;
        IF cardinality(places) < pairs THEN
            INSERT INTO "{{schema}}"."jobs_join_note" (at, member_id, gone)
            SELECT clock_timestamp() + interval '500 milliseconds', m.member_id, min(u.gone)
            FROM unnest(members, gone) AS u (id, gone)
            JOIN "{{schema}}"."jobs_join_member" AS m ON m.member_id = u.id
            WHERE m.ctid NOT IN (SELECT p.place FROM unnest(places) AS p (place))
            GROUP BY m.member_id;
        END IF;

        joins := joins || asked;
        missed := '{}';
        held := ARRAY(SELECT j.id FROM "{{schema}}"."jobs_join" AS j WHERE j.id = ANY (joins) FOR NO KEY UPDATE SKIP LOCKED);
        IF cardinality(held) < cardinality(joins) THEN
            missed := ARRAY(
                SELECT j.id FROM "{{schema}}"."jobs_join" AS j
                WHERE j.id = ANY (joins) AND j.id NOT IN (SELECT h.id FROM unnest(held) AS h (id)));
            INSERT INTO "{{schema}}"."jobs_join_note" (at, join_id) SELECT clock_timestamp() + interval '500 milliseconds', u.id FROM unnest(missed) AS u (id);
        END IF;

        WITH seen AS MATERIALIZED (
            SELECT p.place, m.join_id, m.outcome, m.late, j.status = 0 AS pending,
                   CASE WHEN t.id IS NULL
                        THEN least(p.gone, CASE WHEN j.status = 0 THEN m.outcome ELSE nullif(m.late, 0) END)
                        WHEN t.completed_at IS NULL THEN 0
                        WHEN t.status = 2 THEN 1
                        ELSE 2
                   END AS result
            FROM unnest(places, known) AS p (place, gone)
            JOIN "{{schema}}"."jobs_join_member" AS m ON m.ctid = p.place
            JOIN "{{schema}}"."jobs_join" AS j ON j.id = m.join_id
            LEFT JOIN "{{schema}}"."jobs" AS t ON t.id = m.member_id
        ), found AS MATERIALIZED (
            SELECT s.place, s.join_id, s.outcome AS outcome_before, s.late AS late_before,
                   CASE WHEN s.pending AND s.result IS NOT NULL THEN nullif(s.result, 0) ELSE s.outcome END AS outcome,
                   CASE WHEN s.pending OR s.result IS NULL THEN s.late
                        WHEN s.result = 0 AND s.outcome IS NULL THEN NULL
                        WHEN s.result = s.outcome AND s.late IS NULL THEN NULL -- it is counted already
                        ELSE s.result
                   END AS late
            FROM seen AS s
        ), marked AS (
            UPDATE "{{schema}}"."jobs_join_member" AS m
            SET outcome = n.outcome, late = n.late
            FROM found AS n
            WHERE m.ctid = n.place AND (n.outcome, n.late) IS DISTINCT FROM (n.outcome_before, n.late_before)
        ), sums AS (
            SELECT n.join_id,
                   count(*) FILTER (WHERE n.outcome = 1) - count(*) FILTER (WHERE n.outcome_before = 1) AS succeeded,
                   count(*) FILTER (WHERE n.outcome = 2) - count(*) FILTER (WHERE n.outcome_before = 2) AS failed,
                   count(*) FILTER (WHERE n.late > 0) - count(*) FILTER (WHERE n.late_before > 0) AS late
            FROM found AS n
            WHERE n.join_id NOT IN (SELECT u.id FROM unnest(missed) AS u (id))
            GROUP BY n.join_id
        )
        -- If there are more members than expected, or the sums do not match, someone has edited the tables by hand. A
        -- recount repairs that.
        UPDATE "{{schema}}"."jobs_join" AS j
        SET succeeded = greatest(j.succeeded + s.succeeded, 0),
            failed = greatest(j.failed + s.failed, 0),
            late = greatest(j.late + s.late, 0),
            expected = greatest(j.expected, j.succeeded + s.succeeded + j.failed + s.failed, j.late + s.late)
        FROM sums AS s
        WHERE j.id = s.join_id AND (s.succeeded <> 0 OR s.failed <> 0 OR s.late <> 0);

        IF asked <> '{}' THEN
            PERFORM "{{schema}}"."jobs_join_recount"(ARRAY(
                SELECT u.id FROM unnest(asked) AS u (id) INTERSECT SELECT h.id FROM unnest(held) AS h (id)));
        END IF;
        released := released + "{{schema}}"."jobs_join_finish"(held, careful);

        IF folded >= max_notes OR clock_timestamp() > until THEN
            again := 0;
            RETURN NEXT;
            RETURN;
        END IF;
        since := latest;
        upper := clock_timestamp();
    END LOOP;
    again := (
        SELECT extract(epoch FROM n.at - clock_timestamp()) FROM "{{schema}}"."jobs_join_note" AS n
        WHERE n.at > upper
        ORDER BY n.at
        LIMIT 1);
    RETURN NEXT;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_apply"(integer, timestamptz, boolean) FROM PUBLIC;

-- Applies the notes of settles, starts and sweeps. One folder runs at a time: it takes an advisory lock before it
-- reads, and each later statement sees what the previous folder committed. It never waits for a lock: rows that another
-- session holds are tried again in half a second.
--
-- Returns how many notes it took, how many continuations it released, in how many seconds the next note is due, and the
-- time of the latest note that it took. All are NULL if another session folds, or if this transaction would not see
-- what that one commits. If the database refuses to end a join, for instance by a trigger of yours on {{schema}}.jobs, the
-- other joins still end.
CREATE FUNCTION "{{schema}}"."jobs_join_fold"(max_notes integer, since timestamptz DEFAULT '-infinity')
RETURNS TABLE (folded integer, released integer, again double precision, upto timestamptz)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_indexscan = on
SET enable_nestloop = on
SET enable_sort = on
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (max_notes BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_notes',
            MESSAGE = 'max_notes must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' OR NOT pg_try_advisory_xact_lock(hashtextextended('{{schema}}.jobs join_fold', 0)) THEN
        RETURN NEXT;
        RETURN;
    END IF;
    BEGIN
        RETURN QUERY SELECT * FROM "{{schema}}"."jobs_join_apply"(max_notes, since, false);
    EXCEPTION WHEN OTHERS THEN
        RETURN QUERY SELECT * FROM "{{schema}}"."jobs_join_apply"(max_notes, since, true);
    END;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_fold"(integer, timestamptz) FROM PUBLIC;

-- Deletes up to max_members members of the joins, and then the joins that have none left. Returns how many joins it
-- deleted. Members that another session holds locked are skipped, and their joins stay. The caller holds the joins'
-- rows FOR UPDATE.
CREATE FUNCTION "{{schema}}"."jobs_join_forget"(ids uuid[], max_members integer) RETURNS integer
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
    forgotten integer;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    DELETE FROM "{{schema}}"."jobs_join_member" AS m
    WHERE m.ctid = ANY (ARRAY(
        SELECT r.ctid FROM "{{schema}}"."jobs_join_member" AS r WHERE r.join_id = ANY ($1) LIMIT $2 FOR UPDATE SKIP LOCKED));
    DELETE FROM "{{schema}}"."jobs_join" AS j
    WHERE j.id = ANY ($1) AND NOT EXISTS (SELECT FROM "{{schema}}"."jobs_join_member" AS m WHERE m.join_id = j.id);
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    RETURN forgotten;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_forget"(uuid[], integer) FROM PUBLIC;

-- Deletes up to max_rows joins that ended longer ago than age, oldest first. A join is kept while a continuation may
-- still read it.
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
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($2 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    RETURN "{{schema}}"."jobs_join_forget"(ARRAY(
        SELECT j.id
        FROM "{{schema}}"."jobs_join" AS j
        WHERE j.completed_at IS NOT NULL AND j.completed_at < now() - $1 AND NOT EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id IN (j.on_complete, j.on_fail) AND t.status <> 2)
        ORDER BY j.completed_at
        LIMIT $2
        FOR UPDATE SKIP LOCKED), NULL);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_purge"(interval, integer) FROM PUBLIC;

-- Ready -> Failed for rows that wait for a join which is gone, as after a restore without the table of joins. How the
-- join would have ended is unknown, so the rows become dead letters that an operator can redrive. A row is left alone
-- for a quarter of an hour, so that its join can be started.
--
-- Each call looks at some of the waiting rows, beginning where the last call stopped, at most every five seconds.
-- Returns how many rows it ended.
CREATE FUNCTION "{{schema}}"."jobs_join_strand"(max_rows integer) RETURNS integer
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
    most CONSTANT integer := least(max_rows, 1000);
    place uuid;
    looked uuid[];
    held uuid[];
    stranded integer;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($1 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    SELECT c.row_id INTO place FROM "{{schema}}"."jobs_join_cursor" AS c
    WHERE c.swept_at NOT BETWEEN clock_timestamp() - interval '5 seconds' AND clock_timestamp()
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        IF NOT EXISTS (SELECT FROM "{{schema}}"."jobs_join_cursor") THEN -- the table was truncated
            INSERT INTO "{{schema}}"."jobs_join_cursor" DEFAULT VALUES ON CONFLICT DO NOTHING;
        END IF;
        RETURN 0; -- another session sweeps, or has swept in the last five seconds
    END IF;
    looked := ARRAY(
        SELECT t.id FROM "{{schema}}"."jobs" AS t
        WHERE t.completed_at IS NULL AND t.waiting AND t.id > place
        ORDER BY t.id
        LIMIT most);
    UPDATE "{{schema}}"."jobs_join_cursor" AS c -- if there were fewer rows than most, the next call starts over
    SET row_id = coalesce(looked[most], '00000000-0000-0000-0000-000000000000'), swept_at = clock_timestamp();

    held := ARRAY(
        SELECT t.id FROM "{{schema}}"."jobs" AS t
        WHERE t.id = ANY (looked) AND t.completed_at IS NULL AND t.waiting AND t.key_seq IS NULL AND t.created_at < now() - interval '15 minutes' AND NOT EXISTS (SELECT FROM "{{schema}}"."jobs_join" AS j WHERE j.on_complete = t.id) AND NOT EXISTS (SELECT FROM "{{schema}}"."jobs_join" AS j WHERE j.on_fail = t.id)
        FOR NO KEY UPDATE SKIP LOCKED);
    UPDATE "{{schema}}"."jobs" AS t
    SET status = 3,
        completed_at = clock_timestamp(),
        failed_at = clock_timestamp(),
        last_error = 'waited for a join that is gone'
    WHERE t.id = ANY (held) AND t.completed_at IS NULL AND t.waiting AND t.key_seq IS NULL AND t.created_at < now() - interval '15 minutes' AND NOT EXISTS (SELECT FROM "{{schema}}"."jobs_join" AS j WHERE j.on_complete = t.id) AND NOT EXISTS (SELECT FROM "{{schema}}"."jobs_join" AS j WHERE j.on_fail = t.id); -- again: a join may have been started before the row was locked
    GET DIAGNOSTICS stranded = ROW_COUNT;
    RETURN stranded;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_strand"(integer) FROM PUBLIC;

-- Repairs and cleans up without notes: it has pending joins counted anew, which repairs a stranded one; deletes ended
-- joins after their retention, up to 20000 members at a time; and ends rows whose join is gone. A join that a
-- continuation may still read is kept, and looked at again in an hour. Returns how many joins and rows it handled.
--
-- One index finds the joins to look at: pending ones at an age of one minute, two, four and so on, at least every
-- quarter of an hour. Rows that another session holds are left to the next sweep.
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
    needed uuid[];
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (max_rows BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    SELECT array_agg(l.id) FILTER (WHERE l.status = 0),
           array_agg(l.id) FILTER (WHERE l.status <> 0 AND NOT EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id IN (l.on_complete, l.on_fail) AND t.status <> 2)),
           array_agg(l.id) FILTER (WHERE l.status <> 0 AND EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id IN (l.on_complete, l.on_fail) AND t.status <> 2))
    INTO pending, ended, needed
    FROM (
        SELECT j.id, j.status, j.on_complete, j.on_fail
        FROM "{{schema}}"."jobs_join" AS j
        WHERE j.look_at <= now()
        ORDER BY j.look_at
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    ) AS l;
    IF pending IS NOT NULL THEN
        INSERT INTO "{{schema}}"."jobs_join_note" (join_id) SELECT u.id FROM unnest(pending) AS u (id);
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
        UPDATE "{{schema}}"."jobs_join" AS j
        SET look_at = now() + least(greatest(now() - j.created_at, interval '1 minute'), interval '15 minutes')
        WHERE j.id = ANY (pending);
    END IF;
    IF needed IS NOT NULL THEN
        UPDATE "{{schema}}"."jobs_join" AS j SET look_at = now() + interval '1 hour' WHERE j.id = ANY (needed);
    END IF;
    RETURN coalesce(cardinality(pending), 0) + coalesce(cardinality(needed), 0)
        + "{{schema}}"."jobs_join_forget"(ended, 20000)
        + "{{schema}}"."jobs_join_strand"($1);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_sweep"(integer) FROM PUBLIC;

-- A row by which policies decide who sees a join: the first that exists of its continuations and its members, or NULL.
-- It runs with its owner's rights, since a row that is hidden is not one that is gone, and returns nothing but an id.
CREATE FUNCTION "{{schema}}"."jobs_join_row"(id uuid) RETURNS uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
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
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    RETURN coalesce(
        (SELECT t.id FROM "{{schema}}"."jobs_join" AS j
            JOIN "{{schema}}"."jobs" AS t ON t.id = ANY (ARRAY[j.on_complete, j.on_fail])
            WHERE j.id = $1
            LIMIT 1),
        (SELECT t.id FROM "{{schema}}"."jobs_join_member" AS m
            JOIN "{{schema}}"."jobs" AS t ON t.id = m.member_id
            WHERE m.join_id = $1
            LIMIT 1));
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_row"(uuid) FROM PUBLIC;

-- Makes policies of the tables of joins that follow those of the domain table, if it has row-level security, and takes
-- them away if it has none. For the owner of the tables, who calls it after each change of that.
--
-- A join is seen by those who see its continuation or, if it has none, its members. Nobody can continue a join with a
-- row that he does not see, nor add a step to a join of others. Only who sees all rows reads notes; a note by hand only
-- has a join counted anew.
CREATE FUNCTION "{{schema}}"."jobs_join_policies"() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $txwork$
BEGIN
    DROP POLICY IF EXISTS txwork_read ON "{{schema}}"."jobs_join";
    DROP POLICY IF EXISTS txwork_insert ON "{{schema}}"."jobs_join";
    DROP POLICY IF EXISTS txwork_update ON "{{schema}}"."jobs_join";
    DROP POLICY IF EXISTS txwork_read ON "{{schema}}"."jobs_join_member";
    DROP POLICY IF EXISTS txwork_insert ON "{{schema}}"."jobs_join_member";
    DROP POLICY IF EXISTS txwork_insert ON "{{schema}}"."jobs_join_note";
    IF NOT (SELECT c.relrowsecurity FROM pg_class AS c WHERE c.oid = '"{{schema}}"."jobs"'::regclass) THEN
        ALTER TABLE "{{schema}}"."jobs_join" DISABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."jobs_join_member" DISABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."jobs_join_note" DISABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."jobs_join_cursor" DISABLE ROW LEVEL SECURITY;
        RETURN;
    END IF;
    ALTER TABLE "{{schema}}"."jobs_join" ENABLE ROW LEVEL SECURITY;
    ALTER TABLE "{{schema}}"."jobs_join_member" ENABLE ROW LEVEL SECURITY;
    ALTER TABLE "{{schema}}"."jobs_join_note" ENABLE ROW LEVEL SECURITY;
    ALTER TABLE "{{schema}}"."jobs_join_cursor" ENABLE ROW LEVEL SECURITY;

    CREATE POLICY txwork_read ON "{{schema}}"."jobs_join" FOR SELECT
        USING (EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = "{{schema}}"."jobs_join_row"("{{schema}}"."jobs_join".id)));
    CREATE POLICY txwork_insert ON "{{schema}}"."jobs_join" FOR INSERT WITH CHECK (
        ("{{schema}}"."jobs_join".on_complete IS NULL OR EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = "{{schema}}"."jobs_join".on_complete))
        AND ("{{schema}}"."jobs_join".on_fail IS NULL OR EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = "{{schema}}"."jobs_join".on_fail)));
    CREATE POLICY txwork_update ON "{{schema}}"."jobs_join" FOR UPDATE
        USING (EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = "{{schema}}"."jobs_join_row"("{{schema}}"."jobs_join".id)))
        WITH CHECK (
            ("{{schema}}"."jobs_join".on_complete IS NULL OR EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = "{{schema}}"."jobs_join".on_complete))
            AND ("{{schema}}"."jobs_join".on_fail IS NULL OR EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = "{{schema}}"."jobs_join".on_fail)));

    CREATE POLICY txwork_read ON "{{schema}}"."jobs_join_member" FOR SELECT USING (
        EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = "{{schema}}"."jobs_join_member".member_id)
        OR EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = "{{schema}}"."jobs_join_row"("{{schema}}"."jobs_join_member".join_id)));
    CREATE POLICY txwork_insert ON "{{schema}}"."jobs_join_member" FOR INSERT WITH CHECK (
        EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = "{{schema}}"."jobs_join_member".member_id)
        AND ("{{schema}}"."jobs_join_row"("{{schema}}"."jobs_join_member".join_id) IS NULL -- the first steps of a join without a continuation
            OR EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = "{{schema}}"."jobs_join_row"("{{schema}}"."jobs_join_member".join_id))));

    CREATE POLICY txwork_insert ON "{{schema}}"."jobs_join_note" FOR INSERT WITH CHECK (
        "{{schema}}"."jobs_join_note".member_id IS NULL AND "{{schema}}"."jobs_join_note".gone IS NULL
        OR EXISTS (SELECT FROM "{{schema}}"."jobs" AS t WHERE t.id = "{{schema}}"."jobs_join_note".member_id));
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_join_policies"() FROM PUBLIC;

-- Nothing -> pending, with the rows of the join, in the caller's transaction: for programs in any language. Rows are
-- objects as <table>_enqueue_many has them, and none of them may be unique. They are new, so nobody else sees them, and
-- nothing but the writers' locks of ordered keys is waited for. Everything is checked before anything is written.
--
-- What is returned of a continuation has another name than the parameter: PL/pgSQL refuses the same name twice.
CREATE FUNCTION "{{schema}}"."jobs_start_batch"(
    jobs jsonb, on_complete jsonb DEFAULT NULL, on_fail jsonb DEFAULT NULL,
    policy text DEFAULT 'wait_all', deadline timestamptz DEFAULT NULL, label text DEFAULT NULL,
    INOUT id uuid DEFAULT NULL,
    OUT job_ids uuid[], OUT on_complete_id uuid, OUT on_fail_id uuid
)
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
    began CONSTANT text := lpad(to_hex(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0');
    a1 text[];
    a2 bytea[];
    a3 text[];
    a4 integer[];
    a5 text[];
    a6 text[];
    a7 text[];
    a8 text[];
    a9 text[];
    a10 integer[];
    a11 double precision[];
    a12 integer[];
    a13 timestamptz[];
    a14 jsonb[];
    a15 integer[];
    a16 uuid[];
    a17 jsonb[];
    a18 text[];
    a19 text[];
    size integer;
    bad bigint;
    keyed boolean;
    holds boolean;
    locks bigint[];
    alone boolean[];
    done uuid[];
    n integer;
    messages jsonb := $1;
BEGIN
    IF (jsonb_typeof($1) = 'array') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'jobs',
            MESSAGE = 'jobs must be an array of objects',
            HINT = 'Give a JSON array with an object for each row; an empty one is a join without steps.';
    END IF;
    IF (jsonb_array_length($1) <= 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'jobs',
            MESSAGE = 'jobs must have at most 10000 elements',
            HINT = 'Make several joins, and a join of these.';
    END IF;
    IF ($2 IS NULL OR jsonb_typeof($2) IN ('object', 'null')) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'on_complete',
            MESSAGE = 'on_complete must be an object',
            HINT = 'Give the fields of one row, or NULL for none.';
    END IF;
    IF ($3 IS NULL OR jsonb_typeof($3) IN ('object', 'null')) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'on_fail',
            MESSAGE = 'on_fail must be an object',
            HINT = 'Give the fields of one row, or NULL for none.';
    END IF;
    IF ($4 = ANY (ARRAY['wait_all', 'fail_fast', 'any_outcome'])) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'policy',
            MESSAGE = 'policy must be wait_all, fail_fast or any_outcome',
            HINT = 'Leave it out for wait_all.';
    END IF;
    IF ($5 IS NULL OR $5 BETWEEN '1970-01-01T00:00:00Z' AND '9999-12-31T00:00:00Z') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'deadline',
            MESSAGE = 'deadline must be between 1970-01-01 and 9999-12-31',
            HINT = 'NULL is no deadline.';
    END IF;
    IF ($6 IS NULL OR octet_length($6) <= 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'label',
            MESSAGE = 'label must have at most 255 bytes',
            HINT = 'Shorten it.';
    END IF;
    $2 := nullif($2, 'null');
    n := jsonb_array_length($1);
    IF $2 IS NOT NULL THEN
        messages := messages || jsonb_build_array($2);
    END IF;
    IF jsonb_typeof($3) = 'object' THEN
        messages := messages || jsonb_build_array($3);
    END IF;
    $7 := coalesce($7, encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid);
    SELECT min(e.ord) INTO bad
    FROM jsonb_array_elements(messages) WITH ORDINALITY AS e (value, ord)
    WHERE CASE jsonb_typeof(e.value) WHEN 'object' THEN e.value - ARRAY['kind', 'args', 'args_text', 'args_base64', 'queue', 'priority', 'unique_key', 'unique_while', 'ordered_key', 'on_failure', 'limited_key', 'max_running', 'rate', 'burst', 'scheduled_at', 'headers', 'max_attempts', 'id', 'unique_fields', 'unique_until', 'on_conflict'] <> '{}' OR (e.value ? 'args')::int + (e.value ? 'args_text')::int + (e.value ? 'args_base64')::int > 1 ELSE true END;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = CASE WHEN bad <= n THEN 'jobs' WHEN bad = n + 1 AND $2 IS NOT NULL THEN 'on_complete' ELSE 'on_fail' END,
            MESSAGE = format('%s, it must be an object with known fields: %s', CASE WHEN bad <= n THEN 'jobs' || ' has a wrong element ' || bad WHEN bad = n + 1 AND $2 IS NOT NULL THEN 'on_complete' ELSE 'on_fail' END,
                left(messages ->> (bad - 1)::integer, 100)),
            HINT = 'Fields are kind, args, args_text, args_base64, queue, priority, unique_key, unique_while, ordered_key, on_failure, limited_key, max_running, rate, burst, scheduled_at, headers, max_attempts, id, unique_fields, unique_until, on_conflict; a payload is in one of its fields.';
    END IF;
    BEGIN
        SELECT count(*)::integer, min(r.ord * 1000 + CASE
                WHEN (r.c14 IS NULL OR jsonb_typeof(r.c14) = 'object') IS NOT TRUE THEN 1
                WHEN (r.c13 IS NULL OR r.c13 BETWEEN '1970-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00') IS NOT TRUE THEN 2
                WHEN (r.c15 IS NULL OR r.c15 BETWEEN 1 AND 1000000) IS NOT TRUE THEN 3
                WHEN (r.c8 IN ('block', 'park', 'skip')) IS NOT TRUE THEN 4
                WHEN (r.c7 IS NULL OR r.c9 IS NULL) IS NOT TRUE THEN 5
                WHEN (r.c7 IS NULL OR octet_length(r.c7) BETWEEN 1 AND 255) IS NOT TRUE THEN 6
                WHEN (r.c9 IS NULL OR octet_length(r.c9) BETWEEN 1 AND 255) IS NOT TRUE THEN 7
                WHEN (r.c9 IS NOT NULL OR num_nonnulls(r.c10, r.c11, r.c12) = 0) IS NOT TRUE THEN 8
                WHEN (r.c9 IS NULL OR num_nonnulls(r.c10, r.c11) > 0) IS NOT TRUE THEN 9
                WHEN (r.c10 IS NULL OR r.c10 >= 1) IS NOT TRUE THEN 10
                WHEN (r.c11 IS NULL OR r.c11 BETWEEN 1e-09 AND 1e+09) IS NOT TRUE THEN 11
                WHEN (r.c12 IS NULL OR r.c11 IS NOT NULL) IS NOT TRUE THEN 12
                WHEN (r.c12 IS NULL OR r.c12 >= 1) IS NOT TRUE THEN 13
                WHEN (octet_length(r.c1) BETWEEN 1 AND 255) IS NOT TRUE THEN 14
                WHEN (octet_length(r.c3) BETWEEN 1 AND 255) IS NOT TRUE THEN 15
                WHEN (r.c4 BETWEEN 1 AND 3) IS NOT TRUE THEN 16
                WHEN (octet_length(r.c2) <= 1048576) IS NOT TRUE THEN 17
                WHEN (r.c5 IS NULL OR octet_length(r.c5) BETWEEN 1 AND 255) IS NOT TRUE THEN 18
                WHEN (num_nonnulls(r.c5, r.c17) = 0 OR strpos(r.c1, chr(31)) = 0) IS NOT TRUE THEN 19
                WHEN (r.c6::text[] <@ ARRAY['done', 'failed']) IS NOT TRUE THEN 20
                WHEN r.c14 IS NOT NULL AND ((SELECT coalesce(sum(octet_length(h.name) + coalesce(octet_length(h.value), 0)), 0) FROM jsonb_each_text(r.c14) AS h (name, value)) <= 65536) IS NOT TRUE THEN 21
                WHEN (num_nonnulls(r.c5, r.c17) > 0 OR r.c18 <> 'end' OR r.c19 <> 'keep' OR cardinality(r.c6::text[]) > 0) OR ((r.c5) IS NOT NULL) THEN 22 END),
            bool_or((coalesce(r.c7, r.c9)) IS NOT NULL), bool_or((r.c5) IS NOT NULL),
            array_agg(CASE WHEN (r.c7) IS NOT NULL THEN hashtextextended('{{schema}}.jobs ' || (r.c7), 1) END),
            array_agg(num_nonnulls(r.c5, r.c17) > 0 OR r.c18 <> 'end' OR r.c19 <> 'keep' OR cardinality(r.c6::text[]) > 0),
            array_agg(r.c1),
            array_agg(r.c2),
            array_agg(r.c3),
            array_agg(r.c4),
            array_agg(r.c5),
            array_agg(r.c6),
            array_agg(r.c7),
            array_agg(r.c8),
            array_agg(r.c9),
            array_agg(r.c10),
            array_agg(r.c11),
            array_agg(r.c12),
            array_agg(r.c13),
            array_agg(r.c14),
            array_agg(r.c15),
            array_agg(r.id),
            array_agg(r.c17),
            array_agg(r.c18),
            array_agg(r.c19)
        INTO size, bad, keyed, holds, locks, alone, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19
        FROM (
            SELECT f.ord,
                f.f1 AS c1,
                coalesce(convert_to(f.f2::text, 'UTF8'), convert_to(f.f3, 'UTF8'), decode(f.f4, 'base64')) AS c2,
                coalesce(f.f5, 'default') AS c3,
                coalesce(f.f6, 2) AS c4,
                f.f7 AS c5,
                (coalesce(f.f8, '{}'))::text AS c6,
                f.f9 AS c7,
                coalesce(f.f10, 'block') AS c8,
                f.f11 AS c9,
                f.f12 AS c10,
                f.f13 AS c11,
                f.f14 AS c12,
                f.f15 AS c13,
                f.f16 AS c14,
                f.f17 AS c15,
                coalesce(f.f18, (began || '7' || lpad(to_hex(f.ord >> 2), 3, '0') || to_hex(8 + (f.ord & 3)) || substr(gen_random_uuid()::text, 21))::uuid) AS id,
                f.f19 AS c17,
                coalesce(f.f20, 'end') AS c18,
                coalesce(f.f21, 'keep') AS c19
            FROM ROWS FROM (jsonb_to_recordset(messages) AS ("kind" text, "args" jsonb, "args_text" text, "args_base64" text, "queue" text, "priority" integer, "unique_key" text, "unique_while" text[], "ordered_key" text, "on_failure" text, "limited_key" text, "max_running" integer, "rate" double precision, "burst" integer, "scheduled_at" timestamptz, "headers" jsonb, "max_attempts" integer, "id" uuid, "unique_fields" jsonb, "unique_until" text, "on_conflict" text))
                WITH ORDINALITY AS f (f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, ord)
            OFFSET 0) AS r;
    EXCEPTION WHEN data_exception THEN
        FOR bad IN 1..jsonb_array_length(messages) LOOP -- which one is it?
            BEGIN
                PERFORM r.* FROM (
            SELECT f.ord,
                f.f1 AS c1,
                coalesce(convert_to(f.f2::text, 'UTF8'), convert_to(f.f3, 'UTF8'), decode(f.f4, 'base64')) AS c2,
                coalesce(f.f5, 'default') AS c3,
                coalesce(f.f6, 2) AS c4,
                f.f7 AS c5,
                (coalesce(f.f8, '{}'))::text AS c6,
                f.f9 AS c7,
                coalesce(f.f10, 'block') AS c8,
                f.f11 AS c9,
                f.f12 AS c10,
                f.f13 AS c11,
                f.f14 AS c12,
                f.f15 AS c13,
                f.f16 AS c14,
                f.f17 AS c15,
                coalesce(f.f18, (began || '7' || lpad(to_hex(f.ord >> 2), 3, '0') || to_hex(8 + (f.ord & 3)) || substr(gen_random_uuid()::text, 21))::uuid) AS id,
                f.f19 AS c17,
                coalesce(f.f20, 'end') AS c18,
                coalesce(f.f21, 'keep') AS c19
            FROM ROWS FROM (jsonb_to_recordset(jsonb_build_array(messages -> bad - 1)) AS ("kind" text, "args" jsonb, "args_text" text, "args_base64" text, "queue" text, "priority" integer, "unique_key" text, "unique_while" text[], "ordered_key" text, "on_failure" text, "limited_key" text, "max_running" integer, "rate" double precision, "burst" integer, "scheduled_at" timestamptz, "headers" jsonb, "max_attempts" integer, "id" uuid, "unique_fields" jsonb, "unique_until" text, "on_conflict" text))
                WITH ORDINALITY AS f (f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, ord)) AS r;
            EXCEPTION WHEN data_exception THEN
                RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = CASE WHEN bad <= n THEN 'jobs' WHEN bad = n + 1 AND $2 IS NOT NULL THEN 'on_complete' ELSE 'on_fail' END,
                    MESSAGE = format('%s, a value is not of its field''s type: %s', CASE WHEN bad <= n THEN 'jobs' || ' has a wrong element ' || bad WHEN bad = n + 1 AND $2 IS NOT NULL THEN 'on_complete' ELSE 'on_fail' END, SQLERRM),
                    HINT = 'Fields are kind, args, args_text, args_base64, queue, priority, unique_key, unique_while, ordered_key, on_failure, limited_key, max_running, rate, burst, scheduled_at, headers, max_attempts, id, unique_fields, unique_until, on_conflict; a payload is in one of its fields.';
            END;
        END LOOP;
        RAISE;
    END;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = CASE WHEN bad / 1000 <= n THEN 'jobs' WHEN bad / 1000 = n + 1 AND $2 IS NOT NULL THEN 'on_complete' ELSE 'on_fail' END,
            MESSAGE = format('%s: %s', CASE WHEN bad / 1000 <= n THEN 'jobs' || ' has a wrong element ' || bad / 1000 WHEN bad / 1000 = n + 1 AND $2 IS NOT NULL THEN 'on_complete' ELSE 'on_fail' END, (ARRAY[
                'headers must be a JSON object',
                'scheduled_at must be between 1970 and 9999',
                'max_attempts must be between 1 and 1000000',
                'on_failure must be block, park or skip',
                'limited_key must be NULL beside an ordered_key',
                'ordered_key must have 1 to 255 bytes',
                'limited_key must have 1 to 255 bytes',
                'limited_key must be given with max_running, rate and burst',
                'limited_key needs max_running or rate',
                'max_running must be at least 1',
                'rate must be between 1e-09 and 1e+09',
                'burst needs a rate',
                'burst must be at least 1',
                'kind must have 1 to 255 bytes, and must not be NULL',
                'queue must have 1 to 255 bytes, and must not be NULL',
                'priority must be 1 to 3, and must not be NULL',
                'args must have at most 1048576 bytes, and must not be NULL',
                'unique_key must have 1 to 255 bytes',
                'kind must not have the character U+001F, which ends the kind in the key of a unique job',
                'unique_while may have done and failed',
                'headers must have at most 65536 bytes',
                'it must not be unique, since it has to be a row of its own'])[bad % 1000]),
            HINT = 'Fields are kind, args, args_text, args_base64, queue, priority, unique_key, unique_while, ordered_key, on_failure, limited_key, max_running, rate, burst, scheduled_at, headers, max_attempts, id, unique_fields, unique_until, on_conflict; a payload is in one of its fields.';
    END IF;
    IF keyed THEN
        PERFORM WHERE CASE WHEN pg_catalog.texteq(pg_catalog.current_setting('session_replication_role'), 'replica') THEN pg_catalog.concat('txwork refuses the session: session_replication_role is ', pg_catalog.current_setting('session_replication_role'))::int END IS NULL;
    END IF;
    -- In the same order in every transaction, to avoid deadlocks. More of them than a transaction may take are not
    -- taken: the insert then refuses them with a message.
    locks := ARRAY(SELECT DISTINCT k.lock FROM unnest(locks) AS k (lock) WHERE k.lock IS NOT NULL ORDER BY 1);
    IF cardinality(locks) > 1 AND cardinality(locks) <= current_setting('max_locks_per_transaction')::integer * (current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer) / 4 THEN
        PERFORM pg_advisory_xact_lock(k.lock) FROM unnest(locks) AS k (lock);
    END IF;
    WITH w AS (
            INSERT INTO "{{schema}}"."jobs" (id, due_at, max_attempts, headers, "kind", "queue", "priority", "args", "unique_key", "unique_states", "concurrency_key", "key_limit", "key_policy", "key_rate", "key_burst", "joined", "waiting")
            SELECT s.id, greatest(s.c13, now()), coalesce(s.c15, 30), coalesce(nullif(s.c14 - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent'], '{}'), '{}') || jsonb_build_object('txwork-batch', $7::text) || CASE WHEN s.ord > n THEN jsonb_build_object('txwork-after', n::text) ELSE '{}' END, s.c1, s.c3, s.c4::smallint, s.c2, s.c5, CASE WHEN s.c5 IS NOT NULL THEN nullif(CASE WHEN 'done' = ANY (s.c6::text[]) THEN 4 ELSE 0 END + CASE WHEN 'failed' = ANY (s.c6::text[]) THEN 8 ELSE 0 END + CASE WHEN s.c18 = 'end' THEN 0 ELSE 2 END, 0) END, coalesce(s.c7, s.c9), CASE WHEN s.c7 IS NOT NULL THEN 0 WHEN s.c9 IS NOT NULL THEN coalesce(s.c10, 2147483647) END, CASE WHEN s.c7 IS NOT NULL THEN CASE s.c8 WHEN 'block' THEN 1 WHEN 'park' THEN 2 WHEN 'skip' THEN 0 END WHEN s.c9 IS NOT NULL THEN 0 END, s.c11, CASE WHEN s.c11 IS NOT NULL THEN coalesce(s.c12, greatest(1, ceil(least(s.c11, 2147483647)))::integer) END, nullif(s.ord <= n, false), s.ord > n
            FROM unnest(
                a16::uuid[],
                a1::text[],
                a2::bytea[],
                a3::text[],
                a4::integer[],
                a5::text[],
                a6::text[],
                a7::text[],
                a8::text[],
                a9::text[],
                a10::integer[],
                a11::double precision[],
                a12::integer[],
                a13::timestamptz[],
                a14::jsonb[],
                a15::integer[],
                a17::jsonb[],
                a18::text[],
                a19::text[]
            ) WITH ORDINALITY AS s (id, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c17, c18, c19, ord)
            ORDER BY s.ord
            RETURNING id
    )
    SELECT array_agg(w.id) INTO done FROM w;
    IF cardinality(done) IS DISTINCT FROM cardinality(a16) THEN
            RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
                MESSAGE = '{{schema}}.jobs took a row and stored none: does a trigger, a rule or a policy of the '
                    'table suppress it, or hide the row that has its unique values?';
    END IF;
    job_ids := coalesce(a16[1:n], '{}');
    on_complete_id := CASE WHEN $2 IS NOT NULL THEN a16[n + 1] END;
    on_fail_id := CASE WHEN jsonb_typeof($3) = 'object' THEN a16[size] END;
    WITH s AS (
        SELECT *
        FROM jsonb_to_recordset(jsonb_build_array(jsonb_strip_nulls(jsonb_build_object('id', $7, 'policy', array_position(ARRAY['wait_all', 'fail_fast', 'any_outcome'], $4) - 1,
            'expected', n, 'on_complete', on_complete_id, 'on_fail', on_fail_id,
            'deadline', $5, 'label', nullif($6, ''), 'retention', '604800000000 microseconds')))::text::jsonb) AS s (
            id pg_catalog.uuid, policy smallint, expected integer, on_complete pg_catalog.uuid, on_fail pg_catalog.uuid,
            deadline pg_catalog.timestamptz, label pg_catalog.text, retention interval)
    ), noted AS (
        INSERT INTO "{{schema}}"."jobs_join_note" (at, join_id)
        SELECT clock_timestamp(), s.id FROM s WHERE s.expected = 0
        UNION ALL
        SELECT greatest(s.deadline, clock_timestamp()), s.id FROM s WHERE s.deadline IS NOT NULL
        RETURNING (SELECT (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END))
    )
    INSERT INTO "{{schema}}"."jobs_join" (id, policy, expected, on_complete, on_fail, deadline, label, look_at, retention)
    SELECT s.id, s.policy, s.expected, s.on_complete, s.on_fail, s.deadline, s.label, now() + interval '1 minute',
           s.retention
    FROM s;
    IF n > 0 THEN
        WITH s AS (
            SELECT s.member_id, s.join_id, t.status
            FROM unnest(job_ids::uuid[], array_fill($7, ARRAY[n])::uuid[]) AS s (member_id, join_id)
            JOIN "{{schema}}"."jobs" AS t ON t.id = s.member_id
        ), noted AS (
            INSERT INTO "{{schema}}"."jobs_join_note" (member_id, gone)
            SELECT s.member_id, CASE s.status WHEN 2 THEN 1 ELSE 2 END FROM s WHERE s.status IN (2, 3)
            RETURNING (SELECT (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END))
        )
        INSERT INTO "{{schema}}"."jobs_join_member" (member_id, join_id) SELECT s.member_id, s.join_id FROM s;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_start_batch"(jsonb, jsonb, jsonb, text, timestamptz, text, uuid) FROM PUBLIC;

-- Keyed rows of "{{schema}}"."jobs": rows with a concurrency_key wait outside the claim index until their key lets them through.
--
-- Every change that may concern a key appends a note in its own transaction: an insert, a settle, a cancel, a redrive,
-- a deletion. Writing a note reads nothing and waits for no lock, except that the writers of an ordered key take turns.
-- key_fold applies notes later, in a short transaction of its own, one folder at a time: it releases as many waiting
-- rows as the keys of its notes have room for. docs/model/fold.pml checks the protocol.
--
-- The table may have domain columns of any name. The functions therefore resolve a name that is both a variable and a
-- column to the variable, and qualify every column with its table.
--
-- key_limit = 0, an ordered key: in commit order. Writers of a key hold an advisory lock until they commit and draw
-- key_seq under it. The committed rows of a key are therefore a prefix of its order, and the waiting row with the
-- smallest key_seq is next. A fold releases it when the key has no live row. Who has claimed it may take the rows
-- behind it as a run, under the same token. Where one of those goes back it waits again, so no row of the key can be
-- claimed while another is in progress.
--
-- key_limit = n > 0, a limited key: at most n released rows, by priority and due time. A row that goes back
-- for a retry gives up its place. A rate counts releases, which are starts unless the row is put back before it has
-- started. If it stays where it is, it stays released. If it is left to other workers until later, its place and its
-- start are the next row's.
CREATE SEQUENCE "{{schema}}"."jobs_key_seq";

-- Folds compute with rates, and one that cannot be computed would stop all keys of the table.
CREATE DOMAIN "{{schema}}"."jobs_key_rate" AS double precision CONSTRAINT "jobs_key_check" CHECK (
    VALUE BETWEEN 1e-09::double precision AND 1e+09::double precision
);

ALTER TABLE "{{schema}}"."jobs" ALTER COLUMN key_rate TYPE "{{schema}}"."jobs_key_rate";

-- at is when a fold should look at the key: the start of the transaction that wrote the note, or a later time. ended is
-- how many released rows of the key have ended or gone back. place and due are the key_seq and the due time of a row
-- that has begun to wait. unused is how many microseconds of the key's rate were taken by releases and not used. A note
-- whose ended is NULL asks the fold to count the key anew. The ordered rows of a key and
-- its limited rows are independent of each other. If SQL has taken the key or the limit from a row that has a place,
-- the row's note names no key, and folds drop it: the settle must not fail. The table has no CHECK: the server parses a
-- CHECK anew for every statement that writes, and every settle of a keyed row writes here.
CREATE TABLE "{{schema}}"."jobs_key_note" (
    at "{{schema}}"."jobs_time" NOT NULL,
    concurrency_key text,
    limited boolean,
    ended integer,
    place bigint,
    due timestamptz,
    unused double precision
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Without a replica identity, PostgreSQL refuses to delete notes as soon as a publication contains the table, even if
-- that is an unrelated one FOR ALL TABLES.
ALTER TABLE "{{schema}}"."jobs_key_note" REPLICA IDENTITY FULL;

CREATE INDEX "jobs_key_note_idx" ON "{{schema}}"."jobs_key_note" (at);

-- Notes that a later fold will subtract from the number of released rows in key_state. A fold that counts a key anew
-- sees that these rows have ended already, so it adds the pending notes to its count.
CREATE INDEX "jobs_key_ended_idx" ON "{{schema}}"."jobs_key_note" (concurrency_key) WHERE ended > 0 AND limited;

-- What folds know about keys with many rows. To count the released rows of a key, or to find its first waiting row, an
-- index scan passes all rows of the key that have ended since vacuum last cleaned up; while a transaction stays open,
-- there are more and more of them. Folds carry the result on from note to note instead. This table is only an
-- optimisation: a key without a row here is counted.
--
-- For an ordered key: no row before place waits or is released, unless a note says so; and no open transaction holds
-- the lock of the key's writers with an earlier place. place may lag behind, so it is written for one row in
-- 8 only, the rows of marked places.
--
-- For a limited key, after each fold: taken is the number of released rows, or NULL if no fold has counted them; due
-- has an element for each priority, and no row of it waits whose due time is earlier; next_at is when the next row may
-- start if the burst of a rate is used up (the theoretical arrival time of the generic cell rate algorithm). Such a row
-- is updated a bounded number of times.
--
-- After that many updates, and for each new place, a row with a larger n replaces it: a scan for the largest n finds
-- the valid row before all dead versions.
CREATE TABLE "{{schema}}"."jobs_key_state" (
    concurrency_key text NOT NULL,
    limited boolean NOT NULL,
    n bigint NOT NULL,
    place bigint,
    taken integer,
    due timestamptz[] NOT NULL DEFAULT '{}',
    next_at "{{schema}}"."jobs_time",
    updates integer NOT NULL DEFAULT 0,
    at "{{schema}}"."jobs_time" NOT NULL,
    PRIMARY KEY (concurrency_key, limited, n)
) WITH (fillfactor = 50);

-- Where the next sweep continues.
CREATE TABLE "{{schema}}"."jobs_key_cursor" (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    ordered_key text NOT NULL DEFAULT '',
    limited_key text NOT NULL DEFAULT '',
    swept_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 10);

INSERT INTO "{{schema}}"."jobs_key_cursor" DEFAULT VALUES;

-- Waiting rows by key: rows of ordered keys by key_seq, rows of limited keys by priority and due time.
CREATE INDEX "jobs_key_wait_idx" ON "{{schema}}"."jobs" (concurrency_key, key_seq)
    WHERE CASE WHEN completed_at IS NULL AND key_seq IS NOT NULL AND key_limit = 0 THEN waiting END;
CREATE INDEX "jobs_key_queue_idx" ON "{{schema}}"."jobs" (concurrency_key, "priority", due_at, key_seq)
    WHERE CASE WHEN completed_at IS NULL AND key_seq IS NOT NULL AND key_limit > 0 THEN waiting END;

-- Released rows. The index is not unique, although an ordered key has only one released row: a unique index would
-- compare each row that is released with all rows that have ended since vacuum last cleaned up.
CREATE INDEX "jobs_key_live_idx" ON "{{schema}}"."jobs" (concurrency_key, key_seq)
    WHERE CASE WHEN completed_at IS NULL AND key_seq IS NOT NULL THEN NOT waiting END;

-- Dead letters that block the rows behind them.
CREATE INDEX "jobs_key_fail_idx" ON "{{schema}}"."jobs" (concurrency_key, key_seq)
    WHERE CASE WHEN failed_at IS NOT NULL AND cancelled_at IS NULL THEN key_policy > 0 END;

-- Draws a place behind all other rows of the key. It also reads the table because the sequence may lag behind it, for
-- instance after logical replication, which does not copy sequences. It reads only places at or after the sequence's,
-- since a key may have had any number of rows.
--
-- It runs with its owner's rights: a writer from whom row-level security hides rows of its key would otherwise draw a
-- place before them. It returns nothing but a place. Under FORCE ROW LEVEL SECURITY the owner may not see all rows
-- either, and then the row is refused.
CREATE FUNCTION "{{schema}}"."jobs_key_place"(k text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
DECLARE
    next constant bigint := nextval('"{{schema}}"."jobs_key_seq"');
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    RETURN greatest(
        next,
        1 + (SELECT t.key_seq FROM "{{schema}}"."jobs" AS t
            WHERE t.concurrency_key = k AND CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL AND t.key_limit = 0 THEN t.waiting END AND t.key_seq >= next
            ORDER BY t.concurrency_key DESC, t.key_seq DESC LIMIT 1),
        1 + (SELECT t.key_seq FROM "{{schema}}"."jobs" AS t
            WHERE t.concurrency_key = k AND CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL THEN NOT t.waiting END AND t.key_seq >= next
            ORDER BY t.concurrency_key DESC, t.key_seq DESC LIMIT 1),
        1 + (SELECT t.key_seq FROM "{{schema}}"."jobs" AS t
            WHERE t.concurrency_key = k AND CASE WHEN t.failed_at IS NOT NULL AND t.cancelled_at IS NULL THEN t.key_policy > 0 END AND t.key_seq >= next
            ORDER BY t.concurrency_key DESC, t.key_seq DESC LIMIT 1));
END
$txwork$;

-- A row enters its key when it is inserted, and always waits at first: only a fold releases rows. A row that is
-- inserted with a key_seq, as by a restored dump or a COPY, keeps it.
--
-- The rule is checked here and not by a CHECK: the server parses a CHECK anew for every statement that writes to the
-- table, even if its rows have no key.
--
-- The functions that write notes of rows run with their owner's rights, so that no role that enqueues or settles needs
-- any on the notes: it could write notes of others' keys. They touch notes only, and never rows.
CREATE FUNCTION "{{schema}}"."jobs_key_enter"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    restored constant boolean := NEW.key_seq IS NOT NULL; -- the row may have been released before
BEGIN
    IF (octet_length(NEW.concurrency_key) BETWEEN 1 AND 255 AND NEW.key_limit >= 0 AND NEW.key_policy BETWEEN 0 AND 2
        AND (NEW.key_rate IS NULL) = (NEW.key_burst IS NULL)
        AND (NEW.key_rate IS NULL OR NEW.key_limit > 0 AND NEW.key_rate BETWEEN 1e-09 AND 1e+09
            AND NEW.key_burst >= 1)) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_key_check',
            MESSAGE = format('the rule of key %s is not valid: it needs a key of 1 to 255 bytes, '
                'a limit of at least 0, a policy of 0 to 2, and a rate of 1e-09 to 1e+09 '
                'and a burst together, with a limit',
                left(NEW.concurrency_key, 40));
    END IF;
    IF restored AND NEW.key_seq > 4611686018427387904 THEN -- behind the last bigint no later row of the key has a place
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'key_seq',
            MESSAGE = 'key_seq must be at most 4611686018427387904',
            HINT = 'Restore the rows of a key with lower places, in the same order.';
    END IF;
    IF NEW.completed_at IS NOT NULL OR NEW.waiting AND NEW.key_seq IS NULL THEN
        RETURN NEW; -- the row has ended, or waits for something else first, such as a join
    END IF;
    IF NEW.key_seq IS NULL AND NEW.key_limit = 0 THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('{{schema}}.jobs ' || NEW.concurrency_key, 1));
        NEW.key_seq := "{{schema}}"."jobs_key_place"(NEW.concurrency_key);
        IF NEW.key_seq % 512 = 0 THEN -- a separate IF: an IF with a query is slow to evaluate for each row
            IF (SELECT count(*) FROM pg_locks AS l WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory')
                > current_setting('max_locks_per_transaction')::integer * (current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer) / 4 THEN
                RAISE EXCEPTION USING ERRCODE = 'program_limit_exceeded',
                    MESSAGE = format('this transaction has written more than %s ordered keys: '
                        'each holds one of the locks that the whole server shares', current_setting('max_locks_per_transaction')::integer * (current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer) / 4),
                    HINT = 'write fewer keys in one transaction, or raise max_locks_per_transaction';
            END IF;
        END IF;
    ELSIF NEW.key_seq IS NULL THEN
        NEW.key_seq := nextval('"{{schema}}"."jobs_key_seq"');
    END IF;
    IF NEW.status = 0 THEN
        NEW.waiting := true;
        INSERT INTO "{{schema}}"."jobs_key_note" (at, concurrency_key, limited, ended, place, due)
        VALUES (CASE WHEN NEW.key_limit > 0 THEN greatest(NEW.due_at, now()) ELSE now() END,
            NEW.concurrency_key, NEW.key_limit > 0, CASE WHEN NOT restored THEN 0 END, NEW.key_seq, NEW.due_at);
        IF (CASE WHEN pg_catalog.current_setting('txwork.folds', true) OPERATOR(pg_catalog.=) '{{schema}}.jobs' THEN false ELSE (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) ELSE false END)
        ELSE true END) END) THEN
            PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
        END IF;
    ELSE -- a restored row in progress is released already
        INSERT INTO "{{schema}}"."jobs_key_note" (at, concurrency_key, limited)
        VALUES (now(), NEW.concurrency_key, NEW.key_limit > 0);
    END IF;
    RETURN NEW;
END
$txwork$;

-- A row enters its key later: a join has released it, or it is redriven and ended before it entered.
--
-- This and the next function are AFTER triggers with an UPDATE of their own. With a BEFORE UPDATE trigger, every
-- statement that updates the table would lock each row first, claims and acks of rows without a key included. Their
-- UPDATE runs with the caller's rights, and fires key_wait, which writes the note.
--
-- The row draws its place without the lock of the key's writers, one of whom may hold an earlier place and not have
-- committed. The place must therefore not become the known place in key_state, so it skips marked places.
CREATE FUNCTION "{{schema}}"."jobs_key_come"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
DECLARE
    place bigint := "{{schema}}"."jobs_key_place"(NEW.concurrency_key);
BEGIN
    WHILE hashint8(place) & 7 = 0 LOOP
        place := place + 1;
    END LOOP;
    UPDATE "{{schema}}"."jobs" AS t SET waiting = true, key_seq = place
    WHERE t.id = NEW.id AND t.status = 0 AND t.key_seq IS NULL;
    RETURN NULL;
END
$txwork$;

-- A row of a limited key gives up its place: it went back to Ready for a retry or a snooze, or was left to others. What
-- puts a row back where it was does not assign due_at, so that the row keeps its place.
--
-- A row of an ordered key waits again if its lease has expired, which leaves it without a token: it may be one of a
-- run, whose other rows are still in progress, or come back by another call of the reaper. When all of them have, a
-- fold releases the first.
CREATE FUNCTION "{{schema}}"."jobs_key_back"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
BEGIN
    UPDATE "{{schema}}"."jobs" AS t SET waiting = true WHERE t.id = NEW.id AND t.status = 0;
    RETURN NULL;
END
$txwork$;

-- Notes that a Ready row has begun to wait: it came to its key, or went back to it, as the rows of a run do. Or a row
-- of a key with a rate was left to others before it had started: its start is the next row's. Of rows with a rate, only
-- the statements that leave them assign waiting as they make a row in progress Ready, and that which sets it aside,
-- where it keeps its start. Like key_note, the function tests what the update was.
CREATE FUNCTION "{{schema}}"."jobs_key_wait"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF OLD.status = 1 AND NEW.status IN (0, 3) AND NEW.key_rate IS NOT NULL THEN
        INSERT INTO "{{schema}}"."jobs_key_note" (at, concurrency_key, limited, ended, unused)
        VALUES (now(), NEW.concurrency_key, true, 0, CASE WHEN NEW.key_rate OPERATOR(pg_catalog.<) 10000 THEN pg_catalog.ceil(1e6 OPERATOR(pg_catalog./) NEW.key_rate) ELSE 1e6 OPERATOR(pg_catalog./) NEW.key_rate END);
        RETURN NULL;
    ELSIF NEW.status <> 0 OR NOT (NEW.waiting)
        OR OLD.status <> 0 AND NOT (OLD.status = 1 AND NEW.key_limit = 0) THEN
        RETURN NULL;
    ELSIF OLD.key_seq IS NULL THEN
        INSERT INTO "{{schema}}"."jobs_key_note" (at, concurrency_key, limited, ended, place, due)
        VALUES (CASE WHEN NEW.key_limit > 0 THEN greatest(NEW.due_at, now()) ELSE now() END,
            NEW.concurrency_key, NEW.key_limit > 0, 0, NEW.key_seq, NEW.due_at);
    ELSIF NEW.key_limit > 0 AND NOT OLD.waiting THEN
        INSERT INTO "{{schema}}"."jobs_key_note" (at, concurrency_key, limited, ended, due)
        VALUES (now(), NEW.concurrency_key, true, 1, NEW.due_at);
        IF NEW.due_at > now() THEN
            INSERT INTO "{{schema}}"."jobs_key_note" (at, concurrency_key, limited, ended, due)
            VALUES (NEW.due_at, NEW.concurrency_key, true, 0, NEW.due_at);
        END IF;
    ELSIF NEW.key_limit = 0 AND NOT OLD.waiting THEN
        INSERT INTO "{{schema}}"."jobs_key_note" (at, concurrency_key, limited, ended, place)
        VALUES (now(), NEW.concurrency_key, false, 0, NEW.key_seq);
    ELSE
        RETURN NULL;
    END IF;
    IF (CASE WHEN pg_catalog.current_setting('txwork.folds', true) OPERATOR(pg_catalog.=) '{{schema}}.jobs' THEN false ELSE (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) ELSE false END)
        ELSE true END) END) THEN
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
    END IF;
    RETURN NULL;
END
$txwork$;

-- Notes a change of the key: it may have room, or a row may be due earlier, or have another priority, where folds may
-- have passed its due time. If a row comes back, such as a redriven one, the fold counts the key anew, since rows
-- before it may have come back too. A row that ends before it has started gives its start to the next.
--
-- The function tests what the update was, and the trigger only keeps it from being called for rows without a key and
-- for releases: each statement that ends a row reads the trigger's condition anew. No search_path is pinned; every name
-- is qualified instead, because setting and resetting it for each row costs more than writing the note.
CREATE FUNCTION "{{schema}}"."jobs_key_note"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
AS $txwork$
BEGIN
    IF TG_OP OPERATOR(pg_catalog.=) 'DELETE' OR NEW.completed_at IS NOT NULL AND (
        OLD.completed_at IS NULL AND (NOT OLD.waiting OR NEW.cancelled_at IS NOT NULL)
        OR OLD.key_policy OPERATOR(pg_catalog.>) 0 AND NEW.key_policy OPERATOR(pg_catalog.=) 0) THEN
        INSERT INTO "{{schema}}"."jobs_key_note" (at, concurrency_key, limited, ended, unused)
        VALUES (pg_catalog.now(), OLD.concurrency_key, OLD.key_limit OPERATOR(pg_catalog.>) 0,
            CASE WHEN OLD.completed_at IS NOT NULL THEN 0 WHEN OLD.waiting THEN 0 ELSE 1 END,
            CASE WHEN OLD.status OPERATOR(pg_catalog.=) 0 AND OLD.key_limit OPERATOR(pg_catalog.>) 0 AND NOT OLD.waiting THEN CASE WHEN OLD.key_rate OPERATOR(pg_catalog.<) 10000 THEN pg_catalog.ceil(1e6 OPERATOR(pg_catalog./) OLD.key_rate) ELSE 1e6 OPERATOR(pg_catalog./) OLD.key_rate END END);
    ELSIF NEW.completed_at IS NULL AND (OLD.completed_at IS NOT NULL
        OR NEW.waiting AND NEW.key_limit OPERATOR(pg_catalog.>) 0
            AND (NEW."priority" OPERATOR(pg_catalog.<>) OLD."priority" OR NEW.due_at OPERATOR(pg_catalog.<) OLD.due_at)) THEN
        INSERT INTO "{{schema}}"."jobs_key_note" (at, concurrency_key, limited, ended, place, due)
        VALUES (pg_catalog.now(), NEW.concurrency_key, NEW.key_limit OPERATOR(pg_catalog.>) 0,
            CASE WHEN OLD.completed_at IS NULL THEN 0 END, NEW.key_seq, NEW.due_at);
        IF NEW.key_limit OPERATOR(pg_catalog.>) 0 AND NEW.due_at OPERATOR(pg_catalog.>) pg_catalog.now() THEN
            INSERT INTO "{{schema}}"."jobs_key_note" (at, concurrency_key, limited, ended, due)
            VALUES (NEW.due_at, NEW.concurrency_key, true, 0, NEW.due_at);
        END IF;
    ELSE
        RETURN NULL;
    END IF;
    IF (CASE WHEN pg_catalog.current_setting('txwork.folds', true) OPERATOR(pg_catalog.=) '{{schema}}.jobs' THEN false ELSE (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) ELSE false END)
        ELSE true END) END) THEN
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
    END IF;
    RETURN NULL;
END
$txwork$;

-- A Ready row has changed its key, or whether the key is ordered, by a Replace or by SQL: it is gone from the old key,
-- whose next row gets its start. It enters the new key at its end, or goes on without a key, as if a join released it:
-- the second UPDATE fires key_come. A Replace has locked the writers of the new key before. It runs with its owner's
-- rights, because who may replace a row may not release it, and touches no other row.
CREATE FUNCTION "{{schema}}"."jobs_key_move"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
BEGIN
    IF NEW.concurrency_key IS NOT NULL
        AND (octet_length(NEW.concurrency_key) BETWEEN 1 AND 255 AND NEW.key_limit >= 0 AND NEW.key_policy BETWEEN 0 AND 2
        AND (NEW.key_rate IS NULL) = (NEW.key_burst IS NULL)
        AND (NEW.key_rate IS NULL OR NEW.key_limit > 0 AND NEW.key_rate BETWEEN 1e-09 AND 1e+09
            AND NEW.key_burst >= 1)) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_key_check',
            MESSAGE = format('the rule of key %s is not valid: it needs a key of 1 to 255 bytes, '
                'a limit of at least 0, a policy of 0 to 2, and a rate of 1e-09 to 1e+09 '
                'and a burst together, with a limit',
                left(NEW.concurrency_key, 40));
    END IF;
    IF OLD.key_seq IS NOT NULL THEN
        INSERT INTO "{{schema}}"."jobs_key_note" (at, concurrency_key, limited, ended, unused)
        VALUES (now(), OLD.concurrency_key, OLD.key_limit > 0, CASE WHEN OLD.waiting THEN 0 ELSE 1 END,
            CASE WHEN OLD.status OPERATOR(pg_catalog.=) 0 AND OLD.key_limit OPERATOR(pg_catalog.>) 0 AND NOT OLD.waiting THEN CASE WHEN OLD.key_rate OPERATOR(pg_catalog.<) 10000 THEN pg_catalog.ceil(1e6 OPERATOR(pg_catalog./) OLD.key_rate) ELSE 1e6 OPERATOR(pg_catalog./) OLD.key_rate END END);
        IF (CASE WHEN pg_catalog.current_setting('txwork.folds', true) OPERATOR(pg_catalog.=) '{{schema}}.jobs' THEN false ELSE (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.jobs announcer', 0)) ELSE false END)
        ELSE true END) END) THEN
            PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
        END IF;
    END IF;
    UPDATE "{{schema}}"."jobs" AS t SET waiting = true, key_seq = NULL WHERE t.id = NEW.id;
    UPDATE "{{schema}}"."jobs" AS t SET waiting = false WHERE t.id = NEW.id;
    RETURN NULL;
END
$txwork$;

-- The rows or the notes were truncated, as tests do. Everything in key_state is then unknown, except how far the rates
-- are used up.
CREATE FUNCTION "{{schema}}"."jobs_key_forget"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    DELETE FROM "{{schema}}"."jobs_key_state" WHERE next_at IS NULL;
    UPDATE "{{schema}}"."jobs_key_state" SET taken = NULL, due = '{}';
    RETURN NULL;
END
$txwork$;

-- Applies notes: releases as many waiting rows as their keys have room for. One folder runs at a time: it takes an
-- advisory lock before it reads, and each later statement sees what the previous folder committed. It never waits for a
-- lock: a row that another session holds locked is tried again in half a second, and an ordered key never passes it
-- over.
--
-- The notes are deleted in the transaction that applies them, so a crash undoes both or neither.
--
-- A released row gets a due time that the claims' cursors have not passed. Without fronts that is now, and the row
-- queues up behind all due rows. fronts tells where the cursor of each lane is, so that a row keeps its due time if the
-- cursor has not passed it.
CREATE FUNCTION "{{schema}}"."jobs_key_fold"(
    max_notes integer, since timestamptz DEFAULT '-infinity', fronts jsonb DEFAULT '{}'
) RETURNS TABLE (folded integer, released integer, again double precision, upto timestamptz)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_variable
DECLARE
    started constant timestamptz := clock_timestamp();
    -- The notes that this fold took, merged into one for each key. These are arrays of values, and not one array of the
    -- table's row type, which would no longer match once an operator adds a column to the table.
    note_keys text[];
    note_limited boolean[];
    note_ended integer[];
    note_place bigint[];
    note_due timestamptz[];
    note_unused double precision[];
    ordered boolean := false;
    limited boolean := false;
    n integer;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (max_notes BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_notes',
            MESSAGE = 'max_notes must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' OR NOT pg_try_advisory_xact_lock(hashtextextended('{{schema}}.jobs key_fold', 0)) THEN
        RETURN NEXT; -- all NULL: another session folds, or this transaction could not see what others committed
        RETURN;
    END IF;

    folded := 0;
    LOOP
        WITH taken AS (
            DELETE FROM "{{schema}}"."jobs_key_note" AS d
            WHERE d.ctid = ANY (ARRAY(
                SELECT r.ctid FROM "{{schema}}"."jobs_key_note" AS r
                WHERE r.at >= greatest(since, upto) AND r.at <= started
                ORDER BY r.at
                LIMIT max_notes
                FOR UPDATE SKIP LOCKED))
            RETURNING d.at, d.concurrency_key, d.limited, d.ended, d.place, d.due, d.unused
        ), merged AS (
            SELECT m.concurrency_key, m.limited,
                CASE WHEN NOT bool_or(m.ended IS NULL) THEN
                    least(greatest(sum(m.ended), 0), 1000000000)::integer END AS ended, -- SQL may have written any
                min(m.place) AS place, min(m.due) AS due,
                least(coalesce(sum(least(m.unused, 1e17)) FILTER (WHERE m.unused > 1e-6), 0), 1e17) AS unused
            FROM (
                SELECT t.concurrency_key, t.limited, t.ended, t.place, t.due, t.unused FROM taken AS t
                UNION ALL
                SELECT * FROM unnest(note_keys, note_limited, note_ended, note_place, note_due, note_unused)
            ) AS m (concurrency_key, limited, ended, place, due, unused)
            GROUP BY m.concurrency_key, m.limited
        )
        SELECT (SELECT count(*) FROM taken), greatest(upto, (SELECT nullif(max(t.at), '-infinity') FROM taken AS t)),
            bool_or(NOT m.limited), bool_or(m.limited), array_agg(m.concurrency_key), array_agg(m.limited),
            array_agg(m.ended), array_agg(m.place), array_agg(m.due), array_agg(m.unused)
        INTO n, upto, ordered, limited, note_keys, note_limited, note_ended, note_place, note_due, note_unused
        FROM merged AS m;
        folded := folded + n;
        -- Many notes of few keys are cheap to take, so this fold goes on taking them: they would only delay later ones.
        EXIT WHEN n < max_notes OR folded >= 10 * max_notes OR 2 * cardinality(note_keys) > max_notes;
    END LOOP;

    released := 0;
    IF ordered THEN
        released := "{{schema}}"."jobs_key_next"(note_keys, note_limited, note_ended, note_place, fronts);
    END IF;
    IF limited THEN
        released := released
            + "{{schema}}"."jobs_key_fill"(note_keys, note_limited, note_ended, note_due, note_unused, started, fronts);
    END IF;
    IF released > 0 THEN
        IF fronts <> '{}' THEN
            PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', pg_catalog.concat('front:', fronts)) ELSE ''::pg_catalog.void END);
        END IF;
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs', pg_catalog.concat('fold:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
    END IF;
    again := CASE WHEN n = max_notes THEN 0 ELSE (
        SELECT extract(epoch FROM n.at - clock_timestamp())
        FROM "{{schema}}"."jobs_key_note" AS n
        WHERE n.at > started
        ORDER BY n.at
        LIMIT 1) END;
    RETURN NEXT;
END
$txwork$;

-- Releases the first row of each ordered key, unless the key has a released row already or a dead letter blocks it.
-- Only key_fold calls it.
CREATE FUNCTION "{{schema}}"."jobs_key_next"(
    note_keys text[], note_limited boolean[], note_ended integer[], note_place bigint[], fronts jsonb
) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
#variable_conflict use_variable
DECLARE
    n integer;
    keys text[]; -- those whose row in key_state changes
    places bigint[];
    numbers bigint[];
    before tid[];
    parked text[];
    obstacles uuid[];
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    WITH k AS MATERIALIZED (
        SELECT m.concurrency_key AS key, s.ctid AS known, s.n, s.place AS bound,
            m.ended IS NULL AND s.place IS NOT NULL AS anew,
            CASE WHEN m.ended IS NOT NULL AND s.place IS NOT NULL THEN least(s.place, m.place) ELSE 0 END AS place
        FROM unnest(note_keys, note_limited, note_ended, note_place) AS m (concurrency_key, limited, ended, place)
        LEFT JOIN LATERAL (
            SELECT g.ctid, g.n, g.place FROM "{{schema}}"."jobs_key_state" AS g
            WHERE g.concurrency_key = m.concurrency_key AND NOT g.limited
            ORDER BY g.concurrency_key DESC, g.limited DESC, g.n DESC
            LIMIT 1) AS s ON true
        WHERE NOT m.limited
    ), head AS MATERIALIZED (
        SELECT k.*, live.is AS live, h.ctid, h.key_seq, o.id AS behind, o.key_policy
        FROM k
        LEFT JOIN LATERAL ( -- no NOT EXISTS: an anti-join may read all live rows of the table
            SELECT true AS is FROM "{{schema}}"."jobs" AS l
            WHERE l.concurrency_key = k.key AND CASE WHEN l.completed_at IS NULL AND l.key_seq IS NOT NULL THEN NOT l.waiting END AND l.key_limit = 0 AND l.key_seq >= k.place
            LIMIT 1) AS live ON true
        LEFT JOIN LATERAL (
            SELECT r.ctid, r.key_seq FROM "{{schema}}"."jobs" AS r
            WHERE live.is IS NULL AND r.concurrency_key = k.key AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit = 0 THEN r.waiting END AND r.key_seq >= k.place
            ORDER BY r.concurrency_key, r.key_seq
            LIMIT 1) AS h ON true
        LEFT JOIN LATERAL (
            SELECT f.id, f.key_policy FROM "{{schema}}"."jobs" AS f
            WHERE f.concurrency_key = k.key AND CASE WHEN f.failed_at IS NOT NULL AND f.cancelled_at IS NULL THEN f.key_policy > 0 END AND f.key_seq < h.key_seq
            ORDER BY f.concurrency_key, f.key_seq
            LIMIT 1) AS o ON true
    ), through AS MATERIALIZED (
        UPDATE "{{schema}}"."jobs" AS t SET waiting = false, due_at = greatest(t.due_at, least((fronts ->> left(encode(sha256(convert_to(jsonb_build_array(t."queue", t."priority")::text, 'UTF8')), 'hex'), 16))::timestamptz, now()))
        WHERE t.ctid = ANY (ARRAY(
            SELECT r.ctid FROM head AS h
            CROSS JOIN LATERAL (
                SELECT w.ctid FROM "{{schema}}"."jobs" AS w
                WHERE w.ctid = h.ctid AND w.key_seq = h.key_seq -- unless it has just changed its key
                  AND CASE WHEN w.completed_at IS NULL THEN w.waiting END -- it implies no index's condition
                FOR NO KEY UPDATE SKIP LOCKED) AS r
            WHERE h.behind IS NULL))
        RETURNING t.concurrency_key
    ), seen AS MATERIALIZED (
        SELECT s.*, CASE
            WHEN s.through AND hashint8(s.key_seq) & 7 = 0 THEN s.key_seq
            WHEN s.anew AND s.live THEN 0
            WHEN s.anew THEN least(s.key_seq, s.bound)
            WHEN s.place < s.bound THEN s.place END AS known_from
        FROM (SELECT h.*, h.key IN (SELECT t.concurrency_key FROM through AS t) AS through
            FROM head AS h
            OFFSET 0) AS s -- without OFFSET, the hashed subplan of IN would be built once for each use of s.through
    ), later AS (
        INSERT INTO "{{schema}}"."jobs_key_note" (at, concurrency_key, limited, ended)
        SELECT clock_timestamp() + interval '500 milliseconds', s.key, false, 0
        FROM seen AS s
        WHERE s.ctid IS NOT NULL AND s.behind IS NULL AND NOT s.through
    )
    SELECT (SELECT count(*) FROM through),
        array_agg(s.key) FILTER (WHERE s.known_from IS NOT NULL),
        array_agg(s.known_from) FILTER (WHERE s.known_from IS NOT NULL),
        array_agg(coalesce(s.n, 0)) FILTER (WHERE s.known_from IS NOT NULL),
        array_agg(s.known) FILTER (WHERE s.known_from IS NOT NULL AND s.known IS NOT NULL),
        array_agg(s.key) FILTER (WHERE s.key_policy = 2), array_agg(s.behind) FILTER (WHERE s.key_policy = 2)
    INTO n, keys, places, numbers, before, parked, obstacles
    FROM seen AS s;

    IF keys IS NOT NULL THEN
        DELETE FROM "{{schema}}"."jobs_key_state" AS g
        WHERE g.ctid = ANY (ARRAY(
            SELECT b.ctid FROM "{{schema}}"."jobs_key_state" AS b WHERE b.ctid = ANY (before) FOR UPDATE SKIP LOCKED));
        INSERT INTO "{{schema}}"."jobs_key_state" (concurrency_key, limited, n, place, at)
        SELECT u.key, false,
            greatest(CASE WHEN u.n < 4611686018427387904 THEN u.n + 1 END, nextval('"{{schema}}"."jobs_key_seq"')), u.place, now()
        FROM unnest(keys, places, numbers) AS u (key, place, n);
    END IF;
    FOR i IN 1..coalesce(cardinality(parked), 0) LOOP
        PERFORM "{{schema}}"."jobs_key_park"(parked[i], obstacles[i]);
    END LOOP;
    RETURN n;
END
$txwork$;

-- Fills the free places of limited keys, by priority and due time. A row of a key with a rate is released with the due time at which
-- the rate allows it, by the generic cell rate algorithm. The rows of the next 250ms are released in advance, so
-- that the rate is met between two folds. As many rows as have left their start unused start at once, and the rate does
-- not count them. What no row takes up moves the key's next time back. Only key_fold calls it.
CREATE FUNCTION "{{schema}}"."jobs_key_fill"(
    note_keys text[], note_limited boolean[], note_ended integer[], note_due timestamptz[],
    note_unused double precision[], started timestamptz, fronts jsonb
) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
#variable_conflict use_variable
DECLARE
    n integer;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    WITH k AS MATERIALIZED (
        SELECT m.concurrency_key AS key, s.ctid AS known, s.n, s.updates, s.next_at,
            CASE WHEN m.ended IS NOT NULL THEN s.due END AS due, m.due AS noted, coalesce(m.unused, 0) AS unused,
            CASE WHEN s.taken + m.ended::bigint IS NOT NULL THEN greatest(s.taken::bigint - m.ended, 0) END AS taken
        FROM unnest(note_keys, note_limited, note_ended, note_due, note_unused)
            AS m (concurrency_key, limited, ended, due, unused)
        LEFT JOIN LATERAL (
            SELECT g.ctid, g.n, g.taken, g.due, g.next_at, g.updates FROM "{{schema}}"."jobs_key_state" AS g
            WHERE g.concurrency_key = m.concurrency_key AND g.limited
            ORDER BY g.concurrency_key DESC, g.limited DESC, g.n DESC
            LIMIT 1) AS s ON true
        WHERE m.limited
    ), head AS MATERIALIZED (
        SELECT h.*, greatest(h.next_at, started) AS first,
            CASE WHEN h.key_rate OPERATOR(pg_catalog.<) 10000 THEN pg_catalog.ceil(1e6 OPERATOR(pg_catalog./) h.key_rate) ELSE 1e6 OPERATOR(pg_catalog./) h.key_rate END AS gap, floor(h.unused / CASE WHEN h.key_rate OPERATOR(pg_catalog.<) 10000 THEN pg_catalog.ceil(1e6 OPERATOR(pg_catalog./) h.key_rate) ELSE 1e6 OPERATOR(pg_catalog./) h.key_rate END + 0.001) AS extra,
            CASE WHEN h.known_taken IS NULL AND h.key_limit <> 2147483647 THEN (
                SELECT count(*) FROM "{{schema}}"."jobs" AS l
                WHERE l.concurrency_key = h.key AND CASE WHEN l.completed_at IS NULL AND l.key_seq IS NOT NULL THEN NOT l.waiting END AND l.key_limit > 0) + (
                SELECT coalesce(sum(p.ended), 0) FROM "{{schema}}"."jobs_key_note" AS p
                WHERE p.concurrency_key = h.key AND p.limited AND p.ended > 0) ELSE h.known_taken END AS taken
        FROM (
            SELECT k.key, k.known, k.n, k.updates, k.next_at, k.unused, k.taken AS known_taken,
                coalesce(h1.key_limit, h2.key_limit, h3.key_limit) IS NOT NULL AS waits,
                ARRAY[coalesce(h1.due_at, started), coalesce(h2.due_at, started), coalesce(h3.due_at, started)] AS due,
                CASE WHEN h1.due_at IS NOT NULL THEN h1.key_limit WHEN h2.due_at IS NOT NULL THEN h2.key_limit WHEN h3.due_at IS NOT NULL THEN h3.key_limit END AS key_limit,
                CASE WHEN h1.due_at IS NOT NULL THEN h1.key_rate WHEN h2.due_at IS NOT NULL THEN h2.key_rate WHEN h3.due_at IS NOT NULL THEN h3.key_rate END AS key_rate,
                CASE WHEN h1.due_at IS NOT NULL THEN h1.key_burst WHEN h2.due_at IS NOT NULL THEN h2.key_burst WHEN h3.due_at IS NOT NULL THEN h3.key_burst END AS key_burst
            FROM k
            LEFT JOIN LATERAL (
                SELECT r.due_at, r.key_limit, r.key_rate, r.key_burst FROM "{{schema}}"."jobs" AS r
                WHERE r.concurrency_key = k.key AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit > 0 THEN r.waiting END AND r."priority" = 1::smallint
                  AND r.due_at >= CASE WHEN k.due[1] IS NOT NULL THEN least(k.due[1], k.noted) ELSE '-infinity' END
                  AND r.due_at <= started
                ORDER BY r.concurrency_key, r."priority", r.due_at, r.key_seq
                LIMIT 1) AS h1 ON true
            LEFT JOIN LATERAL (
                SELECT r.due_at, r.key_limit, r.key_rate, r.key_burst FROM "{{schema}}"."jobs" AS r
                WHERE r.concurrency_key = k.key AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit > 0 THEN r.waiting END AND r."priority" = 2::smallint
                  AND r.due_at >= CASE WHEN k.due[2] IS NOT NULL THEN least(k.due[2], k.noted) ELSE '-infinity' END
                  AND r.due_at <= started
                ORDER BY r.concurrency_key, r."priority", r.due_at, r.key_seq
                LIMIT 1) AS h2 ON true
            LEFT JOIN LATERAL (
                SELECT r.due_at, r.key_limit, r.key_rate, r.key_burst FROM "{{schema}}"."jobs" AS r
                WHERE r.concurrency_key = k.key AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit > 0 THEN r.waiting END AND r."priority" = 3::smallint
                  AND r.due_at >= CASE WHEN k.due[3] IS NOT NULL THEN least(k.due[3], k.noted) ELSE '-infinity' END
                  AND r.due_at <= started
                ORDER BY r.concurrency_key, r."priority", r.due_at, r.key_seq
                LIMIT 1) AS h3 ON true
            OFFSET 0) AS h -- without OFFSET, its expressions would be computed once for each use
    ), room AS MATERIALIZED (
        SELECT p.*, CASE floor(random() * 16) WHEN 0 THEN '{2,1,3}' WHEN 1 THEN '{3,1,2}' ELSE '{1,2,3}' END::smallint[] AS levels, least(p.places, floor(least(p.extra + greatest(
                extract(epoch FROM started + interval '250 milliseconds' - p.first)::float8 * p.key_rate + p.key_burst, 0),
                1000))::integer) AS rows
        FROM (
            SELECT h.*, CASE
                WHEN h.key_limit = 2147483647 THEN 1000
                ELSE least(h.key_limit - h.taken, 1000) END AS places
            FROM head AS h) AS p
        WHERE p.waits
    ), free AS MATERIALIZED (
        SELECT f.ctid, room.key, CASE WHEN (nullif(greatest(row_number() OVER (PARTITION BY room.key ORDER BY f.turn, f.due_at, f.key_seq)
                - room.extra, 0), 0) - room.key_burst) * room.gap IS NOT NULL THEN greatest(least(room.first + greatest(least((nullif(greatest(row_number() OVER (PARTITION BY room.key ORDER BY f.turn, f.due_at, f.key_seq)
                - room.extra, 0), 0) - room.key_burst) * room.gap, 1e17), -1e17) * interval '1 microsecond', '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00') END AS at
        FROM room
        CROSS JOIN LATERAL ( -- the levels in turn, until there is no more room: no row is locked in vain
            SELECT r.ctid, l.turn, r.due_at, r.key_seq
            FROM unnest(room.levels) WITH ORDINALITY AS l (level, turn)
            CROSS JOIN LATERAL (
                SELECT r.ctid, r.due_at, r.key_seq FROM "{{schema}}"."jobs" AS r
                WHERE r.concurrency_key = room.key AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit > 0 THEN r.waiting END AND r."priority" = l.level::smallint
                  AND r.due_at >= room.due[l.level] AND r.due_at <= started
                ORDER BY r.concurrency_key, r."priority", r.due_at, r.key_seq
                LIMIT greatest(room.rows, 0)
                FOR NO KEY UPDATE SKIP LOCKED) AS r
            LIMIT greatest(room.rows, 0)) AS f
    ), through AS MATERIALIZED (
        UPDATE "{{schema}}"."jobs" AS t
        SET waiting = false,
            due_at = greatest(t.due_at, least((fronts ->> left(encode(sha256(convert_to(jsonb_build_array(t."queue", t."priority")::text, 'UTF8')), 'hex'), 16))::timestamptz, now()), CASE WHEN f.at > started THEN f.at END)
        FROM free AS f
        WHERE t.ctid = f.ctid
        RETURNING t.concurrency_key, t.key_seq
    ), done AS MATERIALIZED (
        SELECT h.*, room.places, room.rows, coalesce(t.released, 0) AS released, coalesce(t.marked, false) AS marked,
            CASE WHEN h.taken IS NOT NULL THEN least(h.taken + coalesce(t.released, 0), 2147483647) END AS running
        FROM head AS h
        LEFT JOIN room ON room.key = h.key
        LEFT JOIN (SELECT r.concurrency_key, count(*) AS released, bool_or(hashint8(r.key_seq) & 7 = 0) AS marked
            FROM through AS r GROUP BY r.concurrency_key) AS t ON t.concurrency_key = h.key
    ), later AS (
        -- These keys need another fold: one whose rows another session holds locked, one that got as many rows as a
        -- fold may release, and one with a rate, when half of the time ahead is used up or the next row may start.
        INSERT INTO "{{schema}}"."jobs_key_note" (at, concurrency_key, limited, ended)
        SELECT CASE
            WHEN d.rows > 0 AND d.released = 0 THEN clock_timestamp() + interval '500 milliseconds'
            WHEN d.key_rate IS NULL THEN clock_timestamp()
            ELSE greatest(
                CASE WHEN (d.released - d.key_burst + 1) * d.gap - d.unused IS NOT NULL THEN greatest(least(d.first + greatest(least((d.released - d.key_burst + 1) * d.gap - d.unused, 1e17), -1e17) * interval '1 microsecond', '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00') END - interval '250 milliseconds' / 2,
                started + interval '5 milliseconds') END,
            d.key, true, 0
        FROM done AS d
        WHERE d.rows > 0 AND d.released = 0
           OR d.rows >= 1000 AND d.released > 0
           OR d.key_rate IS NOT NULL AND d.places > d.released AND d.rows <= d.released
    ), mine AS MATERIALIZED (
        SELECT g.n FROM "{{schema}}"."jobs_key_state" AS g
        WHERE g.ctid = ANY (ARRAY(SELECT h.known FROM head AS h))
        FOR UPDATE SKIP LOCKED
    ), kept AS MATERIALIZED (
        UPDATE "{{schema}}"."jobs_key_state" AS g
        SET taken = d.running, due = d.due, updates = g.updates + 1, at = now(),
            next_at = coalesce(CASE WHEN d.gap IS NOT NULL THEN CASE WHEN d.released * d.gap - d.unused IS NOT NULL THEN greatest(least(d.first + greatest(least(d.released * d.gap - d.unused, 1e17), -1e17) * interval '1 microsecond', '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00') END WHEN d.unused > 0 AND d.next_at IS NOT NULL THEN CASE WHEN -d.unused IS NOT NULL THEN greatest(least(d.next_at + greatest(least(-d.unused, 1e17), -1e17) * interval '1 microsecond', '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00') END END, g.next_at)
        FROM done AS d
        WHERE g.concurrency_key = d.key AND g.limited AND g.n = d.n AND d.updates < 64
          AND d.n IN (SELECT m.n FROM mine AS m)
        RETURNING g.concurrency_key
    ), fresh AS (
        INSERT INTO "{{schema}}"."jobs_key_state" (concurrency_key, limited, n, taken, due, next_at, at)
        SELECT d.key, true, greatest(CASE WHEN d.n < 4611686018427387904 THEN d.n + 1 END, nextval('"{{schema}}"."jobs_key_seq"')),
            d.running, d.due,
            coalesce(CASE WHEN d.gap IS NOT NULL THEN CASE WHEN d.released * d.gap - d.unused IS NOT NULL THEN greatest(least(d.first + greatest(least(d.released * d.gap - d.unused, 1e17), -1e17) * interval '1 microsecond', '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00') END WHEN d.unused > 0 AND d.next_at IS NOT NULL THEN CASE WHEN -d.unused IS NOT NULL THEN greatest(least(d.next_at + greatest(least(-d.unused, 1e17), -1e17) * interval '1 microsecond', '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00') END END, d.next_at), now()
        FROM done AS d
        WHERE d.key NOT IN (SELECT e.concurrency_key FROM kept AS e)
          AND (d.n IS NOT NULL OR d.marked OR d.key_rate IS NOT NULL AND d.released > 0)
    ), gone AS (
        DELETE FROM "{{schema}}"."jobs_key_state" AS g
        WHERE g.ctid = ANY (ARRAY(
            SELECT h.known FROM head AS h
            WHERE h.updates >= 64 AND h.n IN (SELECT m.n FROM mine AS m)))
    )
    SELECT count(*) INTO n FROM through;
    RETURN n;
END
$txwork$;

-- Ready -> Failed for rows that wait behind a dead letter whose policy is Park. A fold parks a bounded number of rows.
CREATE FUNCTION "{{schema}}"."jobs_key_park"(k text, behind uuid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
#variable_conflict use_variable
DECLARE
    n integer;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    UPDATE "{{schema}}"."jobs" AS t
    SET status = 3,
        completed_at = clock_timestamp(),
        failed_at = clock_timestamp(),
        last_error = 'parked behind ' || behind
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid FROM "{{schema}}"."jobs" AS r
        WHERE r.concurrency_key = k AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit = 0 THEN r.waiting END AND r.key_seq > (
            SELECT f.key_seq FROM "{{schema}}"."jobs" AS f -- the dead letter may have been redriven since the fold read it
            WHERE f.id = behind AND f.failed_at IS NOT NULL AND f.cancelled_at IS NULL AND f.key_policy = 2)
        ORDER BY r.concurrency_key, r.key_seq
        LIMIT 1000
        FOR NO KEY UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    IF EXISTS (SELECT FROM "{{schema}}"."jobs" AS t
        WHERE t.concurrency_key = k AND CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL AND t.key_limit = 0 THEN t.waiting END) THEN
        INSERT INTO "{{schema}}"."jobs_key_note" (at, concurrency_key, limited, ended)
        VALUES (
            clock_timestamp() + CASE WHEN n = 1000 THEN interval '0' ELSE interval '500 milliseconds' END,
            k, false, 0);
    END IF;
END
$txwork$;

-- Repairs the effects of changes that bypassed the triggers: writes a note for every key that has waiting rows, for at
-- most 1000 ordered and 1000 limited keys. It begins where the last sweep ended, at most every five
-- seconds. It also deletes the rows of key_state whose keys are not in use, and returns how many it deleted.
CREATE FUNCTION "{{schema}}"."jobs_key_sweep"(max_rows integer) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
#variable_conflict use_variable
DECLARE
    place record;
    n integer;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (max_rows BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    SELECT c.ordered_key, c.limited_key, c.swept_at INTO place FROM "{{schema}}"."jobs_key_cursor" AS c FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        IF NOT EXISTS (SELECT FROM "{{schema}}"."jobs_key_cursor") THEN -- the table was truncated
            INSERT INTO "{{schema}}"."jobs_key_cursor" DEFAULT VALUES ON CONFLICT DO NOTHING;
        END IF;
        RETURN 0; -- another session sweeps
    ELSIF place.swept_at BETWEEN clock_timestamp() - interval '5 seconds' AND clock_timestamp() THEN
        RETURN 0;
    END IF;
    place.ordered_key := "{{schema}}"."jobs_key_look"(true, place.ordered_key, least(max_rows, 1000));
    place.limited_key := "{{schema}}"."jobs_key_look"(false, place.limited_key, least(max_rows, 1000));
    UPDATE "{{schema}}"."jobs_key_cursor" AS c
    SET ordered_key = place.ordered_key, limited_key = place.limited_key, swept_at = clock_timestamp();

    DELETE FROM "{{schema}}"."jobs_key_state" AS b
    WHERE b.ctid = ANY (ARRAY(
        SELECT r.ctid FROM "{{schema}}"."jobs_key_state" AS r
        WHERE r.at < now() - interval '1 minute' AND (r.next_at < now() - interval '1 minute') IS NOT FALSE
          AND NOT EXISTS (SELECT FROM "{{schema}}"."jobs_key_state" AS o -- an older row would otherwise become the last one
            WHERE o.concurrency_key = r.concurrency_key AND o.limited = r.limited AND o.n < r.n)
        LIMIT 10 * max_rows
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$txwork$;

-- Writes notes for up to most keys after the given one that have waiting rows; ordered keys with a live row need none.
-- Returns the key after which the next call continues.
CREATE FUNCTION "{{schema}}"."jobs_key_look"(ordered boolean, behind text, most integer) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
#variable_conflict use_variable
DECLARE
    last text := behind;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."jobs"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."jobs_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (most BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'most',
            MESSAGE = 'most must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    FOR i IN 1..most LOOP
        IF ordered THEN
            SELECT t.concurrency_key INTO last FROM "{{schema}}"."jobs" AS t
            WHERE CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL AND t.key_limit = 0 THEN t.waiting END AND t.concurrency_key > last
            ORDER BY t.concurrency_key, t.key_seq LIMIT 1;
        ELSE
            SELECT t.concurrency_key INTO last FROM "{{schema}}"."jobs" AS t
            WHERE CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL AND t.key_limit > 0 THEN t.waiting END AND t.concurrency_key > last
            ORDER BY t.concurrency_key, t."priority", t.due_at, t.key_seq LIMIT 1;
        END IF;
        IF last IS NULL THEN
            RETURN ''; -- the next call starts over
        END IF;
        INSERT INTO "{{schema}}"."jobs_key_note" (at, concurrency_key, limited)
        SELECT now(), last, NOT ordered
        WHERE NOT EXISTS (SELECT FROM "{{schema}}"."jobs" AS t
            WHERE ordered AND t.concurrency_key = last AND CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL THEN NOT t.waiting END AND t.key_limit = 0);
    END LOOP;
    RETURN last;
END
$txwork$;

-- Hides notes and the state of keys from everybody who does not see all rows, if the table has row-level security, and
-- shows them if it has none. Only folds and sweeps need them. For the owner of the tables, who calls it after each
-- change of that.
CREATE FUNCTION "{{schema}}"."jobs_key_policies"() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF (SELECT c.relrowsecurity FROM pg_class AS c WHERE c.oid = '"{{schema}}"."jobs"'::regclass) THEN
        ALTER TABLE "{{schema}}"."jobs_key_note" ENABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."jobs_key_state" ENABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."jobs_key_cursor" ENABLE ROW LEVEL SECURITY;
    ELSE
        ALTER TABLE "{{schema}}"."jobs_key_note" DISABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."jobs_key_state" DISABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."jobs_key_cursor" DISABLE ROW LEVEL SECURITY;
    END IF;
END
$txwork$;

CREATE TRIGGER "jobs_key_enter" BEFORE INSERT ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (NEW.concurrency_key IS NOT NULL OR NEW.key_limit IS NOT NULL)
EXECUTE FUNCTION "{{schema}}"."jobs_key_enter"();

CREATE TRIGGER "jobs_key_come" AFTER UPDATE OF waiting ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (NEW.concurrency_key IS NOT NULL AND NEW.key_seq IS NULL AND NEW.status = 0
    AND (OLD.waiting AND NOT NEW.waiting OR OLD.status = 3))
EXECUTE FUNCTION "{{schema}}"."jobs_key_come"();

CREATE TRIGGER "jobs_key_back" AFTER UPDATE OF due_at ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (NEW.key_seq IS NOT NULL AND (NEW.key_limit > 0 OR NEW.owner_token IS NULL) AND OLD.status = 1
    AND NEW.status = 0)
EXECUTE FUNCTION "{{schema}}"."jobs_key_back"();

CREATE TRIGGER "jobs_key_wait" AFTER UPDATE OF waiting ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (NEW.key_seq IS NOT NULL AND (NEW.waiting OR OLD.status = 1))
EXECUTE FUNCTION "{{schema}}"."jobs_key_wait"();

CREATE TRIGGER "jobs_key_move" AFTER UPDATE OF concurrency_key, key_limit ON "{{schema}}"."jobs"
FOR EACH ROW WHEN ((OLD.key_seq IS NOT NULL OR NOT OLD.waiting) AND OLD.status = 0 AND NEW.status = 0 AND (NEW.concurrency_key IS DISTINCT FROM OLD.concurrency_key OR (NEW.key_limit = 0) IS DISTINCT FROM (OLD.key_limit = 0)))
EXECUTE FUNCTION "{{schema}}"."jobs_key_move"();

CREATE TRIGGER "jobs_key_note"
AFTER UPDATE OF completed_at, due_at, key_policy, "priority" ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (NEW.key_seq IS NOT NULL
    AND (NEW.waiting OR NEW.completed_at IS NOT NULL OR OLD.completed_at IS NOT NULL))
EXECUTE FUNCTION "{{schema}}"."jobs_key_note"();

CREATE TRIGGER "jobs_key_gone_all" AFTER TRUNCATE ON "{{schema}}"."jobs"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."jobs_key_forget"();

CREATE TRIGGER "jobs_key_lost_all" AFTER TRUNCATE ON "{{schema}}"."jobs_key_note"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."jobs_key_forget"();

CREATE TRIGGER "jobs_key_gone" AFTER DELETE ON "{{schema}}"."jobs"
FOR EACH ROW WHEN (OLD.key_seq IS NOT NULL AND (OLD.failed_at IS NOT NULL OR OLD.completed_at IS NULL))
EXECUTE FUNCTION "{{schema}}"."jobs_key_note"();

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_key_enter"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_key_come"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_key_back"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_key_wait"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_key_note"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_key_move"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_key_forget"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_key_place"(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_key_fold"(integer, timestamptz, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_key_next"(text[], boolean[], integer[], bigint[], jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_key_fill"(text[], boolean[], integer[], timestamptz[], double precision[], timestamptz, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_key_park"(text, uuid) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_key_sweep"(integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_key_look"(boolean, text, integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_key_policies"() FROM PUBLIC;

-- A retry policy that cannot be computed would fail the reaper's whole batch. It is a domain because the server parses
-- a CHECK of a table anew for every statement that writes to the table, and that of a domain once in a session. Delays
-- are whole microseconds, and a jitter is 0 or large enough to matter: NaN would pass a comparison by >=, and numbers
-- that are too large or too small make a multiplication fail. The types of each operator match its operands exactly, so
-- that no operator in the caller's search_path fits better.
CREATE DOMAIN "{{schema}}"."jobs_schedule_retry" AS jsonb CONSTRAINT "jobs_schedule_retry_check" CHECK (
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
CREATE DOMAIN "{{schema}}"."jobs_schedule_time" AS timestamptz CONSTRAINT "jobs_schedule_time_check" CHECK (
    VALUE <@ '[0001-01-01 00:00:00+00, 9999-12-31 00:00:00+00]'::tstzrange
);

CREATE TABLE "{{schema}}"."jobs_schedule" (
    id uuid PRIMARY KEY DEFAULT encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid,
    due_at "{{schema}}"."jobs_schedule_time" NOT NULL DEFAULT now(),
    created_at "{{schema}}"."jobs_schedule_time" NOT NULL DEFAULT now(),
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
    locked_until "{{schema}}"."jobs_schedule_time",
    completed_at "{{schema}}"."jobs_schedule_time",
    owner_token uuid,
    failed_at "{{schema}}"."jobs_schedule_time",
    cancelled_at "{{schema}}"."jobs_schedule_time",
    last_error text,
    headers jsonb,
    retry "{{schema}}"."jobs_schedule_retry",
    "name" text NOT NULL,
    "expr" text NOT NULL,
    "zone" text NOT NULL,
    "misfire" text NOT NULL,
    "overlap" text NOT NULL,
    "template" bytea NOT NULL,
    "next_at" "{{schema}}"."jobs_schedule_time",
    "last_at" "{{schema}}"."jobs_schedule_time",
    "buffered_at" "{{schema}}"."jobs_schedule_time",
    "owed" jsonb,
    "anchor" "{{schema}}"."jobs_schedule_time",
    "version" bigint,
    "resumed_at" "{{schema}}"."jobs_schedule_time",
    "triggers" jsonb,
    -- Which times each status has. It is short because every statement that writes parses the checks anew: a row in
    -- progress has locked_until (1), a done one has completed_at, which counts twice (2), and a failed one has
    -- completed_at and failed_at (3). A ready row is not cancelled: no claim would end it.
    CONSTRAINT "jobs_schedule_state_check" CHECK (
        status = num_nonnulls(completed_at, completed_at, failed_at, locked_until)
        AND CASE WHEN completed_at IS NOT NULL THEN locked_until IS NULL
            ELSE failed_at IS NULL AND CASE WHEN locked_until IS NULL THEN cancelled_at IS NULL
                ELSE owner_token IS NOT NULL AND NOT waiting END
            END
    ),
    -- A Ready row without attempts left would fail every claim that finds it. A row in progress may be at its last
    -- attempt. The status is subtracted because a sum would overflow in a row whose maximum is the greatest integer.
    CONSTRAINT "jobs_schedule_attempts_check"
        CHECK (max_attempts > 0 AND attempts >= 0 AND attempts - status < max_attempts)
) WITH (
    fillfactor = 42,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);

COMMENT ON TABLE "{{schema}}"."jobs_schedule" IS 'txwork core 1';

CREATE INDEX "jobs_schedule_claim_idx" ON "{{schema}}"."jobs_schedule" (due_at, id)
    WHERE completed_at IS NULL AND NOT waiting;

CREATE INDEX "jobs_schedule_waiting_idx" ON "{{schema}}"."jobs_schedule" (id) WHERE completed_at IS NULL AND waiting;

CREATE INDEX "jobs_schedule_done_idx" ON "{{schema}}"."jobs_schedule" (completed_at)
    WHERE completed_at IS NOT NULL AND (failed_at IS NULL OR cancelled_at IS NOT NULL);

CREATE INDEX "jobs_schedule_failed_idx" ON "{{schema}}"."jobs_schedule" (failed_at, id) WHERE failed_at IS NOT NULL;

CREATE UNIQUE INDEX "jobs_schedule_unique_idx" ON "{{schema}}"."jobs_schedule"
    ("name")
    WHERE "name" IS NOT NULL;

-- Notifies workers, unless an announcer does so for this transaction. A trigger of another table, which no announcer
-- watches, passes an argument so that it always notifies.
--
-- No search_path is pinned; every name is qualified instead. Setting and resetting it would cost the server a tenth of
-- a transaction that inserts one row.
CREATE FUNCTION "{{schema}}"."jobs_schedule_announce"() RETURNS trigger
LANGUAGE plpgsql
AS $txwork$
BEGIN
    IF TG_NARGS OPERATOR(pg_catalog.>) 0 OR (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs_schedule announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.jobs_schedule announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs_schedule silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.jobs_schedule announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.jobs_schedule announcer', 0)) ELSE false END)
        ELSE true END) THEN
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END);
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_announce"() FROM PUBLIC;

CREATE TRIGGER "jobs_schedule_announce" AFTER INSERT ON "{{schema}}"."jobs_schedule"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."jobs_schedule_announce"();

-- What {{schema}}.jobs_schedule_fetch returns: rows, and one end. A later version appends columns at the end.
CREATE TYPE "{{schema}}"."jobs_schedule_fetched" AS (
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
CREATE FUNCTION "{{schema}}"."jobs_schedule_fetch"(
    owner_token uuid,
    lease interval,
    n integer,
    cursor text DEFAULT NULL,
    heard text[] DEFAULT NULL,
    sweep boolean DEFAULT NULL
) RETURNS SETOF "{{schema}}"."jobs_schedule_fetched"
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
    result "{{schema}}"."jobs_schedule_fetched";
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

    digest := left(encode(sha256(convert_to(jsonb_build_array('{{schema}}.jobs_schedule')::text, 'UTF8')), 'hex'), 16);
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
        FROM "{{schema}}"."jobs_schedule" AS r
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
UPDATE "{{schema}}"."jobs_schedule" AS t
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
    FROM "{{schema}}"."jobs_schedule" AS r
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

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_fetch"(uuid, interval, integer, text, text[], boolean) FROM PUBLIC;

-- Settles rows with one outcome, in the order of their ids, which are sorted and of which none is repeated. It returns
-- the result of each row that did not become what is usual, see settle_one.sql. All settles of the other functions are
-- made here, so each statement is there once. With strict, ids that the claim does not hold are an error.
CREATE FUNCTION "{{schema}}"."jobs_schedule_settle_rows"(outcome text, ids uuid[], tokens uuid[], delays bigint[], times timestamptz[], errors text[], strict boolean) RETURNS jsonb
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
UPDATE "{{schema}}"."jobs_schedule" AS t
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
LEFT JOIN "{{schema}}"."jobs_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
        ELSE
        WITH settled AS (
UPDATE "{{schema}}"."jobs_schedule" AS t
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
LEFT JOIN "{{schema}}"."jobs_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
        END IF;
    WHEN 'retry' THEN
        WITH settled AS (
UPDATE "{{schema}}"."jobs_schedule" AS t
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
LEFT JOIN "{{schema}}"."jobs_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'snooze' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."jobs_schedule" AS t
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
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs_schedule', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."jobs_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'wait_until' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."jobs_schedule" AS t
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
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs_schedule', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."jobs_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'leave' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."jobs_schedule" AS t
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
LEFT JOIN "{{schema}}"."jobs_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'release' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."jobs_schedule" AS t
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
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs_schedule', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."jobs_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'fail' THEN
        WITH settled AS (
UPDATE "{{schema}}"."jobs_schedule" AS t
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
LEFT JOIN "{{schema}}"."jobs_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'cancel' THEN
        WITH settled AS (
UPDATE "{{schema}}"."jobs_schedule" AS t
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
LEFT JOIN "{{schema}}"."jobs_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'unavailable' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."jobs_schedule" AS t
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
LEFT JOIN "{{schema}}"."jobs_schedule" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
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

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_settle_rows"(text, uuid[], uuid[], bigint[], timestamptz[], text[], boolean) FROM PUBLIC;

-- Settles rows with an outcome for each, kind by kind. It tells what each row became: see settle_one.sql. What an
-- element says is checked before anything is written or locked.
CREATE FUNCTION "{{schema}}"."jobs_schedule_settle"(outcomes jsonb, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
                || "{{schema}}"."jobs_schedule_settle_rows"(own.kind, own.sorted, own.tokens, own.delays, own.times, own.errors, false);
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

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_settle"(jsonb, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."jobs_schedule_ack"(owner_token uuid, ids uuid[], strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."jobs_schedule_settle_rows"('ack', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, NULL, $3);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'done')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_ack"(uuid, uuid[], boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."jobs_schedule_retry"(owner_token uuid, ids uuid[], delay interval DEFAULT NULL, error text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."jobs_schedule_settle_rows"('retry', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        array_fill((extract(epoch FROM $3) * 1000000)::bigint, ARRAY[cardinality(own.sorted)]), NULL, array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_retry"(uuid, uuid[], interval, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."jobs_schedule_snooze"(owner_token uuid, ids uuid[], delay interval, reason text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."jobs_schedule_settle_rows"('snooze', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        array_fill((extract(epoch FROM $3) * 1000000)::bigint, ARRAY[cardinality(own.sorted)]), NULL, array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_snooze"(uuid, uuid[], interval, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."jobs_schedule_wait_until"(owner_token uuid, ids uuid[], at timestamptz, reason text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."jobs_schedule_settle_rows"('wait_until', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, array_fill($3, ARRAY[cardinality(own.sorted)]), array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_wait_until"(uuid, uuid[], timestamptz, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."jobs_schedule_release"(owner_token uuid, ids uuid[], strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."jobs_schedule_settle_rows"('release', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, NULL, $3);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_release"(uuid, uuid[], boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."jobs_schedule_fail"(owner_token uuid, ids uuid[], error text, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."jobs_schedule_settle_rows"('fail', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, array_fill($3, ARRAY[cardinality(own.sorted)]), $4);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'failed')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_fail"(uuid, uuid[], text, boolean) FROM PUBLIC;

-- Renews leases, and tells of each row whether that was done: extended; cancelled, which is extended, too, but a cancel
-- has been asked for; busy if another transaction has the row locked, such as its own settle; lost or gone.
CREATE FUNCTION "{{schema}}"."jobs_schedule_extend"(owner_token uuid, ids uuid[], lease interval, within interval DEFAULT NULL) RETURNS TABLE (place integer, id uuid, result text, locked_until timestamptz)
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
UPDATE "{{schema}}"."jobs_schedule" AS t
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
    JOIN "{{schema}}"."jobs_schedule" AS r ON r.id = h.id
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
LEFT JOIN "{{schema}}"."jobs_schedule" AS t ON t.id = ANY (own.sorted::uuid[]) AND t.id = s.id) AS k;
        END IF;
    RETURN QUERY
    SELECT u.place::integer, u.id, u.result, CASE WHEN u.result IN ('extended', 'cancelled') THEN own.until END
    FROM (
        SELECT v.place, v.id, coalesce(own.answers ->> v.id::text, 'extended') AS result
        FROM unnest($2) WITH ORDINALITY AS v (id, place)) AS u;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_extend"(uuid, uuid[], interval, interval) FROM PUBLIC;

-- The ack of one row in the transaction of its effects: an error unless the claim holds the row, so that the effects
-- are rolled back, too. A repetition is one: what an earlier transaction did with this token has its effects.
CREATE FUNCTION "{{schema}}"."jobs_schedule_complete"(owner_token uuid, id uuid) RETURNS void
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
    SELECT a.result INTO told FROM "{{schema}}"."jobs_schedule_ack"($1, ARRAY[$2]) AS a;
    IF told IS DISTINCT FROM 'done' THEN
        RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'id',
            MESSAGE = format('id is of a row that the claim does not hold: %s is %s', $2, told),
            HINT = 'Roll back: another worker has such a row, or it has ended.';
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_complete"(uuid, uuid) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_schedule_reap_expired"(max_rows integer DEFAULT 1000) RETURNS TABLE (requeued integer, failed integer, cancelled integer, dead_letters jsonb)
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
    FROM "{{schema}}"."jobs_schedule" AS r
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
    FROM "{{schema}}"."jobs_schedule" AS r
    WHERE EXISTS (SELECT FROM taken)
      AND r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND substring(uuid_send(r.owner_token) FROM 1 FOR 6) = ANY (ARRAY(SELECT k.process FROM taken AS k))
      AND r.id <> ALL (ARRAY(SELECT k.id FROM taken AS k))
), left_alone AS (
    UPDATE "{{schema}}"."jobs_schedule" AS t
    SET headers = coalesce(t.headers, '{}'::jsonb)
        || jsonb_build_object('txwork-lost-beside', t.owner_token::text)
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM "{{schema}}"."jobs_schedule" AS r
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
    UPDATE "{{schema}}"."jobs_schedule" AS t
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
HAVING CASE WHEN bool_or(changed.status = 0) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_reap_expired"(integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_schedule_stats"() RETURNS TABLE (ready bigint, scheduled bigint, in_progress bigint, expired bigint, waiting bigint, failed bigint, cancelled bigint, oldest_ready_seconds double precision, partial boolean)
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
       (SELECT count(*) FROM "{{schema}}"."jobs_schedule" AS w WHERE w.completed_at IS NULL AND w.waiting) AS waiting,
       (SELECT count(*) FROM "{{schema}}"."jobs_schedule" AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NULL) AS failed,
       (SELECT count(*) FROM "{{schema}}"."jobs_schedule" AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NOT NULL) AS cancelled,
       coalesce(extract(epoch FROM now() - min(r.due_at) FILTER (WHERE r.status = 0 AND r.due_at <= now())), 0)::float8
           AS oldest_ready_seconds,
       row_security_active('"{{schema}}"."jobs_schedule"'::regclass) AS partial
FROM "{{schema}}"."jobs_schedule" AS r
WHERE r.completed_at IS NULL AND NOT r.waiting;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_stats"() FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_schedule_run_now"(ids uuid[]) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."jobs_schedule" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."jobs_schedule" AS t
    SET due_at = now()::timestamptz
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 0
      AND (t.due_at > now()::timestamptz OR t.due_at < now()::timestamptz AND NOT true::boolean)
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."jobs_schedule" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_run_now"(uuid[]) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_schedule_reschedule"(ids uuid[], at timestamptz) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."jobs_schedule" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."jobs_schedule" AS t
    SET due_at = $2::timestamptz
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 0
      AND (t.due_at > $2::timestamptz OR t.due_at < $2::timestamptz AND NOT false::boolean)
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."jobs_schedule" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_reschedule"(uuid[], timestamptz) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_schedule_redrive"(ids uuid[], actor text DEFAULT NULL) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."jobs_schedule" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
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
        headers = CASE WHEN jsonb_typeof(t.headers) = 'object' THEN t.headers - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent']
            ELSE coalesce(t.headers, '{}'::jsonb) END || jsonb_build_object(
            'txwork-redriven-by', coalesce($2::text, session_user::text),
            'txwork-redriven-at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 3
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."jobs_schedule" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_redrive"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_schedule_cancel"(ids uuid[], reason text) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."jobs_schedule" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."jobs_schedule" AS t
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
    HAVING CASE WHEN bool_or(changed.status = 1) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs_schedule', 'cancel') ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END
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
LEFT JOIN "{{schema}}"."jobs_schedule" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_cancel"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_schedule_discard"(ids uuid[], reason text) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."jobs_schedule" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH hit AS (
UPDATE "{{schema}}"."jobs_schedule" AS t
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
LEFT JOIN "{{schema}}"."jobs_schedule" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_discard"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."jobs_schedule_delete"(ids uuid[]) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."jobs_schedule" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR UPDATE;
    RETURN QUERY
WITH hit AS (
DELETE FROM "{{schema}}"."jobs_schedule" AS t
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
LEFT JOIN "{{schema}}"."jobs_schedule" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_delete"(uuid[]) FROM PUBLIC;

-- One transaction of the procedure fold: each fold of the table once. The cursor says how far each fold came, so that
-- notes that are deleted but not yet vacuumed are not read again, and when the next pass from the start is due, which
-- finds notes that older transactions have written behind the cursor: after forty times as long as the last pass took,
-- and after between a second and a minute. A cursor of another table counts as none, and so does a pass that is further
-- ahead than that, as it is after a failover. The numbers are microseconds.
CREATE FUNCTION "{{schema}}"."jobs_schedule_fold_step"(
    max_notes integer, INOUT cursor text, INOUT folded integer, OUT again_in double precision, OUT busy boolean,
    OUT more boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_variable
DECLARE
    started constant timestamptz := clock_timestamp();
    own constant text := left(md5('{{schema}}.jobs_schedule'), 8);
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
CREATE PROCEDURE "{{schema}}"."jobs_schedule_fold"(
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
        FROM "{{schema}}"."jobs_schedule_fold_step"(1000, cursor, folded) AS s;
        EXIT WHEN more IS NOT TRUE;
    END LOOP;
    COMMIT;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_fold_step"(integer, text, integer) FROM PUBLIC;
REVOKE ALL ON PROCEDURE "{{schema}}"."jobs_schedule_fold"(text, integer, double precision, boolean) FROM PUBLIC;

-- Does one kind of maintenance although rows are in its way, such as a row that a foreign key of the application keeps
-- from being deleted: the part of the rows that failed is halved until the row is by itself, and skipped. The next part
-- is twice as large as one that succeeded. Each part is a subtransaction, so n rows cost at most about three each, and
-- a few bad rows some tens together. A part waits little for locks, because the next ones wait for it.
--
-- If nothing succeeds, the rows are not the cause, and the error is raised: one about rights or names at once, another
-- after 16 rows.
CREATE FUNCTION "{{schema}}"."jobs_schedule_each"(
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
    FROM "{{schema}}"."jobs_schedule" AS r
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
                FROM "{{schema}}"."jobs_schedule" AS r
                WHERE r.completed_at IS NULL
                  AND NOT r.waiting
                  AND r.status = 1
                  AND r.due_at <= now()) AS p
            WHERE p.rows > 1);
    WHEN 'purge_done' THEN
        ids := ARRAY(
    SELECT r.id
    FROM "{{schema}}"."jobs_schedule" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - $3::interval
      AND r.id <> ALL ($4)
    ORDER BY r.completed_at
    LIMIT $2::int);
    WHEN 'purge_failed' THEN
        ids := ARRAY(
    SELECT r.id
    FROM "{{schema}}"."jobs_schedule" AS r
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
    FROM "{{schema}}"."jobs_schedule" AS r
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
    UPDATE "{{schema}}"."jobs_schedule" AS t
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
HAVING CASE WHEN bool_or(changed.status = 0) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END
                LOOP
                    done := done + changed.requeued;
                    failed := failed + changed.failed;
                    cancelled := cancelled + changed.cancelled;
                    dead_letters := coalesce(dead_letters, '[]') || coalesce(changed.dead_letters, '[]');
                END LOOP;
            WHEN 'purge_done' THEN
                WITH purged AS (
DELETE FROM "{{schema}}"."jobs_schedule" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."jobs_schedule" AS r
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
DELETE FROM "{{schema}}"."jobs_schedule" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."jobs_schedule" AS r
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

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_each"(text, integer, interval, uuid[]) FROM PUBLIC;

-- Deletes rows that ended longer ago than their retention: the caller's, or the table's own by default. A NULL
-- retention keeps rows for ever. Cancelled rows are kept and counted like done ones.
CREATE FUNCTION "{{schema}}"."jobs_schedule_purge"(
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
DELETE FROM "{{schema}}"."jobs_schedule" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."jobs_schedule" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - $2::interval
    ORDER BY r.completed_at
    LIMIT $1::int
    FOR UPDATE SKIP LOCKED))
RETURNING t.id
    ), purged_failed AS (
DELETE FROM "{{schema}}"."jobs_schedule" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."jobs_schedule" AS r
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
CREATE FUNCTION "{{schema}}"."jobs_schedule_maintain_step"(
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
    IF pg_catalog.row_security_active('"{{schema}}"."jobs_schedule"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.jobs_schedule or of its other tables from this role: rows that it does not see would be taken for gone',
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
                n := (SELECT r.requeued + r.failed FROM "{{schema}}"."jobs_schedule_reap_expired"($2) AS r);
            WHEN 'purge_done' THEN
                n := (SELECT p.done FROM "{{schema}}"."jobs_schedule_purge"($2, $3, NULL) AS p);
            WHEN 'purge_failed' THEN
                n := (SELECT p.failed FROM "{{schema}}"."jobs_schedule_purge"($2, NULL, $4) AS p);
            WHEN 'fold' THEN
                n := (SELECT f.folded FROM "{{schema}}"."jobs_schedule_fold_step"($2, NULL, 0) AS f);
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
        FROM "{{schema}}"."jobs_schedule_each"($1, $2, CASE $1 WHEN 'purge_done' THEN $3 WHEN 'purge_failed' THEN $4 END, skipped);
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
CREATE PROCEDURE "{{schema}}"."jobs_schedule_maintain"(
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
                FROM "{{schema}}"."jobs_schedule_maintain_step"(kind, max_rows, retention, failed_retention, skipped, said) AS s;
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
        PERFORM "{{schema}}"."leader_note"('{{schema}}.jobs_schedule', problem);
    EXCEPTION WHEN undefined_function OR insufficient_privilege THEN
        NULL;
    END;
    COMMIT;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'a part of the maintenance failed, the rest is done: %', problem;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_purge"(integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_maintain_step"(text, integer, interval, interval, uuid[], text) FROM PUBLIC;
REVOKE ALL ON PROCEDURE "{{schema}}"."jobs_schedule_maintain"(integer, interval, interval) FROM PUBLIC;

-- Pauses a schedule, as Plan.Pause does. The result is paused, also if it was before, or gone: there is none of that
-- name.
CREATE FUNCTION "{{schema}}"."jobs_schedule_pause"(name text, OUT result text)
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
    PERFORM FROM "{{schema}}"."jobs_schedule" AS t WHERE t.name = $1 FOR NO KEY UPDATE;
    result := CASE WHEN FOUND THEN 'paused' ELSE 'gone' END;
    UPDATE "{{schema}}"."jobs_schedule" AS t
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
CREATE FUNCTION "{{schema}}"."jobs_schedule_resume"(name text, OUT result text)
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
    SELECT t.id, t.paused INTO own, held FROM "{{schema}}"."jobs_schedule" AS t WHERE t.name = $1 FOR NO KEY UPDATE;
    result := CASE WHEN FOUND THEN 'resumed' ELSE 'gone' END;
    IF held THEN
        WITH changed AS (
            UPDATE "{{schema}}"."jobs_schedule" AS t
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
        SELECT changed.id, (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END)::text FROM changed INTO own, told;
    END IF;
END
$txwork$;

-- Asks schedulers for an occurrence outside of the plan. The result is triggered, with the id that the timer or job
-- will have; gone; ended: the schedule is never due again, and no scheduler looks at it; or full, if 1000
-- of them wait for a scheduler.
CREATE FUNCTION "{{schema}}"."jobs_schedule_trigger"(name text, OUT id uuid, OUT result text)
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
    FROM "{{schema}}"."jobs_schedule" AS t WHERE t.name = $1 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        result := 'gone';
    ELSIF result = 'triggered' THEN
        id := encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid;
        WITH changed AS (
            UPDATE "{{schema}}"."jobs_schedule" AS t
            SET triggers = coalesce(t.triggers, '[]') || jsonb_build_object('id', $2::uuid, 'at', clock_timestamp()),
                due_at = CASE WHEN t.status = 1 THEN t.due_at ELSE least(t.due_at, now()) END
            WHERE t.id = own
            RETURNING t.id
        )
        SELECT changed.id, (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.jobs_schedule', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END)::text FROM changed INTO own, told;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_pause"(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_resume"(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."jobs_schedule_trigger"(text) FROM PUBLIC;
