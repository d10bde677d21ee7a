-- Gates of {{.Table}}: rows with a gate_key wait outside the claim index until their key lets them through.
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
CREATE SEQUENCE {{.Named "gate_seq"}};

CREATE TABLE {{.Named "gate_cursor"}} (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    serial_key text NOT NULL DEFAULT '', -- where the next sweep goes on
    limited_key text NOT NULL DEFAULT '',
    rate_key text NOT NULL DEFAULT ''
) WITH (fillfactor = 10);

INSERT INTO {{.Named "gate_cursor"}} DEFAULT VALUES;

CREATE TABLE {{.Named "gate_rate"}} (
    gate_key text PRIMARY KEY,
    tokens double precision NOT NULL,
    refilled_at timestamptz NOT NULL,
    rate double precision NOT NULL,
    burst integer NOT NULL
) WITH (fillfactor = 50);

-- What a gate may look like is checked where a row comes to it: the server reads a CHECK anew for every statement
-- that writes to the table, also for those whose rows have no gate.
ALTER TABLE {{.Table}} ADD CONSTRAINT {{.Constraint "gate_check"}} CHECK ((gate_key IS NULL) = (gate_limit IS NULL));

-- Who waits, by key: serial ones in their order, others by due time.
CREATE INDEX {{.Constraint "gate_wait_idx"}} ON {{.Table}} (gate_key, gate_seq)
    WHERE completed_at IS NULL AND waiting AND gate_limit = 0 AND gate_seq IS NOT NULL;
CREATE INDEX {{.Constraint "gate_queue_idx"}} ON {{.Table}} (gate_key, due_at, gate_seq)
    WHERE completed_at IS NULL AND waiting AND gate_limit > 0 AND gate_seq IS NOT NULL;

-- Who is through. That a serial key has one such row at most holds whatever the rest of this file does.
CREATE UNIQUE INDEX {{.Constraint "gate_one_idx"}} ON {{.Table}} (gate_key)
    WHERE completed_at IS NULL AND NOT waiting AND gate_limit = 0 AND gate_seq IS NOT NULL;
CREATE INDEX {{.Constraint "gate_live_idx"}} ON {{.Table}} (gate_key)
    WHERE completed_at IS NULL AND NOT waiting AND gate_limit > 0 AND gate_seq IS NOT NULL;

-- Dead letters that stand in the way of the rows behind them.
CREATE INDEX {{.Constraint "gate_fail_idx"}} ON {{.Table}} (gate_key, gate_seq)
    WHERE failed_at IS NOT NULL AND cancelled_at IS NULL AND gate_policy > 0;

-- A row comes to its gate when it is inserted. The lock comes first and every statement after it has a snapshot of
-- its own (READ COMMITTED), so what an earlier writer of the key committed is seen. Under a stricter isolation it
-- may not be: such a row always waits.
CREATE FUNCTION {{.Named "gate_enter"}}() RETURNS trigger
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
BEGIN
    IF (octet_length(NEW.gate_key) BETWEEN 1 AND 255 AND NEW.gate_limit >= 0 AND NEW.gate_policy BETWEEN 0 AND 2
        AND (NEW.gate_rate IS NULL) = (NEW.gate_burst IS NULL)
        AND (NEW.gate_rate IS NULL OR NEW.gate_limit > 0 AND NEW.gate_rate BETWEEN {{.MinRate}} AND {{.MaxRate}} AND NEW.gate_burst >= 1)) IS NOT TRUE THEN
        RAISE EXCEPTION 'the gate of key % cannot be: it needs a key of 1 to 255 bytes, a limit of at least 0, a policy of 0 to 2, and a rate of {{.MinRate}} to {{.MaxRate}} and a burst together, with a limit', left(NEW.gate_key, 40)
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_gate_check';
    END IF;
    IF NEW.waiting THEN
        NEW.gate_seq := NULL; -- it waits for something else first
        RETURN NEW;
    END IF;
    IF NEW.gate_limit = 0 THEN
        PERFORM pg_advisory_xact_lock({{.WriterLock "NEW.gate_key"}});
    END IF;
    NEW.gate_seq := nextval('{{.Named "gate_seq"}}');
    NEW.waiting := NEW.gate_limit > 0
        OR current_setting('transaction_isolation') <> 'read committed'
        OR EXISTS (SELECT FROM {{.Table}} AS t WHERE t.gate_key = NEW.gate_key AND t.gate_limit = 0 AND t.completed_at IS NULL AND NOT t.waiting AND t.gate_seq IS NOT NULL)
        OR EXISTS (SELECT FROM {{.Table}} AS t WHERE t.gate_key = NEW.gate_key AND t.gate_limit = 0 AND t.completed_at IS NULL AND t.waiting AND t.gate_seq IS NOT NULL)
        OR EXISTS (SELECT FROM {{.Table}} AS t WHERE t.gate_key = NEW.gate_key AND t.failed_at IS NOT NULL AND t.cancelled_at IS NULL AND t.gate_policy > 0);
    RETURN NEW;
END
$txwork$;

-- A row comes to its gate later: what it waited for before, a join, released it, or it is redriven and never got
-- so far. It waits: only an insert takes the writers' lock, which a settle must not wait for.
--
-- This and the next are AFTER triggers with an UPDATE of their own. A BEFORE UPDATE trigger would lock each row that
-- any statement updates first, claims and acks of rows without a gate included.
CREATE FUNCTION {{.Named "gate_come"}}() RETURNS trigger
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
BEGIN
    UPDATE {{.Table}} AS t
    SET waiting = true, gate_seq = nextval('{{.Named "gate_seq"}}')
    WHERE t.id = NEW.id AND t.status = 0 AND t.gate_seq IS NULL;
    RETURN NULL;
END
$txwork$;

-- A row gives its place among several up: it was put back for later.
CREATE FUNCTION {{.Named "gate_back"}}() RETURNS trigger
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
BEGIN
    UPDATE {{.Table}} AS t SET waiting = true WHERE t.id = NEW.id AND t.status = 0;
    PERFORM {{.Named "gate_promote"}}(NEW.gate_key, false, false);
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
CREATE FUNCTION {{.Named "gate_promote"}}(k text, serial boolean, careful boolean) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
DECLARE
    head record;
    obstacle record;
    room integer;
    n integer := 0;
BEGIN
    IF serial THEN
        SELECT t.id INTO head FROM {{.Table}} AS t
        WHERE t.gate_key = k AND t.completed_at IS NULL AND t.waiting AND t.gate_limit = 0 AND t.gate_seq IS NOT NULL
        ORDER BY t.gate_key, t.gate_seq LIMIT 1;
    ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN 0; -- it cannot see who is through
    ELSE
        SELECT t.id, t.gate_limit, t.gate_rate, t.gate_burst INTO head FROM {{.Table}} AS t
        WHERE t.gate_key = k AND t.completed_at IS NULL AND t.waiting AND t.gate_limit > 0 AND t.gate_seq IS NOT NULL
          AND t.due_at <= clock_timestamp()
        ORDER BY t.gate_key, t.due_at, t.gate_seq LIMIT 1;
        IF careful AND {{.Named "gate_room"}}(k, head.gate_limit) <= 0 THEN
            RETURN 0;
        END IF;
    END IF;
    IF head.id IS NULL OR NOT pg_try_advisory_xact_lock({{.PromoterLock "k"}})
        OR careful AND serial AND NOT pg_try_advisory_xact_lock({{.WriterLock "k"}}) THEN
        RETURN 0;
    END IF;

    IF serial THEN
        -- What was read before the lock may be out of date; the statements below see what the last holder did.
        IF EXISTS (SELECT FROM {{.Table}} AS t WHERE t.gate_key = k AND t.completed_at IS NULL AND NOT t.waiting AND t.gate_limit = 0 AND t.gate_seq IS NOT NULL) THEN
            RETURN 0;
        END IF;
        SELECT t.id, t.gate_seq INTO head FROM {{.Table}} AS t
        WHERE t.gate_key = k AND t.completed_at IS NULL AND t.waiting AND t.gate_limit = 0 AND t.gate_seq IS NOT NULL
        ORDER BY t.gate_key, t.gate_seq LIMIT 1;
        SELECT t.id, t.gate_policy INTO obstacle FROM {{.Table}} AS t
        WHERE t.gate_key = k AND t.failed_at IS NOT NULL AND t.cancelled_at IS NULL AND t.gate_policy > 0 AND t.gate_seq < head.gate_seq
        ORDER BY t.gate_key, t.gate_seq LIMIT 1;
        IF obstacle.gate_policy = 2 THEN
            RETURN {{.Named "gate_park"}}(k, obstacle.id);
        ELSIF obstacle.id IS NOT NULL THEN
            RETURN 0;
        END IF;
        UPDATE {{.Table}} AS t SET waiting = false, due_at = greatest(t.due_at, now())
        WHERE t.ctid = ANY (ARRAY(
            SELECT r.ctid FROM {{.Table}} AS r
            WHERE r.id = head.id AND r.waiting AND r.completed_at IS NULL
            FOR NO KEY UPDATE SKIP LOCKED));
        GET DIAGNOSTICS n = ROW_COUNT;
    ELSE
        room := least({{.Named "gate_room"}}(k, head.gate_limit), {{.MaxPromoted}});
        IF room > 0 AND head.gate_rate IS NOT NULL THEN
            room := least(room, floor({{.Named "gate_refill"}}(k, head.gate_rate, head.gate_burst)));
        END IF;
        IF room <= 0 THEN
            RETURN 0;
        END IF;
        UPDATE {{.Table}} AS t SET waiting = false, due_at = greatest(t.due_at, now())
        WHERE t.ctid = ANY (ARRAY(
            SELECT r.ctid FROM {{.Table}} AS r
            WHERE r.gate_key = k AND r.completed_at IS NULL AND r.waiting AND r.gate_limit > 0 AND r.gate_seq IS NOT NULL
              AND r.due_at <= clock_timestamp()
            ORDER BY r.gate_key, r.due_at, r.gate_seq
            LIMIT room
            FOR NO KEY UPDATE SKIP LOCKED));
        GET DIAGNOSTICS n = ROW_COUNT;
        IF head.gate_rate IS NOT NULL THEN
            UPDATE {{.Named "gate_rate"}} AS b SET tokens = b.tokens - n WHERE b.gate_key = k;
        END IF;
    END IF;
    IF n > 0 THEN
        PERFORM {{.Announce}};
    END IF;
    RETURN n;
END
$txwork$;

-- How many more rows of a limited key may be through. Counts no more than the limit, and nothing without one.
CREATE FUNCTION {{.Named "gate_room"}}(k text, most integer) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF most = {{.Unlimited}} THEN
        RETURN most;
    END IF;
    RETURN most - count(*) FROM (
        SELECT FROM {{.Table}} AS t
        WHERE t.gate_key = k AND t.completed_at IS NULL AND NOT t.waiting AND t.gate_limit > 0 AND t.gate_seq IS NOT NULL
        LIMIT most) AS live;
END
$txwork$;

-- The tokens of a key's bucket now. Called under the promoters' lock only. A clock that was set back takes no
-- tokens away.
CREATE FUNCTION {{.Named "gate_refill"}}(k text, rate double precision, burst integer) RETURNS double precision
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $txwork$
    INSERT INTO {{.Named "gate_rate"}} AS b (gate_key, tokens, refilled_at, rate, burst)
    VALUES (k, $3, clock_timestamp(), $2, $3)
    ON CONFLICT (gate_key) DO UPDATE
    SET tokens = least($3, b.tokens + $2 * greatest(extract(epoch FROM clock_timestamp() - b.refilled_at)::float8, 0)),
        refilled_at = clock_timestamp(),
        rate = $2,
        burst = $3
    RETURNING b.tokens
$txwork$;

-- Ready -> Failed for the rows that wait behind a dead letter whose policy is Park.
CREATE FUNCTION {{.Named "gate_park"}}(k text, behind uuid) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
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
        WHERE r.gate_key = k AND r.completed_at IS NULL AND r.waiting AND r.gate_limit = 0 AND r.gate_seq IS NOT NULL
        ORDER BY r.gate_key, r.gate_seq
        LIMIT 1000
        FOR NO KEY UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$txwork$;

-- A row of the key is out of play, or came back: the key may have room.
CREATE FUNCTION {{.Named "gate_leave"}}() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    -- Only a row that was through and is settled leaves the key certainly without another writer's first row.
    PERFORM {{.Named "gate_promote"}}(OLD.gate_key, OLD.gate_limit = 0, OLD.completed_at IS NOT NULL);
    RETURN NULL;
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

-- Lets through what no settle did: rows of a key that wait although it has room. Goes through the keys from
-- where the last sweep ended, {{.SweepKeys}} of each sort at most; the cursor's row lock makes sweeps take turns.
CREATE FUNCTION {{.Named "gate_sweep"}}(max_rows integer) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
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
    SELECT c.serial_key, c.limited_key, c.rate_key INTO place FROM {{.Named "gate_cursor"}} AS c FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        INSERT INTO {{.Named "gate_cursor"}} DEFAULT VALUES ON CONFLICT DO NOTHING; -- somebody truncated it
        RETURN 0;
    END IF;
    IF NOT EXISTS (SELECT FROM {{.Table}} AS t
        WHERE t.completed_at IS NULL AND t.waiting AND t.gate_limit = 0 AND t.gate_seq IS NOT NULL AND t.gate_key > place.serial_key) THEN
        place.serial_key := ''; -- the last sweep ended at the last key
    END IF;
    seen := '';
    FOR k, seq IN
        WITH RECURSIVE keys AS (
            (SELECT t.gate_key AS key, t.gate_seq AS seq, 1 AS nth FROM {{.Table}} AS t
                WHERE t.completed_at IS NULL AND t.waiting AND t.gate_limit = 0 AND t.gate_seq IS NOT NULL AND t.gate_key > place.serial_key
                ORDER BY t.gate_key, t.gate_seq LIMIT 1)
            UNION ALL
            SELECT head.gate_key, head.gate_seq, keys.nth + 1
            FROM keys LEFT JOIN LATERAL (
                SELECT t.gate_key, t.gate_seq FROM {{.Table}} AS t
                WHERE t.completed_at IS NULL AND t.waiting AND t.gate_limit = 0 AND t.gate_seq IS NOT NULL AND t.gate_key > keys.key
                ORDER BY t.gate_key, t.gate_seq LIMIT 1) AS head ON true
            WHERE keys.key IS NOT NULL AND keys.nth < {{.SweepKeys}}
        )
        SELECT keys.key, keys.seq FROM keys
    LOOP
        seen := k; -- NULL past the last key: start again
        CONTINUE WHEN k IS NULL
            OR EXISTS (SELECT FROM {{.Table}} AS t WHERE t.gate_key = k AND t.completed_at IS NULL AND NOT t.waiting AND t.gate_limit = 0 AND t.gate_seq IS NOT NULL)
            OR 1 = (SELECT t.gate_policy FROM {{.Table}} AS t
                WHERE t.gate_key = k AND t.failed_at IS NOT NULL AND t.cancelled_at IS NULL AND t.gate_policy > 0 AND t.gate_seq < seq
                ORDER BY t.gate_key, t.gate_seq LIMIT 1);
        n := n + {{.Named "gate_promote"}}(k, true, true);
        EXIT WHEN n >= max_rows;
    END LOOP;
    place.serial_key := coalesce(seen, '');

    IF NOT EXISTS (SELECT FROM {{.Table}} AS t
        WHERE t.completed_at IS NULL AND t.waiting AND t.gate_limit > 0 AND t.gate_seq IS NOT NULL AND t.gate_key > place.limited_key) THEN
        place.limited_key := '';
    END IF;
    seen := '';
    FOR k IN
        WITH RECURSIVE keys AS (
            SELECT (SELECT t.gate_key FROM {{.Table}} AS t
                WHERE t.completed_at IS NULL AND t.waiting AND t.gate_limit > 0 AND t.gate_seq IS NOT NULL AND t.gate_key > place.limited_key
                ORDER BY t.gate_key, t.due_at, t.gate_seq LIMIT 1) AS key, 1 AS nth
            UNION ALL
            SELECT (SELECT t.gate_key FROM {{.Table}} AS t
                WHERE t.completed_at IS NULL AND t.waiting AND t.gate_limit > 0 AND t.gate_seq IS NOT NULL AND t.gate_key > keys.key
                ORDER BY t.gate_key, t.due_at, t.gate_seq LIMIT 1), keys.nth + 1
            FROM keys WHERE keys.key IS NOT NULL AND keys.nth < {{.SweepKeys}}
        )
        SELECT keys.key FROM keys
    LOOP
        seen := k;
        CONTINUE WHEN k IS NULL;
        n := n + {{.Named "gate_promote"}}(k, false, true);
        EXIT WHEN n >= max_rows;
    END LOOP;
    place.limited_key := coalesce(seen, '');

    -- A full bucket is as good as none. A hundred of them are looked at in a sweep.
    SELECT array_agg(l.gate_key), max(l.gate_key) INTO full_keys, seen
    FROM (
        SELECT b.gate_key FROM {{.Named "gate_rate"}} AS b
        WHERE b.gate_key > place.rate_key ORDER BY b.gate_key LIMIT 100) AS l;
    place.rate_key := coalesce(seen, '');
    DELETE FROM {{.Named "gate_rate"}} AS b
    WHERE b.ctid = ANY (ARRAY(
        SELECT r.ctid FROM {{.Named "gate_rate"}} AS r
        WHERE r.gate_key = ANY (full_keys) AND r.refilled_at < now() - interval '1 minute'
          AND r.tokens + r.rate * extract(epoch FROM now() - r.refilled_at)::float8 >= r.burst
        FOR UPDATE SKIP LOCKED));
    UPDATE {{.Named "gate_cursor"}} AS c
    SET serial_key = place.serial_key, limited_key = place.limited_key, rate_key = place.rate_key
    WHERE (c.serial_key, c.limited_key, c.rate_key) <> (place.serial_key, place.limited_key, place.rate_key);
    RETURN n;
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

CREATE TRIGGER {{.Constraint "gate_leave"}} AFTER UPDATE OF completed_at, waiting, gate_policy ON {{.Table}}
FOR EACH ROW WHEN (NEW.gate_seq IS NOT NULL AND (
    NOT OLD.waiting AND OLD.completed_at IS NULL AND NEW.completed_at IS NOT NULL
    OR OLD.completed_at IS NOT NULL AND NEW.completed_at IS NULL
    OR OLD.gate_policy > 0 AND NEW.gate_policy = 0))
EXECUTE FUNCTION {{.Named "gate_leave"}}();

CREATE TRIGGER {{.Constraint "gate_gone"}} AFTER DELETE ON {{.Table}}
FOR EACH ROW WHEN (OLD.gate_seq IS NOT NULL AND (OLD.failed_at IS NOT NULL OR OLD.completed_at IS NULL AND NOT OLD.waiting))
EXECUTE FUNCTION {{.Named "gate_leave"}}();
{{range .Functions}}
REVOKE ALL ON FUNCTION {{$.Named .Name}}({{.Types}}) FROM PUBLIC;
{{- end}}
