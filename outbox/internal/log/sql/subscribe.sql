-- Makes a subscription. It begins with the newest tick that was made until start: 'infinity' is now, so tick before;
-- '-infinity' is the beginning of what the log has. Topics are names, or beginnings of names with a * at the end. The
-- row of the state is locked against the removal of what the subscription has yet to read, and only against that.
CREATE FUNCTION {{.Named "subscribe"}}(
    name text, topics text[] DEFAULT NULL, headers jsonb DEFAULT NULL, start timestamptz DEFAULT 'infinity',
    lanes integer DEFAULT 1
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
    {{.RefusesSession "a subscription"}}
    SELECT s.gone INTO own.gone FROM {{.Named "state"}} AS s FOR SHARE;

    SELECT (t.seen).* INTO own.seen FROM {{.Named "tick"}} AS t WHERE t.at <= $4 ORDER BY t.n DESC LIMIT 1;
    IF own.seen.n IS NULL THEN
        seen := ROW(0, 0, 0, '{}', 0);
    END IF;
    IF isfinite($4) AND own.seen.n < own.gone THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'start',
            MESSAGE = format('start %s is before the messages that are kept', $4),
            HINT = 'Start later, or at -infinity: with the oldest message that is kept.';
    END IF;
    INSERT INTO {{.Named "subscription"}} (name, topics, prefixes, headers, lanes)
    SELECT $1,
        CASE WHEN $2 IS NOT NULL THEN ARRAY(SELECT t FROM unnest($2) AS t WHERE right(t, 1) <> '*') END,
        CASE WHEN $2 IS NOT NULL THEN ARRAY(SELECT left(t, -1) FROM unnest($2) AS t WHERE right(t, 1) = '*') END,
        $3, $5;
    INSERT INTO {{.Named "position"}} (subscription, lane, seen)
    SELECT $1, l, own.seen FROM generate_series(0, $5 - 1) AS l;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "subscribe"}}(text, text[], jsonb, timestamptz, integer) FROM PUBLIC;
