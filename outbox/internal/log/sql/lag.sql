-- How far each lane is behind. numbers were drawn since its position, of which not all became messages for it; messages
-- are for it and not settled, among so many of the log as the parameter says, and more tells that there may be others;
-- seconds have passed since the oldest of them was written. in_hand tells that a consumer has a page, and attempts how
-- often its batch was claimed. live and dead are the parked messages and dead letters of the whole subscription.
-- retained are bytes of the slots that cannot be emptied before the lane has passed them, tick is the newest one, and
-- tick_seconds its age.
--
-- It asks the log and not the ticks, so it is right while nobody ticks.
CREATE FUNCTION {{.Named "lag"}}(most integer DEFAULT 10000)
RETURNS TABLE (subscription text, lane integer, paused boolean, numbers bigint, messages bigint, more boolean,
    seconds double precision, in_hand boolean, attempts integer, live bigint, dead bigint, retained bigint, tick bigint,
    tick_seconds double precision)
LANGUAGE plpgsql STABLE
{{.Settings}}
AS $txwork$
#variable_conflict use_column
BEGIN
    {{.SeesAll}}
    {{.RefusesMost "$1"}}
    RETURN QUERY
    SELECT p.subscription, p.lane::integer, s.paused,
        CASE WHEN o.at IS NULL THEN 0
            ELSE greatest({{.Drawn}} - greatest((p.seen).seq, p.done), 1) END,
        c.messages, c.more, coalesce(extract(epoch FROM clock_timestamp() - o.at), 0)::float8, p.page IS NOT NULL,
        p.attempts, k.live, k.dead,
        {{- range $i, $n := .EachSlot}}
        {{if $i}}+ {{end}}CASE WHEN EXISTS (SELECT FROM {{$.Slot $n}} AS m WHERE m.xid >= (p.seen).high)
            OR EXISTS (SELECT FROM {{$.Slot $n}} AS m WHERE m.xid = ANY ((p.seen).open))
            THEN pg_total_relation_size('{{$.Slot $n}}') ELSE 0 END
        {{- end}},
        l.n, extract(epoch FROM clock_timestamp() - l.at)::float8
    FROM {{.Named "position"}} AS p
    JOIN {{.Named "subscription"}} AS s ON s.name = p.subscription
    LEFT JOIN LATERAL (SELECT t.n, t.at FROM {{.Named "tick"}} AS t ORDER BY t.n DESC LIMIT 1) AS l ON true
    CROSS JOIN LATERAL (
        SELECT {{.CountParked "k"}} FROM {{.Parked}} AS k WHERE k.subscription = p.subscription) AS k (live, dead)
    CROSS JOIN LATERAL (
        SELECT least((
            SELECT m.created_at FROM {{.Log}} AS m
            WHERE m.xid >= (p.seen).high AND {{template "unsettled" .}}
            ORDER BY m.xid, m.seq LIMIT 1), (
            SELECT min(m.created_at) FROM {{.Log}} AS m
            WHERE m.xid = ANY ((p.seen).open) AND {{template "unsettled" .}})) AS at) AS o
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE {{template "unsettled" .}}) AS messages, count(*) > $1 AS more
        FROM (
            SELECT * FROM {{.Log}} AS m WHERE m.xid = ANY ((p.seen).open)
            UNION ALL
            SELECT * FROM {{.Log}} AS m WHERE m.xid >= (p.seen).high
            LIMIT $1 + 1) AS m) AS c
    ORDER BY p.subscription, p.lane;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "lag"}}(integer) FROM PUBLIC;
{{- define "unsettled"}}NOT (m.seq <= p.done AND m.xid < (p.upto).high AND m.xid <> ALL ((p.upto).open))
              AND (s.lanes = 1 OR abs(hashtextextended(coalesce(m.key, m.id::text), 0) % s.lanes) = p.lane)
              AND (s.topics IS NULL OR m.topic = ANY (s.topics) OR m.topic ^@ ANY (s.prefixes))
              AND (s.headers IS NULL OR m.headers @> s.headers)
{{- end}}
