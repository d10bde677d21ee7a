-- Who maintains each table, by its name with the schema. The term grows with every change of leader and fences the
-- last one.
CREATE TABLE "{{schema}}"."leader" (
    name text PRIMARY KEY,
    term bigint NOT NULL,
    holder uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    granted_at timestamptz NOT NULL, -- later than now: the clock was set back, and the lease means nothing
    problem text, -- what kept the last maintenance from serving the table to the end
    CONSTRAINT "leader_time_check" CHECK ( -- one lease that never ends, or cannot be computed, would stop every election
        granted_at BETWEEN '0001-01-01 00:00:00+00'::timestamptz AND '9999-12-31 00:00:00+00'::timestamptz
        AND expires_at BETWEEN '0001-01-01 00:00:00+00'::timestamptz AND granted_at + interval '1 day'
    )
);

COMMENT ON TABLE "{{schema}}"."leader" IS 'txwork leader 1; which reaper maintains each table';

-- What happened, by time. Processes flush what they have counted with their beats, one row for each lane, and only
-- insert. Whichever maintenance runs adds these rows to the history, by minutes and by hours, and deletes them. The lane
-- is the value of the table's first lane or label, '_OTHER' stands for all beyond the first hundred, and '' for the whole
-- table. Waits and runs are counts by buckets: the first ends at a millisecond, and the bounds grow by the square root
-- of two.
CREATE TABLE "{{schema}}"."history_flush" (
    table_name text NOT NULL,
    process bigint NOT NULL,
    flush bigint NOT NULL,
    lane text NOT NULL,
    at timestamptz NOT NULL,
    done bigint NOT NULL,
    retried bigint NOT NULL,
    dead bigint NOT NULL,
    snoozed bigint NOT NULL,
    cancelled bigint NOT NULL,
    lost bigint NOT NULL, -- claims that had expired when the process settled them
    waits bigint[] NOT NULL,
    runs bigint[] NOT NULL,
    PRIMARY KEY (table_name, process, flush, lane),
    CONSTRAINT "history_flush_check" CHECK ( -- one row that cannot be added would keep all others from the history
        at BETWEEN '2000-01-01 00:00:00+00'::timestamptz AND '9999-12-31 00:00:00+00'::timestamptz
        AND least(done, retried, dead, snoozed, cancelled, lost) >= 0
        AND greatest(done, retried, dead, snoozed, cancelled, lost) <= 1000000000000
        AND cardinality(waits) <= 64 AND 0 <= ALL (waits) AND 1000000000000 >= ALL (waits)
        AND cardinality(runs) <= 64 AND 0 <= ALL (runs) AND 1000000000000 >= ALL (runs)
        AND array_position(waits, NULL) IS NULL AND array_position(runs, NULL) IS NULL
    )
);

-- A minute of a table that has no row for the whole table is one in which nobody maintained it.
CREATE TABLE "{{schema}}"."history" (
    table_name text NOT NULL,
    lane text NOT NULL,
    step integer NOT NULL CONSTRAINT "history_step_check" CHECK (step IN (60, 3600)), -- seconds from at
    at timestamptz NOT NULL,
    done bigint NOT NULL DEFAULT 0,
    retried bigint NOT NULL DEFAULT 0,
    dead bigint NOT NULL DEFAULT 0,
    snoozed bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    lost bigint NOT NULL DEFAULT 0,
    expired bigint NOT NULL DEFAULT 0, -- leases that a reaper ended; of the whole table only, as are the next three
    enqueued bigint, -- rows inserted; NULL: not known
    inserted bigint, -- the counter of the server's statistics, of which enqueued is the difference
    counted_since timestamptz, -- when those were last reset
    waits bigint[] NOT NULL DEFAULT '{}',
    runs bigint[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (table_name, lane, step, at)
) WITH (fillfactor = 70);

CREATE INDEX "history_age_idx" ON "{{schema}}"."history" (step, at);

-- Whether there is a history, and how long it is kept. Without a row it is kept as the defaults say.
CREATE TABLE "{{schema}}"."history_keep" (
    one boolean PRIMARY KEY DEFAULT true CONSTRAINT "history_keep_one_check" CHECK (one),
    enabled boolean NOT NULL DEFAULT true,
    minutes interval NOT NULL DEFAULT '2 days',
    hours interval NOT NULL DEFAULT '90 days',
    CONSTRAINT "history_keep_time_check" CHECK (minutes BETWEEN interval '1 hour' AND interval '31 days'
        AND hours BETWEEN interval '1 day' AND interval '10 years')
);

-- Adds what processes have flushed for some tables to their history, measures what was enqueued since the last call,
-- and deletes what is too old: at most max_rows rows of each. It returns how many flushed rows it has added, and NULL if
-- another session is at it. expired and dead are, for each table, how many leases the caller's reaper has ended since
-- its last call, and how many of those rows are dead letters.
--
-- What is enqueued is the difference of two values of the server's statistics. It is not known after these were reset,
-- as by a crash of the server, after a pause of more than five minutes, and while the clock is behind where it was.
CREATE FUNCTION "{{schema}}"."history_merge"(
    tables text[], max_rows integer DEFAULT 1000, expired bigint[] DEFAULT '{}', dead bigint[] DEFAULT '{}'
) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '1s'
AS $txwork$
#variable_conflict use_column
DECLARE
    keep "{{schema}}"."history_keep";
    -- Whoever maintains the parked messages of a log keeps the history of its messages, too. A name that is already there
    -- is one of two tables that are called so.
    names text[] := $1 || ARRAY(SELECT left(t.name, -7) FROM unnest($1) AS t (name)
        WHERE right(t.name, 7) = '_parked' AND array_position($1, left(t.name, -7)) IS NULL);
    merged integer;
BEGIN
    IF ($2 BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_rows',
            MESSAGE = 'max_rows must be between 1 and 10000',
            HINT = 'Call the function again for more rows.';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('"{{schema}}"."history"', 0)) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO keep FROM "{{schema}}"."history_keep";
    DELETE FROM "{{schema}}"."history" AS h
    WHERE h.ctid = ANY (ARRAY(
        SELECT o.ctid FROM "{{schema}}"."history" AS o
        WHERE o.step = 60 AND o.at < clock_timestamp() - coalesce(keep.minutes, interval '2 days')
        LIMIT $2)) OR h.ctid = ANY (ARRAY(
        SELECT o.ctid FROM "{{schema}}"."history" AS o
        WHERE o.step = 3600 AND o.at < clock_timestamp() - coalesce(keep.hours, interval '90 days')
        LIMIT $2));
    WITH taken AS MATERIALIZED (
        DELETE FROM "{{schema}}"."history_flush" AS f
        WHERE f.ctid = ANY (ARRAY(
            SELECT o.ctid FROM "{{schema}}"."history_flush" AS o WHERE o.table_name = ANY (names) LIMIT $2))
        RETURNING f.*
    ), placed AS MATERIALIZED (
        SELECT t.table_name, l.lane, s.step, date_bin(s.step * interval '1 second', t.at, 'epoch') AS at,
            t.done, t.retried, t.dead, t.snoozed, t.cancelled, t.lost, t.waits, t.runs
        FROM taken AS t
        CROSS JOIN (VALUES (60), (3600)) AS s (step)
        CROSS JOIN unnest(CASE t.lane WHEN '' THEN ARRAY[''] ELSE ARRAY['', t.lane] END) AS l (lane)
    ), lanes AS ( -- the first hundred of each minute and hour keep their names
        SELECT p.table_name, p.lane, p.step, p.at, p.known
                OR row_number() OVER (PARTITION BY p.table_name, p.step, p.at, p.known ORDER BY p.n DESC, p.lane)
                    <= 100 - (SELECT count(*) FROM "{{schema}}"."history" AS h WHERE h.step = p.step AND h.at = p.at
                        AND h.table_name = p.table_name AND h.lane NOT IN ('', '_OTHER')) AS named
        FROM (
            SELECT p.table_name, p.lane, p.step, p.at, sum(p.done + p.retried + p.dead + p.snoozed) AS n,
                p.lane IN ('', '_OTHER') OR EXISTS (SELECT FROM "{{schema}}"."history" AS h
                    WHERE (h.table_name, h.lane, h.step, h.at) = (p.table_name, p.lane, p.step, p.at)) AS known
            FROM placed AS p
            GROUP BY p.table_name, p.lane, p.step, p.at
        ) AS p
    ), named AS MATERIALIZED (
        SELECT p.table_name, CASE WHEN l.named THEN p.lane ELSE '_OTHER' END AS lane, p.step, p.at,
            p.done, p.retried, p.dead, p.snoozed, p.cancelled, p.lost, p.waits, p.runs
        FROM placed AS p
        JOIN lanes AS l USING (table_name, lane, step, at)
    ), buckets AS (
        SELECT b.table_name, b.lane, b.step, b.at,
            coalesce(array_agg(b.waits ORDER BY b.n) FILTER (WHERE b.waits IS NOT NULL), '{}') AS waits,
            coalesce(array_agg(b.runs ORDER BY b.n) FILTER (WHERE b.runs IS NOT NULL), '{}') AS runs
        FROM (
            SELECT p.table_name, p.lane, p.step, p.at, u.n, sum(u.wait)::bigint AS waits, sum(u.run)::bigint AS runs
            FROM named AS p
            CROSS JOIN unnest(p.waits, p.runs) WITH ORDINALITY AS u (wait, run, n)
            GROUP BY p.table_name, p.lane, p.step, p.at, u.n
        ) AS b
        GROUP BY b.table_name, b.lane, b.step, b.at
    ), added AS (
        INSERT INTO "{{schema}}"."history" AS h (table_name, lane, step, at, done, retried, dead, snoozed, cancelled, lost,
            waits, runs)
        SELECT p.table_name, p.lane, p.step, p.at, sum(p.done), sum(p.retried), sum(p.dead), sum(p.snoozed),
            sum(p.cancelled), sum(p.lost), coalesce(b.waits, '{}'), coalesce(b.runs, '{}')
        FROM named AS p
        LEFT JOIN buckets AS b USING (table_name, lane, step, at)
        GROUP BY p.table_name, p.lane, p.step, p.at, b.waits, b.runs
        ON CONFLICT (table_name, lane, step, at) DO UPDATE
        SET done = h.done + EXCLUDED.done, retried = h.retried + EXCLUDED.retried, dead = h.dead + EXCLUDED.dead,
            snoozed = h.snoozed + EXCLUDED.snoozed, cancelled = h.cancelled + EXCLUDED.cancelled,
            lost = h.lost + EXCLUDED.lost,
            waits = ARRAY(SELECT coalesce(u.a, 0) + coalesce(u.b, 0)
                FROM unnest(h.waits, EXCLUDED.waits) WITH ORDINALITY AS u (a, b, n) ORDER BY u.n),
            runs = ARRAY(SELECT coalesce(u.a, 0) + coalesce(u.b, 0)
                FROM unnest(h.runs, EXCLUDED.runs) WITH ORDINALITY AS u (a, b, n) ORDER BY u.n)
    )
    SELECT count(*) INTO merged FROM taken;
    IF NOT keep.enabled THEN
        RETURN merged;
    END IF;
    WITH counted AS MATERIALIZED (
        SELECT t.name, coalesce(t.expired, 0) AS expired, coalesce(t.dead, 0) AS dead,
            coalesce((SELECT sum(pg_stat_get_tuples_inserted(i.inhrelid)) FROM pg_inherits AS i WHERE i.inhparent = c.oid),
                pg_stat_get_tuples_inserted(c.oid))::bigint AS inserted,
            pg_stat_get_db_stat_reset_time(d.oid) AS since, clock_timestamp() AS at
        FROM unnest(names, $3, $4) AS t (name, expired, dead)
        JOIN pg_class AS c ON c.relname = t.name AND c.relnamespace = '"{{schema}}"'::regnamespace
        JOIN pg_database AS d ON d.datname = current_database()
    )
    INSERT INTO "{{schema}}"."history" AS h (table_name, lane, step, at, expired, dead, enqueued, inserted, counted_since)
    SELECT t.name, '', s.step, date_bin(s.step * interval '1 second', t.at, 'epoch'), t.expired, t.dead,
        CASE WHEN l.inserted <= t.inserted AND l.counted_since IS NOT DISTINCT FROM t.since
            AND l.at > t.at - interval '6 minutes' AND l.at <= t.at THEN t.inserted - l.inserted END,
        t.inserted, t.since
    FROM counted AS t
    CROSS JOIN (VALUES (60), (3600)) AS s (step)
    LEFT JOIN LATERAL (
        SELECT o.inserted, o.counted_since, o.at
        FROM "{{schema}}"."history" AS o
        WHERE o.table_name = t.name AND o.lane = '' AND o.step = 60 AND o.inserted IS NOT NULL
        ORDER BY o.at DESC
        LIMIT 1
    ) AS l ON true
    ON CONFLICT (table_name, lane, step, at) DO UPDATE
    SET expired = h.expired + EXCLUDED.expired, dead = h.dead + EXCLUDED.dead,
        enqueued = coalesce(h.enqueued + EXCLUDED.enqueued, h.enqueued, EXCLUDED.enqueued),
        inserted = EXCLUDED.inserted, counted_since = EXCLUDED.counted_since;
    RETURN merged;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."history_merge"(text[], integer, bigint[], bigint[]) FROM PUBLIC;

-- Notes that a table has just been maintained by somebody who was not elected, such as txwork reap and the procedures
-- …_maintain, and what was left undone: what looks for tables without maintenance looks here. A lease that lasts stays,
-- and so do the term and the holder: whoever led last may be in the middle of a batch, which its term fences. Nobody is
-- waited for: a row that is locked is that of a reaper at work. The term of a table that nobody was ever elected for is
-- 0. A role from which row-level security hides rows of the table has not maintained all of it, and is refused. It also
-- adds to the history of the table what processes have counted; should that fail, the note counts nevertheless.
CREATE FUNCTION "{{schema}}"."leader_note"(table_name text, problem text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF EXISTS (SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = split_part($1, '.', 1) AND c.relname = split_part($1, '.', 2) AND row_security_active(c.oid))
    THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = format('row-level security hides rows of %s from this role: it cannot have maintained all of them', $1),
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    WITH ended AS MATERIALIZED (
        SELECT l.name
        FROM "{{schema}}"."leader" AS l
        WHERE l.name = $1 AND (l.expires_at <= clock_timestamp() OR l.granted_at > clock_timestamp())
        FOR NO KEY UPDATE SKIP LOCKED
    ), noted AS (
        UPDATE "{{schema}}"."leader" AS l
        SET expires_at = clock_timestamp(), granted_at = clock_timestamp(), problem = nullif($2, '')
        FROM ended AS e
        WHERE l.name = e.name
    )
    INSERT INTO "{{schema}}"."leader" (name, term, holder, expires_at, granted_at, problem)
    VALUES ($1, 0, '00000000-0000-0000-0000-000000000000', clock_timestamp(), clock_timestamp(), nullif($2, ''))
    ON CONFLICT (name) DO NOTHING;
    IF split_part($1, '.', 1) = '{{schema}}' THEN
        BEGIN
            PERFORM "{{schema}}"."history_merge"(ARRAY[split_part($1, '.', 2)]);
        EXCEPTION WHEN others THEN
            RAISE WARNING 'the history of % is not up to date: %', $1, SQLERRM;
        END;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."leader_note"(text, text) FROM PUBLIC;

-- Which processes run: one row each, which its beats renew every 30 s. The first 48 bits of an owner token are the id of
-- its process. What a row says, its process says of itself. A beat changes no key and finds room on its page, so it is
-- heap-only.
CREATE TABLE "{{schema}}"."process" (
    id bigint PRIMARY KEY,
    host text NOT NULL,
    language text NOT NULL,
    version text NOT NULL, -- of the library
    serves jsonb NOT NULL, -- an array; of a worker in Go, an object for each of its workers
    beat_at timestamptz NOT NULL,
    flushed bigint NOT NULL DEFAULT 0 -- the number of the last flush whose counts are stored
) WITH (fillfactor = 50);

COMMENT ON TABLE "{{schema}}"."process" IS 'txwork process 1; which processes run';

-- A new owner token of a process, for one claim. It is a UUID of version 8: 48 bits of the process, 74 random ones.
CREATE FUNCTION "{{schema}}"."owner_token"(process bigint) RETURNS uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF ($1 BETWEEN 1 AND 281474976710655) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'process',
            MESSAGE = 'process must be between 1 and 281474976710655',
            HINT = 'Draw 48 random bits, not 0, when the process starts, and again after a fork.';
    END IF;
    RETURN (lpad(to_hex($1), 12, '0') || '8' || substr(translate(gen_random_uuid()::text, '-', ''), 14))::uuid;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."owner_token"(bigint) FROM PUBLIC;

-- Says that a process runs, and what it serves: to be called when it starts, and every 30 s. A process that has missed
-- three beats is gone; the beats of others remove its row. It commits, so that it leaves no lock and changes no setting
-- of the caller's. So it cannot be called in a transaction, and it sets its search_path itself. Its own row comes first,
-- so that two processes never wait for each other. A beat that a crash of the server takes is sent again.
--
-- counts are what the process has counted since its last flush, if there is something: an array of objects with table,
-- lane, done, retried, dead, snoozed, cancelled, lost, waits and runs, see history_flush. flush is their number, which
-- grows with each call, and again says that they were sent before and the answer was lost. Counts that are stored are
-- not stored again, nor if that cannot be known, because the process' row was removed meanwhile.
CREATE PROCEDURE "{{schema}}"."process_beat"(
    process bigint, host text, language text, version text, serves jsonb DEFAULT '[]',
    counts jsonb DEFAULT NULL, flush bigint DEFAULT NULL, again boolean DEFAULT false
)
LANGUAGE plpgsql
AS $txwork$
#variable_conflict use_column
BEGIN
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    SET LOCAL search_path = pg_catalog, pg_temp;
    IF $6 IS NULL THEN -- counts would not be sent again
        SET LOCAL synchronous_commit = off;
    END IF;
    SET LOCAL lock_timeout = '1s';
    IF ($1 BETWEEN 1 AND 281474976710655) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'process',
            MESSAGE = 'process must be between 1 and 281474976710655',
            HINT = 'Draw 48 random bits, not 0, when the process starts, and again after a fork.';
    END IF;
    IF (octet_length($2) <= 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'host',
            MESSAGE = 'host must be a text of at most 255 bytes',
            HINT = 'Name the machine or the container, and the process there.';
    END IF;
    IF (octet_length($3) <= 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'language',
            MESSAGE = 'language must be a text of at most 255 bytes',
            HINT = 'Name the language of the program.';
    END IF;
    IF (octet_length($4) <= 255) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'version',
            MESSAGE = 'version must be a text of at most 255 bytes',
            HINT = 'Name the version of the library or the program.';
    END IF;
    IF (jsonb_typeof($5) = 'array' AND octet_length($5::text) <= 16384) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'serves',
            MESSAGE = 'serves must be a JSON array of at most 16384 bytes',
            HINT = 'Name the tables, queues and topics that the process serves, and leave out what is too much.';
    END IF;
    IF ($6 IS NULL OR jsonb_typeof($6) = 'array' AND jsonb_array_length($6) <= 10000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'counts',
            MESSAGE = 'counts must be a JSON array of at most 10000 objects',
            HINT = 'Leave it out if nothing was counted.';
    END IF;
    IF ($6 IS NULL OR $7 > 0) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'flush',
            MESSAGE = 'flush must be at least 1',
            HINT = 'Number the calls with counts from 1.';
    END IF;
    IF EXISTS (SELECT FROM jsonb_to_recordset($6) AS c ("table" text)
        WHERE to_regclass('"{{schema}}".' || quote_ident(c."table")) IS NULL) THEN -- nobody would take them
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'counts',
            MESSAGE = 'counts must name tables of the schema',
            HINT = 'Each object has a table, without its schema.';
    END IF;
    INSERT INTO "{{schema}}"."process" AS p (id, host, language, version, serves, beat_at, flushed)
    VALUES ($1, $2, $3, $4, $5, clock_timestamp(), CASE WHEN $8 THEN coalesce($7, 0) ELSE 0 END)
    ON CONFLICT (id) DO UPDATE
    SET host = EXCLUDED.host, language = EXCLUDED.language, version = EXCLUDED.version, beat_at = EXCLUDED.beat_at,
        serves = CASE WHEN p.serves = EXCLUDED.serves THEN p.serves ELSE EXCLUDED.serves END; -- long: not stored anew
    IF $6 IS NOT NULL THEN
        IF $7 > (SELECT p.flushed FROM "{{schema}}"."process" AS p WHERE p.id = $1)
            AND NOT EXISTS (SELECT FROM "{{schema}}"."history_keep" AS k WHERE NOT k.enabled)
            -- Where nobody maintains the tables, nobody takes what was flushed.
            AND (SELECT c.reltuples FROM pg_class AS c WHERE c.oid = '"{{schema}}"."history_flush"'::regclass) < 1000000 THEN
            UPDATE "{{schema}}"."process" AS p SET flushed = $7 WHERE p.id = $1;
            INSERT INTO "{{schema}}"."history_flush" (process, flush, at, table_name, lane, done, retried, dead, snoozed,
                cancelled, lost, waits, runs)
            SELECT $1, $7, clock_timestamp(), c."table", coalesce(c.lane, ''), coalesce(c.done, 0), coalesce(c.retried, 0),
                coalesce(c.dead, 0), coalesce(c.snoozed, 0), coalesce(c.cancelled, 0), coalesce(c.lost, 0),
                coalesce(c.waits, '{}'), coalesce(c.runs, '{}')
            FROM jsonb_to_recordset($6) AS c ("table" text, lane text, done bigint, retried bigint, dead bigint,
                snoozed bigint, cancelled bigint, lost bigint, waits bigint[], runs bigint[]);
        END IF;
    END IF;
    DELETE FROM "{{schema}}"."process" AS p
    WHERE p.ctid = ANY (ARRAY(
        SELECT o.ctid
        FROM "{{schema}}"."process" AS o
        WHERE o.beat_at < clock_timestamp() - interval '90 seconds'
        LIMIT 10
        FOR UPDATE SKIP LOCKED));
    COMMIT;
END
$txwork$;

REVOKE ALL ON PROCEDURE "{{schema}}"."process_beat"(bigint, text, text, text, jsonb, jsonb, bigint, boolean) FROM PUBLIC;

-- What operators did, a row for each action; of an action by a filter one for its beginning, each batch, each time that
-- its process says that it goes on, and its end. It is written in the transaction that performs the action. When, and
-- by which role, the server says: operators may not write these columns. What was done by SQL alone is not here.
CREATE TABLE "{{schema}}"."audit" (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    db_user text NOT NULL DEFAULT session_user,
    who text NOT NULL, -- as the program says
    origin text NOT NULL, -- where from: an address, or a host
    action uuid NOT NULL,
    event text NOT NULL,
    verb text NOT NULL,
    target text NOT NULL, -- the table, without its schema
    about jsonb NOT NULL, -- ids, a filter, or a name
    rows integer NOT NULL,
    CONSTRAINT "audit_check" CHECK (
        octet_length(who) BETWEEN 1 AND 255 AND octet_length(origin) <= 255 AND octet_length(verb) BETWEEN 1 AND 63
        AND octet_length(target) <= 63 AND octet_length(about::text) <= 65536 AND rows >= 0
        AND event IN ('done', 'begun', 'batch', 'alive', 'stopped', 'resumed', 'ended')
    )
);

COMMENT ON TABLE "{{schema}}"."audit" IS 'txwork audit 1; what operators did';

CREATE INDEX "audit_action_idx" ON "{{schema}}"."audit" (action, id);

-- An action by a filter begins once, also if its form is sent twice, and not under the id of another action.
CREATE UNIQUE INDEX "audit_begun_idx" ON "{{schema}}"."audit" (action)
    WHERE event IN ('begun', 'done');

-- How long the audit is kept. Without a row it is 90 days. Only its owner may write here, so that nobody who acts can
-- shorten what is kept of it.
CREATE TABLE "{{schema}}"."audit_keep" (
    one boolean PRIMARY KEY DEFAULT true CONSTRAINT "audit_keep_one_check" CHECK (one),
    max_age interval NOT NULL DEFAULT '90 days',
    CONSTRAINT "audit_keep_age_check" CHECK (max_age BETWEEN interval '1 day' AND interval '100 years')
);

-- Each row removes some that are too old, so that the table is bounded without maintenance. It runs with its owner's
-- rights: nobody else may delete. It waits for nobody.
CREATE FUNCTION "{{schema}}"."audit_trim"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    max_age CONSTANT interval := coalesce((SELECT k.max_age FROM "{{schema}}"."audit_keep" AS k), interval '90 days');
BEGIN
    DELETE FROM "{{schema}}"."audit" AS a
    WHERE a.ctid = ANY (ARRAY(
        SELECT o.ctid
        FROM "{{schema}}"."audit" AS o
        WHERE o.id = ANY (ARRAY(
            SELECT f.id
            FROM (SELECT id, at FROM "{{schema}}"."audit" ORDER BY id LIMIT 100) AS f
            WHERE f.at < clock_timestamp() - max_age))
        FOR UPDATE SKIP LOCKED));
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."audit_trim"() FROM PUBLIC;

CREATE TRIGGER "audit_trim" AFTER INSERT ON "{{schema}}"."audit"
FOR EACH STATEMENT EXECUTE FUNCTION "{{schema}}"."audit_trim"();

-- Which protocol the schema serves, from the comments of its tables. major grows when a function, a result's column or a
-- word is removed. minor is the core's version of the oldest table. features are the tables, and each further version of
-- a table, such as jobs and "jobs 2".
CREATE FUNCTION "{{schema}}"."protocol"(OUT major integer, OUT minor integer, OUT features text[])
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $txwork$
    SELECT 1, coalesce(min(t.core), 0), coalesce(array_agg(t.name || coalesce(' ' || nullif(v.n, 1), '')
        ORDER BY t.name, v.n), '{}')
    FROM (
        SELECT c.relname AS name, CASE m.found[1] WHEN 'core' THEN m.found[2]::integer END AS core,
            CASE m.found[1] WHEN 'core' THEN coalesce(m.found[3], '1') ELSE m.found[2] END::integer AS own
        FROM pg_class AS c
        CROSS JOIN regexp_match(obj_description(c.oid, 'pg_class'), '^txwork ([a-z]+) ([0-9]{1,9})(?: since [0-9]{1,9})?'
            '(?:, version ([0-9]{1,9})(?: since [0-9]{1,9})?)?(?:;.*)?$') AS m (found)
        WHERE c.relnamespace = '"{{schema}}"'::regnamespace AND c.relkind IN ('r', 'p') AND m.found IS NOT NULL
    ) AS t
    CROSS JOIN generate_series(1, greatest(t.own, 1)) AS v (n)
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."protocol"() FROM PUBLIC;

-- Refuses a client that the schema does not serve. Clients call it when they connect.
CREATE FUNCTION "{{schema}}"."require"(major integer, minor integer, features text[] DEFAULT '{}') RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    has record;
    lacks text;
BEGIN
    IF ($1 >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'major',
            MESSAGE = 'major must be at least 1',
            HINT = 'Name the protocol for which the client was written, as protocol() returns it.';
    END IF;
    IF ($2 >= 0) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'minor',
            MESSAGE = 'minor must not be negative or NULL',
            HINT = 'Name the protocol for which the client was written, as protocol() returns it.';
    END IF;
    IF ($3 IS NOT NULL AND array_position($3, NULL) IS NULL) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'features',
            MESSAGE = 'features must not be NULL or contain NULL',
            HINT = 'Name what the client needs, as protocol() returns it; leave it out for nothing.';
    END IF;
    SELECT * INTO has FROM "{{schema}}"."protocol"();
    SELECT string_agg(f.name, ', ') INTO lacks FROM unnest($3) AS f (name) WHERE f.name <> ALL (has.features);
    IF $1 < has.major THEN
        RAISE EXCEPTION USING ERRCODE = 'TXV01', COLUMN = 'major',
            MESSAGE = format('the schema no longer serves clients before %s.0: upgrade the client', has.major),
            HINT = format('The client was written for major %s. A client of the schema''s major works.', $1);
    ELSIF ($1, $2) > (has.major, has.minor) THEN
        RAISE EXCEPTION USING ERRCODE = 'TXV01', COLUMN = CASE WHEN $1 > has.major THEN 'major' ELSE 'minor' END,
            MESSAGE = format('the client needs protocol %s.%s, the schema has %s.%s: run txwork migrate up', $1, $2,
                has.major, has.minor),
            HINT = 'Migrate the schema, also tables of your own, or use an earlier version of the client.';
    ELSIF lacks IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'TXV01', COLUMN = 'features',
            MESSAGE = format('the client needs the features %s, which the schema lacks: run txwork migrate up', lacks),
            HINT = 'A schema may have some domains only: name those that are missing with --domain.';
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."require"(integer, integer, text[]) FROM PUBLIC;
