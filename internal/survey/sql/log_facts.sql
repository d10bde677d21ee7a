-- What is known of a log as a whole: its newest tick, since when the oldest message waits that this has not seen, or
-- that is due and not in the log, the oldest message that is kept, whether all positions have passed it, bytes, and
-- what is scheduled: so many messages, up to the second parameter, and since when the first has been due. Each is a
-- look at an index.
SELECT coalesce(t.n, 0) AS tick,
       coalesce(extract(epoch FROM clock_timestamp() - t.at), 0)::float8 AS tick_seconds,
       coalesce(extract(epoch FROM clock_timestamp() - least(later.at, late.at, due.at)), 0)::float8 AS unticked,
       coalesce(extract(epoch FROM clock_timestamp() - o.at), 0)::float8 AS oldest,
       o.xid IS NOT NULL AND NOT EXISTS (
           SELECT FROM {{.Q "_position"}} AS p
           WHERE o.xid >= (p.seen).high OR o.xid = ANY ((p.seen).open)) AS passed,
       (SELECT coalesce(sum(pg_total_relation_size(i.inhrelid)), 0)::bigint FROM pg_inherits AS i
        WHERE i.inhparent = $1::regclass) AS bytes,
       (SELECT count(*) FROM (SELECT FROM {{.Q "_later"}} AS l LIMIT $2::bigint) AS l) AS scheduled,
       coalesce(extract(epoch FROM clock_timestamp() - due.at), 0)::float8 AS overdue
FROM (SELECT) AS one
LEFT JOIN LATERAL (SELECT t.n, t.at, t.seen FROM {{.Q "_tick"}} AS t ORDER BY t.n DESC LIMIT 1) AS t ON true
LEFT JOIN LATERAL (
    SELECT m.created_at AS at FROM {{.Table}} AS m
    WHERE m.xid >= coalesce((t.seen).high, 0) ORDER BY m.xid, m.seq LIMIT 1) AS later ON true
LEFT JOIN LATERAL (
    SELECT min(f.at) AS at
    FROM unnest((t.seen).open) AS x
    CROSS JOIN LATERAL (
        SELECT m.created_at AS at FROM {{.Table}} AS m WHERE m.xid = x ORDER BY m.xid, m.seq LIMIT 1) AS f) AS late
    ON true
LEFT JOIN LATERAL (
    SELECT l.due_at AS at FROM {{.Q "_later"}} AS l
    WHERE l.due_at <= now() ORDER BY l.due_at LIMIT 1) AS due ON true
LEFT JOIN LATERAL (
    SELECT m.xid, m.created_at AS at FROM {{.Table}} AS m ORDER BY m.xid, m.seq LIMIT 1) AS o ON true
