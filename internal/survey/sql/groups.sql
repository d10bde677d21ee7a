-- The due rows and the next rows to become due, grouped by label. Reads at most {{.MaxHead}} of each, by the claim
-- index of a table without lanes.
SELECT s.label AS name, count(*) FILTER (WHERE s.due AND s.status = 0) AS ready,
       count(*) FILTER (WHERE NOT s.due) AS later,
       count(*) FILTER (WHERE s.due AND s.status = 1) AS running,
       count(*) FILTER (WHERE s.due AND s.status = 1 AND s.locked_until < now()) AS expired,
       coalesce(extract(epoch FROM now() - min(s.due_at) FILTER (WHERE s.due AND s.status = 0)), 0)::float8
           AS oldest_ready
FROM (
    (SELECT coalesce({{.Label}}, '') AS label, r.status, r.locked_until, r.due_at, true AS due
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL AND NOT r.waiting AND r.due_at <= now()
    ORDER BY r.due_at, r.id
    LIMIT {{.MaxHead}})
    UNION ALL
    (SELECT coalesce({{.Label}}, ''), r.status, r.locked_until, r.due_at, false
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL AND NOT r.waiting AND r.due_at > now()
    ORDER BY r.due_at, r.id
    LIMIT {{.MaxHead}})
) AS s
GROUP BY s.label
ORDER BY count(*) DESC, s.label
LIMIT {{.MaxLanes}}
