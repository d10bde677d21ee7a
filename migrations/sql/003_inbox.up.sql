-- A retry policy that cannot be computed would fail the reaper's whole batch. It is a domain because the server parses
-- a CHECK of a table anew for every statement that writes to the table, and that of a domain once in a session. Delays
-- are whole microseconds, and a jitter is 0 or large enough to matter: NaN would pass a comparison by >=, and numbers
-- that are too large or too small make a multiplication fail. The types of each operator match its operands exactly, so
-- that no operator in the caller's search_path fits better.
CREATE DOMAIN "{{schema}}"."inbox_retry" AS jsonb CONSTRAINT "inbox_retry_check" CHECK (
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
CREATE DOMAIN "{{schema}}"."inbox_time" AS timestamptz CONSTRAINT "inbox_time_check" CHECK (
    VALUE <@ '[0001-01-01 00:00:00+00, 9999-12-31 00:00:00+00]'::tstzrange
);

-- The values that columns may have, in domains for the same reason.
CREATE DOMAIN "{{schema}}"."inbox_consumer_value" AS text
    CONSTRAINT "inbox_consumer_check" CHECK (octet_length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN "{{schema}}"."inbox_source_value" AS text
    CONSTRAINT "inbox_source_check" CHECK (octet_length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN "{{schema}}"."inbox_message_id_value" AS text
    CONSTRAINT "inbox_message_id_check" CHECK (octet_length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN "{{schema}}"."inbox_body_hash_value" AS bytea
    CONSTRAINT "inbox_body_hash_check" CHECK (octet_length(VALUE) = 32);

CREATE TABLE "{{schema}}"."inbox" (
    id uuid PRIMARY KEY DEFAULT encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid,
    due_at "{{schema}}"."inbox_time" NOT NULL DEFAULT now(),
    created_at "{{schema}}"."inbox_time" NOT NULL DEFAULT now(),
    max_attempts integer NOT NULL DEFAULT 130,
    attempts integer NOT NULL DEFAULT 0,
    status smallint NOT NULL DEFAULT 0,
    waiting boolean NOT NULL DEFAULT false,
    locked_until "{{schema}}"."inbox_time",
    completed_at "{{schema}}"."inbox_time",
    owner_token uuid,
    failed_at "{{schema}}"."inbox_time",
    cancelled_at "{{schema}}"."inbox_time",
    last_error text,
    headers jsonb,
    retry "{{schema}}"."inbox_retry",
    "consumer" "{{schema}}"."inbox_consumer_value" NOT NULL,
    "source" "{{schema}}"."inbox_source_value" NOT NULL,
    "message_id" "{{schema}}"."inbox_message_id_value" NOT NULL,
    "body_hash" "{{schema}}"."inbox_body_hash_value",
    "topic" text,
    "payload" bytea,
    aside boolean, -- true: the row waits in the lane of its topic
    -- Which times each status has. It is short because every statement that writes parses the checks anew: a row in
    -- progress has locked_until (1), a done one has completed_at, which counts twice (2), and a failed one has
    -- completed_at and failed_at (3). A ready row is not cancelled: no claim would end it.
    CONSTRAINT "inbox_state_check" CHECK (
        status = num_nonnulls(completed_at, completed_at, failed_at, locked_until)
        AND CASE WHEN completed_at IS NOT NULL THEN locked_until IS NULL
            ELSE failed_at IS NULL AND CASE WHEN locked_until IS NULL THEN cancelled_at IS NULL
                ELSE owner_token IS NOT NULL AND NOT waiting END
            END
    ),
    -- A Ready row without attempts left would fail every claim that finds it. A row in progress may be at its last
    -- attempt. The status is subtracted because a sum would overflow in a row whose maximum is the greatest integer.
    CONSTRAINT "inbox_attempts_check"
        CHECK (max_attempts > 0 AND attempts >= 0 AND attempts - status < max_attempts)
) WITH (
    fillfactor = 42,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);

COMMENT ON TABLE "{{schema}}"."inbox" IS 'txwork core 1';

CREATE INDEX "inbox_claim_idx" ON "{{schema}}"."inbox" ("consumer", due_at, id)
    WHERE completed_at IS NULL AND NOT waiting;

CREATE INDEX "inbox_waiting_idx" ON "{{schema}}"."inbox" (id) WHERE completed_at IS NULL AND waiting;

CREATE INDEX "inbox_done_idx" ON "{{schema}}"."inbox" (completed_at)
    WHERE completed_at IS NOT NULL AND (failed_at IS NULL OR cancelled_at IS NOT NULL);

CREATE INDEX "inbox_failed_idx" ON "{{schema}}"."inbox" (failed_at, id) WHERE failed_at IS NOT NULL;

CREATE UNIQUE INDEX "inbox_unique_idx" ON "{{schema}}"."inbox"
    ("consumer", "source", "message_id")
    WHERE "consumer" IS NOT NULL AND "source" IS NOT NULL AND "message_id" IS NOT NULL;

-- Notifies workers, unless an announcer does so for this transaction. A trigger of another table, which no announcer
-- watches, passes an argument so that it always notifies.
--
-- No search_path is pinned; every name is qualified instead. Setting and resetting it would cost the server a tenth of
-- a transaction that inserts one row.
CREATE FUNCTION "{{schema}}"."inbox_announce"() RETURNS trigger
LANGUAGE plpgsql
AS $txwork$
BEGIN
    IF TG_NARGS OPERATOR(pg_catalog.>) 0 OR (CASE
        WHEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.inbox announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.inbox announcer', 0)) ELSE false END) THEN true
        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.+) '500ms'::pg_catalog.interval) THEN true
        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended('{{schema}}.inbox silent', 0)) THEN (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('{{schema}}.inbox announcer', 0)) THEN pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtextextended('{{schema}}.inbox announcer', 0)) ELSE false END)
        ELSE true END) THEN
        PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.inbox', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END);
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_announce"() FROM PUBLIC;

CREATE TRIGGER "inbox_announce" AFTER INSERT ON "{{schema}}"."inbox"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."inbox_announce"();

-- Topics of "{{schema}}"."inbox": an operator may pause one, one may rest because its destination is unavailable, and a worker
-- may have no room for more rows of one. A claim does not pass over such rows, since the next claim would have to pass
-- over them again. It sets them *aside*: they wait outside the claim index, where each topic is a lane of its own, in
-- the order of their due times. Claims take the rows of a topic from its lane when the topic is resumed, opens or has
-- room. No row is moved back, so that costs one row.
--
-- While a topic has rows aside, its new rows queue up behind these.

-- The state of topics. A topic without a row here is not paused, and its destination is not known to be unavailable.
-- While it is, the topic rests for a time. Then one row probes the destination: it is in progress with this token and,
-- by its claim, in this attempt. first_rest and longest_rest may be changed.
CREATE TABLE "{{schema}}"."inbox_topic" (
    "consumer" "{{schema}}"."inbox_consumer_value" NOT NULL,
    topic text NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND 255),
    paused boolean NOT NULL DEFAULT false,
    changed_at "{{schema}}"."inbox_time" NOT NULL DEFAULT clock_timestamp(),
    unavailable_since "{{schema}}"."inbox_time",
    rests_until "{{schema}}"."inbox_time",
    rest interval,
    cause text,
    probe uuid,
    probe_token uuid,
    probe_attempt integer,
    first_rest interval NOT NULL DEFAULT interval '500 ms' CHECK (first_rest > '0'),
    longest_rest interval NOT NULL DEFAULT interval '10000 ms' CHECK (longest_rest >= first_rest),
    PRIMARY KEY ("consumer", topic),
    CHECK ((unavailable_since IS NULL) = (rests_until IS NULL))
);

-- Claims look here, mostly in vain: the index of no rows is one page.
CREATE INDEX "inbox_topic_held_idx" ON "{{schema}}"."inbox_topic" ("consumer", topic)
    WHERE paused OR unavailable_since IS NOT NULL;

-- The lanes of the rows that are set aside.
CREATE INDEX "inbox_aside_idx" ON "{{schema}}"."inbox"
    ("consumer", (left(coalesce(nullif("topic", ''), "source"), 255)), due_at, id)
    WHERE completed_at IS NULL AND aside;

-- A topic that is held or free since now has workers look at once. A probe and the next rest are no such change.
CREATE FUNCTION "{{schema}}"."inbox_topic_changed"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.paused = OLD.paused AND (NEW.unavailable_since IS NULL) = (OLD.unavailable_since IS NULL) THEN
            RETURN NULL;
        END IF;
    END IF;
    PERFORM (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.inbox', 'topic') ELSE ''::pg_catalog.void END);
    RETURN NULL;
END
$txwork$;

CREATE TRIGGER "inbox_topic_changed" AFTER INSERT OR UPDATE OR DELETE ON "{{schema}}"."inbox_topic"
FOR EACH ROW EXECUTE FUNCTION "{{schema}}"."inbox_topic_changed"();

-- Pauses a topic: no claim that begins later starts a row of it. Returns whether that changed anything. Like resume it
-- is for roles that see all rows, since it concerns the rows of all.
CREATE FUNCTION "{{schema}}"."inbox_pause"("consumer" text, topic text) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."inbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."inbox_topic"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.inbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($1 <> '') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'consumer',
            MESSAGE = 'consumer must not be empty',
            HINT = 'Name the consumer whose topic it is.';
    END IF;
    IF (octet_length($2) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'topic',
            MESSAGE = 'topic must have 1 to 255 bytes',
            HINT = 'Name a topic as its rows have it.';
    END IF;
    -- A settle that makes a new topic rest does not wait for this lock, as it would for the row.
    PERFORM pg_advisory_xact_lock(hashtextextended(concat_ws(' ', '"{{schema}}"."inbox_topic"', $1, $2), 0));
    INSERT INTO "{{schema}}"."inbox_topic" AS s ("consumer", topic, paused)
    VALUES ($1, $2, true)
    ON CONFLICT ("consumer", topic) DO UPDATE
    SET paused = true, changed_at = clock_timestamp()
    WHERE NOT s.paused;
    RETURN FOUND;
END
$txwork$;

-- Ends the pause of a topic. Returns whether it was paused.
CREATE FUNCTION "{{schema}}"."inbox_resume"("consumer" text, topic text) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    IF pg_catalog.row_security_active('"{{schema}}"."inbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."inbox_topic"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.inbox or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    IF ($1 <> '') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'consumer',
            MESSAGE = 'consumer must not be empty',
            HINT = 'Name the consumer whose topic it is.';
    END IF;
    IF (octet_length($2) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'topic',
            MESSAGE = 'topic must have 1 to 255 bytes',
            HINT = 'Name a topic as its rows have it.';
    END IF;
    UPDATE "{{schema}}"."inbox_topic" AS s
    SET paused = false, changed_at = clock_timestamp()
    WHERE s."consumer" = $1 AND s.topic = $2 AND s.paused;
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
CREATE FUNCTION "{{schema}}"."inbox_claim_by_topic"(
    owner_token uuid, lease interval, batch_size integer, after_due timestamptz[], after_id uuid[], "consumer" text[],
    busy text[], open text[], open_due timestamptz[], open_id uuid[], room integer[], asks boolean
) RETURNS TABLE (
    kind smallint, topic text, n integer, lane integer, due_at timestamptz, id uuid, claimed "{{schema}}"."inbox"
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
    topic_lane CONSTANT text := ($6)[1];
    busy CONSTANT text[] := $7;
    lanes text[] := $8;
    lanes_due timestamptz[] := $9;
    lanes_id uuid[] := $10;
    rooms integer[] := $11;
    asks CONSTANT boolean := $12;
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
    IF pg_catalog.row_security_active('"{{schema}}"."inbox_topic"'::pg_catalog.regclass) THEN
        IF EXISTS (
            SELECT FROM pg_catalog.unnest(ARRAY['"{{schema}}"."inbox_topic"'::pg_catalog.regclass]) AS s (id)
            WHERE (SELECT bool_or(p.polname = 'txwork_read') AND bool_and(p.polpermissive) FROM pg_catalog.pg_policy AS p
                WHERE p.polrelid = s.id) IS NOT TRUE)
        THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.inbox_topic or of its other tables from this role: rows that it does not see would be taken for gone',
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
    IF (($6)[1] = ALL ($6)) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'consumer',
            MESSAGE = 'consumer must be the same in all lanes of a claim',
            HINT = 'Claim from each consumer by itself.';
    END IF;

    SELECT coalesce(array_agg(p.topic), '{}'),
        coalesce(array_agg(p.topic) FILTER (WHERE p.unavailable_since IS NOT NULL), '{}'),
        coalesce(array_agg(p.topic ORDER BY p.rests_until)
            FILTER (WHERE p.unavailable_since IS NOT NULL AND NOT p.paused
                AND (p.probe IS NOT NULL OR (p.rests_until <= own.began OR p.rests_until > clock_timestamp() + p.longest_rest))), '{}')
    INTO own.paused, own.resting, own.ripe
    FROM "{{schema}}"."inbox_topic" AS p
    WHERE (p.paused OR p.unavailable_since IS NOT NULL) AND p."consumer" = own.topic_lane;

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
                FROM "{{schema}}"."inbox" AS r
                WHERE r.id = p.probe), 'ended') END AS state
        INTO own.probing
        FROM "{{schema}}"."inbox_topic" AS p
        WHERE p."consumer" = own.topic_lane AND p.topic = own.next;
        CONTINUE WHEN own.probing.state IS NULL OR own.probing.state = 'runs'
            OR own.probing.state = 'none'
                AND (own.probing.is_over IS NOT TRUE OR cardinality(own.probes) = own.batch);
        IF own.probing.state = 'none' AND NOT EXISTS (
            SELECT FROM "{{schema}}"."inbox" AS r
            WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND r."consumer" = own.topic_lane AND left(coalesce(nullif(r."topic", ''), r."source"), 255) = own.next AND r.due_at <= own.began) THEN
            is_hungry := true; -- the next claim has what this one sets aside
            CONTINUE; -- and no row of the topic is locked for nothing
        END IF;
        PERFORM FROM "{{schema}}"."inbox_topic" AS p
        WHERE p."consumer" = own.topic_lane AND p.topic = own.next
          AND p.unavailable_since = own.probing.unavailable_since AND p.rests_until = own.probing.rests_until
          AND NOT p.paused AND p.probe_token IS NOT DISTINCT FROM own.probing.probe_token
        FOR NO KEY UPDATE SKIP LOCKED;
        is_locked := FOUND;
        IF own.probing.state = 'ended' THEN
            IF own.is_locked THEN
                UPDATE "{{schema}}"."inbox_topic" AS p
                SET unavailable_since = NULL, rests_until = NULL, rest = NULL, cause = NULL, probe = NULL,
                    probe_token = NULL, probe_attempt = NULL
                WHERE p."consumer" = own.topic_lane AND p.topic = own.next;
                available := own.available || own.next;
                available_since := own.available_since || own.probing.unavailable_since::timestamptz;
            ELSIF pg_catalog.row_security_active('"{{schema}}"."inbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."inbox_topic"'::pg_catalog.regclass) THEN
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
        FROM "{{schema}}"."inbox" AS r
        WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND r."consumer" = own.topic_lane AND left(coalesce(nullif(r."topic", ''), r."source"), 255) = own.next AND r.due_at <= own.began
        ORDER BY r."consumer", left(coalesce(nullif(r."topic", ''), r."source"), 255), r.due_at, r.id
        LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            is_hungry := true;
            CONTINUE;
        END IF;
        of_lanes := own.of_lanes || own.probing.ctid;
        probes := own.probes || own.probing.id;
        UPDATE "{{schema}}"."inbox_topic" AS p
        SET probe = own.probing.id, probe_token = $1, probe_attempt = own.probing.attempt,
            rests_until = clock_timestamp() + (p.first_rest) * (1 - 0.2 * random())
        WHERE p."consumer" = own.topic_lane AND p.topic = own.next;
    END LOOP;
    probed := cardinality(own.of_lanes);

    IF own.asks OR own.lanes IS NULL THEN
        SELECT left(coalesce(nullif(r."topic", ''), r."source"), 255) INTO own.next
        FROM "{{schema}}"."inbox" AS r
        WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND r."consumer" = own.topic_lane
        ORDER BY r."consumer", left(coalesce(nullif(r."topic", ''), r."source"), 255), r.due_at, r.id
        LIMIT 1;
        WHILE own.next IS NOT NULL LOOP
            IF own.next <> ALL (own.paused) THEN
                opened := own.opened || own.next;
            END IF;
            SELECT left(coalesce(nullif(r."topic", ''), r."source"), 255) INTO own.next
            FROM "{{schema}}"."inbox" AS r
            WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND r."consumer" = own.topic_lane AND left(coalesce(nullif(r."topic", ''), r."source"), 255) > own.next
            ORDER BY r."consumer", left(coalesce(nullif(r."topic", ''), r."source"), 255), r.due_at, r.id
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
    FROM unnest(own.reached::timestamptz[], own.reached_id::uuid[], $6::text[])
        WITH ORDINALITY AS l (after_due, after_id, c1, ord)
    CROSS JOIN LATERAL (
        SELECT r.ctid, left(coalesce(nullif(r."topic", ''), r."source"), 255) = ANY (own.held) AS held, r.due_at, r.id
        FROM "{{schema}}"."inbox" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= own.began
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
          AND r."consumer" = l.c1
        ORDER BY r."consumer", r.due_at, r.id
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
                    FROM "{{schema}}"."inbox" AS r
                    WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND r."consumer" = own.topic_lane
                      AND left(coalesce(nullif(r."topic", ''), r."source"), 255) = l.topic
                      AND (r.due_at, r.id) > (l.after_due, l.after_id)
                      AND r.due_at <= own.began
                    ORDER BY r."consumer", left(coalesce(nullif(r."topic", ''), r."source"), 255), r.due_at, r.id
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
    SELECT 4::smallint, u.topic, NULL::integer, NULL::integer, NULL::timestamptz, NULL::uuid, NULL::"{{schema}}"."inbox"
    FROM unnest(CASE WHEN own.asks THEN own.opened ELSE own.free END) AS u (topic);
    IF cardinality(own.put_aside) > 0 THEN
        RETURN QUERY
        WITH moved AS (
            UPDATE "{{schema}}"."inbox" AS t
            SET waiting = true,
                aside = true
            WHERE t.ctid = ANY (own.put_aside)
            RETURNING left(coalesce(nullif(t."topic", ''), t."source"), 255) AS topic
        )
        SELECT 5::smallint, m.topic, count(*)::integer, NULL::integer, NULL::timestamptz, NULL::uuid, NULL::"{{schema}}"."inbox"
        FROM moved AS m
        WHERE m.topic <> ALL (own.paused)
        GROUP BY m.topic;
    END IF;
    IF cardinality(own.taken) > 0 THEN
        RETURN QUERY
        WITH changed AS (
UPDATE "{{schema}}"."inbox" AS t
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
UPDATE "{{schema}}"."inbox" AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = $1::uuid,
    locked_until = clock_timestamp() + $2::interval,
    waiting = false,
    aside = NULL
WHERE t.ctid = ANY (own.of_lanes)
RETURNING t AS claimed
        )
        SELECT 2::smallint, left(coalesce(nullif((c.claimed)."topic", ''), (c.claimed)."source"), 255), ((c.claimed).id = ANY (own.probes))::integer, NULL::integer,
            (c.claimed).due_at::timestamptz,
            (c.claimed).id, c.claimed
        FROM changed AS c;
    END IF;
    RETURN QUERY
    SELECT 3::smallint, NULL::text, NULL::integer, u.ord::integer, u.due, u.id, NULL::"{{schema}}"."inbox"
    FROM unnest(own.reached, own.reached_id) WITH ORDINALITY AS u (due, id, ord)
    WHERE (u.due, u.id) <> (($4)[u.ord::integer], ($5)[u.ord::integer]);
    IF cardinality(own.resting) > 0 THEN
        RETURN QUERY
        SELECT 6::smallint, p.topic, CASE WHEN p.rests_until > own.began
            THEN ceil(extract(epoch FROM p.rests_until - own.began) * 1000)::integer END, NULL::integer,
            NULL::timestamptz, NULL::uuid, NULL::"{{schema}}"."inbox"
        FROM "{{schema}}"."inbox_topic" AS p
        WHERE p.unavailable_since IS NOT NULL AND p.topic <> ALL (own.free) AND p."consumer" = own.topic_lane;
        RETURN QUERY
        SELECT 7::smallint, u.topic, NULL::integer, NULL::integer, u.since, NULL::uuid, NULL::"{{schema}}"."inbox"
        FROM unnest(own.available, own.available_since) AS u (topic, since);
    END IF;
    RETURN QUERY
    SELECT 0::smallint, NULL::text, cardinality(own.paused),
        CASE WHEN own.is_cut THEN 2 WHEN own.is_more THEN 1 ELSE 0 END, NULL::timestamptz, NULL::uuid, NULL::"{{schema}}"."inbox";
END
$txwork$;

-- The topics that are paused, rest or have rows aside, with how many rows, and how long the first of them has been due.
-- Of all topics together at most $1 rows are counted, of each an equal part of that and one at least; more says that a
-- topic may have more. At most $1 topics that are paused or rest and $1 that have rows aside are named. Those with rows
-- aside are found by one step of their index for each.
CREATE FUNCTION "{{schema}}"."inbox_topics"(most integer DEFAULT 10000) RETURNS TABLE (
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
        (SELECT 1 AS place, r."consumer"::text AS lane, left(coalesce(nullif(r."topic", ''), r."source"), 255) AS topic
        FROM "{{schema}}"."inbox" AS r
        WHERE r.completed_at IS NULL AND r.aside
        ORDER BY r."consumer", left(coalesce(nullif(r."topic", ''), r."source"), 255), r.due_at, r.id
        LIMIT 1)
        UNION ALL
        SELECT h.place + 1, n.lane, n.topic
        FROM has AS h
        CROSS JOIN LATERAL (
            SELECT r."consumer"::text AS lane, left(coalesce(nullif(r."topic", ''), r."source"), 255) AS topic
            FROM "{{schema}}"."inbox" AS r
            WHERE r.completed_at IS NULL AND r.aside
              AND (r."consumer", left(coalesce(nullif(r."topic", ''), r."source"), 255))
                  > (h.lane, h.topic)
            ORDER BY r."consumer", left(coalesce(nullif(r."topic", ''), r."source"), 255), r.due_at, r.id
            LIMIT 1) AS n
        WHERE h.place < $1
    ), known AS (
        SELECT has.lane, has.topic FROM has
        UNION
        (SELECT p."consumer"::text, p.topic FROM "{{schema}}"."inbox_topic" AS p
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
    LEFT JOIN "{{schema}}"."inbox_topic" AS s ON s."consumer" = k.lane AND s.topic = k.topic
    CROSS JOIN LATERAL (
        SELECT count(*) AS aside, min(b.due_at) AS due_at
        FROM (
            SELECT r.due_at
            FROM "{{schema}}"."inbox" AS r
            WHERE r.completed_at IS NULL AND r.aside AND r."consumer" = k.lane
              AND left(coalesce(nullif(r."topic", ''), r."source"), 255) = k.topic
            ORDER BY r."consumer", left(coalesce(nullif(r."topic", ''), r."source"), 255), r.due_at, r.id
            LIMIT part.most) AS b) AS a
    ORDER BY k.lane COLLATE "C", k.topic COLLATE "C";
END
$txwork$;

-- Shows the state of topics to all roles, if the table has row-level security, and lets only those change it that see
-- all rows: a pause concerns the rows of all. Without row-level security it takes that away. For the owner of the
-- tables, who calls it after each change of that.
CREATE FUNCTION "{{schema}}"."inbox_topic_policies"() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $txwork$
BEGIN
    DROP POLICY IF EXISTS txwork_read ON "{{schema}}"."inbox_topic";
    IF (SELECT c.relrowsecurity FROM pg_class AS c WHERE c.oid = '"{{schema}}"."inbox"'::regclass) THEN
        ALTER TABLE "{{schema}}"."inbox_topic" ENABLE ROW LEVEL SECURITY;
        CREATE POLICY txwork_read ON "{{schema}}"."inbox_topic" FOR SELECT USING (true);
    ELSE
        ALTER TABLE "{{schema}}"."inbox_topic" DISABLE ROW LEVEL SECURITY;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_claim_by_topic"(uuid, interval, integer, timestamptz[], uuid[], text[], text[], text[], timestamptz[], uuid[], integer[], boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."inbox_pause"(text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."inbox_resume"(text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."inbox_topics"(integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."inbox_topic_policies"() FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."inbox_topic_changed"() FROM PUBLIC;

-- What {{schema}}.inbox_fetch returns: rows, and one end. A later version appends columns at the end.
CREATE TYPE "{{schema}}"."inbox_fetched" AS (
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
    "consumer" text,
    "source" text,
    "message_id" text,
    "body_hash" bytea,
    "topic" text,
    "payload" bytea,
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
CREATE FUNCTION "{{schema}}"."inbox_fetch"(
    owner_token uuid,
    lease interval,
    n integer,
    "consumer" text,
    cursor text DEFAULT NULL,
    heard text[] DEFAULT NULL,
    sweep boolean DEFAULT NULL
) RETURNS SETOF "{{schema}}"."inbox_fetched"
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
    topic_lane CONSTANT text := $4;
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
    result "{{schema}}"."inbox_fetched";
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
    IF pg_catalog.row_security_active('"{{schema}}"."inbox_topic"'::pg_catalog.regclass) THEN
        IF EXISTS (
            SELECT FROM pg_catalog.unnest(ARRAY['"{{schema}}"."inbox_topic"'::pg_catalog.regclass]) AS s (id)
            WHERE (SELECT bool_or(p.polname = 'txwork_read') AND bool_and(p.polpermissive) FROM pg_catalog.pg_policy AS p
                WHERE p.polrelid = s.id) IS NOT TRUE)
        THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.inbox_topic or of its other tables from this role: rows that it does not see would be taken for gone',
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
    IF ($4 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'consumer',
            MESSAGE = 'consumer must not be NULL',
            HINT = 'Name the lane to fetch from.';
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
    lane1 := ARRAY[$4::text];
    place := array_fill('-infinity'::timestamptz, ARRAY[cardinality(own.lane1)]);
    place_id := array_fill(own.nobody, ARRAY[cardinality(own.lane1)]);
    lanes := '{}';
    lanes_due := '{}';
    lanes_id := '{}';

    digest := left(encode(sha256(convert_to(jsonb_build_array('{{schema}}.inbox', own.lane1)::text, 'UTF8')), 'hex'), 16);
    IF $5 IS NOT NULL THEN
        IF (octet_length($5) <= 8192 AND $5 ~ '^[0-9]{1,9} [0-9a-f]{16}( [^ ]+)*$') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'cursor',
            MESSAGE = 'cursor is not what an earlier call has returned',
            HINT = 'Pass the cursor of your last call that committed, or NULL to begin anew.';
    END IF;
        fields := string_to_array($5, ' ');
        IF own.fields[1] = '1' AND own.fields[2] = own.digest THEN
            IF ($5 ~ concat('^[0-9]+ [0-9a-f]{16} [0-9]{1,17} [0-9]{1,12} [01] [0-9]{1,6}( (-|-?[0-9]{1,17})/[0-9a-f]{32}){', cardinality(own.place), '}( (-|-?[0-9]{1,17})/[0-9a-f]{32}/([0-9a-f]{2})+)*$')) IS NOT TRUE THEN
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
    is_sweep := coalesce($7, own.clock >= own.sweep_at OR own.sweep_at > own.clock + 60000000);
    IF $6 IS NOT NULL THEN
        SELECT 'epoch'::timestamptz + min(substring(h.payload FROM '^(?:fold:)?([0-9]{1,16})$')::bigint)
                * interval '1 microsecond',
            bool_or(starts_with(h.payload, 'front:')),
            own.is_sweep OR coalesce(bool_or(h.payload = 'topic'), false)
        INTO own.heard_at, own.fronts, own.is_sweep
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
    FROM "{{schema}}"."inbox_topic" AS p
    WHERE (p.paused OR p.unavailable_since IS NOT NULL) AND p."consumer" = own.topic_lane;

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
                FROM "{{schema}}"."inbox" AS r
                WHERE r.id = p.probe), 'ended') END AS state
        INTO own.probing
        FROM "{{schema}}"."inbox_topic" AS p
        WHERE p."consumer" = own.topic_lane AND p.topic = own.next;
        CONTINUE WHEN own.probing.state IS NULL OR own.probing.state = 'runs'
            OR own.probing.state = 'none'
                AND (own.probing.is_over IS NOT TRUE OR cardinality(own.probes) = own.batch);
        IF own.probing.state = 'none' AND NOT EXISTS (
            SELECT FROM "{{schema}}"."inbox" AS r
            WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND r."consumer" = own.topic_lane AND left(coalesce(nullif(r."topic", ''), r."source"), 255) = own.next AND r.due_at <= own.began) THEN
            is_hungry := true; -- the next claim has what this one sets aside
            CONTINUE; -- and no row of the topic is locked for nothing
        END IF;
        PERFORM FROM "{{schema}}"."inbox_topic" AS p
        WHERE p."consumer" = own.topic_lane AND p.topic = own.next
          AND p.unavailable_since = own.probing.unavailable_since AND p.rests_until = own.probing.rests_until
          AND NOT p.paused AND p.probe_token IS NOT DISTINCT FROM own.probing.probe_token
        FOR NO KEY UPDATE SKIP LOCKED;
        is_locked := FOUND;
        IF own.probing.state = 'ended' THEN
            IF own.is_locked THEN
                UPDATE "{{schema}}"."inbox_topic" AS p
                SET unavailable_since = NULL, rests_until = NULL, rest = NULL, cause = NULL, probe = NULL,
                    probe_token = NULL, probe_attempt = NULL
                WHERE p."consumer" = own.topic_lane AND p.topic = own.next;
                available := own.available || own.next;
                available_since := own.available_since || own.probing.unavailable_since::timestamptz;
            ELSIF pg_catalog.row_security_active('"{{schema}}"."inbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."inbox_topic"'::pg_catalog.regclass) THEN
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
        FROM "{{schema}}"."inbox" AS r
        WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND r."consumer" = own.topic_lane AND left(coalesce(nullif(r."topic", ''), r."source"), 255) = own.next AND r.due_at <= own.began
        ORDER BY r."consumer", left(coalesce(nullif(r."topic", ''), r."source"), 255), r.due_at, r.id
        LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            is_hungry := true;
            CONTINUE;
        END IF;
        of_lanes := own.of_lanes || own.probing.ctid;
        probes := own.probes || own.probing.id;
        UPDATE "{{schema}}"."inbox_topic" AS p
        SET probe = own.probing.id, probe_token = $1, probe_attempt = own.probing.attempt,
            rests_until = clock_timestamp() + (p.first_rest) * (1 - 0.2 * random())
        WHERE p."consumer" = own.topic_lane AND p.topic = own.next;
    END LOOP;
    probed := cardinality(own.of_lanes);

    IF own.asks OR own.lanes IS NULL THEN
        SELECT left(coalesce(nullif(r."topic", ''), r."source"), 255) INTO own.next
        FROM "{{schema}}"."inbox" AS r
        WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND r."consumer" = own.topic_lane
        ORDER BY r."consumer", left(coalesce(nullif(r."topic", ''), r."source"), 255), r.due_at, r.id
        LIMIT 1;
        WHILE own.next IS NOT NULL LOOP
            IF own.next <> ALL (own.paused) THEN
                opened := own.opened || own.next;
            END IF;
            SELECT left(coalesce(nullif(r."topic", ''), r."source"), 255) INTO own.next
            FROM "{{schema}}"."inbox" AS r
            WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND r."consumer" = own.topic_lane AND left(coalesce(nullif(r."topic", ''), r."source"), 255) > own.next
            ORDER BY r."consumer", left(coalesce(nullif(r."topic", ''), r."source"), 255), r.due_at, r.id
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
    FROM unnest(own.reached::timestamptz[], own.reached_id::uuid[], own.lane1::text[])
        WITH ORDINALITY AS l (after_due, after_id, c1, ord)
    CROSS JOIN LATERAL (
        SELECT r.ctid, left(coalesce(nullif(r."topic", ''), r."source"), 255) = ANY (own.held) AS held, r.due_at, r.id
        FROM "{{schema}}"."inbox" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= own.began
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
          AND r."consumer" = l.c1
        ORDER BY r."consumer", r.due_at, r.id
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
                    FROM "{{schema}}"."inbox" AS r
                    WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND r."consumer" = own.topic_lane
                      AND left(coalesce(nullif(r."topic", ''), r."source"), 255) = l.topic
                      AND (r.due_at, r.id) > (l.after_due, l.after_id)
                      AND r.due_at <= own.began
                    ORDER BY r."consumer", left(coalesce(nullif(r."topic", ''), r."source"), 255), r.due_at, r.id
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
            UPDATE "{{schema}}"."inbox" AS t
            SET waiting = true,
                aside = true
            WHERE t.ctid = ANY (own.put_aside)
            RETURNING left(coalesce(nullif(t."topic", ''), t."source"), 255) AS topic
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
        FROM "{{schema}}"."inbox_topic" AS p
        WHERE p.unavailable_since IS NOT NULL AND NOT p.paused AND p.topic <> ALL (own.free) AND p."consumer" = own.topic_lane;
        resting := ARRAY(SELECT unnest(own.resting) EXCEPT SELECT unnest(own.free));
    END IF;
    got := cardinality(own.taken) + cardinality(own.of_lanes);

    IF own.got > 0 THEN
        RETURN QUERY
        WITH changed AS (
UPDATE "{{schema}}"."inbox" AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = $1::uuid,
    locked_until = clock_timestamp() + $2::interval
WHERE t.ctid = ANY (own.taken)
RETURNING t.*
        ), of_lanes AS (
UPDATE "{{schema}}"."inbox" AS t
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
            c."consumer"::text,
            c."source"::text,
            c."message_id"::text,
            c."body_hash"::bytea,
            c."topic",
            c."payload",
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
FROM unnest(own.lane1::text[])
    AS l (c1)
CROSS JOIN LATERAL (
    SELECT r.due_at
    FROM "{{schema}}"."inbox" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 0
      AND r.due_at > least(own.began::timestamptz, own.began)
      AND r."consumer" = l.c1
    ORDER BY r."consumer", r.due_at, r.id
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

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_fetch"(uuid, interval, integer, text, text, text[], boolean) FROM PUBLIC;

-- Settles rows with one outcome, in the order of their ids, which are sorted and of which none is repeated. It returns
-- the result of each row that did not become what is usual, see settle_one.sql. All settles of the other functions are
-- made here, so each statement is there once. With strict, ids that the claim does not hold are an error.
CREATE FUNCTION "{{schema}}"."inbox_settle_rows"(outcome text, ids uuid[], tokens uuid[], delays bigint[], times timestamptz[], errors text[], strict boolean) RETURNS jsonb
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
UPDATE "{{schema}}"."inbox" AS t
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
LEFT JOIN "{{schema}}"."inbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
        ELSE
        WITH settled AS (
UPDATE "{{schema}}"."inbox" AS t
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
LEFT JOIN "{{schema}}"."inbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
        END IF;
    WHEN 'retry' THEN
        WITH settled AS (
UPDATE "{{schema}}"."inbox" AS t
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
LEFT JOIN "{{schema}}"."inbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'snooze' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."inbox" AS t
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
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.inbox', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."inbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'wait_until' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."inbox" AS t
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
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.inbox', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."inbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'leave' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."inbox" AS t
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
LEFT JOIN "{{schema}}"."inbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'release' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."inbox" AS t
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
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.inbox', (extract(epoch FROM min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."inbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'fail' THEN
        WITH settled AS (
UPDATE "{{schema}}"."inbox" AS t
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
LEFT JOIN "{{schema}}"."inbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'cancel' THEN
        WITH settled AS (
UPDATE "{{schema}}"."inbox" AS t
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
LEFT JOIN "{{schema}}"."inbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
        END IF;
    WHEN 'unavailable' THEN
        WITH changed AS (
    UPDATE "{{schema}}"."inbox" AS t
    SET status = CASE WHEN t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.cancelled_at IS NOT NULL THEN t.due_at ELSE CASE WHEN coalesce(octet_length(left(coalesce(nullif(t."topic", ''), t."source"), 255)) BETWEEN 1 AND 255, false)
        AND NOT (pg_catalog.row_security_active('"{{schema}}"."inbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."inbox_topic"'::pg_catalog.regclass)) THEN t.due_at ELSE clock_timestamp() + (interval '10000 ms') * (1 - 0.2 * random()) END END,
    completed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    failed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN clock_timestamp() END,
    locked_until = NULL,
        waiting = t.cancelled_at IS NULL AND coalesce(octet_length(left(coalesce(nullif(t."topic", ''), t."source"), 255)) BETWEEN 1 AND 255, false)
        AND NOT (pg_catalog.row_security_active('"{{schema}}"."inbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."inbox_topic"'::pg_catalog.regclass)),
        aside = CASE WHEN t.cancelled_at IS NULL AND coalesce(octet_length(left(coalesce(nullif(t."topic", ''), t."source"), 255)) BETWEEN 1 AND 255, false)
        AND NOT (pg_catalog.row_security_active('"{{schema}}"."inbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."inbox_topic"'::pg_catalog.regclass)) THEN true END,
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END,
        last_error = CASE
            WHEN s.error IS NULL OR t.cancelled_at IS NOT NULL OR starts_with(t.last_error, s.error || ' since ')
            THEN t.last_error
            ELSE s.error || ' since ' || to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END
    FROM ROWS FROM (unnest($2::uuid[]), unnest($3::uuid[]), unnest($4::bigint[]), unnest($6::text[]),
            generate_subscripts('{}'::int[], 1)) AS s (id, token, delay, error)
    WHERE t.id = ANY ($2::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled,
        t."consumer", CASE WHEN coalesce(octet_length(left(coalesce(nullif(t."topic", ''), t."source"), 255)) BETWEEN 1 AND 255, false)
        AND NOT (pg_catalog.row_security_active('"{{schema}}"."inbox"'::pg_catalog.regclass)
        OR pg_catalog.row_security_active('"{{schema}}"."inbox_topic"'::pg_catalog.regclass)) THEN left(coalesce(nullif(t."topic", ''), t."source"), 255) END AS topic,
        s.token, s.error
), resting AS MATERIALIZED ( -- so that only these try the lock
    SELECT c."consumer", c.topic, min(c.error) AS error
    FROM changed AS c
    WHERE c.topic IS NOT NULL AND NOT EXISTS (
        SELECT FROM "{{schema}}"."inbox_topic" AS k
        WHERE k."consumer" = c."consumer" AND k.topic = c.topic
          AND k.unavailable_since IS NOT NULL AND (k.probe, k.probe_token) IS DISTINCT FROM (c.id, c.token))
    GROUP BY c."consumer", c.topic
    ORDER BY c."consumer", c.topic
), known AS MATERIALIZED ( -- those of them whose state nobody else is writing
    SELECT c."consumer", c.topic
    FROM resting AS c
    CROSS JOIN LATERAL (
        SELECT FROM "{{schema}}"."inbox_topic" AS k
        WHERE k."consumer" = c."consumer" AND k.topic = c.topic
        FOR NO KEY UPDATE SKIP LOCKED) AS k
), state AS (
    INSERT INTO "{{schema}}"."inbox_topic" AS p
        ("consumer", topic, unavailable_since, rests_until, rest, cause)
    SELECT c."consumer", c.topic, clock_timestamp(), clock_timestamp() + (interval '500 ms') * (1 - 0.2 * random()),
        interval '500 ms', coalesce(c.error, 'no reason given')
    FROM resting AS c
    WHERE EXISTS (
            SELECT FROM known AS k
            WHERE k."consumer" = c."consumer" AND k.topic = c.topic)
       OR NOT EXISTS (
            SELECT FROM "{{schema}}"."inbox_topic" AS k
            WHERE k."consumer" = c."consumer" AND k.topic = c.topic)
        AND pg_try_advisory_xact_lock(hashtextextended(concat_ws(' ', '"{{schema}}"."inbox_topic"', c."consumer", c.topic), 0))
    ON CONFLICT ("consumer", topic) DO UPDATE
    SET unavailable_since = coalesce(p.unavailable_since, excluded.unavailable_since),
        rest = CASE WHEN p.unavailable_since IS NULL THEN p.first_rest ELSE least(2 * p.rest, p.longest_rest) END,
        rests_until = clock_timestamp() + (CASE WHEN p.unavailable_since IS NULL THEN p.first_rest ELSE least(2 * p.rest, p.longest_rest) END) * (1 - 0.2 * random()),
        cause = excluded.cause,
        probe = NULL,
        probe_token = NULL,
        probe_attempt = NULL
    WHERE p.unavailable_since IS NULL OR (p.probe, p.probe_token) IN (SELECT c.id, c.token FROM changed AS c)
    RETURNING p."consumer", p.topic,
        p.unavailable_since::timestamptz >= statement_timestamp() AS begun
), settled AS (
SELECT changed.id, changed.status, changed.cancelled, CASE WHEN state.begun THEN changed.topic END AS begun FROM changed
LEFT JOIN state ON state."consumer" = changed."consumer" AND state.topic = changed.topic)
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
LEFT JOIN "{{schema}}"."inbox" AS t ON t.id = ANY ($2::uuid[]) AND t.id = s.id) AS k;
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

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_settle_rows"(text, uuid[], uuid[], bigint[], timestamptz[], text[], boolean) FROM PUBLIC;

-- Settles rows with an outcome for each, kind by kind. It tells what each row became: see settle_one.sql. What an
-- element says is checked before anything is written or locked.
CREATE FUNCTION "{{schema}}"."inbox_settle"(outcomes jsonb, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
                || "{{schema}}"."inbox_settle_rows"(own.kind, own.sorted, own.tokens, own.delays, own.times, own.errors, false);
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

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_settle"(jsonb, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."inbox_ack"(owner_token uuid, ids uuid[], strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."inbox_settle_rows"('ack', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, NULL, $3);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'done')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_ack"(uuid, uuid[], boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."inbox_retry"(owner_token uuid, ids uuid[], delay interval DEFAULT NULL, error text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."inbox_settle_rows"('retry', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        array_fill((extract(epoch FROM $3) * 1000000)::bigint, ARRAY[cardinality(own.sorted)]), NULL, array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_retry"(uuid, uuid[], interval, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."inbox_snooze"(owner_token uuid, ids uuid[], delay interval, reason text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."inbox_settle_rows"('snooze', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        array_fill((extract(epoch FROM $3) * 1000000)::bigint, ARRAY[cardinality(own.sorted)]), NULL, array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_snooze"(uuid, uuid[], interval, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."inbox_wait_until"(owner_token uuid, ids uuid[], at timestamptz, reason text DEFAULT NULL, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."inbox_settle_rows"('wait_until', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, array_fill($3, ARRAY[cardinality(own.sorted)]), array_fill($4, ARRAY[cardinality(own.sorted)]), $5);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_wait_until"(uuid, uuid[], timestamptz, text, boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."inbox_release"(owner_token uuid, ids uuid[], strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."inbox_settle_rows"('release', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, NULL, $3);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'ready')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_release"(uuid, uuid[], boolean) FROM PUBLIC;

-- Settles rows of one claim with one outcome, and tells what each row became: done, ready, failed or cancelled;
-- repeated if an earlier call with this token did it; lost if the claim does not hold the row any more; gone if it is
-- deleted.
CREATE FUNCTION "{{schema}}"."inbox_fail"(owner_token uuid, ids uuid[], error text, strict boolean DEFAULT false) RETURNS TABLE (place integer, id uuid, result text)
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
    answers := "{{schema}}"."inbox_settle_rows"('fail', own.sorted, array_fill($1, ARRAY[cardinality(own.sorted)]),
        NULL, NULL, array_fill($3, ARRAY[cardinality(own.sorted)]), $4);
    RETURN QUERY
    SELECT u.place::integer, u.id, coalesce(own.answers ->> u.id::text, 'failed')
    FROM unnest($2) WITH ORDINALITY AS u (id, place);
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_fail"(uuid, uuid[], text, boolean) FROM PUBLIC;

-- Renews leases, and tells of each row whether that was done: extended; cancelled, which is extended, too, but a cancel
-- has been asked for; busy if another transaction has the row locked, such as its own settle; lost or gone.
CREATE FUNCTION "{{schema}}"."inbox_extend"(owner_token uuid, ids uuid[], lease interval, within interval DEFAULT NULL) RETURNS TABLE (place integer, id uuid, result text, locked_until timestamptz)
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
UPDATE "{{schema}}"."inbox" AS t
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
    JOIN "{{schema}}"."inbox" AS r ON r.id = h.id
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
LEFT JOIN "{{schema}}"."inbox" AS t ON t.id = ANY (own.sorted::uuid[]) AND t.id = s.id) AS k;
        END IF;
    RETURN QUERY
    SELECT u.place::integer, u.id, u.result, CASE WHEN u.result IN ('extended', 'cancelled') THEN own.until END
    FROM (
        SELECT v.place, v.id, coalesce(own.answers ->> v.id::text, 'extended') AS result
        FROM unnest($2) WITH ORDINALITY AS v (id, place)) AS u;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_extend"(uuid, uuid[], interval, interval) FROM PUBLIC;

-- The ack of one row in the transaction of its effects: an error unless the claim holds the row, so that the effects
-- are rolled back, too. A repetition is one: what an earlier transaction did with this token has its effects.
CREATE FUNCTION "{{schema}}"."inbox_complete"(owner_token uuid, id uuid) RETURNS void
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
    SELECT a.result INTO told FROM "{{schema}}"."inbox_ack"($1, ARRAY[$2]) AS a;
    IF told IS DISTINCT FROM 'done' THEN
        RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'id',
            MESSAGE = format('id is of a row that the claim does not hold: %s is %s', $2, told),
            HINT = 'Roll back: another worker has such a row, or it has ended.';
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_complete"(uuid, uuid) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."inbox_reap_expired"(max_rows integer DEFAULT 1000) RETURNS TABLE (requeued integer, failed integer, cancelled integer, dead_letters jsonb)
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
    FROM "{{schema}}"."inbox" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND r.locked_until < now()
    ORDER BY r."consumer", r.due_at, r.id
    LIMIT $1::int
    FOR NO KEY UPDATE SKIP LOCKED
), beside AS MATERIALIZED (
    SELECT r.ctid, substring(uuid_send(r.owner_token) FROM 1 FOR 6) AS process
    FROM "{{schema}}"."inbox" AS r
    WHERE EXISTS (SELECT FROM taken)
      AND r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND substring(uuid_send(r.owner_token) FROM 1 FOR 6) = ANY (ARRAY(SELECT k.process FROM taken AS k))
      AND r.id <> ALL (ARRAY(SELECT k.id FROM taken AS k))
), left_alone AS (
    UPDATE "{{schema}}"."inbox" AS t
    SET headers = coalesce(t.headers, '{}'::jsonb)
        || jsonb_build_object('txwork-lost-beside', t.owner_token::text)
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM "{{schema}}"."inbox" AS r
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
    UPDATE "{{schema}}"."inbox" AS t
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
        'labels', jsonb_build_array(t."consumer", t."topic")) END AS dead_letter
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled,
       jsonb_agg(changed.dead_letter) FILTER (WHERE changed.dead_letter IS NOT NULL) AS dead_letters
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.inbox', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_reap_expired"(integer) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."inbox_stats"() RETURNS TABLE (ready bigint, scheduled bigint, in_progress bigint, expired bigint, waiting bigint, failed bigint, cancelled bigint, oldest_ready_seconds double precision, partial boolean)
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
       (SELECT count(*) FROM "{{schema}}"."inbox" AS w WHERE w.completed_at IS NULL AND w.waiting) AS waiting,
       (SELECT count(*) FROM "{{schema}}"."inbox" AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NULL) AS failed,
       (SELECT count(*) FROM "{{schema}}"."inbox" AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NOT NULL) AS cancelled,
       coalesce(extract(epoch FROM now() - min(r.due_at) FILTER (WHERE r.status = 0 AND r.due_at <= now())), 0)::float8
           AS oldest_ready_seconds,
       row_security_active('"{{schema}}"."inbox"'::regclass) AS partial
FROM "{{schema}}"."inbox" AS r
WHERE r.completed_at IS NULL AND NOT r.waiting;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_stats"() FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."inbox_run_now"(ids uuid[]) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."inbox" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."inbox" AS t
    SET due_at = now()::timestamptz
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 0
      AND (t.due_at > now()::timestamptz OR t.due_at < now()::timestamptz AND NOT true::boolean)
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.inbox', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."inbox" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_run_now"(uuid[]) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."inbox_reschedule"(ids uuid[], at timestamptz) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."inbox" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."inbox" AS t
    SET due_at = $2::timestamptz
    WHERE t.id = ANY ($1::uuid[]) AND t.status = 0
      AND (t.due_at > $2::timestamptz OR t.due_at < $2::timestamptz AND NOT false::boolean)
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.inbox', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."inbox" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_reschedule"(uuid[], timestamptz) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."inbox_redrive"(ids uuid[], actor text DEFAULT NULL) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."inbox" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."inbox" AS t
    SET status = 0,
        waiting = false,
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
    HAVING CASE WHEN count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.inbox', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
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
LEFT JOIN "{{schema}}"."inbox" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_redrive"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."inbox_cancel"(ids uuid[], reason text) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."inbox" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH changed AS (
    UPDATE "{{schema}}"."inbox" AS t
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
    HAVING CASE WHEN bool_or(changed.status = 1) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.inbox', 'cancel') ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END
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
LEFT JOIN "{{schema}}"."inbox" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_cancel"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."inbox_discard"(ids uuid[], reason text) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."inbox" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE;
    RETURN QUERY
WITH hit AS (
UPDATE "{{schema}}"."inbox" AS t
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
LEFT JOIN "{{schema}}"."inbox" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_discard"(uuid[], text) FROM PUBLIC;

CREATE FUNCTION "{{schema}}"."inbox_delete"(ids uuid[]) RETURNS TABLE (place integer, id uuid, changed boolean, result text, why text)
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
    PERFORM FROM "{{schema}}"."inbox" AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR UPDATE;
    RETURN QUERY
WITH hit AS (
DELETE FROM "{{schema}}"."inbox" AS t
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
LEFT JOIN "{{schema}}"."inbox" AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_delete"(uuid[]) FROM PUBLIC;

-- Nothing -> Ready, in the caller's transaction: one row, as Table.Insert writes it, for programs in any language. It
-- runs with its caller's rights, so the rights on the table's columns and row-level security apply as to an INSERT.
--
-- An id that is not given is a UUID version 7, so that keys grow with time. For a row with unique values that are
-- taken, it returns the row that is there. If that is deleted meanwhile, the values are free, and it tries again.
--
-- #variable_conflict: the names in ON CONFLICT are columns. Parameters are written as $1, $2, ....
CREATE FUNCTION "{{schema}}"."inbox_receive"(
    "consumer" text,
    "source" text,
    "message_id" text,
    "payload" bytea,
    "body_hash" bytea DEFAULT NULL,
    "topic" text DEFAULT NULL,
    "scheduled_at" timestamptz DEFAULT NULL,
    "headers" jsonb DEFAULT NULL,
    "max_attempts" integer DEFAULT NULL,
    INOUT "id" uuid DEFAULT NULL,
    OUT duplicate boolean,
    OUT "hash_mismatch" boolean
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
    IF ($4 IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'payload',
            MESSAGE = 'payload must not be NULL',
            HINT = 'An empty payload is ''''.';
    END IF;
    IF (octet_length($1) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'consumer',
            MESSAGE = 'consumer must have 1 to 255 bytes, and must not be NULL',
            HINT = 'Such a row could not be stored.';
    END IF;
    IF (octet_length($2) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'source',
            MESSAGE = 'source must have 1 to 255 bytes, and must not be NULL',
            HINT = 'Such a row could not be stored.';
    END IF;
    IF (octet_length($3) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'message_id',
            MESSAGE = 'message_id must have 1 to 255 bytes, and must not be NULL',
            HINT = 'Such a row could not be stored.';
    END IF;
    IF ($5 IS NULL OR octet_length($5) = 32) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'body_hash',
            MESSAGE = 'body_hash must have 32 bytes',
            HINT = 'NULL is none.';
    END IF;
    IF ($6 IS NULL OR octet_length($6) <= 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'topic',
            MESSAGE = 'topic must have at most 255 bytes',
            HINT = 'NULL is none.';
    END IF;
    IF ($4 IS NULL OR octet_length($4) <= 1048576) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'payload',
            MESSAGE = 'payload must have at most 1048576 bytes',
            HINT = 'NULL is none.';
    END IF;
    IF $8 IS NOT NULL THEN
    IF ((SELECT coalesce(sum(octet_length(h.name) + coalesce(octet_length(h.value), 0)), 0) FROM jsonb_each_text($8) AS h (name, value)) <= 65536) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'headers',
            MESSAGE = 'headers must have at most 65536 bytes',
            HINT = 'Put what is larger into the payload.';
    END IF;
    END IF;
    hash_mismatch := false;
    duplicate := false;
    FOR attempt IN 1..10 LOOP
        id := own;
        INSERT INTO "{{schema}}"."inbox" (id, due_at, max_attempts, headers, "consumer", "source", "message_id", "body_hash", "topic", "payload")
        VALUES (id,
            greatest($7, now()),
            coalesce($9, 130),
            nullif($8 - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent'], '{}'),
            $1,
            $2,
            $3,
            coalesce($5, CASE WHEN coalesce(nullif($6, ''), $2) = $2 THEN sha256($4) ELSE sha256(convert_to($6, 'UTF8') || sha256($4)) END),
            coalesce(nullif($6, ''), $2),
            $4)
        ON CONFLICT ("consumer", "source", "message_id")
            WHERE "consumer" IS NOT NULL AND "source" IS NOT NULL AND "message_id" IS NOT NULL DO NOTHING;
        IF FOUND THEN
            RETURN;
        END IF;
        SELECT t.id INTO id
        FROM "{{schema}}"."inbox" AS t
        WHERE t."consumer" = ($1) AND t."source" = ($2) AND t."message_id" = ($3);
        IF FOUND THEN
            duplicate := true;
            SELECT coalesce(t.body_hash <> (coalesce($5, CASE WHEN coalesce(nullif($6, ''), $2) = $2 THEN sha256($4) ELSE sha256(convert_to($6, 'UTF8') || sha256($4)) END)), false) INTO hash_mismatch
            FROM "{{schema}}"."inbox" AS t WHERE t.id = "inbox_receive".id;
            RETURN;
        END IF;
    END LOOP;
            RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
                MESSAGE = '{{schema}}.inbox took a row and stored none: does a trigger, a rule or a policy of the '
                    'table suppress it, or hide the row that has its unique values?';
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_receive"(text, text, text, bytea, bytea, text, timestamptz, jsonb, integer, uuid) FROM PUBLIC;

-- The same for a payload of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."inbox_receive"(
    "consumer" text,
    "source" text,
    "message_id" text,
    "payload" text,
    "body_hash" bytea DEFAULT NULL,
    "topic" text DEFAULT NULL,
    "scheduled_at" timestamptz DEFAULT NULL,
    "headers" jsonb DEFAULT NULL,
    "max_attempts" integer DEFAULT NULL,
    INOUT "id" uuid DEFAULT NULL,
    OUT duplicate boolean,
    OUT "hash_mismatch" boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    SELECT w.id, w.duplicate, w."hash_mismatch"
    INTO id, duplicate, "hash_mismatch"
    FROM "{{schema}}"."inbox_receive"($1, $2, $3, convert_to($4, 'UTF8'), $5, $6, $7, $8, $9, $10) AS w;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_receive"(text, text, text, text, bytea, text, timestamptz, jsonb, integer, uuid) FROM PUBLIC;

-- The same for a payload of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."inbox_receive"(
    "consumer" text,
    "source" text,
    "message_id" text,
    "payload" json,
    "body_hash" bytea DEFAULT NULL,
    "topic" text DEFAULT NULL,
    "scheduled_at" timestamptz DEFAULT NULL,
    "headers" jsonb DEFAULT NULL,
    "max_attempts" integer DEFAULT NULL,
    INOUT "id" uuid DEFAULT NULL,
    OUT duplicate boolean,
    OUT "hash_mismatch" boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    SELECT w.id, w.duplicate, w."hash_mismatch"
    INTO id, duplicate, "hash_mismatch"
    FROM "{{schema}}"."inbox_receive"($1, $2, $3, convert_to($4::text, 'UTF8'), $5, $6, $7, $8, $9, $10) AS w;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_receive"(text, text, text, json, bytea, text, timestamptz, jsonb, integer, uuid) FROM PUBLIC;

-- The same for a payload of another type, which is stored as text in UTF-8.
CREATE FUNCTION "{{schema}}"."inbox_receive"(
    "consumer" text,
    "source" text,
    "message_id" text,
    "payload" jsonb,
    "body_hash" bytea DEFAULT NULL,
    "topic" text DEFAULT NULL,
    "scheduled_at" timestamptz DEFAULT NULL,
    "headers" jsonb DEFAULT NULL,
    "max_attempts" integer DEFAULT NULL,
    INOUT "id" uuid DEFAULT NULL,
    OUT duplicate boolean,
    OUT "hash_mismatch" boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    SELECT w.id, w.duplicate, w."hash_mismatch"
    INTO id, duplicate, "hash_mismatch"
    FROM "{{schema}}"."inbox_receive"($1, $2, $3, convert_to($4::text, 'UTF8'), $5, $6, $7, $8, $9, $10) AS w;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_receive"(text, text, text, jsonb, bytea, text, timestamptz, jsonb, integer, uuid) FROM PUBLIC;

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
CREATE FUNCTION "{{schema}}"."inbox_receive_many"("rows" jsonb)
RETURNS TABLE (place integer, id uuid, duplicate boolean, replaced boolean, "hash_mismatch" boolean)
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
    a3 text[];
    a4 bytea[];
    a5 bytea[];
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
    r1 boolean[];
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
    WHERE CASE jsonb_typeof(e.value) WHEN 'object' THEN e.value - ARRAY['consumer', 'source', 'message_id', 'payload', 'payload_text', 'payload_base64', 'body_hash_base64', 'topic', 'scheduled_at', 'headers', 'max_attempts', 'id'] <> '{}' OR (e.value ? 'payload')::int + (e.value ? 'payload_text')::int + (e.value ? 'payload_base64')::int > 1 ELSE true END;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rows',
            MESSAGE = format('%s, it must be an object with known fields: %s', 'rows has a wrong element ' || bad,
                left($1 ->> (bad - 1)::integer, 100)),
            HINT = 'Fields are consumer, source, message_id, payload, payload_text, payload_base64, body_hash_base64, topic, scheduled_at, headers, max_attempts, id; a payload is in one of its fields.';
    END IF;
    BEGIN
        SELECT count(*)::integer, min(r.ord * 1000 + CASE
                WHEN (r.c8 IS NULL OR jsonb_typeof(r.c8) = 'object') IS NOT TRUE THEN 1
                WHEN (r.c7 IS NULL OR r.c7 BETWEEN '1970-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00') IS NOT TRUE THEN 2
                WHEN (r.c9 IS NULL OR r.c9 BETWEEN 1 AND 1000000) IS NOT TRUE THEN 3
                WHEN (r.c4 IS NOT NULL) IS NOT TRUE THEN 4
                WHEN (octet_length(r.c1) BETWEEN 1 AND 255) IS NOT TRUE THEN 5
                WHEN (octet_length(r.c2) BETWEEN 1 AND 255) IS NOT TRUE THEN 6
                WHEN (octet_length(r.c3) BETWEEN 1 AND 255) IS NOT TRUE THEN 7
                WHEN (r.c5 IS NULL OR octet_length(r.c5) = 32) IS NOT TRUE THEN 8
                WHEN (r.c6 IS NULL OR octet_length(r.c6) <= 255) IS NOT TRUE THEN 9
                WHEN (r.c4 IS NULL OR octet_length(r.c4) <= 1048576) IS NOT TRUE THEN 10
                WHEN r.c8 IS NOT NULL AND ((SELECT coalesce(sum(octet_length(h.name) + coalesce(octet_length(h.value), 0)), 0) FROM jsonb_each_text(r.c8) AS h (name, value)) <= 65536) IS NOT TRUE THEN 11 END),
            bool_or(false), bool_or(true),
            NULL,
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
                f.f2 AS c2,
                f.f3 AS c3,
                coalesce(convert_to(f.f4::text, 'UTF8'), convert_to(f.f5, 'UTF8'), decode(f.f6, 'base64')) AS c4,
                decode(f.f7, 'base64') AS c5,
                f.f8 AS c6,
                f.f9 AS c7,
                f.f10 AS c8,
                f.f11 AS c9,
                coalesce(f.f12, (began || '7' || lpad(to_hex(f.ord >> 2), 3, '0') || to_hex(8 + (f.ord & 3)) || substr(gen_random_uuid()::text, 21))::uuid) AS id
            FROM ROWS FROM (jsonb_to_recordset($1) AS ("consumer" text, "source" text, "message_id" text, "payload" jsonb, "payload_text" text, "payload_base64" text, "body_hash_base64" text, "topic" text, "scheduled_at" timestamptz, "headers" jsonb, "max_attempts" integer, "id" uuid))
                WITH ORDINALITY AS f (f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, ord)
            OFFSET 0) AS r;
    EXCEPTION WHEN data_exception THEN
        FOR bad IN 1..jsonb_array_length($1) LOOP -- which one is it?
            BEGIN
                PERFORM r.* FROM (
            SELECT f.ord,
                f.f1 AS c1,
                f.f2 AS c2,
                f.f3 AS c3,
                coalesce(convert_to(f.f4::text, 'UTF8'), convert_to(f.f5, 'UTF8'), decode(f.f6, 'base64')) AS c4,
                decode(f.f7, 'base64') AS c5,
                f.f8 AS c6,
                f.f9 AS c7,
                f.f10 AS c8,
                f.f11 AS c9,
                coalesce(f.f12, (began || '7' || lpad(to_hex(f.ord >> 2), 3, '0') || to_hex(8 + (f.ord & 3)) || substr(gen_random_uuid()::text, 21))::uuid) AS id
            FROM ROWS FROM (jsonb_to_recordset(jsonb_build_array($1 -> bad - 1)) AS ("consumer" text, "source" text, "message_id" text, "payload" jsonb, "payload_text" text, "payload_base64" text, "body_hash_base64" text, "topic" text, "scheduled_at" timestamptz, "headers" jsonb, "max_attempts" integer, "id" uuid))
                WITH ORDINALITY AS f (f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, ord)) AS r;
            EXCEPTION WHEN data_exception THEN
                RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rows',
                    MESSAGE = format('%s, a value is not of its field''s type: %s', 'rows has a wrong element ' || bad, SQLERRM),
                    HINT = 'Fields are consumer, source, message_id, payload, payload_text, payload_base64, body_hash_base64, topic, scheduled_at, headers, max_attempts, id; a payload is in one of its fields.';
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
                'payload must not be NULL',
                'consumer must have 1 to 255 bytes, and must not be NULL',
                'source must have 1 to 255 bytes, and must not be NULL',
                'message_id must have 1 to 255 bytes, and must not be NULL',
                'body_hash must have 32 bytes',
                'topic must have at most 255 bytes',
                'payload must have at most 1048576 bytes',
                'headers must have at most 65536 bytes'])[bad % 1000]),
            HINT = 'Fields are consumer, source, message_id, payload, payload_text, payload_base64, body_hash_base64, topic, scheduled_at, headers, max_attempts, id; a payload is in one of its fields.';
    END IF;
    IF size = 0 THEN
        RETURN;
    END IF;
    IF keyed AND true = ANY (alone) THEN -- rows of a key keep their order
        alone := array_fill(true, ARRAY[size]);
    END IF;
        WITH w AS (
            INSERT INTO "{{schema}}"."inbox" (id, due_at, max_attempts, headers, "consumer", "source", "message_id", "body_hash", "topic", "payload")
            SELECT s.id, greatest(s.c7, now()), coalesce(s.c9, 130), nullif(s.c8 - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent'], '{}'), s.c1, s.c2, s.c3, coalesce(s.c5, CASE WHEN coalesce(nullif(s.c6, ''), s.c2) = s.c2 THEN sha256(s.c4) ELSE sha256(convert_to(s.c6, 'UTF8') || sha256(s.c4)) END), coalesce(nullif(s.c6, ''), s.c2), s.c4
            FROM unnest(
                a10::uuid[],
                a1::text[],
                a2::text[],
                a3::text[],
                a4::bytea[],
                a5::bytea[],
                a6::text[],
                a7::timestamptz[],
                a8::jsonb[],
                a9::integer[],
                alone::boolean[]
            ) WITH ORDINALITY AS s (id, c1, c2, c3, c4, c5, c6, c7, c8, c9, alone, ord)
            WHERE NOT s.alone
            ORDER BY (s.c1) COLLATE "C", (s.c2) COLLATE "C", (s.c3) COLLATE "C", s.ord
            ON CONFLICT ("consumer", "source", "message_id")
                WHERE "consumer" IS NOT NULL AND "source" IS NOT NULL AND "message_id" IS NOT NULL DO NOTHING
            RETURNING id
        )
        SELECT array_agg(w.id) INTO done FROM w;

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
        SELECT array_agg(CASE WHEN s.written THEN s.id ELSE NULL END ORDER BY s.ord) INTO holders
        FROM unnest(a10, a1, a2, a3, a4, a5, a6, a7, a8, a9, written, alone) WITH ORDINALITY
            AS s (id, c1, c2, c3, c4, c5, c6, c7, c8, c9, written, alone, ord);
        BEGIN
            FOR i IN
                SELECT s.ord FROM unnest(a10, a1, a2, a3, a4, a5, a6, a7, a8, a9, holders) WITH ORDINALITY
            AS s (id, c1, c2, c3, c4, c5, c6, c7, c8, c9, holders, ord)
            WHERE s.holders IS NULL ORDER BY (s.c1) COLLATE "C", (s.c2) COLLATE "C", (s.c3) COLLATE "C", s.ord
            LOOP
                SELECT w.* INTO one
                FROM "{{schema}}"."inbox_receive"(a1[i], a2[i], a3[i], a4[i], a5[i], a6[i], a7[i], a8[i], a9[i], a10[i]) AS w;
                holders[i] := one.id;
                written[i] := NOT one.duplicate;
                r1[i] := one."hash_mismatch";
            END LOOP;
        EXCEPTION WHEN invalid_parameter_value THEN -- what only the function for one row checks
            RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rows',
                MESSAGE = format('rows has a wrong element %s: %s', i, SQLERRM), HINT = 'Fields are consumer, source, message_id, payload, payload_text, payload_base64, body_hash_base64, topic, scheduled_at, headers, max_attempts, id; a payload is in one of its fields.';
        END;
    END IF;
    RETURN QUERY
    SELECT s.ord::integer, s.id, NOT s.written, false, coalesce(s.r1, false)
    FROM unnest(holders, written, r1) WITH ORDINALITY
        AS s (id, written, r1, ord)
    ORDER BY s.ord;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_receive_many"(jsonb) FROM PUBLIC;

-- One transaction of the procedure fold: each fold of the table once. The cursor says how far each fold came, so that
-- notes that are deleted but not yet vacuumed are not read again, and when the next pass from the start is due, which
-- finds notes that older transactions have written behind the cursor: after forty times as long as the last pass took,
-- and after between a second and a minute. A cursor of another table counts as none, and so does a pass that is further
-- ahead than that, as it is after a failover. The numbers are microseconds.
CREATE FUNCTION "{{schema}}"."inbox_fold_step"(
    max_notes integer, INOUT cursor text, INOUT folded integer, OUT again_in double precision, OUT busy boolean,
    OUT more boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_variable
DECLARE
    started constant timestamptz := clock_timestamp();
    own constant text := left(md5('{{schema}}.inbox'), 8);
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
CREATE PROCEDURE "{{schema}}"."inbox_fold"(
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
        FROM "{{schema}}"."inbox_fold_step"(1000, cursor, folded) AS s;
        EXIT WHEN more IS NOT TRUE;
    END LOOP;
    COMMIT;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_fold_step"(integer, text, integer) FROM PUBLIC;
REVOKE ALL ON PROCEDURE "{{schema}}"."inbox_fold"(text, integer, double precision, boolean) FROM PUBLIC;

-- Does one kind of maintenance although rows are in its way, such as a row that a foreign key of the application keeps
-- from being deleted: the part of the rows that failed is halved until the row is by itself, and skipped. The next part
-- is twice as large as one that succeeded. Each part is a subtransaction, so n rows cost at most about three each, and
-- a few bad rows some tens together. A part waits little for locks, because the next ones wait for it.
--
-- If nothing succeeds, the rows are not the cause, and the error is raised: one about rights or names at once, another
-- after 16 rows.
CREATE FUNCTION "{{schema}}"."inbox_each"(
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
    FROM "{{schema}}"."inbox" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND r.locked_until < now()
      AND r.id <> ALL ($4)
    ORDER BY r."consumer", r.due_at, r.id
    LIMIT $2::int);
        beside := ARRAY(
            SELECT p.id
            FROM (
                SELECT r.id, count(*) OVER (PARTITION BY substring(uuid_send(r.owner_token) FROM 1 FOR 6)) AS rows
                FROM "{{schema}}"."inbox" AS r
                WHERE r.completed_at IS NULL
                  AND NOT r.waiting
                  AND r.status = 1
                  AND r.due_at <= now()) AS p
            WHERE p.rows > 1);
    WHEN 'purge_done' THEN
        ids := ARRAY(
    SELECT r.id
    FROM "{{schema}}"."inbox" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - $3::interval
      AND r.id <> ALL ($4)
    ORDER BY r.completed_at
    LIMIT $2::int);
    WHEN 'purge_failed' THEN
        ids := ARRAY(
    SELECT r.id
    FROM "{{schema}}"."inbox" AS r
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
    FROM "{{schema}}"."inbox" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND r.locked_until < now()
      AND r.id = ANY (own.part)
    ORDER BY r."consumer", r.due_at, r.id
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
    UPDATE "{{schema}}"."inbox" AS t
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
        'labels', jsonb_build_array(t."consumer", t."topic")) END AS dead_letter
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled,
       jsonb_agg(changed.dead_letter) FILTER (WHERE changed.dead_letter IS NOT NULL) AS dead_letters
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('{{schema}}.inbox', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END
                LOOP
                    done := done + changed.requeued;
                    failed := failed + changed.failed;
                    cancelled := cancelled + changed.cancelled;
                    dead_letters := coalesce(dead_letters, '[]') || coalesce(changed.dead_letters, '[]');
                END LOOP;
            WHEN 'purge_done' THEN
                WITH purged AS (
DELETE FROM "{{schema}}"."inbox" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."inbox" AS r
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
DELETE FROM "{{schema}}"."inbox" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."inbox" AS r
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

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_each"(text, integer, interval, uuid[]) FROM PUBLIC;

-- Deletes rows that ended longer ago than their retention: the caller's, or the table's own by default. A NULL
-- retention keeps rows for ever. Cancelled rows are kept and counted like done ones.
CREATE FUNCTION "{{schema}}"."inbox_purge"(
    max_rows integer DEFAULT 1000,
    retention interval DEFAULT interval '87600 hours',
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
DELETE FROM "{{schema}}"."inbox" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."inbox" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - $2::interval
    ORDER BY r.completed_at
    LIMIT $1::int
    FOR UPDATE SKIP LOCKED))
RETURNING t.id
    ), purged_failed AS (
DELETE FROM "{{schema}}"."inbox" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "{{schema}}"."inbox" AS r
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
CREATE FUNCTION "{{schema}}"."inbox_maintain_step"(
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
    IF pg_catalog.row_security_active('"{{schema}}"."inbox"'::pg_catalog.regclass) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of {{schema}}.inbox or of its other tables from this role: rows that it does not see would be taken for gone',
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
                n := (SELECT r.requeued + r.failed FROM "{{schema}}"."inbox_reap_expired"($2) AS r);
            WHEN 'strip' THEN
                n := (SELECT "{{schema}}"."inbox_strip"($2));
            WHEN 'purge_done' THEN
                n := (SELECT p.done FROM "{{schema}}"."inbox_purge"($2, $3, NULL) AS p);
            WHEN 'purge_failed' THEN
                n := (SELECT p.failed FROM "{{schema}}"."inbox_purge"($2, NULL, $4) AS p);
            WHEN 'fold' THEN
                n := (SELECT f.folded FROM "{{schema}}"."inbox_fold_step"($2, NULL, 0) AS f);
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
        FROM "{{schema}}"."inbox_each"($1, $2, CASE $1 WHEN 'purge_done' THEN $3 WHEN 'purge_failed' THEN $4 END, skipped);
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
CREATE PROCEDURE "{{schema}}"."inbox_maintain"(
    max_rows integer DEFAULT 1000,
    retention interval DEFAULT interval '87600 hours',
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
        FOREACH kind IN ARRAY ARRAY['reap_expired', 'strip', 'purge_done', 'purge_failed', 'fold'] LOOP
            SELECT ARRAY[]::pg_catalog.uuid[], NULL INTO skipped, said;
            FOR step IN 1..100 LOOP
                COMMIT;
                SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
                SELECT s.more, s.crowded, s.skipped, s.problem INTO more, crowded, skipped, said
                FROM "{{schema}}"."inbox_maintain_step"(kind, max_rows, retention, failed_retention, skipped, said) AS s;
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
        PERFORM "{{schema}}"."leader_note"('{{schema}}.inbox', problem);
    EXCEPTION WHEN undefined_function OR insufficient_privilege THEN
        NULL;
    END;
    COMMIT;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'a part of the maintenance failed, the rest is done: %', problem;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_purge"(integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{{schema}}"."inbox_maintain_step"(text, integer, interval, interval, uuid[], text) FROM PUBLIC;
REVOKE ALL ON PROCEDURE "{{schema}}"."inbox_maintain"(integer, interval, interval) FROM PUBLIC;

-- The inbox's additions to the core's table. The index finds payloads past their retention. It leaves out rows without
-- a payload, such as tombstones and messages of Process, and dead letters, which keep their payloads.
CREATE INDEX "inbox_payload_idx" ON "{{schema}}"."inbox" (completed_at)
WHERE completed_at IS NOT NULL AND failed_at IS NULL AND payload IS NOT NULL;

-- A message of Process is Done when it is inserted, so there is nothing to announce. A NOTIFY would also serialize all
-- commits of the database that notify.
DROP TRIGGER "inbox_announce" ON "{{schema}}"."inbox";

CREATE TRIGGER "inbox_announce" AFTER INSERT ON "{{schema}}"."inbox"
FOR EACH STATEMENT WHEN (current_setting('txwork.announce', true) IS DISTINCT FROM 'off')
EXECUTE FUNCTION "{{schema}}"."inbox_announce"();

-- Nothing -> Done, in the caller's transaction. A caller that gets 'processed' handles the message in that transaction.
-- Other callers get the reason why they must not, and callers never wait for each other.
--
-- The advisory lock lasts until the transaction ends and excludes every other caller of this function with the same
-- key. So the holder sees, in the next statement's snapshot, what the previous holder committed. Only a Receive writes
-- without this lock; the unique index protects against one whose transaction is still open. The wait for that
-- transaction ends at lock_timeout, in the subtransaction of the inner block, so that the caller's transaction can
-- continue. If a Receive committed between the two statements, the insert does nothing, since the message is Ready.
--
-- A caller that gets 'processed' holds the key until its transaction ends. If its process freezes, the server ends the
-- session: this function bounds the idle time of the transaction, unless the session has a bound already.
--
-- A payload without a hash has that which receive makes of it and the topic: another content under the same id must not
-- pass for a duplicate. The topic is not stored.
--
-- Two keys with the same hash exclude each other, too. The answer 'in_progress' is wrong then, but harmless. The plan
-- settings are for the look-up: its plan is cached, and may be made while the table is empty.
CREATE FUNCTION "{{schema}}"."inbox_begin"(
    consumer text, source text, message_id text,
    body_hash bytea DEFAULT NULL, payload bytea DEFAULT NULL,
    id uuid DEFAULT NULL,
    topic text DEFAULT NULL
) RETURNS TABLE (answer text, holder uuid, holder_status integer)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '100ms'
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $txwork$
#variable_conflict use_column
DECLARE
    busy CONSTANT text := 'in_progress';
    nobody CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    own CONSTANT uuid := coalesce($6, encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid);
    inserted boolean;
BEGIN
    IF (octet_length($1) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'consumer',
            MESSAGE = 'consumer must have 1 to 255 bytes',
            HINT = 'Give it as receive gets it.';
    END IF;
    IF (octet_length($2) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'source',
            MESSAGE = 'source must have 1 to 255 bytes',
            HINT = 'Give it as receive gets it.';
    END IF;
    IF (octet_length($3) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'message_id',
            MESSAGE = 'message_id must have 1 to 255 bytes',
            HINT = 'Give it as receive gets it.';
    END IF;
    IF ($4 IS NULL OR octet_length($4) = 32) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'body_hash',
            MESSAGE = 'body_hash must have 32 bytes',
            HINT = 'NULL is that of the payload, or none without a payload.';
    END IF;
    $4 := coalesce($4, CASE WHEN coalesce(nullif($7, ''), $2) = $2 THEN sha256($5) ELSE sha256(convert_to($7, 'UTF8') || sha256($5)) END);
    IF NOT pg_try_advisory_xact_lock(hashtextextended(ARRAY['{{schema}}.inbox', $1, $2, $3]::text COLLATE "C", 0)) THEN
        RETURN QUERY SELECT busy, nobody, 1;
        RETURN;
    END IF;

    RETURN QUERY
    SELECT CASE
               WHEN t.body_hash <> $4 THEN 'hash_mismatch'
               WHEN t.status IN (0, 1) THEN busy
               ELSE 'duplicate'
           END, t.id, t.status::integer
    FROM "{{schema}}"."inbox" AS t
    WHERE t.consumer = $1 AND t.source = $2 AND t.message_id = $3;
    IF FOUND THEN
        RETURN;
    END IF;

    BEGIN
        PERFORM set_config('txwork.announce', 'off', true); -- only a superuser may create a function with this SET
        INSERT INTO "{{schema}}"."inbox" (id, status, attempts, completed_at, consumer, source, message_id, body_hash, payload)
        VALUES (own, 2, 1, clock_timestamp(), $1, $2, $3, $4, $5)
        ON CONFLICT (consumer, source, message_id)
            WHERE consumer IS NOT NULL AND source IS NOT NULL AND message_id IS NOT NULL DO NOTHING;
        inserted := FOUND;
        PERFORM set_config('txwork.announce', '', true);
    EXCEPTION WHEN lock_not_available THEN
        RETURN QUERY SELECT busy, nobody, 0;
        RETURN;
    END;
    IF inserted THEN
        IF current_setting('idle_in_transaction_session_timeout') = '0' THEN
            PERFORM set_config('idle_in_transaction_session_timeout', '60000', true);
        END IF;
        RETURN QUERY SELECT 'processed', own, 2;
    ELSE
        RETURN QUERY SELECT busy, nobody, 0;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_begin"(text, text, text, bytea, bytea, uuid, text) FROM PUBLIC;

-- Done with a payload -> Done without one: a tombstone. It strips a bounded batch at a time, oldest first. It reads
-- only the index of payloads, which contains no tombstones, and never waits for a lock (SKIP LOCKED). Only the purge
-- changes Done rows otherwise, so a row cannot change between the read and the lock.
CREATE FUNCTION "{{schema}}"."inbox_strip"(
    max_rows integer DEFAULT 1000, retention interval DEFAULT interval '24 hours'
) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $txwork$
#variable_conflict use_column
DECLARE
    stripped integer;
BEGIN
    IF ($1 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call again for more rows.';
    END IF;
    IF ($2 >= interval '0') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'retention',
            MESSAGE = 'retention must not be negative or NULL',
            HINT = 'Say for how long messages keep their payloads.';
    END IF;
    UPDATE "{{schema}}"."inbox" AS t
    SET payload = NULL,
        headers = NULL
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM "{{schema}}"."inbox" AS r
        WHERE r.completed_at IS NOT NULL
          AND r.failed_at IS NULL
          AND r.payload IS NOT NULL
          AND r.completed_at < now() - $2
        ORDER BY r.completed_at
        LIMIT $1
        FOR NO KEY UPDATE SKIP LOCKED));
    GET DIAGNOSTICS stripped = ROW_COUNT;
    RETURN stripped;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."inbox_strip"(integer, interval) FROM PUBLIC;
