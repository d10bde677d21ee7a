-- Appends messages that are due to the log, in the order of their times, and says how many. One caller at a time does:
-- a row is removed in the statement that appends it, so none is appended twice, and none is lost if that does not
-- commit. Rows that somebody cancels at the moment are passed over, with all of their keys: if these were all there is
-- among so many, it looks behind them. A dedup key is kept from then on as long as that of any message.
--
-- A call moves not much more than {{.MaxDueBytes}} bytes and does not wait for long, so that it ends before its caller
-- gives up. If a batch fails, it goes on with one message at a time: one that is refused alone is passed over, with its
-- key, until it is tried again.
--
-- It runs with its owner's rights: consumers tick, and have no right to remove what is scheduled.
CREATE FUNCTION {{.Named "append_due"}}(most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
{{.Settings}}
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
    {{.RefusesMost "$1"}}
    IF NOT EXISTS (SELECT FROM {{.Named "later"}} AS l WHERE l.due_at <= now())
        OR NOT pg_try_advisory_xact_lock({{.DueLock}}) THEN
        RETURN 0;
    END IF;
    {{.SeesLater}}
    {{.RefusesSession "an append of what is due"}}
    {{.IdleBound "interval '1 second'"}}
    FOR look IN 1..50 LOOP
        picked := ARRAY(
            SELECT l.ord FROM {{.Named "later"}} AS l
            WHERE l.due_at <= now() AND coalesce(l.retry_at <= now(), true)
              AND (NOT l.ordered OR l.key <> ALL (own.held))
            ORDER BY l.due_at, l.ord LIMIT own.batch FOR UPDATE SKIP LOCKED);
        EXIT WHEN own.picked = '{}' OR clock_timestamp() > own.began + interval '1 second';
        BEGIN
            WITH due AS MATERIALIZED (
                SELECT l.ord, l.ordered, l.key, l.due_at,
                    sum(octet_length(l.payload)) OVER (ORDER BY l.due_at, l.ord) - octet_length(l.payload) AS before
                FROM {{.Named "later"}} AS l WHERE l.ord = ANY (own.picked)
            ), skipped AS MATERIALIZED (
                SELECT l.key FROM {{.Named "later"}} AS l
                WHERE l.ordered AND l.due_at <= (SELECT max(d.due_at) FROM due AS d) -- by the index
                  AND (l.due_at, l.ord) <= (SELECT d.due_at, d.ord FROM due AS d ORDER BY 1 DESC, 2 DESC LIMIT 1)
                  AND l.key <> ALL (own.held) AND NOT EXISTS (SELECT FROM due AS d WHERE d.ord = l.ord)
            ), gone AS (
                DELETE FROM {{.Named "later"}} AS l USING due AS d
                WHERE l.ord = d.ord AND d.before < {{.MaxDueBytes}}
                  AND NOT EXISTS (SELECT FROM skipped AS s WHERE d.ordered AND s.key = d.key)
                RETURNING l.*
            ), kept AS (
                UPDATE {{.Named "dedup"}} AS k SET xid = DEFAULT FROM gone AS g
                WHERE k.topic = g.topic AND k.dedup_key = g.dedup_key AND k.id = g.id
            ), appended AS (
                INSERT INTO {{.Log}} (id, topic, key, headers, payload)
                SELECT g.id, g.topic, g.key, g.headers, g.payload FROM gone AS g ORDER BY g.due_at, g.ord
                RETURNING 1
            )
            SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM appended),
                (SELECT array_agg(DISTINCT s.key) FROM skipped AS s)
            INTO own.removed, own.stored, own.passed;
            IF own.removed <> own.stored THEN
                RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
                    MESSAGE = '{{.Name}} took messages that are due and stored fewer: '
                        'does a trigger, a rule or a policy suppress them?';
            END IF;
        EXCEPTION WHEN OTHERS THEN
            IF cardinality(own.picked) = 1 THEN
                UPDATE {{.Named "later"}} AS l SET retry_at = clock_timestamp() + interval '10 seconds'
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

REVOKE ALL ON FUNCTION {{.Named "append_due"}}(integer) FROM PUBLIC;

-- Removes messages that are scheduled and not yet in the log, and returns their ids. Those behind them in their keys
-- are due as if they had never been written. It takes the locks of the keys' writers, in one order, and removes nothing
-- of other keys, which may have been written meanwhile. Dedup keys stay taken.
CREATE FUNCTION {{.Named "cancel"}}(ids uuid[]) RETURNS SETOF uuid
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    gone uuid[];
    keys text[];
    locks bigint[];
BEGIN
    {{.RefusesIDs "$1"}}
    {{.SeesLater}}
    {{.RefusesSession "a cancel"}}
    {{.IdleBound "interval '1 minute'"}}
    locks := ARRAY(
        SELECT DISTINCT {{.WriterLock "l.key"}} FROM {{.Named "later"}} AS l
        WHERE l.id = ANY ($1) AND l.ordered ORDER BY 1);
    IF cardinality(own.locks) > {{.MaxTurns}} THEN
        RAISE EXCEPTION USING ERRCODE = 'program_limit_exceeded',
            MESSAGE = format('messages of %s keys are to be cancelled, and each holds one of the locks that the whole '
                'server shares', cardinality(own.locks)),
            HINT = 'Cancel fewer in one transaction, or raise max_locks_per_transaction.';
    END IF;
    PERFORM pg_advisory_xact_lock(k.lock) FROM unnest(own.locks) AS k (lock);
    WITH gone AS (
        DELETE FROM {{.Named "later"}} AS l
        WHERE l.id = ANY ($1) AND (NOT l.ordered OR {{.WriterLock "l.key"}} = ANY (own.locks))
        RETURNING l.id, l.ordered, l.key
    )
    SELECT array_agg(g.id), array_agg(g.key) FILTER (WHERE g.ordered) INTO own.gone, own.keys FROM gone AS g;
    UPDATE {{.Named "later"}} AS l SET due_at = w.due_at
    FROM (
        SELECT k.ord, max(k.scheduled_at) OVER (PARTITION BY k.key ORDER BY k.ord) AS due_at
        FROM {{.Named "later"}} AS k WHERE k.ordered AND k.key = ANY (own.keys)) AS w
    WHERE l.ord = w.ord AND l.due_at <> w.due_at;
    RETURN QUERY SELECT unnest(own.gone);
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "cancel"}}(uuid[]) FROM PUBLIC;
