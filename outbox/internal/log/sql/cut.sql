-- Cuts a subscription loose from messages that it has not settled: lanes that are behind the newest tick of that age,
-- or until that time, go on behind it, so no younger message is lost. What is lost is counted and recorded. Says it of
-- each lane that it moved. Parked messages stay, and run.
CREATE FUNCTION {{.Named "cut"}}(name text, older_than interval DEFAULT NULL, before timestamptz DEFAULT NULL)
RETURNS TABLE (lane integer, tick bigint, done bigint, taken boolean, lost bigint)
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s {{.Named "subscription"}};
    seen {{.Named "seen"}};
BEGIN
    {{.SeesAll}}
    {{.RefusesOlderThan "$2" "$3"}}
    {{.RefusesSession "a cut"}}
    {{.IdleBound "interval '1 minute'"}}
    {{.LocksSubscription}}
    SELECT (t.seen).* INTO own.seen FROM {{.Named "tick"}} AS t
    WHERE t.at <= coalesce($3, clock_timestamp() - $2)
    ORDER BY t.n DESC LIMIT 1;
    RETURN QUERY SELECT m.lane, m.tick, m.done, m.taken, m.lost FROM {{.Named "move"}}($1, own.seen, 'cut') AS m
    WHERE own.seen.n IS NOT NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "cut"}}(text, interval, timestamptz) FROM PUBLIC;
