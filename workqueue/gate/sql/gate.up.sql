-- Gates of {{.Table}}: rows with a gate_key wait outside the claim index until their key lets them through.
--
-- Whatever may concern a key appends a note in its own transaction: an insert, a settle, a cancel, a redrive, a
-- deletion. It reads nothing and waits for nobody, except that the writers of an ordered key take turns. gate_fold
-- applies notes later, in a short transaction of its own, one folder at a time: it lets through what the keys of its
-- notes have room for. docs/model/fold.pml checks the protocol.
--
-- Tables have columns of all names. Functions therefore say that variables go first, and name columns with their table.
--
-- gate_limit = 0, an ordered key: one live row at a time, in commit order. Writers of a key hold an advisory lock until
-- they commit and draw gate_seq under it, so the committed rows of a key are a prefix of its order and the smallest
-- that waits is next.
--
-- gate_limit = n > 0: at most n rows outside the gate, by due time; a row that goes back for a retry gives its place up.
CREATE SEQUENCE {{.Named "gate_seq"}};

-- at is when the key is to be looked at: the start of the transaction that wrote the note, or a later time. Rows of a
-- key that are ordered and those that are limited have nothing to do with each other. There is no CHECK: the server
-- reads one anew for every statement that writes, and each settle of a gated row is one here.
CREATE TABLE {{.Named "gate_note"}} (
    at timestamptz NOT NULL,
    gate_key text NOT NULL,
    limited boolean NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- A publication, somebody else's FOR ALL TABLES too, would otherwise have PostgreSQL refuse to delete notes.
ALTER TABLE {{.Named "gate_note"}} REPLICA IDENTITY FULL;

CREATE INDEX {{.Constraint "gate_note_idx"}} ON {{.Named "gate_note"}} (at);

-- next_at is when the next row may start if the burst is used up (the theoretical arrival time of the generic cell
-- rate algorithm). A row whose next_at has passed is as good as none.
CREATE TABLE {{.Named "gate_rate"}} (
    gate_key text PRIMARY KEY,
    next_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Where the next sweep goes on.
CREATE TABLE {{.Named "gate_cursor"}} (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    ordered_key text NOT NULL DEFAULT '',
    limited_key text NOT NULL DEFAULT '',
    swept_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 10);

INSERT INTO {{.Named "gate_cursor"}} DEFAULT VALUES;

-- What a gate may look like is checked where a row comes to it: the server reads a CHECK anew for every statement
-- that writes to the table, also for those whose rows have no gate.
ALTER TABLE {{.Table}} ADD CONSTRAINT {{.Constraint "gate_check"}} CHECK ((gate_key IS NULL) = (gate_limit IS NULL));

-- Rows that wait, by key: ordered ones in their order, others by due time.
CREATE INDEX {{.Constraint "gate_wait_idx"}} ON {{.Table}} (gate_key, gate_seq)
    WHERE {{.OrderedWaits ""}};
CREATE INDEX {{.Constraint "gate_queue_idx"}} ON {{.Table}} (gate_key, due_at, gate_seq)
    WHERE {{.LimitedWaits ""}};

-- Rows that are through. The unique index admits one of an ordered key, whatever goes wrong elsewhere.
CREATE UNIQUE INDEX {{.Constraint "gate_one_idx"}} ON {{.Table}} (gate_key)
    WHERE {{.OrderedLive ""}};
CREATE INDEX {{.Constraint "gate_live_idx"}} ON {{.Table}} (gate_key)
    WHERE {{.LimitedLive ""}};

-- Dead letters that stand in the way of the rows behind them.
CREATE INDEX {{.Constraint "gate_fail_idx"}} ON {{.Table}} (gate_key, gate_seq)
    WHERE {{.Obstacle ""}};

-- Draws the place of a row behind all others of its key. The table is asked because the sequence may be behind it, as
-- after a logical replication, which copies no sequences; it is asked for what is not behind the sequence alone, since a
-- key may have had any number of rows.
CREATE FUNCTION {{.Named "gate_place"}}(k text) RETURNS bigint
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
DECLARE
    next constant bigint := nextval('{{.Named "gate_seq"}}');
BEGIN
    RETURN greatest(
        next,
        1 + (SELECT t.gate_seq FROM {{.Table}} AS t
            WHERE t.gate_key = k AND {{.OrderedWaits "t"}} AND t.gate_seq >= next
            ORDER BY t.gate_key DESC, t.gate_seq DESC LIMIT 1),
        1 + (SELECT t.gate_seq FROM {{.Table}} AS t
            WHERE t.gate_key = k AND {{.OrderedLive "t"}}),
        1 + (SELECT t.gate_seq FROM {{.Table}} AS t
            WHERE t.gate_key = k AND {{.Obstacle "t"}} AND t.gate_seq >= next
            ORDER BY t.gate_key DESC, t.gate_seq DESC LIMIT 1));
END
$txwork$;

-- A row comes to its gate when it is inserted, and always waits: only a fold lets rows through. One that brings its
-- place, as from a restored dump or a COPY, keeps it.
CREATE FUNCTION {{.Named "gate_enter"}}() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF (octet_length(NEW.gate_key) BETWEEN 1 AND 255 AND NEW.gate_limit >= 0 AND NEW.gate_policy BETWEEN 0 AND 2
        AND (NEW.gate_rate IS NULL) = (NEW.gate_burst IS NULL)
        AND (NEW.gate_rate IS NULL OR NEW.gate_limit > 0 AND NEW.gate_rate BETWEEN {{.MinRate}} AND {{.MaxRate}} AND NEW.gate_burst >= 1)) IS NOT TRUE THEN
        RAISE EXCEPTION 'the gate of key % cannot be: it needs a key of 1 to 255 bytes, a limit of at least 0, a policy of 0 to 2, and a rate of {{.MinRate}} to {{.MaxRate}} and a burst together, with a limit', left(NEW.gate_key, 40)
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_gate_check';
    END IF;
    IF NEW.completed_at IS NOT NULL OR NEW.waiting AND NEW.gate_seq IS NULL THEN
        RETURN NEW; -- it has ended, or waits for something else first
    END IF;
    IF NEW.gate_seq IS NULL AND NEW.gate_limit = 0 THEN
        PERFORM pg_advisory_xact_lock({{.WriterLock "NEW.gate_key"}});
        NEW.gate_seq := {{.Named "gate_place"}}(NEW.gate_key);
        IF NEW.gate_seq % 512 = 0 AND (SELECT count(*) FROM pg_locks AS l WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory') > {{.MaxTurns}} THEN
            RAISE EXCEPTION 'this transaction has written more than % ordered keys: each holds one of the locks that the whole server shares', {{.MaxTurns}}
                USING ERRCODE = 'program_limit_exceeded', HINT = 'write fewer keys in one transaction, or raise max_locks_per_transaction';
        END IF;
    ELSIF NEW.gate_seq IS NULL THEN
        NEW.gate_seq := nextval('{{.Named "gate_seq"}}');
    END IF;
    IF NEW.status = 0 THEN
        NEW.waiting := true;
        INSERT INTO {{.Named "gate_note"}} (at, gate_key, limited)
        VALUES (CASE WHEN NEW.gate_limit > 0 THEN greatest(NEW.due_at, now()) ELSE now() END, NEW.gate_key, NEW.gate_limit > 0);
        IF {{.MustAnnounceNote}} THEN
            PERFORM {{.AnnounceNote}};
        END IF;
    END IF;
    RETURN NEW;
END
$txwork$;

-- A row comes to its gate later: a join has released it, or it is redriven and never got so far.
--
-- This and the next are AFTER triggers with an UPDATE of their own. A BEFORE UPDATE trigger would lock each row that
-- any statement updates first, claims and acks of rows without a gate included.
CREATE FUNCTION {{.Named "gate_come"}}() RETURNS trigger
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
BEGIN
    UPDATE {{.Table}} AS t
    SET waiting = true, gate_seq = {{.Named "gate_place"}}(NEW.gate_key)
    WHERE t.id = NEW.id AND t.status = 0 AND t.gate_seq IS NULL;
    INSERT INTO {{.Named "gate_note"}} (at, gate_key, limited)
    VALUES (CASE WHEN NEW.gate_limit > 0 THEN greatest(NEW.due_at, now()) ELSE now() END, NEW.gate_key, NEW.gate_limit > 0);
    IF {{.MustAnnounceNote}} THEN
        PERFORM {{.AnnounceNote}};
    END IF;
    RETURN NULL;
END
$txwork$;

-- A row of a limited key gives its place up: it was put back for later.
CREATE FUNCTION {{.Named "gate_back"}}() RETURNS trigger
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
BEGIN
    UPDATE {{.Table}} AS t SET waiting = true WHERE t.id = NEW.id AND t.status = 0;
    INSERT INTO {{.Named "gate_note"}} (at, gate_key, limited) VALUES (now(), NEW.gate_key, true);
    IF NEW.due_at > now() THEN
        INSERT INTO {{.Named "gate_note"}} (at, gate_key, limited) VALUES (NEW.due_at, NEW.gate_key, true);
    END IF;
    IF {{.MustAnnounceNote}} THEN
        PERFORM {{.AnnounceNote}};
    END IF;
    RETURN NULL;
END
$txwork$;

-- Something of the key has changed: it may have room, or a row may be due earlier. No search_path is pinned, every name
-- is qualified instead: to set one and set it back for each row costs more than the note.
CREATE FUNCTION {{.Named "gate_note"}}() RETURNS trigger
LANGUAGE plpgsql
AS $txwork$
BEGIN
    INSERT INTO {{.Named "gate_note"}} (at, gate_key, limited)
    VALUES (pg_catalog.now(), OLD.gate_key, OLD.gate_limit OPERATOR(pg_catalog.>) 0);
    IF TG_OP OPERATOR(pg_catalog.=) 'UPDATE' AND NEW.completed_at IS NULL AND NEW.gate_limit OPERATOR(pg_catalog.>) 0
        AND NEW.due_at OPERATOR(pg_catalog.>) pg_catalog.now() THEN
        INSERT INTO {{.Named "gate_note"}} (at, gate_key, limited) VALUES (NEW.due_at, OLD.gate_key, true);
    END IF;
    IF {{.MustAnnounceNote}} THEN
        PERFORM {{.AnnounceNote}};
    END IF;
    RETURN NULL;
END
$txwork$;

-- Applies notes: lets through what their keys have room for. One folder at a time: it locks before it reads, and each
-- statement after that sees what the folder before it has committed. It waits for nobody: a row that somebody holds
-- locked is looked at again in half a second, and of an ordered key it is never passed over.
--
-- The notes are deleted in the transaction that applies them, so a crash takes back both or neither.
CREATE FUNCTION {{.Named "gate_fold"}}(max_notes integer, since timestamptz DEFAULT '-infinity')
RETURNS TABLE (folded integer, released integer, again double precision, upto timestamptz)
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_variable
DECLARE
    started constant timestamptz := clock_timestamp();
    ordered text[];
    limited text[];
    n integer;
    one text;
BEGIN
    IF (max_notes >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'max_notes is %, it must be at least 1', max_notes USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' OR NOT pg_try_advisory_xact_lock({{.FoldLock}}) THEN
        RETURN NEXT; -- all NULL: somebody else folds, or this transaction could not see what they did
        RETURN;
    END IF;

    folded := 0;
    LOOP
        WITH taken AS (
            DELETE FROM {{.Named "gate_note"}} AS d
            WHERE d.ctid = ANY (ARRAY(
                SELECT r.ctid FROM {{.Named "gate_note"}} AS r
                WHERE r.at >= greatest(since, upto) AND r.at <= started
                ORDER BY r.at
                LIMIT max_notes
                FOR UPDATE SKIP LOCKED))
            RETURNING d.at, d.gate_key, d.limited
        )
        SELECT count(*), greatest(upto, nullif(max(n.at), '-infinity')),
            ARRAY(SELECT o.gate_key FROM taken AS o WHERE NOT o.limited UNION SELECT unnest(ordered)),
            ARRAY(SELECT l.gate_key FROM taken AS l WHERE l.limited UNION SELECT unnest(limited))
        INTO n, upto, ordered, limited
        FROM taken AS n;
        folded := folded + n;
        -- Many notes of few keys, as of rows that came to keys with many rows, are cheap to take and would be in the way.
        EXIT WHEN n < max_notes OR folded >= 10 * max_notes OR 2 * (cardinality(ordered) + cardinality(limited)) > max_notes;
    END LOOP;

    released := 0;
    IF cardinality(ordered) > 0 THEN
        released := {{.Named "gate_next"}}(ordered);
    END IF;
    IF cardinality(limited) > 0 THEN
        released := released + {{.Named "gate_fill"}}(limited, started);
        FOR one IN
            SELECT k.key FROM unnest(limited) AS k (key)
            WHERE (SELECT t.gate_rate FROM {{.Table}} AS t
                WHERE t.gate_key = k.key AND {{.LimitedWaits "t"}} AND t.due_at <= started
                ORDER BY t.gate_key, t.due_at, t.gate_seq
                LIMIT 1) IS NOT NULL -- the first alone: a key without a rate may have a million rows
        LOOP
            released := released + {{.Named "gate_spend"}}(one, started);
        END LOOP;
    END IF;
    IF released > 0 THEN
        PERFORM {{.Announce}};
    END IF;
    again := CASE WHEN n = max_notes THEN 0 ELSE (
        SELECT extract(epoch FROM n.at - clock_timestamp())
        FROM {{.Named "gate_note"}} AS n
        WHERE n.at > started AND n.at < 'infinity'
        ORDER BY n.at
        LIMIT 1) END;
    RETURN NEXT;
END
$txwork$;

-- Lets the first row of each ordered key through that has no live row, and no dead letter before it. Called by folders
-- only. A row that is let through is due now at the earliest, and now is when the transaction began: the notification
-- leads claim cursors back to there, and a drain inside a transaction can claim it.
CREATE FUNCTION {{.Named "gate_next"}}(keys text[]) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_variable
DECLARE
    n integer;
    one record;
BEGIN
    FOR one IN
        WITH head AS MATERIALIZED (
            SELECT k.key, h.ctid, o.id AS behind, o.gate_policy
            FROM unnest(keys) AS k (key)
            CROSS JOIN LATERAL (
                SELECT r.ctid, r.gate_seq FROM {{.Table}} AS r
                WHERE r.gate_key = k.key AND {{.OrderedWaits "r"}}
                ORDER BY r.gate_key, r.gate_seq
                LIMIT 1) AS h
            LEFT JOIN LATERAL (
                SELECT f.id, f.gate_policy FROM {{.Table}} AS f
                WHERE f.gate_key = k.key AND {{.Obstacle "f"}} AND f.gate_seq < h.gate_seq
                ORDER BY f.gate_key, f.gate_seq
                LIMIT 1) AS o ON true
            LEFT JOIN LATERAL ( -- no NOT EXISTS: an anti-join may read all live rows of the table
                SELECT true AS is FROM {{.Table}} AS l
                WHERE l.gate_key = k.key AND {{.OrderedLive "l"}}
                LIMIT 1) AS live ON true
            WHERE live.is IS NULL
        ), through AS (
            UPDATE {{.Table}} AS t SET waiting = false, due_at = greatest(t.due_at, now())
            WHERE t.ctid = ANY (ARRAY(
                SELECT r.ctid FROM {{.Table}} AS r
                WHERE r.ctid = ANY (ARRAY(SELECT h.ctid FROM head AS h WHERE h.behind IS NULL))
                  AND CASE WHEN r.completed_at IS NULL THEN r.waiting END -- it implies no index's condition
                FOR NO KEY UPDATE SKIP LOCKED))
            RETURNING t.gate_key
        ), later AS (
            INSERT INTO {{.Named "gate_note"}} (at, gate_key, limited)
            SELECT clock_timestamp() + interval '500 milliseconds', h.key, false
            FROM head AS h
            WHERE h.behind IS NULL AND h.key NOT IN (SELECT t.gate_key FROM through AS t) -- hashed; an anti-join is not
        )
        SELECT (SELECT count(*) FROM through) AS through, h.key, h.behind
        FROM (SELECT) AS once
        LEFT JOIN head AS h ON h.gate_policy = 2
    LOOP
        n := one.through;
        IF one.behind IS NOT NULL THEN
            PERFORM {{.Named "gate_park"}}(one.key, one.behind);
        END IF;
    END LOOP;
    RETURN n;
END
$txwork$;

-- Fills the places of limited keys without a rate. Called by folders only.
CREATE FUNCTION {{.Named "gate_fill"}}(keys text[], started timestamptz) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_variable
DECLARE
    n integer;
BEGIN
    WITH room AS MATERIALIZED (
        SELECT k.key, {{.Named "gate_room"}}(k.key, h.gate_limit) AS rows
        FROM unnest(keys) AS k (key)
        CROSS JOIN LATERAL (
            SELECT r.gate_limit, r.gate_rate FROM {{.Table}} AS r
            WHERE r.gate_key = k.key AND {{.LimitedWaits "r"}} AND r.due_at <= started
            ORDER BY r.gate_key, r.due_at, r.gate_seq
            LIMIT 1) AS h
        WHERE h.gate_rate IS NULL
    ), free AS MATERIALIZED (
        SELECT f.ctid
        FROM room
        CROSS JOIN LATERAL (
            SELECT r.ctid FROM {{.Table}} AS r
            WHERE r.gate_key = room.key AND {{.LimitedWaits "r"}} AND r.due_at <= started
            ORDER BY r.gate_key, r.due_at, r.gate_seq
            LIMIT greatest(room.rows, 0)
            FOR NO KEY UPDATE SKIP LOCKED) AS f
    ), through AS (
        UPDATE {{.Table}} AS t SET waiting = false, due_at = greatest(t.due_at, now())
        WHERE t.ctid = ANY (ARRAY(SELECT f.ctid FROM free AS f))
        RETURNING t.gate_key
    ), later AS (
        -- A key whose rows somebody holds locked, or which got as many rows as one fold may give it.
        INSERT INTO {{.Named "gate_note"}} (at, gate_key, limited)
        SELECT clock_timestamp() + CASE WHEN room.key IN (SELECT t.gate_key FROM through AS t) THEN interval '0' ELSE interval '500 milliseconds' END, room.key, true
        FROM room
        WHERE room.rows >= {{.MaxReleased}} OR room.rows > 0 AND room.key NOT IN (SELECT t.gate_key FROM through AS t)
    )
    SELECT count(*) INTO n FROM through;
    RETURN n;
END
$txwork$;

-- Lets rows of a limited key with a rate through, each due when the rate allows it: the generic cell rate algorithm.
-- Rows of the next {{.Ahead}} are let through at once, so that the rate is met however seldom somebody folds. Called by
-- folders only.
CREATE FUNCTION {{.Named "gate_spend"}}(k text, started timestamptz) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_variable
DECLARE
    head record;
    first timestamptz;
    gap interval;
    n integer;
BEGIN
    SELECT r.gate_limit, r.gate_rate, r.gate_burst INTO head FROM {{.Table}} AS r
    WHERE r.gate_key = k AND {{.LimitedWaits "r"}} AND r.due_at <= started
    ORDER BY r.gate_key, r.due_at, r.gate_seq
    LIMIT 1;
    IF head.gate_rate IS NULL THEN
        RETURN 0;
    END IF;
    SELECT b.next_at INTO first FROM {{.Named "gate_rate"}} AS b WHERE b.gate_key = k FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM {{.Named "gate_rate"}} AS b WHERE b.gate_key = k) THEN
        INSERT INTO {{.Named "gate_note"}} (at, gate_key, limited) VALUES (started + interval '500 milliseconds', k, true);
        RETURN 0;
    END IF;
    gap := CASE WHEN head.gate_rate < 10000 THEN ceil(1e6 / head.gate_rate) ELSE 1e6 / head.gate_rate END * interval '1 microsecond';
    first := greatest(first, started);
    n := least(
        {{.Named "gate_room"}}(k, head.gate_limit),
        floor(least(extract(epoch FROM started + {{.AheadInterval}} - first)::float8 * head.gate_rate + head.gate_burst, {{.MaxReleased}}))::integer);
    IF n > 0 THEN
        WITH free AS MATERIALIZED (
            SELECT r.ctid, r.due_at, r.gate_seq FROM {{.Table}} AS r
            WHERE r.gate_key = k AND {{.LimitedWaits "r"}} AND r.due_at <= started
            ORDER BY r.gate_key, r.due_at, r.gate_seq
            LIMIT n
            FOR NO KEY UPDATE SKIP LOCKED
        ), slot AS MATERIALIZED (
            SELECT f.ctid, first + (row_number() OVER (ORDER BY f.due_at, f.gate_seq) - head.gate_burst) * gap AS at FROM free AS f
        )
        UPDATE {{.Table}} AS t SET waiting = false, due_at = greatest(t.due_at, now(), slot.at)
        FROM slot
        WHERE t.ctid = slot.ctid;
        GET DIAGNOSTICS n = ROW_COUNT;
        first := first + n * gap;
        INSERT INTO {{.Named "gate_rate"}} AS b (gate_key, next_at) VALUES (k, first)
        ON CONFLICT (gate_key) DO UPDATE SET next_at = excluded.next_at;
    END IF;
    IF EXISTS (SELECT FROM {{.Table}} AS t
        WHERE t.gate_key = k AND {{.LimitedWaits "t"}} AND t.due_at <= started)
       AND {{.Named "gate_room"}}(k, head.gate_limit) > 0 THEN
        -- When half of the time ahead is used up, or else the next row may start.
        INSERT INTO {{.Named "gate_note"}} (at, gate_key, limited)
        VALUES (greatest(first - head.gate_burst * gap + gap - {{.AheadInterval}} / 2, started + interval '5 milliseconds'), k, true);
    END IF;
    RETURN greatest(n, 0);
END
$txwork$;

-- How many more rows of a limited key may be through, at most as many as one fold gives it. Counts no more than the
-- limit, and nothing without one.
CREATE FUNCTION {{.Named "gate_room"}}(k text, most integer) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_variable
BEGIN
    IF most = {{.Unlimited}} THEN
        RETURN {{.MaxReleased}};
    END IF;
    RETURN least({{.MaxReleased}}, most - count(*)) FROM (
        SELECT FROM {{.Table}} AS t
        WHERE t.gate_key = k AND {{.LimitedLive "t"}}
        LIMIT most) AS live;
END
$txwork$;

-- Ready -> Failed for the rows that wait behind a dead letter whose policy is Park, a bounded number in each fold.
CREATE FUNCTION {{.Named "gate_park"}}(k text, behind uuid) RETURNS void
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_variable
DECLARE
    n integer;
BEGIN
    UPDATE {{.Table}} AS t
    SET status = 3,
        completed_at = clock_timestamp(),
        failed_at = clock_timestamp(),
        last_error = 'parked behind ' || behind
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid FROM {{.Table}} AS r
        WHERE r.gate_key = k AND {{.OrderedWaits "r"}} AND r.gate_seq > (
            SELECT f.gate_seq FROM {{.Table}} AS f -- it may have been redriven since it was seen
            WHERE f.id = behind AND f.failed_at IS NOT NULL AND f.cancelled_at IS NULL AND f.gate_policy = 2)
        ORDER BY r.gate_key, r.gate_seq
        LIMIT {{.MaxReleased}}
        FOR NO KEY UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    IF EXISTS (SELECT FROM {{.Table}} AS t
        WHERE t.gate_key = k AND {{.OrderedWaits "t"}}) THEN
        INSERT INTO {{.Named "gate_note"}} (at, gate_key, limited)
        VALUES (clock_timestamp() + CASE WHEN n = {{.MaxReleased}} THEN interval '0' ELSE interval '500 milliseconds' END, k, false);
    END IF;
END
$txwork$;

-- Takes dead letters out of the way of the rows behind them, as if their policy had been Skip.
CREATE FUNCTION {{.Named "gate_skip"}}(ids uuid[]) RETURNS SETOF uuid
LANGUAGE sql
{{.Settings}}
AS $txwork$
    UPDATE {{.Table}} AS t SET gate_policy = 0
    WHERE t.id = ANY (ids) AND t.failed_at IS NOT NULL AND t.gate_policy > 0
    RETURNING t.id
$txwork$;

-- Repairs what somebody did past the triggers: writes a note for every key that has waiting rows, {{.SweepKeys}} of each
-- sort at most, from where the last sweep ended, at most every five seconds. Forgets rates that are not in use, and returns how many.
CREATE FUNCTION {{.Named "gate_sweep"}}(max_rows integer) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_variable
DECLARE
    place record;
    n integer;
BEGIN
    IF (max_rows >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'max_rows must be at least 1' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT c.ordered_key, c.limited_key, c.swept_at INTO place FROM {{.Named "gate_cursor"}} AS c FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        IF NOT EXISTS (SELECT FROM {{.Named "gate_cursor"}}) THEN -- somebody truncated it
            INSERT INTO {{.Named "gate_cursor"}} DEFAULT VALUES ON CONFLICT DO NOTHING;
        END IF;
        RETURN 0; -- somebody else sweeps
    ELSIF place.swept_at BETWEEN clock_timestamp() - interval '5 seconds' AND clock_timestamp() THEN
        RETURN 0;
    END IF;
    place.ordered_key := {{.Named "gate_look"}}(true, place.ordered_key, least(max_rows, {{.SweepKeys}}));
    place.limited_key := {{.Named "gate_look"}}(false, place.limited_key, least(max_rows, {{.SweepKeys}}));
    UPDATE {{.Named "gate_cursor"}} AS c
    SET ordered_key = place.ordered_key, limited_key = place.limited_key, swept_at = clock_timestamp();

    DELETE FROM {{.Named "gate_rate"}} AS b
    WHERE b.ctid = ANY (ARRAY(
        SELECT r.ctid FROM {{.Named "gate_rate"}} AS r
        WHERE r.next_at < now() - interval '1 minute'
        LIMIT max_rows
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$txwork$;

-- Notes for up to most keys behind the given one whose first row waits although no row of the key is live. Returns
-- where to go on.
CREATE FUNCTION {{.Named "gate_look"}}(ordered boolean, behind text, most integer) RETURNS text
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_variable
DECLARE
    last text := behind;
BEGIN
    FOR i IN 1..most LOOP
        IF ordered THEN
            SELECT t.gate_key INTO last FROM {{.Table}} AS t
            WHERE {{.OrderedWaits "t"}} AND t.gate_key > last
            ORDER BY t.gate_key, t.gate_seq LIMIT 1;
        ELSE
            SELECT t.gate_key INTO last FROM {{.Table}} AS t
            WHERE {{.LimitedWaits "t"}} AND t.gate_key > last
            ORDER BY t.gate_key, t.due_at, t.gate_seq LIMIT 1;
        END IF;
        IF last IS NULL THEN
            RETURN ''; -- from the start again
        END IF;
        INSERT INTO {{.Named "gate_note"}} (at, gate_key, limited)
        SELECT now(), last, NOT ordered
        WHERE NOT EXISTS (SELECT FROM {{.Table}} AS t
            WHERE ordered AND t.gate_key = last AND {{.OrderedLive "t"}});
    END LOOP;
    RETURN last;
END
$txwork$;

CREATE TRIGGER {{.Constraint "gate_enter"}} BEFORE INSERT ON {{.Table}}
FOR EACH ROW WHEN (NEW.gate_key IS NOT NULL) EXECUTE FUNCTION {{.Named "gate_enter"}}();

CREATE TRIGGER {{.Constraint "gate_come"}} AFTER UPDATE OF waiting ON {{.Table}}
FOR EACH ROW WHEN (NEW.gate_key IS NOT NULL AND NEW.gate_seq IS NULL AND NEW.status = 0
    AND (OLD.waiting AND NOT NEW.waiting OR OLD.status = 3))
EXECUTE FUNCTION {{.Named "gate_come"}}();

CREATE TRIGGER {{.Constraint "gate_back"}} AFTER UPDATE OF status ON {{.Table}}
FOR EACH ROW WHEN (NEW.gate_seq IS NOT NULL AND NEW.gate_limit > 0 AND OLD.status = 1 AND NEW.status = 0)
EXECUTE FUNCTION {{.Named "gate_back"}}();

-- A live row or a cancelled one ends, an ended one comes back, a dead letter is to be skipped, a waiting one is due earlier.
CREATE TRIGGER {{.Constraint "gate_note"}} AFTER UPDATE OF completed_at, due_at, gate_policy ON {{.Table}}
FOR EACH ROW WHEN (NEW.gate_seq IS NOT NULL AND (
    OLD.completed_at IS NULL AND NEW.completed_at IS NOT NULL AND (NOT OLD.waiting OR NEW.cancelled_at IS NOT NULL)
    OR OLD.completed_at IS NOT NULL AND NEW.completed_at IS NULL
    OR OLD.gate_policy > 0 AND NEW.gate_policy = 0
    OR NEW.waiting AND NEW.gate_limit > 0 AND NEW.due_at < OLD.due_at))
EXECUTE FUNCTION {{.Named "gate_note"}}();

CREATE TRIGGER {{.Constraint "gate_gone"}} AFTER DELETE ON {{.Table}}
FOR EACH ROW WHEN (OLD.gate_seq IS NOT NULL AND (OLD.failed_at IS NOT NULL OR OLD.completed_at IS NULL))
EXECUTE FUNCTION {{.Named "gate_note"}}();
{{range .Functions}}
REVOKE ALL ON FUNCTION {{$.Named .Name}}({{.Types}}) FROM PUBLIC;
{{- end}}
