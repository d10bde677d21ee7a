-- Moves all lanes of a subscription to a start, as {{.Name}}_subscribe takes it: back, so that all since is delivered
-- again, or forward, so that what lies between is a loss, which is recorded. Says of each lane behind which tick it
-- goes on, whether a page was taken from its consumer, and how many messages are lost,
-- and how many that were settled are delivered again, see {{.Name}}_move. Parked messages stay, and run.
--
-- The row of the state is locked against the removal of what is to be read again, before it is asked what is kept.
CREATE FUNCTION {{.Named "replay"}}(name text, start timestamptz)
RETURNS TABLE (lane integer, tick bigint, done bigint, taken boolean, lost bigint, again bigint, more boolean)
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s {{.Named "subscription"}};
    seen {{.Named "seen"}};
    gone bigint;
BEGIN
    {{.SeesAll}}
    {{.RefusesStart "$2"}}
    {{.RefusesSession "a replay"}}
    {{.IdleBound "interval '1 minute'"}}
    {{.StartsAt "$2"}}
    {{.LocksSubscription}}
    RETURN QUERY SELECT m.* FROM {{.Named "move"}}($1, own.seen, 'replay') AS m;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "replay"}}(text, timestamptz) FROM PUBLIC;
