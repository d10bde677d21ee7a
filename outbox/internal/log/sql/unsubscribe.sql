-- Removes a subscription with its positions and, if told to, its parked messages, and says how many lanes, parked
-- messages and dead letters it had. Whoever has a page in hand gets lost. Its losses stay recorded.
--
-- All positions are locked before parked messages are counted: nobody parks others.
CREATE FUNCTION {{.Named "unsubscribe"}}(
    name text, parked boolean DEFAULT false, OUT lanes integer, OUT live bigint, OUT dead bigint
)
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s {{.Named "subscription"}};
BEGIN
    {{.SeesAll}}
    {{.RefusesSession "a removal"}}
    {{.IdleBound "interval '1 minute'"}}
    {{.LocksSubscription}}
    PERFORM FROM {{.Named "position"}} AS p WHERE p.subscription = $1 ORDER BY p.lane FOR UPDATE;
    lanes := own.s.lanes;
    SELECT {{.CountParked "k"}} INTO live, dead FROM {{.Parked}} AS k WHERE k.subscription = $1;
    {{.RefusesParked "$2"}}
    DELETE FROM {{.Parked}} AS k WHERE k.subscription = $1;
    DELETE FROM {{.Named "subscription"}} AS s WHERE s.name = $1;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "unsubscribe"}}(text, boolean) FROM PUBLIC;
