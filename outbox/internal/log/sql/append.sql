-- Writes a message. The writers of a key take turns, and each draws its number under their lock: so the messages of a
-- key are in the order of their commits, by number and by tick. Who writes by INSERT or COPY calls turn in an earlier
-- statement, and append for a key for which that returns a time; without it, messages of a key are delivered in any
-- order.
--
-- A message that is scheduled, or behind one of its key that is, waits in {{.Named "later"}}.
--
-- A dedup key that the topic has is waited for until its writer has ended. If that has committed, nothing is written,
-- and the id is that of its message. A key may be freed between its refusal and the look at it: then it is tried again.
CREATE FUNCTION {{.Named "append"}}(
    topic text, payload bytea, key text DEFAULT NULL, headers jsonb DEFAULT NULL,
    INOUT id uuid DEFAULT {{.NewID}}, dedup_key text DEFAULT NULL,
    scheduled_at timestamptz DEFAULT NULL, OUT duplicate boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
DECLARE
    own CONSTANT uuid := $5;
    due_at timestamptz;
BEGIN
    {{.RefusesMessage}}
    IF nullif($3, '') IS NOT NULL THEN
        SELECT {{.Named "turn"}}($3) INTO due_at;
    END IF;
    due_at := greatest(due_at, CASE WHEN $7 > clock_timestamp() THEN $7 END);
    duplicate := false;
    IF nullif($6, '') IS NOT NULL THEN
        duplicate := true;
        FOR attempt IN 1..{{.MaxVanished}} LOOP
            INSERT INTO {{.Named "dedup"}} (topic, dedup_key, id) VALUES ($1, $6, own) ON CONFLICT DO NOTHING;
            duplicate := NOT FOUND;
            EXIT WHEN NOT duplicate;
            SELECT d.id INTO id FROM {{.Named "dedup"}} AS d WHERE d.topic = $1 AND d.dedup_key = $6;
            IF FOUND THEN
                RETURN;
            END IF;
            id := own;
        END LOOP;
    END IF;
    IF NOT duplicate AND due_at IS NULL THEN
        INSERT INTO {{.Log}} (id, topic, key, headers, payload) VALUES (own, $1, nullif($3, ''), $4, $2);
    ELSIF NOT duplicate THEN
        INSERT INTO {{.Named "later"}} (id, due_at, scheduled_at, ordered, topic, key, headers, payload, dedup_key)
        VALUES (own, due_at, coalesce($7, now()), nullif($3, '') IS NOT NULL, $1, nullif($3, ''), $4, $2,
            nullif($6, ''));
    END IF;
    IF duplicate OR NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{.Name}} took a message and stored none: does a trigger, a rule or a policy suppress it?';
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "append"}}(text, bytea, text, jsonb, uuid, text, timestamptz) FROM PUBLIC;
