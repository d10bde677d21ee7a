-- Gives starts of a queue back: jobs were claimed with an owner token, and put back before they started. The settle
-- that puts them back calls it. Starts of one claim are alike, so as many of the newest of them are deleted: what is
-- left is as if the claim had taken fewer. It waits for nobody, and those that another settle is giving back are passed
-- over. Only the newest starts of the queue are looked at. A role that does not see the queue's rule gives nothing
-- back: the settle must not fail. Workers that wait for a start are notified.
CREATE FUNCTION {{.Function "give_start"}}(queue text, owner_token uuid, ids uuid[]) RETURNS void
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    rule {{.Queue}}%ROWTYPE;
BEGIN
    SELECT q.* INTO rule FROM {{.Queue}} AS q WHERE q.name = $1 AND q.rate IS NOT NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    DELETE FROM {{.Start}} AS d
    WHERE d.ctid = ANY (ARRAY(
        SELECT s.ctid
        FROM {{.Start}} AS s
        WHERE s.queue = $1
          AND s.at = ANY (ARRAY(
              SELECT m.at
              FROM (
                  SELECT r.at, r.owner_token
                  FROM {{.Start}} AS r
                  WHERE r.queue = $1 AND r.at >= {{.SpanOld "rule"}}
                  ORDER BY r.at DESC
                  LIMIT {{.MaxGiven}}) AS m
              WHERE m.owner_token = $2))
          AND s.owner_token = $2
        ORDER BY s.at DESC
        LIMIT cardinality($3)
        FOR UPDATE SKIP LOCKED));
    IF FOUND THEN
        PERFORM {{.Announce}};
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "give_start"}}(text, uuid, uuid[]) FROM PUBLIC;
