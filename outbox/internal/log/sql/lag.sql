-- How far each lane is behind: in numbers that were drawn since its position, of which not all became messages for it,
-- and in seconds since its oldest message was written that is not settled. It asks the log and not the ticks, so it is
-- right while nobody ticks. A message of a batch that is settled in part counts until the batch ends.
CREATE FUNCTION {{.Named "lag"}}()
RETURNS TABLE (subscription text, lane integer, numbers bigint, seconds double precision, parked bigint)
LANGUAGE plpgsql STABLE
{{.Settings}}
AS $txwork$
#variable_conflict use_column
BEGIN
    {{.SeesAll}}
    RETURN QUERY
    SELECT p.subscription, p.lane::integer,
        CASE WHEN o.at IS NULL THEN 0
            ELSE greatest({{.Drawn}} - greatest((p.seen).seq, p.done), 1) END,
        coalesce(extract(epoch FROM clock_timestamp() - o.at), 0)::float8,
        (SELECT count(*) FROM {{.Parked}} AS k WHERE k.subscription = p.subscription AND k.completed_at IS NULL)
    FROM {{.Named "position"}} AS p
    JOIN {{.Named "subscription"}} AS s ON s.name = p.subscription
    CROSS JOIN LATERAL (
        SELECT least((
            SELECT m.created_at FROM {{.Log}} AS m
            WHERE m.xid >= (p.seen).high
              AND (s.lanes = 1 OR abs(hashtextextended(coalesce(m.key, m.id::text), 0) % s.lanes) = p.lane)
              AND (s.topics IS NULL OR m.topic = ANY (s.topics) OR m.topic ^@ ANY (s.prefixes))
              AND (s.headers IS NULL OR m.headers @> s.headers)
            ORDER BY m.xid, m.seq LIMIT 1), (
            SELECT min(m.created_at) FROM {{.Log}} AS m
            WHERE m.xid = ANY ((p.seen).open)
              AND (s.lanes = 1 OR abs(hashtextextended(coalesce(m.key, m.id::text), 0) % s.lanes) = p.lane)
              AND (s.topics IS NULL OR m.topic = ANY (s.topics) OR m.topic ^@ ANY (s.prefixes))
              AND (s.headers IS NULL OR m.headers @> s.headers))) AS at) AS o
    ORDER BY p.subscription, p.lane;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "lag"}}() FROM PUBLIC;
