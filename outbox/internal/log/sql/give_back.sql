-- The way back: an outbox that has moved to the log moves to rows again, in one transaction, as far as it is not
-- delivered. Rows have one destination, so one subscription must be left. From the commit on the log takes no messages.

-- Refuses messages of the log once the outbox has moved back. A transaction whose snapshot is from before that succeeds
-- when it is repeated.
CREATE FUNCTION {{.Named "moved_back"}}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    {{.RefusesBeforeWayBack}}
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = '{{.Name}} has moved back to {{.RowsName}} and takes no messages',
        HINT = 'Open the outbox with Storage MoveToLog or Rows; in SQL, call {{.RowsName}}_enqueue where '
            '{{.Name}}_storage() is rows.';
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "moved_back"}}() FROM PUBLIC;

-- A dedup key that a message of the log had is taken among the rows, too: when somebody wants it, its holder becomes a
-- row that has ended, with which the INSERT conflicts.
CREATE FUNCTION {{.Named "dedup_back"}}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $txwork$
DECLARE
    holder uuid;
BEGIN
    {{.RefusesBeforeWayBack}}
    {{.SeesLater}}
    SELECT d.id INTO holder FROM {{.Named "dedup"}} AS d WHERE d.topic = NEW.topic AND d.dedup_key = NEW.dedup_key;
    IF FOUND THEN
        INSERT INTO {{.Rows}} (id, topic, payload, dedup_key, status, completed_at)
        VALUES (CASE WHEN EXISTS (SELECT FROM {{.Rows}} AS r WHERE r.id = holder) THEN {{.NewID}} ELSE holder END,
            NEW.topic, '', NEW.dedup_key, 2, clock_timestamp())
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NEW;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "dedup_back"}}() FROM PUBLIC;

-- Why the outbox cannot move back to rows with at most so many messages; NULL: it can.
CREATE FUNCTION {{.Named "back_hindrance"}}(most integer DEFAULT {{.MaxBack}}) RETURNS text
LANGUAGE plpgsql STABLE
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s {{.Named "subscription"}};
    p {{.Named "position"}};
    b {{.Named "seen"}} := {{.SeesEverything}};
    late bigint[];
    names text;
    kept bigint := 0;
    parked bigint;
    scheduled bigint;
BEGIN
    {{.RefusesMost "$1"}}
    IF to_regclass('{{.Rows}}') IS NULL THEN
        RETURN 'the schema has no outbox of rows: run txwork migrate up --domain outbox';
    END IF;
    {{.SeesAll}}
    {{.SeesLater}}
    {{.SeesRows}}
    IF (SELECT s.successor IS NULL FROM {{.Named "state"}} AS s) THEN
        RETURN 'it has not moved to the log';
    ELSIF (SELECT s.moving FROM {{.Named "state"}} AS s) THEN
        RETURN 'it still moves to the log: let txwork outbox move log end';
    END IF;
    SELECT string_agg(s.name, ', ' ORDER BY s.name) INTO names FROM {{.Named "subscription"}} AS s;
    IF (SELECT count(*) FROM {{.Named "subscription"}}) <> 1 THEN
        RETURN format('rows have one destination, and the log has the subscriptions %s: remove all but one',
            coalesce(names, '(none)'));
    END IF;
    SELECT s.* INTO own.s FROM {{.Named "subscription"}} AS s;
    IF own.s.topics IS NOT NULL OR own.s.headers IS NOT NULL THEN
        RETURN format('rows are all delivered, and subscription %s has topics or headers: change it', names);
    END IF;
    FOR own.p IN SELECT p.* FROM {{.Named "position"}} AS p ORDER BY p.lane LOOP
        late := {{template "late" .}};
        kept := own.kept + (SELECT count(*) FROM (
{{template "batch" .}}
              AND {{template "unsettled"}}
            LIMIT $1 + 1) AS m);
    END LOOP;
    SELECT count(*) INTO parked FROM (SELECT FROM {{.Parked}} AS k WHERE {{.GoesBack "k"}} LIMIT $1 + 1) AS k;
    SELECT count(*) INTO scheduled FROM (SELECT FROM {{.Named "later"}} LIMIT $1 + 1) AS l;
    IF own.kept + own.parked + own.scheduled > $1 THEN
        RETURN format('%s messages are not delivered, %s are parked and %s scheduled, more than %s together: let '
            'relays of subscription %s deliver them, and redrive, discard or cancel others', own.kept, own.parked,
            own.scheduled, $1, names);
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "back_hindrance"}}(integer) FROM PUBLIC;

-- Moves the outbox back to rows, and says how many messages became rows. It waits for all transactions that have
-- written messages, as long as the lock_timeout of the session says, and new ones wait behind it. While a consumer has
-- a page or a parked message in hand it fails (55P03): pause the subscription before, and call it again.
--
-- Under its locks all messages are committed. Rows are inserted in the order of their keys: what is parked, the log
-- behind what is settled, and what is scheduled. They draw their places here, since nobody else writes one, and so need
-- no lock for each key. Dead letters stay dead letters. The subscription is removed, and what remains of the log is
-- trimmed as it ages.
CREATE FUNCTION {{.Named "give_back"}}(most integer DEFAULT {{.MaxBack}}) RETURNS bigint
LANGUAGE plpgsql
{{.Settings}}
SET plan_cache_mode = force_custom_plan
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s {{.Named "subscription"}};
    p {{.Named "position"}};
    b {{.Named "seen"}} := {{.SeesEverything}};
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
    {{.RefusesMost "$1"}}
    {{.SeesAll}}
    {{.SeesLater}}
    {{.RefusesSession "a move to rows"}}
    {{.RefusesRestored}}
    {{.Durable}}
    {{.IdleBound "interval '1 second'"}}
    hindrance := {{.Named "back_hindrance"}}($1); -- before anybody has to wait
    IF own.hindrance IS NULL THEN
        -- No index has the ids of dedup keys, and of a parked message no more is known.
        known := ARRAY(SELECT k.message_id FROM {{.Parked}} AS k WHERE {{.GoesBack "k"}});
        SELECT array_agg(d.topic), array_agg(d.dedup_key) INTO own.topics, own.dedup_keys
        FROM {{.Named "dedup"}} AS d WHERE cardinality(own.known) > 0 AND d.id = ANY (own.known);
        {{.LocksProducers .Parked}}
        PERFORM FROM {{.Named "state"}} AS s FOR UPDATE;
        IF (SELECT s.successor IS NULL FROM {{.Named "state"}} AS s) THEN
            RETURN 0; -- somebody else has moved it meanwhile
        END IF;
        PERFORM FROM {{.Named "subscription"}} AS s FOR UPDATE;
        PERFORM FROM {{.Named "position"}} AS p ORDER BY p.lane FOR UPDATE;
        hindrance := {{.Named "back_hindrance"}}($1);
    END IF;
    IF own.hindrance IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('the log {{.Name}} cannot move back to {{.RowsName}}: %s', own.hindrance);
    END IF;
    SELECT s.* INTO own.s FROM {{.Named "subscription"}} AS s;
    SELECT string_agg(what, ' and ') INTO busy
    FROM (
        SELECT 'a page of lane ' || p.lane FROM {{.Named "position"}} AS p
        WHERE p.page IS NOT NULL AND p.locked_until >= clock_timestamp()
        UNION ALL
        SELECT 'the parked message ' || k.id FROM {{.Parked}} AS k
        WHERE k.status = 1 AND k.subscription = own.s.name) AS h (what);
    IF own.busy IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'lock_not_available',
            MESSAGE = format('consumers of subscription %s have in hand: %s', own.s.name, left(own.busy, 200)),
            HINT = 'Pause the subscription, and call it again.';
    END IF;

    FOR own.p IN SELECT p.* FROM {{.Named "position"}} AS p ORDER BY p.lane LOOP
        late := {{template "late" .}};
        SELECT own.xids || coalesce(array_agg(m.xid), '{}'), own.seqs || coalesce(array_agg(m.seq), '{}')
        INTO own.xids, own.seqs
        FROM (
{{template "batch" .}}
              AND {{template "unsettled"}}) AS m;
    END LOOP;
    parked := ARRAY(SELECT k.id FROM {{.Parked}} AS k WHERE k.subscription = own.s.name AND {{.GoesBack "k"}});
    SELECT coalesce(array_agg(m.id), '{}'), array_agg(m.topic) INTO own.ids, own.id_topics
    FROM (
        SELECT m.id, m.topic
        FROM unnest(own.xids, own.seqs) AS u (xid, seq)
        JOIN {{.Log}} AS m ON m.xid = u.xid AND m.seq = u.seq
        UNION ALL SELECT k.message_id, k.topic FROM {{.Parked}} AS k WHERE k.id = ANY (own.parked)
        UNION ALL SELECT l.id, l.topic FROM {{.Named "later"}} AS l) AS m;
    -- A message of the log has the xid of its dedup key. Ids need not be unique: a topic frees as many keys of an id as
    -- it has messages of it.
    unknown := ARRAY(SELECT k.message_id FROM {{.Parked}} AS k
        WHERE k.id = ANY (own.parked) AND k.message_id <> ALL (own.known));
    SELECT array_agg(h.at), array_agg(h.topic), array_agg(h.dedup_key), array_agg(h.id), array_agg(h.nth)
    INTO own.freed, own.topics, own.dedup_keys, own.holders, own.nths
    FROM (
        SELECT d.ctid AS at, d.*,
            row_number() OVER (PARTITION BY d.id, d.topic ORDER BY d.xid DESC, d.dedup_key) AS nth
        FROM {{.Named "dedup"}} AS d
        WHERE d.ctid = ANY (
            ARRAY(SELECT d.ctid FROM {{.Named "dedup"}} AS d WHERE d.xid = ANY (own.xids))
            || ARRAY(SELECT d.ctid FROM unnest(own.topics, own.dedup_keys) AS k (topic, dedup_key)
                JOIN {{.Named "dedup"}} AS d ON d.topic = k.topic AND d.dedup_key = k.dedup_key)
            || ARRAY(SELECT d.ctid FROM {{.Named "later"}} AS l
                JOIN {{.Named "dedup"}} AS d ON d.topic = l.topic AND d.dedup_key = l.dedup_key)
            || ARRAY(SELECT d.ctid FROM {{.Named "dedup"}} AS d
                WHERE cardinality(own.unknown) > 0 AND d.id = ANY (own.unknown)))) AS h
    JOIN (
        SELECT u.id, u.topic, count(*) AS n FROM unnest(own.ids, own.id_topics) AS u (id, topic)
        GROUP BY u.id, u.topic) AS w ON w.id = h.id AND w.topic = h.topic AND h.nth <= w.n;
    DELETE FROM {{.Named "dedup"}} AS d WHERE d.ctid = ANY (own.freed);

    UPDATE {{.Named "state"}} AS s SET successor = NULL, switched_at = NULL;
    {{.Switches "rows"}}

    INSERT INTO {{.Rows}} (id, due_at, created_at, max_attempts, attempts, status, completed_at, failed_at, last_error,
        headers, retry, topic, key, payload, dedup_key, concurrency_key, key_limit, key_policy, key_seq)
    SELECT r.id, r.due_at, r.created_at, r.max_attempts, r.attempts, r.status, r.ended_at, r.ended_at, r.last_error,
        r.headers, r.retry, r.topic, r.key, r.payload, r.dedup_key, r.concurrency_key, r.key_limit, r.key_policy,
        CASE WHEN r.key_limit = 0 THEN {{.RowsNamed "key_place"}}(r.concurrency_key) END
    FROM (
        SELECT CASE WHEN l.nth = 1 AND NOT EXISTS (SELECT FROM {{.Rows}} AS r WHERE r.id = l.id) THEN l.id
                ELSE {{.NewID}} END AS id,
            coalesce(l.due_at, c.created_at) AS due_at, c.created_at, l.max_attempts, l.attempts,
            CASE WHEN l.is_dead THEN 3 ELSE 0 END AS status,
            CASE WHEN l.is_dead THEN coalesce(l.failed_at, clock_timestamp()) END AS ended_at,
            CASE WHEN l.failed_at IS NULL AND l.is_dead THEN l.headers ->> '{{.Permanent}}' ELSE l.last_error END
                AS last_error,
            CASE WHEN jsonb_typeof(l.headers) = 'object' THEN l.headers - '{{.Permanent}}' ELSE l.headers END
                AS headers,
            l.retry, l.topic, l.key, l.payload,
            CASE WHEN NOT EXISTS (
                SELECT FROM {{.Rows}} AS r WHERE r.topic = l.topic AND r.dedup_key = d.dedup_key) THEN d.dedup_key END
                AS dedup_key,
            l.concurrency_key, l.key_limit, l.key_policy
        FROM (
            SELECT l.*, row_number() OVER (PARTITION BY l.id ORDER BY l.source, l.ord) AS nth,
                row_number() OVER (PARTITION BY l.id, l.topic ORDER BY l.source, l.ord) AS nth_of_topic
            FROM (
                SELECT 1 AS source, k.key_seq AS ord, k.message_id AS id, k.due_at, k.appended_at AS created_at,
                    k.max_attempts, k.attempts, k.last_error, k.failed_at,
                    k.failed_at IS NOT NULL OR coalesce(k.headers ? '{{.Permanent}}', false) AS is_dead, k.headers,
                    k.retry, k.topic, k.key, k.payload,
                    CASE WHEN k.concurrency_key IS NOT NULL THEN
                        coalesce(nullif(k.key, ''), substr(k.concurrency_key, length(own.s.name) + 2)) END
                        AS concurrency_key,
                    k.key_limit, k.key_policy
                FROM {{.Parked}} AS k WHERE k.id = ANY (own.parked)
                UNION ALL
                SELECT 2, m.seq, m.id, NULL, m.created_at, {{.MaxAttempts}}, 0, NULL, NULL, false, m.headers,
                    NULL, m.topic, m.key, m.payload, nullif(m.key, ''), CASE WHEN m.key <> '' THEN 0 END,
                    CASE WHEN m.key <> '' THEN 1 END
                FROM unnest(own.xids, own.seqs) AS u (xid, seq)
                JOIN {{.Log}} AS m ON m.xid = u.xid AND m.seq = u.seq
                UNION ALL
                SELECT 3, row_number() OVER (ORDER BY l.due_at, l.ord), l.id, l.scheduled_at, l.created_at,
                    {{.MaxAttempts}}, 0, NULL, NULL, false, l.headers, NULL, l.topic, l.key, l.payload,
                    nullif(l.key, ''), CASE WHEN l.key <> '' THEN 0 END, CASE WHEN l.key <> '' THEN 1 END
                FROM {{.Named "later"}} AS l) AS l) AS l
        CROSS JOIN LATERAL ( -- the clock of the server may have been put back, and plain SQL may write any time
            SELECT least(nullif(l.created_at, '-infinity'), clock_timestamp()) AS created_at) AS c
        LEFT JOIN unnest(own.holders, own.topics, own.dedup_keys, own.nths) AS d (id, topic, dedup_key, nth)
            ON d.id = l.id AND d.topic = l.topic AND d.nth = l.nth_of_topic
        ORDER BY l.source, l.ord) AS r;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF own.moved <> cardinality(own.ids) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{.RowsName}} took messages that move back and stored another number of them: '
                'does a trigger, a rule or a policy suppress them?';
    END IF;
    DELETE FROM {{.Parked}} AS k WHERE k.id = ANY (own.parked);
    DELETE FROM {{.Named "later"}};
    DELETE FROM {{.Named "subscription"}};
    RETURN own.moved;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "give_back"}}(integer) FROM PUBLIC;
