-- Takes slots and tokens for the jobs that this transaction has claimed after calling admit and permit. The jobs' rows
-- are locked already, and so is the bucket's row if the queue has a rate. A job that still has a slot keeps it. If the
-- queue has got a limit since permit was called, the slots have no number, as those of jobs that ran before.
CREATE FUNCTION {{.Function "take"}}(queue text, ids uuid[], permits integer[]) RETURNS void
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    rule {{.Queue}}%ROWTYPE;
BEGIN
    {{.SeesRules}}
    SELECT q.* INTO rule FROM {{.Queue}} AS q WHERE q.name = $1;
    IF rule.max_running IS NOT NULL THEN
        INSERT INTO {{.Slot}} (job_id, queue, permit)
        SELECT u.id, $1, u.permit FROM unnest($2, array_remove($3, NULL)) AS u (id, permit) WHERE u.id IS NOT NULL
        ON CONFLICT (job_id) DO NOTHING;
        UPDATE {{.Table}} AS t SET slot = true WHERE t.id = ANY ($2) AND t.slot IS NOT TRUE;
    END IF;
    IF rule.rate IS NOT NULL THEN
        WITH given AS (
            DELETE FROM {{.Given}} AS d
            WHERE d.ctid = ANY (ARRAY(SELECT g.ctid FROM {{.Given}} AS g WHERE g.queue = $1
                FOR UPDATE SKIP LOCKED))
            RETURNING d.starts
        )
        UPDATE {{.Bucket}} AS b
        SET tokens = least(rule.burst, coalesce(b.tokens, rule.burst)
                + rule.rate * greatest(extract(epoch FROM clock_timestamp() - b.refilled_at)::double precision, 0)
                + (SELECT coalesce(sum(given.starts), 0) FROM given))
                - cardinality($2),
            refilled_at = clock_timestamp()
        WHERE b.queue = $1;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "take"}}(text, uuid[], integer[]) FROM PUBLIC;
