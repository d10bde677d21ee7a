-- Removes a subscription with its positions and, if told to, its parked messages, and says how many lanes, parked
-- messages and dead letters it had, and how many messages that a tick has seen it had not settled. These are recorded
-- with its other losses, which stay. They are counted among so many of the log as the parameter says, since those of a
-- subscription that nobody reads may be all there are. Whoever has a page in hand gets lost.
--
-- All positions are locked before parked messages are counted: nobody parks others.
CREATE FUNCTION {{.Named "unsubscribe"}}(
    name text, parked boolean DEFAULT false, most integer DEFAULT {{.MaxCounted}}, OUT lanes integer, OUT live bigint,
    OUT dead bigint, OUT lost bigint
)
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
    {{.RefusesMost "$3"}}
    {{.RefusesSession "a removal"}}
    {{.IdleBound "interval '1 minute'"}}
    {{.LocksSubscription}}
    {{.RefusesMoving}}
    PERFORM FROM {{.Named "position"}} AS p WHERE p.subscription = $1 ORDER BY p.lane FOR UPDATE;
    lanes := own.s.lanes;
    SELECT {{.CountParked "k"}} INTO live, dead FROM {{.Parked}} AS k WHERE k.subscription = $1;
    {{.RefusesParked "$2"}}
    SELECT (t.seen).* INTO own.seen FROM {{.Named "tick"}} AS t ORDER BY t.n DESC LIMIT 1;
    SELECT coalesce(sum(m.lost), 0) INTO lost FROM {{.Named "move"}}($1, own.seen, 'remove', $3 / own.s.lanes + 1) AS m
    WHERE own.seen.n IS NOT NULL;
    DELETE FROM {{.Parked}} AS k WHERE k.subscription = $1;
    DELETE FROM {{.Named "subscription"}} AS s WHERE s.name = $1;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "unsubscribe"}}(text, boolean, integer) FROM PUBLIC;
