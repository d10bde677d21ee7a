-- Returns how many of want jobs of a queue may be claimed now; if they are fewer, in how many seconds to ask again,
-- where 0 leaves that to the caller; whether the queue has a rule at all; which one keeps jobs back; and whether other
-- claims of the queue wait for this transaction. See Spec.Admission of package workqueue.
--
-- Of a limit of running jobs, this counts only: the claim then gets permits, which nobody else has. It admits no more
-- than {{.MaxPermits}} jobs, because each permit is an entry of the lock table.
--
-- Claims of a queue with a rate run one after another: each holds an advisory lock until its transaction ends. It is
-- no row lock, which other sessions could take by locking the row. A claim that does not get the lock within
-- lock_timeout takes nothing this time. A separate statement reads the bucket after the lock was granted, so its
-- snapshot (READ COMMITTED) includes what the previous claim took. The bucket's row is written under the lock
-- only, so a session that holds it is not a claim, and this does not wait for it. Starts that were given back
-- count as tokens; take moves them into the bucket.
CREATE FUNCTION {{.Function "admit"}}(queue text, want integer)
RETURNS TABLE (admitted integer, again double precision, bounded boolean, held text, exclusive boolean)
LANGUAGE plpgsql
{{.Settings}}
SET lock_timeout = '500ms'
AS $txwork$
#variable_conflict use_column
DECLARE
    rule {{.Queue}}%ROWTYPE;
    bucket {{.Bucket}}%ROWTYPE;
    n bigint := $2;
    pause double precision := 0;
    busy CONSTANT double precision := 0.05;
    available double precision;
    exclusive boolean := false;
    reason text;
BEGIN
    {{.SeesRules}}
    SELECT q.* INTO rule FROM {{.Queue}} AS q WHERE q.name = $1;
    IF rule.paused THEN
        RETURN QUERY SELECT 0, pause, true, 'paused', false;
        RETURN;
    END IF;
    IF rule.max_running IS NULL AND rule.rate IS NULL THEN
        RETURN QUERY SELECT $2, pause, false, NULL, false;
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
        n := least(n, {{.MaxPermits}});
    END IF;
    IF rule.rate IS NOT NULL AND n > 0 THEN
        BEGIN
            PERFORM pg_advisory_xact_lock(hashtextextended('{{.Name}} queue ' || $1, 0));
        EXCEPTION WHEN lock_not_available THEN
            RETURN QUERY SELECT 0, busy, true, 'busy', false;
            RETURN;
        END;
        exclusive := true;
        INSERT INTO {{.Bucket}} (queue) VALUES ($1) ON CONFLICT DO NOTHING;
        SELECT b.* INTO bucket FROM {{.Bucket}} AS b WHERE b.queue = $1 FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN QUERY SELECT 0, busy, true, 'busy', true;
            RETURN;
        END IF;
        available := least(rule.burst, coalesce(bucket.tokens, rule.burst)
            + rule.rate * greatest(extract(epoch FROM clock_timestamp() - bucket.refilled_at)::double precision, 0)
            + coalesce((SELECT sum(g.starts) FROM {{.Given}} AS g WHERE g.queue = $1), 0));
        IF floor(available) < n THEN
            n := floor(available);
            pause := (n + 1 - available) / rule.rate;
            reason := 'rate';
        END IF;
    END IF;
    RETURN QUERY SELECT greatest(n, 0)::integer, pause, true, reason, exclusive;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "admit"}}(text, integer) FROM PUBLIC;
