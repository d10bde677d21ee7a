-- The consumer that holds a lane says that the destination of the subscription cannot be reached. What it has handled
-- is settled before. The lane is given back, with the claim, and the subscription rests in all its lanes, whatever
-- topic the message had: after each probe that says so again twice as long, up to a bound, less up to a fifth.
--
-- Returns began (the outage begins), resting (it goes on), or lost: then nothing was changed, and another consumer has
-- the lane, or an earlier call gave it back. since is when the outage began, and seconds how long it is until the next
-- probe; NULL and 0 while somebody else is about to say the same.
--
-- Who holds the advisory lock is the one who makes a subscription rest. Nobody waits for it: if another transaction
-- has it, that one says the same, and if it is rolled back, the next message finds out.
CREATE FUNCTION {{.Named "unavailable"}}(subscription text, owner_token uuid, cause text)
RETURNS TABLE (result text, since timestamptz, seconds double precision)
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    p {{.Named "position"}};
    rest {{.Named "rest"}};
BEGIN
    cause := coalesce(cause, '');
    {{.SeesAll}}
    {{.RefusesNoToken "$2"}}
    {{.RefusesSession "an outage"}}
    {{.IdleBound "interval '1 minute'"}}
    SELECT p.* INTO own.p FROM {{.Named "position"}} AS p
    WHERE p.subscription = $1 AND p.owner_token = $2 AND p.locked_until IS NOT NULL
    FOR UPDATE;
    IF NOT FOUND THEN
        result := 'lost';
        seconds := 0;
        RETURN NEXT;
        RETURN;
    END IF;
    result := 'resting';
    IF (own.p.rest).since IS NOT NULL THEN
        rest := {{.NextRest "own.p" "$3"}};
        p.rest := own.rest;
    ELSIF pg_try_advisory_xact_lock({{.RestLock "$1"}}) THEN
        SELECT (q.rest).* INTO own.rest FROM {{.Named "position"}} AS q
        WHERE q.subscription = $1 AND (q.rest).since IS NOT NULL
        LIMIT 1;
        IF NOT FOUND THEN
            result := 'began';
            rest := {{.Rest "clock_timestamp()" .FirstRest "$3"}};
            p.rest := own.rest;
        END IF;
    END IF;
    UPDATE {{.Named "position"}} AS t
    SET locked_until = NULL, owner_token = NULL, page = NULL, whole = false, withheld = '{}',
        attempts = greatest(t.attempts - 1, 0), rest = own.p.rest
    WHERE t.subscription = $1 AND t.lane = own.p.lane;
    since := own.rest.since;
    seconds := coalesce(greatest(extract(epoch FROM own.rest.until - clock_timestamp()), 0), 0);
    RETURN NEXT;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "unavailable"}}(text, uuid, text) FROM PUBLIC;
