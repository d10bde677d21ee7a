-- Keyed rows of {{.Table}}: rows with a concurrency_key wait outside the claim index until their key lets them through.
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
-- key_limit = n > 0, a limited key: at most n released rows, by {{.By}}. A row that goes back
-- for a retry gives up its place. A rate counts releases, which are starts unless the row is put back before it has
-- started. If it stays where it is, it stays released. If it is left to other workers until later, its place and its
-- start are the next row's.
CREATE SEQUENCE {{.Named "key_seq"}};

-- Folds compute with rates, and one that cannot be computed would stop all keys of the table.
CREATE DOMAIN {{.Named "key_rate"}} AS double precision CONSTRAINT {{.Constraint "key_check"}} CHECK (
    VALUE BETWEEN {{.MinRate}}::double precision AND {{.MaxRate}}::double precision
);

ALTER TABLE {{.Table}} ALTER COLUMN key_rate TYPE {{.Named "key_rate"}};

-- at is when a fold should look at the key: the start of the transaction that wrote the note, or a later time. ended is
-- how many released rows of the key have ended or gone back. place and due are the key_seq and the due time of a row
-- that has begun to wait. unused is how many microseconds of the key's rate were taken by releases and not used. A note
-- whose ended is NULL asks the fold to count the key anew. The ordered rows of a key and
-- its limited rows are independent of each other. If SQL has taken the key or the limit from a row that has a place,
-- the row's note names no key, and folds drop it: the settle must not fail. The table has no CHECK: the server parses a
-- CHECK anew for every statement that writes, and every settle of a keyed row writes here.
CREATE TABLE {{.Named "key_note"}} (
    at {{.Named "time"}} NOT NULL,
    concurrency_key text,
    limited boolean,
    ended integer,
    place bigint,
    due timestamptz,
    unused double precision
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Without a replica identity, PostgreSQL refuses to delete notes as soon as a publication contains the table, even if
-- that is an unrelated one FOR ALL TABLES.
ALTER TABLE {{.Named "key_note"}} REPLICA IDENTITY FULL;

CREATE INDEX {{.Constraint "key_note_idx"}} ON {{.Named "key_note"}} (at);

-- Notes that a later fold will subtract from the number of released rows in key_state. A fold that counts a key anew
-- sees that these rows have ended already, so it adds the pending notes to its count.
CREATE INDEX {{.Constraint "key_ended_idx"}} ON {{.Named "key_note"}} (concurrency_key) WHERE ended > 0 AND limited;

-- What folds know about keys with many rows. To count the released rows of a key, or to find its first waiting row, an
-- index scan passes all rows of the key that have ended since vacuum last cleaned up; while a transaction stays open,
-- there are more and more of them. Folds carry the result on from note to note instead. This table is only an
-- optimisation: a key without a row here is counted.
--
-- For an ordered key: no row before place waits or is released, unless a note says so; and no open transaction holds
-- the lock of the key's writers with an earlier place. place may lag behind, so it is written for one row in
-- {{.KnownEvery}} only, the rows of marked places.
--
-- For a limited key, after each fold: taken is the number of released rows, or NULL if no fold has counted them; due
-- has an element for each priority, and no row of it waits whose due time is earlier; next_at is when the next row may
-- start if the burst of a rate is used up (the theoretical arrival time of the generic cell rate algorithm). Such a row
-- is updated a bounded number of times.
--
-- After that many updates, and for each new place, a row with a larger n replaces it: a scan for the largest n finds
-- the valid row before all dead versions.
CREATE TABLE {{.Named "key_state"}} (
    concurrency_key text NOT NULL,
    limited boolean NOT NULL,
    n bigint NOT NULL,
    place bigint,
    taken integer,
    due timestamptz[] NOT NULL DEFAULT '{}',
    next_at {{.Named "time"}},
    updates integer NOT NULL DEFAULT 0,
    at {{.Named "time"}} NOT NULL,
    PRIMARY KEY (concurrency_key, limited, n)
) WITH (fillfactor = 50);

-- Where the next sweep continues.
CREATE TABLE {{.Named "key_cursor"}} (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    ordered_key text NOT NULL DEFAULT '',
    limited_key text NOT NULL DEFAULT '',
    swept_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 10);

INSERT INTO {{.Named "key_cursor"}} DEFAULT VALUES;

-- Waiting rows by key: rows of ordered keys by key_seq, rows of limited keys by {{.By}}.
CREATE INDEX {{.Constraint "key_wait_idx"}} ON {{.Table}} (concurrency_key, key_seq)
    WHERE {{.OrderedWaits ""}};
CREATE INDEX {{.Constraint "key_queue_idx"}} ON {{.Table}} (concurrency_key, {{.ByLevel ""}}due_at, key_seq)
    WHERE {{.LimitedWaits ""}};

-- Released rows. The index is not unique, although an ordered key has only one released row: a unique index would
-- compare each row that is released with all rows that have ended since vacuum last cleaned up.
CREATE INDEX {{.Constraint "key_live_idx"}} ON {{.Table}} (concurrency_key, key_seq)
    WHERE {{.Live ""}};

-- Dead letters that block the rows behind them.
CREATE INDEX {{.Constraint "key_fail_idx"}} ON {{.Table}} (concurrency_key, key_seq)
    WHERE {{.Obstacle ""}};

-- Draws a place behind all other rows of the key. It also reads the table because the sequence may lag behind it, for
-- instance after logical replication, which does not copy sequences. It reads only places at or after the sequence's,
-- since a key may have had any number of rows.
--
-- It runs with its owner's rights: a writer from whom row-level security hides rows of its key would otherwise draw a
-- place before them. It returns nothing but a place. Under FORCE ROW LEVEL SECURITY the owner may not see all rows
-- either, and then the row is refused.
CREATE FUNCTION {{.Named "key_place"}}(k text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
{{.Settings}}
AS $txwork$
DECLARE
    next constant bigint := nextval('{{.Named "key_seq"}}');
BEGIN
    {{.SeesKeys}}
    RETURN greatest(
        next,
        1 + (SELECT t.key_seq FROM {{.Table}} AS t
            WHERE t.concurrency_key = k AND {{.OrderedWaits "t"}} AND t.key_seq >= next
            ORDER BY t.concurrency_key DESC, t.key_seq DESC LIMIT 1),
        1 + (SELECT t.key_seq FROM {{.Table}} AS t
            WHERE t.concurrency_key = k AND {{.Live "t"}} AND t.key_seq >= next
            ORDER BY t.concurrency_key DESC, t.key_seq DESC LIMIT 1),
        1 + (SELECT t.key_seq FROM {{.Table}} AS t
            WHERE t.concurrency_key = k AND {{.Obstacle "t"}} AND t.key_seq >= next
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
CREATE FUNCTION {{.Named "key_enter"}}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    restored constant boolean := NEW.key_seq IS NOT NULL; -- the row may have been released before
BEGIN
    IF ({{template "valid" .}}) IS NOT TRUE THEN
        {{- template "refuse" .}}
    END IF;
    IF restored AND NEW.key_seq > {{.MaxPlace}} THEN -- behind the last bigint no later row of the key has a place
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'key_seq',
            MESSAGE = 'key_seq must be at most {{.MaxPlace}}',
            HINT = 'Restore the rows of a key with lower places, in the same order.';
    END IF;
    IF NEW.completed_at IS NOT NULL OR NEW.waiting AND NEW.key_seq IS NULL THEN
        RETURN NEW; -- the row has ended, or waits for something else first, such as a join
    END IF;
    IF NEW.key_seq IS NULL AND NEW.key_limit = 0 THEN
        PERFORM pg_advisory_xact_lock({{.WriterLock "NEW.concurrency_key"}});
        NEW.key_seq := {{.Named "key_place"}}(NEW.concurrency_key);
        IF NEW.key_seq % 512 = 0 THEN -- a separate IF: an IF with a query is slow to evaluate for each row
            IF (SELECT count(*) FROM pg_locks AS l WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory')
                > {{.MaxTurns}} THEN
                RAISE EXCEPTION USING ERRCODE = 'program_limit_exceeded',
                    MESSAGE = format('this transaction has written more than %s ordered keys: '
                        'each holds one of the locks that the whole server shares', {{.MaxTurns}}),
                    HINT = 'write fewer keys in one transaction, or raise max_locks_per_transaction';
            END IF;
        END IF;
    ELSIF NEW.key_seq IS NULL THEN
        NEW.key_seq := nextval('{{.Named "key_seq"}}');
    END IF;
    IF NEW.status = 0 THEN
        NEW.waiting := true;
        INSERT INTO {{.Named "key_note"}} (at, concurrency_key, limited, ended, place, due)
        VALUES (CASE WHEN NEW.key_limit > 0 THEN greatest(NEW.due_at, now()) ELSE now() END,
            NEW.concurrency_key, NEW.key_limit > 0, CASE WHEN NOT restored THEN 0 END, NEW.key_seq, NEW.due_at);
        IF {{.Announce.MustNote}} THEN
            PERFORM {{.Announce.Note}};
        END IF;
    ELSE -- a restored row in progress is released already
        INSERT INTO {{.Named "key_note"}} (at, concurrency_key, limited)
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
CREATE FUNCTION {{.Named "key_come"}}() RETURNS trigger
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
DECLARE
    place bigint := {{.Named "key_place"}}(NEW.concurrency_key);
BEGIN
    WHILE {{.Marked "place"}} LOOP
        place := place + 1;
    END LOOP;
    UPDATE {{.Table}} AS t SET waiting = true, key_seq = place
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
CREATE FUNCTION {{.Named "key_back"}}() RETURNS trigger
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
BEGIN
    UPDATE {{.Table}} AS t SET waiting = true WHERE t.id = NEW.id AND t.status = 0;
    RETURN NULL;
END
$txwork$;

-- Notes that a Ready row has begun to wait: it came to its key, or went back to it, as the rows of a run do. Or a row
-- of a key with a rate was left to others before it had started: its start is the next row's. Of rows with a rate, only
-- the statements that leave them assign waiting as they make a row in progress Ready, and that which sets it aside,
-- where it keeps its start. Like key_note, the function tests what the update was.
CREATE FUNCTION {{.Named "key_wait"}}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF OLD.status = 1 AND NEW.status IN (0, 3) AND NEW.key_rate IS NOT NULL{{.NotAside}} THEN
        INSERT INTO {{.Named "key_note"}} (at, concurrency_key, limited, ended, unused)
        VALUES (now(), NEW.concurrency_key, true, 0, {{.Gap "NEW.key_rate"}});
        RETURN NULL;
    ELSIF NEW.status <> 0 OR NOT ({{.WaitsForKey "NEW"}})
        OR OLD.status <> 0 AND NOT (OLD.status = 1 AND NEW.key_limit = 0) THEN
        RETURN NULL;
    ELSIF OLD.key_seq IS NULL THEN
        INSERT INTO {{.Named "key_note"}} (at, concurrency_key, limited, ended, place, due)
        VALUES (CASE WHEN NEW.key_limit > 0 THEN greatest(NEW.due_at, now()) ELSE now() END,
            NEW.concurrency_key, NEW.key_limit > 0, 0, NEW.key_seq, NEW.due_at);
    ELSIF NEW.key_limit > 0 AND NOT OLD.waiting THEN
        INSERT INTO {{.Named "key_note"}} (at, concurrency_key, limited, ended, due)
        VALUES (now(), NEW.concurrency_key, true, 1, NEW.due_at);
        IF NEW.due_at > now() THEN
            INSERT INTO {{.Named "key_note"}} (at, concurrency_key, limited, ended, due)
            VALUES (NEW.due_at, NEW.concurrency_key, true, 0, NEW.due_at);
        END IF;
    ELSIF NEW.key_limit = 0 AND NOT OLD.waiting THEN
        INSERT INTO {{.Named "key_note"}} (at, concurrency_key, limited, ended, place)
        VALUES (now(), NEW.concurrency_key, false, 0, NEW.key_seq);
    ELSE
        RETURN NULL;
    END IF;
    IF {{.Announce.MustNote}} THEN
        PERFORM {{.Announce.Note}};
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
CREATE FUNCTION {{.Named "key_note"}}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
AS $txwork$
BEGIN
    IF TG_OP OPERATOR(pg_catalog.=) 'DELETE' OR NEW.completed_at IS NOT NULL AND (
        OLD.completed_at IS NULL AND ({{.Released "OLD"}} OR NEW.cancelled_at IS NOT NULL)
        OR OLD.key_policy OPERATOR(pg_catalog.>) 0 AND NEW.key_policy OPERATOR(pg_catalog.=) 0) THEN
        INSERT INTO {{.Named "key_note"}} (at, concurrency_key, limited, ended, unused)
        VALUES (pg_catalog.now(), OLD.concurrency_key, OLD.key_limit OPERATOR(pg_catalog.>) 0,
            CASE WHEN OLD.completed_at IS NOT NULL THEN 0 WHEN {{.WaitsForKey "OLD"}} THEN 0 ELSE 1 END,
            {{.NeverStarts}});
    ELSIF NEW.completed_at IS NULL AND (OLD.completed_at IS NOT NULL
        OR {{.WaitsForKey "NEW"}} AND NEW.key_limit OPERATOR(pg_catalog.>) 0
            AND ({{if .ByLevel ""}}NEW.{{.Priority}} OPERATOR(pg_catalog.<>) OLD.{{.Priority}} OR {{end -}}
            NEW.due_at OPERATOR(pg_catalog.<) OLD.due_at)) THEN
        INSERT INTO {{.Named "key_note"}} (at, concurrency_key, limited, ended, place, due)
        VALUES (pg_catalog.now(), NEW.concurrency_key, NEW.key_limit OPERATOR(pg_catalog.>) 0,
            CASE WHEN OLD.completed_at IS NULL THEN 0 END, NEW.key_seq, NEW.due_at);
        IF NEW.key_limit OPERATOR(pg_catalog.>) 0 AND NEW.due_at OPERATOR(pg_catalog.>) pg_catalog.now() THEN
            INSERT INTO {{.Named "key_note"}} (at, concurrency_key, limited, ended, due)
            VALUES (NEW.due_at, NEW.concurrency_key, true, 0, NEW.due_at);
        END IF;
    ELSE
        RETURN NULL;
    END IF;
    IF {{.Announce.MustNote}} THEN
        PERFORM {{.Announce.Note}};
    END IF;
    RETURN NULL;
END
$txwork$;

-- A Ready row has changed its key, or whether the key is ordered, by a Replace or by SQL: it is gone from the old key,
-- whose next row gets its start. It enters the new key at its end, or goes on without a key, as if a join released it:
-- the second UPDATE fires key_come. A Replace has locked the writers of the new key before. It runs with its owner's
-- rights, because who may replace a row may not release it, and touches no other row.
CREATE FUNCTION {{.Named "key_move"}}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
{{.Settings}}
AS $txwork$
BEGIN
    IF NEW.concurrency_key IS NOT NULL
        AND ({{template "valid" .}}) IS NOT TRUE THEN
        {{- template "refuse" .}}
    END IF;
    IF OLD.key_seq IS NOT NULL THEN
        INSERT INTO {{.Named "key_note"}} (at, concurrency_key, limited, ended, unused)
        VALUES (now(), OLD.concurrency_key, OLD.key_limit > 0, CASE WHEN {{.WaitsForKey "OLD"}} THEN 0 ELSE 1 END,
            {{.NeverStarts}});
        IF {{.Announce.MustNote}} THEN
            PERFORM {{.Announce.Note}};
        END IF;
    END IF;
    UPDATE {{.Table}} AS t SET waiting = true, key_seq = NULL WHERE t.id = NEW.id;
    UPDATE {{.Table}} AS t SET waiting = false WHERE t.id = NEW.id;
    RETURN NULL;
END
$txwork$;

-- The rows or the notes were truncated, as tests do. Everything in key_state is then unknown, except how far the rates
-- are used up.
CREATE FUNCTION {{.Named "key_forget"}}() RETURNS trigger
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
BEGIN
    {{.SeesAll}}
    DELETE FROM {{.Named "key_state"}} WHERE next_at IS NULL;
    UPDATE {{.Named "key_state"}} SET taken = NULL, due = '{}';
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
CREATE FUNCTION {{.Named "key_fold"}}(
    max_notes integer, since timestamptz DEFAULT '-infinity', fronts jsonb DEFAULT '{}'
) RETURNS TABLE (folded integer, released integer, again double precision, upto timestamptz)
LANGUAGE plpgsql
{{.FoldSettings}}
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
    {{.SeesAll}}
    {{.Bounded "max_notes" "max_notes"}}
    IF current_setting('transaction_isolation') <> 'read committed' OR NOT pg_try_advisory_xact_lock({{.FoldLock}}) THEN
        RETURN NEXT; -- all NULL: another session folds, or this transaction could not see what others committed
        RETURN;
    END IF;

    folded := 0;
    LOOP
        WITH taken AS (
            DELETE FROM {{.Named "key_note"}} AS d
            WHERE d.ctid = ANY (ARRAY(
                SELECT r.ctid FROM {{.Named "key_note"}} AS r
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
        released := {{.Named "key_next"}}(note_keys, note_limited, note_ended, note_place, fronts);
    END IF;
    IF limited THEN
        released := released
            + {{.Named "key_fill"}}(note_keys, note_limited, note_ended, note_due, note_unused, started, fronts);
    END IF;
    IF released > 0 THEN
        IF fronts <> '{}' THEN
            PERFORM {{.Announce.Fronts}};
        END IF;
        PERFORM {{.Announce.Folded}};
    END IF;
    again := CASE WHEN n = max_notes THEN 0 ELSE (
        SELECT extract(epoch FROM n.at - clock_timestamp())
        FROM {{.Named "key_note"}} AS n
        WHERE n.at > started
        ORDER BY n.at
        LIMIT 1) END;
    RETURN NEXT;
END
$txwork$;

-- Releases the first row of each ordered key, unless the key has a released row already or a dead letter blocks it.
-- Only key_fold calls it.
CREATE FUNCTION {{.Named "key_next"}}(
    note_keys text[], note_limited boolean[], note_ended integer[], note_place bigint[], fronts jsonb
) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
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
    {{.SeesAll}}
    WITH k AS MATERIALIZED (
        SELECT m.concurrency_key AS key, s.ctid AS known, s.n, s.place AS bound,
            m.ended IS NULL AND s.place IS NOT NULL AS anew,
            CASE WHEN m.ended IS NOT NULL AND s.place IS NOT NULL THEN least(s.place, m.place) ELSE 0 END AS place
        FROM unnest(note_keys, note_limited, note_ended, note_place) AS m (concurrency_key, limited, ended, place)
        LEFT JOIN LATERAL (
            SELECT g.ctid, g.n, g.place FROM {{.Named "key_state"}} AS g
            WHERE g.concurrency_key = m.concurrency_key AND NOT g.limited
            ORDER BY g.concurrency_key DESC, g.limited DESC, g.n DESC
            LIMIT 1) AS s ON true
        WHERE NOT m.limited
    ), head AS MATERIALIZED (
        SELECT k.*, live.is AS live, h.ctid, h.key_seq, o.id AS behind, o.key_policy
        FROM k
        LEFT JOIN LATERAL ( -- no NOT EXISTS: an anti-join may read all live rows of the table
            SELECT true AS is FROM {{.Table}} AS l
            WHERE l.concurrency_key = k.key AND {{.Live "l"}} AND l.key_limit = 0 AND l.key_seq >= k.place
            LIMIT 1) AS live ON true
        LEFT JOIN LATERAL (
            SELECT r.ctid, r.key_seq FROM {{.Table}} AS r
            WHERE live.is IS NULL AND r.concurrency_key = k.key AND {{.OrderedWaits "r"}} AND r.key_seq >= k.place
            ORDER BY r.concurrency_key, r.key_seq
            LIMIT 1) AS h ON true
        LEFT JOIN LATERAL (
            SELECT f.id, f.key_policy FROM {{.Table}} AS f
            WHERE f.concurrency_key = k.key AND {{.Obstacle "f"}} AND f.key_seq < h.key_seq
            ORDER BY f.concurrency_key, f.key_seq
            LIMIT 1) AS o ON true
    ), through AS MATERIALIZED (
        UPDATE {{.Table}} AS t SET waiting = false, due_at = greatest(t.due_at, {{.Announce.Front "t"}})
        WHERE t.ctid = ANY (ARRAY(
            SELECT r.ctid FROM head AS h
            CROSS JOIN LATERAL (
                SELECT w.ctid FROM {{.Table}} AS w
                WHERE w.ctid = h.ctid AND w.key_seq = h.key_seq -- unless it has just changed its key
                  AND CASE WHEN w.completed_at IS NULL THEN {{.WaitsForKey "w"}} END -- it implies no index's condition
                FOR NO KEY UPDATE SKIP LOCKED) AS r
            WHERE h.behind IS NULL))
        RETURNING t.concurrency_key
    ), seen AS MATERIALIZED (
        SELECT s.*, CASE
            WHEN s.through AND {{.Marked "s.key_seq"}} THEN s.key_seq
            WHEN s.anew AND s.live THEN 0
            WHEN s.anew THEN least(s.key_seq, s.bound)
            WHEN s.place < s.bound THEN s.place END AS known_from
        FROM (SELECT h.*, h.key IN (SELECT t.concurrency_key FROM through AS t) AS through
            FROM head AS h
            OFFSET 0) AS s -- without OFFSET, the hashed subplan of IN would be built once for each use of s.through
    ), later AS (
        INSERT INTO {{.Named "key_note"}} (at, concurrency_key, limited, ended)
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
        DELETE FROM {{.Named "key_state"}} AS g
        WHERE g.ctid = ANY (ARRAY(
            SELECT b.ctid FROM {{.Named "key_state"}} AS b WHERE b.ctid = ANY (before) FOR UPDATE SKIP LOCKED));
        INSERT INTO {{.Named "key_state"}} (concurrency_key, limited, n, place, at)
        SELECT u.key, false,
            greatest(CASE WHEN u.n < {{.MaxPlace}} THEN u.n + 1 END, nextval('{{.Named "key_seq"}}')), u.place, now()
        FROM unnest(keys, places, numbers) AS u (key, place, n);
    END IF;
    FOR i IN 1..coalesce(cardinality(parked), 0) LOOP
        PERFORM {{.Named "key_park"}}(parked[i], obstacles[i]);
    END LOOP;
    RETURN n;
END
$txwork$;

-- Fills the free places of limited keys, by {{.By}}. A row of a key with a rate is released with the due time at which
-- the rate allows it, by the generic cell rate algorithm. The rows of the next {{.Ahead}} are released in advance, so
-- that the rate is met between two folds. As many rows as have left their start unused start at once, and the rate does
-- not count them. What no row takes up moves the key's next time back. Only key_fold calls it.
CREATE FUNCTION {{.Named "key_fill"}}(
    note_keys text[], note_limited boolean[], note_ended integer[], note_due timestamptz[],
    note_unused double precision[], started timestamptz, fronts jsonb
) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_variable
DECLARE
    n integer;
BEGIN
    {{.SeesAll}}
    WITH k AS MATERIALIZED (
        SELECT m.concurrency_key AS key, s.ctid AS known, s.n, s.updates, s.next_at,
            CASE WHEN m.ended IS NOT NULL THEN s.due END AS due, m.due AS noted, coalesce(m.unused, 0) AS unused,
            CASE WHEN s.taken + m.ended::bigint IS NOT NULL THEN greatest(s.taken::bigint - m.ended, 0) END AS taken
        FROM unnest(note_keys, note_limited, note_ended, note_due, note_unused)
            AS m (concurrency_key, limited, ended, due, unused)
        LEFT JOIN LATERAL (
            SELECT g.ctid, g.n, g.taken, g.due, g.next_at, g.updates FROM {{.Named "key_state"}} AS g
            WHERE g.concurrency_key = m.concurrency_key AND g.limited
            ORDER BY g.concurrency_key DESC, g.limited DESC, g.n DESC
            LIMIT 1) AS s ON true
        WHERE m.limited
    ), head AS MATERIALIZED (
        SELECT h.*, greatest(h.next_at, started) AS first,
            {{.Gap "h.key_rate"}} AS gap, floor(h.unused / {{.Gap "h.key_rate"}} + 0.001) AS extra,
            CASE WHEN h.known_taken IS NULL AND h.key_limit <> {{.Unlimited}} THEN (
                SELECT count(*) FROM {{.Table}} AS l
                WHERE l.concurrency_key = h.key AND {{.Live "l"}} AND l.key_limit > 0) + (
                SELECT coalesce(sum(p.ended), 0) FROM {{.Named "key_note"}} AS p
                WHERE p.concurrency_key = h.key AND p.limited AND p.ended > 0) ELSE h.known_taken END AS taken
        FROM (
            SELECT k.key, k.known, k.n, k.updates, k.next_at, k.unused, k.taken AS known_taken,
                coalesce({{range $i, $l := .Levels}}{{if $i}}, {{end}}h{{.N}}.key_limit{{end}}) IS NOT NULL AS waits,
                ARRAY[{{range $i, $l := .Levels}}{{if $i}}, {{end}}coalesce(h{{.N}}.due_at, started){{end}}] AS due,
                CASE{{range .Levels}} WHEN h{{.N}}.due_at IS NOT NULL THEN h{{.N}}.key_limit{{end}} END AS key_limit,
                CASE{{range .Levels}} WHEN h{{.N}}.due_at IS NOT NULL THEN h{{.N}}.key_rate{{end}} END AS key_rate,
                CASE{{range .Levels}} WHEN h{{.N}}.due_at IS NOT NULL THEN h{{.N}}.key_burst{{end}} END AS key_burst
            FROM k
            {{- range .Levels}}
            LEFT JOIN LATERAL (
                SELECT r.due_at, r.key_limit, r.key_rate, r.key_burst FROM {{$.Table}} AS r
                WHERE r.concurrency_key = k.key AND {{$.LimitedWaits "r"}}{{.At "r"}}
                  AND r.due_at >= {{.Since "k"}}
                  AND r.due_at <= started
                ORDER BY r.concurrency_key, {{$.ByLevel "r"}}r.due_at, r.key_seq
                LIMIT 1) AS h{{.N}} ON true
            {{- end}}
            OFFSET 0) AS h -- without OFFSET, its expressions would be computed once for each use
    ), room AS MATERIALIZED (
        SELECT p.*, {{.LevelOrder}} AS levels, least(p.places, floor(least(p.extra + greatest(
                extract(epoch FROM started + {{.AheadInterval}} - p.first)::float8 * p.key_rate + p.key_burst, 0),
                {{.MaxReleased}}))::integer) AS rows
        FROM (
            SELECT h.*, CASE
                WHEN h.key_limit = {{.Unlimited}} THEN {{.MaxReleased}}
                ELSE least(h.key_limit - h.taken, {{.MaxReleased}}) END AS places
            FROM head AS h) AS p
        WHERE p.waits
    ), free AS MATERIALIZED (
        SELECT f.ctid, room.key, {{.After "room.first"
            `(nullif(greatest(row_number() OVER (PARTITION BY room.key ORDER BY f.turn, f.due_at, f.key_seq)
                - room.extra, 0), 0) - room.key_burst) * room.gap`
            }} AS at
        FROM room
        CROSS JOIN LATERAL ( -- the levels in turn, until there is no more room: no row is locked in vain
            SELECT r.ctid, l.turn, r.due_at, r.key_seq
            FROM unnest(room.levels) WITH ORDINALITY AS l (level, turn)
            CROSS JOIN LATERAL (
                SELECT r.ctid, r.due_at, r.key_seq FROM {{.Table}} AS r
                WHERE r.concurrency_key = room.key AND {{.LimitedWaits "r"}}{{.AtLevel "r" "l.level"}}
                  AND r.due_at >= room.due[l.level] AND r.due_at <= started
                ORDER BY r.concurrency_key, {{.ByLevel "r"}}r.due_at, r.key_seq
                LIMIT greatest(room.rows, 0)
                FOR NO KEY UPDATE SKIP LOCKED) AS r
            LIMIT greatest(room.rows, 0)) AS f
    ), through AS MATERIALIZED (
        UPDATE {{.Table}} AS t
        SET waiting = false,
            due_at = greatest(t.due_at, {{.Announce.Front "t"}}, CASE WHEN f.at > started THEN f.at END)
        FROM free AS f
        WHERE t.ctid = f.ctid
        RETURNING t.concurrency_key, t.key_seq
    ), done AS MATERIALIZED (
        SELECT h.*, room.places, room.rows, coalesce(t.released, 0) AS released, coalesce(t.marked, false) AS marked,
            CASE WHEN h.taken IS NOT NULL THEN least(h.taken + coalesce(t.released, 0), 2147483647) END AS running
        FROM head AS h
        LEFT JOIN room ON room.key = h.key
        LEFT JOIN (SELECT r.concurrency_key, count(*) AS released, bool_or({{.Marked "r.key_seq"}}) AS marked
            FROM through AS r GROUP BY r.concurrency_key) AS t ON t.concurrency_key = h.key
    ), later AS (
        -- These keys need another fold: one whose rows another session holds locked, one that got as many rows as a
        -- fold may release, and one with a rate, when half of the time ahead is used up or the next row may start.
        INSERT INTO {{.Named "key_note"}} (at, concurrency_key, limited, ended)
        SELECT CASE
            WHEN d.rows > 0 AND d.released = 0 THEN clock_timestamp() + interval '500 milliseconds'
            WHEN d.key_rate IS NULL THEN clock_timestamp()
            ELSE greatest(
                {{.After "d.first" "(d.released - d.key_burst + 1) * d.gap - d.unused"}} - {{.AheadInterval}} / 2,
                started + interval '5 milliseconds') END,
            d.key, true, 0
        FROM done AS d
        WHERE d.rows > 0 AND d.released = 0
           OR d.rows >= {{.MaxReleased}} AND d.released > 0
           OR d.key_rate IS NOT NULL AND d.places > d.released AND d.rows <= d.released
    ), mine AS MATERIALIZED (
        SELECT g.n FROM {{.Named "key_state"}} AS g
        WHERE g.ctid = ANY (ARRAY(SELECT h.known FROM head AS h))
        FOR UPDATE SKIP LOCKED
    ), kept AS MATERIALIZED (
        UPDATE {{.Named "key_state"}} AS g
        SET taken = d.running, due = d.due, updates = g.updates + 1, at = now(),
            next_at = coalesce({{.NextAt "d"}}, g.next_at)
        FROM done AS d
        WHERE g.concurrency_key = d.key AND g.limited AND g.n = d.n AND d.updates < {{.MaxUpdates}}
          AND d.n IN (SELECT m.n FROM mine AS m)
        RETURNING g.concurrency_key
    ), fresh AS (
        INSERT INTO {{.Named "key_state"}} (concurrency_key, limited, n, taken, due, next_at, at)
        SELECT d.key, true, greatest(CASE WHEN d.n < {{.MaxPlace}} THEN d.n + 1 END, nextval('{{.Named "key_seq"}}')),
            d.running, d.due,
            coalesce({{.NextAt "d"}}, d.next_at), now()
        FROM done AS d
        WHERE d.key NOT IN (SELECT e.concurrency_key FROM kept AS e)
          AND (d.n IS NOT NULL OR d.marked OR d.key_rate IS NOT NULL AND d.released > 0)
    ), gone AS (
        DELETE FROM {{.Named "key_state"}} AS g
        WHERE g.ctid = ANY (ARRAY(
            SELECT h.known FROM head AS h
            WHERE h.updates >= {{.MaxUpdates}} AND h.n IN (SELECT m.n FROM mine AS m)))
    )
    SELECT count(*) INTO n FROM through;
    RETURN n;
END
$txwork$;

-- Ready -> Failed for rows that wait behind a dead letter whose policy is Park. A fold parks a bounded number of rows.
CREATE FUNCTION {{.Named "key_park"}}(k text, behind uuid) RETURNS void
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_variable
DECLARE
    n integer;
BEGIN
    {{.SeesAll}}
    UPDATE {{.Table}} AS t
    SET status = 3,
        completed_at = clock_timestamp(),
        failed_at = clock_timestamp(),
        last_error = 'parked behind ' || behind
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid FROM {{.Table}} AS r
        WHERE r.concurrency_key = k AND {{.OrderedWaits "r"}} AND r.key_seq > (
            SELECT f.key_seq FROM {{.Table}} AS f -- the dead letter may have been redriven since the fold read it
            WHERE f.id = behind AND f.failed_at IS NOT NULL AND f.cancelled_at IS NULL AND f.key_policy = 2)
        ORDER BY r.concurrency_key, r.key_seq
        LIMIT {{.MaxReleased}}
        FOR NO KEY UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    IF EXISTS (SELECT FROM {{.Table}} AS t
        WHERE t.concurrency_key = k AND {{.OrderedWaits "t"}}) THEN
        INSERT INTO {{.Named "key_note"}} (at, concurrency_key, limited, ended)
        VALUES (
            clock_timestamp() + CASE WHEN n = {{.MaxReleased}} THEN interval '0' ELSE interval '500 milliseconds' END,
            k, false, 0);
    END IF;
END
$txwork$;

-- Repairs the effects of changes that bypassed the triggers: writes a note for every key that has waiting rows, for at
-- most {{.SweepKeys}} ordered and {{.SweepKeys}} limited keys. It begins where the last sweep ended, at most every five
-- seconds. It also deletes the rows of key_state whose keys are not in use, and returns how many it deleted.
CREATE FUNCTION {{.Named "key_sweep"}}(max_rows integer) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_variable
DECLARE
    place record;
    n integer;
BEGIN
    {{.SeesAll}}
    {{.Bounded "max_rows" "max_rows"}}
    SELECT c.ordered_key, c.limited_key, c.swept_at INTO place FROM {{.Named "key_cursor"}} AS c FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        IF NOT EXISTS (SELECT FROM {{.Named "key_cursor"}}) THEN -- the table was truncated
            INSERT INTO {{.Named "key_cursor"}} DEFAULT VALUES ON CONFLICT DO NOTHING;
        END IF;
        RETURN 0; -- another session sweeps
    ELSIF place.swept_at BETWEEN clock_timestamp() - interval '5 seconds' AND clock_timestamp() THEN
        RETURN 0;
    END IF;
    place.ordered_key := {{.Named "key_look"}}(true, place.ordered_key, least(max_rows, {{.SweepKeys}}));
    place.limited_key := {{.Named "key_look"}}(false, place.limited_key, least(max_rows, {{.SweepKeys}}));
    UPDATE {{.Named "key_cursor"}} AS c
    SET ordered_key = place.ordered_key, limited_key = place.limited_key, swept_at = clock_timestamp();

    DELETE FROM {{.Named "key_state"}} AS b
    WHERE b.ctid = ANY (ARRAY(
        SELECT r.ctid FROM {{.Named "key_state"}} AS r
        WHERE r.at < now() - interval '1 minute' AND (r.next_at < now() - interval '1 minute') IS NOT FALSE
          AND NOT EXISTS (SELECT FROM {{.Named "key_state"}} AS o -- an older row would otherwise become the last one
            WHERE o.concurrency_key = r.concurrency_key AND o.limited = r.limited AND o.n < r.n)
        LIMIT 10 * max_rows
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$txwork$;

-- Writes notes for up to most keys after the given one that have waiting rows; ordered keys with a live row need none.
-- Returns the key after which the next call continues.
CREATE FUNCTION {{.Named "key_look"}}(ordered boolean, behind text, most integer) RETURNS text
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_variable
DECLARE
    last text := behind;
BEGIN
    {{.SeesAll}}
    {{.Bounded "most" "most"}}
    FOR i IN 1..most LOOP
        IF ordered THEN
            SELECT t.concurrency_key INTO last FROM {{.Table}} AS t
            WHERE {{.OrderedWaits "t"}} AND t.concurrency_key > last
            ORDER BY t.concurrency_key, t.key_seq LIMIT 1;
        ELSE
            SELECT t.concurrency_key INTO last FROM {{.Table}} AS t
            WHERE {{.LimitedWaits "t"}} AND t.concurrency_key > last
            ORDER BY t.concurrency_key, {{.ByLevel "t"}}t.due_at, t.key_seq LIMIT 1;
        END IF;
        IF last IS NULL THEN
            RETURN ''; -- the next call starts over
        END IF;
        INSERT INTO {{.Named "key_note"}} (at, concurrency_key, limited)
        SELECT now(), last, NOT ordered
        WHERE NOT EXISTS (SELECT FROM {{.Table}} AS t
            WHERE ordered AND t.concurrency_key = last AND {{.Live "t"}} AND t.key_limit = 0);
    END LOOP;
    RETURN last;
END
$txwork$;

-- Hides notes and the state of keys from everybody who does not see all rows, if the table has row-level security, and
-- shows them if it has none. Only folds and sweeps need them. For the owner of the tables, who calls it after each
-- change of that.
CREATE FUNCTION {{.Named "key_policies"}}() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF (SELECT c.relrowsecurity FROM pg_class AS c WHERE c.oid = '{{.Table}}'::regclass) THEN
        ALTER TABLE {{.Named "key_note"}} ENABLE ROW LEVEL SECURITY;
        ALTER TABLE {{.Named "key_state"}} ENABLE ROW LEVEL SECURITY;
        ALTER TABLE {{.Named "key_cursor"}} ENABLE ROW LEVEL SECURITY;
    ELSE
        ALTER TABLE {{.Named "key_note"}} DISABLE ROW LEVEL SECURITY;
        ALTER TABLE {{.Named "key_state"}} DISABLE ROW LEVEL SECURITY;
        ALTER TABLE {{.Named "key_cursor"}} DISABLE ROW LEVEL SECURITY;
    END IF;
END
$txwork$;

CREATE TRIGGER {{.Constraint "key_enter"}} BEFORE INSERT ON {{.Table}}
FOR EACH ROW WHEN (NEW.concurrency_key IS NOT NULL OR NEW.key_limit IS NOT NULL)
EXECUTE FUNCTION {{.Named "key_enter"}}();

CREATE TRIGGER {{.Constraint "key_come"}} AFTER UPDATE OF waiting ON {{.Table}}
FOR EACH ROW WHEN (NEW.concurrency_key IS NOT NULL AND NEW.key_seq IS NULL AND NEW.status = 0
    AND (OLD.waiting AND NOT NEW.waiting OR OLD.status = 3))
EXECUTE FUNCTION {{.Named "key_come"}}();

CREATE TRIGGER {{.Constraint "key_back"}} AFTER UPDATE OF due_at ON {{.Table}}
FOR EACH ROW WHEN (NEW.key_seq IS NOT NULL AND (NEW.key_limit > 0 OR NEW.owner_token IS NULL) AND OLD.status = 1
    AND NEW.status = 0)
EXECUTE FUNCTION {{.Named "key_back"}}();

CREATE TRIGGER {{.Constraint "key_wait"}} AFTER UPDATE OF waiting ON {{.Table}}
FOR EACH ROW WHEN (NEW.key_seq IS NOT NULL AND (NEW.waiting OR OLD.status = 1))
EXECUTE FUNCTION {{.Named "key_wait"}}();

CREATE TRIGGER {{.Constraint "key_move"}} AFTER UPDATE OF concurrency_key, key_limit ON {{.Table}}
FOR EACH ROW WHEN ((OLD.key_seq IS NOT NULL OR NOT OLD.waiting) AND {{.ChangesKey}})
EXECUTE FUNCTION {{.Named "key_move"}}();

CREATE TRIGGER {{.Constraint "key_note"}}
AFTER UPDATE OF completed_at, due_at, key_policy{{if .ByLevel ""}}, {{.Priority}}{{end}} ON {{.Table}}
FOR EACH ROW WHEN (NEW.key_seq IS NOT NULL
    AND (NEW.waiting OR NEW.completed_at IS NOT NULL OR OLD.completed_at IS NOT NULL))
EXECUTE FUNCTION {{.Named "key_note"}}();

CREATE TRIGGER {{.Constraint "key_gone_all"}} AFTER TRUNCATE ON {{.Table}}
FOR EACH STATEMENT EXECUTE FUNCTION {{.Named "key_forget"}}();

CREATE TRIGGER {{.Constraint "key_lost_all"}} AFTER TRUNCATE ON {{.Named "key_note"}}
FOR EACH STATEMENT EXECUTE FUNCTION {{.Named "key_forget"}}();

CREATE TRIGGER {{.Constraint "key_gone"}} AFTER DELETE ON {{.Table}}
FOR EACH ROW WHEN (OLD.key_seq IS NOT NULL AND (OLD.failed_at IS NOT NULL OR OLD.completed_at IS NULL))
EXECUTE FUNCTION {{.Named "key_note"}}();
{{range .Functions}}
REVOKE ALL ON FUNCTION {{$.Named .Name}}({{.Types}}) FROM PUBLIC;
{{- end}}
{{define "valid" -}}
octet_length(NEW.concurrency_key) BETWEEN 1 AND {{.MaxKey}} AND NEW.key_limit >= 0 AND NEW.key_policy BETWEEN 0 AND 2
        AND (NEW.key_rate IS NULL) = (NEW.key_burst IS NULL)
        AND (NEW.key_rate IS NULL OR NEW.key_limit > 0 AND NEW.key_rate BETWEEN {{.MinRate}} AND {{.MaxRate}}
            AND NEW.key_burst >= 1)
{{- end}}
{{define "refuse"}}
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_key_check',
            MESSAGE = format('the rule of key %s is not valid: it needs a key of 1 to {{.MaxKey}} bytes, '
                'a limit of at least 0, a policy of 0 to 2, and a rate of {{.MinRate}} to {{.MaxRate}} '
                'and a burst together, with a limit',
                left(NEW.concurrency_key, 40));
{{- end}}
