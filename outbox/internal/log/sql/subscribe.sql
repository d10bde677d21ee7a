-- Makes a subscription. It begins with the newest tick that was made until start: 'infinity' is now, so tick before;
-- '-infinity' is the beginning of what the log has. Topics are names, or beginnings of names with a * at the end. The
-- max_age and max_messages are its retention, see {{.Name}}_parked_retain: NULL and 0 are none. The
-- row of the state is locked against the removal of what the subscription has yet to read, and only against that.
CREATE FUNCTION {{.Named "subscribe"}}(
    name text, topics text[] DEFAULT NULL, headers jsonb DEFAULT NULL, start timestamptz DEFAULT 'infinity',
    lanes integer DEFAULT 1, max_age interval DEFAULT NULL, max_messages bigint DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    seen {{.Named "seen"}};
    gone bigint;
BEGIN
    {{.SeesAll}}
    {{.RefusesName "$1"}}
    {{.RefusesTopics "$2"}}
    {{.RefusesHeaders "$3"}}
    {{.RefusesStart "$4"}}
    {{.RefusesLanes "$5"}}
    {{.RefusesRetention "$6" "$7"}}
    {{.RefusesSession "a subscription"}}
    {{.StartsAt "$4"}}
    INSERT INTO {{.Named "subscription"}} (name, topics, prefixes, headers, lanes, max_age, max_messages)
    SELECT $1, {{.Patterns "$2"}}, {{.Selected "$3"}}, $5, nullif($6, interval '0'), nullif($7, 0)
    ON CONFLICT DO NOTHING;
    {{.RefusesTaken}}
    INSERT INTO {{.Named "position"}} (subscription, lane, seen)
    SELECT $1, l, own.seen FROM generate_series(0, $5 - 1) AS l;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "subscribe"}}(text, text[], jsonb, timestamptz, integer, interval, bigint) FROM PUBLIC;
