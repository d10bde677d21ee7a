-- Appends messages that are due to the log, in the order of their times, and says how many. One caller at a time does:
-- a row is removed in the statement that appends it, so none is appended twice, and none is lost if that does not
-- commit. Rows that somebody cancels at the moment are passed over, with all of their keys. A dedup key is kept from
-- then on as long as that of any message.
--
-- It runs with its owner's rights: consumers tick, and have no right to remove what is scheduled.
CREATE FUNCTION {{.Named "append_due"}}(most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    removed integer;
    stored integer;
BEGIN
    {{.RefusesMost "$1"}}
    IF NOT EXISTS (SELECT FROM {{.Named "later"}} AS l WHERE l.due_at <= now())
        OR NOT pg_try_advisory_xact_lock({{.DueLock}}) THEN
        RETURN 0;
    END IF;
    {{.SeesLater}}
    {{.RefusesSession "an append of what is due"}}
    {{.IdleBound "interval '1 second'"}}
    WITH due AS MATERIALIZED (
        SELECT l.id, l.ordered, l.key, l.due_at, l.ord FROM {{.Named "later"}} AS l
        WHERE l.due_at <= now()
        ORDER BY l.due_at, l.ord LIMIT $1 FOR UPDATE SKIP LOCKED
    ), skipped AS MATERIALIZED (
        SELECT l.key FROM {{.Named "later"}} AS l
        WHERE l.ordered AND l.due_at <= (SELECT max(d.due_at) FROM due AS d) -- by the index
          AND (l.due_at, l.ord) <= (SELECT d.due_at, d.ord FROM due AS d ORDER BY 1 DESC, 2 DESC LIMIT 1)
          AND NOT EXISTS (SELECT FROM due AS d WHERE d.id = l.id)
    ), gone AS (
        DELETE FROM {{.Named "later"}} AS l USING due AS d
        WHERE l.id = d.id AND NOT EXISTS (SELECT FROM skipped AS s WHERE d.ordered AND s.key = d.key)
        RETURNING l.*
    ), kept AS (
        UPDATE {{.Named "dedup"}} AS k SET xid = DEFAULT FROM gone AS g
        WHERE k.topic = g.topic AND k.dedup_key = g.dedup_key AND k.id = g.id
    ), appended AS (
        INSERT INTO {{.Log}} (id, topic, key, headers, payload)
        SELECT g.id, g.topic, g.key, g.headers, g.payload FROM gone AS g ORDER BY g.due_at, g.ord
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM appended) INTO own.removed, own.stored;
    IF own.removed <> own.stored THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{.Name}} took messages that are due and stored fewer: '
                'does a trigger, a rule or a policy suppress them?';
    END IF;
    RETURN own.stored;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "append_due"}}(integer) FROM PUBLIC;

-- Removes messages that are scheduled and not yet in the log, and returns their ids. Those behind them in their keys
-- are due as if they had never been written. It takes the locks of the keys' writers, in one order. Dedup keys stay
-- taken.
CREATE FUNCTION {{.Named "cancel"}}(ids uuid[]) RETURNS SETOF uuid
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    gone uuid[];
    keys text[];
BEGIN
    {{.RefusesIDs "$1"}}
    {{.SeesLater}}
    {{.RefusesSession "a cancel"}}
    {{.IdleBound "interval '1 minute'"}}
    PERFORM pg_advisory_xact_lock(k.lock)
    FROM (
        SELECT DISTINCT {{.WriterLock "l.key"}} AS lock FROM {{.Named "later"}} AS l
        WHERE l.id = ANY ($1) AND l.ordered ORDER BY 1) AS k;
    WITH gone AS (
        DELETE FROM {{.Named "later"}} AS l WHERE l.id = ANY ($1) RETURNING l.id, l.ordered, l.key
    )
    SELECT array_agg(g.id), array_agg(g.key) FILTER (WHERE g.ordered) INTO own.gone, own.keys FROM gone AS g;
    UPDATE {{.Named "later"}} AS l SET due_at = w.due_at
    FROM (
        SELECT k.id, max(k.scheduled_at) OVER (PARTITION BY k.key ORDER BY k.ord) AS due_at
        FROM {{.Named "later"}} AS k WHERE k.ordered AND k.key = ANY (own.keys)) AS w
    WHERE l.id = w.id AND l.due_at <> w.due_at;
    RETURN QUERY SELECT unnest(own.gone);
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "cancel"}}(uuid[]) FROM PUBLIC;
