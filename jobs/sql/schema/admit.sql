-- How many of want jobs of a queue may be claimed now; if tokens are what is short, after how many seconds to
-- ask again; and whether the queue has a rule at all. Call it in the claim's transaction, before the claim, and the function take after
-- it.
--
-- Claims of one limited queue are admitted one after the other: the bucket's row stays locked until the
-- claim's transaction ends. The slots are counted by a statement of their own after the lock was granted, so
-- its snapshot (READ COMMITTED) has the slots of the claim before. A settle that deletes a slot takes no part
-- in this: one that has not committed yet still counts, so the limit is never passed.
CREATE FUNCTION {{.Function "admit"}}(queue text, want integer) RETURNS TABLE (admitted integer, again double precision, bounded boolean)
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    rule {{.Queue}}%ROWTYPE;
    bucket {{.Bucket}}%ROWTYPE;
    n bigint := $2;
    pause double precision := 0;
    available double precision;
BEGIN
    SELECT q.* INTO rule FROM {{.Queue}} AS q WHERE q.name = $1;
    IF rule.paused THEN
        RETURN QUERY SELECT 0, pause, true;
        RETURN;
    END IF;
    IF rule.max_running IS NULL AND rule.rate IS NULL THEN
        RETURN QUERY SELECT $2, pause, false;
        RETURN;
    END IF;

    SELECT b.* INTO bucket FROM {{.Bucket}} AS b WHERE b.queue = $1 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        INSERT INTO {{.Bucket}} (queue) VALUES ($1) ON CONFLICT DO NOTHING;
        SELECT b.* INTO bucket FROM {{.Bucket}} AS b WHERE b.queue = $1 FOR NO KEY UPDATE;
    END IF;

    IF rule.max_running IS NOT NULL THEN
        SELECT least(n, rule.max_running - count(*)) INTO n FROM {{.Slot}} AS s WHERE s.queue = $1;
    END IF;
    IF rule.rate IS NOT NULL THEN
        available := least(rule.burst, coalesce(bucket.tokens, rule.burst)
            + rule.rate * greatest(extract(epoch FROM clock_timestamp() - bucket.refilled_at)::double precision, 0));
        IF floor(available) < n THEN
            n := floor(available);
            pause := (n + 1 - available) / rule.rate;
        END IF;
    END IF;
    RETURN QUERY SELECT greatest(n, 0)::integer, pause, true;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "admit"}}(text, integer) FROM PUBLIC;
