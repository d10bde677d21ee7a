-- Gives starts of a queue back: jobs were claimed with an owner token, and put back before they started. The settle
-- that puts them back calls it. Starts of one claim are alike, so the newest of them are deleted, and jobs that had
-- these get the others: what is left is as if the claim had taken fewer. It waits for nobody. Only the newest starts of
-- the queue are looked at. A role that does not see the queue's rule gives nothing back: the settle must not fail.
-- Workers that wait for a start are notified.
CREATE FUNCTION {{.Function "give_start"}}(queue text, owner_token uuid, ids uuid[]) RETURNS void
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    rule {{.Queue}}%ROWTYPE;
    spans bigint[];
    jobs uuid[];
    started uuid[];
    n integer;
BEGIN
    SELECT q.* INTO rule FROM {{.Queue}} AS q WHERE q.name = $1 AND q.rate IS NOT NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT array_agg(c.at ORDER BY c.at DESC), array_agg(c.job_id ORDER BY c.at DESC) INTO spans, jobs
    FROM (
        SELECT s.at, s.job_id
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
        FOR UPDATE SKIP LOCKED) AS c;
    started := ARRAY(
        SELECT u.id FROM unnest(jobs) WITH ORDINALITY AS u (id, ord) WHERE u.id <> ALL ($3) ORDER BY u.ord);
    n := cardinality(jobs) - cardinality(started);
    IF n > 0 THEN
        DELETE FROM {{.Start}} AS d WHERE d.queue = $1 AND d.at = ANY (spans[:n]);
        UPDATE {{.Start}} AS s
        SET job_id = u.id
        FROM unnest(spans[n + 1:], started) AS u (at, id)
        WHERE s.queue = $1 AND s.at = u.at AND s.job_id <> u.id;
        PERFORM {{.Announce}};
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "give_start"}}(text, uuid, uuid[]) FROM PUBLIC;
