-- Locks up to want free permits of a queue with a limit of running jobs, and returns them. NULL is one that was free,
-- and has been taken before it was locked. If the queue has no such limit, the result is NULL.
--
-- The permits are the numbers from 1 to the limit. A running job has one, by its slot. Until the slot of a job that is
-- being claimed is visible, an advisory lock on its number stands for it, so claims never wait for each other, and a
-- claim whose transaction stays open holds back only what it has taken. The slots are looked at once more after the
-- numbers are locked, by a separate statement, so its snapshot (READ COMMITTED) includes those of all claims that had
-- them before. A settle deletes its slot without a lock: until it commits, the slot still counts.
--
-- Jobs that ran before there was a limit have a slot without a number, and others a number beyond a limit that was
-- lowered. As many of the highest numbers stay unused: only those up to edge are given out, where edge and the slots
-- beyond it are no more than the limit. Claims have different edges if slots are given back meanwhile, and the limit
-- still holds: no claim adds a slot beyond the greatest edge, and up to it each number has one.
CREATE FUNCTION {{.Function "permit"}}(queue text, want integer) RETURNS integer[]
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    most integer;
    edge integer;
    beyond integer;
    taken integer[];
    numbers integer[];
BEGIN
    {{.SeesRules}}
    SELECT q.max_running INTO most FROM {{.Queue}} AS q WHERE q.name = $1;
    IF most IS NULL THEN
        RETURN NULL;
    END IF;
    taken := ARRAY(SELECT s.permit FROM {{.Slot}} AS s WHERE s.queue = $1);
    edge := most;
    LOOP
        beyond := (SELECT count(*) FROM unnest(taken) AS u (number) WHERE (u.number <= edge) IS NOT TRUE);
        EXIT WHEN edge <= most - beyond;
        edge := most - beyond;
    END LOOP;
    numbers := ARRAY(
        SELECT f.number
        FROM (
            SELECT g.number
            FROM (SELECT generate_series(1, edge) AS number) AS g -- not in FROM, where all would be computed
            WHERE g.number NOT IN (SELECT u.number FROM unnest(taken) AS u (number) WHERE u.number IS NOT NULL)
            OFFSET 0) AS f
        WHERE pg_try_advisory_xact_lock(hashtextextended('{{.Name}} queue ' || $1, f.number))
        LIMIT $2);
    RETURN ARRAY(
        SELECT CASE WHEN NOT EXISTS (SELECT FROM {{.Slot}} AS s WHERE s.queue = $1 AND s.permit = u.number)
            THEN u.number END
        FROM unnest(numbers) AS u (number));
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "permit"}}(text, integer) FROM PUBLIC;
