{{- /* Stores ticks between the last one and now, with about BatchSize messages from one to the next: each page of a
batch reads the rest of its batch. What nobody saw at its time, a tick may still tell: that some transactions have
ended, and that the others are open, as long as it calls none ended whose messages may be in the order of a key behind
those of one that it calls open. Who writes a key waits for the end of those who wrote it before, and then draws a
number. So transactions are called ended in the order of their last numbers.

A transaction with more messages than a batch has a tick right before it, and one behind it. The first one lists it as
open, so that it is late in its batch, and a page asks the index for its next messages. */ -}}
{{define "parts"}}            WITH ended AS (
                SELECT m.xid, count(*) AS messages, max(m.seq) AS seq
                FROM {{.Log}} AS m
                WHERE m.xid >= (own.last).high AND m.xid < (own.now).high AND m.xid <> ALL ((own.now).open)
                GROUP BY m.xid
                UNION ALL
                SELECT x, (SELECT count(*) FROM {{.Log}} AS m WHERE m.xid = x AND m.seq > (own.last).seq),
                    coalesce((SELECT max(m.seq) FROM {{.Log}} AS m WHERE m.xid = x), 0)
                FROM unnest((own.last).open) AS x
                WHERE x <> ALL ((own.now).open)
            ), counted AS (
                SELECT e.*, e.messages > {{.BatchSize}} AS is_large,
                    (sum(e.messages) OVER (ORDER BY e.seq, e.xid))::bigint AS upto
                FROM ended AS e
            ), begun AS (
                SELECT c.*, (c.upto - c.messages) / {{.BatchSize}} AS share FROM counted AS c
            ), divided AS (
                SELECT b.xid, b.upto, b.is_large, sum(b.begins::integer) OVER (ORDER BY b.seq, b.xid) AS part
                FROM (
                    SELECT b.*, b.is_large OR b.share IS DISTINCT FROM lag(b.share) OVER (ORDER BY b.seq, b.xid)
                        AS begins
                    FROM begun AS b) AS b
            ), shown AS (
                -- From which tick on an id is below high. It is open there until its own part.
                SELECT d.xid, d.part, CASE WHEN d.xid < (own.last).high THEN 0
                    ELSE min(d.part - d.is_large::integer) OVER (ORDER BY d.xid DESC) END AS since
                FROM divided AS d
            ), opened AS (
                SELECT i.part, array_agg(s.xid ORDER BY s.xid) AS ids
                FROM shown AS s
                CROSS JOIN LATERAL generate_series(s.since, s.part - 1) AS i (part)
                GROUP BY i.part
            ), ticked AS (
                SELECT p.part, greatest((own.last).high, 1 + max(max(p.xid)) OVER (ORDER BY p.part)) AS high,
                    coalesce(max(max(p.upto)) OVER (ORDER BY p.part), 0) AS upto
                FROM (
                    SELECT d.part - d.is_large::integer AS part, d.xid, NULL::bigint AS upto FROM divided AS d
                    UNION ALL
                    SELECT d.part, NULL, d.upto FROM divided AS d) AS p
                GROUP BY p.part
            )
            INSERT INTO {{.Named "tick"}} (n, at, seen)
            SELECT t.n, clock_timestamp(), ROW(t.n, least(t.high, (SELECT min(x) FROM unnest(t.open) AS x)), t.high,
                t.open, least((own.last).seq + t.upto, (own.now).seq))::{{.Named "seen"}}
            FROM (
                SELECT (own.now).n + row_number() OVER (ORDER BY t.part) - 1 AS n, t.high, t.upto,
                    ARRAY(SELECT x FROM unnest((own.now).open) AS x WHERE x < t.high) || o.ids AS open
                FROM ticked AS t
                LEFT JOIN opened AS o ON o.part = t.part
                WHERE t.part < (SELECT max(d.part) FROM divided AS d)) AS t;
{{- end}}
