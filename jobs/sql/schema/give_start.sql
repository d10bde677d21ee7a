-- Gives starts of a queue back: its jobs were claimed, and put back before they started. The settle that puts them
-- back calls it, and it writes nothing if the queue has no rate. It appends a row, which waits for nobody: the
-- bucket's row is the claims'. A role that does not see the queue's rule gives nothing back: the settle must not
-- fail. The next claim of the queue adds the starts to its tokens. Workers that wait for a token are notified.
CREATE FUNCTION {{.Function "give_start"}}(queue text, n integer) RETURNS void
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
BEGIN
    INSERT INTO {{.Given}} (queue, starts)
    SELECT q.name, $2 FROM {{.Queue}} AS q WHERE q.name = $1 AND q.rate IS NOT NULL;
    IF FOUND THEN
        PERFORM {{.Announce}};
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "give_start"}}(text, integer) FROM PUBLIC;
