-- A retry policy that cannot be computed would fail the reaper's whole batch. It is a domain because the server parses
-- a CHECK of a table anew for every statement that writes to the table, and that of a domain once in a session. Delays
-- are whole microseconds, and a jitter is 0 or large enough to matter: NaN would pass a comparison by >=, and numbers
-- that are too large or too small make a multiplication fail. The types of each operator match its operands exactly, so
-- that no operator in the caller's search_path fits better.
CREATE DOMAIN "{{schema}}"."outbox_retry" AS jsonb CONSTRAINT "outbox_retry_check" CHECK (
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
CREATE DOMAIN "{{schema}}"."outbox_time" AS timestamptz CONSTRAINT "outbox_time_check" CHECK (
    VALUE <@ '[0001-01-01 00:00:00+00, 9999-12-31 00:00:00+00]'::tstzrange
);

CREATE TABLE "{{schema}}"."outbox" (
    id uuid PRIMARY KEY DEFAULT encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid,
    due_at "{{schema}}"."outbox_time" NOT NULL DEFAULT now(),
    created_at "{{schema}}"."outbox_time" NOT NULL DEFAULT now(),
    max_attempts integer NOT NULL DEFAULT 130,
    attempts integer NOT NULL DEFAULT 0,
    status smallint NOT NULL DEFAULT 0,
    waiting boolean NOT NULL DEFAULT false,
    locked_until "{{schema}}"."outbox_time",
    completed_at "{{schema}}"."outbox_time",
    owner_token uuid,
    failed_at "{{schema}}"."outbox_time",
    cancelled_at "{{schema}}"."outbox_time",
    last_error text,
    headers jsonb,
    retry "{{schema}}"."outbox_retry",
    "topic" text NOT NULL,
    "key" text,
    "payload" bytea NOT NULL,
    "dedup_key" text,
    "joined" boolean,
    "concurrency_key" text,
    "key_limit" integer,
    "key_policy" smallint,
    "key_rate" double precision,
    "key_burst" integer,
    "key_seq" bigint,
    aside boolean, -- true: the row waits in the lane of its topic
    -- Which times each status has. It is short because every statement that writes parses the checks anew: a row in
    -- progress has locked_until (1), a done one has completed_at, which counts twice (2), and a failed one has
    -- completed_at and failed_at (3). A ready row is not cancelled: no claim would end it.
    CONSTRAINT "outbox_state_check" CHECK (
        status = num_nonnulls(completed_at, completed_at, failed_at, locked_until)
        AND CASE WHEN completed_at IS NOT NULL THEN locked_until IS NULL
            ELSE failed_at IS NULL AND CASE WHEN locked_until IS NULL THEN cancelled_at IS NULL
                ELSE owner_token IS NOT NULL AND NOT waiting END
            END
    ),
    -- A Ready row without attempts left would fail every claim that finds it. A row in progress may be at its last
    -- attempt. The status is subtracted because a sum would overflow in a row whose maximum is the greatest integer.
    CONSTRAINT "outbox_attempts_check"
        CHECK (max_attempts > 0 AND attempts >= 0 AND attempts - status < max_attempts)
) WITH (
    fillfactor = 42,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);

COMMENT ON TABLE "{{schema}}"."outbox" IS 'txwork core 1';

CREATE INDEX "outbox_claim_idx" ON "{{schema}}"."outbox" (due_at, id)
    WHERE completed_at IS NULL AND NOT waiting;

CREATE INDEX "outbox_waiting_idx" ON "{{schema}}"."outbox" (id) WHERE completed_at IS NULL AND waiting;

CREATE INDEX "outbox_done_idx" ON "{{schema}}"."outbox" (completed_at)
    WHERE completed_at IS NOT NULL AND (failed_at IS NULL OR cancelled_at IS NOT NULL);

CREATE INDEX "outbox_failed_idx" ON "{{schema}}"."outbox" (failed_at, id) WHERE failed_at IS NOT NULL;

CREATE UNIQUE INDEX "outbox_unique_idx" ON "{{schema}}"."outbox"
    ("topic", "dedup_key")
    WHERE "topic" IS NOT NULL AND "dedup_key" IS NOT NULL;

-- Notifies workers, unless an announcer does so for this transaction. A trigger of another table, which no announcer
-- watches, passes an argument so that it always notifies.
--
-- No search_path is pinned; every name is qualified instead. Setting and resetting it would cost the server a tenth of
-- a transaction that inserts one row.
CREATE FUNCTION "{{schema}}"."outbox_announce"() RETURNS trigger
LANGUAGE plpgsql
AS $txwork$
BEGIN
    IF TG_NARGS OPERATOR(pg_catalog.>) 0 OR (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) ELSE false END)
        ELSE true END) THEN
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END);
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_announce"() FROM PUBLIC;

CREATE TRIGGER "outbox_announce" AFTER INSERT ON "{{schema}}"."outbox"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."outbox_announce"();

-- Topics of "{{schema}}"."outbox": an operator may pause one, one may rest because its destination is unavailable, and a worker
-- may have no room for more rows of one. A claim does not pass over such rows, since the next claim would have to pass
-- over them again. It sets them *aside*: they wait outside the claim index, where each topic is a lane of its own, in
-- the order of their due times. Claims take the rows of a topic from its lane when the topic is resumed, opens or has
-- room. No row is moved back, so that costs one row.
--
-- While a topic has rows aside, its new rows queue up behind these.

-- The state of topics. A topic without a row here is not paused, and its destination is not known to be unavailable.
-- While it is, the topic rests for a time. Then one row probes the destination: it is in progress with this token and,
-- by its claim, in this attempt. first_rest and longest_rest may be changed.
CREATE TABLE "{{schema}}"."outbox_topic" (
    topic text NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND 255),
    paused boolean NOT NULL DEFAULT false,
    changed_at "{{schema}}"."outbox_time" NOT NULL DEFAULT clock_timestamp(),
    unavailable_since "{{schema}}"."outbox_time",
    rests_until "{{schema}}"."outbox_time",
    rest interval,
    cause text,
    probe uuid,
    probe_token uuid,
    probe_attempt integer,
    first_rest interval NOT NULL DEFAULT interval '500 ms' CHECK (first_rest > '0'),
    longest_rest interval NOT NULL DEFAULT interval '10000 ms' CHECK (longest_rest >= first_rest),
    PRIMARY KEY (topic),
    CHECK ((unavailable_since IS NULL) = (rests_until IS NULL))
);

-- Claims look here, mostly in vain: the index of no rows is one page.
CREATE INDEX "outbox_topic_held_idx" ON "{{schema}}"."outbox_topic" (topic)
    WHERE paused OR unavailable_since IS NOT NULL;

-- The lanes of the rows that are set aside.
CREATE INDEX "outbox_aside_idx" ON "{{schema}}"."outbox"
    ((left("topic", 255)), due_at, id)
    WHERE completed_at IS NULL AND aside;

-- A topic that is held or free since now has workers look at once. A probe and the next rest are no such change.
CREATE FUNCTION "{{schema}}"."outbox_topic_changed"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.paused = OLD.paused AND (NEW.unavailable_since IS NULL) = (OLD.unavailable_since IS NULL) THEN
            RETURN NULL;
        END IF;
    END IF;
    PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', 'topic') ELSE ''::pg_catalog.void END);
    RETURN NULL;
END
$txwork$;

CREATE TRIGGER "outbox_topic_changed" AFTER INSERT OR UPDATE OR DELETE ON "{{schema}}"."outbox_topic"
FOR EACH ROW EXECUTE FUNCTION "{{schema}}"."outbox_topic_changed"();

-- Pauses a topic: no claim that begins later starts a row of it. Returns whether that changed anything. Like resume it
-- is for roles that see all rows, since it concerns the rows of all.
CREATE FUNCTION "{{schema}}"."outbox_pause"(topic text) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_topic"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (octet_length($1) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'topic',
            MESSAGE = 'topic must have 1 to 255 bytes',
            HINT = 'Name a topic as its rows have it.';
    END IF;
    -- A settle that makes a new topic rest does not wait for this lock, as it would for the row.
    PERFORM pg_advisory_xact_lock(hashtextextended(concat_ws(' ', '"{{schema}}"."outbox_topic"', $1), 0));
    INSERT INTO "{{schema}}"."outbox_topic" AS s (topic, paused)
    VALUES ($1, true)
    ON CONFLICT (topic) DO UPDATE
    SET paused = true, changed_at = clock_timestamp()
    WHERE NOT s.paused;
    RETURN FOUND;
END
$txwork$;

-- Ends the pause of a topic. Returns whether it was paused.
CREATE FUNCTION "{{schema}}"."outbox_resume"(topic text) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_topic"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (octet_length($1) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'topic',
            MESSAGE = 'topic must have 1 to 255 bytes',
            HINT = 'Name a topic as its rows have it.';
    END IF;
    UPDATE "{{schema}}"."outbox_topic" AS s
    SET paused = false, changed_at = clock_timestamp()
    WHERE s.topic = $1 AND s.paused;
    RETURN FOUND;
END
$txwork$;

-- Ready -> InProgress for rows whose topic may start them; rows of other topics are set aside. busy are topics for
-- whose rows the caller has no room. open are topics that have rows aside, with the place in each lane from which on,
-- and the room for, the rows that the claim may take; if it is NULL, the claim looks for such topics and has room for
-- all. At most half of the rows come from these lanes, unless there are too few others.
--
-- The claim goes on behind rows that it has set aside until it has what it wants, or has set 1000 aside, and
-- ten times as many if open is NULL. It locks only rows that it changes. It returns, by kind:
--
--     0  once: n is how many topics are paused or rest, and lane is 1 if the claim may have left rows that it could
--        have taken, and 2 if so in the lanes of topics
--     1  a row that it claimed
--     2  a row that it claimed from the lane of a topic, with its place there; n is 1 if it probes the destination
--     3  in which lane of the arguments, by its number, it has come to which place
--     4  a topic that is neither paused nor rests and has rows aside: each one if it asks, or else one that this claim
--        has found to be available again
--     5  such a topic, and how many of its rows were set aside
--     6  a topic that rests, and in how many milliseconds a claim may take a probe, unless one is under way then; none
--        if it could take one now, and there is no row for it
--     7  a topic whose destination is available again, which this claim has found out, and since when it was not
CREATE FUNCTION "{{schema}}"."outbox_claim_by_topic"(
    owner_token uuid, lease interval, batch_size integer, after_due timestamptz[], after_id uuid[],
    busy text[], open text[], open_due timestamptz[], open_id uuid[], room integer[], asks boolean
) RETURNS TABLE (
    kind smallint, topic text, n integer, lane integer, due_at timestamptz, id uuid, claimed "{{schema}}"."outbox"
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
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    batch CONSTANT integer := $3;
    reached timestamptz[] := $4;
    reached_id uuid[] := $5;
    busy CONSTANT text[] := $6;
    lanes text[] := $7;
    lanes_due timestamptz[] := $8;
    lanes_id uuid[] := $9;
    rooms integer[] := $10;
    asks CONSTANT boolean := $11;
    began CONSTANT timestamptz := now();
    paused text[]; -- or they rest
    resting text[];
    ripe text[] := '{}';
    free text[] := '{}'; -- what rested when this call began, and rests no more
    available text[] := '{}'; -- what of these it has opened
    available_since timestamptz[] := '{}';
    probes uuid[] := '{}';
    probing record;
    is_locked boolean;
    probed integer := 0;
    is_hungry boolean := false;
    held text[];
    opened text[] := '{}';
    next text;
    reserved integer := 0;
    want integer;
    looked integer;
    is_more boolean := true;
    is_cut boolean := false;
    most integer := 1000;
    s record;
    taken tid[] := '{}';
    of_lanes tid[] := '{}';
    put_aside tid[] := '{}';
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_topic"'::pg_catalog.regclass) THEN
        IF EXISTS (
            SELECT FROM pg_catalog.unnest(ARRAY['"{{schema}}"."outbox_topic"'::pg_catalog.regclass]) AS s (id)
            WHERE (SELECT bool_or(p.polname = 'txwork_read') AND bool_and(p.polpermissive) FROM pg_catalog.pg_policy AS p
                WHERE p.polrelid = s.id) IS NOT TRUE)
        THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_topic or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
        END IF;
    END IF;
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

    SELECT coalesce(array_agg(p.topic), '{}'),
        coalesce(array_agg(p.topic) FILTER (WHERE p.unavailable_since IS NOT NULL), '{}'),
        coalesce(array_agg(p.topic ORDER BY p.rests_until)
            FILTER (WHERE p.unavailable_since IS NOT NULL AND NOT p.paused
                AND (p.probe IS NOT NULL OR (p.rests_until <= own.began OR p.rests_until > clock_timestamp() + p.longest_rest))), '{}')
    INTO own.paused, own.resting, own.ripe
    FROM "{{schema}}"."outbox_topic" AS p
    WHERE (p.paused OR p.unavailable_since IS NOT NULL);

    -- These topics have a probe, or their rest is over. What the last probe has found out is read from its row. If that
    -- says nothing, the first row of the topic is the next probe as soon as the rest is over, which begins anew with
    -- each probe. Who locks the topic writes it down. Others do not wait: they go by what the row says.
    FOREACH next IN ARRAY own.ripe LOOP
        SELECT p.unavailable_since, p.rests_until, p.probe, p.probe_token, p.probe_attempt,
            (p.rests_until <= own.began OR p.rests_until > clock_timestamp() + p.longest_rest) AS is_over, CASE WHEN p.probe IS NULL THEN 'none' ELSE coalesce((
                SELECT CASE
                    WHEN r.owner_token IS DISTINCT FROM p.probe_token THEN 'none'
                    WHEN r.status = 2 OR r.status = 3 AND r.cancelled_at IS NULL THEN 'ended'
                    WHEN r.status = 1 AND r.locked_until > clock_timestamp() THEN 'runs'
                    WHEN r.status = 0 AND r.attempts >= p.probe_attempt THEN 'ended'
                    ELSE 'none' END
                FROM "{{schema}}"."outbox" AS r
                WHERE r.id = p.probe), 'ended') END AS state
        INTO own.probing
        FROM "{{schema}}"."outbox_topic" AS p
        WHERE p.topic = own.next;
        CONTINUE WHEN own.probing.state IS NULL OR own.probing.state = 'runs'
            OR own.probing.state = 'none'
                AND (own.probing.is_over IS NOT TRUE OR cardinality(own.probes) = own.batch);
        IF own.probing.state = 'none' AND NOT EXISTS (
            SELECT FROM "{{schema}}"."outbox" AS r
            WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND left(r."topic", 255) = own.next AND r.due_at <= own.began) THEN
            is_hungry := true; -- the next claim has what this one sets aside
            CONTINUE; -- and no row of the topic is locked for nothing
        END IF;
        PERFORM FROM "{{schema}}"."outbox_topic" AS p
        WHERE p.topic = own.next
          AND p.unavailable_since = own.probing.unavailable_since AND p.rests_until = own.probing.rests_until
          AND NOT p.paused AND p.probe_token IS NOT DISTINCT FROM own.probing.probe_token
        FOR NO KEY UPDATE SKIP LOCKED;
        is_locked := FOUND;
        IF own.probing.state = 'ended' THEN
            IF own.is_locked THEN
                UPDATE "{{schema}}"."outbox_topic" AS p
                SET unavailable_since = NULL, rests_until = NULL, rest = NULL, cause = NULL, probe = NULL,
                    probe_token = NULL, probe_attempt = NULL
                WHERE p.topic = own.next;
                available := own.available || own.next;
                available_since := own.available_since || own.probing.unavailable_since::timestamptz;
            ELSIF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_topic"'::pg_catalog.regclass) THEN
                CONTINUE; -- the row of the probe may only be hidden
            END IF;
            paused := array_remove(own.paused, own.next);
            free := own.free || own.next;
            IF own.lanes IS NOT NULL AND own.next <> ALL (own.lanes || own.busy) THEN -- others look below
                lanes := own.lanes || own.next;
                lanes_due := own.lanes_due || '-infinity'::timestamptz;
                lanes_id := own.lanes_id || '00000000-0000-0000-0000-000000000000'::uuid;
                rooms := own.rooms || own.batch;
            END IF;
            CONTINUE;
        END IF;
        CONTINUE WHEN NOT own.is_locked;
        SELECT r.ctid, r.id, r.attempts + 1 AS attempt INTO own.probing
        FROM "{{schema}}"."outbox" AS r
        WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND left(r."topic", 255) = own.next AND r.due_at <= own.began
        ORDER BY left(r."topic", 255), r.due_at, r.id
        LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            is_hungry := true;
            CONTINUE;
        END IF;
        of_lanes := own.of_lanes || own.probing.ctid;
        probes := own.probes || own.probing.id;
        UPDATE "{{schema}}"."outbox_topic" AS p
        SET probe = own.probing.id, probe_token = $1, probe_attempt = own.probing.attempt,
            rests_until = clock_timestamp() + (p.first_rest) * (1 - 0.2 * random())
        WHERE p.topic = own.next;
    END LOOP;
    probed := cardinality(own.of_lanes);

    IF own.asks OR own.lanes IS NULL THEN
        SELECT left(r."topic", 255) INTO own.next
        FROM "{{schema}}"."outbox" AS r
        WHERE r.completed_at IS NULL AND r.aside AND r.status = 0
        ORDER BY left(r."topic", 255), r.due_at, r.id
        LIMIT 1;
        WHILE own.next IS NOT NULL LOOP
            IF own.next <> ALL (own.paused) THEN
                opened := own.opened || own.next;
            END IF;
            SELECT left(r."topic", 255) INTO own.next
            FROM "{{schema}}"."outbox" AS r
            WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND left(r."topic", 255) > own.next
            ORDER BY left(r."topic", 255), r.due_at, r.id
            LIMIT 1;
        END LOOP;
        IF own.lanes IS NULL THEN
            lanes := own.opened;
            lanes_due := array_fill('-infinity'::timestamptz, ARRAY[cardinality(own.opened)]);
            lanes_id := array_fill('00000000-0000-0000-0000-000000000000'::uuid, ARRAY[cardinality(own.opened)]);
            rooms := array_fill(own.batch, ARRAY[cardinality(own.opened)]);
            IF own.asks IS NOT TRUE THEN
                most := 10 * own.most; -- for such a caller, no row means that there is none
            END IF;
        END IF;
    END IF;
    held := own.paused || own.busy || own.lanes;

    IF cardinality(own.lanes) > 0 THEN
        reserved := floor((own.batch - own.probed) / 2.0 + random()) + own.probed;
    END IF;
    FOR pass IN 1..2 LOOP
        LOOP
            want := own.batch - cardinality(own.taken) - greatest(own.reserved, cardinality(own.of_lanes));
            EXIT WHEN own.want < 1 OR NOT own.is_more OR cardinality(own.put_aside) >= own.most;
            looked := 0;
            FOR s IN
SELECT c.ctid, c.held, l.ord::integer AS ord, c.due_at, c.id
    FROM unnest(own.reached::timestamptz[], own.reached_id::uuid[])
        WITH ORDINALITY AS l (after_due, after_id, ord)
    CROSS JOIN LATERAL (
        SELECT r.ctid, left(r."topic", 255) = ANY (own.held) AS held, r.due_at, r.id
        FROM "{{schema}}"."outbox" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= own.began
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
        ORDER BY r.due_at, r.id
        LIMIT own.want::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT own.want::int
            LOOP
                looked := own.looked + 1;
                reached[own.s.ord] := own.s.due_at;
                reached_id[own.s.ord] := own.s.id;
                IF own.s.held THEN
                    put_aside := own.put_aside || own.s.ctid;
                ELSE
                    taken := own.taken || own.s.ctid;
                END IF;
            END LOOP;
            is_more := own.looked = own.want;
        END LOOP;
        EXIT WHEN pass = 2 OR cardinality(own.lanes) = 0;
        reserved := 0;
        want := own.batch - own.probed - cardinality(own.taken);
        IF own.want > 0 THEN
            FOR s IN
                SELECT c.ctid, l.ord::integer AS ord, c.due_at, c.id
                FROM unnest(own.lanes, own.lanes_due, own.lanes_id, own.rooms)
                    WITH ORDINALITY AS l (topic, after_due, after_id, room, ord)
                CROSS JOIN LATERAL (
                    SELECT r.ctid, r.due_at, r.id
                    FROM "{{schema}}"."outbox" AS r
                    WHERE r.completed_at IS NULL AND r.aside AND r.status = 0
                      AND left(r."topic", 255) = l.topic
                      AND (r.due_at, r.id) > (l.after_due, l.after_id)
                      AND r.due_at <= own.began
                    ORDER BY left(r."topic", 255), r.due_at, r.id
                    LIMIT least(l.room, own.want)
                    FOR NO KEY UPDATE SKIP LOCKED) AS c
                WHERE l.topic <> ALL (own.paused) AND l.room > 0
                LIMIT own.want
            LOOP
                of_lanes := own.of_lanes || own.s.ctid;
                lanes_due[own.s.ord] := own.s.due_at;
                lanes_id[own.s.ord] := own.s.id;
            END LOOP;
            is_cut := cardinality(own.of_lanes) = own.probed + own.want;
        END IF;
    END LOOP;
    IF own.is_hungry AND cardinality(own.put_aside) > 0 THEN
        is_more := true;
    END IF;

    RETURN QUERY
    SELECT 4::smallint, u.topic, NULL::integer, NULL::integer, NULL::timestamptz, NULL::uuid, NULL::"{{schema}}"."outbox"
    FROM unnest(CASE WHEN own.asks THEN own.opened ELSE own.free END) AS u (topic);
    IF cardinality(own.put_aside) > 0 THEN
        RETURN QUERY
        WITH moved AS (
            UPDATE "{{schema}}"."outbox" AS t
            SET waiting = true,
                aside = true
            WHERE t.ctid = ANY (own.put_aside)
            RETURNING left(t."topic", 255) AS topic
        )
        SELECT 5::smallint, m.topic, count(*)::integer, NULL::integer, NULL::timestamptz, NULL::uuid, NULL::"{{schema}}"."outbox"
        FROM moved AS m
        WHERE m.topic <> ALL (own.paused)
        GROUP BY m.topic;
    END IF;
    IF cardinality(own.taken) > 0 THEN
        RETURN QUERY
        WITH changed AS (
UPDATE "{{schema}}"."outbox" AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = $1::uuid,
    locked_until = clock_timestamp() + $2::interval
WHERE t.ctid = ANY (own.taken)
RETURNING t AS claimed
        )
        SELECT 1::smallint, NULL::text, NULL::integer, NULL::integer, NULL::timestamptz, NULL::uuid, c.claimed
        FROM changed AS c;
    END IF;
    IF cardinality(own.of_lanes) > 0 THEN
        RETURN QUERY
        WITH changed AS (
UPDATE "{{schema}}"."outbox" AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = $1::uuid,
    locked_until = clock_timestamp() + $2::interval,
    waiting = false,
    aside = NULL
WHERE t.ctid = ANY (own.of_lanes)
RETURNING t AS claimed
        )
        SELECT 2::smallint, left((c.claimed)."topic", 255), ((c.claimed).id = ANY (own.probes))::integer, NULL::integer,
            (c.claimed).due_at::timestamptz,
            (c.claimed).id, c.claimed
        FROM changed AS c;
    END IF;
    RETURN QUERY
    SELECT 3::smallint, NULL::text, NULL::integer, u.ord::integer, u.due, u.id, NULL::"{{schema}}"."outbox"
    FROM unnest(own.reached, own.reached_id) WITH ORDINALITY AS u (due, id, ord)
    WHERE (u.due, u.id) <> (($4)[u.ord::integer], ($5)[u.ord::integer]);
    IF cardinality(own.resting) > 0 THEN
        RETURN QUERY
        SELECT 6::smallint, p.topic, CASE WHEN p.rests_until > own.began
            THEN ceil(extract(epoch FROM p.rests_until - own.began) * 1000)::integer END, NULL::integer,
            NULL::timestamptz, NULL::uuid, NULL::"{{schema}}"."outbox"
        FROM "{{schema}}"."outbox_topic" AS p
        WHERE p.unavailable_since IS NOT NULL AND p.topic <> ALL (own.free);
        RETURN QUERY
        SELECT 7::smallint, u.topic, NULL::integer, NULL::integer, u.since, NULL::uuid, NULL::"{{schema}}"."outbox"
        FROM unnest(own.available, own.available_since) AS u (topic, since);
    END IF;
    RETURN QUERY
    SELECT 0::smallint, NULL::text, cardinality(own.paused),
        CASE WHEN own.is_cut THEN 2 WHEN own.is_more THEN 1 ELSE 0 END, NULL::timestamptz, NULL::uuid, NULL::"{{schema}}"."outbox";
END
$txwork$;

-- The topics that are paused, rest or have rows aside, with how many rows, and how long the first of them has been due.
-- Of all topics together at most $1 rows are counted, of each an equal part of that and one at least; more says that a
-- topic may have more. At most $1 topics that are paused or rest and $1 that have rows aside are named. Those with rows
-- aside are found by one step of their index for each.
CREATE FUNCTION "{{schema}}"."outbox_topics"(most integer DEFAULT 10000) RETURNS TABLE (
    lane text, topic text, paused boolean, changed_at timestamptz, aside bigint, more boolean,
    oldest_seconds double precision, unavailable_since timestamptz, rests_until timestamptz, cause text
)
LANGUAGE plpgsql STABLE
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
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'most',
            MESSAGE = 'most must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    RETURN QUERY
    WITH RECURSIVE has AS (
        (SELECT 1 AS place, ''::text AS lane, left(r."topic", 255) AS topic
        FROM "{{schema}}"."outbox" AS r
        WHERE r.completed_at IS NULL AND r.aside
        ORDER BY left(r."topic", 255), r.due_at, r.id
        LIMIT 1)
        UNION ALL
        SELECT h.place + 1, n.lane, n.topic
        FROM has AS h
        CROSS JOIN LATERAL (
            SELECT ''::text AS lane, left(r."topic", 255) AS topic
            FROM "{{schema}}"."outbox" AS r
            WHERE r.completed_at IS NULL AND r.aside
              AND (left(r."topic", 255))
                  > (h.topic)
            ORDER BY left(r."topic", 255), r.due_at, r.id
            LIMIT 1) AS n
        WHERE h.place < $1
    ), known AS (
        SELECT has.lane, has.topic FROM has
        UNION
        (SELECT ''::text, p.topic FROM "{{schema}}"."outbox_topic" AS p
        WHERE p.paused OR p.unavailable_since IS NOT NULL
        LIMIT $1)
    ), part AS (
        SELECT greatest($1 / greatest(count(*), 1), 1) AS most FROM known
    )
    SELECT k.lane, k.topic, coalesce(s.paused, false), s.changed_at::timestamptz, a.aside, a.aside >= part.most,
        coalesce(extract(epoch FROM now() - a.due_at), 0)::double precision, s.unavailable_since::timestamptz,
        s.rests_until::timestamptz, s.cause
    FROM known AS k
    CROSS JOIN part
    LEFT JOIN "{{schema}}"."outbox_topic" AS s ON s.topic = k.topic
    CROSS JOIN LATERAL (
        SELECT count(*) AS aside, min(b.due_at) AS due_at
        FROM (
            SELECT r.due_at
            FROM "{{schema}}"."outbox" AS r
            WHERE r.completed_at IS NULL AND r.aside
              AND left(r."topic", 255) = k.topic
            ORDER BY left(r."topic", 255), r.due_at, r.id
            LIMIT part.most) AS b) AS a
    ORDER BY k.lane COLLATE "C", k.topic COLLATE "C";
END
$txwork$;

-- Shows the state of topics to all roles, if the table has row-level security, and lets only those change it that see
-- all rows: a pause concerns the rows of all. Without row-level security it takes that away. For the owner of the
-- tables, who calls it after each change of that.
CREATE FUNCTION "{{schema}}"."outbox_topic_policies"() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $txwork$
BEGIN
    DROP POLICY IF EXISTS txwork_read ON "{{schema}}"."outbox_topic";
    IF (SELECT c.relrowsecurity FROM pg_class AS c WHERE c.oid = '"{{schema}}"."outbox"'::regclass) THEN
        ALTER TABLE "{{schema}}"."outbox_topic" ENABLE ROW LEVEL SECURITY;
        CREATE POLICY txwork_read ON "{{schema}}"."outbox_topic" FOR SELECT USING (true);
    ELSE
        ALTER TABLE "{{schema}}"."outbox_topic" DISABLE ROW LEVEL SECURITY;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_claim_by_topic"(uuid, interval, integer, timestamptz[], uuid[], text[], text[], timestamptz[], uuid[], integer[], boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_pause"(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_resume"(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_topics"(integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_topic_policies"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_topic_changed"() FROM PUBLIC;

-- What {{schema}}.outbox_fetch returns: rows, and one end. A later version appends columns at the end.
CREATE TYPE "{{schema}}"."outbox_fetched" AS (
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
    "topic" text,
    "key" text,
    "payload" bytea,
    "dedup_key" text,
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
CREATE FUNCTION "{{schema}}"."outbox_fetch"(
    owner_token uuid,
    lease interval,
    n integer,
    cursor text DEFAULT NULL,
    heard text[] DEFAULT NULL,
    sweep boolean DEFAULT NULL
) RETURNS SETOF "{{schema}}"."outbox_fetched"
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
    result "{{schema}}"."outbox_fetched";
    busy CONSTANT text[] := '{}';
    lanes text[];
    lanes_due timestamptz[];
    lanes_id uuid[];
    rooms integer[];
    asks boolean;
    known text;
    rest_in double precision;
    began CONSTANT timestamptz := clock_timestamp();
    paused text[]; -- or they rest
    resting text[];
    ripe text[] := '{}';
    free text[] := '{}'; -- what rested when this call began, and rests no more
    available text[] := '{}'; -- what of these it has opened
    available_since timestamptz[] := '{}';
    probes uuid[] := '{}';
    probing record;
    is_locked boolean;
    probed integer := 0;
    is_hungry boolean := false;
    held text[];
    opened text[] := '{}';
    next text;
    reserved integer := 0;
    want integer;
    looked integer;
    is_more boolean := true;
    is_cut boolean := false;
    most integer := 1000;
    s record;
    taken tid[] := '{}';
    of_lanes tid[] := '{}';
    put_aside tid[] := '{}';
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox_topic"'::pg_catalog.regclass) THEN
        IF EXISTS (
            SELECT FROM pg_catalog.unnest(ARRAY['"{{schema}}"."outbox_topic"'::pg_catalog.regclass]) AS s (id)
            WHERE (SELECT bool_or(p.polname = 'txwork_read') AND bool_and(p.polpermissive) FROM pg_catalog.pg_policy AS p
                WHERE p.polrelid = s.id) IS NOT TRUE)
        THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox_topic or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
        END IF;
    END IF;
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
    lanes := '{}';
    lanes_due := '{}';
    lanes_id := '{}';

    digest := left(encode(sha256(convert_to(jsonb_build_array('{{schema}}.outbox')::text, 'UTF8')), 'hex'), 16);
    IF $4 IS NOT NULL THEN
        IF (octet_length($4) <= 8192 AND $4 ~ '^[0-9]{1,9} [0-9a-f]{16}( [^ ]+)*$') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'cursor',
            MESSAGE = 'cursor is not what an earlier call has returned',
            HINT = 'Pass the cursor of your last call that committed, or NULL to begin anew.';
    END IF;
        fields := string_to_array($4, ' ');
        IF own.fields[1] = '1' AND own.fields[2] = own.digest THEN
            IF ($4 ~ concat('^[0-9]+ [0-9a-f]{16} [0-9]{1,17} [0-9]{1,12} [01] [0-9]{1,6}( (-|-?[0-9]{1,17})/[0-9a-f]{32}){', cardinality(own.place), '}( (-|-?[0-9]{1,17})/[0-9a-f]{32}/([0-9a-f]{2})+)*$')) IS NOT TRUE THEN
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
                IF own.s.topic <> '' THEN
                    lanes := own.lanes || own.s.topic;
                    lanes_due := own.lanes_due || own.s.due;
                    lanes_id := own.lanes_id || own.s.id;
                    CONTINUE;
                END IF;
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
            bool_or(starts_with(h.payload, 'front:')),
            own.is_sweep OR coalesce(bool_or(h.payload = 'topic'), false)
        INTO own.heard_at, own.fronts, own.is_sweep
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
    asks := own.is_sweep;
    rooms := array_fill(own.batch, ARRAY[cardinality(own.lanes)]);
    IF own.is_sweep THEN
        lanes := NULL;
    END IF;

    SELECT coalesce(array_agg(p.topic), '{}'),
        coalesce(array_agg(p.topic) FILTER (WHERE p.unavailable_since IS NOT NULL), '{}'),
        coalesce(array_agg(p.topic ORDER BY p.rests_until)
            FILTER (WHERE p.unavailable_since IS NOT NULL AND NOT p.paused
                AND (p.probe IS NOT NULL OR (p.rests_until <= own.began OR p.rests_until > clock_timestamp() + p.longest_rest))), '{}')
    INTO own.paused, own.resting, own.ripe
    FROM "{{schema}}"."outbox_topic" AS p
    WHERE (p.paused OR p.unavailable_since IS NOT NULL);

    -- These topics have a probe, or their rest is over. What the last probe has found out is read from its row. If that
    -- says nothing, the first row of the topic is the next probe as soon as the rest is over, which begins anew with
    -- each probe. Who locks the topic writes it down. Others do not wait: they go by what the row says.
    FOREACH next IN ARRAY own.ripe LOOP
        SELECT p.unavailable_since, p.rests_until, p.probe, p.probe_token, p.probe_attempt,
            (p.rests_until <= own.began OR p.rests_until > clock_timestamp() + p.longest_rest) AS is_over, CASE WHEN p.probe IS NULL THEN 'none' ELSE coalesce((
                SELECT CASE
                    WHEN r.owner_token IS DISTINCT FROM p.probe_token THEN 'none'
                    WHEN r.status = 2 OR r.status = 3 AND r.cancelled_at IS NULL THEN 'ended'
                    WHEN r.status = 1 AND r.locked_until > clock_timestamp() THEN 'runs'
                    WHEN r.status = 0 AND r.attempts >= p.probe_attempt THEN 'ended'
                    ELSE 'none' END
                FROM "{{schema}}"."outbox" AS r
                WHERE r.id = p.probe), 'ended') END AS state
        INTO own.probing
        FROM "{{schema}}"."outbox_topic" AS p
        WHERE p.topic = own.next;
        CONTINUE WHEN own.probing.state IS NULL OR own.probing.state = 'runs'
            OR own.probing.state = 'none'
                AND (own.probing.is_over IS NOT TRUE OR cardinality(own.probes) = own.batch);
        IF own.probing.state = 'none' AND NOT EXISTS (
            SELECT FROM "{{schema}}"."outbox" AS r
            WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND left(r."topic", 255) = own.next AND r.due_at <= own.began) THEN
            is_hungry := true; -- the next claim has what this one sets aside
            CONTINUE; -- and no row of the topic is locked for nothing
        END IF;
        PERFORM FROM "{{schema}}"."outbox_topic" AS p
        WHERE p.topic = own.next
          AND p.unavailable_since = own.probing.unavailable_since AND p.rests_until = own.probing.rests_until
          AND NOT p.paused AND p.probe_token IS NOT DISTINCT FROM own.probing.probe_token
        FOR NO KEY UPDATE SKIP LOCKED;
        is_locked := FOUND;
        IF own.probing.state = 'ended' THEN
            IF own.is_locked THEN
                UPDATE "{{schema}}"."outbox_topic" AS p
                SET unavailable_since = NULL, rests_until = NULL, rest = NULL, cause = NULL, probe = NULL,
                    probe_token = NULL, probe_attempt = NULL
                WHERE p.topic = own.next;
                available := own.available || own.next;
                available_since := own.available_since || own.probing.unavailable_since::timestamptz;
            ELSIF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_topic"'::pg_catalog.regclass) THEN
                CONTINUE; -- the row of the probe may only be hidden
            END IF;
            paused := array_remove(own.paused, own.next);
            free := own.free || own.next;
            IF own.lanes IS NOT NULL AND own.next <> ALL (own.lanes || own.busy) THEN -- others look below
                lanes := own.lanes || own.next;
                lanes_due := own.lanes_due || '-infinity'::timestamptz;
                lanes_id := own.lanes_id || '00000000-0000-0000-0000-000000000000'::uuid;
                rooms := own.rooms || own.batch;
            END IF;
            CONTINUE;
        END IF;
        CONTINUE WHEN NOT own.is_locked;
        SELECT r.ctid, r.id, r.attempts + 1 AS attempt INTO own.probing
        FROM "{{schema}}"."outbox" AS r
        WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND left(r."topic", 255) = own.next AND r.due_at <= own.began
        ORDER BY left(r."topic", 255), r.due_at, r.id
        LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            is_hungry := true;
            CONTINUE;
        END IF;
        of_lanes := own.of_lanes || own.probing.ctid;
        probes := own.probes || own.probing.id;
        UPDATE "{{schema}}"."outbox_topic" AS p
        SET probe = own.probing.id, probe_token = $1, probe_attempt = own.probing.attempt,
            rests_until = clock_timestamp() + (p.first_rest) * (1 - 0.2 * random())
        WHERE p.topic = own.next;
    END LOOP;
    probed := cardinality(own.of_lanes);

    IF own.asks OR own.lanes IS NULL THEN
        SELECT left(r."topic", 255) INTO own.next
        FROM "{{schema}}"."outbox" AS r
        WHERE r.completed_at IS NULL AND r.aside AND r.status = 0
        ORDER BY left(r."topic", 255), r.due_at, r.id
        LIMIT 1;
        WHILE own.next IS NOT NULL LOOP
            IF own.next <> ALL (own.paused) THEN
                opened := own.opened || own.next;
            END IF;
            SELECT left(r."topic", 255) INTO own.next
            FROM "{{schema}}"."outbox" AS r
            WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND left(r."topic", 255) > own.next
            ORDER BY left(r."topic", 255), r.due_at, r.id
            LIMIT 1;
        END LOOP;
        IF own.lanes IS NULL THEN
            lanes := own.opened;
            lanes_due := array_fill('-infinity'::timestamptz, ARRAY[cardinality(own.opened)]);
            lanes_id := array_fill('00000000-0000-0000-0000-000000000000'::uuid, ARRAY[cardinality(own.opened)]);
            rooms := array_fill(own.batch, ARRAY[cardinality(own.opened)]);
            IF own.asks IS NOT TRUE THEN
                most := 10 * own.most; -- for such a caller, no row means that there is none
            END IF;
        END IF;
    END IF;
    held := own.paused || own.busy || own.lanes;

    IF cardinality(own.lanes) > 0 THEN
        reserved := floor((own.batch - own.probed) / 2.0 + random()) + own.probed;
    END IF;
    FOR pass IN 1..2 LOOP
        LOOP
            want := own.batch - cardinality(own.taken) - greatest(own.reserved, cardinality(own.of_lanes));
            EXIT WHEN own.want < 1 OR NOT own.is_more OR cardinality(own.put_aside) >= own.most;
            looked := 0;
            FOR s IN
SELECT c.ctid, c.held, l.ord::integer AS ord, c.due_at, c.id
    FROM unnest(own.reached::timestamptz[], own.reached_id::uuid[])
        WITH ORDINALITY AS l (after_due, after_id, ord)
    CROSS JOIN LATERAL (
        SELECT r.ctid, left(r."topic", 255) = ANY (own.held) AS held, r.due_at, r.id
        FROM "{{schema}}"."outbox" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= own.began
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
        ORDER BY r.due_at, r.id
        LIMIT own.want::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT own.want::int
            LOOP
                looked := own.looked + 1;
                reached[own.s.ord] := own.s.due_at;
                reached_id[own.s.ord] := own.s.id;
                IF own.s.held THEN
                    put_aside := own.put_aside || own.s.ctid;
                ELSE
                    taken := own.taken || own.s.ctid;
                END IF;
            END LOOP;
            is_more := own.looked = own.want;
        END LOOP;
        EXIT WHEN pass = 2 OR cardinality(own.lanes) = 0;
        reserved := 0;
        want := own.batch - own.probed - cardinality(own.taken);
        IF own.want > 0 THEN
            FOR s IN
                SELECT c.ctid, l.ord::integer AS ord, c.due_at, c.id
                FROM unnest(own.lanes, own.lanes_due, own.lanes_id, own.rooms)
                    WITH ORDINALITY AS l (topic, after_due, after_id, room, ord)
                CROSS JOIN LATERAL (
                    SELECT r.ctid, r.due_at, r.id
                    FROM "{{schema}}"."outbox" AS r
                    WHERE r.completed_at IS NULL AND r.aside AND r.status = 0
                      AND left(r."topic", 255) = l.topic
                      AND (r.due_at, r.id) > (l.after_due, l.after_id)
                      AND r.due_at <= own.began
                    ORDER BY left(r."topic", 255), r.due_at, r.id
                    LIMIT least(l.room, own.want)
                    FOR NO KEY UPDATE SKIP LOCKED) AS c
                WHERE l.topic <> ALL (own.paused) AND l.room > 0
                LIMIT own.want
            LOOP
                of_lanes := own.of_lanes || own.s.ctid;
                lanes_due[own.s.ord] := own.s.due_at;
                lanes_id[own.s.ord] := own.s.id;
            END LOOP;
            is_cut := cardinality(own.of_lanes) = own.probed + own.want;
        END IF;
    END LOOP;
    IF own.is_hungry AND cardinality(own.put_aside) > 0 THEN
        is_more := true;
    END IF;
    IF cardinality(own.put_aside) > 0 THEN
        WITH moved AS (
            UPDATE "{{schema}}"."outbox" AS t
            SET waiting = true,
                aside = true
            WHERE t.ctid = ANY (own.put_aside)
            RETURNING left(t."topic", 255) AS topic
        )
        SELECT coalesce(array_agg(DISTINCT m.topic), '{}') INTO own.opened
        FROM moved AS m
        WHERE m.topic <> ALL (own.paused);
    ELSE
        opened := '{}';
    END IF;
    IF NOT own.is_cut THEN
        lanes := '{}';
        lanes_due := '{}';
        lanes_id := '{}';
    ELSE -- each topic has its turn
        lanes := own.lanes[2:] || own.lanes[1];
        lanes_due := own.lanes_due[2:] || own.lanes_due[1];
        lanes_id := own.lanes_id[2:] || own.lanes_id[1];
    END IF;
    FOREACH known IN ARRAY own.opened LOOP
        IF own.known <> ALL (own.lanes) THEN
            lanes := own.known || own.lanes;
            lanes_due := '-infinity'::timestamptz || own.lanes_due;
            lanes_id := own.nobody || own.lanes_id;
        END IF;
    END LOOP;
    is_full := own.is_more OR own.is_cut OR cardinality(own.opened) > 0;
    IF cardinality(own.resting) > 0 THEN
        SELECT min(CASE WHEN p.rests_until > own.began THEN extract(epoch FROM p.rests_until - own.began)
            ELSE 5 END)
        INTO own.rest_in
        FROM "{{schema}}"."outbox_topic" AS p
        WHERE p.unavailable_since IS NOT NULL AND NOT p.paused AND p.topic <> ALL (own.free);
        resting := ARRAY(SELECT unnest(own.resting) EXCEPT SELECT unnest(own.free));
    END IF;
    got := cardinality(own.taken) + cardinality(own.of_lanes);

    IF own.got > 0 THEN
        RETURN QUERY
        WITH changed AS (
UPDATE "{{schema}}"."outbox" AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = $1::uuid,
    locked_until = clock_timestamp() + $2::interval
WHERE t.ctid = ANY (own.taken)
RETURNING t.*
        ), of_lanes AS (
UPDATE "{{schema}}"."outbox" AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = $1::uuid,
    locked_until = clock_timestamp() + $2::interval,
    waiting = false,
    aside = NULL
WHERE t.ctid = ANY (own.of_lanes)
RETURNING t.*
        )
        SELECT 'row', (row_number() OVER ())::integer, c.id, c.locked_until::timestamptz, c.due_at::timestamptz,
            c.created_at::timestamptz, c.attempts, c.max_attempts, coalesce(pg_catalog."substring"(c.headers OPERATOR(pg_catalog.->>) 'txwork-lost-together', '^[0-9]{1,4}$')::bigint, 0)::integer, c.headers,
            c."topic",
            c."key",
            c."payload",
            c."dedup_key",
            c."concurrency_key",
            NULL::double precision, NULL::boolean, NULL, NULL
        FROM (
            SELECT c.*
            FROM (SELECT * FROM changed UNION ALL SELECT * FROM of_lanes) AS c
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
    IF NOT own.is_full AND cardinality(own.paused) > 0 THEN
        result.held := CASE WHEN cardinality(own.paused) > cardinality(own.resting) THEN 'paused'
            ELSE 'unavailable' END;
    END IF;
    IF NOT own.is_refused AND NOT own.result.more THEN
        SELECT d.seconds INTO own.due_in
        FROM (
SELECT own.began AS asked_at, extract(epoch FROM min(d.due_at) - clock_timestamp())::float8 AS seconds,
    min(d.due_at) AS due_at
FROM (SELECT) AS l
CROSS JOIN LATERAL (
    SELECT r.due_at
    FROM "{{schema}}"."outbox" AS r
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
                THEN greatest((own.sweep_at - own.clock) / 1000000.0, 0.25) END,
            own.rest_in);
    END IF;
    result.cursor := concat_ws(' ', '1', own.digest, own.sweep_at, own.sweep_took, own.unswept,
        own.turn, (
        SELECT string_agg(concat(CASE WHEN u.due = '-infinity' THEN '-'
            ELSE (extract(epoch FROM u.due) * 1000000)::bigint::text END, '/', replace(u.id::text, '-', '')), ' ' ORDER BY u.ord)
        FROM unnest(own.place, own.place_id) WITH ORDINALITY AS u (due, id, ord)), (
        SELECT string_agg(w.text, ' ' ORDER BY w.ord)
        FROM (
            SELECT t.text, t.ord, sum(length(t.text) + 1) OVER (ORDER BY t.ord) AS size
            FROM (
                SELECT concat(CASE WHEN u.due = '-infinity' THEN '-'
            ELSE (extract(epoch FROM u.due) * 1000000)::bigint::text END, '/', replace(u.id::text, '-', '')) || '/' || encode(convert_to(u.topic, 'UTF8'), 'hex') AS text, u.ord
                FROM unnest(own.lanes, own.lanes_due, own.lanes_id) WITH ORDINALITY
                    AS u (topic, due, id, ord)) AS t) AS w
        WHERE w.size <= 4096));
    RETURN NEXT own.result;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_fetch"(uuid, interval, integer, text, text[], boolean) FROM PUBLIC;

-- Settles rows with one outcome, in the order of their ids, which are sorted and of which none is repeated. It returns
-- the result of each row that did not become what is usual, see settle_one.sql. All settles of the other functions are
-- made here, so each statement is there once. With strict, ids that the claim does not hold are an error.
CREATE FUNCTION "{{schema}}"."outbox_settle_rows"(outcome text, ids uuid[], tokens uuid[], delays bigint[], times timestamptz[], errors text[], strict boolean) RETURNS jsonb
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
UPDATE "{{schema}}"."outbox" AS t
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
        ELSE
        WITH settled AS (
UPDATE "{{schema}}"."outbox" AS t
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
        END IF;
    WHEN 'retry' THEN
        WITH settled AS (
UPDATE "{{schema}}"."outbox" AS t
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'snooze' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."outbox" AS t
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
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'wait_until' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."outbox" AS t
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
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'leave' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."outbox" AS t
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'release' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."outbox" AS t
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
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'fail' THEN
        WITH settled AS (
UPDATE "{{schema}}"."outbox" AS t
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'cancel' THEN
        WITH settled AS (
UPDATE "{{schema}}"."outbox" AS t
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'unavailable' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."outbox" AS t
    SET status = CASE WHEN t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.cancelled_at IS NOT NULL THEN t.due_at ELSE CASE WHEN coalesce(octet_length(left(t."topic", 255)) BETWEEN 1 AND 255, false)
        AND NOT (pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_topic"'::pg_catalog.regclass)) THEN t.due_at ELSE clock_timestamp() + (interval '10000 ms') * (1 - 0.2 * random()) END END,
    completed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        waiting = t.cancelled_at IS NULL AND coalesce(octet_length(left(t."topic", 255)) BETWEEN 1 AND 255, false)
        AND NOT (pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_topic"'::pg_catalog.regclass)),
        aside = CASE WHEN t.cancelled_at IS NULL AND coalesce(octet_length(left(t."topic", 255)) BETWEEN 1 AND 255, false)
        AND NOT (pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_topic"'::pg_catalog.regclass)) THEN true END,
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END,
        last_error = CASE
            WHEN s.error IS NULL OR t.cancelled_at IS NOT NULL OR starts_with(t.last_error, s.error || ' since ')
            THEN t.last_error
            ELSE s.error || ' since ' || to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END
    FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), unnest($4::bigint[]), unnest($6::text[]),
            generate_subscripts('{}'::int[], 1)) AS s (id, token, delay, error)
    WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled,
        CASE WHEN coalesce(octet_length(left(t."topic", 255)) BETWEEN 1 AND 255, false)
        AND NOT (pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_topic"'::pg_catalog.regclass)) THEN left(t."topic", 255) END AS topic,
        s.token, s.error
), resting AS MATERIALIZED ( -- so that only these try the lock
    SELECT c.topic, min(c.error) AS error
    FROM changed AS c
    WHERE c.topic IS NOT NULL AND NOT EXISTS (
        SELECT FROM "{{schema}}"."outbox_topic" AS k
        WHERE k.topic = c.topic
          AND k.unavailable_since IS NOT NULL AND (k.probe, k.probe_token) IS DISTINCT FROM (c.id, c.token))
    GROUP BY c.topic
    ORDER BY c.topic
), known AS MATERIALIZED ( -- those of them whose state nobody else is writing
    SELECT c.topic
    FROM resting AS c
    CROSS JOIN LATERAL (
        SELECT FROM "{{schema}}"."outbox_topic" AS k
        WHERE k.topic = c.topic
        FOR NO KEY UPDATE SKIP LOCKED) AS k
), state AS (
    INSERT INTO "{{schema}}"."outbox_topic" AS p
        (topic, unavailable_since, rests_until, rest, cause)
    SELECT c.topic, clock_timestamp(), clock_timestamp() + (interval '500 ms') * (1 - 0.2 * random()),
        interval '500 ms', coalesce(c.error, 'no reason given')
    FROM resting AS c
    WHERE EXISTS (
            SELECT FROM known AS k
            WHERE k.topic = c.topic)
       OR NOT EXISTS (
            SELECT FROM "{{schema}}"."outbox_topic" AS k
            WHERE k.topic = c.topic)
        AND pg_try_advisory_xact_lock(hashtextextended(concat_ws(' ', '"{{schema}}"."outbox_topic"', c.topic), 0))
    ON CONFLICT (topic) DO UPDATE
    SET unavailable_since = coalesce(p.unavailable_since, excluded.unavailable_since),
        rest = CASE WHEN p.unavailable_since IS NULL THEN p.first_rest ELSE least(2 * p.rest, p.longest_rest) END,
        rests_until = clock_timestamp() + (CASE WHEN p.unavailable_since IS NULL THEN p.first_rest ELSE least(2 * p.rest, p.longest_rest) END) * (1 - 0.2 * random()),
        cause = excluded.cause,
        probe = NULL,
        probe_token = NULL,
        probe_attempt = NULL
    WHERE p.unavailable_since IS NULL OR (p.probe, p.probe_token) IN (SELECT c.id, c.token FROM changed AS c)
    RETURNING p.topic,
        p.unavailable_since::timestamptz >= statement_timestamp() AS begun
), settled AS (
SELECT changed.id, changed.status, changed.cancelled, CASE WHEN state.begun THEN changed.topic END AS begun FROM changed
LEFT JOIN state ON state.topic = changed.topic)
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
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

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_settle_rows"(text, uuid[], uuid[], bigint[], timestamptz[], text[], boolean) FROM PUBLIC;

-- Settles rows with an outcome for each, kind by kind. It tells what each row became: see settle_one.sql. What an
-- element says is checked before anything is written or locked.
CREATE FUNCTION "{{schema}}"."outbox_settle"(outcomes jsonb, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
                || "{{schema}}"."outbox_settle_rows"(own.kind, own.sorted, own.tokens, own.delays, own.times, own.errors, false);
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

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_settle"(jsonb, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."outbox_ack"(owner_token uuid, ids uuid[], strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."outbox_settle_rows"('ack', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, NULL, $3);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'done')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_ack"(uuid, uuid[], boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."outbox_retry"(owner_token uuid, ids uuid[], delay interval DEFAULT NULL, error text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."outbox_settle_rows"('retry', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        array_fill((extract(epoch FROM $3) * 1000000)::bigint, ARRAY[cardinality(own.sorted)]), NULL, array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_retry"(uuid, uuid[], interval, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."outbox_snooze"(owner_token uuid, ids uuid[], delay interval, reason text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."outbox_settle_rows"('snooze', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        array_fill((extract(epoch FROM $3) * 1000000)::bigint, ARRAY[cardinality(own.sorted)]), NULL, array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_snooze"(uuid, uuid[], interval, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."outbox_wait_until"(owner_token uuid, ids uuid[], at timestamptz, reason text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."outbox_settle_rows"('wait_until', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, array_fill($3, ARRAY[cardinality(own.sorted)]), array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_wait_until"(uuid, uuid[], timestamptz, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."outbox_release"(owner_token uuid, ids uuid[], strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."outbox_settle_rows"('release', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, NULL, $3);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_release"(uuid, uuid[], boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."outbox_fail"(owner_token uuid, ids uuid[], error text, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."outbox_settle_rows"('fail', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, array_fill($3, ARRAY[cardinality(own.sorted)]), $4);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'failed')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_fail"(uuid, uuid[], text, boolean) FROM PUBLIC;

-- Renews leases, and tells of each row whether that was done: extended; cancelled, which is extended, too, but a cancel
-- has been asked for; busy if another transaction has the row locked, such as its own settle; lost or gone.
CREATE FUNCTION "{{schema}}"."outbox_extend"(owner_token uuid, ids uuid[], lease interval, within interval DEFAULT NULL) RETURNS TABLE (place integer, id uuid, result text, locked_until timestamptz)
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
UPDATE "{{schema}}"."outbox" AS t
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
    JOIN "{{schema}}"."outbox" AS r ON r.id = h.id
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = ANY (own.sorted::uuid[]) AND t.id = s.id) AS k;
        END IF;
    RETURN QUERY
    SELECT u.place::integer, u.id, u.result, CASE WHEN u.result IN ('extended', 'cancelled') THEN own.until END
    FROM (
        SELECT v.place, v.id, coalesce(own.answers ->> v.id::text, 'extended') AS result
        FROM unnest($2) WITH ORDINALITY AS v (id, place)) AS u;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_extend"(uuid, uuid[], interval, interval) FROM PUBLIC;

-- The ack of one row in the transaction of its effects: an error unless the claim holds the row, so that the effects
-- are rolled back, too. A repetition is one: what an earlier transaction did with this token has its effects.
CREATE FUNCTION "{{schema}}"."outbox_complete"(owner_token uuid, id uuid) RETURNS void
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
    SELECT a.result INTO told FROM "{{schema}}"."outbox_ack"($1, ARRAY[$2]) AS a;
    IF told IS DISTINCT FROM 'done' THEN
        RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'id',
            MESSAGE = format('id is of a row that the claim does not hold: %s is %s', $2, told),
            HINT = 'Roll back: another worker has such a row, or it has ended.';
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_complete"(uuid, uuid) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_reap_expired"(max_rows integer DEFAULT 1000) RETURNS TABLE (requeued integer, failed integer, cancelled integer, dead_letters jsonb)
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
    FROM "{{schema}}"."outbox" AS r
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
    FROM "{{schema}}"."outbox" AS r
    WHERE EXISTS (SELECT FROM taken)
      AND r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND substring(uuid_send(r.owner_token) FROM 1 FOR 6) = ANY (ARRAY(SELECT k.process FROM taken AS k))
      AND r.id <> ALL (ARRAY(SELECT k.id FROM taken AS k))
), left_alone AS (
    UPDATE "{{schema}}"."outbox" AS t
    SET headers = coalesce(t.headers, '{}'::jsonb)
        || jsonb_build_object('txwork-lost-beside', t.owner_token::text)
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM "{{schema}}"."outbox" AS r
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
    UPDATE "{{schema}}"."outbox" AS t
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
        'labels', jsonb_build_array(t."topic")) END AS dead_letter
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled,
       jsonb_agg(changed.dead_letter) FILTER (WHERE changed.dead_letter IS NOT NULL) AS dead_letters
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_reap_expired"(integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_stats"() RETURNS TABLE (ready bigint, scheduled bigint, in_progress bigint, expired bigint, waiting bigint, failed bigint, cancelled bigint, oldest_ready_seconds double precision, partial boolean)
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
       (SELECT count(*) FROM "{{schema}}"."outbox" AS w WHERE w.completed_at IS NULL AND w.waiting) AS waiting,
       (SELECT count(*) FROM "{{schema}}"."outbox" AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NULL) AS failed,
       (SELECT count(*) FROM "{{schema}}"."outbox" AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NOT NULL) AS cancelled,
       coalesce(extract(epoch FROM now() - min(r.due_at) FILTER (WHERE r.status = 0 AND r.due_at <= now())), 0)::float8
           AS oldest_ready_seconds,
       row_security_active('"{{schema}}"."outbox"'::regclass) AS partial
FROM "{{schema}}"."outbox" AS r
WHERE r.completed_at IS NULL AND NOT r.waiting;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_stats"() FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_run_now"(ids uuid[]) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."outbox" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."outbox" AS t
    SET due_at = now()::timestamptz
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 0
      AND (t.due_at > now()::timestamptz OR t.due_at < now()::timestamptz AND NOT true::boolean)
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_run_now"(uuid[]) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_reschedule"(ids uuid[], at timestamptz) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."outbox" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."outbox" AS t
    SET due_at = $2::timestamptz
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 0
      AND (t.due_at > $2::timestamptz OR t.due_at < $2::timestamptz AND NOT false::boolean)
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_reschedule"(uuid[], timestamptz) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_redrive"(ids uuid[], actor text DEFAULT NULL) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."outbox" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."outbox" AS t
    SET status = 0,
        waiting = t."concurrency_key" IS NOT NULL,
        aside = NULL,
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
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_redrive"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_cancel"(ids uuid[], reason text) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."outbox" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."outbox" AS t
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
    HAVING CASE WHEN bool_or(changed.status = 1) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', 'cancel') ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_cancel"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_discard"(ids uuid[], reason text) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."outbox" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH hit AS (
UPDATE "{{schema}}"."outbox" AS t
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_discard"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_delete"(ids uuid[]) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."outbox" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR UPDATE;
    RETURN QUERY
WITH hit AS (
DELETE FROM "{{schema}}"."outbox" AS t
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_delete"(uuid[]) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."outbox_unblock"(ids uuid[]) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."outbox" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH hit AS (
UPDATE "{{schema}}"."outbox" AS t SET key_policy = 0
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
LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_unblock"(uuid[]) FROM PUBLIC;

-- Nothing -> Ready, in the caller's transaction: one row, as Table.Insert writes it, for programs in any language. It
-- runs with its caller's rights, so the rights on the table's columns and row-level security apply as to an INSERT.
--
-- An id that is not given is a UUID version 7, so that keys grow with time. For a row with unique values that are
-- taken, it returns the row that is there. If that is deleted meanwhile, the values are free, and it tries again.
--
-- #variable_conflict: the names in ON CONFLICT are columns. Parameters are written as $1, $2, ....
CREATE FUNCTION "{{schema}}"."outbox_enqueue"(
    "topic" text,
    "payload" bytea,
    "key" text DEFAULT NULL,
    "dedup_key" text DEFAULT NULL,
    "ordered" boolean DEFAULT true,
    "on_failure" text DEFAULT 'block',
    "scheduled_at" timestamptz DEFAULT NULL,
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
    own CONSTANT uuid := coalesce($10, encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid);
BEGIN
    IF ($8 IS NULL OR jsonb_typeof($8) = 'object') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'headers',
            MESSAGE = 'headers must be a JSON object',
            HINT = 'Give an object of texts, or NULL for none.';
    END IF;
    IF ($7 IS NULL OR $7 BETWEEN '1970-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'scheduled_at',
            MESSAGE = 'scheduled_at must be between 1970 and 9999',
            HINT = 'NULL and a time in the past mean now.';
    END IF;
    IF ($9 IS NULL OR $9 BETWEEN 1 AND 1000000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_attempts',
            MESSAGE = 'max_attempts must be between 1 and 1000000',
            HINT = 'NULL is the table''s own.';
    END IF;
    IF ($6 IN ('block', 'park', 'skip')) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'on_failure',
            MESSAGE = 'on_failure must be block, park or skip',
            HINT = 'Leave it out for block.';
    END IF;
    IF ($5 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ordered',
            MESSAGE = 'ordered must be true or false',
            HINT = 'Leave it out for true.';
    END IF;
    IF (octet_length($1) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'topic',
            MESSAGE = 'topic must have 1 to 255 bytes, and must not be NULL',
            HINT = 'Such a row could not be stored.';
    END IF;
    IF ($3 IS NULL OR octet_length($3) <= 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'key',
            MESSAGE = 'key must have at most 255 bytes',
            HINT = 'NULL is none.';
    END IF;
    IF (octet_length($2) <= 1048576) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'payload',
            MESSAGE = 'payload must have at most 1048576 bytes, and must not be NULL',
            HINT = 'Such a row could not be stored.';
    END IF;
    IF ($4 IS NULL OR octet_length($4) <= 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'dedup_key',
            MESSAGE = 'dedup_key must have at most 255 bytes',
            HINT = 'NULL is none.';
    END IF;
    IF $8 IS NOT NULL THEN
    IF ((SELECT coalesce(sum(octet_length(h.name) + coalesce(octet_length(h.value), 0)), 0) FROM jsonb_each_text($8) AS h (name, value)) <= 65536) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'headers',
            MESSAGE = 'headers must have at most 65536 bytes',
            HINT = 'Put what is larger into the payload.';
    END IF;
    END IF;
    IF (CASE WHEN $5 THEN nullif($3, '') END) IS NOT NULL THEN
        PERFORM WHERE CASE WHEN pg_catalog.texteq(pg_catalog.current_setting('session_replication_role'), 'replica') THEN pg_catalog.concat('txwork refuses the session: session_replication_role is ', pg_catalog.current_setting('session_replication_role'))::int END IS NULL;
    END IF;
    duplicate := false;
    IF NOT ((nullif($4, '')) IS NOT NULL) THEN
        id := own;
        INSERT INTO "{{schema}}"."outbox" (id, due_at, max_attempts, headers, "topic", "key", "payload", "dedup_key", "concurrency_key", "key_limit", "key_policy")
        VALUES (id,
            greatest($7, now()),
            coalesce($9, 130),
            nullif($8 - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent'], '{}'),
            $1,
            nullif($3, ''),
            $2,
            nullif($4, ''),
            CASE WHEN $5 THEN nullif($3, '') END,
            CASE WHEN CASE WHEN $5 THEN nullif($3, '') END IS NOT NULL THEN 0 END,
            CASE WHEN CASE WHEN $5 THEN nullif($3, '') END IS NOT NULL THEN CASE $6 WHEN 'block' THEN 1 WHEN 'park' THEN 2 WHEN 'skip' THEN 0 END END);
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
                MESSAGE = '{{schema}}.outbox took a row and stored none: does a trigger, a rule or a policy of the '
                    'table suppress it, or hide the row that has its unique values?';
        END IF;
        RETURN;
    END IF;
    FOR attempt IN 1..10 LOOP
        id := own;
        INSERT INTO "{{schema}}"."outbox" (id, due_at, max_attempts, headers, "topic", "key", "payload", "dedup_key", "concurrency_key", "key_limit", "key_policy")
        VALUES (id,
            greatest($7, now()),
            coalesce($9, 130),
            nullif($8 - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent'], '{}'),
            $1,
            nullif($3, ''),
            $2,
            nullif($4, ''),
            CASE WHEN $5 THEN nullif($3, '') END,
            CASE WHEN CASE WHEN $5 THEN nullif($3, '') END IS NOT NULL THEN 0 END,
            CASE WHEN CASE WHEN $5 THEN nullif($3, '') END IS NOT NULL THEN CASE $6 WHEN 'block' THEN 1 WHEN 'park' THEN 2 WHEN 'skip' THEN 0 END END)
        ON CONFLICT ("topic", "dedup_key")
            WHERE "topic" IS NOT NULL AND "dedup_key" IS NOT NULL DO NOTHING;
        IF FOUND THEN
            RETURN;
        END IF;
        SELECT t.id INTO id
        FROM "{{schema}}"."outbox" AS t
        WHERE t."topic" = ($1) AND t."dedup_key" = (nullif($4, ''));
        IF FOUND THEN
            duplicate := true;
            RETURN;
        END IF;
    END LOOP;
            RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
                MESSAGE = '{{schema}}.outbox took a row and stored none: does a trigger, a rule or a policy of the '
                    'table suppress it, or hide the row that has its unique values?';
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_enqueue"(text, bytea, text, text, boolean, text, timestamptz, jsonb, integer, uuid) FROM PUBLIC;

-- The same for a payload of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."outbox_enqueue"(
    "topic" text,
    "payload" text,
    "key" text DEFAULT NULL,
    "dedup_key" text DEFAULT NULL,
    "ordered" boolean DEFAULT true,
    "on_failure" text DEFAULT 'block',
    "scheduled_at" timestamptz DEFAULT NULL,
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
    FROM "{{schema}}"."outbox_enqueue"($1, convert_to($2, 'UTF8'), $3, $4, $5, $6, $7, $8, $9, $10) AS w;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_enqueue"(text, text, text, text, boolean, text, timestamptz, jsonb, integer, uuid) FROM PUBLIC;

-- The same for a payload of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."outbox_enqueue"(
    "topic" text,
    "payload" json,
    "key" text DEFAULT NULL,
    "dedup_key" text DEFAULT NULL,
    "ordered" boolean DEFAULT true,
    "on_failure" text DEFAULT 'block',
    "scheduled_at" timestamptz DEFAULT NULL,
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
    FROM "{{schema}}"."outbox_enqueue"($1, convert_to($2::text, 'UTF8'), $3, $4, $5, $6, $7, $8, $9, $10) AS w;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_enqueue"(text, json, text, text, boolean, text, timestamptz, jsonb, integer, uuid) FROM PUBLIC;

-- The same for a payload of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."outbox_enqueue"(
    "topic" text,
    "payload" jsonb,
    "key" text DEFAULT NULL,
    "dedup_key" text DEFAULT NULL,
    "ordered" boolean DEFAULT true,
    "on_failure" text DEFAULT 'block',
    "scheduled_at" timestamptz DEFAULT NULL,
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
    FROM "{{schema}}"."outbox_enqueue"($1, convert_to($2::text, 'UTF8'), $3, $4, $5, $6, $7, $8, $9, $10) AS w;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_enqueue"(text, jsonb, text, text, boolean, text, timestamptz, jsonb, integer, uuid) FROM PUBLIC;

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
CREATE FUNCTION "{{schema}}"."outbox_enqueue_many"("rows" jsonb)
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
    a4 text[];
    a5 boolean[];
    a6 text[];
    a7 timestamptz[];
    a8 jsonb[];
    a9 integer[];
    a10 uuid[];
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
    WHERE CASE jsonb_typeof(e.value) WHEN 'object' THEN e.value - ARRAY['topic', 'payload', 'payload_text', 'payload_base64', 'key', 'dedup_key', 'ordered', 'on_failure', 'scheduled_at', 'headers', 'max_attempts', 'id'] <> '{}' OR (e.value ? 'payload')::int + (e.value ? 'payload_text')::int + (e.value ? 'payload_base64')::int > 1 ELSE true END;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rows',
            MESSAGE = format('%s, it must be an object with known fields: %s', 'rows has a wrong element ' || bad,
                left($1 ->> (bad - 1)::integer, 100)),
            HINT = 'Fields are topic, payload, payload_text, payload_base64, key, dedup_key, ordered, on_failure, scheduled_at, headers, max_attempts, id; a payload is in one of its fields.';
    END IF;
    BEGIN
        SELECT count(*)::integer, min(r.ord * 1000 + CASE
                WHEN (r.c8 IS NULL OR jsonb_typeof(r.c8) = 'object') IS NOT TRUE THEN 1
                WHEN (r.c7 IS NULL OR r.c7 BETWEEN '1970-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00') IS NOT TRUE THEN 2
                WHEN (r.c9 IS NULL OR r.c9 BETWEEN 1 AND 1000000) IS NOT TRUE THEN 3
                WHEN (r.c6 IN ('block', 'park', 'skip')) IS NOT TRUE THEN 4
                WHEN (r.c5 IS NOT NULL) IS NOT TRUE THEN 5
                WHEN (octet_length(r.c1) BETWEEN 1 AND 255) IS NOT TRUE THEN 6
                WHEN (r.c3 IS NULL OR octet_length(r.c3) <= 255) IS NOT TRUE THEN 7
                WHEN (octet_length(r.c2) <= 1048576) IS NOT TRUE THEN 8
                WHEN (r.c4 IS NULL OR octet_length(r.c4) <= 255) IS NOT TRUE THEN 9
                WHEN r.c8 IS NOT NULL AND ((SELECT coalesce(sum(octet_length(h.name) + coalesce(octet_length(h.value), 0)), 0) FROM jsonb_each_text(r.c8) AS h (name, value)) <= 65536) IS NOT TRUE THEN 10 END),
            bool_or((CASE WHEN r.c5 THEN nullif(r.c3, '') END) IS NOT NULL), bool_or((nullif(r.c4, '')) IS NOT NULL),
            array_agg(CASE WHEN (CASE WHEN r.c5 THEN nullif(r.c3, '') END) IS NOT NULL THEN hashtextextended('{{schema}}.outbox ' || (CASE WHEN r.c5 THEN nullif(r.c3, '') END), 1) END),
            array_agg(false),
            array_agg(r.c1),
            array_agg(r.c2),
            array_agg(r.c3),
            array_agg(r.c4),
            array_agg(r.c5),
            array_agg(r.c6),
            array_agg(r.c7),
            array_agg(r.c8),
            array_agg(r.c9),
            array_agg(r.id)
        INTO size, bad, keyed, holds, locks, alone, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10
        FROM (
            SELECT f.ord,
                f.f1 AS c1,
                coalesce(convert_to(f.f2::text, 'UTF8'), convert_to(f.f3, 'UTF8'), decode(f.f4, 'base64')) AS c2,
                f.f5 AS c3,
                f.f6 AS c4,
                coalesce(f.f7, true) AS c5,
                coalesce(f.f8, 'block') AS c6,
                f.f9 AS c7,
                f.f10 AS c8,
                f.f11 AS c9,
                coalesce(f.f12, (began || '7' || lpad(to_hex(f.ord >> 2), 3, '0') || to_hex(8 + (f.ord & 3)) || substr(gen_random_uuid()::text, 21))::uuid) AS id
            FROM ROWS FROM (jsonb_to_recordset($1) AS ("topic" text, "payload" jsonb, "payload_text" text, "payload_base64" text, "key" text, "dedup_key" text, "ordered" boolean, "on_failure" text, "scheduled_at" timestamptz, "headers" jsonb, "max_attempts" integer, "id" uuid))
                WITH ORDINALITY AS f (f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, ord)
            OFFSET 0) AS r;
    EXCEPTION WHEN data_exception THEN
        FOR bad IN 1..jsonb_array_length($1) LOOP -- which one is it?
            BEGIN
                PERFORM r.* FROM (
            SELECT f.ord,
                f.f1 AS c1,
                coalesce(convert_to(f.f2::text, 'UTF8'), convert_to(f.f3, 'UTF8'), decode(f.f4, 'base64')) AS c2,
                f.f5 AS c3,
                f.f6 AS c4,
                coalesce(f.f7, true) AS c5,
                coalesce(f.f8, 'block') AS c6,
                f.f9 AS c7,
                f.f10 AS c8,
                f.f11 AS c9,
                coalesce(f.f12, (began || '7' || lpad(to_hex(f.ord >> 2), 3, '0') || to_hex(8 + (f.ord & 3)) || substr(gen_random_uuid()::text, 21))::uuid) AS id
            FROM ROWS FROM (jsonb_to_recordset(jsonb_build_array($1 -> bad - 1)) AS ("topic" text, "payload" jsonb, "payload_text" text, "payload_base64" text, "key" text, "dedup_key" text, "ordered" boolean, "on_failure" text, "scheduled_at" timestamptz, "headers" jsonb, "max_attempts" integer, "id" uuid))
                WITH ORDINALITY AS f (f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, ord)) AS r;
            EXCEPTION WHEN data_exception THEN
                RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rows',
                    MESSAGE = format('%s, a value is not of its field''s type: %s', 'rows has a wrong element ' || bad, SQLERRM),
                    HINT = 'Fields are topic, payload, payload_text, payload_base64, key, dedup_key, ordered, on_failure, scheduled_at, headers, max_attempts, id; a payload is in one of its fields.';
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
                'ordered must be true or false',
                'topic must have 1 to 255 bytes, and must not be NULL',
                'key must have at most 255 bytes',
                'payload must have at most 1048576 bytes, and must not be NULL',
                'dedup_key must have at most 255 bytes',
                'headers must have at most 65536 bytes'])[bad % 1000]),
            HINT = 'Fields are topic, payload, payload_text, payload_base64, key, dedup_key, ordered, on_failure, scheduled_at, headers, max_attempts, id; a payload is in one of its fields.';
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
            INSERT INTO "{{schema}}"."outbox" (id, due_at, max_attempts, headers, "topic", "key", "payload", "dedup_key", "concurrency_key", "key_limit", "key_policy")
            SELECT s.id, greatest(s.c7, now()), coalesce(s.c9, 130), nullif(s.c8 - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent'], '{}'), s.c1, nullif(s.c3, ''), s.c2, nullif(s.c4, ''), CASE WHEN s.c5 THEN nullif(s.c3, '') END, CASE WHEN CASE WHEN s.c5 THEN nullif(s.c3, '') END IS NOT NULL THEN 0 END, CASE WHEN CASE WHEN s.c5 THEN nullif(s.c3, '') END IS NOT NULL THEN CASE s.c6 WHEN 'block' THEN 1 WHEN 'park' THEN 2 WHEN 'skip' THEN 0 END END
            FROM unnest(
                a10::uuid[],
                a1::text[],
                a2::bytea[],
                a3::text[],
                a4::text[],
                a5::boolean[],
                a6::text[],
                a7::timestamptz[],
                a8::jsonb[],
                a9::integer[],
                alone::boolean[]
            ) WITH ORDINALITY AS s (id, c1, c2, c3, c4, c5, c6, c7, c8, c9, alone, ord)
            WHERE NOT s.alone
            ORDER BY CASE WHEN NOT keyed THEN (s.c1) COLLATE "C" END, CASE WHEN NOT keyed THEN (nullif(s.c4, '')) COLLATE "C" END, s.ord
            ON CONFLICT ("topic", "dedup_key")
                WHERE "topic" IS NOT NULL AND "dedup_key" IS NOT NULL DO NOTHING
            RETURNING id
        )
        SELECT array_agg(w.id) INTO done FROM w;
    ELSE
        WITH w AS (
            INSERT INTO "{{schema}}"."outbox" (id, due_at, max_attempts, headers, "topic", "key", "payload", "dedup_key", "concurrency_key", "key_limit", "key_policy")
            SELECT s.id, greatest(s.c7, now()), coalesce(s.c9, 130), nullif(s.c8 - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent'], '{}'), s.c1, nullif(s.c3, ''), s.c2, nullif(s.c4, ''), CASE WHEN s.c5 THEN nullif(s.c3, '') END, CASE WHEN CASE WHEN s.c5 THEN nullif(s.c3, '') END IS NOT NULL THEN 0 END, CASE WHEN CASE WHEN s.c5 THEN nullif(s.c3, '') END IS NOT NULL THEN CASE s.c6 WHEN 'block' THEN 1 WHEN 'park' THEN 2 WHEN 'skip' THEN 0 END END
            FROM unnest(
                a10::uuid[],
                a1::text[],
                a2::bytea[],
                a3::text[],
                a4::text[],
                a5::boolean[],
                a6::text[],
                a7::timestamptz[],
                a8::jsonb[],
                a9::integer[],
                alone::boolean[]
            ) WITH ORDINALITY AS s (id, c1, c2, c3, c4, c5, c6, c7, c8, c9, alone, ord)
            WHERE NOT s.alone
            ORDER BY s.ord
            RETURNING id
        )
        SELECT array_agg(w.id) INTO done FROM w;
    END IF;

    IF cardinality(done) = cardinality(a10) THEN
        written := array_fill(true, ARRAY[cardinality(done)]);
        holders := a10;
    ELSE
        SELECT array_agg(g.written ORDER BY g.ord) INTO written
        FROM (
            SELECT u.ord, bool_or(u.ord IS NULL) OVER (PARTITION BY u.id) AS written
            FROM (SELECT s.id, s.ord FROM unnest(a10) WITH ORDINALITY AS s (id, ord)
                UNION ALL SELECT w.id, NULL FROM unnest(done) AS w (id)) AS u) AS g
        WHERE g.ord IS NOT NULL;
        SELECT array_agg(CASE WHEN s.written THEN s.id ELSE (SELECT t.id FROM "{{schema}}"."outbox" AS t WHERE NOT s.alone AND t."topic" = (s.c1) AND t."dedup_key" = (nullif(s.c4, ''))) END ORDER BY s.ord) INTO holders
        FROM unnest(a10, a1, a2, a3, a4, a5, a6, a7, a8, a9, written, alone) WITH ORDINALITY
            AS s (id, c1, c2, c3, c4, c5, c6, c7, c8, c9, written, alone, ord);
        BEGIN
            FOR i IN
                SELECT s.ord FROM unnest(a10, a1, a2, a3, a4, a5, a6, a7, a8, a9, holders) WITH ORDINALITY
            AS s (id, c1, c2, c3, c4, c5, c6, c7, c8, c9, holders, ord)
            WHERE s.holders IS NULL ORDER BY CASE WHEN NOT keyed THEN (s.c1) COLLATE "C" END, CASE WHEN NOT keyed THEN (nullif(s.c4, '')) COLLATE "C" END, s.ord
            LOOP
                SELECT w.* INTO one
                FROM "{{schema}}"."outbox_enqueue"(a1[i], a2[i], a3[i], a4[i], a5[i], a6[i], a7[i], a8[i], a9[i], a10[i]) AS w;
                holders[i] := one.id;
                written[i] := NOT one.duplicate;
            END LOOP;
        EXCEPTION WHEN invalid_parameter_value THEN -- what only the function for one row checks
            RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rows',
                MESSAGE = format('rows has a wrong element %s: %s', i, SQLERRM), HINT = 'Fields are topic, payload, payload_text, payload_base64, key, dedup_key, ordered, on_failure, scheduled_at, headers, max_attempts, id; a payload is in one of its fields.';
        END;
    END IF;
    RETURN QUERY
    SELECT s.ord::integer, s.id, NOT s.written, false
    FROM unnest(holders, written) WITH ORDINALITY
        AS s (id, written, ord)
    ORDER BY s.ord;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_enqueue_many"(jsonb) FROM PUBLIC;

-- One transaction of the procedure fold: each fold of the table once. The cursor says how far each fold came, so that
-- notes that are deleted but not yet vacuumed are not read again, and when the next pass from the start is due, which
-- finds notes that older transactions have written behind the cursor: after forty times as long as the last pass took,
-- and after between a second and a minute. A cursor of another table counts as none, and so does a pass that is further
-- ahead than that, as it is after a failover. The numbers are microseconds.
CREATE FUNCTION "{{schema}}"."outbox_fold_step"(
    max_notes integer, INOUT cursor text, INOUT folded integer, OUT again_in double precision, OUT busy boolean,
    OUT more boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_variable
DECLARE
    started constant timestamptz := clock_timestamp();
    own constant text := left(md5('{{schema}}.outbox'), 8);
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
    FROM "{{schema}}"."outbox_join_fold"(max_notes, CASE WHEN whole OR places[1] IS NULL THEN '-infinity'
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
    FROM "{{schema}}"."outbox_key_fold"(max_notes, CASE WHEN whole OR places[2] IS NULL THEN '-infinity'
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
CREATE PROCEDURE "{{schema}}"."outbox_fold"(
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
        FROM "{{schema}}"."outbox_fold_step"(1000, cursor, folded) AS s;
        EXIT WHEN more IS NOT TRUE;
    END LOOP;
    COMMIT;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_fold_step"(integer, text, integer) FROM PUBLIC;
REVOKE ALL ON PROCEDURE "{{schema}}"."outbox_fold"(text, integer, double precision, boolean) FROM PUBLIC;

-- Does one kind of maintenance although rows are in its way, such as a row that a foreign key of the application keeps
-- from being deleted: the part of the rows that failed is halved until the row is by itself, and skipped. The next part
-- is twice as large as one that succeeded. Each part is a subtransaction, so n rows cost at most about three each, and
-- a few bad rows some tens together. A part waits little for locks, because the next ones wait for it.
--
-- If nothing succeeds, the rows are not the cause, and the error is raised: one about rights or names at once, another
-- after 16 rows.
CREATE FUNCTION "{{schema}}"."outbox_each"(
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
    FROM "{{schema}}"."outbox" AS r
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
                FROM "{{schema}}"."outbox" AS r
                WHERE r.completed_at IS NULL
                  AND NOT r.waiting
                  AND r.status = 1
                  AND r.due_at <= now()) AS p
            WHERE p.rows > 1);
    WHEN 'purge_done' THEN
        ids := ARRAY(
    SELECT r.id
    FROM "{{schema}}"."outbox" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - $3::interval
      AND r.id <> ALL ($4)
    ORDER BY r.completed_at
    LIMIT $2::int);
    WHEN 'purge_failed' THEN
        ids := ARRAY(
    SELECT r.id
    FROM "{{schema}}"."outbox" AS r
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
    FROM "{{schema}}"."outbox" AS r
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
    UPDATE "{{schema}}"."outbox" AS t
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
        'labels', jsonb_build_array(t."topic")) END AS dead_letter
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled,
       jsonb_agg(changed.dead_letter) FILTER (WHERE changed.dead_letter IS NOT NULL) AS dead_letters
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END
                LOOP
                    done := done + changed.requeued;
                    failed := failed + changed.failed;
                    cancelled := cancelled + changed.cancelled;
                    dead_letters := coalesce(dead_letters, '[]') || coalesce(changed.dead_letters, '[]');
                END LOOP;
            WHEN 'purge_done' THEN
                WITH purged AS (
DELETE FROM "{{schema}}"."outbox" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."outbox" AS r
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
DELETE FROM "{{schema}}"."outbox" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."outbox" AS r
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

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_each"(text, integer, interval, uuid[]) FROM PUBLIC;

-- Deletes rows that ended longer ago than their retention: the caller's, or the table's own by default. A NULL
-- retention keeps rows for ever. Cancelled rows are kept and counted like done ones.
CREATE FUNCTION "{{schema}}"."outbox_purge"(
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
DELETE FROM "{{schema}}"."outbox" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."outbox" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - $2::interval
    ORDER BY r.completed_at
    LIMIT $1::int
    FOR UPDATE SKIP LOCKED))
RETURNING t.id
    ), purged_failed AS (
DELETE FROM "{{schema}}"."outbox" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."outbox" AS r
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
CREATE FUNCTION "{{schema}}"."outbox_maintain_step"(
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
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
                n := (SELECT r.requeued + r.failed FROM "{{schema}}"."outbox_reap_expired"($2) AS r);
            WHEN 'key_sweep' THEN
                n := (SELECT "{{schema}}"."outbox_key_sweep"($2));
            WHEN 'join_sweep' THEN
                n := (SELECT "{{schema}}"."outbox_join_sweep"($2));
            WHEN 'purge_done' THEN
                n := (SELECT p.done FROM "{{schema}}"."outbox_purge"($2, $3, NULL) AS p);
            WHEN 'purge_failed' THEN
                n := (SELECT p.failed FROM "{{schema}}"."outbox_purge"($2, NULL, $4) AS p);
            WHEN 'fold' THEN
                n := (SELECT f.folded FROM "{{schema}}"."outbox_fold_step"($2, NULL, 0) AS f);
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
        FROM "{{schema}}"."outbox_each"($1, $2, CASE $1 WHEN 'purge_done' THEN $3 WHEN 'purge_failed' THEN $4 END, skipped);
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
CREATE PROCEDURE "{{schema}}"."outbox_maintain"(
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
        FOREACH kind IN ARRAY ARRAY['reap_expired', 'key_sweep', 'join_sweep', 'purge_done', 'purge_failed', 'fold'] LOOP
            SELECT ARRAY[]::pg_catalog.uuid[], NULL INTO skipped, said;
            FOR step IN 1..100 LOOP
                COMMIT;
                SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
                SELECT s.more, s.crowded, s.skipped, s.problem INTO more, crowded, skipped, said
                FROM "{{schema}}"."outbox_maintain_step"(kind, max_rows, retention, failed_retention, skipped, said) AS s;
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
        PERFORM "{{schema}}"."leader_note"('{{schema}}.outbox', problem);
    EXCEPTION WHEN undefined_function OR insufficient_privilege THEN
        NULL;
    END;
    COMMIT;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'a part of the maintenance failed, the rest is done: %', problem;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_purge"(integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_maintain_step"(text, integer, interval, interval, uuid[], text) FROM PUBLIC;
REVOKE ALL ON PROCEDURE "{{schema}}"."outbox_maintain"(integer, interval, interval) FROM PUBLIC;

-- Keyed rows of "{{schema}}"."outbox": rows with a concurrency_key wait outside the claim index until their key lets them through.
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
CREATE SEQUENCE "{{schema}}"."outbox_key_seq";

-- Folds compute with rates, and one that cannot be computed would stop all keys of the table.
CREATE DOMAIN "{{schema}}"."outbox_key_rate" AS double precision CONSTRAINT "outbox_key_check" CHECK (
    VALUE BETWEEN 1e-09::double precision AND 1e+09::double precision
);

ALTER TABLE "{{schema}}"."outbox" ALTER COLUMN key_rate TYPE "{{schema}}"."outbox_key_rate";

-- at is when a fold should look at the key: the start of the transaction that wrote the note, or a later time. ended is
-- how many released rows of the key have ended or gone back. place and due are the key_seq and the due time of a row
-- that has begun to wait. unused is how many microseconds of the key's rate were taken by releases and not used. A note
-- whose ended is NULL asks the fold to count the key anew. The ordered rows of a key and
-- its limited rows are independent of each other. If SQL has taken the key or the limit from a row that has a place,
-- the row's note names no key, and folds drop it: the settle must not fail. The table has no CHECK: the server parses a
-- CHECK anew for every statement that writes, and every settle of a keyed row writes here.
CREATE TABLE "{{schema}}"."outbox_key_note" (
    at "{{schema}}"."outbox_time" NOT NULL,
    concurrency_key text,
    limited boolean,
    ended integer,
    place bigint,
    due timestamptz,
    unused double precision
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Without a replica identity, PostgreSQL refuses to delete notes as soon as a publication contains the table, even if
-- that is an unrelated one FOR ALL TABLES.
ALTER TABLE "{{schema}}"."outbox_key_note" REPLICA IDENTITY FULL;

CREATE INDEX "outbox_key_note_idx" ON "{{schema}}"."outbox_key_note" (at);

-- Notes that a later fold will subtract from the number of released rows in key_state. A fold that counts a key anew
-- sees that these rows have ended already, so it adds the pending notes to its count.
CREATE INDEX "outbox_key_ended_idx" ON "{{schema}}"."outbox_key_note" (concurrency_key) WHERE ended > 0 AND limited;

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
CREATE TABLE "{{schema}}"."outbox_key_state" (
    concurrency_key text NOT NULL,
    limited boolean NOT NULL,
    n bigint NOT NULL,
    place bigint,
    taken integer,
    due timestamptz[] NOT NULL DEFAULT '{}',
    next_at "{{schema}}"."outbox_time",
    updates integer NOT NULL DEFAULT 0,
    at "{{schema}}"."outbox_time" NOT NULL,
    PRIMARY KEY (concurrency_key, limited, n)
) WITH (fillfactor = 50);

-- Where the next sweep continues.
CREATE TABLE "{{schema}}"."outbox_key_cursor" (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    ordered_key text NOT NULL DEFAULT '',
    limited_key text NOT NULL DEFAULT '',
    swept_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 10);

INSERT INTO "{{schema}}"."outbox_key_cursor" DEFAULT VALUES;

-- Waiting rows by key: rows of ordered keys by key_seq, rows of limited keys by due time.
CREATE INDEX "outbox_key_wait_idx" ON "{{schema}}"."outbox" (concurrency_key, key_seq)
    WHERE CASE WHEN completed_at IS NULL AND key_seq IS NOT NULL AND key_limit = 0 THEN waiting AND aside IS NULL END;
CREATE INDEX "outbox_key_queue_idx" ON "{{schema}}"."outbox" (concurrency_key, due_at, key_seq)
    WHERE CASE WHEN completed_at IS NULL AND key_seq IS NOT NULL AND key_limit > 0 THEN waiting AND aside IS NULL END;

-- Released rows. The index is not unique, although an ordered key has only one released row: a unique index would
-- compare each row that is released with all rows that have ended since vacuum last cleaned up.
CREATE INDEX "outbox_key_live_idx" ON "{{schema}}"."outbox" (concurrency_key, key_seq)
    WHERE CASE WHEN completed_at IS NULL AND key_seq IS NOT NULL THEN (NOT waiting OR aside IS NOT NULL) END;

-- Dead letters that block the rows behind them.
CREATE INDEX "outbox_key_fail_idx" ON "{{schema}}"."outbox" (concurrency_key, key_seq)
    WHERE CASE WHEN failed_at IS NOT NULL AND cancelled_at IS NULL THEN key_policy > 0 END;

-- Draws a place behind all other rows of the key. It also reads the table because the sequence may lag behind it, for
-- instance after logical replication, which does not copy sequences. It reads only places at or after the sequence's,
-- since a key may have had any number of rows.
--
-- It runs with its owner's rights: a writer from whom row-level security hides rows of its key would otherwise draw a
-- place before them. It returns nothing but a place. Under FORCE ROW LEVEL SECURITY the owner may not see all rows
-- either, and then the row is refused.
CREATE FUNCTION "{{schema}}"."outbox_key_place"(k text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
DECLARE
    next constant bigint := nextval('"{{schema}}"."outbox_key_seq"');
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    RETURN greatest(
        next,
        1 + (SELECT t.key_seq FROM "{{schema}}"."outbox" AS t
            WHERE t.concurrency_key = k AND CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL AND t.key_limit = 0 THEN t.waiting AND t.aside IS NULL END AND t.key_seq >= next
            ORDER BY t.concurrency_key DESC, t.key_seq DESC LIMIT 1),
        1 + (SELECT t.key_seq FROM "{{schema}}"."outbox" AS t
            WHERE t.concurrency_key = k AND CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL THEN (NOT t.waiting OR t.aside IS NOT NULL) END AND t.key_seq >= next
            ORDER BY t.concurrency_key DESC, t.key_seq DESC LIMIT 1),
        1 + (SELECT t.key_seq FROM "{{schema}}"."outbox" AS t
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
CREATE FUNCTION "{{schema}}"."outbox_key_enter"() RETURNS trigger
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
        PERFORM pg_advisory_xact_lock(hashtextextended('{{schema}}.outbox ' || NEW.concurrency_key, 1));
        NEW.key_seq := "{{schema}}"."outbox_key_place"(NEW.concurrency_key);
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
        NEW.key_seq := nextval('"{{schema}}"."outbox_key_seq"');
    END IF;
    IF NEW.status = 0 THEN
        NEW.waiting := true;
        INSERT INTO "{{schema}}"."outbox_key_note" (at, concurrency_key, limited, ended, place, due)
        VALUES (CASE WHEN NEW.key_limit > 0 THEN greatest(NEW.due_at, now()) ELSE now() END,
            NEW.concurrency_key, NEW.key_limit > 0, CASE WHEN NOT restored THEN 0 END, NEW.key_seq, NEW.due_at);
        IF (CASE WHEN pg_catalog.current_setting('txwork.folds', true) OPERATOR(pg_catalog.=) '{{schema}}.outbox' THEN false ELSE (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) ELSE false END)
        ELSE true END) END) THEN
            PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
        END IF;
    ELSE -- a restored row in progress is released already
        INSERT INTO "{{schema}}"."outbox_key_note" (at, concurrency_key, limited)
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
CREATE FUNCTION "{{schema}}"."outbox_key_come"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
DECLARE
    place bigint := "{{schema}}"."outbox_key_place"(NEW.concurrency_key);
BEGIN
    WHILE hashint8(place) & 7 = 0 LOOP
        place := place + 1;
    END LOOP;
    UPDATE "{{schema}}"."outbox" AS t SET waiting = true, key_seq = place
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
CREATE FUNCTION "{{schema}}"."outbox_key_back"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
BEGIN
    UPDATE "{{schema}}"."outbox" AS t SET waiting = true WHERE t.id = NEW.id AND t.status = 0;
    RETURN NULL;
END
$txwork$;

-- Notes that a Ready row has begun to wait: it came to its key, or went back to it, as the rows of a run do. Or a row
-- of a key with a rate was left to others before it had started: its start is the next row's. Of rows with a rate, only
-- the statements that leave them assign waiting as they make a row in progress Ready, and that which sets it aside,
-- where it keeps its start. Like key_note, the function tests what the update was.
CREATE FUNCTION "{{schema}}"."outbox_key_wait"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF OLD.status = 1 AND NEW.status IN (0, 3) AND NEW.key_rate IS NOT NULL AND NEW.aside IS NULL THEN
        INSERT INTO "{{schema}}"."outbox_key_note" (at, concurrency_key, limited, ended, unused)
        VALUES (now(), NEW.concurrency_key, true, 0, CASE WHEN NEW.key_rate OPERATOR(pg_catalog.<) 10000 THEN pg_catalog.ceil(1e6 OPERATOR(pg_catalog./) NEW.key_rate) ELSE 1e6 OPERATOR(pg_catalog./) NEW.key_rate END);
        RETURN NULL;
    ELSIF NEW.status <> 0 OR NOT (NEW.waiting AND NEW.aside IS NULL)
        OR OLD.status <> 0 AND NOT (OLD.status = 1 AND NEW.key_limit = 0) THEN
        RETURN NULL;
    ELSIF OLD.key_seq IS NULL THEN
        INSERT INTO "{{schema}}"."outbox_key_note" (at, concurrency_key, limited, ended, place, due)
        VALUES (CASE WHEN NEW.key_limit > 0 THEN greatest(NEW.due_at, now()) ELSE now() END,
            NEW.concurrency_key, NEW.key_limit > 0, 0, NEW.key_seq, NEW.due_at);
    ELSIF NEW.key_limit > 0 AND NOT OLD.waiting THEN
        INSERT INTO "{{schema}}"."outbox_key_note" (at, concurrency_key, limited, ended, due)
        VALUES (now(), NEW.concurrency_key, true, 1, NEW.due_at);
        IF NEW.due_at > now() THEN
            INSERT INTO "{{schema}}"."outbox_key_note" (at, concurrency_key, limited, ended, due)
            VALUES (NEW.due_at, NEW.concurrency_key, true, 0, NEW.due_at);
        END IF;
    ELSIF NEW.key_limit = 0 AND NOT OLD.waiting THEN
        INSERT INTO "{{schema}}"."outbox_key_note" (at, concurrency_key, limited, ended, place)
        VALUES (now(), NEW.concurrency_key, false, 0, NEW.key_seq);
    ELSE
        RETURN NULL;
    END IF;
    IF (CASE WHEN pg_catalog.current_setting('txwork.folds', true) OPERATOR(pg_catalog.=) '{{schema}}.outbox' THEN false ELSE (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) ELSE false END)
        ELSE true END) END) THEN
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
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
CREATE FUNCTION "{{schema}}"."outbox_key_note"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
AS $txwork$
BEGIN
    IF TG_OP OPERATOR(pg_catalog.=) 'DELETE' OR NEW.completed_at IS NOT NULL AND (
        OLD.completed_at IS NULL AND ((NOT OLD.waiting OR OLD.aside IS NOT NULL) OR NEW.cancelled_at IS NOT NULL)
        OR OLD.key_policy OPERATOR(pg_catalog.>) 0 AND NEW.key_policy OPERATOR(pg_catalog.=) 0) THEN
        INSERT INTO "{{schema}}"."outbox_key_note" (at, concurrency_key, limited, ended, unused)
        VALUES (pg_catalog.now(), OLD.concurrency_key, OLD.key_limit OPERATOR(pg_catalog.>) 0,
            CASE WHEN OLD.completed_at IS NOT NULL THEN 0 WHEN OLD.waiting AND OLD.aside IS NULL THEN 0 ELSE 1 END,
            CASE WHEN OLD.status OPERATOR(pg_catalog.=) 0 AND OLD.key_limit OPERATOR(pg_catalog.>) 0 AND (NOT OLD.waiting OR OLD.aside IS NOT NULL) THEN CASE WHEN OLD.key_rate OPERATOR(pg_catalog.<) 10000 THEN pg_catalog.ceil(1e6 OPERATOR(pg_catalog./) OLD.key_rate) ELSE 1e6 OPERATOR(pg_catalog./) OLD.key_rate END END);
    ELSIF NEW.completed_at IS NULL AND (OLD.completed_at IS NOT NULL
        OR NEW.waiting AND NEW.aside IS NULL AND NEW.key_limit OPERATOR(pg_catalog.>) 0
            AND (NEW.due_at OPERATOR(pg_catalog.<) OLD.due_at)) THEN
        INSERT INTO "{{schema}}"."outbox_key_note" (at, concurrency_key, limited, ended, place, due)
        VALUES (pg_catalog.now(), NEW.concurrency_key, NEW.key_limit OPERATOR(pg_catalog.>) 0,
            CASE WHEN OLD.completed_at IS NULL THEN 0 END, NEW.key_seq, NEW.due_at);
        IF NEW.key_limit OPERATOR(pg_catalog.>) 0 AND NEW.due_at OPERATOR(pg_catalog.>) pg_catalog.now() THEN
            INSERT INTO "{{schema}}"."outbox_key_note" (at, concurrency_key, limited, ended, due)
            VALUES (NEW.due_at, NEW.concurrency_key, true, 0, NEW.due_at);
        END IF;
    ELSE
        RETURN NULL;
    END IF;
    IF (CASE WHEN pg_catalog.current_setting('txwork.folds', true) OPERATOR(pg_catalog.=) '{{schema}}.outbox' THEN false ELSE (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) ELSE false END)
        ELSE true END) END) THEN
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
    END IF;
    RETURN NULL;
END
$txwork$;

-- A Ready row has changed its key, or whether the key is ordered, by a Replace or by SQL: it is gone from the old key,
-- whose next row gets its start. It enters the new key at its end, or goes on without a key, as if a join released it:
-- the second UPDATE fires key_come. A Replace has locked the writers of the new key before. It runs with its owner's
-- rights, because who may replace a row may not release it, and touches no other row.
CREATE FUNCTION "{{schema}}"."outbox_key_move"() RETURNS trigger
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
        INSERT INTO "{{schema}}"."outbox_key_note" (at, concurrency_key, limited, ended, unused)
        VALUES (now(), OLD.concurrency_key, OLD.key_limit > 0, CASE WHEN OLD.waiting AND OLD.aside IS NULL THEN 0 ELSE 1 END,
            CASE WHEN OLD.status OPERATOR(pg_catalog.=) 0 AND OLD.key_limit OPERATOR(pg_catalog.>) 0 AND (NOT OLD.waiting OR OLD.aside IS NOT NULL) THEN CASE WHEN OLD.key_rate OPERATOR(pg_catalog.<) 10000 THEN pg_catalog.ceil(1e6 OPERATOR(pg_catalog./) OLD.key_rate) ELSE 1e6 OPERATOR(pg_catalog./) OLD.key_rate END END);
        IF (CASE WHEN pg_catalog.current_setting('txwork.folds', true) OPERATOR(pg_catalog.=) '{{schema}}.outbox' THEN false ELSE (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) ELSE false END)
        ELSE true END) END) THEN
            PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
        END IF;
    END IF;
    UPDATE "{{schema}}"."outbox" AS t SET waiting = true, key_seq = NULL WHERE t.id = NEW.id;
    UPDATE "{{schema}}"."outbox" AS t SET waiting = false WHERE t.id = NEW.id;
    RETURN NULL;
END
$txwork$;

-- The rows or the notes were truncated, as tests do. Everything in key_state is then unknown, except how far the rates
-- are used up.
CREATE FUNCTION "{{schema}}"."outbox_key_forget"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $txwork$
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    DELETE FROM "{{schema}}"."outbox_key_state" WHERE next_at IS NULL;
    UPDATE "{{schema}}"."outbox_key_state" SET taken = NULL, due = '{}';
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
CREATE FUNCTION "{{schema}}"."outbox_key_fold"(
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (max_notes BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_notes',
            MESSAGE = 'max_notes must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' OR NOT pg_try_advisory_xact_lock(hashtextextended('{{schema}}.outbox key_fold', 0)) THEN
        RETURN NEXT; -- all NULL: another session folds, or this transaction could not see what others committed
        RETURN;
    END IF;

    folded := 0;
    LOOP
        WITH taken AS (
            DELETE FROM "{{schema}}"."outbox_key_note" AS d
            WHERE d.ctid = ANY (ARRAY(
                SELECT r.ctid FROM "{{schema}}"."outbox_key_note" AS r
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
        released := "{{schema}}"."outbox_key_next"(note_keys, note_limited, note_ended, note_place, fronts);
    END IF;
    IF limited THEN
        released := released
            + "{{schema}}"."outbox_key_fill"(note_keys, note_limited, note_ended, note_due, note_unused, started, fronts);
    END IF;
    IF released > 0 THEN
        IF fronts <> '{}' THEN
            PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', pg_catalog.concat('front:', fronts)) ELSE ''::pg_catalog.void END);
        END IF;
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', pg_catalog.concat('fold:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
    END IF;
    again := CASE WHEN n = max_notes THEN 0 ELSE (
        SELECT extract(epoch FROM n.at - clock_timestamp())
        FROM "{{schema}}"."outbox_key_note" AS n
        WHERE n.at > started
        ORDER BY n.at
        LIMIT 1) END;
    RETURN NEXT;
END
$txwork$;

-- Releases the first row of each ordered key, unless the key has a released row already or a dead letter blocks it.
-- Only key_fold calls it.
CREATE FUNCTION "{{schema}}"."outbox_key_next"(
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    WITH k AS MATERIALIZED (
        SELECT m.concurrency_key AS key, s.ctid AS known, s.n, s.place AS bound,
            m.ended IS NULL AND s.place IS NOT NULL AS anew,
            CASE WHEN m.ended IS NOT NULL AND s.place IS NOT NULL THEN least(s.place, m.place) ELSE 0 END AS place
        FROM unnest(note_keys, note_limited, note_ended, note_place) AS m (concurrency_key, limited, ended, place)
        LEFT JOIN LATERAL (
            SELECT g.ctid, g.n, g.place FROM "{{schema}}"."outbox_key_state" AS g
            WHERE g.concurrency_key = m.concurrency_key AND NOT g.limited
            ORDER BY g.concurrency_key DESC, g.limited DESC, g.n DESC
            LIMIT 1) AS s ON true
        WHERE NOT m.limited
    ), head AS MATERIALIZED (
        SELECT k.*, live.is AS live, h.ctid, h.key_seq, o.id AS behind, o.key_policy
        FROM k
        LEFT JOIN LATERAL ( -- no NOT EXISTS: an anti-join may read all live rows of the table
            SELECT true AS is FROM "{{schema}}"."outbox" AS l
            WHERE l.concurrency_key = k.key AND CASE WHEN l.completed_at IS NULL AND l.key_seq IS NOT NULL THEN (NOT l.waiting OR l.aside IS NOT NULL) END AND l.key_limit = 0 AND l.key_seq >= k.place
            LIMIT 1) AS live ON true
        LEFT JOIN LATERAL (
            SELECT r.ctid, r.key_seq FROM "{{schema}}"."outbox" AS r
            WHERE live.is IS NULL AND r.concurrency_key = k.key AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit = 0 THEN r.waiting AND r.aside IS NULL END AND r.key_seq >= k.place
            ORDER BY r.concurrency_key, r.key_seq
            LIMIT 1) AS h ON true
        LEFT JOIN LATERAL (
            SELECT f.id, f.key_policy FROM "{{schema}}"."outbox" AS f
            WHERE f.concurrency_key = k.key AND CASE WHEN f.failed_at IS NOT NULL AND f.cancelled_at IS NULL THEN f.key_policy > 0 END AND f.key_seq < h.key_seq
            ORDER BY f.concurrency_key, f.key_seq
            LIMIT 1) AS o ON true
    ), through AS MATERIALIZED (
        UPDATE "{{schema}}"."outbox" AS t SET waiting = false, due_at = greatest(t.due_at, least((fronts ->> 'all')::timestamptz, now()))
        WHERE t.ctid = ANY (ARRAY(
            SELECT r.ctid FROM head AS h
            CROSS JOIN LATERAL (
                SELECT w.ctid FROM "{{schema}}"."outbox" AS w
                WHERE w.ctid = h.ctid AND w.key_seq = h.key_seq -- unless it has just changed its key
                  AND CASE WHEN w.completed_at IS NULL THEN w.waiting AND w.aside IS NULL END -- it implies no index's condition
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
        INSERT INTO "{{schema}}"."outbox_key_note" (at, concurrency_key, limited, ended)
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
        DELETE FROM "{{schema}}"."outbox_key_state" AS g
        WHERE g.ctid = ANY (ARRAY(
            SELECT b.ctid FROM "{{schema}}"."outbox_key_state" AS b WHERE b.ctid = ANY (before) FOR UPDATE SKIP LOCKED));
        INSERT INTO "{{schema}}"."outbox_key_state" (concurrency_key, limited, n, place, at)
        SELECT u.key, false,
            greatest(CASE WHEN u.n < 4611686018427387904 THEN u.n + 1 END, nextval('"{{schema}}"."outbox_key_seq"')), u.place, now()
        FROM unnest(keys, places, numbers) AS u (key, place, n);
    END IF;
    FOR i IN 1..coalesce(cardinality(parked), 0) LOOP
        PERFORM "{{schema}}"."outbox_key_park"(parked[i], obstacles[i]);
    END LOOP;
    RETURN n;
END
$txwork$;

-- Fills the free places of limited keys, by due time. A row of a key with a rate is released with the due time at which
-- the rate allows it, by the generic cell rate algorithm. The rows of the next 250ms are released in advance, so
-- that the rate is met between two folds. As many rows as have left their start unused start at once, and the rate does
-- not count them. What no row takes up moves the key's next time back. Only key_fold calls it.
CREATE FUNCTION "{{schema}}"."outbox_key_fill"(
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    WITH k AS MATERIALIZED (
        SELECT m.concurrency_key AS key, s.ctid AS known, s.n, s.updates, s.next_at,
            CASE WHEN m.ended IS NOT NULL THEN s.due END AS due, m.due AS noted, coalesce(m.unused, 0) AS unused,
            CASE WHEN s.taken + m.ended::bigint IS NOT NULL THEN greatest(s.taken::bigint - m.ended, 0) END AS taken
        FROM unnest(note_keys, note_limited, note_ended, note_due, note_unused)
            AS m (concurrency_key, limited, ended, due, unused)
        LEFT JOIN LATERAL (
            SELECT g.ctid, g.n, g.taken, g.due, g.next_at, g.updates FROM "{{schema}}"."outbox_key_state" AS g
            WHERE g.concurrency_key = m.concurrency_key AND g.limited
            ORDER BY g.concurrency_key DESC, g.limited DESC, g.n DESC
            LIMIT 1) AS s ON true
        WHERE m.limited
    ), head AS MATERIALIZED (
        SELECT h.*, greatest(h.next_at, started) AS first,
            CASE WHEN h.key_rate OPERATOR(pg_catalog.<) 10000 THEN pg_catalog.ceil(1e6 OPERATOR(pg_catalog./) h.key_rate) ELSE 1e6 OPERATOR(pg_catalog./) h.key_rate END AS gap, floor(h.unused / CASE WHEN h.key_rate OPERATOR(pg_catalog.<) 10000 THEN pg_catalog.ceil(1e6 OPERATOR(pg_catalog./) h.key_rate) ELSE 1e6 OPERATOR(pg_catalog./) h.key_rate END + 0.001) AS extra,
            CASE WHEN h.known_taken IS NULL AND h.key_limit <> 2147483647 THEN (
                SELECT count(*) FROM "{{schema}}"."outbox" AS l
                WHERE l.concurrency_key = h.key AND CASE WHEN l.completed_at IS NULL AND l.key_seq IS NOT NULL THEN (NOT l.waiting OR l.aside IS NOT NULL) END AND l.key_limit > 0) + (
                SELECT coalesce(sum(p.ended), 0) FROM "{{schema}}"."outbox_key_note" AS p
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
                SELECT r.due_at, r.key_limit, r.key_rate, r.key_burst FROM "{{schema}}"."outbox" AS r
                WHERE r.concurrency_key = k.key AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit > 0 THEN r.waiting AND r.aside IS NULL END
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
                SELECT r.ctid, r.due_at, r.key_seq FROM "{{schema}}"."outbox" AS r
                WHERE r.concurrency_key = room.key AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit > 0 THEN r.waiting AND r.aside IS NULL END
                  AND r.due_at >= room.due[l.level] AND r.due_at <= started
                ORDER BY r.concurrency_key, r.due_at, r.key_seq
                LIMIT greatest(room.rows, 0)
                FOR NO KEY UPDATE SKIP LOCKED) AS r
            LIMIT greatest(room.rows, 0)) AS f
    ), through AS MATERIALIZED (
        UPDATE "{{schema}}"."outbox" AS t
        SET waiting = false,
            due_at = greatest(t.due_at, least((fronts ->> 'all')::timestamptz, now()), CASE WHEN f.at > started THEN f.at END)
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
        INSERT INTO "{{schema}}"."outbox_key_note" (at, concurrency_key, limited, ended)
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
        SELECT g.n FROM "{{schema}}"."outbox_key_state" AS g
        WHERE g.ctid = ANY (ARRAY(SELECT h.known FROM head AS h))
        FOR UPDATE SKIP LOCKED
    ), kept AS MATERIALIZED (
        UPDATE "{{schema}}"."outbox_key_state" AS g
        SET taken = d.running, due = d.due, updates = g.updates + 1, at = now(),
            next_at = coalesce(CASE WHEN d.gap IS NOT NULL THEN CASE WHEN d.released * d.gap - d.unused IS NOT NULL THEN greatest(least(d.first + greatest(least(d.released * d.gap - d.unused, 1e17), -1e17) * interval '1 microsecond', '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00') END WHEN d.unused > 0 AND d.next_at IS NOT NULL THEN CASE WHEN -d.unused IS NOT NULL THEN greatest(least(d.next_at + greatest(least(-d.unused, 1e17), -1e17) * interval '1 microsecond', '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00') END END, g.next_at)
        FROM done AS d
        WHERE g.concurrency_key = d.key AND g.limited AND g.n = d.n AND d.updates < 64
          AND d.n IN (SELECT m.n FROM mine AS m)
        RETURNING g.concurrency_key
    ), fresh AS (
        INSERT INTO "{{schema}}"."outbox_key_state" (concurrency_key, limited, n, taken, due, next_at, at)
        SELECT d.key, true, greatest(CASE WHEN d.n < 4611686018427387904 THEN d.n + 1 END, nextval('"{{schema}}"."outbox_key_seq"')),
            d.running, d.due,
            coalesce(CASE WHEN d.gap IS NOT NULL THEN CASE WHEN d.released * d.gap - d.unused IS NOT NULL THEN greatest(least(d.first + greatest(least(d.released * d.gap - d.unused, 1e17), -1e17) * interval '1 microsecond', '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00') END WHEN d.unused > 0 AND d.next_at IS NOT NULL THEN CASE WHEN -d.unused IS NOT NULL THEN greatest(least(d.next_at + greatest(least(-d.unused, 1e17), -1e17) * interval '1 microsecond', '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00') END END, d.next_at), now()
        FROM done AS d
        WHERE d.key NOT IN (SELECT e.concurrency_key FROM kept AS e)
          AND (d.n IS NOT NULL OR d.marked OR d.key_rate IS NOT NULL AND d.released > 0)
    ), gone AS (
        DELETE FROM "{{schema}}"."outbox_key_state" AS g
        WHERE g.ctid = ANY (ARRAY(
            SELECT h.known FROM head AS h
            WHERE h.updates >= 64 AND h.n IN (SELECT m.n FROM mine AS m)))
    )
    SELECT count(*) INTO n FROM through;
    RETURN n;
END
$txwork$;

-- Ready -> Failed for rows that wait behind a dead letter whose policy is Park. A fold parks a bounded number of rows.
CREATE FUNCTION "{{schema}}"."outbox_key_park"(k text, behind uuid) RETURNS void
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    UPDATE "{{schema}}"."outbox" AS t
    SET status = 3,
        completed_at = clock_timestamp(),
        failed_at = clock_timestamp(),
        last_error = 'parked behind ' || behind
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid FROM "{{schema}}"."outbox" AS r
        WHERE r.concurrency_key = k AND CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit = 0 THEN r.waiting AND r.aside IS NULL END AND r.key_seq > (
            SELECT f.key_seq FROM "{{schema}}"."outbox" AS f -- the dead letter may have been redriven since the fold read it
            WHERE f.id = behind AND f.failed_at IS NOT NULL AND f.cancelled_at IS NULL AND f.key_policy = 2)
        ORDER BY r.concurrency_key, r.key_seq
        LIMIT 1000
        FOR NO KEY UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    IF EXISTS (SELECT FROM "{{schema}}"."outbox" AS t
        WHERE t.concurrency_key = k AND CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL AND t.key_limit = 0 THEN t.waiting AND t.aside IS NULL END) THEN
        INSERT INTO "{{schema}}"."outbox_key_note" (at, concurrency_key, limited, ended)
        VALUES (
            clock_timestamp() + CASE WHEN n = 1000 THEN interval '0' ELSE interval '500 milliseconds' END,
            k, false, 0);
    END IF;
END
$txwork$;

-- Repairs the effects of changes that bypassed the triggers: writes a note for every key that has waiting rows, for at
-- most 1000 ordered and 1000 limited keys. It begins where the last sweep ended, at most every five
-- seconds. It also deletes the rows of key_state whose keys are not in use, and returns how many it deleted.
CREATE FUNCTION "{{schema}}"."outbox_key_sweep"(max_rows integer) RETURNS integer
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (max_rows BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    SELECT c.ordered_key, c.limited_key, c.swept_at INTO place FROM "{{schema}}"."outbox_key_cursor" AS c FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        IF NOT EXISTS (SELECT FROM "{{schema}}"."outbox_key_cursor") THEN -- the table was truncated
            INSERT INTO "{{schema}}"."outbox_key_cursor" DEFAULT VALUES ON CONFLICT DO NOTHING;
        END IF;
        RETURN 0; -- another session sweeps
    ELSIF place.swept_at BETWEEN clock_timestamp() - interval '5 seconds' AND clock_timestamp() THEN
        RETURN 0;
    END IF;
    place.ordered_key := "{{schema}}"."outbox_key_look"(true, place.ordered_key, least(max_rows, 1000));
    place.limited_key := "{{schema}}"."outbox_key_look"(false, place.limited_key, least(max_rows, 1000));
    UPDATE "{{schema}}"."outbox_key_cursor" AS c
    SET ordered_key = place.ordered_key, limited_key = place.limited_key, swept_at = clock_timestamp();

    DELETE FROM "{{schema}}"."outbox_key_state" AS b
    WHERE b.ctid = ANY (ARRAY(
        SELECT r.ctid FROM "{{schema}}"."outbox_key_state" AS r
        WHERE r.at < now() - interval '1 minute' AND (r.next_at < now() - interval '1 minute') IS NOT FALSE
          AND NOT EXISTS (SELECT FROM "{{schema}}"."outbox_key_state" AS o -- an older row would otherwise become the last one
            WHERE o.concurrency_key = r.concurrency_key AND o.limited = r.limited AND o.n < r.n)
        LIMIT 10 * max_rows
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$txwork$;

-- Writes notes for up to most keys after the given one that have waiting rows; ordered keys with a live row need none.
-- Returns the key after which the next call continues.
CREATE FUNCTION "{{schema}}"."outbox_key_look"(ordered boolean, behind text, most integer) RETURNS text
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_state"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_key_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (most BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'most',
            MESSAGE = 'most must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    FOR i IN 1..most LOOP
        IF ordered THEN
            SELECT t.concurrency_key INTO last FROM "{{schema}}"."outbox" AS t
            WHERE CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL AND t.key_limit = 0 THEN t.waiting AND t.aside IS NULL END AND t.concurrency_key > last
            ORDER BY t.concurrency_key, t.key_seq LIMIT 1;
        ELSE
            SELECT t.concurrency_key INTO last FROM "{{schema}}"."outbox" AS t
            WHERE CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL AND t.key_limit > 0 THEN t.waiting AND t.aside IS NULL END AND t.concurrency_key > last
            ORDER BY t.concurrency_key, t.due_at, t.key_seq LIMIT 1;
        END IF;
        IF last IS NULL THEN
            RETURN ''; -- the next call starts over
        END IF;
        INSERT INTO "{{schema}}"."outbox_key_note" (at, concurrency_key, limited)
        SELECT now(), last, NOT ordered
        WHERE NOT EXISTS (SELECT FROM "{{schema}}"."outbox" AS t
            WHERE ordered AND t.concurrency_key = last AND CASE WHEN t.completed_at IS NULL AND t.key_seq IS NOT NULL THEN (NOT t.waiting OR t.aside IS NOT NULL) END AND t.key_limit = 0);
    END LOOP;
    RETURN last;
END
$txwork$;

-- Hides notes and the state of keys from everybody who does not see all rows, if the table has row-level security, and
-- shows them if it has none. Only folds and sweeps need them. For the owner of the tables, who calls it after each
-- change of that.
CREATE FUNCTION "{{schema}}"."outbox_key_policies"() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF (SELECT c.relrowsecurity FROM pg_class AS c WHERE c.oid = '"{{schema}}"."outbox"'::regclass) THEN
        ALTER TABLE "{{schema}}"."outbox_key_note" ENABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."outbox_key_state" ENABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."outbox_key_cursor" ENABLE ROW LEVEL SECURITY;
    ELSE
        ALTER TABLE "{{schema}}"."outbox_key_note" DISABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."outbox_key_state" DISABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."outbox_key_cursor" DISABLE ROW LEVEL SECURITY;
    END IF;
END
$txwork$;

CREATE TRIGGER "outbox_key_enter" BEFORE INSERT ON "{{schema}}"."outbox"
FOR EACH ROW WHEN (NEW.concurrency_key IS NOT NULL OR NEW.key_limit IS NOT NULL)
EXECUTE FUNCTION "{{schema}}"."outbox_key_enter"();

CREATE TRIGGER "outbox_key_come" AFTER UPDATE OF waiting ON "{{schema}}"."outbox"
FOR EACH ROW WHEN (NEW.concurrency_key IS NOT NULL AND NEW.key_seq IS NULL AND NEW.status = 0
    AND (OLD.waiting AND NOT NEW.waiting OR OLD.status = 3))
EXECUTE FUNCTION "{{schema}}"."outbox_key_come"();

CREATE TRIGGER "outbox_key_back" AFTER UPDATE OF due_at ON "{{schema}}"."outbox"
FOR EACH ROW WHEN (NEW.key_seq IS NOT NULL AND (NEW.key_limit > 0 OR NEW.owner_token IS NULL) AND OLD.status = 1
    AND NEW.status = 0)
EXECUTE FUNCTION "{{schema}}"."outbox_key_back"();

CREATE TRIGGER "outbox_key_wait" AFTER UPDATE OF waiting ON "{{schema}}"."outbox"
FOR EACH ROW WHEN (NEW.key_seq IS NOT NULL AND (NEW.waiting OR OLD.status = 1))
EXECUTE FUNCTION "{{schema}}"."outbox_key_wait"();

CREATE TRIGGER "outbox_key_move" AFTER UPDATE OF concurrency_key, key_limit ON "{{schema}}"."outbox"
FOR EACH ROW WHEN ((OLD.key_seq IS NOT NULL OR NOT OLD.waiting) AND OLD.status = 0 AND NEW.status = 0 AND NEW.aside IS NULL AND (NEW.concurrency_key IS DISTINCT FROM OLD.concurrency_key OR (NEW.key_limit = 0) IS DISTINCT FROM (OLD.key_limit = 0)))
EXECUTE FUNCTION "{{schema}}"."outbox_key_move"();

CREATE TRIGGER "outbox_key_note"
AFTER UPDATE OF completed_at, due_at, key_policy ON "{{schema}}"."outbox"
FOR EACH ROW WHEN (NEW.key_seq IS NOT NULL
    AND (NEW.waiting OR NEW.completed_at IS NOT NULL OR OLD.completed_at IS NOT NULL))
EXECUTE FUNCTION "{{schema}}"."outbox_key_note"();

CREATE TRIGGER "outbox_key_gone_all" AFTER TRUNCATE ON "{{schema}}"."outbox"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."outbox_key_forget"();

CREATE TRIGGER "outbox_key_lost_all" AFTER TRUNCATE ON "{{schema}}"."outbox_key_note"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."outbox_key_forget"();

CREATE TRIGGER "outbox_key_gone" AFTER DELETE ON "{{schema}}"."outbox"
FOR EACH ROW WHEN (OLD.key_seq IS NOT NULL AND (OLD.failed_at IS NOT NULL OR OLD.completed_at IS NULL))
EXECUTE FUNCTION "{{schema}}"."outbox_key_note"();

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_key_enter"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_key_come"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_key_back"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_key_wait"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_key_note"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_key_move"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_key_forget"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_key_place"(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_key_fold"(integer, timestamptz, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_key_next"(text[], boolean[], integer[], bigint[], jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_key_fill"(text[], boolean[], integer[], timestamptz[], double precision[], timestamptz, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_key_park"(text, uuid) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_key_sweep"(integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_key_look"(boolean, text, integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."outbox_key_policies"() FROM PUBLIC;

-- A join counts how its members settle. Every UPDATE except the one that ends the join is heap-only, since it sets no
-- indexed column: a join with many members updates one row often.
--
-- Only folds count members and end joins, see join_fold. Applications start, extend, cancel and purge joins, and hold
-- the join's row until they commit.
CREATE TABLE "{{schema}}"."outbox_join" (
    id uuid NOT NULL,
    status smallint NOT NULL DEFAULT 0,
    policy smallint NOT NULL DEFAULT 0,
    expected integer NOT NULL DEFAULT 0,
    succeeded integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    late integer NOT NULL DEFAULT 0,
    on_complete uuid,
    on_fail uuid,
    deadline "{{schema}}"."outbox_time",
    label text,
    last_error text,
    created_at "{{schema}}"."outbox_time" NOT NULL DEFAULT now(),
    completed_at "{{schema}}"."outbox_time",
    look_at "{{schema}}"."outbox_time" NOT NULL DEFAULT now() + interval '1 minute', -- when the sweep looks at it
    retention interval NOT NULL, -- how long it is kept after its end
    CONSTRAINT "outbox_join_pkey" PRIMARY KEY (id),
    CONSTRAINT "outbox_join_check" CHECK (
        status BETWEEN 0 AND 3
        AND policy BETWEEN 0 AND 2
        AND (status = 0) = (completed_at IS NULL)
        AND succeeded >= 0 AND failed >= 0 AND late >= 0
        AND succeeded + failed <= expected AND late <= expected
        AND retention BETWEEN interval '0' AND interval '1000 years' -- end.sql must be able to add it to now
    )
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

COMMENT ON TABLE "{{schema}}"."outbox_join" IS 'txwork joins of {{schema}}.outbox. status: 0 pending, 1 completed, 2 failed, 3 cancelled; '
    'policy: 0 wait for all, 1 fail fast, 2 any outcome';

CREATE UNIQUE INDEX "outbox_join_done_idx" ON "{{schema}}"."outbox_join" (on_complete) WHERE on_complete IS NOT NULL;

CREATE UNIQUE INDEX "outbox_join_fail_idx" ON "{{schema}}"."outbox_join" (on_fail) WHERE on_fail IS NOT NULL;

CREATE INDEX "outbox_join_look_idx" ON "{{schema}}"."outbox_join" (look_at);

CREATE INDEX "outbox_join_end_idx" ON "{{schema}}"."outbox_join" (completed_at) WHERE completed_at IS NOT NULL;

CREATE INDEX "outbox_join_label_idx" ON "{{schema}}"."outbox_join" (label, id) WHERE label IS NOT NULL;

-- There are no foreign keys: a row may be purged, or deleted by its ack, before its membership, and every INSERT would
-- lock the join's row.
CREATE TABLE "{{schema}}"."outbox_join_member" (
    member_id uuid NOT NULL,
    join_id uuid NOT NULL,
    outcome smallint, -- 1 succeeded, 2 failed: counted while the join was pending
    late smallint,    -- the same, counted after the join had ended; 0: the row was redriven since
    CONSTRAINT "outbox_join_member_pk" PRIMARY KEY (member_id, join_id),
    CONSTRAINT "outbox_join_member_ck" CHECK (outcome IN (1, 2) AND late IN (0, 1, 2))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

CREATE INDEX "outbox_join_member_ix" ON "{{schema}}"."outbox_join_member" (join_id);

-- What a fold has to look at, once the time at is reached: a member that was settled, redriven or deleted; or a join.
-- gone is the outcome that counts if the member's row is gone by then. A note is written in the transaction of the
-- change, and deleted in the one that applies it.
CREATE TABLE "{{schema}}"."outbox_join_note" (
    at "{{schema}}"."outbox_time" NOT NULL DEFAULT clock_timestamp(),
    member_id uuid,
    gone smallint,
    join_id uuid
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Without a replica identity, PostgreSQL refuses to delete notes as soon as a publication contains the table, even if
-- that is an unrelated one FOR ALL TABLES.
ALTER TABLE "{{schema}}"."outbox_join_note" REPLICA IDENTITY FULL;

CREATE INDEX "outbox_join_note_idx" ON "{{schema}}"."outbox_join_note" (at);

-- Where the next sweep of waiting rows continues.
CREATE TABLE "{{schema}}"."outbox_join_cursor" (
    one boolean DEFAULT true,
    row_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    swept_at timestamptz NOT NULL DEFAULT '-infinity',
    CONSTRAINT "outbox_join_cursor_pk" PRIMARY KEY (one),
    CONSTRAINT "outbox_join_cursor_ck" CHECK (one)
) WITH (fillfactor = 10);

INSERT INTO "{{schema}}"."outbox_join_cursor" DEFAULT VALUES;

-- Writes a note that a member has settled, was redriven, or was deleted while it was live. It reads and locks nothing,
-- so a settle never waits for a join. It runs with its owner's rights, so that no role that settles needs any on the
-- notes.
--
-- A row that is deleted while it is live never settled. It counts as failed, even if a worker held it.
CREATE FUNCTION "{{schema}}"."outbox_join_settled"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    gone smallint := 2;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        gone := CASE WHEN NEW.completed_at IS NULL THEN NULL WHEN NEW.status = 2 THEN 1 ELSE 2 END;
    END IF;
    INSERT INTO "{{schema}}"."outbox_join_note" (member_id, gone) VALUES (OLD.id, gone);
    IF (CASE WHEN pg_catalog.current_setting('txwork.folds', true) OPERATOR(pg_catalog.=) '{{schema}}.outbox' THEN false ELSE (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.outbox announcer', 0)) ELSE false END)
        ELSE true END) END) THEN
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_join_settled"() FROM PUBLIC;

CREATE TRIGGER "outbox_join_settle" AFTER UPDATE OF completed_at ON "{{schema}}"."outbox"
FOR EACH ROW WHEN ((OLD.completed_at IS NULL) <> (NEW.completed_at IS NULL) AND NEW.joined)
EXECUTE FUNCTION "{{schema}}"."outbox_join_settled"();

CREATE TRIGGER "outbox_join_delete" AFTER DELETE ON "{{schema}}"."outbox"
FOR EACH ROW WHEN (OLD.completed_at IS NULL AND OLD.joined)
EXECUTE FUNCTION "{{schema}}"."outbox_join_settled"();

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
CREATE FUNCTION "{{schema}}"."outbox_join_end"(ids uuid[], verdict smallint, error text) RETURNS integer
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
    IF (pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_cursor"'::pg_catalog.regclass))
        AND ($2 IS NULL OR EXISTS (
            SELECT FROM "{{schema}}"."outbox_join" AS j
            CROSS JOIN LATERAL (VALUES (j.on_complete), (j.on_fail)) AS c (id)
            WHERE j.id = ANY ($1) AND c.id IS NOT NULL AND NOT EXISTS (SELECT FROM "{{schema}}"."outbox" AS t WHERE t.id = c.id)))
    THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    WITH ended AS (
        UPDATE "{{schema}}"."outbox_join" AS j
        SET status = coalesce($2, CASE WHEN NOT (j.succeeded + j.failed >= j.expected OR j.failed > 0 AND j.policy = 1) OR j.failed > 0 AND j.policy <> 2 THEN 2 ELSE 1 END),
            completed_at = clock_timestamp(),
            look_at = clock_timestamp() + j.retention,
            last_error = coalesce($3, CASE
                WHEN $2 IS NULL AND NOT (j.succeeded + j.failed >= j.expected OR j.failed > 0 AND j.policy = 1) THEN 'the deadline has passed'
                WHEN j.failed > 0 AND j.policy <> 2 THEN coalesce((
                    SELECT format('%s of %s steps failed, among them %s: %s', j.failed, j.expected, m.member_id,
                                  left(coalesce(t.last_error, 'the row is gone'), 1000))
                    FROM "{{schema}}"."outbox_join_member" AS m
                    LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = m.member_id
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
        UPDATE "{{schema}}"."outbox" AS t
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
          AND CASE WHEN t.status = 0 THEN t.waiting AND t.key_seq IS NULL AND t.aside IS NULL ELSE false END
        RETURNING c.state
    )
    SELECT count(*) FILTER (WHERE c.state = 0) INTO released FROM changed AS c;

    IF released > 0 THEN
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', pg_catalog.concat('fold:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
    END IF;
    RETURN released;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_join_end"(uuid[], smallint, text) FROM PUBLIC;

-- Ends the given joins that are over, up to 300 of them, and writes notes for the rest. The caller holds the
-- joins. A join with a continuation that another session holds is tried again in half a second. careful ends the joins
-- one by one, and puts off those that the database refuses for a minute.
CREATE FUNCTION "{{schema}}"."outbox_join_finish"(ids uuid[], careful boolean) RETURNS integer
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    SELECT array_agg(s.id) FILTER (WHERE s.free), array_agg(s.id) FILTER (WHERE NOT s.free)
    INTO free, held
    FROM (
        SELECT j.id,
               (SELECT count(*) FROM "{{schema}}"."outbox" AS t WHERE t.id IN (j.on_complete, j.on_fail))
               = (SELECT count(*) FROM (
                   SELECT FROM "{{schema}}"."outbox" AS t WHERE t.id IN (j.on_complete, j.on_fail) FOR NO KEY UPDATE SKIP LOCKED
               ) AS l) AS free
        FROM (
            SELECT * FROM "{{schema}}"."outbox_join" AS j WHERE j.id = ANY ($1) AND j.status = 0 AND ((j.succeeded + j.failed >= j.expected OR j.failed > 0 AND j.policy = 1) OR coalesce(j.deadline <= clock_timestamp(), false)) LIMIT 300
        ) AS j
    ) AS s;
    IF held IS NOT NULL THEN
        INSERT INTO "{{schema}}"."outbox_join_note" (at, join_id) SELECT clock_timestamp() + interval '500 milliseconds', u.id FROM unnest(held) AS u (id);
    END IF;
    IF free IS NULL THEN
        RETURN 0;
    END IF;
    -- A role that may end no join would put all of them off.
    IF careful AND has_function_privilege('"{{schema}}"."outbox_join_end"(uuid[], smallint, text)', 'EXECUTE') THEN
        FOREACH one IN ARRAY free LOOP
            BEGIN
                released := released + "{{schema}}"."outbox_join_end"(ARRAY[one], NULL, NULL);
            EXCEPTION WHEN OTHERS THEN
                RAISE WARNING 'join % of {{schema}}.outbox cannot end: %', one, SQLERRM;
                INSERT INTO "{{schema}}"."outbox_join_note" (at, join_id) VALUES (clock_timestamp() + interval '1 minute', one);
            END;
        END LOOP;
    ELSE
        released := "{{schema}}"."outbox_join_end"(free, NULL, NULL);
    END IF;
    IF cardinality($1) > 300 THEN
        INSERT INTO "{{schema}}"."outbox_join_note" (join_id)
        SELECT j.id FROM "{{schema}}"."outbox_join" AS j
        WHERE j.id = ANY ($1) AND j.status = 0 AND ((j.succeeded + j.failed >= j.expected OR j.failed > 0 AND j.policy = 1) OR coalesce(j.deadline <= clock_timestamp(), false))
        EXCEPT SELECT u.id FROM unnest(free || held) AS u (id);
    END IF;
    RETURN released;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_join_finish"(uuid[], boolean) FROM PUBLIC;

-- Counts pending joins anew from their members' rows, which also repairs changes without a note, such as a restore
-- without triggers; and sums up ended joins anew. The caller holds the joins. A member whose row is gone without an
-- outcome counts as failed, unless a pending note will say how it ended. All members of a join without memberships
-- count as failed. It counts at least one join, and stops after 20000 members; for the other joins it writes
-- notes.
CREATE FUNCTION "{{schema}}"."outbox_join_recount"(ids uuid[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
DECLARE
    chosen uuid[];
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    chosen := ARRAY(
        SELECT s.id
        FROM (
            SELECT j.id, sum(j.expected::bigint) OVER (ORDER BY j.id) - j.expected AS members_before
            FROM "{{schema}}"."outbox_join" AS j
            WHERE j.id = ANY ($1)
        ) AS s
        WHERE s.members_before < 20000);
    INSERT INTO "{{schema}}"."outbox_join_note" (join_id)
    SELECT u.id FROM unnest($1) AS u (id) EXCEPT SELECT u.id FROM unnest(chosen) AS u (id);

    WITH missed AS MATERIALIZED (
        SELECT m.ctid AS place,
               CASE WHEN t.status = 2 THEN 1 WHEN t.completed_at IS NOT NULL OR t.id IS NULL THEN 2 END AS outcome
        FROM "{{schema}}"."outbox_join" AS j
        JOIN "{{schema}}"."outbox_join_member" AS m ON m.join_id = j.id
        LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = m.member_id
        WHERE j.id = ANY (chosen)
          AND j.status = 0
          AND CASE WHEN t.id IS NULL
              THEN m.outcome IS NULL
                  AND m.member_id NOT IN (SELECT n.member_id FROM "{{schema}}"."outbox_join_note" AS n WHERE n.member_id IS NOT NULL)
              ELSE m.outcome IS DISTINCT FROM CASE WHEN t.status = 2 THEN 1 WHEN t.completed_at IS NOT NULL THEN 2 END
          END
        FOR NO KEY UPDATE OF m SKIP LOCKED
    )
    UPDATE "{{schema}}"."outbox_join_member" AS m SET outcome = s.outcome FROM missed AS s WHERE m.ctid = s.place;

    UPDATE "{{schema}}"."outbox_join" AS j
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
        FROM "{{schema}}"."outbox_join_member" AS m
        WHERE m.join_id = ANY (chosen)
        GROUP BY m.join_id
    ) AS c
    WHERE j.id = c.join_id
      AND (j.expected, j.succeeded, j.failed, j.late) IS DISTINCT FROM (c.expected, c.succeeded, c.failed, c.late);

    UPDATE "{{schema}}"."outbox_join" AS j
    SET succeeded = 0, failed = j.expected
    WHERE j.id = ANY (chosen)
      AND j.status = 0
      AND NOT EXISTS (SELECT FROM "{{schema}}"."outbox_join_member" AS m WHERE m.join_id = j.id);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_join_recount"(uuid[]) FROM PUBLIC;

-- Applies notes in batches, for about a tenth of a second. The continuations that this ends may be members of other
-- joins, and their notes come next. So a failure propagates down a graph level by level, and the next fold continues
-- where this one stops.
--
-- It reads each member's current state, so duplicate or reordered notes do no harm. If a member's row is gone, the note
-- says how it ended; a row that succeeded is never redriven, so its outcome 1 is final.
--
-- The members' rows record the outcomes, the join's row has the sums. While another session holds the join, to extend
-- or to cancel it, its members are marked all the same, and the join is counted anew in half a second.
CREATE FUNCTION "{{schema}}"."outbox_join_apply"(max_notes integer, since timestamptz, careful boolean)
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
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
            DELETE FROM "{{schema}}"."outbox_join_note" AS d
            WHERE d.ctid = ANY (ARRAY(
                SELECT r.ctid
                FROM "{{schema}}"."outbox_join_note" AS r
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
               (SELECT count(*) FROM "{{schema}}"."outbox_join_member" AS m WHERE m.member_id = ANY (members))
        INTO places, known, joins, pairs
        FROM (
            SELECT m.ctid AS place, m.join_id, n.gone
            FROM (SELECT u.id, min(u.gone) AS gone FROM unnest(members, gone) AS u (id, gone) GROUP BY u.id) AS n
            JOIN "{{schema}}"."outbox_join_member" AS m ON m.member_id = n.id
            FOR NO KEY UPDATE OF m SKIP LOCKED
        ) AS l;
        IF cardinality(places) < pairs THEN
            INSERT INTO "{{schema}}"."outbox_join_note" (at, member_id, gone)
            SELECT clock_timestamp() + interval '500 milliseconds', m.member_id, min(u.gone)
            FROM unnest(members, gone) AS u (id, gone)
            JOIN "{{schema}}"."outbox_join_member" AS m ON m.member_id = u.id
            WHERE m.ctid NOT IN (SELECT p.place FROM unnest(places) AS p (place))
            GROUP BY m.member_id;
        END IF;

        joins := joins || asked;
        missed := '{}';
        held := ARRAY(SELECT j.id FROM "{{schema}}"."outbox_join" AS j WHERE j.id = ANY (joins) FOR NO KEY UPDATE SKIP LOCKED);
        IF cardinality(held) < cardinality(joins) THEN
            missed := ARRAY(
                SELECT j.id FROM "{{schema}}"."outbox_join" AS j
                WHERE j.id = ANY (joins) AND j.id NOT IN (SELECT h.id FROM unnest(held) AS h (id)));
            INSERT INTO "{{schema}}"."outbox_join_note" (at, join_id) SELECT clock_timestamp() + interval '500 milliseconds', u.id FROM unnest(missed) AS u (id);
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
            JOIN "{{schema}}"."outbox_join_member" AS m ON m.ctid = p.place
            JOIN "{{schema}}"."outbox_join" AS j ON j.id = m.join_id
            LEFT JOIN "{{schema}}"."outbox" AS t ON t.id = m.member_id
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
            UPDATE "{{schema}}"."outbox_join_member" AS m
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
        UPDATE "{{schema}}"."outbox_join" AS j
        SET succeeded = greatest(j.succeeded + s.succeeded, 0),
            failed = greatest(j.failed + s.failed, 0),
            late = greatest(j.late + s.late, 0),
            expected = greatest(j.expected, j.succeeded + s.succeeded + j.failed + s.failed, j.late + s.late)
        FROM sums AS s
        WHERE j.id = s.join_id AND (s.succeeded <> 0 OR s.failed <> 0 OR s.late <> 0);

        IF asked <> '{}' THEN
            PERFORM "{{schema}}"."outbox_join_recount"(ARRAY(
                SELECT u.id FROM unnest(asked) AS u (id) INTERSECT SELECT h.id FROM unnest(held) AS h (id)));
        END IF;
        released := released + "{{schema}}"."outbox_join_finish"(held, careful);

        IF folded >= max_notes OR clock_timestamp() > until THEN
            again := 0;
            RETURN NEXT;
            RETURN;
        END IF;
        since := latest;
        upper := clock_timestamp();
    END LOOP;
    again := (
        SELECT extract(epoch FROM n.at - clock_timestamp()) FROM "{{schema}}"."outbox_join_note" AS n
        WHERE n.at > upper
        ORDER BY n.at
        LIMIT 1);
    RETURN NEXT;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_join_apply"(integer, timestamptz, boolean) FROM PUBLIC;

-- Applies the notes of settles, starts and sweeps. One folder runs at a time: it takes an advisory lock before it
-- reads, and each later statement sees what the previous folder committed. It never waits for a lock: rows that another
-- session holds are tried again in half a second.
--
-- Returns how many notes it took, how many continuations it released, in how many seconds the next note is due, and the
-- time of the latest note that it took. All are NULL if another session folds, or if this transaction would not see
-- what that one commits. If the database refuses to end a join, for instance by a trigger of yours on {{schema}}.outbox, the
-- other joins still end.
CREATE FUNCTION "{{schema}}"."outbox_join_fold"(max_notes integer, since timestamptz DEFAULT '-infinity')
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (max_notes BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_notes',
            MESSAGE = 'max_notes must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' OR NOT pg_try_advisory_xact_lock(hashtextextended('{{schema}}.outbox join_fold', 0)) THEN
        RETURN NEXT;
        RETURN;
    END IF;
    BEGIN
        RETURN QUERY SELECT * FROM "{{schema}}"."outbox_join_apply"(max_notes, since, false);
    EXCEPTION WHEN OTHERS THEN
        RETURN QUERY SELECT * FROM "{{schema}}"."outbox_join_apply"(max_notes, since, true);
    END;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_join_fold"(integer, timestamptz) FROM PUBLIC;

-- Deletes up to max_members members of the joins, and then the joins that have none left. Returns how many joins it
-- deleted. Members that another session holds locked are skipped, and their joins stay. The caller holds the joins'
-- rows FOR UPDATE.
CREATE FUNCTION "{{schema}}"."outbox_join_forget"(ids uuid[], max_members integer) RETURNS integer
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    DELETE FROM "{{schema}}"."outbox_join_member" AS m
    WHERE m.ctid = ANY (ARRAY(
        SELECT r.ctid FROM "{{schema}}"."outbox_join_member" AS r WHERE r.join_id = ANY ($1) LIMIT $2 FOR UPDATE SKIP LOCKED));
    DELETE FROM "{{schema}}"."outbox_join" AS j
    WHERE j.id = ANY ($1) AND NOT EXISTS (SELECT FROM "{{schema}}"."outbox_join_member" AS m WHERE m.join_id = j.id);
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    RETURN forgotten;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_join_forget"(uuid[], integer) FROM PUBLIC;

-- Deletes up to max_rows joins that ended longer ago than age, oldest first. A join is kept while a continuation may
-- still read it.
CREATE FUNCTION "{{schema}}"."outbox_join_purge"(age interval, max_rows integer DEFAULT 1000) RETURNS integer
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($2 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    RETURN "{{schema}}"."outbox_join_forget"(ARRAY(
        SELECT j.id
        FROM "{{schema}}"."outbox_join" AS j
        WHERE j.completed_at IS NOT NULL AND j.completed_at < now() - $1 AND NOT EXISTS (SELECT FROM "{{schema}}"."outbox" AS t WHERE t.id IN (j.on_complete, j.on_fail) AND t.status <> 2)
        ORDER BY j.completed_at
        LIMIT $2
        FOR UPDATE SKIP LOCKED), NULL);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_join_purge"(interval, integer) FROM PUBLIC;

-- Ready -> Failed for rows that wait for a join which is gone, as after a restore without the table of joins. How the
-- join would have ended is unknown, so the rows become dead letters that an operator can redrive. A row is left alone
-- for a quarter of an hour, so that its join can be started.
--
-- Each call looks at some of the waiting rows, beginning where the last call stopped, at most every five seconds.
-- Returns how many rows it ended.
CREATE FUNCTION "{{schema}}"."outbox_join_strand"(max_rows integer) RETURNS integer
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($1 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    SELECT c.row_id INTO place FROM "{{schema}}"."outbox_join_cursor" AS c
    WHERE c.swept_at NOT BETWEEN clock_timestamp() - interval '5 seconds' AND clock_timestamp()
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        IF NOT EXISTS (SELECT FROM "{{schema}}"."outbox_join_cursor") THEN -- the table was truncated
            INSERT INTO "{{schema}}"."outbox_join_cursor" DEFAULT VALUES ON CONFLICT DO NOTHING;
        END IF;
        RETURN 0; -- another session sweeps, or has swept in the last five seconds
    END IF;
    looked := ARRAY(
        SELECT t.id FROM "{{schema}}"."outbox" AS t
        WHERE t.completed_at IS NULL AND t.waiting AND t.id > place
        ORDER BY t.id
        LIMIT most);
    UPDATE "{{schema}}"."outbox_join_cursor" AS c -- if there were fewer rows than most, the next call starts over
    SET row_id = coalesce(looked[most], '00000000-0000-0000-0000-000000000000'), swept_at = clock_timestamp();

    held := ARRAY(
        SELECT t.id FROM "{{schema}}"."outbox" AS t
        WHERE t.id = ANY (looked) AND t.completed_at IS NULL AND t.waiting AND t.key_seq IS NULL AND t.aside IS NULL AND t.created_at < now() - interval '15 minutes' AND NOT EXISTS (SELECT FROM "{{schema}}"."outbox_join" AS j WHERE j.on_complete = t.id) AND NOT EXISTS (SELECT FROM "{{schema}}"."outbox_join" AS j WHERE j.on_fail = t.id)
        FOR NO KEY UPDATE SKIP LOCKED);
    UPDATE "{{schema}}"."outbox" AS t
    SET status = 3,
        completed_at = clock_timestamp(),
        failed_at = clock_timestamp(),
        last_error = 'waited for a join that is gone'
    WHERE t.id = ANY (held) AND t.completed_at IS NULL AND t.waiting AND t.key_seq IS NULL AND t.aside IS NULL AND t.created_at < now() - interval '15 minutes' AND NOT EXISTS (SELECT FROM "{{schema}}"."outbox_join" AS j WHERE j.on_complete = t.id) AND NOT EXISTS (SELECT FROM "{{schema}}"."outbox_join" AS j WHERE j.on_fail = t.id); -- again: a join may have been started before the row was locked
    GET DIAGNOSTICS stranded = ROW_COUNT;
    RETURN stranded;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_join_strand"(integer) FROM PUBLIC;

-- Repairs and cleans up without notes: it has pending joins counted anew, which repairs a stranded one; deletes ended
-- joins after their retention, up to 20000 members at a time; and ends rows whose join is gone. A join that a
-- continuation may still read is kept, and looked at again in an hour. Returns how many joins and rows it handled.
--
-- One index finds the joins to look at: pending ones at an age of one minute, two, four and so on, at least every
-- quarter of an hour. Rows that another session holds are left to the next sweep.
CREATE FUNCTION "{{schema}}"."outbox_join_sweep"(max_rows integer DEFAULT 100) RETURNS integer
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF (max_rows BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    SELECT array_agg(l.id) FILTER (WHERE l.status = 0),
           array_agg(l.id) FILTER (WHERE l.status <> 0 AND NOT EXISTS (SELECT FROM "{{schema}}"."outbox" AS t WHERE t.id IN (l.on_complete, l.on_fail) AND t.status <> 2)),
           array_agg(l.id) FILTER (WHERE l.status <> 0 AND EXISTS (SELECT FROM "{{schema}}"."outbox" AS t WHERE t.id IN (l.on_complete, l.on_fail) AND t.status <> 2))
    INTO pending, ended, needed
    FROM (
        SELECT j.id, j.status, j.on_complete, j.on_fail
        FROM "{{schema}}"."outbox_join" AS j
        WHERE j.look_at <= now()
        ORDER BY j.look_at
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    ) AS l;
    IF pending IS NOT NULL THEN
        INSERT INTO "{{schema}}"."outbox_join_note" (join_id) SELECT u.id FROM unnest(pending) AS u (id);
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END);
        UPDATE "{{schema}}"."outbox_join" AS j
        SET look_at = now() + least(greatest(now() - j.created_at, interval '1 minute'), interval '15 minutes')
        WHERE j.id = ANY (pending);
    END IF;
    IF needed IS NOT NULL THEN
        UPDATE "{{schema}}"."outbox_join" AS j SET look_at = now() + interval '1 hour' WHERE j.id = ANY (needed);
    END IF;
    RETURN coalesce(cardinality(pending), 0) + coalesce(cardinality(needed), 0)
        + "{{schema}}"."outbox_join_forget"(ended, 20000)
        + "{{schema}}"."outbox_join_strand"($1);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_join_sweep"(integer) FROM PUBLIC;

-- A row by which policies decide who sees a join: the first that exists of its continuations and its members, or NULL.
-- It runs with its owner's rights, since a row that is hidden is not one that is gone, and returns nothing but an id.
CREATE FUNCTION "{{schema}}"."outbox_join_row"(id uuid) RETURNS uuid
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
    IF pg_catalog.row_security_active('"{{schema}}"."outbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_member"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_note"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."outbox_join_cursor"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.outbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    RETURN coalesce(
        (SELECT t.id FROM "{{schema}}"."outbox_join" AS j
            JOIN "{{schema}}"."outbox" AS t ON t.id = ANY (ARRAY[j.on_complete, j.on_fail])
            WHERE j.id = $1
            LIMIT 1),
        (SELECT t.id FROM "{{schema}}"."outbox_join_member" AS m
            JOIN "{{schema}}"."outbox" AS t ON t.id = m.member_id
            WHERE m.join_id = $1
            LIMIT 1));
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_join_row"(uuid) FROM PUBLIC;

-- Makes policies of the tables of joins that follow those of the domain table, if it has row-level security, and takes
-- them away if it has none. For the owner of the tables, who calls it after each change of that.
--
-- A join is seen by those who see its continuation or, if it has none, its members. Nobody can continue a join with a
-- row that he does not see, nor add a step to a join of others. Only who sees all rows reads notes; a note by hand only
-- has a join counted anew.
CREATE FUNCTION "{{schema}}"."outbox_join_policies"() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $txwork$
BEGIN
    DROP POLICY IF EXISTS txwork_read ON "{{schema}}"."outbox_join";
    DROP POLICY IF EXISTS txwork_insert ON "{{schema}}"."outbox_join";
    DROP POLICY IF EXISTS txwork_update ON "{{schema}}"."outbox_join";
    DROP POLICY IF EXISTS txwork_read ON "{{schema}}"."outbox_join_member";
    DROP POLICY IF EXISTS txwork_insert ON "{{schema}}"."outbox_join_member";
    DROP POLICY IF EXISTS txwork_insert ON "{{schema}}"."outbox_join_note";
    IF NOT (SELECT c.relrowsecurity FROM pg_class AS c WHERE c.oid = '"{{schema}}"."outbox"'::regclass) THEN
        ALTER TABLE "{{schema}}"."outbox_join" DISABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."outbox_join_member" DISABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."outbox_join_note" DISABLE ROW LEVEL SECURITY;
        ALTER TABLE "{{schema}}"."outbox_join_cursor" DISABLE ROW LEVEL SECURITY;
        RETURN;
    END IF;
    ALTER TABLE "{{schema}}"."outbox_join" ENABLE ROW LEVEL SECURITY;
    ALTER TABLE "{{schema}}"."outbox_join_member" ENABLE ROW LEVEL SECURITY;
    ALTER TABLE "{{schema}}"."outbox_join_note" ENABLE ROW LEVEL SECURITY;
    ALTER TABLE "{{schema}}"."outbox_join_cursor" ENABLE ROW LEVEL SECURITY;

    CREATE POLICY txwork_read ON "{{schema}}"."outbox_join" FOR SELECT
        USING (EXISTS (SELECT FROM "{{schema}}"."outbox" AS t WHERE t.id = "{{schema}}"."outbox_join_row"("{{schema}}"."outbox_join".id)));
    CREATE POLICY txwork_insert ON "{{schema}}"."outbox_join" FOR INSERT WITH CHECK (
        ("{{schema}}"."outbox_join".on_complete IS NULL OR EXISTS (SELECT FROM "{{schema}}"."outbox" AS t WHERE t.id = "{{schema}}"."outbox_join".on_complete))
        AND ("{{schema}}"."outbox_join".on_fail IS NULL OR EXISTS (SELECT FROM "{{schema}}"."outbox" AS t WHERE t.id = "{{schema}}"."outbox_join".on_fail)));
    CREATE POLICY txwork_update ON "{{schema}}"."outbox_join" FOR UPDATE
        USING (EXISTS (SELECT FROM "{{schema}}"."outbox" AS t WHERE t.id = "{{schema}}"."outbox_join_row"("{{schema}}"."outbox_join".id)))
        WITH CHECK (
            ("{{schema}}"."outbox_join".on_complete IS NULL OR EXISTS (SELECT FROM "{{schema}}"."outbox" AS t WHERE t.id = "{{schema}}"."outbox_join".on_complete))
            AND ("{{schema}}"."outbox_join".on_fail IS NULL OR EXISTS (SELECT FROM "{{schema}}"."outbox" AS t WHERE t.id = "{{schema}}"."outbox_join".on_fail)));

    CREATE POLICY txwork_read ON "{{schema}}"."outbox_join_member" FOR SELECT USING (
        EXISTS (SELECT FROM "{{schema}}"."outbox" AS t WHERE t.id = "{{schema}}"."outbox_join_member".member_id)
        OR EXISTS (SELECT FROM "{{schema}}"."outbox" AS t WHERE t.id = "{{schema}}"."outbox_join_row"("{{schema}}"."outbox_join_member".join_id)));
    CREATE POLICY txwork_insert ON "{{schema}}"."outbox_join_member" FOR INSERT WITH CHECK (
        EXISTS (SELECT FROM "{{schema}}"."outbox" AS t WHERE t.id = "{{schema}}"."outbox_join_member".member_id)
        AND ("{{schema}}"."outbox_join_row"("{{schema}}"."outbox_join_member".join_id) IS NULL -- the first steps of a join without a continuation
            OR EXISTS (SELECT FROM "{{schema}}"."outbox" AS t WHERE t.id = "{{schema}}"."outbox_join_row"("{{schema}}"."outbox_join_member".join_id))));

    CREATE POLICY txwork_insert ON "{{schema}}"."outbox_join_note" FOR INSERT WITH CHECK (
        "{{schema}}"."outbox_join_note".member_id IS NULL AND "{{schema}}"."outbox_join_note".gone IS NULL
        OR EXISTS (SELECT FROM "{{schema}}"."outbox" AS t WHERE t.id = "{{schema}}"."outbox_join_note".member_id));
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_join_policies"() FROM PUBLIC;

-- Nothing -> pending, with the rows of the join, in the caller's transaction: for programs in any language. Rows are
-- objects as <table>_enqueue_many has them, and none of them may be unique. They are new, so nobody else sees them, and
-- nothing but the writers' locks of ordered keys is waited for. Everything is checked before anything is written.
--
-- What is returned of a continuation has another name than the parameter: PL/pgSQL refuses the same name twice.
CREATE FUNCTION "{{schema}}"."outbox_start_join"(
    steps jsonb, on_complete jsonb DEFAULT NULL, on_fail jsonb DEFAULT NULL,
    policy text DEFAULT 'wait_all', deadline timestamptz DEFAULT NULL, label text DEFAULT NULL,
    INOUT id uuid DEFAULT NULL,
    OUT step_ids uuid[], OUT on_complete_id uuid, OUT on_fail_id uuid
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
    a4 text[];
    a5 boolean[];
    a6 text[];
    a7 timestamptz[];
    a8 jsonb[];
    a9 integer[];
    a10 uuid[];
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
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'steps',
            MESSAGE = 'steps must be an array of objects',
            HINT = 'Give a JSON array with an object for each row; an empty one is a join without steps.';
    END IF;
    IF (jsonb_array_length($1) <= 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'steps',
            MESSAGE = 'steps must have at most 10000 elements',
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
    WHERE CASE jsonb_typeof(e.value) WHEN 'object' THEN e.value - ARRAY['topic', 'payload', 'payload_text', 'payload_base64', 'key', 'dedup_key', 'ordered', 'on_failure', 'scheduled_at', 'headers', 'max_attempts', 'id'] <> '{}' OR (e.value ? 'payload')::int + (e.value ? 'payload_text')::int + (e.value ? 'payload_base64')::int > 1 ELSE true END;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = CASE WHEN bad <= n THEN 'steps' WHEN bad = n + 1 AND $2 IS NOT NULL THEN 'on_complete' ELSE 'on_fail' END,
            MESSAGE = format('%s, it must be an object with known fields: %s', CASE WHEN bad <= n THEN 'steps' || ' has a wrong element ' || bad WHEN bad = n + 1 AND $2 IS NOT NULL THEN 'on_complete' ELSE 'on_fail' END,
                left(messages ->> (bad - 1)::integer, 100)),
            HINT = 'Fields are topic, payload, payload_text, payload_base64, key, dedup_key, ordered, on_failure, scheduled_at, headers, max_attempts, id; a payload is in one of its fields.';
    END IF;
    BEGIN
        SELECT count(*)::integer, min(r.ord * 1000 + CASE
                WHEN (r.c8 IS NULL OR jsonb_typeof(r.c8) = 'object') IS NOT TRUE THEN 1
                WHEN (r.c7 IS NULL OR r.c7 BETWEEN '1970-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00') IS NOT TRUE THEN 2
                WHEN (r.c9 IS NULL OR r.c9 BETWEEN 1 AND 1000000) IS NOT TRUE THEN 3
                WHEN (r.c6 IN ('block', 'park', 'skip')) IS NOT TRUE THEN 4
                WHEN (r.c5 IS NOT NULL) IS NOT TRUE THEN 5
                WHEN (octet_length(r.c1) BETWEEN 1 AND 255) IS NOT TRUE THEN 6
                WHEN (r.c3 IS NULL OR octet_length(r.c3) <= 255) IS NOT TRUE THEN 7
                WHEN (octet_length(r.c2) <= 1048576) IS NOT TRUE THEN 8
                WHEN (r.c4 IS NULL OR octet_length(r.c4) <= 255) IS NOT TRUE THEN 9
                WHEN r.c8 IS NOT NULL AND ((SELECT coalesce(sum(octet_length(h.name) + coalesce(octet_length(h.value), 0)), 0) FROM jsonb_each_text(r.c8) AS h (name, value)) <= 65536) IS NOT TRUE THEN 10
                WHEN (false) OR ((nullif(r.c4, '')) IS NOT NULL) THEN 11 END),
            bool_or((CASE WHEN r.c5 THEN nullif(r.c3, '') END) IS NOT NULL), bool_or((nullif(r.c4, '')) IS NOT NULL),
            array_agg(CASE WHEN (CASE WHEN r.c5 THEN nullif(r.c3, '') END) IS NOT NULL THEN hashtextextended('{{schema}}.outbox ' || (CASE WHEN r.c5 THEN nullif(r.c3, '') END), 1) END),
            array_agg(false),
            array_agg(r.c1),
            array_agg(r.c2),
            array_agg(r.c3),
            array_agg(r.c4),
            array_agg(r.c5),
            array_agg(r.c6),
            array_agg(r.c7),
            array_agg(r.c8),
            array_agg(r.c9),
            array_agg(r.id)
        INTO size, bad, keyed, holds, locks, alone, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10
        FROM (
            SELECT f.ord,
                f.f1 AS c1,
                coalesce(convert_to(f.f2::text, 'UTF8'), convert_to(f.f3, 'UTF8'), decode(f.f4, 'base64')) AS c2,
                f.f5 AS c3,
                f.f6 AS c4,
                coalesce(f.f7, true) AS c5,
                coalesce(f.f8, 'block') AS c6,
                f.f9 AS c7,
                f.f10 AS c8,
                f.f11 AS c9,
                coalesce(f.f12, (began || '7' || lpad(to_hex(f.ord >> 2), 3, '0') || to_hex(8 + (f.ord & 3)) || substr(gen_random_uuid()::text, 21))::uuid) AS id
            FROM ROWS FROM (jsonb_to_recordset(messages) AS ("topic" text, "payload" jsonb, "payload_text" text, "payload_base64" text, "key" text, "dedup_key" text, "ordered" boolean, "on_failure" text, "scheduled_at" timestamptz, "headers" jsonb, "max_attempts" integer, "id" uuid))
                WITH ORDINALITY AS f (f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, ord)
            OFFSET 0) AS r;
    EXCEPTION WHEN data_exception THEN
        FOR bad IN 1..jsonb_array_length(messages) LOOP -- which one is it?
            BEGIN
                PERFORM r.* FROM (
            SELECT f.ord,
                f.f1 AS c1,
                coalesce(convert_to(f.f2::text, 'UTF8'), convert_to(f.f3, 'UTF8'), decode(f.f4, 'base64')) AS c2,
                f.f5 AS c3,
                f.f6 AS c4,
                coalesce(f.f7, true) AS c5,
                coalesce(f.f8, 'block') AS c6,
                f.f9 AS c7,
                f.f10 AS c8,
                f.f11 AS c9,
                coalesce(f.f12, (began || '7' || lpad(to_hex(f.ord >> 2), 3, '0') || to_hex(8 + (f.ord & 3)) || substr(gen_random_uuid()::text, 21))::uuid) AS id
            FROM ROWS FROM (jsonb_to_recordset(jsonb_build_array(messages -> bad - 1)) AS ("topic" text, "payload" jsonb, "payload_text" text, "payload_base64" text, "key" text, "dedup_key" text, "ordered" boolean, "on_failure" text, "scheduled_at" timestamptz, "headers" jsonb, "max_attempts" integer, "id" uuid))
                WITH ORDINALITY AS f (f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, ord)) AS r;
            EXCEPTION WHEN data_exception THEN
                RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = CASE WHEN bad <= n THEN 'steps' WHEN bad = n + 1 AND $2 IS NOT NULL THEN 'on_complete' ELSE 'on_fail' END,
                    MESSAGE = format('%s, a value is not of its field''s type: %s', CASE WHEN bad <= n THEN 'steps' || ' has a wrong element ' || bad WHEN bad = n + 1 AND $2 IS NOT NULL THEN 'on_complete' ELSE 'on_fail' END, SQLERRM),
                    HINT = 'Fields are topic, payload, payload_text, payload_base64, key, dedup_key, ordered, on_failure, scheduled_at, headers, max_attempts, id; a payload is in one of its fields.';
            END;
        END LOOP;
        RAISE;
    END;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = CASE WHEN bad / 1000 <= n THEN 'steps' WHEN bad / 1000 = n + 1 AND $2 IS NOT NULL THEN 'on_complete' ELSE 'on_fail' END,
            MESSAGE = format('%s: %s', CASE WHEN bad / 1000 <= n THEN 'steps' || ' has a wrong element ' || bad / 1000 WHEN bad / 1000 = n + 1 AND $2 IS NOT NULL THEN 'on_complete' ELSE 'on_fail' END, (ARRAY[
                'headers must be a JSON object',
                'scheduled_at must be between 1970 and 9999',
                'max_attempts must be between 1 and 1000000',
                'on_failure must be block, park or skip',
                'ordered must be true or false',
                'topic must have 1 to 255 bytes, and must not be NULL',
                'key must have at most 255 bytes',
                'payload must have at most 1048576 bytes, and must not be NULL',
                'dedup_key must have at most 255 bytes',
                'headers must have at most 65536 bytes',
                'it must not be unique, since it has to be a row of its own'])[bad % 1000]),
            HINT = 'Fields are topic, payload, payload_text, payload_base64, key, dedup_key, ordered, on_failure, scheduled_at, headers, max_attempts, id; a payload is in one of its fields.';
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
            INSERT INTO "{{schema}}"."outbox" (id, due_at, max_attempts, headers, "topic", "key", "payload", "dedup_key", "concurrency_key", "key_limit", "key_policy", "joined", "waiting")
            SELECT s.id, greatest(s.c7, now()), coalesce(s.c9, 130), nullif(s.c8 - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent'], '{}'), s.c1, nullif(s.c3, ''), s.c2, nullif(s.c4, ''), CASE WHEN s.c5 THEN nullif(s.c3, '') END, CASE WHEN CASE WHEN s.c5 THEN nullif(s.c3, '') END IS NOT NULL THEN 0 END, CASE WHEN CASE WHEN s.c5 THEN nullif(s.c3, '') END IS NOT NULL THEN CASE s.c6 WHEN 'block' THEN 1 WHEN 'park' THEN 2 WHEN 'skip' THEN 0 END END, nullif(s.ord <= n, false), s.ord > n
            FROM unnest(
                a10::uuid[],
                a1::text[],
                a2::bytea[],
                a3::text[],
                a4::text[],
                a5::boolean[],
                a6::text[],
                a7::timestamptz[],
                a8::jsonb[],
                a9::integer[]
            ) WITH ORDINALITY AS s (id, c1, c2, c3, c4, c5, c6, c7, c8, c9, ord)
            ORDER BY s.ord
            RETURNING id
    )
    SELECT array_agg(w.id) INTO done FROM w;
    IF cardinality(done) IS DISTINCT FROM cardinality(a10) THEN
            RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
                MESSAGE = '{{schema}}.outbox took a row and stored none: does a trigger, a rule or a policy of the '
                    'table suppress it, or hide the row that has its unique values?';
    END IF;
    step_ids := coalesce(a10[1:n], '{}');
    on_complete_id := CASE WHEN $2 IS NOT NULL THEN a10[n + 1] END;
    on_fail_id := CASE WHEN jsonb_typeof($3) = 'object' THEN a10[size] END;
    WITH s AS (
        SELECT *
        FROM jsonb_to_recordset(jsonb_build_array(jsonb_strip_nulls(jsonb_build_object('id', $7, 'policy', array_position(ARRAY['wait_all', 'fail_fast', 'any_outcome'], $4) - 1,
            'expected', n, 'on_complete', on_complete_id, 'on_fail', on_fail_id,
            'deadline', $5, 'label', nullif($6, ''), 'retention', '604800000000 microseconds')))::text::jsonb) AS s (
            id pg_catalog.uuid, policy smallint, expected integer, on_complete pg_catalog.uuid, on_fail pg_catalog.uuid,
            deadline pg_catalog.timestamptz, label pg_catalog.text, retention interval)
    ), noted AS (
        INSERT INTO "{{schema}}"."outbox_join_note" (at, join_id)
        SELECT clock_timestamp(), s.id FROM s WHERE s.expected = 0
        UNION ALL
        SELECT greatest(s.deadline, clock_timestamp()), s.id FROM s WHERE s.deadline IS NOT NULL
        RETURNING (SELECT (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END))
    )
    INSERT INTO "{{schema}}"."outbox_join" (id, policy, expected, on_complete, on_fail, deadline, label, look_at, retention)
    SELECT s.id, s.policy, s.expected, s.on_complete, s.on_fail, s.deadline, s.label, now() + interval '1 minute',
           s.retention
    FROM s;
    IF n > 0 THEN
        WITH s AS (
            SELECT s.member_id, s.join_id, t.status
            FROM unnest(step_ids::uuid[], array_fill($7, ARRAY[n])::uuid[]) AS s (member_id, join_id)
            JOIN "{{schema}}"."outbox" AS t ON t.id = s.member_id
        ), noted AS (
            INSERT INTO "{{schema}}"."outbox_join_note" (member_id, gone)
            SELECT s.member_id, CASE s.status WHEN 2 THEN 1 ELSE 2 END FROM s WHERE s.status IN (2, 3)
            RETURNING (SELECT (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.outbox', pg_catalog.concat('note:', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)) ELSE ''::pg_catalog.void END))
        )
        INSERT INTO "{{schema}}"."outbox_join_member" (member_id, join_id) SELECT s.member_id, s.join_id FROM s;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."outbox_start_join"(jsonb, jsonb, jsonb, text, timestamptz, text, uuid) FROM PUBLIC;

