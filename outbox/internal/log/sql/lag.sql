-- How far each lane is behind. numbers were drawn since its position, of which not all became messages for it; messages
-- are for it and not settled, among so many of the log as the parameter says, and more tells that there may be others;
-- seconds have passed since the oldest of them was written, and behind_seconds since the first tick that the lane has
-- not passed, whether or not that has messages for it. in_hand tells that a consumer has a page, and its lease has not
-- ended; attempts how often its batch was claimed. live and dead are the parked messages and dead letters of the whole
-- subscription. retained are bytes of the slots that cannot be emptied before the lane has passed them, tick is the
-- newest one, and tick_seconds its age. While the destination of the subscription is unavailable, it says since when,
-- when the next message probes it, and what was said last.
--
-- It asks the log and not the ticks, so messages are right while nobody ticks. What it reads is bounded: of the log by
-- the parameter, and otherwise by the slots and by what is parked.
CREATE FUNCTION {{.Named "lag"}}(most integer DEFAULT 10000)
RETURNS TABLE (subscription text, lane integer, paused boolean, numbers bigint, messages bigint, more boolean,
    seconds double precision, behind_seconds double precision, in_hand boolean, attempts integer, live bigint,
    dead bigint, retained bigint, tick bigint, tick_seconds double precision,
    unavailable_since timestamptz, rests_until timestamptz, cause text)
LANGUAGE plpgsql STABLE
{{.Settings}}
AS $txwork$
#variable_conflict use_column
BEGIN
    {{.SeesAll}}
    {{.SeesSlots}}
    {{.SeesLosses}}
    {{.RefusesMost "$1"}}
    RETURN QUERY
    WITH slots AS MATERIALIZED (
        SELECT
            {{- range $i, $n := .EachSlot}}{{if $i}},{{end}}
            (SELECT max(m.xid) FROM {{$.Slot $n}} AS m) AS last{{$n}},
            pg_total_relation_size('{{$.Slot $n}}') AS bytes{{$n}}
            {{- end}}
    ), waiting AS MATERIALIZED (
        SELECT k.subscription, {{.CountParked "k"}} FROM {{.Parked}} AS k
        WHERE k.completed_at IS NULL OR k.failed_at IS NOT NULL
        GROUP BY k.subscription
    )
    SELECT p.subscription, p.lane::integer, s.paused,
        CASE WHEN c.messages = 0 AND NOT c.more THEN 0
            ELSE greatest({{.Drawn}} - greatest((p.seen).seq, p.done), 1) END,
        c.messages, c.more, coalesce(extract(epoch FROM clock_timestamp() - c.oldest), 0)::float8,
        coalesce(extract(epoch FROM clock_timestamp() - (
            SELECT t.at FROM {{.Named "tick"}} AS t WHERE t.n > (p.seen).n ORDER BY t.n LIMIT 1)), 0)::float8,
        p.page IS NOT NULL AND p.locked_until >= clock_timestamp() IS TRUE, p.attempts, coalesce(k.live, 0),
        coalesce(k.dead, 0),
        {{- range $i, $n := .EachSlot}}
        {{if $i}}+ {{end}}CASE WHEN z.last{{$n}} >= (p.seen).high
            OR EXISTS (SELECT FROM {{$.Slot $n}} AS m WHERE m.xid = ANY ((p.seen).open))
            THEN z.bytes{{$n}} ELSE 0 END
        {{- end}},
        l.n, extract(epoch FROM clock_timestamp() - l.at)::float8, r.since, r.until, r.cause
    FROM {{.Named "position"}} AS p
    JOIN {{.Named "subscription"}} AS s ON s.name = p.subscription
    CROSS JOIN slots AS z
    LEFT JOIN waiting AS k (subscription, live, dead) ON k.subscription = p.subscription
    LEFT JOIN LATERAL (SELECT t.n, t.at FROM {{.Named "tick"}} AS t ORDER BY t.n DESC LIMIT 1) AS l ON true
    LEFT JOIN LATERAL (
        SELECT (q.rest).* FROM {{.Named "position"}} AS q
        WHERE q.subscription = p.subscription AND (q.rest).since IS NOT NULL
        LIMIT 1) AS r ON true
    CROSS JOIN LATERAL (
        SELECT least(count(*) FILTER (WHERE {{template "unsettled" .}}), $1) AS messages,
            min(m.created_at) FILTER (WHERE {{template "unsettled" .}}) AS oldest, count(*) > $1 AS more
        FROM (
            SELECT * FROM {{.Log}} AS m WHERE m.xid = ANY ((p.seen).open)
            UNION ALL
            (SELECT * FROM {{.Log}} AS m WHERE m.xid >= (p.seen).high ORDER BY m.xid, m.seq LIMIT $1 + 1)
            LIMIT $1 + 1) AS m) AS c
    ORDER BY p.subscription, p.lane;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "lag"}}(integer) FROM PUBLIC;
{{- define "unsettled"}}NOT ((m.seq <= p.done OR m.seq = ANY (p.ahead))
                AND m.xid < (p.upto).high AND m.xid <> ALL ((p.upto).open))
              AND {{template "selected" .}}
{{- end}}
{{- define "selected"}}(s.lanes = 1 OR abs(hashtextextended(coalesce(m.key, m.id::text), 0) % s.lanes) = p.lane)
              AND (s.topics IS NULL OR m.topic = ANY (s.topics) OR m.topic ^@ ANY (s.prefixes))
              AND (s.headers IS NULL OR m.headers @> s.headers)
{{- end}}
