-- Writes a message. The writers of a key take turns, and each draws its number under their lock: so the messages of a
-- key are in the order of their commits, by number and by tick. Who writes by INSERT or COPY takes that lock in an
-- earlier statement; without it, messages of a key are delivered in any order.
CREATE FUNCTION {{.Named "append"}}(
    topic text, payload bytea, key text DEFAULT NULL, headers jsonb DEFAULT NULL, id uuid DEFAULT {{.NewID}}
) RETURNS uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    {{.RefusesMessage}}
    IF nullif($3, '') IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock({{.WriterLock "$3"}});
    END IF;
    INSERT INTO {{.Log}} (id, topic, key, headers, payload) VALUES ($5, $1, nullif($3, ''), $4, $2);
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{.Name}} took a message and stored none: does a trigger, a rule or a policy suppress it?';
    END IF;
    RETURN $5;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "append"}}(text, bytea, text, jsonb, uuid) FROM PUBLIC;
