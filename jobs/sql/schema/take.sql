-- Takes slots and starts for the jobs that this transaction has claimed after calling admit, starts and permit. The
-- jobs' rows are locked already. A job that still has a slot keeps it. If the queue has got a limit since permit was
-- called, the slots have no number, as those of jobs that ran before.
--
-- Of the starts that have ceased to matter it deletes the newest ones, so that it reads few rows, even where a snapshot
-- that is held keeps all that were ever deleted. slot_sweep deletes the others.
CREATE FUNCTION {{.Function "take"}}(
    queue text, owner_token uuid, ids uuid[], permits integer[], starts bigint[]
) RETURNS void
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    rule {{.Queue}}%ROWTYPE;
    old bigint;
BEGIN
    {{.SeesRules}}
    SELECT q.* INTO rule FROM {{.Queue}} AS q WHERE q.name = $1;
    IF rule.max_running IS NOT NULL THEN
        INSERT INTO {{.Slot}} (job_id, queue, permit)
        SELECT u.id, $1, u.permit FROM unnest($3, array_remove($4, NULL)) AS u (id, permit) WHERE u.id IS NOT NULL
        ON CONFLICT (job_id) DO NOTHING;
        UPDATE {{.Table}} AS t SET slot = true WHERE t.id = ANY ($3) AND t.slot IS NOT TRUE;
    END IF;
    IF rule.rate IS NOT NULL THEN
        INSERT INTO {{.Start}} (queue, at, job_id, owner_token)
        SELECT $1, u.at, u.id, $2
        FROM unnest($3, array_remove($5, NULL)) AS u (id, at)
        WHERE u.id IS NOT NULL AND u.at IS NOT NULL;
        old := {{.SpanOld "rule"}};
        DELETE FROM {{.Start}} AS d
        WHERE d.ctid = ANY (ARRAY(
            SELECT s.ctid
            FROM {{.Start}} AS s
            WHERE s.queue = $1 AND s.at >= old - {{.MaxOld}} * {{.SpanLength "rule"}} AND s.at < old
            LIMIT {{.MaxOld}}
            FOR UPDATE SKIP LOCKED));
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "take"}}(text, uuid, uuid[], integer[], bigint[]) FROM PUBLIC;
