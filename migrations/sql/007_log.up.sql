-- A retry policy that cannot be computed would fail the reaper's whole batch. It is a domain because the server parses
-- a CHECK of a table anew for every statement that writes to the table, and that of a domain once in a session. Delays
-- are whole microseconds, and a jitter is 0 or large enough to matter: NaN would pass a comparison by >=, and numbers
-- that are too large or too small make a multiplication fail. The types of each operator match its operands exactly, so
-- that no operator in the caller's search_path fits better.
CREATE DOMAIN "{{schema}}"."outbox_log_parked_retry" AS jsonb CONSTRAINT "outbox_log_parked_retry_check" CHECK (
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
CREATE DOMAIN "{{schema}}"."outbox_log_parked_time" AS timestamptz CONSTRAINT "outbox_log_parked_time_check" CHECK (
    VALUE <@ '[0001-01-01 00:00:00+00, 9999-12-31 00:00:00+00]'::tstzrange
);

CREATE TABLE "{{schema}}"."outbox_log_parked" (
    id uuid PRIMARY KEY DEFAULT encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid,
    due_at "{{schema}}"."outbox_log_parked_time" NOT NULL DEFAULT now(),
    created_at "{{schema}}"."outbox_log_parked_time" NOT NULL DEFAULT now(),
    max_attempts integer NOT NULL DEFAULT 130,
    "seq" bigint NOT NULL,
    "appended_at" "{{schema}}"."outbox_log_parked_time" NOT NULL,
    "message_id" uuid NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    status smallint NOT NULL DEFAULT 0,
    waiting boolean NOT NULL DEFAULT false,
    locked_until "{{schema}}"."outbox_log_parked_time",
    completed_at "{{schema}}"."outbox_log_parked_time",
    owner_token uuid,
    failed_at "{{schema}}"."outbox_log_parked_time",
    cancelled_at "{{schema}}"."outbox_log_parked_time",
    last_error text,
    headers jsonb,
    retry "{{schema}}"."outbox_log_parked_retry",
    "subscription" text NOT NULL,
    "topic" text NOT NULL,
    "key" text,
    "payload" bytea NOT NULL,
    "concurrency_key" text,
    "key_limit" integer,
    "key_policy" smallint,
    "key_rate" double precision,
    "key_burst" integer,
    "key_seq" bigint,
    -- Which times each status has. It is short because every statement that writes parses the checks anew: a row in
    -- progress has locked_until (1), a done one has completed_at, which counts twice (2), and a failed one has
    -- completed_at and failed_at (3). A ready row is not cancelled: no claim would end it.
    CONSTRAINT "outbox_log_parked_state_check" CHECK (
        status = num_nonnulls(completed_at, completed_at, failed_at, locked_until)
        AND CASE WHEN completed_at IS NOT NULL THEN locked_until IS NULL
            ELSE failed_at IS NULL AND CASE WHEN locked_until IS NULL THEN cancelled_at IS NULL
                ELSE owner_token IS NOT NULL AND NOT waiting END
            END
    ),
    -- A Ready row without attempts left would fail every claim that finds it. A row in progress may be at its last
    -- attempt. The status is subtracted because a sum would overflow in a row whose maximum is the greatest integer.
    CONSTRAINT "outbox_log_parked_attempts_check"
        CHECK (max_attempts > 0 AND attempts >= 0 AND attempts - status < max_attempts)
) WITH (
    fillfactor = 42,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);

COMMENT ON TABLE "{{schema}}"."outbox_log_parked" IS 'txwork core 1';

CREATE INDEX "outbox_log_parked_claim_idx" ON "{{schema}}"."outbox_log_parked" ("subscription", due_at, id)
    WHERE completed_at IS NULL AND NOT waiting;

CREATE INDEX "outbox_log_parked_waiting_idx" ON "{{schema}}"."outbox_log_parked" (id) WHERE completed_at IS NULL AND waiting;

CREATE INDEX "outbox_log_parked_done_idx" ON "{{schema}}"."outbox_log_parked" (completed_at)
    WHERE completed_at IS NOT NULL AND (failed_at IS NULL OR cancelled_at IS NOT NULL);

CREATE INDEX "outbox_log_parked_failed_idx" ON "{{schema}}"."outbox_log_parked" (failed_at, id) WHERE failed_at IS NOT NULL;

-- Notifies workers, unless an announcer does so for this transaction. A trigger of another table, which no announcer
-- watches, passes an argument so that it always notifies.
--
-- No search_path is pinned; every name is qualified instead. Setting and resetting it would cost the server a tenth of
-- a transaction that inserts one row.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_announce"() RETURNS trigger
LANGUAGE plpgsql
AS $txwork$
BEGIN
    IF TG_NARGS OPERATOR(pg_catalog.>) 0 OR (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) ELSE false END)
        ELSE true END) THEN
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END);
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_announce"() FROM PUBLIC;

CREATE TRIGGER "outbox_log_parked_announce" AFTER INSERT ON "{{schema}}"."outbox_log_parked"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."outbox_log_parked_announce"();

-- What {{schema}}.outbox_log_parked_fetch returns: rows, and one end. A later version appends columns at the end.
CREATE TYPE "{{schema}}"."outbox_log_parked_fetched" AS (
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
    "subscription" text,
    "message_id" uuid,
    "seq" bigint,
    "appended_at" timestamptz,
    "topic" text,
    "key" text,
    "payload" bytea,
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
CREATE FUNCTION "{{schema}}"."outbox_log_parked_fetch"(
    owner_token uuid,
    lease interval,
    n integer,
    "subscription" text[],
    cursor text DEFAULT NULL,
    heard text[] DEFAULT NULL,
    sweep boolean DEFAULT NULL
) RETURNS SETOF "{{schema}}"."outbox_log_parked_fetched"
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
    result "{{schema}}"."outbox_log_parked_fetched";
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
    IF (1 * cardinality($4) BETWEEN 1 AND 64 AND array_position($4, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'subscription',
            MESSAGE = 'subscription must have values, none of them NULL, of at most 64 lanes',
            HINT = 'Pass the lanes to fetch from, the most urgent first.';
    END IF;
    IF ($6 IS NULL OR cardinality($6) <= 10000
        AND array_position($6, NULL) IS NULL) IS NOT TRUE THEN
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
    SELECT array_agg(e1.value::text ORDER BY e1.ord)
    INTO own.lane1
    FROM unnest($4) WITH ORDINALITY AS e1 (value, ord)
    WHERE array_position($4, e1.value) = e1.ord;
    place := array_fill('-infinity'::timestamptz, ARRAY[cardinality(own.lane1)]);
    place_id := array_fill(own.nobody, ARRAY[cardinality(own.lane1)]);

    digest := left(encode(sha256(convert_to(jsonb_build_array('{{schema}}.outbox_log_parked', own.lane1)::text, 'UTF8')), 'hex'), 16);
    IF $5 IS NOT NULL THEN
        IF (octet_length($5) <= 8192 AND $5 ~ '^[0-9]{1,9} [0-9a-f]{16}( [^ ]+)*$') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'cursor',
            MESSAGE = 'cursor is not what an earlier call has returned',
            HINT = 'Pass the cursor of your last call that committed, or NULL to begin anew.';
    END IF;
        fields := string_to_array($5, ' ');
        IF own.fields[1] = '1' AND own.fields[2] = own.digest THEN
            IF ($5 ~ concat('^[0-9]+ [0-9a-f]{16} [0-9]{1,17} [0-9]{1,12} [01] [0-9]{1,6}( (-|-?[0-9]{1,17})/[0-9a-f]{32}){', cardinality(own.place), '}$')) IS NOT TRUE THEN
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
    is_sweep := coalesce($7, own.clock >= own.sweep_at OR own.sweep_at > own.clock + 60000000);
    IF $6 IS NOT NULL THEN
        SELECT 'epoch'::timestamptz + min(substring(h.payload FROM '^(?:fold:)?([0-9]{1,16})$')::bigint)
                * interval '1 microsecond',
            bool_or(starts_with(h.payload, 'front:'))
        INTO own.heard_at, own.fronts
        FROM unnest($6) AS h (payload);
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
                SELECT l.ord::integer AS ord, min((substr(h.payload, 7)::jsonb ->> left(encode(sha256(convert_to(jsonb_build_array(l.c1)::text, 'UTF8')), 'hex'), 16))::timestamptz) AS due
                FROM unnest(own.lane1, own.place) WITH ORDINALITY
                    AS l (c1, place, ord)
                CROSS JOIN unnest($6) AS h (payload)
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
    FROM unnest(own.reached::timestamptz[], own.reached_id::uuid[], own.lane1::text[])
        WITH ORDINALITY AS l (after_due, after_id, c1, ord)
    CROSS JOIN LATERAL (
        SELECT r.ctid, r.due_at, r.id
        FROM "{{schema}}"."outbox_log_parked" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= own.began
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
          AND r."subscription" = l.c1
        ORDER BY r."subscription", r.due_at, r.id
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
UPDATE "{{schema}}"."outbox_log_parked" AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = $1::uuid,
    locked_until = clock_timestamp() + $2::interval
WHERE t.ctid = ANY (own.taken)
RETURNING t.*
        )
        SELECT 'row', (row_number() OVER ())::integer, c.id, c.locked_until::timestamptz, c.due_at::timestamptz,
            c.created_at::timestamptz, c.attempts, c.max_attempts, coalesce(pg_catalog."substring"(c.headers OPERATOR(pg_catalog.->>) 'txwork-lost-together', '^[0-9]{1,4}$')::bigint, 0)::integer, c.headers,
            c."subscription",
            c."message_id",
            c."seq",
            c."appended_at"::timestamptz,
            c."topic",
            c."key",
            c."payload",
            c."concurrency_key",
            NULL::double precision, NULL::boolean, NULL, NULL
        FROM (
            SELECT c.*
            FROM changed AS c
            JOIN unnest(own.lane1) WITH ORDINALITY
                AS l (c1, ord)
                ON c."subscription" = l.c1
            ORDER BY l.ord, c.due_at, c.id) AS c;
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
    IF own.lead > 1 THEN
        place := own.place[2:own.lead] || own.place[1] || own.place[own.lead + 1:];
        place_id := own.place_id[2:own.lead] || own.place_id[1] || own.place_id[own.lead + 1:];
    END IF;
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
FROM unnest(own.lane1::text[])
    AS l (c1)
CROSS JOIN LATERAL (
    SELECT r.due_at
    FROM "{{schema}}"."outbox_log_parked" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 0
      AND r.due_at > least(own.began::timestamptz, own.began)
      AND r."subscription" = l.c1
    ORDER BY r."subscription", r.due_at, r.id
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

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_fetch"(uuid, interval, integer, text[], text, text[], boolean) FROM PUBLIC;

-- Settles rows with one outcome, in the order of their ids, which are sorted and of which none is repeated. It returns
-- the result of each row that did not become what is usual, see settle_one.sql. All settles of the other functions are
-- made here, so each statement is there once. With strict, ids that the claim does not hold are an error.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_settle_rows"(outcome text, ids uuid[], tokens uuid[], delays bigint[], times timestamptz[], errors text[], strict boolean) RETURNS jsonb
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
UPDATE "{{schema}}"."outbox_log_parked" AS t
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
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
        ELSE
        WITH settled AS (
UPDATE "{{schema}}"."outbox_log_parked" AS t
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
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
        END IF;
    WHEN 'retry' THEN
        WITH settled AS (
UPDATE "{{schema}}"."outbox_log_parked" AS t
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
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'snooze' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."outbox_log_parked" AS t
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
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'wait_until' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."outbox_log_parked" AS t
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
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'leave' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."outbox_log_parked" AS t
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
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'release' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."outbox_log_parked" AS t
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
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'fail' THEN
        WITH settled AS (
UPDATE "{{schema}}"."outbox_log_parked" AS t
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
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'cancel' THEN
        WITH settled AS (
UPDATE "{{schema}}"."outbox_log_parked" AS t
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
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'unavailable' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."outbox_log_parked" AS t
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
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
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

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_settle_rows"(text, uuid[], uuid[], bigint[], timestamptz[], text[], boolean) FROM PUBLIC;

-- Settles rows with an outcome for each, kind by kind. It tells what each row became: see settle_one.sql. What an
-- element says is checked before anything is written or locked.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_settle"(outcomes jsonb, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
                || "{{schema}}"."outbox_log_parked_settle_rows"(own.kind, own.sorted, own.tokens, own.delays, own.times, own.errors, false);
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

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_settle"(jsonb, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_ack"(owner_token uuid, ids uuid[], strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."outbox_log_parked_settle_rows"('ack', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, NULL, $3);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'done')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_ack"(uuid, uuid[], boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_retry"(owner_token uuid, ids uuid[], delay interval DEFAULT NULL, error text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."outbox_log_parked_settle_rows"('retry', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        array_fill((extract(epoch FROM $3) * 1000000)::bigint, ARRAY[cardinality(own.sorted)]), NULL, array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_retry"(uuid, uuid[], interval, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_snooze"(owner_token uuid, ids uuid[], delay interval, reason text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."outbox_log_parked_settle_rows"('snooze', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        array_fill((extract(epoch FROM $3) * 1000000)::bigint, ARRAY[cardinality(own.sorted)]), NULL, array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_snooze"(uuid, uuid[], interval, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_wait_until"(owner_token uuid, ids uuid[], at timestamptz, reason text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."outbox_log_parked_settle_rows"('wait_until', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, array_fill($3, ARRAY[cardinality(own.sorted)]), array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_wait_until"(uuid, uuid[], timestamptz, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_release"(owner_token uuid, ids uuid[], strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."outbox_log_parked_settle_rows"('release', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, NULL, $3);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_release"(uuid, uuid[], boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_fail"(owner_token uuid, ids uuid[], error text, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."outbox_log_parked_settle_rows"('fail', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, array_fill($3, ARRAY[cardinality(own.sorted)]), $4);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'failed')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_fail"(uuid, uuid[], text, boolean) FROM PUBLIC;

-- Renews leases, and tells of each row whether that was done: extended; cancelled, which is extended, too, but a cancel
-- has been asked for; busy if another transaction has the row locked, such as its own settle; lost or gone.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_extend"(owner_token uuid, ids uuid[], lease interval, within interval DEFAULT NULL) RETURNS TABLE (place integer, id uuid, result text, locked_until timestamptz)
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
UPDATE "{{schema}}"."outbox_log_parked" AS t
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
    JOIN "{{schema}}"."outbox_log_parked" AS r ON r.id = h.id
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
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = ANY (own.sorted::uuid[]) AND t.id = s.id) AS k;
        END IF;
    RETURN QUERY
    SELECT u.place::integer, u.id, u.result, CASE WHEN u.result IN ('extended', 'cancelled') THEN own.until END
    FROM (
        SELECT v.place, v.id, coalesce(own.answers ->> v.id::text, 'extended') AS result
        FROM unnest($2) WITH ORDINALITY AS v (id, place)) AS u;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_extend"(uuid, uuid[], interval, interval) FROM PUBLIC;

-- The ack of one row in the transaction of its effects: an error unless the claim holds the row, so that the effects
-- are rolled back, too. A repetition is one: what an earlier transaction did with this token has its effects.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_complete"(owner_token uuid, id uuid) RETURNS void
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
    SELECT a.result INTO told FROM "{{schema}}"."outbox_log_parked_ack"($1, ARRAY[$2]) AS a;
    IF told IS DISTINCT FROM 'done' THEN
        RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'id',
            MESSAGE = format('id is of a row that the claim does not hold: %s is %s', $2, told),
            HINT = 'Roll back: another worker has such a row, or it has ended.';
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_complete"(uuid, uuid) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_log_parked_reap_expired"(max_rows integer DEFAULT 1000) RETURNS TABLE (requeued integer, failed integer, cancelled integer, dead_letters jsonb)
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
    FROM "{{schema}}"."outbox_log_parked" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND r.locked_until < now()
    ORDER BY r."subscription", r.due_at, r.id
    LIMIT $1::int
    FOR NO KEY UPDATE SKIP LOCKED
), beside AS MATERIALIZED (
    SELECT r.ctid, substring(uuid_send(r.owner_token) FROM 1 FOR 6) AS process
    FROM "{{schema}}"."outbox_log_parked" AS r
    WHERE EXISTS (SELECT FROM taken)
      AND r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND substring(uuid_send(r.owner_token) FROM 1 FOR 6) = ANY (ARRAY(SELECT k.process FROM taken AS k))
      AND r.id <> ALL (ARRAY(SELECT k.id FROM taken AS k))
), left_alone AS (
    UPDATE "{{schema}}"."outbox_log_parked" AS t
    SET headers = coalesce(t.headers, '{}'::jsonb)
        || jsonb_build_object('txwork-lost-beside', t.owner_token::text)
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM "{{schema}}"."outbox_log_parked" AS r
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
    UPDATE "{{schema}}"."outbox_log_parked" AS t
    SET status = CASE WHEN NOT l.returned AND (t.attempts >= t.max_attempts OR NOT l.shared AND 1 + l.alone >= 10 AND t.max_attempts = 130) OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN NOT l.returned AND (t.attempts >= t.max_attempts OR NOT l.shared AND 1 + l.alone >= 10 AND t.max_attempts = 130) OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE greatest(clock_timestamp(), t.locked_until + CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 900000000) * (1 - 0.2 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN NOT l.returned AND (t.attempts >= t.max_attempts OR NOT l.shared AND 1 + l.alone >= 10 AND t.max_attempts = 130) OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN NOT l.returned AND (t.attempts >= t.max_attempts OR NOT l.shared AND 1 + l.alone >= 10 AND t.max_attempts = 130) OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
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
        'labels', jsonb_build_array(t."subscription", t."topic")) END AS dead_letter
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled,
       jsonb_agg(changed.dead_letter) FILTER (WHERE changed.dead_letter IS NOT NULL) AS dead_letters
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_reap_expired"(integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_log_parked_stats"() RETURNS TABLE (ready bigint, scheduled bigint, in_progress bigint, expired bigint, waiting bigint, failed bigint, cancelled bigint, oldest_ready_seconds double precision, partial boolean)
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
       (SELECT count(*) FROM "{{schema}}"."outbox_log_parked" AS w WHERE w.completed_at IS NULL AND w.waiting) AS waiting,
       (SELECT count(*) FROM "{{schema}}"."outbox_log_parked" AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NULL) AS failed,
       (SELECT count(*) FROM "{{schema}}"."outbox_log_parked" AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NOT NULL) AS cancelled,
       coalesce(extract(epoch FROM now() - min(r.due_at) FILTER (WHERE r.status = 0 AND r.due_at <= now())), 0)::float8
           AS oldest_ready_seconds,
       row_security_active('"{{schema}}"."outbox_log_parked"'::regclass) AS partial
FROM "{{schema}}"."outbox_log_parked" AS r
WHERE r.completed_at IS NULL AND NOT r.waiting;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_stats"() FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_log_parked_run_now"(ids uuid[]) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."outbox_log_parked" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."outbox_log_parked" AS t
    SET due_at = now()::timestamptz
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 0
      AND (t.due_at > now()::timestamptz OR t.due_at < now()::timestamptz AND NOT true::boolean)
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_run_now"(uuid[]) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_log_parked_reschedule"(ids uuid[], at timestamptz) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."outbox_log_parked" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."outbox_log_parked" AS t
    SET due_at = $2::timestamptz
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 0
      AND (t.due_at > $2::timestamptz OR t.due_at < $2::timestamptz AND NOT false::boolean)
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_reschedule"(uuid[], timestamptz) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_log_parked_redrive"(ids uuid[], actor text DEFAULT NULL) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."outbox_log_parked" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."outbox_log_parked" AS t
    SET status = 0,
        waiting = t."concurrency_key" IS NOT NULL,
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
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
       CASE WHEN n.changed THEN NULL WHEN t.id IS NULL THEN 'there is no such row' ELSE 'it is ' || CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END END
FROM named AS n
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_redrive"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_log_parked_cancel"(ids uuid[], reason text) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."outbox_log_parked" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."outbox_log_parked" AS t
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
    HAVING CASE WHEN bool_or(changed.status = 1) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', 'cancel') ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END
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
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_cancel"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_log_parked_discard"(ids uuid[], reason text) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."outbox_log_parked" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH hit AS (
UPDATE "{{schema}}"."outbox_log_parked" AS t
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
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_discard"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_log_parked_delete"(ids uuid[]) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."outbox_log_parked" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR UPDATE;
    RETURN QUERY
WITH hit AS (
DELETE FROM "{{schema}}"."outbox_log_parked" AS t
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
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_delete"(uuid[]) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_log_parked_unblock"(ids uuid[]) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."outbox_log_parked" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH hit AS (
UPDATE "{{schema}}"."outbox_log_parked" AS t SET key_policy = 0
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
LEFT JOIN "{{schema}}"."outbox_log_parked" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_unblock"(uuid[]) FROM PUBLIC;

-- One transaction of the procedure fold: each fold of the table once. The cursor says how far each fold came, so that
-- notes that are deleted but not yet vacuumed are not read again, and when the next pass from the start is due, which
-- finds notes that older transactions have written behind the cursor: after forty times as long as the last pass took,
-- and after between a second and a minute. A cursor of another table counts as none, and so does a pass that is further
-- ahead than that, as it is after a failover. The numbers are microseconds.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_fold_step"(
    max_notes integer, INOUT cursor text, INOUT folded integer, OUT again_in double precision, OUT busy boolean,
    OUT more boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_variable
DECLARE
    started constant timestamptz := clock_timestamp();
    own constant text := left(md5('{{schema}}.outbox_log_parked'), 8);
    said text[] := regexp_match(cursor, '^fold1 ([0-9a-f]{8}) ([0-9]{1,17}) ([0-9,]{0,99})$');
    places bigint[] := array_fill(NULL::bigint, ARRAY[1]);
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
    FROM "{{schema}}"."outbox_log_parked_key_fold"(max_notes, CASE WHEN whole OR places[1] IS NULL THEN '-infinity'
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
CREATE PROCEDURE "{{schema}}"."outbox_log_parked_fold"(
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
        FROM "{{schema}}"."outbox_log_parked_fold_step"(1000, cursor, folded) AS s;
        EXIT WHEN more IS NOT TRUE;
    END LOOP;
    COMMIT;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_fold_step"(integer, text, integer) FROM PUBLIC;
REVOKE ALL ON PROCEDURE "{{schema}}"."outbox_log_parked_fold"(text, integer, double precision, boolean) FROM PUBLIC;

-- Does one kind of maintenance although rows are in its way, such as a row that a foreign key of the application keeps
-- from being deleted: the part of the rows that failed is halved until the row is by itself, and skipped. The next part
-- is twice as large as one that succeeded. Each part is a subtransaction, so n rows cost at most about three each, and
-- a few bad rows some tens together. A part waits little for locks, because the next ones wait for it.
--
-- If nothing succeeds, the rows are not the cause, and the error is raised: one about rights or names at once, another
-- after 16 rows.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_each"(
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
    FROM "{{schema}}"."outbox_log_parked" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND r.locked_until < now()
      AND r.id <> ALL ($4)
    ORDER BY r."subscription", r.due_at, r.id
    LIMIT $2::int);
        beside := ARRAY(
            SELECT p.id
            FROM (
                SELECT r.id, count(*) OVER (PARTITION BY substring(uuid_send(r.owner_token) FROM 1 FOR 6)) AS rows
                FROM "{{schema}}"."outbox_log_parked" AS r
                WHERE r.completed_at IS NULL
                  AND NOT r.waiting
                  AND r.status = 1
                  AND r.due_at <= now()) AS p
            WHERE p.rows > 1);
    WHEN 'purge_done' THEN
        ids := ARRAY(
    SELECT r.id
    FROM "{{schema}}"."outbox_log_parked" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - $3::interval
      AND r.id <> ALL ($4)
    ORDER BY r.completed_at
    LIMIT $2::int);
    WHEN 'purge_failed' THEN
        ids := ARRAY(
    SELECT r.id
    FROM "{{schema}}"."outbox_log_parked" AS r
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
    FROM "{{schema}}"."outbox_log_parked" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND r.locked_until < now()
      AND r.id = ANY (own.part)
    ORDER BY r."subscription", r.due_at, r.id
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
    UPDATE "{{schema}}"."outbox_log_parked" AS t
    SET status = CASE WHEN NOT l.returned AND (t.attempts >= t.max_attempts OR NOT l.shared AND 1 + l.alone >= 10 AND t.max_attempts = 130) OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN NOT l.returned AND (t.attempts >= t.max_attempts OR NOT l.shared AND 1 + l.alone >= 10 AND t.max_attempts = 130) OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE greatest(clock_timestamp(), t.locked_until + CASE WHEN t.retry IS NULL THEN least(1000000 * (2::float8 ^ least(t.attempts - 1, 60)), 900000000) * (1 - 0.2 * random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::float8 WHEN 'quadratic' THEN t.attempts::float8 ^ 2 WHEN 'exponential' THEN 2::float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::float8) * (1 - coalesce((t.retry ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN NOT l.returned AND (t.attempts >= t.max_attempts OR NOT l.shared AND 1 + l.alone >= 10 AND t.max_attempts = 130) OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN NOT l.returned AND (t.attempts >= t.max_attempts OR NOT l.shared AND 1 + l.alone >= 10 AND t.max_attempts = 130) OR t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
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
        'labels', jsonb_build_array(t."subscription", t."topic")) END AS dead_letter
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled,
       jsonb_agg(changed.dead_letter) FILTER (WHERE changed.dead_letter IS NOT NULL) AS dead_letters
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END
                LOOP
                    done := done + changed.requeued;
                    failed := failed + changed.failed;
                    cancelled := cancelled + changed.cancelled;
                    dead_letters := coalesce(dead_letters, '[]') || coalesce(changed.dead_letters, '[]');
                END LOOP;
            WHEN 'purge_done' THEN
                WITH purged AS (
DELETE FROM "{{schema}}"."outbox_log_parked" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."outbox_log_parked" AS r
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
DELETE FROM "{{schema}}"."outbox_log_parked" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."outbox_log_parked" AS r
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

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_each"(text, integer, interval, uuid[]) FROM PUBLIC;

-- Deletes rows that ended longer ago than their retention: the caller's, or the table's own by default. A NULL
-- retention keeps rows for ever. Cancelled rows are kept and counted like done ones.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_purge"(
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
DELETE FROM "{{schema}}"."outbox_log_parked" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."outbox_log_parked" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - $2::interval
    ORDER BY r.completed_at
    LIMIT $1::int
    FOR UPDATE SKIP LOCKED))
RETURNING t.id
    ), purged_failed AS (
DELETE FROM "{{schema}}"."outbox_log_parked" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."outbox_log_parked" AS r
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
CREATE FUNCTION "{{schema}}"."outbox_log_parked_maintain_step"(
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_parked or of its other tables from this role: rows that it does not see would be taken for gone',
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
                n := (SELECT r.requeued + r.failed FROM "{{schema}}"."outbox_log_parked_reap_expired"($2) AS r);
            WHEN 'trim' THEN
                n := (SELECT "{{schema}}"."outbox_log_parked_trim"($2));
            WHEN 'retain' THEN
                n := (SELECT "{{schema}}"."outbox_log_parked_retain"($2));
            WHEN 'key_sweep' THEN
                n := (SELECT "{{schema}}"."outbox_log_parked_key_sweep"($2));
            WHEN 'purge_done' THEN
                n := (SELECT p.done FROM "{{schema}}"."outbox_log_parked_purge"($2, $3, NULL) AS p);
            WHEN 'purge_failed' THEN
                n := (SELECT p.failed FROM "{{schema}}"."outbox_log_parked_purge"($2, NULL, $4) AS p);
            WHEN 'fold' THEN
                n := (SELECT f.folded FROM "{{schema}}"."outbox_log_parked_fold_step"($2, NULL, 0) AS f);
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
        FROM "{{schema}}"."outbox_log_parked_each"($1, $2, CASE $1 WHEN 'purge_done' THEN $3 WHEN 'purge_failed' THEN $4 END, skipped);
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
CREATE PROCEDURE "{{schema}}"."outbox_log_parked_maintain"(
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
        FOREACH kind IN ARRAY ARRAY['reap_expired', 'trim', 'retain', 'key_sweep', 'purge_done', 'purge_failed', 'fold'] LOOP
            SELECT ARRAY[]::pg_catalog.uuid[], NULL INTO skipped, said;
            FOR step IN 1..100 LOOP
                COMMIT;
                SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
                SELECT s.more, s.crowded, s.skipped, s.problem INTO more, crowded, skipped, said
                FROM "{{schema}}"."outbox_log_parked_maintain_step"(kind, max_rows, retention, failed_retention, skipped, said) AS s;
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
        PERFORM "{{schema}}"."leader_note"('{{schema}}.outbox_log_parked', problem);
    EXCEPTION WHEN undefined_function OR insufficient_privilege THEN
        NULL;
    END;
    COMMIT;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'a part of the maintenance failed, the rest is done: %', problem;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_purge"(integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_maintain_step"(text, integer, interval, interval, uuid[], text) FROM PUBLIC;
REVOKE ALL ON PROCEDURE "{{schema}}"."outbox_log_parked_maintain"(integer, interval, interval) FROM PUBLIC;

-- Keyed rows of "{{schema}}"."outbox_log_parked": rows with a concurrency_key wait outside the claim index until their key lets them through.
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
-- key_limit = n > 0, a limited key: at most n released rows, by due time. A row that goes back
-- for a retry gives up its place. A rate counts releases, which are starts unless the row is put back before it has
-- started. If it stays where it is, it stays released. If it is left to other workers until later, its place and its
-- start are the next row's.
CREATE SEQUENCE "{{schema}}"."outbox_log_parked_key_seq";

-- Folds compute with rates, and one that cannot be computed would stop all keys of the table.
CREATE DOMAIN "{{schema}}"."outbox_log_parked_key_rate" AS double precision CONSTRAINT "outbox_log_parked_key_check" CHECK (
    VALUE BETWEEN 1e-09::double precision AND 1e+09::double precision
);

ALTER TABLE "{{schema}}"."outbox_log_parked" ALTER COLUMN key_rate TYPE "{{schema}}"."outbox_log_parked_key_rate";

-- at is when a fold should look at the key: the start of the transaction that wrote the note, or a later time. ended is
-- how many released rows of the key have ended or gone back. place and due are the key_seq and the due time of a row
-- that has begun to wait. unused is how many microseconds of the key's rate were taken by releases and not used. A note
-- whose ended is NULL asks the fold to count the key anew. The ordered rows of a key and
-- its limited rows are independent of each other. If SQL has taken the key or the limit from a row that has a place,
-- the row's note names no key, and folds drop it: the settle must not fail. The table has no CHECK: the server parses a
-- CHECK anew for every statement that writes, and every settle of a keyed row writes here.
CREATE TABLE "{{schema}}"."outbox_log_parked_key_note" (
    at "{{schema}}"."outbox_log_parked_time" NOT NULL,
    concurrency_key text,
    limited boolean,
    ended integer,
    place bigint,
    due timestamptz,
    unused double precision
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Without a replica identity, PostgreSQL refuses to delete notes as soon as a publication contains the table, even if
-- that is an unrelated one FOR ALL TABLES.
ALTER TABLE "{{schema}}"."outbox_log_parked_key_note" REPLICA IDENTITY FULL;

CREATE INDEX "outbox_log_parked_key_note_idx" ON "{{schema}}"."outbox_log_parked_key_note" (at);

-- Notes that a later fold will subtract from the number of released rows in key_state. A fold that counts a key anew
-- sees that these rows have ended already, so it adds the pending notes to its count.
CREATE INDEX "outbox_log_parked_key_ended_idx" ON "{{schema}}"."outbox_log_parked_key_note" (concurrency_key) WHERE ended > 0 AND limited;

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
CREATE TABLE "{{schema}}"."outbox_log_parked_key_state" (
    concurrency_key text NOT NULL,
    limited boolean NOT NULL,
    n bigint NOT NULL,
    place bigint,
    taken integer,
    due timestamptz[] NOT NULL DEFAULT '{}',
    next_at "{{schema}}"."outbox_log_parked_time",
    updates integer NOT NULL DEFAULT 0,
    at "{{schema}}"."outbox_log_parked_time" NOT NULL,
    PRIMARY KEY (concurrency_key, limited, n)
) WITH (fillfactor = 50);

-- Where the next sweep continues.
CREATE TABLE "{{schema}}"."outbox_log_parked_key_cursor" (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    ordered_key text NOT NULL DEFAULT '',
    limited_key text NOT NULL DEFAULT '',
    swept_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 10);

INSERT INTO "{{schema}}"."outbox_log_parked_key_cursor" DEFAULT VALUES;

-- Waiting rows by key: rows of ordered keys by key_seq, rows of limited keys by due time.
CREATE INDEX "outbox_log_parked_key_wait_idx" ON "{{schema}}"."outbox_log_parked" (concurrency_key, key_seq)
    WHERE CASE WHEN completed_at IS NULL AND key_seq IS NOT NULL AND key_limit = 0 THEN waiting END;
CREATE INDEX "outbox_log_parked_key_queue_idx" ON "{{schema}}"."outbox_log_parked" (concurrency_key, due_at, key_seq)
    WHERE CASE WHEN completed_at IS NULL AND key_seq IS NOT NULL AND key_limit > 0 THEN waiting END;

-- Released rows. The index is not unique, although an ordered key has only one released row: a unique index would
-- compare each row that is released with all rows that have ended since vacuum last cleaned up.
CREATE INDEX "outbox_log_parked_key_live_idx" ON "{{schema}}"."outbox_log_parked" (concurrency_key, key_seq)
    WHERE CASE WHEN completed_at IS NULL AND key_seq IS NOT NULL THEN NOT waiting END;

-- Dead letters that block the rows behind them.
CREATE INDEX "outbox_log_parked_key_fail_idx" ON "{{schema}}"."outbox_log_parked" (concurrency_key, key_seq)
    WHERE CASE WHEN failed_at IS NOT NULL AND cancelled_at IS NULL THEN key_policy > 0 END;

-- Draws a place behind all other rows of the key. It also reads the table because the sequence may lag behind it, for
-- instance after logical replication, which does not copy sequences. It reads only places at or after the sequence's,
-- since a key may have had any number of rows.
--
-- It runs with its owner's rights: a writer from whom row-level security hides rows of its key would otherwise draw a
-- place before them. It returns nothing but a place. Under FORCE ROW LEVEL SECURITY the owner may not see all rows
-- either, and then the row is refused.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_key_place"(k text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
DECLARE
    next constant bigint := nextval('"{{schema}}"."outbox_log_parked_key_seq"');
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_parked or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    RETURN greatest(
        next,
        1 + (SELECT t.key_seq FROM "{{schema}}"."outbox_log_parked" AS t
            WHERE t.concurrency_key = k AND CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL AND t.key_limit = 0 THEN t.waiting END AND t.key_seq >= next
            ORDER BY t.concurrency_key DESC, t.key_seq DESC LIMIT 1),
        1 + (SELECT t.key_seq FROM "{{schema}}"."outbox_log_parked" AS t
            WHERE t.concurrency_key = k AND CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL THEN NOT t.waiting END AND t.key_seq >= next
            ORDER BY t.concurrency_key DESC, t.key_seq DESC LIMIT 1),
        1 + (SELECT t.key_seq FROM "{{schema}}"."outbox_log_parked" AS t
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
CREATE FUNCTION "{{schema}}"."outbox_log_parked_key_enter"() RETURNS trigger
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
        PERFORM pg_advisory_xact_lock(hashtextextended('{{schema}}.outbox_log_parked ' || NEW.concurrency_key, 1));
        NEW.key_seq := "{{schema}}"."outbox_log_parked_key_place"(NEW.concurrency_key);
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
        NEW.key_seq := nextval('"{{schema}}"."outbox_log_parked_key_seq"');
    END IF;
    IF NEW.status = 0 THEN
        NEW.waiting := true;
        INSERT INTO "{{schema}}"."outbox_log_parked_key_note" (at, concurrency_key, limited, ended, place, due)
        VALUES (CASE WHEN NEW.key_limit > 0 THEN greatest(NEW.due_at, now()) ELSE now() END,
            NEW.concurrency_key, NEW.key_limit > 0, CASE WHEN NOT restored THEN 0 END, NEW.key_seq, NEW.due_at);
        IF (CASE WHEN pg_catalog.current_setting('txwork.folds', true) OPERATOR(pg_catalog.=) '{{schema}}.outbox_log_parked' THEN false ELSE (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) ELSE false END)
        ELSE true END) END) THEN
            PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
        END IF;
    ELSE -- a restored row in progress is released already
        INSERT INTO "{{schema}}"."outbox_log_parked_key_note" (at, concurrency_key, limited)
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
CREATE FUNCTION "{{schema}}"."outbox_log_parked_key_come"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
DECLARE
    place bigint := "{{schema}}"."outbox_log_parked_key_place"(NEW.concurrency_key);
BEGIN
    WHILE hashint8(place) & 7 = 0 LOOP
        place := place + 1;
    END LOOP;
    UPDATE "{{schema}}"."outbox_log_parked" AS t SET waiting = true, key_seq = place
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
CREATE FUNCTION "{{schema}}"."outbox_log_parked_key_back"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
BEGIN
    UPDATE "{{schema}}"."outbox_log_parked" AS t SET waiting = true WHERE t.id = NEW.id AND t.status = 0;
    RETURN NULL;
END
$txwork$;

-- Notes that a Ready row has begun to wait: it came to its key, or went back to it, as the rows of a run do. Or a row
-- of a key with a rate was left to others before it had started: its start is the next row's. Of rows with a rate, only
-- the statements that leave them assign waiting as they make a row in progress Ready, and that which sets it aside,
-- where it keeps its start. Like key_note, the function tests what the update was.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_key_wait"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF OLD.status = 1 AND NEW.status IN (0, 3) AND NEW.key_rate IS NOT NULL THEN
        INSERT INTO "{{schema}}"."outbox_log_parked_key_note" (at, concurrency_key, limited, ended, unused)
        VALUES (now(), NEW.concurrency_key, true, 0, CASE WHEN NEW.key_rate OPERATOR(pg_catalog.<) 10000 THEN pg_catalog.ceil(1e6 OPERATOR(pg_catalog./) NEW.key_rate) ELSE 1e6 OPERATOR(pg_catalog./) NEW.key_rate END);
        RETURN NULL;
    ELSIF NEW.status <> 0 OR NOT (NEW.waiting)
        OR OLD.status <> 0 AND NOT (OLD.status = 1 AND NEW.key_limit = 0) THEN
        RETURN NULL;
    ELSIF OLD.key_seq IS NULL THEN
        INSERT INTO "{{schema}}"."outbox_log_parked_key_note" (at, concurrency_key, limited, ended, place, due)
        VALUES (CASE WHEN NEW.key_limit > 0 THEN greatest(NEW.due_at, now()) ELSE now() END,
            NEW.concurrency_key, NEW.key_limit > 0, 0, NEW.key_seq, NEW.due_at);
    ELSIF NEW.key_limit > 0 AND NOT OLD.waiting THEN
        INSERT INTO "{{schema}}"."outbox_log_parked_key_note" (at, concurrency_key, limited, ended, due)
        VALUES (now(), NEW.concurrency_key, true, 1, NEW.due_at);
        IF NEW.due_at > now() THEN
            INSERT INTO "{{schema}}"."outbox_log_parked_key_note" (at, concurrency_key, limited, ended, due)
            VALUES (NEW.due_at, NEW.concurrency_key, true, 0, NEW.due_at);
        END IF;
    ELSIF NEW.key_limit = 0 AND NOT OLD.waiting THEN
        INSERT INTO "{{schema}}"."outbox_log_parked_key_note" (at, concurrency_key, limited, ended, place)
        VALUES (now(), NEW.concurrency_key, false, 0, NEW.key_seq);
    ELSE
        RETURN NULL;
    END IF;
    IF (CASE WHEN pg_catalog.current_setting('txwork.folds', true) OPERATOR(pg_catalog.=) '{{schema}}.outbox_log_parked' THEN false ELSE (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) ELSE false END)
        ELSE true END) END) THEN
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
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
CREATE FUNCTION "{{schema}}"."outbox_log_parked_key_note"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
AS $txwork$
BEGIN
    IF TG_OP OPERATOR(pg_catalog.=) 'DELETE' OR NEW.completed_at IS NOT NULL AND (
        OLD.completed_at IS NULL AND (NOT OLD.waiting OR NEW.cancelled_at IS NOT NULL)
        OR OLD.key_policy OPERATOR(pg_catalog.>) 0 AND NEW.key_policy OPERATOR(pg_catalog.=) 0) THEN
        INSERT INTO "{{schema}}"."outbox_log_parked_key_note" (at, concurrency_key, limited, ended, unused)
        VALUES (pg_catalog.now(), OLD.concurrency_key, OLD.key_limit OPERATOR(pg_catalog.>) 0,
            CASE WHEN OLD.completed_at IS NOT NULL THEN 0 WHEN OLD.waiting THEN 0 ELSE 1 END,
            CASE WHEN OLD.status OPERATOR(pg_catalog.=) 0 AND OLD.key_limit OPERATOR(pg_catalog.>) 0 AND NOT OLD.waiting THEN CASE WHEN OLD.key_rate OPERATOR(pg_catalog.<) 10000 THEN pg_catalog.ceil(1e6 OPERATOR(pg_catalog./) OLD.key_rate) ELSE 1e6 OPERATOR(pg_catalog./) OLD.key_rate END END);
    ELSIF NEW.completed_at IS NULL AND (OLD.completed_at IS NOT NULL
        OR NEW.waiting AND NEW.key_limit OPERATOR(pg_catalog.>) 0
            AND (NEW.due_at OPERATOR(pg_catalog.<) OLD.due_at)) THEN
        INSERT INTO "{{schema}}"."outbox_log_parked_key_note" (at, concurrency_key, limited, ended, place, due)
        VALUES (pg_catalog.now(), NEW.concurrency_key, NEW.key_limit OPERATOR(pg_catalog.>) 0,
            CASE WHEN OLD.completed_at IS NULL THEN 0 END, NEW.key_seq, NEW.due_at);
        IF NEW.key_limit OPERATOR(pg_catalog.>) 0 AND NEW.due_at OPERATOR(pg_catalog.>) pg_catalog.now() THEN
            INSERT INTO "{{schema}}"."outbox_log_parked_key_note" (at, concurrency_key, limited, ended, due)
            VALUES (NEW.due_at, NEW.concurrency_key, true, 0, NEW.due_at);
        END IF;
    ELSE
        RETURN NULL;
    END IF;
    IF (CASE WHEN pg_catalog.current_setting('txwork.folds', true) OPERATOR(pg_catalog.=) '{{schema}}.outbox_log_parked' THEN false ELSE (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) ELSE false END)
        ELSE true END) END) THEN
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
    END IF;
    RETURN NULL;
END
$txwork$;

-- A Ready row has changed its key, or whether the key is ordered, by a Replace or by SQL: it is gone from the old key,
-- whose next row gets its start. It enters the new key at its end, or goes on without a key, as if a join released it:
-- the second UPDATE fires key_come. A Replace has locked the writers of the new key before. It runs with its owner's
-- rights, because who may replace a row may not release it, and touches no other row.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_key_move"() RETURNS trigger
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
        INSERT INTO "{{schema}}"."outbox_log_parked_key_note" (at, concurrency_key, limited, ended, unused)
        VALUES (now(), OLD.concurrency_key, OLD.key_limit > 0, CASE WHEN OLD.waiting THEN 0 ELSE 1 END,
            CASE WHEN OLD.status OPERATOR(pg_catalog.=) 0 AND OLD.key_limit OPERATOR(pg_catalog.>) 0 AND NOT OLD.waiting THEN CASE WHEN OLD.key_rate OPERATOR(pg_catalog.<) 10000 THEN pg_catalog.ceil(1e6 OPERATOR(pg_catalog./) OLD.key_rate) ELSE 1e6 OPERATOR(pg_catalog./) OLD.key_rate END END);
        IF (CASE WHEN pg_catalog.current_setting('txwork.folds', true) OPERATOR(pg_catalog.=) '{{schema}}.outbox_log_parked' THEN false ELSE (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log_parked announcer', 0)) ELSE false END)
        ELSE true END) END) THEN
            PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
        END IF;
    END IF;
    UPDATE "{{schema}}"."outbox_log_parked" AS t SET waiting = true, key_seq = NULL WHERE t.id = NEW.id;
    UPDATE "{{schema}}"."outbox_log_parked" AS t SET waiting = false WHERE t.id = NEW.id;
    RETURN NULL;
END
$txwork$;

-- The rows or the notes were truncated, as tests do. Everything in key_state is then unknown, except how far the rates
-- are used up.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_key_forget"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_parked or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    DELETE FROM "{{schema}}"."outbox_log_parked_key_state" WHERE next_at IS NULL;
    UPDATE "{{schema}}"."outbox_log_parked_key_state" SET taken = NULL, due = '{}';
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
CREATE FUNCTION "{{schema}}"."outbox_log_parked_key_fold"(
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_parked or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (max_notes BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_notes',
            MESSAGE = 'max_notes must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' OR NOT pg_try_advisory_xact_lock(hashtextextended('{{schema}}.outbox_log_parked key_fold', 0)) THEN
        RETURN NEXT; -- all NULL: another session folds, or this transaction could not see what others committed
        RETURN;
    END IF;

    folded := 0;
    LOOP
        WITH taken AS (
            DELETE FROM "{{schema}}"."outbox_log_parked_key_note" AS d
            WHERE d.ctid = ANY (ARRAY(
                SELECT r.ctid FROM "{{schema}}"."outbox_log_parked_key_note" AS r
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
        released := "{{schema}}"."outbox_log_parked_key_next"(note_keys, note_limited, note_ended, note_place, fronts);
    END IF;
    IF limited THEN
        released := released
            + "{{schema}}"."outbox_log_parked_key_fill"(note_keys, note_limited, note_ended, note_due, note_unused, started, fronts);
    END IF;
    IF released > 0 THEN
        IF fronts <> '{}' THEN
            PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', pg_catalog.concat('front:', fronts)) ELSE ''::pg_catalog.void END);
        END IF;
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', pg_catalog.concat('fold:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
    END IF;
    again := CASE WHEN n = max_notes THEN 0 ELSE (
        SELECT extract(epoch FROM n.at - clock_timestamp())
        FROM "{{schema}}"."outbox_log_parked_key_note" AS n
        WHERE n.at > started
        ORDER BY n.at
        LIMIT 1) END;
    RETURN NEXT;
END
$txwork$;

-- Releases the first row of each ordered key, unless the key has a released row already or a dead letter blocks it.
-- Only key_fold calls it.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_key_next"(
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_parked or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    WITH k AS MATERIALIZED (
        SELECT m.concurrency_key AS key, s.ctid AS known, s.n, s.place AS bound,
            m.ended IS NULL AND s.place IS NOT NULL AS anew,
            CASE WHEN m.ended IS NOT NULL AND s.place IS NOT NULL THEN least(s.place, m.place) ELSE 0 END AS place
        FROM unnest(note_keys, note_limited, note_ended, note_place) AS m (concurrency_key, limited, ended, place)
        LEFT JOIN LATERAL (
            SELECT g.ctid, g.n, g.place FROM "{{schema}}"."outbox_log_parked_key_state" AS g
            WHERE g.concurrency_key = m.concurrency_key AND NOT g.limited
            ORDER BY g.concurrency_key DESC, g.limited DESC, g.n DESC
            LIMIT 1) AS s ON true
        WHERE NOT m.limited
    ), head AS MATERIALIZED (
        SELECT k.*, live.is AS live, h.ctid, h.key_seq, o.id AS behind, o.key_policy
        FROM k
        LEFT JOIN LATERAL ( -- no NOT EXISTS: an anti-join may read all live rows of the table
            SELECT true AS is FROM "{{schema}}"."outbox_log_parked" AS l
            WHERE l.concurrency_key = k.key AND CASE WHEN l.completed_at IS NULL AND l.key_seq IS NOT NULL THEN NOT l.waiting END AND l.key_limit = 0 AND l.key_seq >= k.place
            LIMIT 1) AS live ON true
        LEFT JOIN LATERAL (
            SELECT r.ctid, r.key_seq FROM "{{schema}}"."outbox_log_parked" AS r
            WHERE live.is IS NULL AND r.concurrency_key = k.key AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit = 0 THEN r.waiting END AND r.key_seq >= k.place
            ORDER BY r.concurrency_key, r.key_seq
            LIMIT 1) AS h ON true
        LEFT JOIN LATERAL (
            SELECT f.id, f.key_policy FROM "{{schema}}"."outbox_log_parked" AS f
            WHERE f.concurrency_key = k.key AND CASE WHEN f.failed_at IS NOT NULL AND f.cancelled_at IS NULL THEN f.key_policy > 0 END AND f.key_seq < h.key_seq
            ORDER BY f.concurrency_key, f.key_seq
            LIMIT 1) AS o ON true
    ), through AS MATERIALIZED (
        UPDATE "{{schema}}"."outbox_log_parked" AS t SET waiting = false, due_at = greatest(t.due_at, least((fronts ->> left(encode(sha256(convert_to(jsonb_build_array(t."subscription")::text, 'UTF8')), 'hex'), 16))::timestamptz, now()))
        WHERE t.ctid = ANY (ARRAY(
            SELECT r.ctid FROM head AS h
            CROSS JOIN LATERAL (
                SELECT w.ctid FROM "{{schema}}"."outbox_log_parked" AS w
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
        INSERT INTO "{{schema}}"."outbox_log_parked_key_note" (at, concurrency_key, limited, ended)
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
        DELETE FROM "{{schema}}"."outbox_log_parked_key_state" AS g
        WHERE g.ctid = ANY (ARRAY(
            SELECT b.ctid FROM "{{schema}}"."outbox_log_parked_key_state" AS b WHERE b.ctid = ANY (before) FOR UPDATE SKIP LOCKED));
        INSERT INTO "{{schema}}"."outbox_log_parked_key_state" (concurrency_key, limited, n, place, at)
        SELECT u.key, false,
            greatest(CASE WHEN u.n < 4611686018427387904 THEN u.n + 1 END, nextval('"{{schema}}"."outbox_log_parked_key_seq"')), u.place, now()
        FROM unnest(keys, places, numbers) AS u (key, place, n);
    END IF;
    FOR i IN 1..coalesce(cardinality(parked), 0) LOOP
        PERFORM "{{schema}}"."outbox_log_parked_key_park"(parked[i], obstacles[i]);
    END LOOP;
    RETURN n;
END
$txwork$;

-- Fills the free places of limited keys, by due time. A row of a key with a rate is released with the due time at which
-- the rate allows it, by the generic cell rate algorithm. The rows of the next 250ms are released in advance, so
-- that the rate is met between two folds. As many rows as have left their start unused start at once, and the rate does
-- not count them. What no row takes up moves the key's next time back. Only key_fold calls it.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_key_fill"(
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_parked or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    WITH k AS MATERIALIZED (
        SELECT m.concurrency_key AS key, s.ctid AS known, s.n, s.updates, s.next_at,
            CASE WHEN m.ended IS NOT NULL THEN s.due END AS due, m.due AS noted, coalesce(m.unused, 0) AS unused,
            CASE WHEN s.taken + m.ended::bigint IS NOT NULL THEN greatest(s.taken::bigint - m.ended, 0) END AS taken
        FROM unnest(note_keys, note_limited, note_ended, note_due, note_unused)
            AS m (concurrency_key, limited, ended, due, unused)
        LEFT JOIN LATERAL (
            SELECT g.ctid, g.n, g.taken, g.due, g.next_at, g.updates FROM "{{schema}}"."outbox_log_parked_key_state" AS g
            WHERE g.concurrency_key = m.concurrency_key AND g.limited
            ORDER BY g.concurrency_key DESC, g.limited DESC, g.n DESC
            LIMIT 1) AS s ON true
        WHERE m.limited
    ), head AS MATERIALIZED (
        SELECT h.*, greatest(h.next_at, started) AS first,
            CASE WHEN h.key_rate OPERATOR(pg_catalog.<) 10000 THEN pg_catalog.ceil(1e6 OPERATOR(pg_catalog./) h.key_rate) ELSE 1e6 OPERATOR(pg_catalog./) h.key_rate END AS gap, floor(h.unused / CASE WHEN h.key_rate OPERATOR(pg_catalog.<) 10000 THEN pg_catalog.ceil(1e6 OPERATOR(pg_catalog./) h.key_rate) ELSE 1e6 OPERATOR(pg_catalog./) h.key_rate END + 0.001) AS extra,
            CASE WHEN h.known_taken IS NULL AND h.key_limit <> 2147483647 THEN (
                SELECT count(*) FROM "{{schema}}"."outbox_log_parked" AS l
                WHERE l.concurrency_key = h.key AND CASE WHEN l.completed_at IS NULL AND l.key_seq IS NOT NULL THEN NOT l.waiting END AND l.key_limit > 0) + (
                SELECT coalesce(sum(p.ended), 0) FROM "{{schema}}"."outbox_log_parked_key_note" AS p
                WHERE p.concurrency_key = h.key AND p.limited AND p.ended > 0) ELSE h.known_taken END AS taken
        FROM (
            SELECT k.key, k.known, k.n, k.updates, k.next_at, k.unused, k.taken AS known_taken,
                coalesce(h1.key_limit) IS NOT NULL AS waits,
                ARRAY[coalesce(h1.due_at, started)] AS due,
                CASE WHEN h1.due_at IS NOT NULL THEN h1.key_limit END AS key_limit,
                CASE WHEN h1.due_at IS NOT NULL THEN h1.key_rate END AS key_rate,
                CASE WHEN h1.due_at IS NOT NULL THEN h1.key_burst END AS key_burst
            FROM k
            LEFT JOIN LATERAL (
                SELECT r.due_at, r.key_limit, r.key_rate, r.key_burst FROM "{{schema}}"."outbox_log_parked" AS r
                WHERE r.concurrency_key = k.key AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit > 0 THEN r.waiting END
                  AND r.due_at >= CASE WHEN k.due[1] IS NOT NULL THEN least(k.due[1], k.noted) ELSE '-infinity' END
                  AND r.due_at <= started
                ORDER BY r.concurrency_key, r.due_at, r.key_seq
                LIMIT 1) AS h1 ON true
            OFFSET 0) AS h -- without OFFSET, its expressions would be computed once for each use
    ), room AS MATERIALIZED (
        SELECT p.*, '{1}'::smallint[] AS levels, least(p.places, floor(least(p.extra + greatest(
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
                SELECT r.ctid, r.due_at, r.key_seq FROM "{{schema}}"."outbox_log_parked" AS r
                WHERE r.concurrency_key = room.key AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit > 0 THEN r.waiting END
                  AND r.due_at >= room.due[l.level] AND r.due_at <= started
                ORDER BY r.concurrency_key, r.due_at, r.key_seq
                LIMIT greatest(room.rows, 0)
                FOR NO KEY UPDATE SKIP LOCKED) AS r
            LIMIT greatest(room.rows, 0)) AS f
    ), through AS MATERIALIZED (
        UPDATE "{{schema}}"."outbox_log_parked" AS t
        SET waiting = false,
            due_at = greatest(t.due_at, least((fronts ->> left(encode(sha256(convert_to(jsonb_build_array(t."subscription")::text, 'UTF8')), 'hex'), 16))::timestamptz, now()), CASE WHEN f.at > started THEN f.at END)
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
        INSERT INTO "{{schema}}"."outbox_log_parked_key_note" (at, concurrency_key, limited, ended)
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
        SELECT g.n FROM "{{schema}}"."outbox_log_parked_key_state" AS g
        WHERE g.ctid = ANY (ARRAY(SELECT h.known FROM head AS h))
        FOR UPDATE SKIP LOCKED
    ), kept AS MATERIALIZED (
        UPDATE "{{schema}}"."outbox_log_parked_key_state" AS g
        SET taken = d.running, due = d.due, updates = g.updates + 1, at = now(),
            next_at = coalesce(CASE WHEN d.gap IS NOT NULL THEN CASE WHEN d.released * d.gap - d.unused IS NOT NULL THEN greatest(least(d.first + greatest(least(d.released * d.gap - d.unused, 1e17), -1e17) * interval '1 microsecond', '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00') END WHEN d.unused > 0 AND d.next_at IS NOT NULL THEN CASE WHEN -d.unused IS NOT NULL THEN greatest(least(d.next_at + greatest(least(-d.unused, 1e17), -1e17) * interval '1 microsecond', '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00') END END, g.next_at)
        FROM done AS d
        WHERE g.concurrency_key = d.key AND g.limited AND g.n = d.n AND d.updates < 64
          AND d.n IN (SELECT m.n FROM mine AS m)
        RETURNING g.concurrency_key
    ), fresh AS (
        INSERT INTO "{{schema}}"."outbox_log_parked_key_state" (concurrency_key, limited, n, taken, due, next_at, at)
        SELECT d.key, true, greatest(CASE WHEN d.n < 4611686018427387904 THEN d.n + 1 END, nextval('"{{schema}}"."outbox_log_parked_key_seq"')),
            d.running, d.due,
            coalesce(CASE WHEN d.gap IS NOT NULL THEN CASE WHEN d.released * d.gap - d.unused IS NOT NULL THEN greatest(least(d.first + greatest(least(d.released * d.gap - d.unused, 1e17), -1e17) * interval '1 microsecond', '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00') END WHEN d.unused > 0 AND d.next_at IS NOT NULL THEN CASE WHEN -d.unused IS NOT NULL THEN greatest(least(d.next_at + greatest(least(-d.unused, 1e17), -1e17) * interval '1 microsecond', '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00') END END, d.next_at), now()
        FROM done AS d
        WHERE d.key NOT IN (SELECT e.concurrency_key FROM kept AS e)
          AND (d.n IS NOT NULL OR d.marked OR d.key_rate IS NOT NULL AND d.released > 0)
    ), gone AS (
        DELETE FROM "{{schema}}"."outbox_log_parked_key_state" AS g
        WHERE g.ctid = ANY (ARRAY(
            SELECT h.known FROM head AS h
            WHERE h.updates >= 64 AND h.n IN (SELECT m.n FROM mine AS m)))
    )
    SELECT count(*) INTO n FROM through;
    RETURN n;
END
$txwork$;

-- Ready -> Failed for rows that wait behind a dead letter whose policy is Park. A fold parks a bounded number of rows.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_key_park"(k text, behind uuid) RETURNS void
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_parked or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    UPDATE "{{schema}}"."outbox_log_parked" AS t
    SET status = 3,
        completed_at = clock_timestamp(),
        failed_at = clock_timestamp(),
        last_error = 'parked behind ' || behind
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid FROM "{{schema}}"."outbox_log_parked" AS r
        WHERE r.concurrency_key = k AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit = 0 THEN r.waiting END AND r.key_seq > (
            SELECT f.key_seq FROM "{{schema}}"."outbox_log_parked" AS f -- the dead letter may have been redriven since the fold read it
            WHERE f.id = behind AND f.failed_at IS NOT NULL AND f.cancelled_at IS NULL AND f.key_policy = 2)
        ORDER BY r.concurrency_key, r.key_seq
        LIMIT 1000
        FOR NO KEY UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    IF EXISTS (SELECT FROM "{{schema}}"."outbox_log_parked" AS t
        WHERE t.concurrency_key = k AND CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL AND t.key_limit = 0 THEN t.waiting END) THEN
        INSERT INTO "{{schema}}"."outbox_log_parked_key_note" (at, concurrency_key, limited, ended)
        VALUES (
            clock_timestamp() + CASE WHEN n = 1000 THEN interval '0' ELSE interval '500 milliseconds' END,
            k, false, 0);
    END IF;
END
$txwork$;

-- Repairs the effects of changes that bypassed the triggers: writes a note for every key that has waiting rows, for at
-- most 1000 ordered and 1000 limited keys. It begins where the last sweep ended, at most every five
-- seconds. It also deletes the rows of key_state whose keys are not in use, and returns how many it deleted.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_key_sweep"(max_rows integer) RETURNS integer
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_parked or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (max_rows BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    SELECT c.ordered_key, c.limited_key, c.swept_at INTO place FROM "{{schema}}"."outbox_log_parked_key_cursor" AS c FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        IF NOT EXISTS (SELECT FROM "{{schema}}"."outbox_log_parked_key_cursor") THEN -- the table was truncated
            INSERT INTO "{{schema}}"."outbox_log_parked_key_cursor" DEFAULT VALUES ON CONFLICT DO NOTHING;
        END IF;
        RETURN 0; -- another session sweeps
    ELSIF place.swept_at BETWEEN clock_timestamp() - interval '5 seconds' AND clock_timestamp() THEN
        RETURN 0;
    END IF;
    place.ordered_key := "{{schema}}"."outbox_log_parked_key_look"(true, place.ordered_key, least(max_rows, 1000));
    place.limited_key := "{{schema}}"."outbox_log_parked_key_look"(false, place.limited_key, least(max_rows, 1000));
    UPDATE "{{schema}}"."outbox_log_parked_key_cursor" AS c
    SET ordered_key = place.ordered_key, limited_key = place.limited_key, swept_at = clock_timestamp();

    DELETE FROM "{{schema}}"."outbox_log_parked_key_state" AS b
    WHERE b.ctid = ANY (ARRAY(
        SELECT r.ctid FROM "{{schema}}"."outbox_log_parked_key_state" AS r
        WHERE r.at < now() - interval '1 minute' AND (r.next_at < now() - interval '1 minute') IS NOT FALSE
          AND NOT EXISTS (SELECT FROM "{{schema}}"."outbox_log_parked_key_state" AS o -- an older row would otherwise become the last one
            WHERE o.concurrency_key = r.concurrency_key AND o.limited = r.limited AND o.n < r.n)
        LIMIT 10 * max_rows
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$txwork$;

-- Writes notes for up to most keys after the given one that have waiting rows; ordered keys with a live row need none.
-- Returns the key after which the next call continues.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_key_look"(ordered boolean, behind text, most integer) RETURNS text
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_parked or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (most BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'most',
            MESSAGE = 'most must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    FOR i IN 1..most LOOP
        IF ordered THEN
            SELECT t.concurrency_key INTO last FROM "{{schema}}"."outbox_log_parked" AS t
            WHERE CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL AND t.key_limit = 0 THEN t.waiting END AND t.concurrency_key > last
            ORDER BY t.concurrency_key, t.key_seq LIMIT 1;
        ELSE
            SELECT t.concurrency_key INTO last FROM "{{schema}}"."outbox_log_parked" AS t
            WHERE CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL AND t.key_limit > 0 THEN t.waiting END AND t.concurrency_key > last
            ORDER BY t.concurrency_key, t.due_at, t.key_seq LIMIT 1;
        END IF;
        IF last IS NULL THEN
            RETURN ''; -- the next call starts over
        END IF;
        INSERT INTO "{{schema}}"."outbox_log_parked_key_note" (at, concurrency_key, limited)
        SELECT now(), last, NOT ordered
        WHERE NOT EXISTS (SELECT FROM "{{schema}}"."outbox_log_parked" AS t
            WHERE ordered AND t.concurrency_key = last AND CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL THEN NOT t.waiting END AND t.key_limit = 0);
    END LOOP;
    RETURN last;
END
$txwork$;

-- Hides notes and the state of keys from everybody who does not see all rows, if the table has row-level security, and
-- shows them if it has none. Only folds and sweeps need them. For the owner of the tables, who calls it after each
-- change of that.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_key_policies"() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF (SELECT c.relrowsecurity FROM pg_class AS c WHERE c.oid = '"{{schema}}"."outbox_log_parked"'::regclass) THEN
        ALTER TABLE "{{schema}}"."outbox_log_parked_key_note" ENABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."outbox_log_parked_key_state" ENABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."outbox_log_parked_key_cursor" ENABLE ROW LEVEL SECURITY;
    ELSE
        ALTER TABLE "{{schema}}"."outbox_log_parked_key_note" DISABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."outbox_log_parked_key_state" DISABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."outbox_log_parked_key_cursor" DISABLE ROW LEVEL SECURITY;
    END IF;
END
$txwork$;

CREATE TRIGGER "outbox_log_parked_key_enter" BEFORE INSERT ON "{{schema}}"."outbox_log_parked"
FOR EACH ROW WHEN (NEW.concurrency_key IS NOT NULL OR NEW.key_limit IS NOT NULL)
EXECUTE FUNCTION "{{schema}}"."outbox_log_parked_key_enter"();

CREATE TRIGGER "outbox_log_parked_key_come" AFTER UPDATE OF waiting ON "{{schema}}"."outbox_log_parked"
FOR EACH ROW WHEN (NEW.concurrency_key IS NOT NULL AND NEW.key_seq IS NULL AND NEW.status = 0
    AND (OLD.waiting AND NOT NEW.waiting OR OLD.status = 3))
EXECUTE FUNCTION "{{schema}}"."outbox_log_parked_key_come"();

CREATE TRIGGER "outbox_log_parked_key_back" AFTER UPDATE OF due_at ON "{{schema}}"."outbox_log_parked"
FOR EACH ROW WHEN (NEW.key_seq IS NOT NULL AND (NEW.key_limit > 0 OR NEW.owner_token IS NULL) AND OLD.status = 1
    AND NEW.status = 0)
EXECUTE FUNCTION "{{schema}}"."outbox_log_parked_key_back"();

CREATE TRIGGER "outbox_log_parked_key_wait" AFTER UPDATE OF waiting ON "{{schema}}"."outbox_log_parked"
FOR EACH ROW WHEN (NEW.key_seq IS NOT NULL AND (NEW.waiting OR OLD.status = 1))
EXECUTE FUNCTION "{{schema}}"."outbox_log_parked_key_wait"();

CREATE TRIGGER "outbox_log_parked_key_move" AFTER UPDATE OF concurrency_key, key_limit ON "{{schema}}"."outbox_log_parked"
FOR EACH ROW WHEN ((OLD.key_seq IS NOT NULL OR NOT OLD.waiting) AND OLD.status = 0 AND NEW.status = 0 AND (NEW.concurrency_key IS DISTINCT FROM OLD.concurrency_key OR (NEW.key_limit = 0) IS DISTINCT FROM (OLD.key_limit = 0)))
EXECUTE FUNCTION "{{schema}}"."outbox_log_parked_key_move"();

CREATE TRIGGER "outbox_log_parked_key_note"
AFTER UPDATE OF completed_at, due_at, key_policy ON "{{schema}}"."outbox_log_parked"
FOR EACH ROW WHEN (NEW.key_seq IS NOT NULL
    AND (NEW.waiting OR NEW.completed_at IS NOT NULL OR OLD.completed_at IS NOT NULL))
EXECUTE FUNCTION "{{schema}}"."outbox_log_parked_key_note"();

CREATE TRIGGER "outbox_log_parked_key_gone_all" AFTER TRUNCATE ON "{{schema}}"."outbox_log_parked"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."outbox_log_parked_key_forget"();

CREATE TRIGGER "outbox_log_parked_key_lost_all" AFTER TRUNCATE ON "{{schema}}"."outbox_log_parked_key_note"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."outbox_log_parked_key_forget"();

CREATE TRIGGER "outbox_log_parked_key_gone" AFTER DELETE ON "{{schema}}"."outbox_log_parked"
FOR EACH ROW WHEN (OLD.key_seq IS NOT NULL AND (OLD.failed_at IS NOT NULL OR OLD.completed_at IS NULL))
EXECUTE FUNCTION "{{schema}}"."outbox_log_parked_key_note"();

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_key_enter"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_key_come"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_key_back"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_key_wait"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_key_note"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_key_move"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_key_forget"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_key_place"(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_key_fold"(integer, timestamptz, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_key_next"(text[], boolean[], integer[], bigint[], jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_key_fill"(text[], boolean[], integer[], timestamptz[], double precision[], timestamptz, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_key_park"(text, uuid) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_key_sweep"(integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_key_look"(boolean, text, integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_key_policies"() FROM PUBLIC;

-- The log of an outbox: messages that are written once and never updated, for any number of subscriptions. ADR 0079
-- has the protocol.
CREATE SEQUENCE "{{schema}}"."outbox_log_seq";

-- What had ended when a snapshot was taken, in transaction ids plus the shift: all below low, none from high on, and
-- of those between all but open. n counts the ticks. seq is the last number that was drawn: it only sizes batches.
CREATE TYPE "{{schema}}"."outbox_log_seen" AS (
    n bigint,
    low bigint,
    high bigint,
    open bigint[],
    seq bigint
);

-- xid is the writer's top-level transaction id plus the shift, seq a draw of the row's own: see {{schema}}.outbox_log_shift. The
-- slot follows from the clock, and the slots are a ring: a slot that has not been emptied when its turn comes again
-- just has more rows. Whatever the table takes, the table of parked messages takes, too.
CREATE TABLE "{{schema}}"."outbox_log" (
    xid bigint NOT NULL,
    seq bigint NOT NULL DEFAULT nextval('"{{schema}}"."outbox_log_seq"'),
    id uuid NOT NULL DEFAULT encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    slot smallint NOT NULL DEFAULT floor(extract(epoch FROM clock_timestamp()) / 86400) % 8,
    topic text NOT NULL,
    key text,
    headers jsonb,
    payload bytea NOT NULL
) PARTITION BY LIST (slot);

COMMENT ON TABLE "{{schema}}"."outbox_log" IS 'txwork outbox_log 1';

CREATE INDEX "outbox_log_xid_idx" ON "{{schema}}"."outbox_log" (xid, seq);

CREATE TABLE "{{schema}}"."outbox_log_0" PARTITION OF "{{schema}}"."outbox_log" FOR VALUES IN (0);
CREATE TABLE "{{schema}}"."outbox_log_1" PARTITION OF "{{schema}}"."outbox_log" FOR VALUES IN (1);
CREATE TABLE "{{schema}}"."outbox_log_2" PARTITION OF "{{schema}}"."outbox_log" FOR VALUES IN (2);
CREATE TABLE "{{schema}}"."outbox_log_3" PARTITION OF "{{schema}}"."outbox_log" FOR VALUES IN (3);
CREATE TABLE "{{schema}}"."outbox_log_4" PARTITION OF "{{schema}}"."outbox_log" FOR VALUES IN (4);
CREATE TABLE "{{schema}}"."outbox_log_5" PARTITION OF "{{schema}}"."outbox_log" FOR VALUES IN (5);
CREATE TABLE "{{schema}}"."outbox_log_6" PARTITION OF "{{schema}}"."outbox_log" FOR VALUES IN (6);
CREATE TABLE "{{schema}}"."outbox_log_7" PARTITION OF "{{schema}}"."outbox_log" FOR VALUES IN (7);

-- The one row of what holds for the whole log. shift is what ids of transactions are raised by, system the cluster that
-- they belong to, and gone a tick that has seen all messages that have been removed. If an outbox of rows has moved
-- here, successor is the subscription that has the destination of the rows, switched_at the time of the switch, and
-- moving says that not all rows have been moved. thinned are the ticks up to which they have been thinned out, by the
-- second and by the minute.
CREATE TABLE "{{schema}}"."outbox_log_state" (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    shift bigint NOT NULL DEFAULT 0,
    system bigint NOT NULL DEFAULT (pg_control_system()).system_identifier,
    gone bigint NOT NULL DEFAULT 0,
    successor text,
    switched_at timestamptz,
    moving boolean NOT NULL DEFAULT false CHECK (NOT moving OR successor IS NOT NULL),
    thinned bigint[] NOT NULL DEFAULT '{0,0}'
);

INSERT INTO "{{schema}}"."outbox_log_state" DEFAULT VALUES;

-- silent_until is until when producers need not announce their messages: whoever stored the tick with the number keeper
-- has promised to tick again, see tick_step.
CREATE TABLE "{{schema}}"."outbox_log_tick" (
    n bigint PRIMARY KEY,
    at timestamptz NOT NULL, -- after the snapshot was taken
    silent_until timestamptz,
    keeper bigint,
    seen "{{schema}}"."outbox_log_seen" NOT NULL
);

-- topics and prefixes are NULL together: then the subscription has all topics. max_age and max_messages bound how far
-- behind it may be, and NULL does not.
CREATE TABLE "{{schema}}"."outbox_log_subscription" (
    name text PRIMARY KEY,
    topics text[],
    prefixes text[],
    headers jsonb,
    lanes smallint NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    max_age interval,
    max_messages bigint,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- A destination that a consumer has called unavailable: since when, until when nobody tries it, the length of that rest
-- and what the last consumer said.
CREATE TYPE "{{schema}}"."outbox_log_rest" AS (
    since timestamptz,
    until timestamptz,
    length interval,
    cause text
);

-- All that a position has seen is settled. The other columns are about the batch in hand, which ends with what upto has
-- seen: it is settled up to the number done; the page in hand ends with the number page; whole says that the batch ends
-- with the page; withheld are the numbers of the page that were not handed out, and are parked when they are settled;
-- ahead are numbers behind done that are settled, too.
-- A lane is leased while locked_until is set. The token stays when a batch ends, so that a settle can be repeated.
--
-- At most one lane of a subscription has a rest. Until it is over, no lane is handed out. Then one message of that lane
-- is: its claim is the probe, and a page that the lane has in hand is that message.
CREATE TABLE "{{schema}}"."outbox_log_position" (
    subscription text NOT NULL REFERENCES "{{schema}}"."outbox_log_subscription" ON DELETE CASCADE,
    lane smallint NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    page bigint,
    owner_token uuid,
    locked_until timestamptz,
    whole boolean NOT NULL DEFAULT false,
    seen "{{schema}}"."outbox_log_seen" NOT NULL,
    upto "{{schema}}"."outbox_log_seen",
    withheld bigint[] NOT NULL DEFAULT '{}',
    ahead bigint[] NOT NULL DEFAULT '{}',
    rest "{{schema}}"."outbox_log_rest",
    PRIMARY KEY (subscription, lane)
) WITH (fillfactor = 20);

-- What subscriptions have passed over because a verb or their retention moved them forward: messages that the tick
-- ended had seen, and began had not, and that were not settled. It outlives the subscription.
CREATE TABLE "{{schema}}"."outbox_log_loss" (
    subscription text NOT NULL,
    lane smallint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    began bigint NOT NULL,
    ended bigint NOT NULL,
    messages bigint NOT NULL,
    oldest timestamptz NOT NULL,
    newest timestamptz NOT NULL,
    why text NOT NULL, -- cut, retention, replay or remove
    PRIMARY KEY (subscription, lane, at)
);

-- The dedup keys of topics, and the ids of the messages that have them. xid is the transaction that wrote the message,
-- plus the shift. A key is free again when all have passed the message, see trim_dedup.
CREATE TABLE "{{schema}}"."outbox_log_dedup" (
    topic text NOT NULL,
    dedup_key text NOT NULL,
    id uuid NOT NULL,
    xid bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic, dedup_key)
);

CREATE INDEX "outbox_log_dedup_xid_idx" ON "{{schema}}"."outbox_log_dedup" (xid);

-- Messages that are due later, see append_due. due_at is when a message goes to the log: scheduled_at, and not before
-- those of its key that were written before it, if its writers take turns (ordered). Ids are as little unique as in the
-- log.
CREATE TABLE "{{schema}}"."outbox_log_later" (
    id uuid NOT NULL,
    due_at "{{schema}}"."outbox_log_parked_time" NOT NULL,
    scheduled_at "{{schema}}"."outbox_log_parked_time" NOT NULL,
    retry_at timestamptz, -- the log has refused it
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ord bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ordered boolean NOT NULL,
    topic text NOT NULL,
    key text,
    headers jsonb,
    payload bytea NOT NULL,
    dedup_key text
);

CREATE INDEX "outbox_log_later_id_idx" ON "{{schema}}"."outbox_log_later" (id);

CREATE INDEX "outbox_log_later_due_idx" ON "{{schema}}"."outbox_log_later" (due_at, ord);

CREATE INDEX "outbox_log_later_key_idx" ON "{{schema}}"."outbox_log_later" (key, due_at) WHERE ordered;

CREATE INDEX "outbox_log_later_dedup_idx" ON "{{schema}}"."outbox_log_later" (topic, dedup_key) WHERE dedup_key IS NOT NULL;

-- Parked messages that keep others of their key from being handed out.
CREATE INDEX "outbox_log_parked_blocks_idx" ON "{{schema}}"."outbox_log_parked" (subscription, concurrency_key)
    WHERE (completed_at IS NULL OR failed_at IS NOT NULL AND cancelled_at IS NULL AND key_policy > 0);

-- Refuses messages that no batch would ever have: their transaction has an id that the newest tick calls ended, as in a
-- cluster in which ids began again. Announces messages, once for each transaction, unless somebody has promised to tick
-- again soon. A transaction that is silent because of that keeps a lock until it ends, which whoever has promised sees.
-- It tests the time after it has the lock: so either it has the lock before the promise ends, or it announces.
-- It runs with its owner's rights, so that producers need none on ticks, and none of
-- them is kept from seeing the newest. It pins no search_path, which would cost each statement of producers as much as
-- all the rest: every name is qualified.
CREATE FUNCTION "{{schema}}"."outbox_log_guard"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
AS $txwork$
DECLARE
    own pg_catalog.int8 := pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text::pg_catalog.int8
        OPERATOR(pg_catalog.+) TG_ARGV[0]::pg_catalog.int8;
    is_ended pg_catalog.bool;
    silent_until pg_catalog.timestamptz;
BEGIN
    SELECT own OPERATOR(pg_catalog.<) (t.seen).high AND own OPERATOR(pg_catalog.<>) ALL ((t.seen).open), t.silent_until
    INTO is_ended, silent_until
    FROM "{{schema}}"."outbox_log_tick" AS t ORDER BY t.n DESC LIMIT 1;
    IF is_ended THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{schema}}.outbox_log is in another cluster than the one in which it was written: transaction ids began again',
            HINT = 'After a restore, stop the consumers of the old cluster, then SELECT {{schema}}.outbox_log_rebase().';
    ELSIF is_ended IS NULL THEN -- there is no tick, or it is hidden from the owner
        IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass) THEN
            RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
        END IF;
    END IF;
    -- The look takes longer than the rest.
    IF pg_catalog.random() OPERATOR(pg_catalog.<) 0.002::pg_catalog.float8 THEN
        IF (SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks AS l
                WHERE l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()
                  AND l.locktype OPERATOR(pg_catalog.=) 'advisory') OPERATOR(pg_catalog.>) (pg_catalog.current_setting('max_locks_per_transaction')::integer OPERATOR(pg_catalog.*) (pg_catalog.current_setting('max_connections')::integer OPERATOR(pg_catalog.+) pg_catalog.current_setting('max_prepared_transactions')::integer) OPERATOR(pg_catalog./) 4) THEN
            RAISE EXCEPTION USING ERRCODE = 'program_limit_exceeded',
                MESSAGE = 'this transaction has written too many keys: '
                    'each holds one of the locks that the whole server shares',
                HINT = 'write fewer keys in one transaction, or raise max_locks_per_transaction';
        END IF;
    END IF;
    IF TG_ARGV[1] OPERATOR(pg_catalog.=) 'silent' THEN
        RETURN NULL; -- they are not due
    ELSIF silent_until OPERATOR(pg_catalog.-) pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) interval '0' AND silent_until OPERATOR(pg_catalog.-) pg_catalog.clock_timestamp() OPERATOR(pg_catalog.<=) interval '1 second' THEN
        IF pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox_log silent', 0)) THEN
            IF silent_until OPERATOR(pg_catalog.-) pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) interval '0' AND silent_until OPERATOR(pg_catalog.-) pg_catalog.clock_timestamp() OPERATOR(pg_catalog.<=) interval '1 second' THEN
                RETURN NULL;
            END IF;
        END IF;
    END IF;
    PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', pg_catalog.concat('external:', '')) ELSE ''::pg_catalog.void END);
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_guard"() FROM PUBLIC;

-- Sets the shift: in the defaults of xid, in the rules that no row may be copied or invented, and in the guard. The
-- rules are not validated, since they hold of a row only while it is written. Logical replication and restores write as
-- session_replication_role = replica, or before the rules are there.
CREATE FUNCTION "{{schema}}"."outbox_log_shift"(shift bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    EXECUTE format('ALTER TABLE "{{schema}}"."outbox_log"
        ALTER COLUMN xid SET DEFAULT (pg_current_xact_id()::text::bigint + %1$s),
        DROP CONSTRAINT IF EXISTS "outbox_log_own_xid",
        DROP CONSTRAINT IF EXISTS "outbox_log_own_seq",
        ADD CONSTRAINT "outbox_log_own_xid" CHECK (xid = pg_current_xact_id()::text::bigint + %1$s
            OR current_setting(''session_replication_role'') = ''replica'') NOT VALID,
        ADD CONSTRAINT "outbox_log_own_seq" CHECK (current_setting(''session_replication_role'') = ''replica''
            OR seq = currval(''"{{schema}}"."outbox_log_seq"'')) NOT VALID', shift);
    EXECUTE format('ALTER TABLE "{{schema}}"."outbox_log_dedup"
        ALTER COLUMN xid SET DEFAULT (pg_current_xact_id()::text::bigint + %s)', shift);
    EXECUTE format('CREATE OR REPLACE TRIGGER "outbox_log_guard" AFTER INSERT ON "{{schema}}"."outbox_log"
        FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."outbox_log_guard"(%L, ''announce'')', shift::text);
    EXECUTE format('CREATE OR REPLACE TRIGGER "outbox_log_later_guard" AFTER INSERT ON "{{schema}}"."outbox_log_later"
        FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."outbox_log_guard"(%L, ''silent'')', shift::text);
    UPDATE "{{schema}}"."outbox_log_state" AS s SET shift = $1;
    IF NOT FOUND THEN -- the table was lost, and made anew
        INSERT INTO "{{schema}}"."outbox_log_state" (shift) VALUES ($1);
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_shift"(bigint) FROM PUBLIC;

SELECT "{{schema}}"."outbox_log_shift"(0);

-- Takes the lock of the writers of a key until the transaction ends. A time says until when messages of the key are
-- scheduled: the next one goes behind them, which the function append does. NULL: it goes to the log. It refuses too
-- many locks, as the guard does, which sees neither what is scheduled nor duplicates, and a COPY only once.
--
-- The look is a statement of its own, so that it sees what the writer before has committed. Who appends what is due
-- needs no lock: until it has committed, the next message goes behind what it appends. No search_path is pinned, which
-- would cost producers as much as all the rest: every name is qualified. A role that does not see all that is scheduled
-- is refused: what it writes could come before what its key has.
CREATE FUNCTION "{{schema}}"."outbox_log_turn"(key text) RETURNS timestamptz
LANGUAGE plpgsql
AS $txwork$
BEGIN
    PERFORM pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('{{schema}}.outbox_log ' OPERATOR(pg_catalog.||) $1, 1));
    -- The look takes longer than the rest.
    IF pg_catalog.random() OPERATOR(pg_catalog.<) 0.002::pg_catalog.float8 THEN
        IF (SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks AS l
                WHERE l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()
                  AND l.locktype OPERATOR(pg_catalog.=) 'advisory') OPERATOR(pg_catalog.>) (pg_catalog.current_setting('max_locks_per_transaction')::integer OPERATOR(pg_catalog.*) (pg_catalog.current_setting('max_connections')::integer OPERATOR(pg_catalog.+) pg_catalog.current_setting('max_prepared_transactions')::integer) OPERATOR(pg_catalog./) 4) THEN
            RAISE EXCEPTION USING ERRCODE = 'program_limit_exceeded',
                MESSAGE = 'this transaction has written too many keys: '
                    'each holds one of the locks that the whole server shares',
                HINT = 'write fewer keys in one transaction, or raise max_locks_per_transaction';
        END IF;
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_later"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    RETURN (SELECT pg_catalog.max(l.due_at) FROM "{{schema}}"."outbox_log_later" AS l
        WHERE l.ordered AND l.key OPERATOR(pg_catalog.=) $1);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_turn"(text) FROM PUBLIC;

-- Writes a message. The writers of a key take turns, and each draws its number under their lock: so the messages of a
-- key are in the order of their commits, by number and by tick. Who writes by INSERT or COPY calls turn in an earlier
-- statement, and append for a key for which that returns a time; without it, messages of a key are delivered in any
-- order.
--
-- A message that is scheduled, or behind one of its key that is, waits in "{{schema}}"."outbox_log_later".
--
-- A dedup key that the topic has is waited for until its writer has ended. If that has committed, nothing is written,
-- and the id is that of its message. A key may be freed between its refusal and the look at it: then it is tried again.
CREATE FUNCTION "{{schema}}"."outbox_log_append"(
    topic text, payload bytea, key text DEFAULT NULL, headers jsonb DEFAULT NULL,
    INOUT id uuid DEFAULT encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid, dedup_key text DEFAULT NULL,
    scheduled_at timestamptz DEFAULT NULL, OUT duplicate boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
DECLARE
    own CONSTANT uuid := $5;
    due_at timestamptz;
BEGIN
    IF (octet_length($1) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'topic',
            MESSAGE = 'topic must have 1 to 255 bytes',
            HINT = 'Name what the message is about.';
    END IF;
    IF (octet_length($2) <= 1048576) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'payload',
            MESSAGE = 'payload must not be NULL, and have at most 1048576 bytes',
            HINT = 'Keep larger content elsewhere, and its address in the message.';
    END IF;
    IF (octet_length(coalesce($3, '')) <= 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'key',
            MESSAGE = 'key must have at most 255 bytes',
            HINT = 'NULL is no key.';
    END IF;
    IF ($5 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'id',
            MESSAGE = 'id must not be NULL',
            HINT = 'Leave it out for a new one.';
    END IF;
    IF (octet_length(coalesce($6, '')) <= 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'dedup_key',
            MESSAGE = 'dedup_key must have at most 255 bytes',
            HINT = 'NULL is none.';
    END IF;
    IF ($7 IS NULL OR $7 BETWEEN '1970-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'scheduled_at',
            MESSAGE = 'scheduled_at must be between 1970 and 9999',
            HINT = 'NULL and a time in the past mean now.';
    END IF;
    IF nullif($3, '') IS NOT NULL THEN
        SELECT "{{schema}}"."outbox_log_turn"($3) INTO due_at;
    END IF;
    due_at := greatest(due_at, CASE WHEN $7 > clock_timestamp() THEN $7 END);
    duplicate := false;
    IF nullif($6, '') IS NOT NULL THEN
        duplicate := true;
        FOR attempt IN 1..10 LOOP
            INSERT INTO "{{schema}}"."outbox_log_dedup" (topic, dedup_key, id) VALUES ($1, $6, own) ON CONFLICT DO NOTHING;
            duplicate := NOT FOUND;
            EXIT WHEN NOT duplicate;
            SELECT d.id INTO id FROM "{{schema}}"."outbox_log_dedup" AS d WHERE d.topic = $1 AND d.dedup_key = $6;
            IF FOUND THEN
                RETURN;
            END IF;
            id := own;
        END LOOP;
    END IF;
    IF NOT duplicate AND due_at IS NULL THEN
        INSERT INTO "{{schema}}"."outbox_log" (id, topic, key, headers, payload) VALUES (own, $1, nullif($3, ''), $4, $2);
    ELSIF NOT duplicate THEN
        INSERT INTO "{{schema}}"."outbox_log_later" (id, due_at, scheduled_at, ordered, topic, key, headers, payload, dedup_key)
        VALUES (own, due_at, coalesce($7, now()), nullif($3, '') IS NOT NULL, $1, nullif($3, ''), $4, $2,
            nullif($6, ''));
    END IF;
    IF duplicate OR NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{schema}}.outbox_log took a message and stored none: does a trigger, a rule or a policy suppress it?';
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_append"(text, bytea, text, jsonb, uuid, text, timestamptz) FROM PUBLIC;

-- Appends messages that are due to the log, in the order of their times, and says how many. One caller at a time does:
-- a row is removed in the statement that appends it, so none is appended twice, and none is lost if that does not
-- commit. Rows that somebody cancels at the moment are passed over, with all of their keys: if these were all there is
-- among so many, it looks behind them. A dedup key is kept from then on as long as that of any message.
--
-- A call moves not much more than 16777216 bytes and does not wait for long, so that it ends before its caller
-- gives up. If a batch fails, it goes on with one message at a time: one that is refused alone is passed over, with its
-- key, until it is tried again.
--
-- It runs with its owner's rights: consumers tick, and have no right to remove what is scheduled.
CREATE FUNCTION "{{schema}}"."outbox_log_append_due"(most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET lock_timeout = '200ms'
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    began timestamptz := clock_timestamp();
    total integer := 0;
    batch integer := $1;
    picked bigint[];
    removed integer;
    stored integer;
    passed text[]; -- keys, in this look
    held text[] := '{}'; -- and in those before
BEGIN
    IF ($1 BETWEEN 1 AND 1000000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'most',
            MESSAGE = 'most must be between 1 and 1000000',
            HINT = 'Call again for more rows.';
    END IF;
    IF NOT EXISTS (SELECT FROM "{{schema}}"."outbox_log_later" AS l WHERE l.due_at <= now())
        OR NOT pg_try_advisory_xact_lock(hashtextextended('{{schema}}.outbox_log due', 0)) THEN
        RETURN 0;
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_later"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_dedup"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_later or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'an append of what is due needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 second')))::bigint::text,
        true);
    FOR look IN 1..50 LOOP
        picked := ARRAY(
            SELECT l.ord FROM "{{schema}}"."outbox_log_later" AS l
            WHERE l.due_at <= now() AND coalesce(l.retry_at <= now(), true)
              AND (NOT l.ordered OR l.key <> ALL (own.held))
            ORDER BY l.due_at, l.ord LIMIT own.batch FOR UPDATE SKIP LOCKED);
        EXIT WHEN own.picked = '{}' OR clock_timestamp() > own.began + interval '1 second';
        BEGIN
            WITH due AS MATERIALIZED (
                SELECT l.ord, l.ordered, l.key, l.due_at,
                    sum(octet_length(l.payload)) OVER (ORDER BY l.due_at, l.ord) - octet_length(l.payload) AS before
                FROM "{{schema}}"."outbox_log_later" AS l WHERE l.ord = ANY (own.picked)
            ), skipped AS MATERIALIZED (
                SELECT l.key FROM "{{schema}}"."outbox_log_later" AS l
                WHERE l.ordered AND l.due_at <= (SELECT max(d.due_at) FROM due AS d) -- by the index
                  AND (l.due_at, l.ord) <= (SELECT d.due_at, d.ord FROM due AS d ORDER BY 1 DESC, 2 DESC LIMIT 1)
                  AND l.key <> ALL (own.held) AND NOT EXISTS (SELECT FROM due AS d WHERE d.ord = l.ord)
            ), gone AS (
                DELETE FROM "{{schema}}"."outbox_log_later" AS l USING due AS d
                WHERE l.ord = d.ord AND d.before < 16777216
                  AND NOT EXISTS (SELECT FROM skipped AS s WHERE d.ordered AND s.key = d.key)
                RETURNING l.*
            ), kept AS (
                UPDATE "{{schema}}"."outbox_log_dedup" AS k SET xid = DEFAULT FROM gone AS g
                WHERE k.topic = g.topic AND k.dedup_key = g.dedup_key AND k.id = g.id
            ), appended AS (
                INSERT INTO "{{schema}}"."outbox_log" (id, topic, key, headers, payload)
                SELECT g.id, g.topic, g.key, g.headers, g.payload FROM gone AS g ORDER BY g.due_at, g.ord
                RETURNING 1
            )
            SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM appended),
                (SELECT array_agg(DISTINCT s.key) FROM skipped AS s)
            INTO own.removed, own.stored, own.passed;
            IF own.removed <> own.stored THEN
                RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
                    MESSAGE = '{{schema}}.outbox_log took messages that are due and stored fewer: '
                        'does a trigger, a rule or a policy suppress them?';
            END IF;
        EXCEPTION WHEN OTHERS THEN
            IF cardinality(own.picked) = 1 THEN
                UPDATE "{{schema}}"."outbox_log_later" AS l SET retry_at = clock_timestamp() + interval '10 seconds'
                WHERE l.ord = ANY (own.picked);
                RAISE NOTICE 'a message that is due stays scheduled: %', SQLERRM;
            END IF;
            batch := 1;
            CONTINUE;
        END;
        total := own.total + own.stored;
        EXIT WHEN own.total >= $1 OR own.stored > 0 AND own.batch > 1;
        held := own.held || own.passed;
    END LOOP;
    RETURN own.total;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_append_due"(integer) FROM PUBLIC;

-- Removes messages that are scheduled and not yet in the log, and returns their ids. Those behind them in their keys
-- are due as if they had never been written. It takes the locks of the keys' writers, in one order, and removes nothing
-- of other keys, which may have been written meanwhile. Dedup keys stay taken.
CREATE FUNCTION "{{schema}}"."outbox_log_cancel"(ids uuid[]) RETURNS SETOF uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    gone uuid[];
    keys text[];
    locks bigint[];
BEGIN
    IF (cardinality($1) <= 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids',
            MESSAGE = 'ids must be an array of at most 10000 ids',
            HINT = 'Call again for more.';
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_later"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_dedup"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_later or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a cancel needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 minute')))::bigint::text,
        true);
    locks := ARRAY(
        SELECT DISTINCT hashtextextended('{{schema}}.outbox_log ' || l.key, 1) FROM "{{schema}}"."outbox_log_later" AS l
        WHERE l.id = ANY ($1) AND l.ordered ORDER BY 1);
    IF cardinality(own.locks) > current_setting('max_locks_per_transaction')::integer * (current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer) / 4 THEN
        RAISE EXCEPTION USING ERRCODE = 'program_limit_exceeded',
            MESSAGE = format('messages of %s keys are to be cancelled, and each holds one of the locks that the whole '
                'server shares', cardinality(own.locks)),
            HINT = 'Cancel fewer in one transaction, or raise max_locks_per_transaction.';
    END IF;
    PERFORM pg_advisory_xact_lock(k.lock) FROM unnest(own.locks) AS k (lock);
    WITH gone AS (
        DELETE FROM "{{schema}}"."outbox_log_later" AS l
        WHERE l.id = ANY ($1) AND (NOT l.ordered OR hashtextextended('{{schema}}.outbox_log ' || l.key, 1) = ANY (own.locks))
        RETURNING l.id, l.ordered, l.key
    )
    SELECT array_agg(g.id), array_agg(g.key) FILTER (WHERE g.ordered) INTO own.gone, own.keys FROM gone AS g;
    UPDATE "{{schema}}"."outbox_log_later" AS l SET due_at = w.due_at
    FROM (
        SELECT k.ord, max(k.scheduled_at) OVER (PARTITION BY k.key ORDER BY k.ord) AS due_at
        FROM "{{schema}}"."outbox_log_later" AS k WHERE k.ordered AND k.key = ANY (own.keys)) AS w
    WHERE l.ord = w.ord AND l.due_at <> w.due_at;
    RETURN QUERY SELECT unnest(own.gone);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_cancel"(uuid[]) FROM PUBLIC;

-- The transaction of the procedure tick. It takes the lock of the tickers, and the snapshot in a later statement: so a
-- tick has seen all that an earlier tick has. It stores a tick if a message has come that the newest tick has not seen
-- end. It asks the index and not the sequence: a number that was drawn before the last tick may be committed after it.
-- The ids between those that are open are asked for, gap by gap: a million rows of an open transaction are passed over.
--
-- Where nobody has ticked for long, it stores several ticks, so that no batch is large, see the template parts.
--
-- It announces the tick to the subscriptions that want one of its messages, as far as their topics tell, and to all if
-- it has many.
--
-- promise says for how long its caller, which is called the keeper of the tick, will tick again at short intervals.
-- Producers do not announce their messages meanwhile. No promise ends one of before, which an older snapshot of a
-- producer may see. A tick without a promise inherits that of the tick before. The keeper goes on until another one has
-- promised, or expects is false: then the time is over, and no transaction is open that was silent. It has tried their
-- lock before it took its snapshot.
CREATE FUNCTION "{{schema}}"."outbox_log_tick_step"(
    promise interval DEFAULT NULL, OUT newest bigint, OUT stored boolean, OUT keeper bigint, OUT expects boolean,
    OUT announced text
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '10s'
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    seen pg_snapshot;
    last "{{schema}}"."outbox_log_seen";
    now "{{schema}}"."outbox_log_seen";
    parts bigint;
    silent_until timestamptz;
    news bigint;
    topics text[];
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF pg_is_in_recovery() OR current_setting('transaction_isolation') <> 'read committed'
        OR pg_current_xact_id_if_assigned() IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a tick needs a READ COMMITTED transaction of its own on the primary',
            HINT = 'CALL {{schema}}.outbox_log_tick() outside of transactions.';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('{{schema}}.outbox_log tick', 0));
    IF (SELECT s.system <> c.system_identifier
            OR pg_snapshot_xmax(pg_current_snapshot())::text::bigint + s.shift
                < (SELECT (t.seen).high FROM "{{schema}}"."outbox_log_tick" AS t ORDER BY t.n DESC LIMIT 1)
        FROM "{{schema}}"."outbox_log_state" AS s, pg_control_system() AS c) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{schema}}.outbox_log is in another cluster than the one in which it was written: transaction ids began again',
            HINT = 'After a restore, stop the consumers of the old cluster, then SELECT {{schema}}.outbox_log_rebase().';
    END IF;

    SELECT t.silent_until, t.keeper, (t.seen).* INTO own.silent_until, keeper, own.last.n, own.last.low, own.last.high,
        own.last.open, own.last.seq
    FROM "{{schema}}"."outbox_log_tick" AS t ORDER BY t.n DESC LIMIT 1;
    expects := $1 IS NOT NULL AND (
        own.silent_until > clock_timestamp() IS TRUE OR NOT pg_try_advisory_xact_lock(hashtextextended('{{schema}}.outbox_log silent', 0)));
    stored := own.last.n IS NULL;
    IF stored THEN -- the first tick, or all were deleted
        SELECT 0, 0, 0, '{}', 0 INTO own.last;
    END IF;
    SELECT pg_current_snapshot() INTO own.seen;
    SELECT own.last.n + 1, pg_snapshot_xmin(own.seen)::text::bigint + s.shift,
        pg_snapshot_xmax(own.seen)::text::bigint + s.shift,
        ARRAY(SELECT x::text::bigint + s.shift FROM pg_snapshot_xip(own.seen) AS x),
        (SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM "{{schema}}"."outbox_log_seq" AS q)
    INTO own.now
    FROM "{{schema}}"."outbox_log_state" AS s;
    newest := own.last.n;

    SELECT count(*), array_agg(DISTINCT m.topic) INTO own.news, own.topics
    FROM (
        (SELECT m.topic::text
            FROM unnest(own.last.open) AS x
            CROSS JOIN LATERAL (SELECT m.topic FROM "{{schema}}"."outbox_log" AS m WHERE m.xid = x LIMIT 100) AS m
            WHERE x <> ALL (own.now.open))
        UNION ALL
        (SELECT m.topic::text
            FROM (
                SELECT b.x AS after, lead(b.x) OVER (ORDER BY b.x) AS before
                FROM unnest(ARRAY[own.last.high - 1, own.now.high] || own.now.open) AS b (x)
                WHERE b.x >= own.last.high - 1) AS gap
            CROSS JOIN LATERAL (
                SELECT m.topic FROM "{{schema}}"."outbox_log" AS m
                WHERE m.xid > gap.after AND m.xid < gap.before LIMIT 100) AS m
            WHERE gap.before > gap.after + 1)
        LIMIT 100) AS m;
    stored := stored OR own.news > 0;
    IF stored THEN
        IF $1 IS NOT NULL THEN
            silent_until := clock_timestamp() + least(interval '1 second',
                greatest($1, own.silent_until - clock_timestamp()));
            expects := true;
        END IF;
        -- Positions may have seen ticks that were deleted since, and look for later ones only.
        SELECT greatest(own.now.n, 1 + max(greatest((p.seen).n, (p.upto).n))) INTO own.now.n
        FROM "{{schema}}"."outbox_log_position" AS p;
        IF own.now.seq - own.last.seq BETWEEN 5000 + 1 AND 4000000 THEN
            WITH ended AS (
                SELECT m.xid, count(*) AS messages, max(m.seq) AS seq
                FROM "{{schema}}"."outbox_log" AS m
                WHERE m.xid >= (own.last).high AND m.xid < (own.now).high AND m.xid <> ALL ((own.now).open)
                GROUP BY m.xid
                UNION ALL
                SELECT x, (SELECT count(*) FROM "{{schema}}"."outbox_log" AS m WHERE m.xid = x AND m.seq > (own.last).seq),
                    coalesce((SELECT max(m.seq) FROM "{{schema}}"."outbox_log" AS m WHERE m.xid = x), 0)
                FROM unnest((own.last).open) AS x
                WHERE x <> ALL ((own.now).open)
            ), counted AS (
                SELECT e.*, e.messages > 5000 AS is_large,
                    (sum(e.messages) OVER (ORDER BY e.seq, e.xid))::bigint AS upto
                FROM ended AS e
            ), begun AS (
                SELECT c.*, (c.upto - c.messages) / 5000 AS share FROM counted AS c
            ), divided AS (
                SELECT b.xid, b.upto, b.is_large, sum(b.begins::integer) OVER (ORDER BY b.seq, b.xid) AS part
                FROM (
                    SELECT b.*, b.is_large OR b.share IS DISTINCT FROM lag(b.share) OVER (ORDER BY b.seq, b.xid)
                        AS begins
                    FROM begun AS b) AS b
            ), shown AS (
                -- From which tick on an id is below high. It is open there until its own part.
                SELECT d.xid, d.part, CASE WHEN d.xid < (own.last).high THEN 0
                    ELSE min(d.part - d.is_large::integer) OVER (ORDER BY d.xid DESC) END AS since
                FROM divided AS d
            ), opened AS (
                SELECT i.part, array_agg(s.xid ORDER BY s.xid) AS ids
                FROM shown AS s
                CROSS JOIN LATERAL generate_series(s.since, s.part - 1) AS i (part)
                GROUP BY i.part
            ), ticked AS (
                SELECT p.part, greatest((own.last).high, 1 + max(max(p.xid)) OVER (ORDER BY p.part)) AS high,
                    coalesce(max(max(p.upto)) OVER (ORDER BY p.part), 0) AS upto
                FROM (
                    SELECT d.part - d.is_large::integer AS part, d.xid, NULL::bigint AS upto FROM divided AS d
                    UNION ALL
                    SELECT d.part, NULL, d.upto FROM divided AS d) AS p
                GROUP BY p.part
            )
            INSERT INTO "{{schema}}"."outbox_log_tick" (n, at, seen)
            SELECT t.n, clock_timestamp(), ROW(t.n, least(t.high, (SELECT min(x) FROM unnest(t.open) AS x)), t.high,
                t.open, least((own.last).seq + t.upto, (own.now).seq))::"{{schema}}"."outbox_log_seen"
            FROM (
                SELECT (own.now).n + row_number() OVER (ORDER BY t.part) - 1 AS n, t.high, t.upto,
                    ARRAY(SELECT x FROM unnest((own.now).open) AS x WHERE x < t.high) || o.ids AS open
                FROM ticked AS t
                LEFT JOIN opened AS o ON o.part = t.part
                WHERE t.part < (SELECT max(d.part) FROM divided AS d)) AS t;
            GET DIAGNOSTICS parts = ROW_COUNT;
            now.n := own.now.n + own.parts;
        END IF;
        newest := own.now.n;
        keeper := CASE WHEN $1 IS NULL THEN keeper ELSE newest END;
        INSERT INTO "{{schema}}"."outbox_log_tick" (n, at, silent_until, keeper, seen)
        VALUES (newest, clock_timestamp(), own.silent_until, keeper, own.now);
        IF own.news < 100 THEN
            SELECT CASE WHEN octet_length(json_agg(s.name)::text) > 7000 THEN '*' ELSE json_agg(s.name)::text END
            INTO announced
            FROM "{{schema}}"."outbox_log_subscription" AS s
            WHERE NOT s.paused
              AND (s.topics IS NULL OR s.topics && own.topics
                OR EXISTS (SELECT FROM unnest(own.topics) AS t WHERE t ^@ ANY (s.prefixes)));
        ELSE
            announced := '*';
        END IF;
        IF announced IS NOT NULL THEN
            PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox_log_parked', pg_catalog.concat('external:', announced)) ELSE ''::pg_catalog.void END);
        END IF;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_tick_step"(interval) FROM PUBLIC;

-- Appends what is due, and stores a tick if there is news. What cannot be appended keeps nobody from ticking. It
-- commits by itself: in a caller's transaction PostgreSQL refuses it (2D000), so nobody keeps the lock of the tickers.
-- A crash may undo a tick, and the next one sees the same and more: so its commit does not wait for the log. It cannot
-- pin a search_path: every name and operator is qualified.
CREATE PROCEDURE "{{schema}}"."outbox_log_tick"(
    INOUT newest bigint DEFAULT NULL, INOUT stored boolean DEFAULT NULL, promise interval DEFAULT NULL,
    INOUT keeper bigint DEFAULT NULL, INOUT expects boolean DEFAULT NULL, INOUT announced text DEFAULT NULL
)
LANGUAGE plpgsql
AS $txwork$
BEGIN
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_later"'::pg_catalog.regclass) OR EXISTS (SELECT FROM "{{schema}}"."outbox_log_later" AS l
        WHERE l.due_at OPERATOR(pg_catalog.<=) pg_catalog.now()) THEN
        BEGIN
            PERFORM "{{schema}}"."outbox_log_append_due"(1000);
        EXCEPTION WHEN OTHERS THEN
            RAISE NOTICE 'messages that are due stay scheduled: %', SQLERRM;
        END;
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    END IF;
    SET LOCAL synchronous_commit TO off;
    SELECT s.newest, s.stored, s.keeper, s.expects, s.announced INTO newest, stored, keeper, expects, announced
    FROM "{{schema}}"."outbox_log_tick_step"(promise) AS s;
    COMMIT;
END
$txwork$;

REVOKE ALL ON PROCEDURE "{{schema}}"."outbox_log_tick"(bigint, boolean, interval, bigint, boolean, text) FROM PUBLIC;

-- Makes a subscription. It begins with the newest tick that was made until start: 'infinity' is now, so tick before;
-- '-infinity' is the beginning of what the log has. Topics are names, or beginnings of names with a * at the end. The
-- max_age and max_messages are its retention, see {{schema}}.outbox_log_parked_retain: NULL and 0 are none. The
-- row of the state is locked against the removal of what the subscription has yet to read, and only against that.
CREATE FUNCTION "{{schema}}"."outbox_log_subscribe"(
    name text, topics text[] DEFAULT NULL, headers jsonb DEFAULT NULL, start timestamptz DEFAULT 'infinity',
    lanes integer DEFAULT 1, max_age interval DEFAULT NULL, max_messages bigint DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    seen "{{schema}}"."outbox_log_seen";
    gone bigint;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($1 ~ '^[a-z0-9_]{1,48}$') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'name',
            MESSAGE = 'name must have 1 to 48 characters a-z, 0-9 and _',
            HINT = 'Choose another name.';
    END IF;
    IF ($2 IS NULL OR array_ndims($2) = 1 AND cardinality($2) <= 100
        AND array_position($2, NULL) IS NULL AND array_position($2, '') IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'topics',
            MESSAGE = 'topics must have 1 to 100 topics, of which none is NULL or empty',
            HINT = 'Give topics, or the beginning of topics with a * at its end: order.* has order.new. A * alone is all.';
    END IF;
    IF ($2 IS NULL OR NOT EXISTS (
        SELECT FROM unnest($2) AS t WHERE strpos(left(t, -1), '*') > 0)) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'topics',
            MESSAGE = 'topics must have a * at the end of a topic only',
            HINT = 'Give topics, or the beginning of topics with a * at its end: order.* has order.new. A * alone is all.';
    END IF;
    IF ($3 IS NULL OR jsonb_typeof($3) = 'object') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'headers',
            MESSAGE = 'headers must be an object',
            HINT = 'Give the headers that messages must have.';
    END IF;
    IF ($4 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'start',
            MESSAGE = 'start must not be NULL',
            HINT = 'infinity is now, and -infinity the beginning.';
    END IF;
    IF (NOT isfinite($4) OR $4 < clock_timestamp() + interval '1 minute') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'start',
            MESSAGE = 'start is in the future',
            HINT = 'Give a time that has been. The latest start is infinity.';
    END IF;
    IF ($5 BETWEEN 1 AND 64) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'lanes',
            MESSAGE = 'lanes must be between 1 and 64',
            HINT = 'Give as many as consumers are to read it at the same time.';
    END IF;
    IF ($6 IS NULL OR $6 BETWEEN interval '0' AND interval '7 days') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_age',
            MESSAGE = 'max_age must be between 0 and 7 days',
            HINT = '0 is none: then all is kept.';
    END IF;
    IF ($7 IS NULL OR $7 BETWEEN 0 AND 1000000000000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_messages',
            MESSAGE = 'max_messages must be between 0 and 1000000000000',
            HINT = '0 is none: then all is kept.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a subscription needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    SELECT s.gone INTO own.gone FROM "{{schema}}"."outbox_log_state" AS s FOR SHARE;
    SELECT (t.seen).* INTO own.seen FROM "{{schema}}"."outbox_log_tick" AS t WHERE t.at <= $4 ORDER BY t.n DESC LIMIT 1;
    IF own.seen.n IS NULL THEN
        seen := ROW(0, 0, 0, '{}', 0);
    END IF;
    IF isfinite($4) AND own.seen.n < own.gone THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'start',
            MESSAGE = format('start %s is before the messages that are kept', $4),
            HINT = format('Start at %s or later, or at -infinity: with the oldest message that is kept.',
                (SELECT to_char(min(t.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
                FROM "{{schema}}"."outbox_log_tick" AS t WHERE t.n >= own.gone));
    END IF;
    INSERT INTO "{{schema}}"."outbox_log_subscription" (name, topics, prefixes, headers, lanes, max_age, max_messages)
    SELECT $1, CASE WHEN '*' <> ALL ($2) THEN ARRAY(SELECT t FROM unnest($2) AS t WHERE right(t, 1) <> '*') END,
        CASE WHEN '*' <> ALL ($2) THEN ARRAY(SELECT left(t, -1) FROM unnest($2) AS t WHERE right(t, 1) = '*') END, nullif($3, '{}'), $5, nullif($6, interval '0'), nullif($7, 0)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'unique_violation', COLUMN = 'name',
            MESSAGE = format('subscription %s is there already', $1),
            HINT = 'Change it, or choose another name.';
    END IF;
    INSERT INTO "{{schema}}"."outbox_log_position" (subscription, lane, seen)
    SELECT $1, l, own.seen FROM generate_series(0, $5 - 1) AS l;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_subscribe"(text, text[], jsonb, timestamptz, integer, interval, bigint) FROM PUBLIC;

-- What {{schema}}.outbox_log_fetch returns: rows, and one end, whose seq is NULL. A later version appends columns at the end.
CREATE TYPE "{{schema}}"."outbox_log_fetched" AS (
    entry text,
    lane integer,
    attempts integer,
    locked_until timestamptz,
    seq bigint,
    id uuid,
    created_at timestamptz,
    topic text,
    key text,
    headers jsonb,
    payload bytea,
    upto bigint,
    more boolean,
    held text,
    unavailable_since timestamptz,
    wait_seconds double precision
);

-- Claims a lane of the subscription that has a batch, or goes on with the lane that the token holds, and returns the
-- next page of its batch: rows in the order of seq, and then one end. Commit before you handle the rows. Then settle up
-- to the end's upto, which may be behind the last row: messages whose key is blocked are withheld, and settle parks
-- them.
--
-- A page has at most n messages, more if some share the last number. If bytes is given, it ends before the payloads
-- exceed that, but has at least one message.
--
-- While the destination is unavailable, nothing is handed out until the rest is over, and then one message to one
-- consumer. unavailable_since says since when, and wait_seconds when to ask again: 0 while a message is at work.
--
-- As long as the page is in hand, the same call returns the same page. A page without messages is settled by the fetch
-- itself. more says that there may be another page at once, held why not: all lanes are busy, it is paused, or its
-- destination is unavailable.
--
-- The position is locked before it and its subscription are read. Everything that follows is of that position, in one
-- statement.
CREATE FUNCTION "{{schema}}"."outbox_log_fetch"(
    subscription text, owner_token uuid, lease interval, n integer, bytes bigint DEFAULT NULL
) RETURNS SETOF "{{schema}}"."outbox_log_fetched"
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s "{{schema}}"."outbox_log_subscription";
    p "{{schema}}"."outbox_log_position";
    r "{{schema}}"."outbox_log_position"; -- the lane that has a rest
    probes boolean;
    b "{{schema}}"."outbox_log_seen";
    late bigint[];
    held boolean; -- by this token, before the call
    again boolean; -- the page is in hand
    most bigint;
    parked boolean;
    newest bigint;
    result "{{schema}}"."outbox_log_fetched";
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($2 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for each batch, and keep it until the batch ends.';
    END IF;
    IF ($3 BETWEEN interval '1 seconds' AND interval '86400 seconds') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'lease',
            MESSAGE = 'lease must be between 1 and 86400 seconds',
            HINT = 'Take a lease that a dead consumer may hold the lane for, and extend it meanwhile.';
    END IF;
    IF ($4 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'n',
            MESSAGE = 'n must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF ($5 IS NULL OR $5 > 0) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'bytes',
            MESSAGE = 'bytes must be positive, or NULL',
            HINT = 'Take how many bytes of payloads you want to have in hand. A page has one message at least.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a fetch needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    IF (SELECT s.system <> c.system_identifier
            OR pg_snapshot_xmax(pg_current_snapshot())::text::bigint + s.shift
                < (SELECT (t.seen).high FROM "{{schema}}"."outbox_log_tick" AS t ORDER BY t.n DESC LIMIT 1)
        FROM "{{schema}}"."outbox_log_state" AS s, pg_control_system() AS c) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{schema}}.outbox_log is in another cluster than the one in which it was written: transaction ids began again',
            HINT = 'After a restore, stop the consumers of the old cluster, then SELECT {{schema}}.outbox_log_rebase().';
    END IF;
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), $3)))::bigint::text,
        true);
    SELECT p.* INTO own.p FROM "{{schema}}"."outbox_log_position" AS p
    WHERE p.subscription = $1 AND p.owner_token = $2
    FOR UPDATE;
    held := FOUND;
    SELECT s.* INTO own.s FROM "{{schema}}"."outbox_log_subscription" AS s WHERE s.name = $1;
    IF (own.s.name IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'subscription',
            MESSAGE = 'subscription is unknown',
            HINT = 'Subscribe first, or correct the name.';
    END IF;
    IF (NOT (own.held AND own.p.locked_until IS NULL)) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token was used for a batch that has ended',
            HINT = 'Use a fresh token for each batch.';
    END IF;
    result.entry := 'end';
    result.more := false;
    SELECT t.n INTO own.newest FROM "{{schema}}"."outbox_log_tick" AS t ORDER BY t.n DESC LIMIT 1;

    SELECT q.* INTO own.r FROM "{{schema}}"."outbox_log_position" AS q
    WHERE q.subscription = $1 AND (q.rest).since IS NOT NULL
    LIMIT 1;
    result.unavailable_since := (own.r.rest).since;
    result.wait_seconds := CASE WHEN ((own.r.rest).until <= clock_timestamp() OR (own.r.rest).until > clock_timestamp() + interval '10 seconds') THEN 0
        ELSE extract(epoch FROM (own.r.rest).until - clock_timestamp()) END;
    IF own.p.page IS NULL THEN -- a page in hand is settled
        result.held := CASE
            WHEN own.s.paused THEN 'paused'
            WHEN own.result.wait_seconds > 0
                OR own.r.locked_until >= clock_timestamp() AND own.r.owner_token IS DISTINCT FROM $2
                OR own.held AND own.p.lane <> own.r.lane THEN 'unavailable'
            END;
    END IF;
    IF own.result.held IS NOT NULL THEN
        UPDATE "{{schema}}"."outbox_log_position" AS t
        SET locked_until = NULL, owner_token = NULL, attempts = greatest(t.attempts - (t.locked_until >= clock_timestamp() IS TRUE)::integer, 0)
        WHERE own.held AND t.subscription = $1 AND t.lane = own.p.lane;
        RETURN NEXT own.result;
        RETURN;
    END IF;
    IF NOT own.held THEN
        SELECT p.* INTO own.p FROM "{{schema}}"."outbox_log_position" AS p
        WHERE p.subscription = $1
          AND (p.locked_until IS NULL OR p.locked_until < clock_timestamp())
          AND ((p.upto).n IS NOT NULL OR (p.seen).n < own.newest)
          AND CASE WHEN own.r.lane IS NULL THEN (p.rest).since IS NULL
            ELSE p.lane = own.r.lane AND ((p.rest).until <= clock_timestamp() OR (p.rest).until > clock_timestamp() + interval '10 seconds') END
        ORDER BY (p.seen).n, p.lane
        LIMIT 1
        FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            IF own.r.lane IS NOT NULL THEN
                result.held := 'unavailable';
            ELSIF EXISTS (SELECT FROM "{{schema}}"."outbox_log_position" AS p
                WHERE p.subscription = $1 AND ((p.upto).n IS NOT NULL OR (p.seen).n < own.newest)) THEN
                result.held := 'busy';
            END IF;
            RETURN NEXT own.result;
            RETURN;
        END IF;
        -- Once more, under the lock: {{schema}}.outbox_log_change locks all positions.
        SELECT s.* INTO own.s FROM "{{schema}}"."outbox_log_subscription" AS s WHERE s.name = $1;
        -- The page of another token is not this one's: what is withheld is decided anew.
        p.page := NULL;
        p.whole := false;
        p.withheld := '{}';
        p.attempts := own.p.attempts + 1;
    END IF;

    -- The batch in hand, or else up to the last tick within 5000 numbers, or else to the next one.
    b := own.p.upto;
    IF own.b.n IS NULL THEN
        SELECT (t.seen).* INTO own.b
        FROM (
            SELECT t.n, t.seen FROM "{{schema}}"."outbox_log_tick" AS t
            WHERE t.n > (own.p.seen).n
            ORDER BY t.n LIMIT 200) AS t
        WHERE (t.seen).seq <= (own.p.seen).seq + 5000
        ORDER BY t.n DESC LIMIT 1;
        IF own.b.n IS NULL THEN
            SELECT (t.seen).* INTO own.b FROM "{{schema}}"."outbox_log_tick" AS t WHERE t.n > (own.p.seen).n ORDER BY t.n LIMIT 1;
        END IF;
        IF own.b.n IS NULL THEN
            RETURN NEXT own.result; -- the ticks were deleted meanwhile
            RETURN;
        END IF;
    END IF;
    late := ARRAY(
        SELECT x FROM unnest((own.p.seen).open) AS x
        WHERE x < own.b.low OR x < own.b.high AND x <> ALL (own.b.open));
    again := own.p.page IS NOT NULL;
    probes := own.r.lane = own.p.lane IS TRUE;
    most := CASE WHEN own.again THEN 9223372036854775807 ELSE $4 END;
    parked := EXISTS (SELECT FROM "{{schema}}"."outbox_log_parked" AS q
        WHERE q.subscription = $1 AND q.concurrency_key IS NOT NULL AND (q.completed_at IS NULL OR q.failed_at IS NOT NULL AND q.cancelled_at IS NULL AND q.key_policy > 0));

    RETURN QUERY
    WITH page AS MATERIALIZED (
        SELECT m.*, CASE
            WHEN own.again THEN m.seq = ANY (own.p.withheld)
            WHEN NOT own.parked OR m.key IS NULL THEN false
            ELSE EXISTS (SELECT FROM "{{schema}}"."outbox_log_parked" AS q
                WHERE q.subscription = $1
                  AND q.concurrency_key = CASE WHEN octet_length($1 || ':' || m.key) <= 255 THEN $1 || ':' || m.key
                    ELSE $1 || '#' || encode(sha256(convert_to(m.key, 'UTF8')), 'hex') END
                  AND (q.completed_at IS NULL OR q.failed_at IS NOT NULL AND q.cancelled_at IS NULL AND q.key_policy > 0))
            END AS is_withheld
        FROM (
            SELECT m.seq, m.id, m.created_at, m.topic, m.key, m.headers, m.payload
            FROM (
                SELECT m.* FROM "{{schema}}"."outbox_log" AS m
                WHERE m.xid >= (own.p.seen).high AND m.xid < own.b.high AND m.xid <> ALL (own.b.open)
                  AND m.seq > own.p.done
                  AND m.seq <> ALL (own.p.ahead)
                  AND (NOT own.again OR m.seq <= own.p.page)
                  AND (own.s.lanes = 1
                OR abs(hashtextextended(coalesce(m.key, m.id::text), 0) % own.s.lanes) = own.p.lane)
              AND (own.s.topics IS NULL OR m.topic = ANY (own.s.topics) OR m.topic ^@ ANY (own.s.prefixes))
              AND (own.s.headers IS NULL OR m.headers @> own.s.headers)
                UNION ALL
                SELECT m.* FROM unnest(own.late) AS x
                CROSS JOIN LATERAL ( -- so many, however many the transaction has
                    SELECT * FROM "{{schema}}"."outbox_log" AS m
                    WHERE m.xid = x
                      AND m.seq > own.p.done
                  AND m.seq <> ALL (own.p.ahead)
                  AND (NOT own.again OR m.seq <= own.p.page)
                  AND (own.s.lanes = 1
                OR abs(hashtextextended(coalesce(m.key, m.id::text), 0) % own.s.lanes) = own.p.lane)
              AND (own.s.topics IS NULL OR m.topic = ANY (own.s.topics) OR m.topic ^@ ANY (own.s.prefixes))
              AND (own.s.headers IS NULL OR m.headers @> own.s.headers)
                    ORDER BY m.seq
                    FETCH FIRST (own.most) ROWS WITH TIES) AS m) AS m
            ORDER BY m.seq
            FETCH FIRST (own.most) ROWS WITH TIES) AS m
    ), read AS (
        SELECT count(*) AS rows, max(g.seq) AS furthest, sum(octet_length(g.payload)) AS bytes FROM page AS g
    ), told AS (
        SELECT o.rows, o.furthest, CASE
            -- A probe ends with the first message that is handed out.
            WHEN own.probes THEN coalesce((SELECT min(g.seq) FROM page AS g WHERE NOT g.is_withheld), o.furthest)
            WHEN own.again OR (o.bytes > $5) IS NOT TRUE THEN o.furthest
            ELSE (SELECT coalesce(max(g.seq) FILTER (WHERE g.bytes <= $5), min(g.seq))
                FROM (SELECT g.seq, sum(octet_length(g.payload)) OVER (ORDER BY g.seq) AS bytes FROM page AS g) AS g)
            END AS last,
            CASE WHEN own.again THEN own.p.whole ELSE o.rows < $4 END AS whole
        FROM read AS o
    ), moved AS (
        UPDATE "{{schema}}"."outbox_log_position" AS t
        SET seen = CASE WHEN o.rows = 0 AND o.whole THEN own.b ELSE t.seen END,
            upto = CASE WHEN o.rows = 0 AND o.whole THEN NULL ELSE own.b END,
            -- what was in hand is gone only if somebody has deleted it: the rest of the batch is still there
            done = CASE WHEN o.rows > 0 THEN t.done WHEN o.whole THEN 0 ELSE own.p.page END,
            page = o.last,
            whole = o.rows > 0 AND o.whole AND o.last = o.furthest,
            withheld = CASE WHEN own.parked OR own.again
                THEN ARRAY(SELECT g.seq FROM page AS g WHERE g.is_withheld AND g.seq <= o.last ORDER BY g.seq)
                ELSE '{}' END,
            ahead = CASE WHEN o.rows > 0 OR NOT o.whole THEN t.ahead ELSE '{}' END,
            rest = CASE WHEN o.rows > 0 OR NOT o.whole THEN t.rest END, -- a lane without messages probes nothing
            attempts = CASE WHEN o.rows > 0 THEN own.p.attempts ELSE 0 END,
            owner_token = CASE WHEN o.rows > 0 THEN $2 END,
            locked_until = CASE WHEN o.rows > 0 THEN clock_timestamp() + $3 END
        FROM told AS o
        WHERE t.subscription = $1 AND t.lane = own.p.lane
        RETURNING t.lane::integer AS lane, t.attempts, t.locked_until, t.page,
            o.rows > 0 OR NOT o.whole OR own.b.n < own.newest OR EXISTS (
                SELECT FROM "{{schema}}"."outbox_log_position" AS q
                WHERE q.subscription = $1
                  AND q.lane <> own.p.lane
                  AND (q.locked_until IS NULL OR q.locked_until < clock_timestamp())
                  AND ((q.upto).n IS NOT NULL OR (q.seen).n < own.newest)) AS more
    )
    -- The page is sorted, and nothing here changes the order.
    SELECT 'row', own.p.lane::integer, own.p.attempts, NULL::timestamptz, g.seq, g.id, g.created_at, g.topic::text,
        g.key::text, g.headers, g.payload::bytea, NULL::bigint, NULL::boolean, NULL, NULL::timestamptz, NULL::float8
    FROM page AS g
    WHERE NOT g.is_withheld AND g.seq <= (SELECT m.page FROM moved AS m)
    UNION ALL
    SELECT 'end', m.lane, m.attempts, m.locked_until, NULL, NULL, NULL, NULL, NULL, NULL, NULL, m.page, m.more, NULL,
        CASE WHEN own.probes THEN own.result.unavailable_since END, NULL
    FROM moved AS m;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_fetch"(text, uuid, interval, integer, bigint) FROM PUBLIC;

-- The messages of the page in hand are settled up to a number, and those that failed are parked: as rows of
-- {{schema}}.outbox_log_parked, which the core runs again, in the order of their keys. failed is an array of objects with seq and,
-- optionally, error, delay in seconds, and outcome: retry (an attempt has failed), snooze (it does not count) or fail
-- (nobody is to attempt it again: the row has the error in its header txwork-permanent, and who claims it settles it as
-- failed, unless it was redriven). The rest of the key of a failed message must not be handled: what the page has of it
-- is parked as well. Messages that the fetch withheld are parked when they are settled.
--
-- ahead are numbers of the page behind upto that are settled, too, although not all before them are. They are handed
-- out no more, also if the lane is given back. Those of them that failed are parked.
--
-- The message of a probe that is settled ends the outage, whether or not it failed: its destination has answered. With
-- the outcome snooze it says nothing, and the first rest begins anew.
--
-- Returns settled, ended (the batch has ended, and the lane is free), repeated (an earlier call did it), or lost: then
-- nothing was changed, and another consumer has the lane, or the subscription was changed, moved or removed.
--
-- The position and what is parked are one transaction. The position is locked first, so that nobody else parks messages
-- of its keys.
CREATE FUNCTION "{{schema}}"."outbox_log_settle"(
    subscription text, owner_token uuid, upto bigint, failed jsonb DEFAULT '[]', lease interval DEFAULT NULL,
    ahead bigint[] DEFAULT '{}'
) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s "{{schema}}"."outbox_log_subscription";
    p "{{schema}}"."outbox_log_position";
    b "{{schema}}"."outbox_log_seen";
    late bigint[];
    most bigint; -- all up to here
    ahead bigint[] := '{}'; -- and these behind it
    seqs bigint[];
    named integer; -- failures of the page
    withheld bigint[]; -- behind upto
    is_end boolean;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($2 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for each batch, and keep it until the batch ends.';
    END IF;
    IF ($3 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'upto',
            MESSAGE = 'upto must not be NULL',
            HINT = 'Give the number up to which all messages are handled.';
    END IF;
    IF (jsonb_typeof($4) = 'array') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'failed',
            MESSAGE = 'failed must be an array of objects',
            HINT = 'Name the messages that failed by seq, with error and delay.';
    END IF;
    IF (NOT EXISTS (
        SELECT FROM jsonb_array_elements($4) AS e (value)
        WHERE CASE WHEN jsonb_typeof(e.value) = 'object' THEN
            (e.value ->> 'seq' ~ '^[0-9]{1,18}$') IS NOT TRUE
            OR (coalesce(e.value ->> 'delay', '0') ~ '^[0-9]{1,8}([.][0-9]{1,9})?$') IS NOT TRUE
            OR coalesce(e.value ->> 'outcome', 'retry') NOT IN ('retry', 'snooze', 'fail')
            OR e.value - '{seq,error,delay,outcome}'::text[] <> '{}'
            ELSE true END)) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'failed',
            MESSAGE = 'failed must have objects with seq, error, delay and outcome only, where delay is a number of seconds and outcome retry, snooze or fail',
            HINT = 'Name each message that failed once.';
    END IF;
    IF ($5 IS NULL OR $5 BETWEEN interval '1 seconds' AND interval '86400 seconds') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'lease',
            MESSAGE = 'lease must be between 1 and 86400 seconds',
            HINT = 'NULL leaves it as it is.';
    END IF;
    IF (cardinality($6) <= 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ahead',
            MESSAGE = 'ahead must be an array of at most 10000 numbers',
            HINT = 'Settle the beginning of the page first.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a settle needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 minute')))::bigint::text,
        true);
    SELECT p.* INTO own.p FROM "{{schema}}"."outbox_log_position" AS p
    WHERE p.subscription = $1 AND p.owner_token = $2
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'lost';
    ELSIF own.p.locked_until IS NULL OR $3 <= own.p.done AND $6 <@ own.p.ahead THEN
        RETURN 'repeated';
    END IF;
    most := greatest($3, own.p.done);
    IF (own.most <= own.p.page) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'upto',
            MESSAGE = 'upto is behind the page in hand',
            HINT = 'Settle up to the number that the end of the fetch has, or to that of one of its rows.';
    END IF;
    IF own.p.ahead || $6 <> '{}' THEN
        ahead := ARRAY(
            SELECT a FROM unnest(own.p.ahead) AS a WHERE a > own.most
            UNION
            SELECT a FROM unnest($6) AS a WHERE a > own.most AND a <= own.p.page AND a <> ALL (own.p.withheld));
    END IF;

    SELECT s.* INTO own.s FROM "{{schema}}"."outbox_log_subscription" AS s WHERE s.name = $1;
    b := own.p.upto;
    late := ARRAY(
        SELECT x FROM unnest((own.p.seen).open) AS x
        WHERE x < own.b.low OR x < own.b.high AND x <> ALL (own.b.open));
    SELECT coalesce(array_agg((e ->> 'seq')::bigint), '{}') INTO own.seqs FROM jsonb_array_elements($4) AS e;
    IF own.seqs <> '{}' OR own.p.withheld[1] <= own.most THEN
        WITH page AS MATERIALIZED (
            SELECT m.xid, m.seq, m.id, m.created_at, m.topic, m.key, m.headers, m.payload
            FROM (
                SELECT * FROM "{{schema}}"."outbox_log" AS m
                WHERE m.xid >= (own.p.seen).high AND m.xid < own.b.high AND m.xid <> ALL (own.b.open)
                UNION ALL
                SELECT * FROM "{{schema}}"."outbox_log" AS m
                WHERE m.xid = ANY (own.late)) AS m
            WHERE (own.s.lanes = 1
                OR abs(hashtextextended(coalesce(m.key, m.id::text), 0) % own.s.lanes) = own.p.lane)
              AND (own.s.topics IS NULL OR m.topic = ANY (own.s.topics) OR m.topic ^@ ANY (own.s.prefixes))
              AND (own.s.headers IS NULL OR m.headers @> own.s.headers)
              AND m.seq > own.p.done
              AND m.seq <> ALL (own.p.ahead) -- they have ended
              AND m.seq <= own.p.page
        ), failing AS (
            SELECT g.key::text AS key, min(g.seq) AS first
            FROM page AS g
            WHERE g.seq = ANY (own.seqs) AND g.key IS NOT NULL
            GROUP BY 1
        ), listed AS (
            SELECT g.*, e.value AS failure
            FROM page AS g
            LEFT JOIN failing AS f ON f.key = g.key
            LEFT JOIN LATERAL (
                SELECT e.value FROM jsonb_array_elements($4) AS e (value)
                WHERE g.seq = ANY (own.seqs) AND g.seq = (e.value ->> 'seq')::bigint) AS e ON true
            WHERE g.seq = ANY (own.seqs) OR g.seq = ANY (own.p.withheld) OR g.seq > f.first
        ), parked AS (
            INSERT INTO "{{schema}}"."outbox_log_parked" (due_at, attempts, last_error, headers, subscription, message_id, seq, appended_at,
                topic, key, payload, concurrency_key, key_limit, key_policy)
            SELECT clock_timestamp() + CASE WHEN l.failure IS NULL THEN interval '0'
                    ELSE coalesce((l.failure ->> 'delay')::float8, 1) * interval '1 second' END,
                (coalesce(l.failure ->> 'outcome', 'retry') = 'retry' AND l.failure IS NOT NULL)::integer,
                left(CASE WHEN l.failure IS NOT NULL THEN coalesce(l.failure ->> 'error', '') END, 10000),
                CASE WHEN l.failure ->> 'outcome' = 'fail' THEN
                        coalesce(CASE WHEN jsonb_typeof(l.headers) = 'object' THEN l.headers END, '{}')
                        || jsonb_build_object('txwork-permanent',
                            left(coalesce(l.failure ->> 'error', ''), 10000))
                    WHEN jsonb_typeof(l.headers) = 'object' THEN l.headers - 'txwork-permanent'
                    ELSE l.headers END, $1, l.id, l.seq, l.created_at, l.topic, l.key, l.payload,
                CASE WHEN octet_length($1 || ':' || l.key) <= 255 THEN $1 || ':' || l.key
                    ELSE $1 || '#' || encode(sha256(convert_to(l.key, 'UTF8')), 'hex') END, CASE WHEN l.key IS NOT NULL THEN 0 END, CASE WHEN l.key IS NOT NULL THEN 1 END
            FROM (
                SELECT * FROM listed AS l
                WHERE l.seq <= own.most OR l.seq = ANY (own.ahead)
                ORDER BY l.seq) AS l
        )
        SELECT (SELECT count(DISTINCT l.seq) FROM listed AS l
                WHERE l.failure IS NOT NULL AND (l.seq <= own.most OR l.seq = ANY (own.ahead))),
            (SELECT coalesce(array_agg(l.seq ORDER BY l.seq), '{}') FROM listed AS l
                WHERE l.seq > own.most AND l.seq <> ALL (own.ahead))
        INTO own.named, own.withheld;
        IF (own.named = cardinality(own.seqs)) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'failed',
            MESSAGE = 'failed must name messages of the page in hand, each once, none behind upto',
            HINT = 'Name a message that failed in the settle that passes it.';
    END IF;
    ELSE
        withheld := own.p.withheld;
    END IF;

    is_end := own.p.whole AND own.most >= own.p.page;
    UPDATE "{{schema}}"."outbox_log_position" AS t
    SET seen = CASE WHEN own.is_end THEN own.b ELSE t.seen END,
        upto = CASE WHEN own.is_end THEN NULL ELSE t.upto END,
        done = CASE WHEN own.is_end THEN 0 ELSE own.most END,
        page = CASE WHEN own.most < own.p.page THEN t.page END,
        whole = own.most < own.p.page AND t.whole,
        withheld = own.withheld,
        ahead = CASE WHEN own.is_end THEN '{}' ELSE own.ahead END,
        rest = CASE
            WHEN own.is_end THEN NULL -- without messages it could not probe
            WHEN own.most < own.p.page OR own.p.page = ANY (own.p.withheld) THEN t.rest -- nothing was handed out
            WHEN $4 @> '[{"outcome": "snooze"}]' THEN CASE WHEN (t.rest).since IS NOT NULL THEN ROW((t.rest).since, clock_timestamp() + interval '0.5 seconds' * (1 - 0.2 * random()), interval '0.5 seconds', left((t.rest).cause, 10000))::"{{schema}}"."outbox_log_rest" END
            END,
        -- what was handed out has killed nobody
        attempts = CASE WHEN own.is_end THEN 0 ELSE greatest(t.attempts - 1, 1) END,
        locked_until = CASE WHEN NOT own.is_end THEN greatest(t.locked_until, clock_timestamp() + $5) END
    WHERE t.subscription = $1 AND t.lane = own.p.lane;
    RETURN CASE WHEN own.is_end THEN 'ended' ELSE 'settled' END;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_settle"(text, uuid, bigint, jsonb, interval, bigint[]) FROM PUBLIC;

-- Renews the lease of the lane that the token holds, and says whether it still does.
CREATE FUNCTION "{{schema}}"."outbox_log_extend"(subscription text, owner_token uuid, lease interval) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($3 BETWEEN interval '1 seconds' AND interval '86400 seconds') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'lease',
            MESSAGE = 'lease must be between 1 and 86400 seconds',
            HINT = 'Take a lease that a dead consumer may hold the lane for, and extend it meanwhile.';
    END IF;
    UPDATE "{{schema}}"."outbox_log_position" AS p SET locked_until = greatest(p.locked_until, clock_timestamp() + $3)
    WHERE p.subscription = $1 AND p.owner_token = $2 AND p.locked_until IS NOT NULL;
    RETURN FOUND;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_extend"(text, uuid, interval) FROM PUBLIC;

-- Gives the lane back that the token holds, with the claim, and says whether it did: another consumer need not wait for
-- the end of the lease. What was not settled is handed out again. A probe that is given back has found out nothing: the
-- first rest begins anew.
CREATE FUNCTION "{{schema}}"."outbox_log_release"(subscription text, owner_token uuid) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    UPDATE "{{schema}}"."outbox_log_position" AS p
    SET locked_until = NULL, owner_token = NULL, page = NULL, whole = false, withheld = '{}',
        attempts = greatest(p.attempts - 1, 0), rest = CASE WHEN (p.rest).since IS NOT NULL THEN ROW((p.rest).since, clock_timestamp() + interval '0.5 seconds' * (1 - 0.2 * random()), interval '0.5 seconds', left((p.rest).cause, 10000))::"{{schema}}"."outbox_log_rest" END
    WHERE p.subscription = $1 AND p.owner_token = $2 AND p.locked_until IS NOT NULL;
    RETURN FOUND;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_release"(text, uuid) FROM PUBLIC;

-- The consumer that holds a lane says that the destination of the subscription cannot be reached. What it has handled
-- is settled before. The lane is given back, with the claim, and the subscription rests in all its lanes, whatever
-- topic the message had: after each probe that says so again twice as long, up to a bound, less up to a fifth.
--
-- Returns began (the outage begins), resting (it goes on), or lost: then nothing was changed, and another consumer has
-- the lane, or an earlier call gave it back. since is when the outage began, and seconds how long it is until the next
-- probe; NULL and 0 while somebody else is about to say the same.
--
-- Who holds the advisory lock is the one who makes a subscription rest. Nobody waits for it: if another transaction
-- has it, that one says the same, and if it is rolled back, the next message finds out.
CREATE FUNCTION "{{schema}}"."outbox_log_unavailable"(subscription text, owner_token uuid, cause text)
RETURNS TABLE (result text, since timestamptz, seconds double precision)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    p "{{schema}}"."outbox_log_position";
    rest "{{schema}}"."outbox_log_rest";
BEGIN
    cause := coalesce(cause, '');
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($2 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'owner_token',
            MESSAGE = 'owner_token must not be NULL',
            HINT = 'Use a fresh token for each batch, and keep it until the batch ends.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'an outage needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 minute')))::bigint::text,
        true);
    SELECT p.* INTO own.p FROM "{{schema}}"."outbox_log_position" AS p
    WHERE p.subscription = $1 AND p.owner_token = $2 AND p.locked_until IS NOT NULL
    FOR UPDATE;
    IF NOT FOUND THEN
        result := 'lost';
        seconds := 0;
        RETURN NEXT;
        RETURN;
    END IF;
    result := 'resting';
    IF (own.p.rest).since IS NOT NULL THEN
        rest := ROW((own.p.rest).since, clock_timestamp() + least(2 * (own.p.rest).length, interval '10 seconds') * (1 - 0.2 * random()), least(2 * (own.p.rest).length, interval '10 seconds'), left($3, 10000))::"{{schema}}"."outbox_log_rest";
        p.rest := own.rest;
    ELSIF pg_try_advisory_xact_lock(hashtextextended('{{schema}}.outbox_log rest ' || $1, 0)) THEN
        SELECT (q.rest).* INTO own.rest FROM "{{schema}}"."outbox_log_position" AS q
        WHERE q.subscription = $1 AND (q.rest).since IS NOT NULL
        LIMIT 1;
        IF NOT FOUND THEN
            result := 'began';
            rest := ROW(clock_timestamp(), clock_timestamp() + interval '0.5 seconds' * (1 - 0.2 * random()), interval '0.5 seconds', left($3, 10000))::"{{schema}}"."outbox_log_rest";
            p.rest := own.rest;
        END IF;
    END IF;
    UPDATE "{{schema}}"."outbox_log_position" AS t
    SET locked_until = NULL, owner_token = NULL, page = NULL, whole = false, withheld = '{}',
        attempts = greatest(t.attempts - 1, 0), rest = own.p.rest
    WHERE t.subscription = $1 AND t.lane = own.p.lane;
    since := own.rest.since;
    seconds := coalesce(greatest(extract(epoch FROM own.rest.until - clock_timestamp()), 0), 0);
    RETURN NEXT;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_unavailable"(text, uuid, text) FROM PUBLIC;

-- Deletes ticks that are close together: of those that are older than an hour it leaves the last of each second, and of
-- those that are older than a day the last of each minute, and always those between which 5000 numbers were
-- drawn, since what lies between two ticks is one batch. It goes on where it has stopped, 10000 ticks at a
-- time, and not before another minute's are old enough. It leaves the newest tick, and what others have locked.
CREATE FUNCTION "{{schema}}"."outbox_log_thin"() RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    level record;
    begins bigint;
    ends bigint;
    thinned integer := 0;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    FOR own.level IN
        SELECT l.* FROM (VALUES (1, interval '1 hour', 1), (2, interval '1 day', 60)) AS l (place, age, seconds)
    LOOP
        CONTINUE WHEN (
            SELECT t.at > clock_timestamp() - own.level.age - interval '1 minute'
            FROM "{{schema}}"."outbox_log_state" AS s
            CROSS JOIN LATERAL (
                SELECT t.at FROM "{{schema}}"."outbox_log_tick" AS t WHERE t.n > s.thinned[own.level.place]
                ORDER BY t.n LIMIT 1) AS t) IS NOT FALSE;
        SELECT s.thinned[own.level.place] INTO own.begins FROM "{{schema}}"."outbox_log_state" AS s FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN own.begins IS NULL;
        WITH old AS MATERIALIZED (
            SELECT o.n, lead(o.place) OVER (ORDER BY o.n) = o.place AS is_close
            FROM (
                SELECT t.n, t.at, (floor(extract(epoch FROM t.at) / own.level.seconds),
                    (t.seen).seq / 5000) AS place
                FROM "{{schema}}"."outbox_log_tick" AS t WHERE t.n >= own.begins ORDER BY t.n LIMIT 10000) AS o
            WHERE o.at <= clock_timestamp() - own.level.age
        ), deleted AS (
            DELETE FROM "{{schema}}"."outbox_log_tick" AS t
            USING (
                SELECT t.n FROM "{{schema}}"."outbox_log_tick" AS t
                WHERE t.n IN (SELECT o.n FROM old AS o WHERE o.is_close) FOR UPDATE SKIP LOCKED) AS o
            WHERE t.n = o.n RETURNING t.n
        )
        SELECT max(o.n), own.thinned + (SELECT count(*) FROM deleted) INTO own.ends, own.thinned FROM old AS o;
        UPDATE "{{schema}}"."outbox_log_state" AS s SET thinned[own.level.place] = own.ends WHERE own.ends > own.begins;
    END LOOP;
    RETURN own.thinned;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_thin"() FROM PUBLIC;

-- Deletes ticks that are older than the retention, all but the newest of them, which is returned: positions have their
-- own copies, and a start or a cut at the retention finds that one. It looks at the oldest ticks only, and leaves those
-- that somebody has locked: its caller may have the lock of the tickers.
CREATE FUNCTION "{{schema}}"."outbox_log_outlived"(retention interval, most integer) RETURNS "{{schema}}"."outbox_log_seen"
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    last bigint;
    seen "{{schema}}"."outbox_log_seen";
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($1 >= interval '0') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'retention',
            MESSAGE = 'retention must not be negative',
            HINT = 'Give how long messages are kept that all have passed.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a trim needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    IF (SELECT s.system <> c.system_identifier
            OR pg_snapshot_xmax(pg_current_snapshot())::text::bigint + s.shift
                < (SELECT (t.seen).high FROM "{{schema}}"."outbox_log_tick" AS t ORDER BY t.n DESC LIMIT 1)
        FROM "{{schema}}"."outbox_log_state" AS s, pg_control_system() AS c) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{schema}}.outbox_log is in another cluster than the one in which it was written: transaction ids began again',
            HINT = 'After a restore, stop the consumers of the old cluster, then SELECT {{schema}}.outbox_log_rebase().';
    END IF;
    SELECT max(o.n) INTO own.last
    FROM (SELECT t.n, t.at FROM "{{schema}}"."outbox_log_tick" AS t ORDER BY t.n LIMIT $2) AS o
    WHERE o.at <= clock_timestamp() - $1;
    DELETE FROM "{{schema}}"."outbox_log_tick" AS t
    USING (SELECT o.n FROM "{{schema}}"."outbox_log_tick" AS o WHERE o.n < own.last FOR UPDATE SKIP LOCKED) AS o
    WHERE t.n = o.n;
    SELECT (t.seen).* INTO own.seen FROM "{{schema}}"."outbox_log_tick" AS t WHERE t.n = own.last;
    RETURN own.seen;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_outlived"(interval, integer) FROM PUBLIC;

-- What all positions and a tick have seen: that of the one that has seen the least, since ticks are ordered. NULL: it
-- has seen nothing.
CREATE FUNCTION "{{schema}}"."outbox_log_least"(old "{{schema}}"."outbox_log_seen") RETURNS "{{schema}}"."outbox_log_seen"
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
    SELECT l.seen
    FROM (SELECT p.seen FROM "{{schema}}"."outbox_log_position" AS p UNION ALL SELECT $1) AS l (seen)
    ORDER BY (l.seen).n NULLS FIRST LIMIT 1
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_least"("{{schema}}"."outbox_log_seen") FROM PUBLIC;

-- Frees dedup keys whose messages all positions and a tick have seen, but for those of messages that are still
-- scheduled, or were rows and have not ended (see {{schema}}.outbox_log_move_rows): it puts these behind all others. Says how many
-- it has looked at.
CREATE FUNCTION "{{schema}}"."outbox_log_trim_dedup"(old "{{schema}}"."outbox_log_seen", most integer) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    least "{{schema}}"."outbox_log_seen";
    looked integer;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_later"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_dedup"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_later or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a trim needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    SELECT l.* INTO own.least FROM "{{schema}}"."outbox_log_least"($1) AS l;
    WITH passed AS MATERIALIZED (
        SELECT d.topic, d.dedup_key, EXISTS (
                SELECT FROM "{{schema}}"."outbox_log_later" AS l
                WHERE l.topic = d.topic AND l.dedup_key = d.dedup_key)
            OR EXISTS (
                SELECT FROM "{{schema}}"."outbox_log_parked" AS k WHERE k.id = d.id AND k.completed_at IS NULL) AS is_scheduled
        FROM "{{schema}}"."outbox_log_dedup" AS d
        WHERE d.xid < own.least.high AND d.xid <> ALL (own.least.open)
        ORDER BY d.xid LIMIT $2 FOR UPDATE SKIP LOCKED
    ), freed AS (
        DELETE FROM "{{schema}}"."outbox_log_dedup" AS d USING passed AS p
        WHERE NOT p.is_scheduled AND d.topic = p.topic AND d.dedup_key = p.dedup_key
    ), kept AS (
        UPDATE "{{schema}}"."outbox_log_dedup" AS d SET xid = DEFAULT FROM passed AS p
        WHERE p.is_scheduled AND d.topic = p.topic AND d.dedup_key = p.dedup_key
    )
    SELECT count(*) INTO own.looked FROM passed;
    RETURN own.looked;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_trim_dedup"("{{schema}}"."outbox_log_seen", integer) FROM PUBLIC;

-- Empties a slot if all positions and a tick have seen its messages. What has seen the least decides: what it has seen,
-- all have. Transactions that are open elsewhere keep nothing.
--
-- It locks the state against new subscriptions, and the slot only if it gets it at once: an open transaction that has
-- written there keeps its slot. What it found is looked up again under both locks, in a later statement.
CREATE FUNCTION "{{schema}}"."outbox_log_trim_slot"(slot regclass, old "{{schema}}"."outbox_log_seen") RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET lock_timeout = '20ms'
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    least "{{schema}}"."outbox_log_seen";
    is_passed boolean;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_0"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_1"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_2"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_3"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_4"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_5"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_6"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_7"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_0 or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a trim needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    FOR step IN 1..2 LOOP
        SELECT l.* INTO own.least FROM "{{schema}}"."outbox_log_least"($2) AS l;
        EXECUTE format('SELECT max(m.xid) < $1 AND NOT EXISTS (SELECT FROM %1$s AS m WHERE m.xid = ANY ($2))
            FROM %1$s AS m', $1)
        INTO own.is_passed USING own.least.high, own.least.open;
        IF own.is_passed IS NOT TRUE THEN
            RETURN false;
        END IF;
        EXIT WHEN step = 2;
        PERFORM FROM "{{schema}}"."outbox_log_state" AS s FOR UPDATE;
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', $1);
    END LOOP;
    UPDATE "{{schema}}"."outbox_log_state" AS s SET gone = greatest(s.gone, own.least.n);
    EXECUTE format('TRUNCATE %s', $1);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false; -- a later call gets it
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_trim_slot"(regclass, "{{schema}}"."outbox_log_seen") FROM PUBLIC;

-- Ticks, so that a log without consumers has ticks, too. Empties the slots that all positions, and a tick that is older
-- than the retention, have passed, frees their dedup keys, and thins out ticks. It commits after each slot and each
-- 10000 keys, so that no caller keeps its locks, and cannot pin a search_path: every name and operator is
-- qualified.
CREATE PROCEDURE "{{schema}}"."outbox_log_trim"(retention interval DEFAULT '7 days', INOUT emptied integer DEFAULT NULL)
LANGUAGE plpgsql
AS $txwork$
DECLARE
    slot pg_catalog.regclass;
    old "{{schema}}"."outbox_log_seen";
    was_emptied pg_catalog.bool;
BEGIN
    SELECT 0 INTO emptied;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    PERFORM "{{schema}}"."outbox_log_tick_step"();
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    LOOP
        EXIT WHEN "{{schema}}"."outbox_log_thin"() OPERATOR(pg_catalog.=) 0;
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    END LOOP;
    SELECT o.* INTO old FROM "{{schema}}"."outbox_log_outlived"(retention, 2147483647) AS o;
    FOREACH slot IN ARRAY ARRAY['"{{schema}}"."outbox_log_0"', '"{{schema}}"."outbox_log_1"', '"{{schema}}"."outbox_log_2"', '"{{schema}}"."outbox_log_3"', '"{{schema}}"."outbox_log_4"', '"{{schema}}"."outbox_log_5"', '"{{schema}}"."outbox_log_6"', '"{{schema}}"."outbox_log_7"']::pg_catalog.regclass[] LOOP
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
        SELECT "{{schema}}"."outbox_log_trim_slot"(slot, old) INTO was_emptied;
        IF was_emptied THEN
            SELECT emptied OPERATOR(pg_catalog.+) 1 INTO emptied;
        END IF;
    END LOOP;
    LOOP
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
        EXIT WHEN "{{schema}}"."outbox_log_trim_dedup"(old, 10000) OPERATOR(pg_catalog.=) 0;
    END LOOP;
    COMMIT;
END
$txwork$;

REVOKE ALL ON PROCEDURE "{{schema}}"."outbox_log_trim"(interval, integer) FROM PUBLIC;

-- What trim does, as a sweep of the parked messages: so whoever maintains these trims the log, and ticks it, which
-- matters if it has no consumers. It ticks only if nobody else does at the moment, and its transaction has done nothing
-- before: it has the lock of the tickers until its caller ends that, which may be idle in it for a second. It empties
-- one slot at most, so that its locks are held for one TRUNCATE. It deletes as many ticks and dedup keys as it is told
-- to, and appends as many messages that are due, but no more than 100, since consumers wait for the lock meanwhile. If
-- ticks are left that are old enough, it says that it has done as much as it may, so that its caller goes on. It
-- runs with its owner's rights, since workers have none to remove messages: it takes no retention, so that they remove
-- nothing that is younger.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_trim"(max_rows integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    slot regclass;
    old "{{schema}}"."outbox_log_seen";
    freed integer;
BEGIN
    IF ($1 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF current_setting('transaction_isolation') = 'read committed' AND pg_current_xact_id_if_assigned() IS NULL
        AND pg_try_advisory_xact_lock(hashtextextended('{{schema}}.outbox_log tick', 0)) THEN
        PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 second')))::bigint::text,
        true);
        PERFORM "{{schema}}"."outbox_log_tick_step"();
    END IF;
    BEGIN
        PERFORM "{{schema}}"."outbox_log_append_due"(least($1, 100));
    EXCEPTION WHEN OTHERS THEN
        RAISE NOTICE 'messages that are due stay scheduled: %', SQLERRM;
    END;
    SELECT o.* INTO own.old FROM "{{schema}}"."outbox_log_outlived"('7 days', $1) AS o;
    SELECT "{{schema}}"."outbox_log_trim_dedup"(own.old, $1) INTO own.freed;
    IF own.freed > 0 THEN
        PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 second')))::bigint::text,
        true);
    END IF;
    FOREACH slot IN ARRAY ARRAY['"{{schema}}"."outbox_log_0"', '"{{schema}}"."outbox_log_1"', '"{{schema}}"."outbox_log_2"', '"{{schema}}"."outbox_log_3"', '"{{schema}}"."outbox_log_4"', '"{{schema}}"."outbox_log_5"', '"{{schema}}"."outbox_log_6"', '"{{schema}}"."outbox_log_7"']::regclass[] LOOP
        IF "{{schema}}"."outbox_log_trim_slot"(slot, own.old) THEN
            PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 second')))::bigint::text,
        true);
            freed := own.freed + 1;
            EXIT;
        END IF;
    END LOOP;
    IF (SELECT t.at FROM "{{schema}}"."outbox_log_tick" AS t WHERE t.n > own.old.n ORDER BY t.n LIMIT 1)
        <= clock_timestamp() - interval '7 days' THEN
        freed := greatest(own.freed, $1);
    END IF;
    RETURN own.freed;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_trim"(integer) FROM PUBLIC;

-- Continues a log in a cluster whose transaction ids began again, as after a restore or a logical replication: ids are
-- raised so that those of all transactions that may still write come after all that the log has. A tick says that
-- everything before has ended, which is so: it was in another cluster. Returns the shift. Elsewhere it changes nothing.
CREATE FUNCTION "{{schema}}"."outbox_log_rebase"() RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    base bigint;
    drawn bigint;
    moved bigint;
    newest bigint;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a rebase needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    SELECT s.shift INTO own.moved FROM "{{schema}}"."outbox_log_state" AS s;
    IF (SELECT s.system <> c.system_identifier
            OR pg_snapshot_xmax(pg_current_snapshot())::text::bigint + s.shift
                < (SELECT (t.seen).high FROM "{{schema}}"."outbox_log_tick" AS t ORDER BY t.n DESC LIMIT 1)
        FROM "{{schema}}"."outbox_log_state" AS s, pg_control_system() AS c) IS NOT TRUE THEN
        RETURN own.moved;
    END IF; -- where it is not needed, nobody waits for it
    DECLARE
        tables text[] := ARRAY['"{{schema}}"."outbox_log_dedup"', '"{{schema}}"."outbox_log_later"', '"{{schema}}"."outbox_log"', '"{{schema}}"."outbox_log_0"', '"{{schema}}"."outbox_log_1"', '"{{schema}}"."outbox_log_2"', '"{{schema}}"."outbox_log_3"', '"{{schema}}"."outbox_log_4"', '"{{schema}}"."outbox_log_5"', '"{{schema}}"."outbox_log_6"', '"{{schema}}"."outbox_log_7"'];
        patience CONSTANT interval := current_setting('lock_timeout');
        moment CONSTANT interval := least(interval '400 milliseconds',
            0.4 * current_setting('deadlock_timeout')::interval);
        began CONSTANT timestamptz := clock_timestamp();
        in_use text;
        until timestamptz;
    BEGIN
        LOOP
            BEGIN
                IF in_use IS NOT NULL THEN
                    until := clock_timestamp() + moment;
                    PERFORM set_config('lock_timeout', CASE WHEN patience = interval '0' THEN '3s'
                        ELSE current_setting('lock_timeout') END, true);
                    EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', in_use);
                    IF clock_timestamp() > until THEN
                        RAISE lock_not_available;
                    END IF;
                END IF;
                until := clock_timestamp() + least(nullif(patience, interval '0'), moment);
                FOREACH in_use IN ARRAY tables LOOP
                    PERFORM set_config('lock_timeout', greatest(1,
                        ceil(extract(epoch FROM until - clock_timestamp()) * 1000))::text, true);
                    EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', in_use);
                END LOOP;
                EXIT;
            EXCEPTION WHEN lock_not_available THEN -- and nothing is locked any more
                IF patience > interval '0' AND clock_timestamp() - began >= patience THEN
                    RAISE EXCEPTION USING ERRCODE = 'lock_not_available',
                        MESSAGE = format('%s was in use for more than %s', in_use, current_setting('lock_timeout')),
                        HINT = 'Do it again when that has ended: nothing of it was done.';
                END IF;
                tables := in_use || array_remove(tables, in_use);
            END;
            PERFORM pg_sleep(0.1 * random());
        END LOOP;
        PERFORM set_config('lock_timeout', (extract(epoch FROM patience) * 1000)::bigint::text, true);
    END;
    PERFORM set_config('lock_timeout', '200ms', true);
    PERFORM pg_advisory_xact_lock(hashtextextended('{{schema}}.outbox_log tick', 0));
    PERFORM FROM "{{schema}}"."outbox_log_state" AS s FOR UPDATE;
    SELECT s.shift INTO own.moved FROM "{{schema}}"."outbox_log_state" AS s;
    IF (SELECT s.system <> c.system_identifier
            OR pg_snapshot_xmax(pg_current_snapshot())::text::bigint + s.shift
                < (SELECT (t.seen).high FROM "{{schema}}"."outbox_log_tick" AS t ORDER BY t.n DESC LIMIT 1)
        FROM "{{schema}}"."outbox_log_state" AS s, pg_control_system() AS c) IS NOT TRUE THEN
        RETURN own.moved;
    END IF;
    SELECT greatest(0, (SELECT max(m.xid) FROM "{{schema}}"."outbox_log" AS m),
            (SELECT max((t.seen).high) FROM "{{schema}}"."outbox_log_tick" AS t),
            (SELECT max(greatest((p.seen).high, (p.upto).high)) FROM "{{schema}}"."outbox_log_position" AS p)),
        greatest((SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM "{{schema}}"."outbox_log_seq" AS q), (SELECT max(m.seq) FROM "{{schema}}"."outbox_log" AS m)),
        greatest((SELECT max(t.n) FROM "{{schema}}"."outbox_log_tick" AS t),
            (SELECT max(greatest((p.seen).n, (p.upto).n)) FROM "{{schema}}"."outbox_log_position" AS p), 0)
    INTO own.base, own.drawn, own.newest;
    PERFORM setval('"{{schema}}"."outbox_log_seq"', greatest(own.drawn, 1), own.drawn > 0);
    PERFORM setval(pg_get_serial_sequence('"{{schema}}"."outbox_log_later"', 'ord'), max(l.ord)) FROM "{{schema}}"."outbox_log_later" AS l;
    SELECT greatest(own.moved, own.base + 1 - pg_snapshot_xmin(pg_current_snapshot())::text::bigint) INTO own.moved;
    INSERT INTO "{{schema}}"."outbox_log_tick" (n, at, seen)
    VALUES (own.newest + 1, clock_timestamp(),
        ROW(own.newest + 1, own.base + 1, own.base + 1, '{}'::bigint[], own.drawn)::"{{schema}}"."outbox_log_seen");
    PERFORM "{{schema}}"."outbox_log_shift"(own.moved);
    UPDATE "{{schema}}"."outbox_log_state" AS s SET system = (SELECT c.system_identifier FROM pg_control_system() AS c);
    RETURN own.moved;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_rebase"() FROM PUBLIC;

-- Moves the lanes of a subscription, which its caller has locked, to what a tick saw: all of them to replay, those that
-- are behind it to cut, also by retention. Messages that a lane passes over, and had not settled, are counted and
-- recorded. Pages in hand are taken from their consumers, whose settles are lost. Of a batch that ends behind the tick,
-- a cut keeps what was settled. It reads at most so many messages of each lane; NULL: all.
--
-- A replay says how many messages were settled and are delivered again, among 100000 of all lanes, and
-- with more that there may be others.
CREATE FUNCTION "{{schema}}"."outbox_log_move"(subscription text, target "{{schema}}"."outbox_log_seen", why text, most bigint DEFAULT NULL)
RETURNS TABLE (lane integer, tick bigint, done bigint, taken boolean, lost bigint, again bigint, more boolean)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s "{{schema}}"."outbox_log_subscription";
    p "{{schema}}"."outbox_log_position";
    b "{{schema}}"."outbox_log_seen" := $2;
    late bigint[];
    oldest timestamptz;
    newest timestamptz;
    most bigint; -- messages among which those are counted that are delivered again
    stays boolean; -- the batch in hand ends behind the tick, and is not begun anew
BEGIN
    SELECT s.* INTO own.s FROM "{{schema}}"."outbox_log_subscription" AS s WHERE s.name = $1;
    most := 100000 / own.s.lanes + 1;
    FOR own.p IN
        SELECT p.* FROM "{{schema}}"."outbox_log_position" AS p
        WHERE p.subscription = $1
        ORDER BY p.lane FOR UPDATE
    LOOP
        CONTINUE WHEN $3 IN ('cut', 'retention') AND (own.p.seen).n >= own.b.n;
        late := ARRAY(
        SELECT x FROM unnest((own.p.seen).open) AS x
        WHERE x < own.b.low OR x < own.b.high AND x <> ALL (own.b.open));
        SELECT count(*), min(m.created_at), max(m.created_at) INTO lost, own.oldest, own.newest
        FROM (
            SELECT m.xid, m.seq, m.id, m.created_at, m.topic, m.key, m.headers, m.payload
            FROM (
                (SELECT * FROM "{{schema}}"."outbox_log" AS m
                WHERE m.xid >= (own.p.seen).high AND m.xid < own.b.high AND m.xid <> ALL (own.b.open)
                ORDER BY m.xid, m.seq LIMIT $4)
                UNION ALL
                (SELECT * FROM "{{schema}}"."outbox_log" AS m
                WHERE m.xid = ANY (own.late) LIMIT $4)) AS m
            WHERE (own.s.lanes = 1
                OR abs(hashtextextended(coalesce(m.key, m.id::text), 0) % own.s.lanes) = own.p.lane)
              AND (own.s.topics IS NULL OR m.topic = ANY (own.s.topics) OR m.topic ^@ ANY (own.s.prefixes))
              AND (own.s.headers IS NULL OR m.headers @> own.s.headers)
              AND NOT ((m.seq <= p.done OR m.seq = ANY (p.ahead))
                AND m.xid < (p.upto).high AND m.xid <> ALL ((p.upto).open))
              AND (s.lanes = 1 OR abs(hashtextextended(coalesce(m.key, m.id::text), 0) % s.lanes) = p.lane)
              AND (s.topics IS NULL OR m.topic = ANY (s.topics) OR m.topic ^@ ANY (s.prefixes))
              AND (s.headers IS NULL OR m.headers @> s.headers)) AS m
        WHERE (own.p.seen).n < own.b.n;
        INSERT INTO "{{schema}}"."outbox_log_loss" (subscription, lane, began, ended, messages, oldest, newest, why)
        SELECT $1, own.p.lane, (own.p.seen).n, own.b.n, lost, own.oldest, own.newest, $3 WHERE lost > 0;

        again := 0;
        more := false;
        IF $3 = 'replay' THEN
            SELECT least(count(*) FILTER (WHERE (m.xid < (p.seen).high AND m.xid <> ALL ((p.seen).open)
                OR (m.seq <= p.done OR m.seq = ANY (p.ahead))
                AND m.xid < (p.upto).high AND m.xid <> ALL ((p.upto).open))
              AND (s.lanes = 1 OR abs(hashtextextended(coalesce(m.key, m.id::text), 0) % s.lanes) = p.lane)
              AND (s.topics IS NULL OR m.topic = ANY (s.topics) OR m.topic ^@ ANY (s.prefixes))
              AND (s.headers IS NULL OR m.headers @> s.headers)), own.most), count(*) > own.most
            INTO again, more
            FROM (
                SELECT * FROM "{{schema}}"."outbox_log" AS m WHERE m.xid = ANY (own.b.open)
                UNION ALL
                (SELECT * FROM "{{schema}}"."outbox_log" AS m
                WHERE m.xid >= own.b.high AND m.xid < greatest((own.p.seen).high, (own.p.upto).high)
                ORDER BY m.xid, m.seq LIMIT own.most + 1)
                LIMIT own.most + 1) AS m;
        END IF;

        stays := $3 IN ('cut', 'retention') AND (own.p.upto).n > own.b.n IS TRUE;
        lane := own.p.lane;
        tick := own.b.n;
        done := CASE WHEN own.stays THEN own.p.done ELSE 0 END;
        taken := own.p.page IS NOT NULL;
        UPDATE "{{schema}}"."outbox_log_position" AS t
        SET seen = own.b,
            upto = CASE WHEN own.stays THEN t.upto END,
            attempts = CASE WHEN own.stays THEN greatest(t.attempts - (t.locked_until >= clock_timestamp() IS TRUE)::integer, 0) ELSE 0 END,
            done = CASE WHEN own.stays THEN t.done ELSE 0 END,
            ahead = CASE WHEN own.stays THEN t.ahead ELSE '{}' END,
            rest = NULL,
            page = NULL,
            whole = false,
            withheld = '{}',
            owner_token = CASE WHEN t.locked_until IS NULL THEN t.owner_token END,
            locked_until = NULL
        WHERE t.subscription = $1 AND t.lane = own.p.lane;
        RETURN NEXT;
    END LOOP;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_move"(text, "{{schema}}"."outbox_log_seen", text, bigint) FROM PUBLIC;

-- Cuts subscriptions that are further behind than their retention allows, as {{schema}}.outbox_log_cut does: messages that are
-- older than max_age, or behind which the log has drawn max_messages numbers, are passed over, counted and recorded,
-- and no others. It acts once a subscription is a tenth beyond its bound, or a minute, and cuts to the bound: so a
-- consumer that is a little too slow is not interrupted all the time. A rest of its destination goes on.
--
-- It is a sweep of the parked messages, as {{schema}}.outbox_log_parked_trim is, with the rights of its owner for the same reason,
-- and in a transaction of its own, in which nobody ticks. Of each subscription it looks at 10000 ticks, and
-- passes over about 1000000 numbers of the log: the next call goes on. It waits 0.2 seconds for what a consumer
-- has locked, and not at all for other verbs. It returns how many subscriptions it has moved, and leaves what is to be
-- logged in the setting txwork.told_retain.
CREATE FUNCTION "{{schema}}"."outbox_log_parked_retain"(max_rows integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET lock_timeout = '200ms'
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    name text;
    s "{{schema}}"."outbox_log_subscription";
    behind "{{schema}}"."outbox_log_seen";
    target "{{schema}}"."outbox_log_seen";
    began timestamptz;
    rests smallint; -- the lane that has the rest
    rest "{{schema}}"."outbox_log_rest";
    lost bigint;
    oldest timestamptz;
    newest timestamptz;
    told jsonb := '[]';
    cut integer := 0;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($1 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a retention needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    IF (SELECT s.system <> c.system_identifier
            OR pg_snapshot_xmax(pg_current_snapshot())::text::bigint + s.shift
                < (SELECT (t.seen).high FROM "{{schema}}"."outbox_log_tick" AS t ORDER BY t.n DESC LIMIT 1)
        FROM "{{schema}}"."outbox_log_state" AS s, pg_control_system() AS c) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{schema}}.outbox_log is in another cluster than the one in which it was written: transaction ids began again',
            HINT = 'After a restore, stop the consumers of the old cluster, then SELECT {{schema}}.outbox_log_rebase().';
    END IF;
    FOR own.name IN
        SELECT s.name
        FROM "{{schema}}"."outbox_log_subscription" AS s
        CROSS JOIN LATERAL (
            SELECT p.seen FROM "{{schema}}"."outbox_log_position" AS p WHERE p.subscription = s.name
            ORDER BY (p.seen).n LIMIT 1) AS f
        CROSS JOIN LATERAL (
            SELECT t.at FROM "{{schema}}"."outbox_log_tick" AS t WHERE t.n > (f.seen).n ORDER BY t.n LIMIT 1) AS t
        WHERE (s.max_age IS NOT NULL OR s.max_messages IS NOT NULL)
          AND (t.at < clock_timestamp() - s.max_age - least(s.max_age / 10, interval '1 minute')
            OR (SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM "{{schema}}"."outbox_log_seq" AS q) - (f.seen).seq > s.max_messages + s.max_messages / 10)
          AND NOT EXISTS (SELECT FROM "{{schema}}"."outbox_log_state" AS m WHERE m.moving AND m.successor = s.name)
        ORDER BY s.name
    LOOP
        BEGIN
            -- What it is allowed may have changed since it was looked up.
            SELECT s.* INTO own.s FROM "{{schema}}"."outbox_log_subscription" AS s WHERE s.name = own.name
            FOR NO KEY UPDATE SKIP LOCKED;
            CONTINUE WHEN own.s.name IS NULL;
            PERFORM FROM "{{schema}}"."outbox_log_position" AS p WHERE p.subscription = own.name ORDER BY p.lane FOR UPDATE;
            SELECT (p.seen).* INTO own.behind FROM "{{schema}}"."outbox_log_position" AS p WHERE p.subscription = own.name
            ORDER BY (p.seen).n LIMIT 1;
            SELECT (o.seen).* INTO own.target
            FROM (
                SELECT t.n, t.at, t.seen FROM "{{schema}}"."outbox_log_tick" AS t
                WHERE t.n > own.behind.n ORDER BY t.n LIMIT 10000) AS o
            WHERE (o.at < clock_timestamp() - own.s.max_age OR (o.seen).seq <= (SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM "{{schema}}"."outbox_log_seq" AS q) - own.s.max_messages)
              AND ((o.seen).seq <= own.behind.seq + 1000000
                OR o.n = (SELECT min(t.n) FROM "{{schema}}"."outbox_log_tick" AS t WHERE t.n > own.behind.n))
            ORDER BY o.n DESC LIMIT 1;
            CONTINUE WHEN own.target.n IS NULL;

            SELECT p.lane, (p.rest).* INTO own.rests, own.rest.since, own.rest.until, own.rest.length, own.rest.cause
            FROM "{{schema}}"."outbox_log_position" AS p WHERE p.subscription = own.name AND (p.rest).since IS NOT NULL;
            began := clock_timestamp();
            PERFORM FROM "{{schema}}"."outbox_log_move"(own.name, own.target, 'retention');
            cut := own.cut + 1;
            UPDATE "{{schema}}"."outbox_log_position" AS p SET rest = own.rest
            WHERE p.subscription = own.name AND p.lane = own.rests;
            SELECT sum(o.messages), min(o.oldest), max(o.newest) INTO own.lost, own.oldest, own.newest
            FROM "{{schema}}"."outbox_log_loss" AS o
            WHERE o.subscription = own.name AND o.at >= own.began AND o.why = 'retention';
            CONTINUE WHEN own.lost IS NULL;

            -- Losses that follow each other on one day are one row.
            WITH before AS (
                DELETE FROM "{{schema}}"."outbox_log_loss" AS b USING "{{schema}}"."outbox_log_loss" AS o
                WHERE o.subscription = own.name AND o.at >= own.began AND o.why = 'retention'
                  AND b.subscription = o.subscription AND b.lane = o.lane AND b.why = o.why AND b.ended = o.began
                  AND b.at < own.began AND date_trunc('day', b.at, 'UTC') = date_trunc('day', o.at, 'UTC')
                RETURNING b.*
            )
            UPDATE "{{schema}}"."outbox_log_loss" AS o
            SET began = b.began, messages = o.messages + b.messages, oldest = least(o.oldest, b.oldest),
                newest = greatest(o.newest, b.newest)
            FROM before AS b
            WHERE o.subscription = b.subscription AND o.lane = b.lane AND o.why = b.why AND o.began = b.ended
              AND o.at >= own.began;
            told := own.told || jsonb_build_object('message', 'a subscription was behind its retention and has lost messages', 'subscription', own.name,
                'messages', own.lost, 'oldest', own.oldest, 'newest', own.newest);
            RAISE WARNING 'subscription % of {{schema}}.outbox_log has lost % messages by its retention, up to %', own.name,
                own.lost, own.newest;
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE; -- a later call gets it
        END;
    END LOOP;
    PERFORM set_config('txwork.told_retain', own.told::text, true) WHERE own.cut > 0;
    IF "{{schema}}"."outbox_log_thin"() + own.cut > 0 THEN -- at the end, since it locks what new subscriptions wait for
        PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 second')))::bigint::text,
        true);
    END IF;
    RETURN own.cut;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_parked_retain"(integer) FROM PUBLIC;

-- Moves all lanes of a subscription to a start, as {{schema}}.outbox_log_subscribe takes it: back, so that all since is delivered
-- again, or forward, so that what lies between is a loss, which is recorded. Says of each lane behind which tick it
-- goes on, whether a page was taken from its consumer, and how many messages are lost,
-- and how many that were settled are delivered again, see {{schema}}.outbox_log_move. Parked messages stay, and run.
--
-- The row of the state is locked against the removal of what is to be read again, before it is asked what is kept.
CREATE FUNCTION "{{schema}}"."outbox_log_replay"(name text, start timestamptz)
RETURNS TABLE (lane integer, tick bigint, done bigint, taken boolean, lost bigint, again bigint, more boolean)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s "{{schema}}"."outbox_log_subscription";
    seen "{{schema}}"."outbox_log_seen";
    gone bigint;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($2 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'start',
            MESSAGE = 'start must not be NULL',
            HINT = 'infinity is now, and -infinity the beginning.';
    END IF;
    IF (NOT isfinite($2) OR $2 < clock_timestamp() + interval '1 minute') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'start',
            MESSAGE = 'start is in the future',
            HINT = 'Give a time that has been. The latest start is infinity.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a replay needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 minute')))::bigint::text,
        true);
    SELECT s.gone INTO own.gone FROM "{{schema}}"."outbox_log_state" AS s FOR SHARE;
    SELECT (t.seen).* INTO own.seen FROM "{{schema}}"."outbox_log_tick" AS t WHERE t.at <= $2 ORDER BY t.n DESC LIMIT 1;
    IF own.seen.n IS NULL THEN
        seen := ROW(0, 0, 0, '{}', 0);
    END IF;
    IF isfinite($2) AND own.seen.n < own.gone THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'start',
            MESSAGE = format('start %s is before the messages that are kept', $2),
            HINT = format('Start at %s or later, or at -infinity: with the oldest message that is kept.',
                (SELECT to_char(min(t.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
                FROM "{{schema}}"."outbox_log_tick" AS t WHERE t.n >= own.gone));
    END IF;
    SELECT s.* INTO own.s FROM "{{schema}}"."outbox_log_subscription" AS s WHERE s.name = $1 FOR NO KEY UPDATE;
    IF own.s.name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'name',
            MESSAGE = format('name %s is not that of a subscription', coalesce(quote_literal($1), 'NULL')),
            HINT = 'Subscribe first, or correct the name.';
    END IF;
    RETURN QUERY SELECT m.* FROM "{{schema}}"."outbox_log_move"($1, own.seen, 'replay') AS m;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_replay"(text, timestamptz) FROM PUBLIC;

-- Cuts a subscription loose from messages that it has not settled: lanes that are behind the newest tick of that age,
-- or until that time, go on behind it, so no younger message is lost. What is lost is counted and recorded. Says it of
-- each lane that it moved. Parked messages stay, and run.
CREATE FUNCTION "{{schema}}"."outbox_log_cut"(name text, older_than interval DEFAULT NULL, before timestamptz DEFAULT NULL)
RETURNS TABLE (lane integer, tick bigint, done bigint, taken boolean, lost bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s "{{schema}}"."outbox_log_subscription";
    seen "{{schema}}"."outbox_log_seen";
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($2 >= interval '0' OR $3 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'older_than',
            MESSAGE = 'older_than must not be NULL or negative',
            HINT = 'Give the age beyond which messages may be lost, or before, a time.';
    END IF;
    IF ($2 IS NULL OR $3 IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'before',
            MESSAGE = 'before is given beside older_than',
            HINT = 'Give one of them.';
    END IF;
    IF ($3 IS NULL OR $3 < clock_timestamp() + interval '1 minute') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'before',
            MESSAGE = 'before is in the future',
            HINT = 'Give a time that has been.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a cut needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 minute')))::bigint::text,
        true);
    SELECT s.* INTO own.s FROM "{{schema}}"."outbox_log_subscription" AS s WHERE s.name = $1 FOR NO KEY UPDATE;
    IF own.s.name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'name',
            MESSAGE = format('name %s is not that of a subscription', coalesce(quote_literal($1), 'NULL')),
            HINT = 'Subscribe first, or correct the name.';
    END IF;
    SELECT (t.seen).* INTO own.seen FROM "{{schema}}"."outbox_log_tick" AS t
    WHERE t.at <= coalesce($3, clock_timestamp() - $2)
    ORDER BY t.n DESC LIMIT 1;
    RETURN QUERY SELECT m.lane, m.tick, m.done, m.taken, m.lost FROM "{{schema}}"."outbox_log_move"($1, own.seen, 'cut') AS m
    WHERE own.seen.n IS NOT NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_cut"(text, interval, timestamptz) FROM PUBLIC;

-- Sets which messages a subscription has. NULL leaves what it had: the topics {*} are all topics, and the headers {}
-- are any headers. It holds from what each lane has settled, which is said of each: messages up to the number done, of
-- the batch behind the tick, were delivered as it was before.
-- A page in hand is taken from its consumer, and its messages are delivered again if the subscription still has them.
--
-- max_age and max_messages are its retention, see {{schema}}.outbox_log_parked_retain: 0 is none. Who changes nothing else takes no
-- page.
--
-- Lanes can be changed while all are at one tick and no batch is in hand: then no key has messages in two of them.
CREATE FUNCTION "{{schema}}"."outbox_log_change"(
    name text, topics text[] DEFAULT NULL, headers jsonb DEFAULT NULL, lanes integer DEFAULT NULL,
    max_age interval DEFAULT NULL, max_messages bigint DEFAULT NULL
)
RETURNS TABLE (lane integer, tick bigint, done bigint, taken boolean, lost bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s "{{schema}}"."outbox_log_subscription";
    moves boolean := false;
    retains boolean := num_nonnulls($2, $3, $4) = 0 AND num_nonnulls($5, $6) > 0; -- no more than that
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($2 IS NULL OR array_ndims($2) = 1 AND cardinality($2) <= 100
        AND array_position($2, NULL) IS NULL AND array_position($2, '') IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'topics',
            MESSAGE = 'topics must have 1 to 100 topics, of which none is NULL or empty',
            HINT = 'Give topics, or the beginning of topics with a * at its end: order.* has order.new. A * alone is all.';
    END IF;
    IF ($2 IS NULL OR NOT EXISTS (
        SELECT FROM unnest($2) AS t WHERE strpos(left(t, -1), '*') > 0)) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'topics',
            MESSAGE = 'topics must have a * at the end of a topic only',
            HINT = 'Give topics, or the beginning of topics with a * at its end: order.* has order.new. A * alone is all.';
    END IF;
    IF ($3 IS NULL OR jsonb_typeof($3) = 'object') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'headers',
            MESSAGE = 'headers must be an object',
            HINT = 'Give the headers that messages must have.';
    END IF;
    IF ($4 IS NULL OR $4 BETWEEN 1 AND 64) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'lanes',
            MESSAGE = 'lanes must be between 1 and 64',
            HINT = 'Give as many as consumers are to read it at the same time.';
    END IF;
    IF ($5 IS NULL OR $5 BETWEEN interval '0' AND interval '7 days') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_age',
            MESSAGE = 'max_age must be between 0 and 7 days',
            HINT = '0 is none: then all is kept.';
    END IF;
    IF ($6 IS NULL OR $6 BETWEEN 0 AND 1000000000000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_messages',
            MESSAGE = 'max_messages must be between 0 and 1000000000000',
            HINT = '0 is none: then all is kept.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a change needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 minute')))::bigint::text,
        true);
    SELECT s.* INTO own.s FROM "{{schema}}"."outbox_log_subscription" AS s WHERE s.name = $1 FOR NO KEY UPDATE;
    IF own.s.name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'name',
            MESSAGE = format('name %s is not that of a subscription', coalesce(quote_literal($1), 'NULL')),
            HINT = 'Subscribe first, or correct the name.';
    END IF;
    PERFORM FROM "{{schema}}"."outbox_log_position" AS p WHERE p.subscription = $1 ORDER BY p.lane FOR UPDATE;
    IF $4 <> own.s.lanes THEN
        IF (SELECT count(DISTINCT (p.seen).n) > 1 OR bool_or((p.upto).n IS NOT NULL)
            FROM "{{schema}}"."outbox_log_position" AS p WHERE p.subscription = $1) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', COLUMN = 'lanes',
            MESSAGE = format('lanes of subscription %s can only be changed while all are at one place, with no batch in hand', $1),
            HINT = 'Let its consumers settle all there is, or replay to one place in the same transaction before.';
    END IF;
        moves := true;
    END IF;
    UPDATE "{{schema}}"."outbox_log_subscription" AS s
    SET headers = CASE WHEN $3 IS NULL THEN s.headers ELSE nullif($3, '{}') END, lanes = coalesce($4, s.lanes),
        max_age = nullif(coalesce($5, s.max_age), interval '0'),
        max_messages = nullif(coalesce($6, s.max_messages), 0),
        (topics, prefixes) = (
            SELECT CASE WHEN $2 IS NULL THEN s.topics ELSE w.topics END,
                CASE WHEN $2 IS NULL THEN s.prefixes ELSE w.prefixes END
            FROM (SELECT CASE WHEN '*' <> ALL ($2) THEN ARRAY(SELECT t FROM unnest($2) AS t WHERE right(t, 1) <> '*') END,
        CASE WHEN '*' <> ALL ($2) THEN ARRAY(SELECT left(t, -1) FROM unnest($2) AS t WHERE right(t, 1) = '*') END) AS w (topics, prefixes))
    WHERE s.name = $1;
    IF own.retains THEN
        RETURN QUERY
        SELECT p.lane::integer, (p.seen).n, p.done, false, 0::bigint
        FROM "{{schema}}"."outbox_log_position" AS p WHERE p.subscription = $1;
        RETURN;
    END IF;
    RETURN QUERY
    WITH old AS MATERIALIZED (
        SELECT p.lane, p.page IS NOT NULL AS taken FROM "{{schema}}"."outbox_log_position" AS p WHERE p.subscription = $1
    )
    UPDATE "{{schema}}"."outbox_log_position" AS t SET attempts = greatest(t.attempts - (t.locked_until >= clock_timestamp() IS TRUE)::integer, 0), rest = NULL,
            page = NULL,
            whole = false,
            withheld = '{}',
            owner_token = CASE WHEN t.locked_until IS NULL THEN t.owner_token END,
            locked_until = NULL
    FROM old AS o
    WHERE t.subscription = $1 AND t.lane = o.lane AND NOT own.moves
    RETURNING t.lane::integer, (t.seen).n, t.done, o.taken, 0::bigint;
    IF own.moves THEN
        INSERT INTO "{{schema}}"."outbox_log_position" (subscription, lane, seen)
        SELECT $1, l, p.seen
        FROM "{{schema}}"."outbox_log_position" AS p, generate_series(own.s.lanes, $4 - 1) AS l
        WHERE p.subscription = $1 AND p.lane = 0;
        DELETE FROM "{{schema}}"."outbox_log_position" AS p WHERE p.subscription = $1 AND p.lane >= $4;
        RETURN QUERY
        SELECT p.lane::integer, (p.seen).n, 0::bigint, false, 0::bigint
        FROM "{{schema}}"."outbox_log_position" AS p WHERE p.subscription = $1;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_change"(text, text[], jsonb, integer, interval, bigint) FROM PUBLIC;

-- Stops a subscription: pages in hand are settled, and no other is handed out.
-- Tells whether that changed anything.
CREATE FUNCTION "{{schema}}"."outbox_log_pause"(name text) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s "{{schema}}"."outbox_log_subscription";
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    SELECT s.* INTO own.s FROM "{{schema}}"."outbox_log_subscription" AS s WHERE s.name = $1 FOR NO KEY UPDATE;
    IF own.s.name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'name',
            MESSAGE = format('name %s is not that of a subscription', coalesce(quote_literal($1), 'NULL')),
            HINT = 'Subscribe first, or correct the name.';
    END IF;
    UPDATE "{{schema}}"."outbox_log_subscription" AS s SET paused = true WHERE s.name = $1 AND s.paused <> true;
    RETURN FOUND;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_pause"(text) FROM PUBLIC;

-- Ends a pause of a subscription, and a rest of its destination: the next messages try it.
-- Tells whether that changed anything.
CREATE FUNCTION "{{schema}}"."outbox_log_resume"(name text) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s "{{schema}}"."outbox_log_subscription";
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 minute')))::bigint::text,
        true);
    SELECT s.* INTO own.s FROM "{{schema}}"."outbox_log_subscription" AS s WHERE s.name = $1 FOR NO KEY UPDATE;
    IF own.s.name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'name',
            MESSAGE = format('name %s is not that of a subscription', coalesce(quote_literal($1), 'NULL')),
            HINT = 'Subscribe first, or correct the name.';
    END IF;
    IF EXISTS (SELECT FROM "{{schema}}"."outbox_log_state" AS s WHERE s.moving AND s.successor = $1) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', COLUMN = 'name',
            MESSAGE = format('the outbox still moves to subscription %s, which is resumed when all rows have', $1),
            HINT = 'Run txwork outbox move again, which goes on with the move.';
    END IF;
    UPDATE "{{schema}}"."outbox_log_subscription" AS s SET paused = false WHERE s.name = $1 AND s.paused <> false;
    UPDATE "{{schema}}"."outbox_log_position" AS p SET rest = NULL WHERE p.subscription = $1 AND (p.rest).since IS NOT NULL;
    RETURN FOUND OR own.s.paused;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_resume"(text) FROM PUBLIC;

-- Removes a subscription with its positions and, if told to, its parked messages, and says how many lanes, parked
-- messages and dead letters it had, and how many messages that a tick has seen it had not settled. These are recorded
-- with its other losses, which stay. They are counted among so many of the log as the parameter says, since those of a
-- subscription that nobody reads may be all there are. Whoever has a page in hand gets lost.
--
-- All positions are locked before parked messages are counted: nobody parks others.
CREATE FUNCTION "{{schema}}"."outbox_log_unsubscribe"(
    name text, parked boolean DEFAULT false, most integer DEFAULT 100000, OUT lanes integer, OUT live bigint,
    OUT dead bigint, OUT lost bigint
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s "{{schema}}"."outbox_log_subscription";
    seen "{{schema}}"."outbox_log_seen";
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($3 BETWEEN 1 AND 1000000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'most',
            MESSAGE = 'most must be between 1 and 1000000',
            HINT = 'Call again for more rows.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a removal needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 minute')))::bigint::text,
        true);
    SELECT s.* INTO own.s FROM "{{schema}}"."outbox_log_subscription" AS s WHERE s.name = $1 FOR NO KEY UPDATE;
    IF own.s.name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'name',
            MESSAGE = format('name %s is not that of a subscription', coalesce(quote_literal($1), 'NULL')),
            HINT = 'Subscribe first, or correct the name.';
    END IF;
    IF EXISTS (SELECT FROM "{{schema}}"."outbox_log_state" AS s WHERE s.moving AND s.successor = $1) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', COLUMN = 'name',
            MESSAGE = format('the outbox still moves to subscription %s, which is resumed when all rows have', $1),
            HINT = 'Run txwork outbox move again, which goes on with the move.';
    END IF;
    PERFORM FROM "{{schema}}"."outbox_log_position" AS p WHERE p.subscription = $1 ORDER BY p.lane FOR UPDATE;
    lanes := own.s.lanes;
    SELECT count(*) FILTER (WHERE k.completed_at IS NULL), count(*) FILTER (WHERE k.failed_at IS NOT NULL AND k.cancelled_at IS NULL) INTO live, dead FROM "{{schema}}"."outbox_log_parked" AS k WHERE k.subscription = $1;
    IF live + dead > 0 AND $2 IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', COLUMN = 'parked',
            MESSAGE = format('subscription %s has %s parked messages that have not ended, and %s dead letters', $1, live, dead),
            HINT = 'Let them end, redrive or discard them, or pass parked => true, which deletes them.';
    END IF;
    SELECT (t.seen).* INTO own.seen FROM "{{schema}}"."outbox_log_tick" AS t ORDER BY t.n DESC LIMIT 1;
    SELECT coalesce(sum(m.lost), 0) INTO lost FROM "{{schema}}"."outbox_log_move"($1, own.seen, 'remove', $3 / own.s.lanes + 1) AS m
    WHERE own.seen.n IS NOT NULL;
    DELETE FROM "{{schema}}"."outbox_log_parked" AS k WHERE k.subscription = $1;
    DELETE FROM "{{schema}}"."outbox_log_subscription" AS s WHERE s.name = $1;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_unsubscribe"(text, boolean, integer) FROM PUBLIC;

-- How far each lane is behind. numbers were drawn since its position, of which not all became messages for it; messages
-- are for it and not settled, among so many of the log as the parameter says, and more tells that there may be others;
-- seconds have passed since the oldest of them was written, and behind_seconds since the first tick that the lane has
-- not passed, whether or not that has messages for it. in_hand tells that a consumer has a page, and its lease has not
-- ended; attempts how often its batch was claimed. live and dead are the parked messages and dead letters of the whole
-- subscription. retained are bytes of the slots that cannot be emptied before the lane has passed them, tick is the
-- newest one, and tick_seconds its age. While the destination of the subscription is unavailable, it says since when,
-- when the next message probes it, and what was said last.
--
-- It asks the log and not the ticks, so messages are right while nobody ticks. What it reads is bounded: of the log by
-- the parameter, and otherwise by the slots and by what is parked.
CREATE FUNCTION "{{schema}}"."outbox_log_lag"(most integer DEFAULT 10000)
RETURNS TABLE (subscription text, lane integer, paused boolean, numbers bigint, messages bigint, more boolean,
    seconds double precision, behind_seconds double precision, in_hand boolean, attempts integer, live bigint,
    dead bigint, retained bigint, tick bigint, tick_seconds double precision,
    unavailable_since timestamptz, rests_until timestamptz, cause text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_0"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_1"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_2"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_3"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_4"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_5"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_6"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_7"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_0 or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_loss"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_loss or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($1 BETWEEN 1 AND 1000000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'most',
            MESSAGE = 'most must be between 1 and 1000000',
            HINT = 'Call again for more rows.';
    END IF;
    RETURN QUERY
    WITH slots AS MATERIALIZED (
        SELECT
            (SELECT max(m.xid) FROM "{{schema}}"."outbox_log_0" AS m) AS last0,
            pg_total_relation_size('"{{schema}}"."outbox_log_0"') AS bytes0,
            (SELECT max(m.xid) FROM "{{schema}}"."outbox_log_1" AS m) AS last1,
            pg_total_relation_size('"{{schema}}"."outbox_log_1"') AS bytes1,
            (SELECT max(m.xid) FROM "{{schema}}"."outbox_log_2" AS m) AS last2,
            pg_total_relation_size('"{{schema}}"."outbox_log_2"') AS bytes2,
            (SELECT max(m.xid) FROM "{{schema}}"."outbox_log_3" AS m) AS last3,
            pg_total_relation_size('"{{schema}}"."outbox_log_3"') AS bytes3,
            (SELECT max(m.xid) FROM "{{schema}}"."outbox_log_4" AS m) AS last4,
            pg_total_relation_size('"{{schema}}"."outbox_log_4"') AS bytes4,
            (SELECT max(m.xid) FROM "{{schema}}"."outbox_log_5" AS m) AS last5,
            pg_total_relation_size('"{{schema}}"."outbox_log_5"') AS bytes5,
            (SELECT max(m.xid) FROM "{{schema}}"."outbox_log_6" AS m) AS last6,
            pg_total_relation_size('"{{schema}}"."outbox_log_6"') AS bytes6,
            (SELECT max(m.xid) FROM "{{schema}}"."outbox_log_7" AS m) AS last7,
            pg_total_relation_size('"{{schema}}"."outbox_log_7"') AS bytes7
    ), waiting AS MATERIALIZED (
        SELECT k.subscription, count(*) FILTER (WHERE k.completed_at IS NULL), count(*) FILTER (WHERE k.failed_at IS NOT NULL AND k.cancelled_at IS NULL) FROM "{{schema}}"."outbox_log_parked" AS k
        WHERE k.completed_at IS NULL OR k.failed_at IS NOT NULL
        GROUP BY k.subscription
    )
    SELECT p.subscription, p.lane::integer, s.paused,
        CASE WHEN c.messages = 0 AND NOT c.more THEN 0
            ELSE greatest((SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM "{{schema}}"."outbox_log_seq" AS q) - greatest((p.seen).seq, p.done), 1) END,
        c.messages, c.more, coalesce(extract(epoch FROM clock_timestamp() - c.oldest), 0)::float8,
        coalesce(extract(epoch FROM clock_timestamp() - (
            SELECT t.at FROM "{{schema}}"."outbox_log_tick" AS t WHERE t.n > (p.seen).n ORDER BY t.n LIMIT 1)), 0)::float8,
        p.page IS NOT NULL AND p.locked_until >= clock_timestamp() IS TRUE, p.attempts, coalesce(k.live, 0),
        coalesce(k.dead, 0),
        CASE WHEN z.last0 >= (p.seen).high
            OR EXISTS (SELECT FROM "{{schema}}"."outbox_log_0" AS m WHERE m.xid = ANY ((p.seen).open))
            THEN z.bytes0 ELSE 0 END
        + CASE WHEN z.last1 >= (p.seen).high
            OR EXISTS (SELECT FROM "{{schema}}"."outbox_log_1" AS m WHERE m.xid = ANY ((p.seen).open))
            THEN z.bytes1 ELSE 0 END
        + CASE WHEN z.last2 >= (p.seen).high
            OR EXISTS (SELECT FROM "{{schema}}"."outbox_log_2" AS m WHERE m.xid = ANY ((p.seen).open))
            THEN z.bytes2 ELSE 0 END
        + CASE WHEN z.last3 >= (p.seen).high
            OR EXISTS (SELECT FROM "{{schema}}"."outbox_log_3" AS m WHERE m.xid = ANY ((p.seen).open))
            THEN z.bytes3 ELSE 0 END
        + CASE WHEN z.last4 >= (p.seen).high
            OR EXISTS (SELECT FROM "{{schema}}"."outbox_log_4" AS m WHERE m.xid = ANY ((p.seen).open))
            THEN z.bytes4 ELSE 0 END
        + CASE WHEN z.last5 >= (p.seen).high
            OR EXISTS (SELECT FROM "{{schema}}"."outbox_log_5" AS m WHERE m.xid = ANY ((p.seen).open))
            THEN z.bytes5 ELSE 0 END
        + CASE WHEN z.last6 >= (p.seen).high
            OR EXISTS (SELECT FROM "{{schema}}"."outbox_log_6" AS m WHERE m.xid = ANY ((p.seen).open))
            THEN z.bytes6 ELSE 0 END
        + CASE WHEN z.last7 >= (p.seen).high
            OR EXISTS (SELECT FROM "{{schema}}"."outbox_log_7" AS m WHERE m.xid = ANY ((p.seen).open))
            THEN z.bytes7 ELSE 0 END,
        l.n, extract(epoch FROM clock_timestamp() - l.at)::float8, r.since, r.until, r.cause
    FROM "{{schema}}"."outbox_log_position" AS p
    JOIN "{{schema}}"."outbox_log_subscription" AS s ON s.name = p.subscription
    CROSS JOIN slots AS z
    LEFT JOIN waiting AS k (subscription, live, dead) ON k.subscription = p.subscription
    LEFT JOIN LATERAL (SELECT t.n, t.at FROM "{{schema}}"."outbox_log_tick" AS t ORDER BY t.n DESC LIMIT 1) AS l ON true
    LEFT JOIN LATERAL (
        SELECT (q.rest).* FROM "{{schema}}"."outbox_log_position" AS q
        WHERE q.subscription = p.subscription AND (q.rest).since IS NOT NULL
        LIMIT 1) AS r ON true
    CROSS JOIN LATERAL (
        SELECT least(count(*) FILTER (WHERE NOT ((m.seq <= p.done OR m.seq = ANY (p.ahead))
                AND m.xid < (p.upto).high AND m.xid <> ALL ((p.upto).open))
              AND (s.lanes = 1 OR abs(hashtextextended(coalesce(m.key, m.id::text), 0) % s.lanes) = p.lane)
              AND (s.topics IS NULL OR m.topic = ANY (s.topics) OR m.topic ^@ ANY (s.prefixes))
              AND (s.headers IS NULL OR m.headers @> s.headers)), $1) AS messages,
            min(m.created_at) FILTER (WHERE NOT ((m.seq <= p.done OR m.seq = ANY (p.ahead))
                AND m.xid < (p.upto).high AND m.xid <> ALL ((p.upto).open))
              AND (s.lanes = 1 OR abs(hashtextextended(coalesce(m.key, m.id::text), 0) % s.lanes) = p.lane)
              AND (s.topics IS NULL OR m.topic = ANY (s.topics) OR m.topic ^@ ANY (s.prefixes))
              AND (s.headers IS NULL OR m.headers @> s.headers)) AS oldest, count(*) > $1 AS more
        FROM (
            SELECT * FROM "{{schema}}"."outbox_log" AS m WHERE m.xid = ANY ((p.seen).open)
            UNION ALL
            (SELECT * FROM "{{schema}}"."outbox_log" AS m WHERE m.xid >= (p.seen).high ORDER BY m.xid, m.seq LIMIT $1 + 1)
            LIMIT $1 + 1) AS m) AS c
    ORDER BY p.subscription, p.lane;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_lag"(integer) FROM PUBLIC;

-- An outbox of rows moves to the log while producers and relays run. The switch, {{schema}}.outbox_log_take_over, locks the table
-- of rows until those who have written to it have ended, and has it refuse rows from then on. So no message of the log
-- commits before a row that was written first. One subscription, the successor, has the destination of the rows. It is
-- paused until {{schema}}.outbox_log_move_rows has parked for it all that has not ended.

-- Where producers write now: to rows, or to the log. They are told in the transaction in which they write, and the
-- switch waits for them: the lock is that of an INSERT, and is taken before the look. It runs with its owner's rights,
-- so that producers of a log that has moved need none on the rows. No search_path is pinned: every name is qualified.
-- The table of rows may be dropped once the outbox has moved.
CREATE FUNCTION "{{schema}}"."outbox_log_storage"() RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
AS $txwork$
DECLARE
    has_rows CONSTANT pg_catalog.bool := pg_catalog.to_regclass('"{{schema}}"."outbox"') IS NOT NULL;
    has_moved pg_catalog.bool;
BEGIN
    IF has_rows THEN
        LOCK TABLE "{{schema}}"."outbox" IN ROW EXCLUSIVE MODE;
    END IF;
    SELECT s.successor IS NOT NULL INTO has_moved FROM "{{schema}}"."outbox_log_state" AS s;
    IF NOT has_rows AND NOT has_moved THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'there is no table of rows {{schema}}.outbox that could move to the log {{schema}}.outbox_log',
            HINT = 'Run txwork migrate up --domain outbox, or open the outbox with Storage Log.';
    END IF;
    RETURN CASE WHEN has_moved THEN 'log' ELSE 'rows' END;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_storage"() FROM PUBLIC;

-- Refuses rows once they have moved, and pauses of topics, which rows that move and messages of the log would not obey.
-- A transaction whose snapshot is from before the switch could not know of it, and succeeds when it is repeated.
CREATE FUNCTION "{{schema}}"."outbox_log_rows_moved"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF EXISTS (SELECT FROM "{{schema}}"."outbox_log_state" AS s WHERE s.successor IS NULL) THEN
        RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
            MESSAGE = '{{schema}}.outbox has moved to the log {{schema}}.outbox_log since this transaction began',
            HINT = 'Repeat the transaction.';
    END IF;
    IF TG_LEVEL = 'ROW' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{schema}}.outbox has moved to the log {{schema}}.outbox_log, whose topics cannot be paused',
            HINT = 'Pause the subscription.';
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = '{{schema}}.outbox has moved to the log {{schema}}.outbox_log and takes no rows',
        HINT = 'Open the outbox with Storage MoveToLog or Log; in SQL, call {{schema}}.outbox_log_append where '
            '{{schema}}.outbox_log_storage() is log.';
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_rows_moved"() FROM PUBLIC;

-- A dedup key that a row has is taken in the log, too. It is found when somebody wants it: then the row's message is
-- made its holder, with which the INSERT conflicts. It runs with its owner's rights: producers may not read rows.
CREATE FUNCTION "{{schema}}"."outbox_log_dedup_moved"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $txwork$
DECLARE
    holder uuid;
BEGIN
    -- It makes a row the holder, see below. Ids do not tell, since applications may give their own.
    IF NEW.created_at = '-infinity' THEN
        NEW.created_at := now();
        RETURN NEW;
    END IF;
    IF EXISTS (SELECT FROM "{{schema}}"."outbox_log_state" AS s WHERE s.successor IS NULL) THEN
        RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
            MESSAGE = '{{schema}}.outbox has moved to the log {{schema}}.outbox_log since this transaction began',
            HINT = 'Repeat the transaction.';
    END IF;
    IF to_regclass('"{{schema}}"."outbox"') IS NULL THEN -- they were dropped
        RETURN NEW;
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    SELECT r.id INTO holder FROM "{{schema}}"."outbox" AS r WHERE r.topic = NEW.topic AND r.dedup_key = NEW.dedup_key;
    IF holder IS NOT NULL THEN
        INSERT INTO "{{schema}}"."outbox_log_dedup" (topic, dedup_key, id, created_at)
        VALUES (NEW.topic, NEW.dedup_key, holder, '-infinity')
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NEW;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_dedup_moved"() FROM PUBLIC;

-- Why the rows cannot move to the log; NULL: they can.
CREATE FUNCTION "{{schema}}"."outbox_log_move_hindrance"() RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
DECLARE
    n bigint;
    names text;
BEGIN
    IF to_regclass('"{{schema}}"."outbox"') IS NULL OR to_regclass('"{{schema}}"."outbox_topic"') IS NULL
        OR to_regclass('"{{schema}}"."outbox_join"') IS NULL THEN
        RETURN 'the schema has no outbox of rows: run txwork migrate up --domain outbox';
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_later"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_dedup"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_later or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF EXISTS (SELECT FROM "{{schema}}"."outbox_log") OR EXISTS (SELECT FROM "{{schema}}"."outbox_log_later") THEN
        RETURN 'the log has messages that were written before the switch: its successor would get them, too. '
            'Stop who writes to the log, and wait until it has been trimmed';
    END IF;
    SELECT count(*) INTO n FROM "{{schema}}"."outbox_join" AS j WHERE j.completed_at IS NULL;
    IF n > 0 THEN
        RETURN format('%s joins are pending, which a log does not have: let them end, or cancel them', n);
    END IF;
    SELECT string_agg(quote_literal(t.topic), ', ' ORDER BY t.topic) INTO names
    FROM "{{schema}}"."outbox_topic" AS t WHERE t.paused;
    IF names IS NOT NULL THEN
        RETURN format('topics are paused, which a log does not have: resume %s, and pause the subscription afterwards',
            names);
    END IF;
    SELECT count(*) INTO n FROM ((SELECT FROM "{{schema}}"."outbox" AS r WHERE CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit > 0 THEN r.waiting AND r.aside IS NULL END LIMIT 10000)
        UNION ALL
        (SELECT FROM (SELECT r.key_limit FROM "{{schema}}"."outbox" AS r WHERE CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL THEN (NOT r.waiting OR r.aside IS NOT NULL) END LIMIT 10000) AS r WHERE r.key_limit > 0)) AS l;
    IF n > 0 THEN
        RETURN format('%s rows have a key with a limit, which a message does not have: let relays deliver them, or '
            'cancel them', n);
    END IF;
    SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO names
    FROM pg_attribute AS a
    WHERE a.attrelid = '"{{schema}}"."outbox"'::regclass AND a.attnum > 0 AND NOT a.attisdropped
      AND a.attname::text <> ALL ('{id,due_at,created_at,max_attempts,attempts,status,waiting,locked_until,completed_at,owner_token,failed_at,cancelled_at,last_error,headers,retry,topic,key,payload,dedup_key,joined,concurrency_key,key_limit,key_policy,key_rate,key_burst,key_seq,aside}');
    IF names IS NOT NULL THEN
        RETURN format('{{schema}}.outbox has columns that a message does not have: drop %s', names);
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_move_hindrance"() FROM PUBLIC;

-- How far a move is: rows (not begun), moving or moved; the successor; and what has not moved. Of the rows it counts so
-- many as the parameter says, those in progress and those of a key with a limit among them: these do not move, and
-- relays of the rows have to deliver them.
CREATE FUNCTION "{{schema}}"."outbox_log_moving"(
    most integer DEFAULT 10000, OUT state text, OUT successor text, OUT unfinished bigint, OUT in_progress bigint,
    OUT blocking bigint, OUT limited bigint, OUT seconds double precision
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
BEGIN
    IF ($1 BETWEEN 1 AND 1000000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'most',
            MESSAGE = 'most must be between 1 and 1000000',
            HINT = 'Call again for more rows.';
    END IF;
    SELECT CASE WHEN s.successor IS NULL THEN 'rows' WHEN s.moving THEN 'moving' ELSE 'moved' END, s.successor,
        extract(epoch FROM clock_timestamp() - s.switched_at)::float8
    INTO state, successor, seconds FROM "{{schema}}"."outbox_log_state" AS s;
    IF to_regclass('"{{schema}}"."outbox"') IS NULL THEN
        RETURN;
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    SELECT count(*), count(*) FILTER (WHERE l.status = 1) INTO unfinished, in_progress
    FROM (
        (SELECT r.status FROM "{{schema}}"."outbox" AS r WHERE r.completed_at IS NULL AND NOT r.waiting LIMIT $1)
        UNION ALL
        (SELECT r.status FROM "{{schema}}"."outbox" AS r WHERE r.completed_at IS NULL AND r.waiting LIMIT $1)) AS l;
    SELECT count(*) INTO blocking
    FROM (SELECT FROM "{{schema}}"."outbox" AS r WHERE CASE WHEN r.failed_at IS NOT NULL AND r.cancelled_at IS NULL THEN r.key_policy > 0 END LIMIT $1) AS d;
    SELECT count(*) INTO limited FROM ((SELECT FROM "{{schema}}"."outbox" AS r WHERE CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit > 0 THEN r.waiting AND r.aside IS NULL END LIMIT $1)
        UNION ALL
        (SELECT FROM (SELECT r.key_limit FROM "{{schema}}"."outbox" AS r WHERE CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL THEN (NOT r.waiting OR r.aside IS NOT NULL) END LIMIT $1) AS r WHERE r.key_limit > 0)) AS l;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_moving"(integer) FROM PUBLIC;

-- The switch: from its commit on messages go to the log. It waits for all transactions that have written rows, as long
-- as the lock_timeout of the session says, and new ones wait behind it. Everything that it found is looked up under the
-- locks. The log is empty then, so the subscription begins with it. Called again, it makes triggers that are missing,
-- as after a restore without them, and changes nothing else.
CREATE FUNCTION "{{schema}}"."outbox_log_take_over"(name text, lanes integer DEFAULT 1) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    successor text;
    hindrance text;
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($1 ~ '^[a-z0-9_]{1,48}$') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'name',
            MESSAGE = 'name must have 1 to 48 characters a-z, 0-9 and _',
            HINT = 'Choose another name.';
    END IF;
    IF ($2 BETWEEN 1 AND 64) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'lanes',
            MESSAGE = 'lanes must be between 1 and 64',
            HINT = 'Give as many as consumers are to read it at the same time.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a move to the log needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    IF (SELECT s.system <> c.system_identifier
            OR pg_snapshot_xmax(pg_current_snapshot())::text::bigint + s.shift
                < (SELECT (t.seen).high FROM "{{schema}}"."outbox_log_tick" AS t ORDER BY t.n DESC LIMIT 1)
        FROM "{{schema}}"."outbox_log_state" AS s, pg_control_system() AS c) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{schema}}.outbox_log is in another cluster than the one in which it was written: transaction ids began again',
            HINT = 'After a restore, stop the consumers of the old cluster, then SELECT {{schema}}.outbox_log_rebase().';
    END IF;
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 second')))::bigint::text,
        true);
    SELECT s.successor INTO own.successor FROM "{{schema}}"."outbox_log_state" AS s;
    IF own.successor IS NULL THEN
        hindrance := "{{schema}}"."outbox_log_move_hindrance"(); -- before anybody has to wait
        IF own.hindrance IS NULL THEN
            DECLARE
        tables text[] := ARRAY['"{{schema}}"."outbox"', '"{{schema}}"."outbox_topic"', '"{{schema}}"."outbox_log_dedup"', '"{{schema}}"."outbox_log_later"', '"{{schema}}"."outbox_log"', '"{{schema}}"."outbox_log_0"', '"{{schema}}"."outbox_log_1"', '"{{schema}}"."outbox_log_2"', '"{{schema}}"."outbox_log_3"', '"{{schema}}"."outbox_log_4"', '"{{schema}}"."outbox_log_5"', '"{{schema}}"."outbox_log_6"', '"{{schema}}"."outbox_log_7"'];
        patience CONSTANT interval := current_setting('lock_timeout');
        moment CONSTANT interval := least(interval '400 milliseconds',
            0.4 * current_setting('deadlock_timeout')::interval);
        began CONSTANT timestamptz := clock_timestamp();
        in_use text;
        until timestamptz;
    BEGIN
        LOOP
            BEGIN
                IF in_use IS NOT NULL THEN
                    until := clock_timestamp() + moment;
                    PERFORM set_config('lock_timeout', CASE WHEN patience = interval '0' THEN '3s'
                        ELSE current_setting('lock_timeout') END, true);
                    EXECUTE format('LOCK TABLE ONLY %s IN SHARE ROW EXCLUSIVE MODE', in_use);
                    IF clock_timestamp() > until THEN
                        RAISE lock_not_available;
                    END IF;
                END IF;
                until := clock_timestamp() + least(nullif(patience, interval '0'), moment);
                FOREACH in_use IN ARRAY tables LOOP
                    PERFORM set_config('lock_timeout', greatest(1,
                        ceil(extract(epoch FROM until - clock_timestamp()) * 1000))::text, true);
                    EXECUTE format('LOCK TABLE ONLY %s IN SHARE ROW EXCLUSIVE MODE', in_use);
                END LOOP;
                EXIT;
            EXCEPTION WHEN lock_not_available THEN -- and nothing is locked any more
                IF patience > interval '0' AND clock_timestamp() - began >= patience THEN
                    RAISE EXCEPTION USING ERRCODE = 'lock_not_available',
                        MESSAGE = format('%s was in use for more than %s', in_use, current_setting('lock_timeout')),
                        HINT = 'Do it again when that has ended: nothing of it was done.';
                END IF;
                tables := in_use || array_remove(tables, in_use);
            END;
            PERFORM pg_sleep(0.1 * random());
        END LOOP;
        PERFORM set_config('lock_timeout', (extract(epoch FROM patience) * 1000)::bigint::text, true);
    END;
    PERFORM set_config('lock_timeout', '200ms', true);
            SELECT s.successor INTO own.successor FROM "{{schema}}"."outbox_log_state" AS s FOR UPDATE;
        END IF;
    END IF;
    IF own.successor <> $1 THEN
        hindrance := format('the rows have moved to subscription %s already', own.successor);
    ELSIF own.successor IS NULL AND own.hindrance IS NULL THEN
        hindrance := "{{schema}}"."outbox_log_move_hindrance"();
    END IF;
    IF own.hindrance IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('{{schema}}.outbox cannot move to the log {{schema}}.outbox_log: %s', own.hindrance);
    END IF;
    IF own.successor IS NULL THEN
        INSERT INTO "{{schema}}"."outbox_log_subscription" (name, lanes, paused) VALUES ($1, $2, true) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'unique_violation', COLUMN = 'name',
            MESSAGE = format('subscription %s is there already', $1),
            HINT = 'Change it, or choose another name.';
    END IF;
        INSERT INTO "{{schema}}"."outbox_log_position" (subscription, lane, seen)
        SELECT $1, l, ROW(0, 0, 0, '{}'::bigint[], 0)::"{{schema}}"."outbox_log_seen" FROM generate_series(0, $2 - 1) AS l;
        UPDATE "{{schema}}"."outbox_log_state" AS s SET successor = $1, moving = true, switched_at = clock_timestamp();
    END IF;
    IF own.successor IS NULL OR to_regclass('"{{schema}}"."outbox"') IS NOT NULL AND (SELECT count(*) FROM pg_trigger AS t
        WHERE t.tgname = 'outbox_log_moved'
          AND t.tgrelid IN (to_regclass('"{{schema}}"."outbox"'), to_regclass('"{{schema}}"."outbox_topic"'),
            '"{{schema}}"."outbox_log_dedup"'::regclass)) < 3 THEN
        CREATE OR REPLACE TRIGGER "outbox_log_moved" BEFORE INSERT ON "{{schema}}"."outbox"
        FOR EACH STATEMENT WHEN (true) EXECUTE FUNCTION "{{schema}}"."outbox_log_rows_moved"();
        CREATE OR REPLACE TRIGGER "outbox_log_moved" BEFORE INSERT OR UPDATE ON "{{schema}}"."outbox_topic"
        FOR EACH ROW WHEN (NEW.paused) EXECUTE FUNCTION "{{schema}}"."outbox_log_rows_moved"();
        CREATE OR REPLACE TRIGGER "outbox_log_moved" BEFORE INSERT ON "{{schema}}"."outbox_log_dedup"
        FOR EACH ROW WHEN (true) EXECUTE FUNCTION "{{schema}}"."outbox_log_dedup_moved"();
        IF EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = '"{{schema}}"."outbox_log"'::regclass AND t.tgname = 'outbox_log_moved') THEN
            CREATE OR REPLACE TRIGGER "outbox_log_moved" BEFORE INSERT ON "{{schema}}"."outbox_log"
        FOR EACH STATEMENT WHEN (false) EXECUTE FUNCTION "{{schema}}"."outbox_log_moved_back"();
        END IF;
        IF EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = '"{{schema}}"."outbox_log_later"'::regclass AND t.tgname = 'outbox_log_moved') THEN
            CREATE OR REPLACE TRIGGER "outbox_log_moved" BEFORE INSERT ON "{{schema}}"."outbox_log_later"
        FOR EACH STATEMENT WHEN (false) EXECUTE FUNCTION "{{schema}}"."outbox_log_moved_back"();
        END IF;
        IF EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = '"{{schema}}"."outbox"'::regclass AND t.tgname = 'outbox_log_dedup') THEN
            CREATE OR REPLACE TRIGGER "outbox_log_dedup" BEFORE INSERT ON "{{schema}}"."outbox"
        FOR EACH ROW WHEN (false) EXECUTE FUNCTION "{{schema}}"."outbox_log_dedup_back"();
        END IF;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_take_over"(text, integer) FROM PUBLIC;

-- Parks rows that have not ended for the successor, about so many, or those of one key if that has more: with their
-- ids, attempts, times and dedup keys, and in the order of their keys. When none is left, it ends the move, and the
-- pause of the successor. Says how many rows it has moved, and whether the move has ended. A row that is redriven
-- afterwards is moved by another call.
--
-- All of a key moves at once, unless a row of it is in progress: then it stays until that is settled. Whoever claims or
-- changes a row meanwhile keeps its key from moving: all are locked, and looked up again in a later statement. It gives
-- way to producers: a lock that it does not get for 0.2 s, such as that of a dedup key, ends it (55P03). Call
-- {{schema}}.outbox_fold and {{schema}}.outbox_reap_expired before, so that each key has a row that is released.
CREATE FUNCTION "{{schema}}"."outbox_log_move_rows"(
    name text, most integer DEFAULT 500, OUT moved integer, OUT ended boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_custom_plan
SET lock_timeout = '200ms'
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    key text;
    keys text[];
    chosen text[] := '{}';
    room integer := $2;
    picked uuid[];
    locked uuid[];
    parked integer;
BEGIN
    IF ($2 BETWEEN 1 AND 1000000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'most',
            MESSAGE = 'most must be between 1 and 1000000',
            HINT = 'Call again for more rows.';
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_later"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_dedup"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_later or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF to_regclass('"{{schema}}"."outbox"') IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'there is no table of rows {{schema}}.outbox that could move to the log {{schema}}.outbox_log',
            HINT = 'Run txwork migrate up --domain outbox, or open the outbox with Storage Log.';
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a move to the log needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    IF (SELECT s.system <> c.system_identifier
            OR pg_snapshot_xmax(pg_current_snapshot())::text::bigint + s.shift
                < (SELECT (t.seen).high FROM "{{schema}}"."outbox_log_tick" AS t ORDER BY t.n DESC LIMIT 1)
        FROM "{{schema}}"."outbox_log_state" AS s, pg_control_system() AS c) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{schema}}.outbox_log is in another cluster than the one in which it was written: transaction ids began again',
            HINT = 'After a restore, stop the consumers of the old cluster, then SELECT {{schema}}.outbox_log_rebase().';
    END IF;
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 second')))::bigint::text,
        true);
    PERFORM FROM "{{schema}}"."outbox_log_position" AS p WHERE p.subscription = $1 ORDER BY p.lane FOR UPDATE; -- nobody parks
    IF NOT FOUND OR NOT EXISTS (SELECT FROM "{{schema}}"."outbox_log_state" AS s WHERE s.successor = $1) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('the rows of {{schema}}.outbox do not move to subscription %s',
                coalesce(quote_literal($1), 'NULL')),
            HINT = 'Call {{schema}}.outbox_log_take_over first, with the name of the subscription. Make a successor that was '
                'removed again.';
    END IF;
    picked := ARRAY(
        SELECT r.id FROM "{{schema}}"."outbox" AS r
        WHERE r.completed_at IS NULL AND NOT r.waiting AND r.status = 0 AND r.concurrency_key IS NULL
        ORDER BY r.due_at, r.id LIMIT $2 FOR UPDATE SKIP LOCKED)
      || ARRAY(
        SELECT r.id FROM "{{schema}}"."outbox" AS r
        WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND r.concurrency_key IS NULL
        ORDER BY left(r.topic, 255), r.due_at, r.id LIMIT $2 FOR UPDATE SKIP LOCKED);

    keys := ARRAY(
        SELECT DISTINCT k.key
        FROM (
            (SELECT r.concurrency_key FROM "{{schema}}"."outbox" AS r
            WHERE r.completed_at IS NULL AND NOT r.waiting AND r.status = 0 AND r.concurrency_key IS NOT NULL
            ORDER BY r.due_at, r.id LIMIT least($2, 200))
            UNION ALL
            (SELECT r.concurrency_key FROM "{{schema}}"."outbox" AS r
            WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND r.concurrency_key IS NOT NULL
            ORDER BY left(r.topic, 255), r.due_at, r.id LIMIT least($2, 200))
            UNION ALL
            (SELECT r.concurrency_key FROM "{{schema}}"."outbox" AS r
            WHERE CASE WHEN r.failed_at IS NOT NULL AND r.cancelled_at IS NULL THEN r.key_policy > 0 END
            ORDER BY r.concurrency_key, r.key_seq LIMIT least($2, 200))) AS k (key)
        ORDER BY 1 LIMIT least($2, 200));
    FOREACH key IN ARRAY own.keys LOOP
        room := own.room - (SELECT count(*) FROM (
            SELECT r.concurrency_key, r.id, r.status = 1 AS runs FROM "{{schema}}"."outbox" AS r
            WHERE r.concurrency_key = ANY (ARRAY[own.key]) AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit = 0 THEN r.waiting AND r.aside IS NULL END
            UNION ALL SELECT r.concurrency_key, r.id, r.status = 1 AS runs FROM "{{schema}}"."outbox" AS r
            WHERE r.concurrency_key = ANY (ARRAY[own.key]) AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL THEN (NOT r.waiting OR r.aside IS NOT NULL) END
            UNION ALL SELECT r.concurrency_key, r.id, r.status = 1 AS runs FROM "{{schema}}"."outbox" AS r
            WHERE r.concurrency_key = ANY (ARRAY[own.key]) AND CASE WHEN r.failed_at IS NOT NULL AND r.cancelled_at IS NULL THEN r.key_policy > 0 END LIMIT $2) AS u);
        EXIT WHEN own.room < 0 AND own.chosen <> '{}';
        chosen := own.chosen || own.key;
    END LOOP;
    locked := ARRAY(
        SELECT r.id
        FROM "{{schema}}"."outbox" AS r
        JOIN (
            SELECT r.concurrency_key, r.id, r.status = 1 AS runs FROM "{{schema}}"."outbox" AS r
            WHERE r.concurrency_key = ANY (own.chosen) AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit = 0 THEN r.waiting AND r.aside IS NULL END
            UNION ALL SELECT r.concurrency_key, r.id, r.status = 1 AS runs FROM "{{schema}}"."outbox" AS r
            WHERE r.concurrency_key = ANY (own.chosen) AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL THEN (NOT r.waiting OR r.aside IS NOT NULL) END
            UNION ALL SELECT r.concurrency_key, r.id, r.status = 1 AS runs FROM "{{schema}}"."outbox" AS r
            WHERE r.concurrency_key = ANY (own.chosen) AND CASE WHEN r.failed_at IS NOT NULL AND r.cancelled_at IS NULL THEN r.key_policy > 0 END) AS u ON u.id = r.id
        ORDER BY r.id FOR UPDATE OF r SKIP LOCKED);
    picked := own.picked || ARRAY(
        SELECT unnest(a.ids)
        FROM (
            SELECT array_agg(u.id) AS ids
            FROM (
            SELECT r.concurrency_key, r.id, r.status = 1 AS runs FROM "{{schema}}"."outbox" AS r
            WHERE r.concurrency_key = ANY (own.chosen) AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit = 0 THEN r.waiting AND r.aside IS NULL END
            UNION ALL SELECT r.concurrency_key, r.id, r.status = 1 AS runs FROM "{{schema}}"."outbox" AS r
            WHERE r.concurrency_key = ANY (own.chosen) AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL THEN (NOT r.waiting OR r.aside IS NOT NULL) END
            UNION ALL SELECT r.concurrency_key, r.id, r.status = 1 AS runs FROM "{{schema}}"."outbox" AS r
            WHERE r.concurrency_key = ANY (own.chosen) AND CASE WHEN r.failed_at IS NOT NULL AND r.cancelled_at IS NULL THEN r.key_policy > 0 END) AS u
            LEFT JOIN unnest(own.locked) AS l (id) ON l.id = u.id
            GROUP BY u.concurrency_key
            HAVING bool_and(l.id IS NOT NULL AND NOT u.runs)) AS a);

    WITH gone AS (
        DELETE FROM "{{schema}}"."outbox" AS r USING unnest(own.picked) AS p (id) WHERE r.id = p.id
        RETURNING r.*
    ), kept AS (
        INSERT INTO "{{schema}}"."outbox_log_dedup" (topic, dedup_key, id)
        SELECT g.topic, g.dedup_key, g.id FROM gone AS g WHERE g.dedup_key IS NOT NULL ORDER BY g.topic, g.dedup_key
        ON CONFLICT DO NOTHING
    ), parked AS (
        INSERT INTO "{{schema}}"."outbox_log_parked" (id, due_at, created_at, max_attempts, attempts, last_error, headers, retry,
            subscription, message_id, seq, appended_at, topic, key, payload, concurrency_key, key_limit, key_policy)
        SELECT g.id, CASE WHEN g.failed_at IS NULL THEN g.due_at ELSE clock_timestamp() END, g.created_at,
            g.max_attempts, least(g.attempts, g.max_attempts - 1), g.last_error,
            CASE WHEN g.failed_at IS NOT NULL THEN
                    coalesce(CASE WHEN jsonb_typeof(g.headers) = 'object' THEN g.headers END, '{}')
                    || jsonb_build_object('txwork-permanent', coalesce(g.last_error, ''))
                WHEN jsonb_typeof(g.headers) = 'object' THEN g.headers - 'txwork-permanent'
                ELSE g.headers END,
            g.retry, $1, g.id, 0, g.created_at, g.topic, g.key, g.payload, CASE WHEN octet_length($1 || ':' || g.concurrency_key) <= 255 THEN $1 || ':' || g.concurrency_key
                    ELSE $1 || '#' || encode(sha256(convert_to(g.concurrency_key, 'UTF8')), 'hex') END,
            g.key_limit, g.key_policy
        FROM (SELECT * FROM gone AS g ORDER BY g.key_seq, g.due_at, g.id) AS g
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM parked) INTO moved, own.parked;
    IF moved <> own.parked THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{schema}}.outbox_log took rows that move and parked fewer: '
                'does a trigger, a rule or a policy suppress them?';
    END IF;

    IF moved = 0 AND NOT (
        EXISTS (SELECT FROM "{{schema}}"."outbox" AS r WHERE r.completed_at IS NULL AND NOT r.waiting)
        OR EXISTS (SELECT FROM "{{schema}}"."outbox" AS r WHERE r.completed_at IS NULL AND r.waiting)
        OR EXISTS (SELECT FROM "{{schema}}"."outbox" AS r WHERE CASE WHEN r.failed_at IS NOT NULL AND r.cancelled_at IS NULL THEN r.key_policy > 0 END)) THEN
        UPDATE "{{schema}}"."outbox_log_state" AS s SET moving = false WHERE s.moving;
        IF FOUND THEN
            UPDATE "{{schema}}"."outbox_log_subscription" AS s SET paused = false WHERE s.name = $1;
        END IF;
    END IF;
    SELECT NOT s.moving INTO ended FROM "{{schema}}"."outbox_log_state" AS s;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_move_rows"(text, integer) FROM PUBLIC;

-- The way back: an outbox that has moved to the log moves to rows again, in one transaction, as far as it is not
-- delivered. Rows have one destination, so one subscription must be left. From the commit on the log takes no messages.

-- Refuses messages of the log once the outbox has moved back. A transaction whose snapshot is from before that succeeds
-- when it is repeated.
CREATE FUNCTION "{{schema}}"."outbox_log_moved_back"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF EXISTS (SELECT FROM "{{schema}}"."outbox_log_state" AS s WHERE s.successor IS NOT NULL) THEN
        RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
            MESSAGE = '{{schema}}.outbox_log has moved back to {{schema}}.outbox since this transaction began',
            HINT = 'Repeat the transaction.';
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = '{{schema}}.outbox_log has moved back to {{schema}}.outbox and takes no messages',
        HINT = 'Open the outbox with Storage MoveToLog or Rows; in SQL, call {{schema}}.outbox_enqueue where '
            '{{schema}}.outbox_log_storage() is rows.';
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_moved_back"() FROM PUBLIC;

-- A dedup key that a message of the log had is taken among the rows, too: when somebody wants it, its holder becomes a
-- row that has ended, with which the INSERT conflicts.
CREATE FUNCTION "{{schema}}"."outbox_log_dedup_back"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $txwork$
DECLARE
    holder uuid;
BEGIN
    IF EXISTS (SELECT FROM "{{schema}}"."outbox_log_state" AS s WHERE s.successor IS NOT NULL) THEN
        RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
            MESSAGE = '{{schema}}.outbox_log has moved back to {{schema}}.outbox since this transaction began',
            HINT = 'Repeat the transaction.';
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_later"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_dedup"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_later or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    SELECT d.id INTO holder FROM "{{schema}}"."outbox_log_dedup" AS d WHERE d.topic = NEW.topic AND d.dedup_key = NEW.dedup_key;
    IF FOUND THEN
        INSERT INTO "{{schema}}"."outbox" (id, topic, payload, dedup_key, status, completed_at)
        VALUES (CASE WHEN EXISTS (SELECT FROM "{{schema}}"."outbox" AS r WHERE r.id = holder) THEN encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid ELSE holder END,
            NEW.topic, '', NEW.dedup_key, 2, clock_timestamp())
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NEW;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_dedup_back"() FROM PUBLIC;

-- Why the outbox cannot move back to rows with at most so many messages; NULL: it can.
CREATE FUNCTION "{{schema}}"."outbox_log_back_hindrance"(most integer DEFAULT 5000) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s "{{schema}}"."outbox_log_subscription";
    p "{{schema}}"."outbox_log_position";
    b "{{schema}}"."outbox_log_seen" := ROW(9223372036854775807, 9223372036854775807, 9223372036854775807, '{}', 0)::"{{schema}}"."outbox_log_seen";
    late bigint[];
    names text;
    kept bigint := 0;
    parked bigint;
    scheduled bigint;
BEGIN
    IF ($1 BETWEEN 1 AND 1000000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'most',
            MESSAGE = 'most must be between 1 and 1000000',
            HINT = 'Call again for more rows.';
    END IF;
    IF to_regclass('"{{schema}}"."outbox"') IS NULL THEN
        RETURN 'the schema has no outbox of rows: run txwork migrate up --domain outbox';
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_later"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_dedup"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_later or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (SELECT s.successor IS NULL FROM "{{schema}}"."outbox_log_state" AS s) THEN
        RETURN 'it has not moved to the log';
    ELSIF (SELECT s.moving FROM "{{schema}}"."outbox_log_state" AS s) THEN
        RETURN 'it still moves to the log: let txwork outbox move log end';
    END IF;
    SELECT string_agg(s.name, ', ' ORDER BY s.name) INTO names FROM "{{schema}}"."outbox_log_subscription" AS s;
    IF (SELECT count(*) FROM "{{schema}}"."outbox_log_subscription") <> 1 THEN
        RETURN format('rows have one destination, and the log has the subscriptions %s: remove all but one',
            coalesce(names, '(none)'));
    END IF;
    SELECT s.* INTO own.s FROM "{{schema}}"."outbox_log_subscription" AS s;
    IF own.s.topics IS NOT NULL OR own.s.headers IS NOT NULL THEN
        RETURN format('rows are all delivered, and subscription %s has topics or headers: change it', names);
    END IF;
    FOR own.p IN SELECT p.* FROM "{{schema}}"."outbox_log_position" AS p ORDER BY p.lane LOOP
        late := ARRAY(
        SELECT x FROM unnest((own.p.seen).open) AS x
        WHERE x < own.b.low OR x < own.b.high AND x <> ALL (own.b.open));
        kept := own.kept + (SELECT count(*) FROM (
            SELECT m.xid, m.seq, m.id, m.created_at, m.topic, m.key, m.headers, m.payload
            FROM (
                SELECT * FROM "{{schema}}"."outbox_log" AS m
                WHERE m.xid >= (own.p.seen).high AND m.xid < own.b.high AND m.xid <> ALL (own.b.open)
                UNION ALL
                SELECT * FROM "{{schema}}"."outbox_log" AS m
                WHERE m.xid = ANY (own.late)) AS m
            WHERE (own.s.lanes = 1
                OR abs(hashtextextended(coalesce(m.key, m.id::text), 0) % own.s.lanes) = own.p.lane)
              AND (own.s.topics IS NULL OR m.topic = ANY (own.s.topics) OR m.topic ^@ ANY (own.s.prefixes))
              AND (own.s.headers IS NULL OR m.headers @> own.s.headers)
              AND NOT ((m.seq <= p.done OR m.seq = ANY (p.ahead))
                AND m.xid < (p.upto).high AND m.xid <> ALL ((p.upto).open))
              AND (s.lanes = 1 OR abs(hashtextextended(coalesce(m.key, m.id::text), 0) % s.lanes) = p.lane)
              AND (s.topics IS NULL OR m.topic = ANY (s.topics) OR m.topic ^@ ANY (s.prefixes))
              AND (s.headers IS NULL OR m.headers @> s.headers)
            LIMIT $1 + 1) AS m);
    END LOOP;
    SELECT count(*) INTO parked FROM (SELECT FROM "{{schema}}"."outbox_log_parked" AS k WHERE (k.completed_at IS NULL OR k.failed_at IS NOT NULL AND k.cancelled_at IS NULL) LIMIT $1 + 1) AS k;
    SELECT count(*) INTO scheduled FROM (SELECT FROM "{{schema}}"."outbox_log_later" LIMIT $1 + 1) AS l;
    IF own.kept + own.parked + own.scheduled > $1 THEN
        RETURN format('%s messages are not delivered, %s are parked and %s scheduled, more than %s together: let '
            'relays of subscription %s deliver them, and redrive, discard or cancel others', own.kept, own.parked,
            own.scheduled, $1, names);
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_back_hindrance"(integer) FROM PUBLIC;

-- Moves the outbox back to rows, and says how many messages became rows. It waits for all transactions that have
-- written messages, as long as the lock_timeout of the session says, and new ones wait behind it. While a consumer has
-- a page or a parked message in hand it fails (55P03): pause the subscription before, and call it again.
--
-- Under its locks all messages are committed. Rows are inserted in the order of their keys: what is parked, the log
-- behind what is settled, and what is scheduled. They draw their places here, since nobody else writes one, and so need
-- no lock for each key. Dead letters stay dead letters. The subscription is removed, and what remains of the log is
-- trimmed as it ages.
CREATE FUNCTION "{{schema}}"."outbox_log_give_back"(most integer DEFAULT 5000) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_custom_plan
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s "{{schema}}"."outbox_log_subscription";
    p "{{schema}}"."outbox_log_position";
    b "{{schema}}"."outbox_log_seen" := ROW(9223372036854775807, 9223372036854775807, 9223372036854775807, '{}', 0)::"{{schema}}"."outbox_log_seen";
    late bigint[];
    hindrance text;
    busy text;
    xids bigint[] := '{}';
    seqs bigint[] := '{}';
    parked uuid[];
    ids uuid[];
    id_topics text[];
    known uuid[]; -- parked messages whose dedup keys were looked for before the locks
    unknown uuid[];
    topics text[];
    dedup_keys text[];
    holders uuid[];
    freed tid[];
    nths bigint[];
    moved bigint;
BEGIN
    IF ($1 BETWEEN 1 AND 1000000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'most',
            MESSAGE = 'most must be between 1 and 1000000',
            HINT = 'Call again for more rows.';
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_tick"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_subscription"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_position"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_parked"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_log_later"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_log_dedup"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_log_later or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a move to rows needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;
    IF (SELECT s.system <> c.system_identifier
            OR pg_snapshot_xmax(pg_current_snapshot())::text::bigint + s.shift
                < (SELECT (t.seen).high FROM "{{schema}}"."outbox_log_tick" AS t ORDER BY t.n DESC LIMIT 1)
        FROM "{{schema}}"."outbox_log_state" AS s, pg_control_system() AS c) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{schema}}.outbox_log is in another cluster than the one in which it was written: transaction ids began again',
            HINT = 'After a restore, stop the consumers of the old cluster, then SELECT {{schema}}.outbox_log_rebase().';
    END IF;
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), interval '1 second')))::bigint::text,
        true);
    hindrance := "{{schema}}"."outbox_log_back_hindrance"($1); -- before anybody has to wait
    IF own.hindrance IS NULL THEN
        -- No index has the ids of dedup keys, and of a parked message no more is known.
        known := ARRAY(SELECT k.message_id FROM "{{schema}}"."outbox_log_parked" AS k WHERE (k.completed_at IS NULL OR k.failed_at IS NOT NULL AND k.cancelled_at IS NULL));
        SELECT array_agg(d.topic), array_agg(d.dedup_key) INTO own.topics, own.dedup_keys
        FROM "{{schema}}"."outbox_log_dedup" AS d WHERE cardinality(own.known) > 0 AND d.id = ANY (own.known);
        DECLARE
        tables text[] := ARRAY['"{{schema}}"."outbox"', '"{{schema}}"."outbox_topic"', '"{{schema}}"."outbox_log_parked"', '"{{schema}}"."outbox_log_dedup"', '"{{schema}}"."outbox_log_later"', '"{{schema}}"."outbox_log"', '"{{schema}}"."outbox_log_0"', '"{{schema}}"."outbox_log_1"', '"{{schema}}"."outbox_log_2"', '"{{schema}}"."outbox_log_3"', '"{{schema}}"."outbox_log_4"', '"{{schema}}"."outbox_log_5"', '"{{schema}}"."outbox_log_6"', '"{{schema}}"."outbox_log_7"'];
        patience CONSTANT interval := current_setting('lock_timeout');
        moment CONSTANT interval := least(interval '400 milliseconds',
            0.4 * current_setting('deadlock_timeout')::interval);
        began CONSTANT timestamptz := clock_timestamp();
        in_use text;
        until timestamptz;
    BEGIN
        LOOP
            BEGIN
                IF in_use IS NOT NULL THEN
                    until := clock_timestamp() + moment;
                    PERFORM set_config('lock_timeout', CASE WHEN patience = interval '0' THEN '3s'
                        ELSE current_setting('lock_timeout') END, true);
                    EXECUTE format('LOCK TABLE ONLY %s IN SHARE ROW EXCLUSIVE MODE', in_use);
                    IF clock_timestamp() > until THEN
                        RAISE lock_not_available;
                    END IF;
                END IF;
                until := clock_timestamp() + least(nullif(patience, interval '0'), moment);
                FOREACH in_use IN ARRAY tables LOOP
                    PERFORM set_config('lock_timeout', greatest(1,
                        ceil(extract(epoch FROM until - clock_timestamp()) * 1000))::text, true);
                    EXECUTE format('LOCK TABLE ONLY %s IN SHARE ROW EXCLUSIVE MODE', in_use);
                END LOOP;
                EXIT;
            EXCEPTION WHEN lock_not_available THEN -- and nothing is locked any more
                IF patience > interval '0' AND clock_timestamp() - began >= patience THEN
                    RAISE EXCEPTION USING ERRCODE = 'lock_not_available',
                        MESSAGE = format('%s was in use for more than %s', in_use, current_setting('lock_timeout')),
                        HINT = 'Do it again when that has ended: nothing of it was done.';
                END IF;
                tables := in_use || array_remove(tables, in_use);
            END;
            PERFORM pg_sleep(0.1 * random());
        END LOOP;
        PERFORM set_config('lock_timeout', (extract(epoch FROM patience) * 1000)::bigint::text, true);
    END;
    PERFORM set_config('lock_timeout', '200ms', true);
        PERFORM FROM "{{schema}}"."outbox_log_state" AS s FOR UPDATE;
        IF (SELECT s.successor IS NULL FROM "{{schema}}"."outbox_log_state" AS s) THEN
            RETURN 0; -- somebody else has moved it meanwhile
        END IF;
        PERFORM FROM "{{schema}}"."outbox_log_subscription" AS s FOR UPDATE;
        PERFORM FROM "{{schema}}"."outbox_log_position" AS p ORDER BY p.lane FOR UPDATE;
        hindrance := "{{schema}}"."outbox_log_back_hindrance"($1);
    END IF;
    IF own.hindrance IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('the log {{schema}}.outbox_log cannot move back to {{schema}}.outbox: %s', own.hindrance);
    END IF;
    SELECT s.* INTO own.s FROM "{{schema}}"."outbox_log_subscription" AS s;
    SELECT string_agg(what, ' and ') INTO busy
    FROM (
        SELECT 'a page of lane ' || p.lane FROM "{{schema}}"."outbox_log_position" AS p
        WHERE p.page IS NOT NULL AND p.locked_until >= clock_timestamp()
        UNION ALL
        SELECT 'the parked message ' || k.id FROM "{{schema}}"."outbox_log_parked" AS k
        WHERE k.status = 1 AND k.subscription = own.s.name) AS h (what);
    IF own.busy IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'lock_not_available',
            MESSAGE = format('consumers of subscription %s have in hand: %s', own.s.name, left(own.busy, 200)),
            HINT = 'Pause the subscription, and call it again.';
    END IF;

    FOR own.p IN SELECT p.* FROM "{{schema}}"."outbox_log_position" AS p ORDER BY p.lane LOOP
        late := ARRAY(
        SELECT x FROM unnest((own.p.seen).open) AS x
        WHERE x < own.b.low OR x < own.b.high AND x <> ALL (own.b.open));
        SELECT own.xids || coalesce(array_agg(m.xid), '{}'), own.seqs || coalesce(array_agg(m.seq), '{}')
        INTO own.xids, own.seqs
        FROM (
            SELECT m.xid, m.seq, m.id, m.created_at, m.topic, m.key, m.headers, m.payload
            FROM (
                SELECT * FROM "{{schema}}"."outbox_log" AS m
                WHERE m.xid >= (own.p.seen).high AND m.xid < own.b.high AND m.xid <> ALL (own.b.open)
                UNION ALL
                SELECT * FROM "{{schema}}"."outbox_log" AS m
                WHERE m.xid = ANY (own.late)) AS m
            WHERE (own.s.lanes = 1
                OR abs(hashtextextended(coalesce(m.key, m.id::text), 0) % own.s.lanes) = own.p.lane)
              AND (own.s.topics IS NULL OR m.topic = ANY (own.s.topics) OR m.topic ^@ ANY (own.s.prefixes))
              AND (own.s.headers IS NULL OR m.headers @> own.s.headers)
              AND NOT ((m.seq <= p.done OR m.seq = ANY (p.ahead))
                AND m.xid < (p.upto).high AND m.xid <> ALL ((p.upto).open))
              AND (s.lanes = 1 OR abs(hashtextextended(coalesce(m.key, m.id::text), 0) % s.lanes) = p.lane)
              AND (s.topics IS NULL OR m.topic = ANY (s.topics) OR m.topic ^@ ANY (s.prefixes))
              AND (s.headers IS NULL OR m.headers @> s.headers)) AS m;
    END LOOP;
    parked := ARRAY(SELECT k.id FROM "{{schema}}"."outbox_log_parked" AS k WHERE k.subscription = own.s.name AND (k.completed_at IS NULL OR k.failed_at IS NOT NULL AND k.cancelled_at IS NULL));
    SELECT coalesce(array_agg(m.id), '{}'), array_agg(m.topic) INTO own.ids, own.id_topics
    FROM (
        SELECT m.id, m.topic
        FROM unnest(own.xids, own.seqs) AS u (xid, seq)
        JOIN "{{schema}}"."outbox_log" AS m ON m.xid = u.xid AND m.seq = u.seq
        UNION ALL SELECT k.message_id, k.topic FROM "{{schema}}"."outbox_log_parked" AS k WHERE k.id = ANY (own.parked)
        UNION ALL SELECT l.id, l.topic FROM "{{schema}}"."outbox_log_later" AS l) AS m;
    -- A message of the log has the xid of its dedup key. Ids need not be unique: a topic frees as many keys of an id as
    -- it has messages of it.
    unknown := ARRAY(SELECT k.message_id FROM "{{schema}}"."outbox_log_parked" AS k
        WHERE k.id = ANY (own.parked) AND k.message_id <> ALL (own.known));
    SELECT array_agg(h.at), array_agg(h.topic), array_agg(h.dedup_key), array_agg(h.id), array_agg(h.nth)
    INTO own.freed, own.topics, own.dedup_keys, own.holders, own.nths
    FROM (
        SELECT d.ctid AS at, d.*,
            row_number() OVER (PARTITION BY d.id, d.topic ORDER BY d.xid DESC, d.dedup_key) AS nth
        FROM "{{schema}}"."outbox_log_dedup" AS d
        WHERE d.ctid = ANY (
            ARRAY(SELECT d.ctid FROM "{{schema}}"."outbox_log_dedup" AS d WHERE d.xid = ANY (own.xids))
            || ARRAY(SELECT d.ctid FROM unnest(own.topics, own.dedup_keys) AS k (topic, dedup_key)
                JOIN "{{schema}}"."outbox_log_dedup" AS d ON d.topic = k.topic AND d.dedup_key = k.dedup_key)
            || ARRAY(SELECT d.ctid FROM "{{schema}}"."outbox_log_later" AS l
                JOIN "{{schema}}"."outbox_log_dedup" AS d ON d.topic = l.topic AND d.dedup_key = l.dedup_key)
            || ARRAY(SELECT d.ctid FROM "{{schema}}"."outbox_log_dedup" AS d
                WHERE cardinality(own.unknown) > 0 AND d.id = ANY (own.unknown)))) AS h
    JOIN (
        SELECT u.id, u.topic, count(*) AS n FROM unnest(own.ids, own.id_topics) AS u (id, topic)
        GROUP BY u.id, u.topic) AS w ON w.id = h.id AND w.topic = h.topic AND h.nth <= w.n;
    DELETE FROM "{{schema}}"."outbox_log_dedup" AS d WHERE d.ctid = ANY (own.freed);

    UPDATE "{{schema}}"."outbox_log_state" AS s SET successor = NULL, switched_at = NULL;
    IF EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = '"{{schema}}"."outbox"'::regclass AND t.tgname = 'outbox_log_moved') THEN
            CREATE OR REPLACE TRIGGER "outbox_log_moved" BEFORE INSERT ON "{{schema}}"."outbox"
        FOR EACH STATEMENT WHEN (false) EXECUTE FUNCTION "{{schema}}"."outbox_log_rows_moved"();
        END IF;
        IF EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = '"{{schema}}"."outbox_topic"'::regclass AND t.tgname = 'outbox_log_moved') THEN
            CREATE OR REPLACE TRIGGER "outbox_log_moved" BEFORE INSERT OR UPDATE ON "{{schema}}"."outbox_topic"
        FOR EACH ROW WHEN (false) EXECUTE FUNCTION "{{schema}}"."outbox_log_rows_moved"();
        END IF;
        IF EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = '"{{schema}}"."outbox_log_dedup"'::regclass AND t.tgname = 'outbox_log_moved') THEN
            CREATE OR REPLACE TRIGGER "outbox_log_moved" BEFORE INSERT ON "{{schema}}"."outbox_log_dedup"
        FOR EACH ROW WHEN (false) EXECUTE FUNCTION "{{schema}}"."outbox_log_dedup_moved"();
        END IF;
        CREATE OR REPLACE TRIGGER "outbox_log_moved" BEFORE INSERT ON "{{schema}}"."outbox_log"
        FOR EACH STATEMENT WHEN (true) EXECUTE FUNCTION "{{schema}}"."outbox_log_moved_back"();
        CREATE OR REPLACE TRIGGER "outbox_log_moved" BEFORE INSERT ON "{{schema}}"."outbox_log_later"
        FOR EACH STATEMENT WHEN (true) EXECUTE FUNCTION "{{schema}}"."outbox_log_moved_back"();
        CREATE OR REPLACE TRIGGER "outbox_log_dedup" BEFORE INSERT ON "{{schema}}"."outbox"
        FOR EACH ROW WHEN (NEW.dedup_key IS NOT NULL AND NEW.completed_at IS NULL) EXECUTE FUNCTION "{{schema}}"."outbox_log_dedup_back"();

    INSERT INTO "{{schema}}"."outbox" (id, due_at, created_at, max_attempts, attempts, status, completed_at, failed_at, last_error,
        headers, retry, topic, key, payload, dedup_key, concurrency_key, key_limit, key_policy, key_seq)
    SELECT r.id, r.due_at, r.created_at, r.max_attempts, r.attempts, r.status, r.ended_at, r.ended_at, r.last_error,
        r.headers, r.retry, r.topic, r.key, r.payload, r.dedup_key, r.concurrency_key, r.key_limit, r.key_policy,
        CASE WHEN r.key_limit = 0 THEN "{{schema}}"."outbox_key_place"(r.concurrency_key) END
    FROM (
        SELECT CASE WHEN l.nth = 1 AND NOT EXISTS (SELECT FROM "{{schema}}"."outbox" AS r WHERE r.id = l.id) THEN l.id
                ELSE encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid END AS id,
            coalesce(l.due_at, c.created_at) AS due_at, c.created_at, l.max_attempts, l.attempts,
            CASE WHEN l.is_dead THEN 3 ELSE 0 END AS status,
            CASE WHEN l.is_dead THEN coalesce(l.failed_at, clock_timestamp()) END AS ended_at,
            CASE WHEN l.failed_at IS NULL AND l.is_dead THEN l.headers ->> 'txwork-permanent' ELSE l.last_error END
                AS last_error,
            CASE WHEN jsonb_typeof(l.headers) = 'object' THEN l.headers - 'txwork-permanent' ELSE l.headers END
                AS headers,
            l.retry, l.topic, l.key, l.payload,
            CASE WHEN NOT EXISTS (
                SELECT FROM "{{schema}}"."outbox" AS r WHERE r.topic = l.topic AND r.dedup_key = d.dedup_key) THEN d.dedup_key END
                AS dedup_key,
            l.concurrency_key, l.key_limit, l.key_policy
        FROM (
            SELECT l.*, row_number() OVER (PARTITION BY l.id ORDER BY l.source, l.ord) AS nth,
                row_number() OVER (PARTITION BY l.id, l.topic ORDER BY l.source, l.ord) AS nth_of_topic
            FROM (
                SELECT 1 AS source, k.key_seq AS ord, k.message_id AS id, k.due_at, k.appended_at AS created_at,
                    k.max_attempts, k.attempts, k.last_error, k.failed_at,
                    k.failed_at IS NOT NULL OR coalesce(k.headers ? 'txwork-permanent', false) AS is_dead, k.headers,
                    k.retry, k.topic, k.key, k.payload,
                    CASE WHEN k.concurrency_key IS NOT NULL THEN
                        coalesce(nullif(k.key, ''), substr(k.concurrency_key, length(own.s.name) + 2)) END
                        AS concurrency_key,
                    k.key_limit, k.key_policy
                FROM "{{schema}}"."outbox_log_parked" AS k WHERE k.id = ANY (own.parked)
                UNION ALL
                SELECT 2, m.seq, m.id, NULL, m.created_at, 130, 0, NULL, NULL, false, m.headers,
                    NULL, m.topic, m.key, m.payload, nullif(m.key, ''), CASE WHEN m.key <> '' THEN 0 END,
                    CASE WHEN m.key <> '' THEN 1 END
                FROM unnest(own.xids, own.seqs) AS u (xid, seq)
                JOIN "{{schema}}"."outbox_log" AS m ON m.xid = u.xid AND m.seq = u.seq
                UNION ALL
                SELECT 3, row_number() OVER (ORDER BY l.due_at, l.ord), l.id, l.scheduled_at, l.created_at,
                    130, 0, NULL, NULL, false, l.headers, NULL, l.topic, l.key, l.payload,
                    nullif(l.key, ''), CASE WHEN l.key <> '' THEN 0 END, CASE WHEN l.key <> '' THEN 1 END
                FROM "{{schema}}"."outbox_log_later" AS l) AS l) AS l
        CROSS JOIN LATERAL ( -- the clock of the server may have been put back, and plain SQL may write any time
            SELECT least(nullif(l.created_at, '-infinity'), clock_timestamp()) AS created_at) AS c
        LEFT JOIN unnest(own.holders, own.topics, own.dedup_keys, own.nths) AS d (id, topic, dedup_key, nth)
            ON d.id = l.id AND d.topic = l.topic AND d.nth = l.nth_of_topic
        ORDER BY l.source, l.ord) AS r;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF own.moved <> cardinality(own.ids) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{schema}}.outbox took messages that move back and stored another number of them: '
                'does a trigger, a rule or a policy suppress them?';
    END IF;
    DELETE FROM "{{schema}}"."outbox_log_parked" AS k WHERE k.id = ANY (own.parked);
    DELETE FROM "{{schema}}"."outbox_log_later";
    DELETE FROM "{{schema}}"."outbox_log_subscription";
    RETURN own.moved;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_log_give_back"(integer) FROM PUBLIC;
