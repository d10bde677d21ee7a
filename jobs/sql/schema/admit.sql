-- Returns how many of want jobs of a queue may be claimed now; if they are fewer, in how many seconds to ask again,
-- where 0 leaves that to the caller; whether the queue has a rule at all; and which one keeps jobs back. See
-- Spec.Admission of package workqueue.
--
-- This counts only: the claim then gets permits and starts, which nobody else has. It admits no more than
-- {{.MaxPermits}} jobs, because each of these is an entry of the lock table, and half as many of a queue with both.
CREATE FUNCTION {{.Function "admit"}}(queue text, want integer)
RETURNS TABLE (admitted integer, again double precision, bounded boolean, held text)
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    rule {{.Queue}}%ROWTYPE;
    n bigint := $2;
    pause double precision := 0;
    allowed record;
    reason text;
BEGIN
    {{.SeesRules}}
    SELECT q.* INTO rule FROM {{.Queue}} AS q WHERE q.name = $1;
    IF rule.paused THEN
        RETURN QUERY SELECT 0, pause, true, 'paused';
        RETURN;
    END IF;
    IF rule.max_running IS NULL AND rule.rate IS NULL THEN
        RETURN QUERY SELECT $2, pause, false, NULL;
        RETURN;
    END IF;

    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'claims of queue % need READ COMMITTED, because it has a limit: the transaction is %',
            $1, current_setting('transaction_isolation') USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF rule.max_running IS NOT NULL THEN
        SELECT least(n, rule.max_running - count(*)) INTO n FROM {{.Slot}} AS s WHERE s.queue = $1;
        IF n < $2 THEN
            reason := 'limit';
        END IF;
    END IF;
    n := least(n, {{.MaxPermits}} / CASE WHEN rule.max_running IS NULL OR rule.rate IS NULL THEN 1 ELSE 2 END);
    IF rule.rate IS NOT NULL AND n > 0 THEN
        SELECT cardinality(f.starts) AS starts, f.again INTO allowed
        FROM {{.Function "spans"}}($1, n::integer, false) AS f;
        IF allowed.starts < n THEN
            n := allowed.starts;
            pause := allowed.again;
            reason := 'rate';
        END IF;
    END IF;
    RETURN QUERY SELECT greatest(n, 0)::integer, pause, true, reason;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "admit"}}(text, integer) FROM PUBLIC;
