-- An outbox of rows moves to the log while producers and relays run. The switch, {{.Name}}_take_over, locks the table
-- of rows until those who have written to it have ended, and has it refuse rows from then on. So no message of the log
-- commits before a row that was written first. One subscription, the successor, has the destination of the rows. It is
-- paused until {{.Name}}_move_rows has parked for it all that has not ended.

-- Where producers write now: to rows, or to the log. They are told in the transaction in which they write, and the
-- switch waits for them: the lock is that of an INSERT, and is taken before the look. It runs with its owner's rights,
-- so that producers of a log that has moved need none on the rows. No search_path is pinned: every name is qualified.
-- The table of rows may be dropped once the outbox has moved.
CREATE FUNCTION {{.Named "storage"}}() RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
AS $txwork$
DECLARE
    has_rows CONSTANT pg_catalog.bool := pg_catalog.to_regclass('{{.Rows}}') IS NOT NULL;
    has_moved pg_catalog.bool;
BEGIN
    IF has_rows THEN
        LOCK TABLE {{.Rows}} IN ROW EXCLUSIVE MODE;
    END IF;
    SELECT s.successor IS NOT NULL INTO has_moved FROM {{.Named "state"}} AS s;
    IF NOT has_rows AND NOT has_moved THEN
        {{.RefusesNoRows}}
    END IF;
    RETURN CASE WHEN has_moved THEN 'log' ELSE 'rows' END;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "storage"}}() FROM PUBLIC;

-- Refuses rows once they have moved, and pauses of topics, which rows that move and messages of the log would not obey.
-- A transaction whose snapshot is from before the switch could not know of it, and succeeds when it is repeated.
CREATE FUNCTION {{.Named "rows_moved"}}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    {{.RefusesBeforeSwitch}}
    IF TG_LEVEL = 'ROW' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{.RowsName}} has moved to the log {{.Name}}, whose topics cannot be paused',
            HINT = 'Pause the subscription.';
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = '{{.RowsName}} has moved to the log {{.Name}} and takes no rows',
        HINT = 'Open the outbox with Storage MoveToLog or Log; in SQL, call {{.Name}}_append where '
            '{{.Name}}_storage() is log.';
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "rows_moved"}}() FROM PUBLIC;

-- A dedup key that a row has is taken in the log, too. It is found when somebody wants it: then the row's message is
-- made its holder, with which the INSERT conflicts. It runs with its owner's rights: producers may not read rows.
CREATE FUNCTION {{.Named "dedup_moved"}}() RETURNS trigger
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
    {{.RefusesBeforeSwitch}}
    IF to_regclass('{{.Rows}}') IS NULL THEN -- they were dropped
        RETURN NEW;
    END IF;
    {{.SeesRows}}
    SELECT r.id INTO holder FROM {{.Rows}} AS r WHERE r.topic = NEW.topic AND r.dedup_key = NEW.dedup_key;
    IF holder IS NOT NULL THEN
        INSERT INTO {{.Named "dedup"}} (topic, dedup_key, id, created_at)
        VALUES (NEW.topic, NEW.dedup_key, holder, '-infinity')
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NEW;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "dedup_moved"}}() FROM PUBLIC;

-- Why the rows cannot move to the log; NULL: they can.
CREATE FUNCTION {{.Named "move_hindrance"}}() RETURNS text
LANGUAGE plpgsql STABLE
{{.Settings}}
AS $txwork$
DECLARE
    n bigint;
    names text;
BEGIN
    IF to_regclass('{{.Rows}}') IS NULL OR to_regclass('{{.RowsNamed "topic"}}') IS NULL
        OR to_regclass('{{.RowsNamed "join"}}') IS NULL THEN
        RETURN 'the schema has no outbox of rows: run txwork migrate up --domain outbox';
    END IF;
    {{.SeesAll}}
    {{.SeesLater}}
    {{.SeesRows}}
    IF EXISTS (SELECT FROM {{.Log}}) OR EXISTS (SELECT FROM {{.Named "later"}}) THEN
        RETURN 'the log has messages that were written before the switch: its successor would get them, too. '
            'Stop who writes to the log, and wait until it has been trimmed';
    END IF;
    SELECT count(*) INTO n FROM {{.RowsNamed "join"}} AS j WHERE j.completed_at IS NULL;
    IF n > 0 THEN
        RETURN format('%s joins are pending, which a log does not have: let them end, or cancel them', n);
    END IF;
    SELECT string_agg(quote_literal(t.topic), ', ' ORDER BY t.topic) INTO names
    FROM {{.RowsNamed "topic"}} AS t WHERE t.paused;
    IF names IS NOT NULL THEN
        RETURN format('topics are paused, which a log does not have: resume %s, and pause the subscription afterwards',
            names);
    END IF;
    SELECT count(*) INTO n FROM ({{.Limited "10000"}}) AS l;
    IF n > 0 THEN
        RETURN format('%s rows have a key with a limit, which a message does not have: let relays deliver them, or '
            'cancel them', n);
    END IF;
    SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO names
    FROM pg_attribute AS a
    WHERE a.attrelid = '{{.Rows}}'::regclass AND a.attnum > 0 AND NOT a.attisdropped
      AND a.attname::text <> ALL ('{ {{- .RowsColumns -}} }');
    IF names IS NOT NULL THEN
        RETURN format('{{.RowsName}} has columns that a message does not have: drop %s', names);
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "move_hindrance"}}() FROM PUBLIC;

-- How far a move is: rows (not begun), moving or moved; the successor; and what has not moved. Of the rows it counts so
-- many as the parameter says, those in progress and those of a key with a limit among them: these do not move, and
-- relays of the rows have to deliver them.
CREATE FUNCTION {{.Named "moving"}}(
    most integer DEFAULT 10000, OUT state text, OUT successor text, OUT unfinished bigint, OUT in_progress bigint,
    OUT blocking bigint, OUT limited bigint, OUT seconds double precision
)
LANGUAGE plpgsql STABLE
{{.Settings}}
AS $txwork$
#variable_conflict use_column
BEGIN
    {{.RefusesMost "$1"}}
    SELECT CASE WHEN s.successor IS NULL THEN 'rows' WHEN s.moving THEN 'moving' ELSE 'moved' END, s.successor,
        extract(epoch FROM clock_timestamp() - s.switched_at)::float8
    INTO state, successor, seconds FROM {{.Named "state"}} AS s;
    IF to_regclass('{{.Rows}}') IS NULL THEN
        RETURN;
    END IF;
    {{.SeesRows}}
    SELECT count(*), count(*) FILTER (WHERE l.status = 1) INTO unfinished, in_progress
    FROM (
        (SELECT r.status FROM {{.Rows}} AS r WHERE r.completed_at IS NULL AND NOT r.waiting LIMIT $1)
        UNION ALL
        (SELECT r.status FROM {{.Rows}} AS r WHERE r.completed_at IS NULL AND r.waiting LIMIT $1)) AS l;
    SELECT count(*) INTO blocking
    FROM (SELECT FROM {{.Rows}} AS r WHERE {{.Blocking "r"}} LIMIT $1) AS d;
    SELECT count(*) INTO limited FROM ({{.Limited "$1"}}) AS l;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "moving"}}(integer) FROM PUBLIC;

-- The switch: from its commit on messages go to the log. It waits for all transactions that have written rows, as long
-- as the lock_timeout of the session says, and new ones wait behind it. Everything that it found is looked up under the
-- locks. The log is empty then, so the subscription begins with it. Called again, it makes triggers that are missing,
-- as after a restore without them, and changes nothing else.
CREATE FUNCTION {{.Named "take_over"}}(name text, lanes integer DEFAULT 1) RETURNS void
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    successor text;
    hindrance text;
BEGIN
    {{.SeesAll}}
    {{.RefusesName "$1"}}
    {{.RefusesLanes "$2"}}
    {{.RefusesSession "a move to the log"}}
    {{.RefusesRestored}}
    {{.Durable}}
    {{.IdleBound "interval '1 second'"}}
    SELECT s.successor INTO own.successor FROM {{.Named "state"}} AS s;
    IF own.successor IS NULL THEN
        hindrance := {{.Named "move_hindrance"}}(); -- before anybody has to wait
        IF own.hindrance IS NULL THEN
            {{.LocksProducers}}
            SELECT s.successor INTO own.successor FROM {{.Named "state"}} AS s FOR UPDATE;
        END IF;
    END IF;
    IF own.successor <> $1 THEN
        hindrance := format('the rows have moved to subscription %s already', own.successor);
    ELSIF own.successor IS NULL AND own.hindrance IS NULL THEN
        hindrance := {{.Named "move_hindrance"}}();
    END IF;
    IF own.hindrance IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('{{.RowsName}} cannot move to the log {{.Name}}: %s', own.hindrance);
    END IF;
    IF own.successor IS NULL THEN
        INSERT INTO {{.Named "subscription"}} (name, lanes, paused) VALUES ($1, $2, true) ON CONFLICT DO NOTHING;
        {{.RefusesTaken}}
        INSERT INTO {{.Named "position"}} (subscription, lane, seen)
        SELECT $1, l, ROW(0, 0, 0, '{}'::bigint[], 0)::{{.Named "seen"}} FROM generate_series(0, $2 - 1) AS l;
        UPDATE {{.Named "state"}} AS s SET successor = $1, moving = true, switched_at = clock_timestamp();
    END IF;
    IF own.successor IS NULL OR to_regclass('{{.Rows}}') IS NOT NULL AND (SELECT count(*) FROM pg_trigger AS t
        WHERE t.tgname = '{{.Table}}_moved'
          AND t.tgrelid IN (to_regclass('{{.Rows}}'), to_regclass('{{.RowsNamed "topic"}}'),
            '{{.Named "dedup"}}'::regclass)) < 3 THEN
        {{.Switches "log"}}
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "take_over"}}(text, integer) FROM PUBLIC;

-- Parks rows that have not ended for the successor, about so many, or those of one key if that has more: with their
-- ids, attempts, times and dedup keys, and in the order of their keys. When none is left, it ends the move, and the
-- pause of the successor. Says how many rows it has moved, and whether the move has ended. A row that is redriven
-- afterwards is moved by another call.
--
-- All of a key moves at once, unless a row of it is in progress: then it stays until that is settled. Whoever claims or
-- changes a row meanwhile keeps its key from moving: all are locked, and looked up again in a later statement. It gives
-- way to producers: a lock that it does not get for 0.2 s, such as that of a dedup key, ends it (55P03). Call
-- {{.RowsName}}_fold and {{.RowsName}}_reap_expired before, so that each key has a row that is released.
CREATE FUNCTION {{.Named "move_rows"}}(
    name text, most integer DEFAULT 500, OUT moved integer, OUT ended boolean
)
LANGUAGE plpgsql
{{.Settings}}
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
    {{.RefusesMost "$2"}}
    {{.SeesAll}}
    {{.SeesLater}}
    IF to_regclass('{{.Rows}}') IS NULL THEN
        {{.RefusesNoRows}}
    END IF;
    {{.SeesRows}}
    {{.RefusesSession "a move to the log"}}
    {{.RefusesRestored}}
    {{.Durable}}
    {{.IdleBound "interval '1 second'"}}
    PERFORM FROM {{.Named "position"}} AS p WHERE p.subscription = $1 ORDER BY p.lane FOR UPDATE; -- nobody parks
    IF NOT FOUND OR NOT EXISTS (SELECT FROM {{.Named "state"}} AS s WHERE s.successor = $1) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('the rows of {{.RowsName}} do not move to subscription %s',
                coalesce(quote_literal($1), 'NULL')),
            HINT = 'Call {{.Name}}_take_over first, with the name of the subscription. Make a successor that was '
                'removed again.';
    END IF;
    picked := ARRAY(
        SELECT r.id FROM {{.Rows}} AS r
        WHERE r.completed_at IS NULL AND NOT r.waiting AND r.status = 0 AND r.concurrency_key IS NULL
        ORDER BY r.due_at, r.id LIMIT $2 FOR UPDATE SKIP LOCKED)
      || ARRAY(
        SELECT r.id FROM {{.Rows}} AS r
        WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND r.concurrency_key IS NULL
        ORDER BY left(r.topic, {{.TopicBytes}}), r.due_at, r.id LIMIT $2 FOR UPDATE SKIP LOCKED);

    keys := ARRAY(
        SELECT DISTINCT k.key
        FROM (
            (SELECT r.concurrency_key FROM {{.Rows}} AS r
            WHERE r.completed_at IS NULL AND NOT r.waiting AND r.status = 0 AND r.concurrency_key IS NOT NULL
            ORDER BY r.due_at, r.id LIMIT least($2, {{.MovedKeys}}))
            UNION ALL
            (SELECT r.concurrency_key FROM {{.Rows}} AS r
            WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND r.concurrency_key IS NOT NULL
            ORDER BY left(r.topic, {{.TopicBytes}}), r.due_at, r.id LIMIT least($2, {{.MovedKeys}}))
            UNION ALL
            (SELECT r.concurrency_key FROM {{.Rows}} AS r
            WHERE {{.Blocking "r"}}
            ORDER BY r.concurrency_key, r.key_seq LIMIT least($2, {{.MovedKeys}}))) AS k (key)
        ORDER BY 1 LIMIT least($2, {{.MovedKeys}}));
    FOREACH key IN ARRAY own.keys LOOP
        room := own.room - (SELECT count(*) FROM (
            {{.UnfinishedOf "ARRAY[own.key]"}} LIMIT $2) AS u);
        EXIT WHEN own.room < 0 AND own.chosen <> '{}';
        chosen := own.chosen || own.key;
    END LOOP;
    locked := ARRAY(
        SELECT r.id
        FROM {{.Rows}} AS r
        JOIN (
            {{.UnfinishedOf "own.chosen"}}) AS u ON u.id = r.id
        ORDER BY r.id FOR UPDATE OF r SKIP LOCKED);
    picked := own.picked || ARRAY(
        SELECT unnest(a.ids)
        FROM (
            SELECT array_agg(u.id) AS ids
            FROM (
            {{.UnfinishedOf "own.chosen"}}) AS u
            LEFT JOIN unnest(own.locked) AS l (id) ON l.id = u.id
            GROUP BY u.concurrency_key
            HAVING bool_and(l.id IS NOT NULL AND NOT u.runs)) AS a);

    WITH gone AS (
        DELETE FROM {{.Rows}} AS r USING unnest(own.picked) AS p (id) WHERE r.id = p.id
        RETURNING r.*
    ), kept AS (
        INSERT INTO {{.Named "dedup"}} (topic, dedup_key, id)
        SELECT g.topic, g.dedup_key, g.id FROM gone AS g WHERE g.dedup_key IS NOT NULL ORDER BY g.topic, g.dedup_key
        ON CONFLICT DO NOTHING
    ), parked AS (
        INSERT INTO {{.Parked}} (id, due_at, created_at, max_attempts, attempts, last_error, headers, retry,
            subscription, message_id, seq, appended_at, topic, key, payload, concurrency_key, key_limit, key_policy)
        SELECT g.id, CASE WHEN g.failed_at IS NULL THEN g.due_at ELSE clock_timestamp() END, g.created_at,
            g.max_attempts, least(g.attempts, g.max_attempts - 1), g.last_error,
            CASE WHEN g.failed_at IS NOT NULL THEN
                    coalesce(CASE WHEN jsonb_typeof(g.headers) = 'object' THEN g.headers END, '{}')
                    || jsonb_build_object('{{.Permanent}}', coalesce(g.last_error, ''))
                WHEN jsonb_typeof(g.headers) = 'object' THEN g.headers - '{{.Permanent}}'
                ELSE g.headers END,
            g.retry, $1, g.id, 0, g.created_at, g.topic, g.key, g.payload, {{.ParkedKey "g.concurrency_key"}},
            g.key_limit, g.key_policy
        FROM (SELECT * FROM gone AS g ORDER BY g.key_seq, g.due_at, g.id) AS g
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM parked) INTO moved, own.parked;
    IF moved <> own.parked THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{.Name}} took rows that move and parked fewer: '
                'does a trigger, a rule or a policy suppress them?';
    END IF;

    IF moved = 0 AND NOT (
        EXISTS (SELECT FROM {{.Rows}} AS r WHERE r.completed_at IS NULL AND NOT r.waiting)
        OR EXISTS (SELECT FROM {{.Rows}} AS r WHERE r.completed_at IS NULL AND r.waiting)
        OR EXISTS (SELECT FROM {{.Rows}} AS r WHERE {{.Blocking "r"}})) THEN
        UPDATE {{.Named "state"}} AS s SET moving = false WHERE s.moving;
        IF FOUND THEN
            UPDATE {{.Named "subscription"}} AS s SET paused = false WHERE s.name = $1;
        END IF;
    END IF;
    SELECT NOT s.moving INTO ended FROM {{.Named "state"}} AS s;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "move_rows"}}(text, integer) FROM PUBLIC;
