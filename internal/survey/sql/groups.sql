-- The due rows and the next rows to become due, grouped by label. Reads at most {{.MaxRunning}} and {{.MaxHead}} of
-- them, by the claim index of a table without lanes.
SELECT s.label AS name, count(*) FILTER (WHERE s.due AND s.status = 0) AS ready,
       count(*) FILTER (WHERE NOT s.due) AS later,
       count(*) FILTER (WHERE s.due AND s.status = 1) AS running,
       count(*) FILTER (WHERE s.due AND s.status = 1 AND s.locked_until < now()) AS expired,
       coalesce(extract(epoch FROM now() - min(s.due_at) FILTER (WHERE s.due AND s.status = 0)), 0)::float8
           AS oldest_ready,
       coalesce(max(s.ran), 0)::float8 AS longest, count(*) FILTER (WHERE s.ran > s.within) AS overdue
FROM (
    (SELECT coalesce({{.Label}}, '') AS label, r.status, r.locked_until, r.due_at, true AS due,
        CASE WHEN {{template "held" "r"}} THEN {{.RunningFor "r"}} END AS ran,
        CASE WHEN {{template "held" "r"}} THEN {{.RunningWithin "r" "$1::float8"}} END AS within
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL AND NOT r.waiting AND r.due_at <= now()
    ORDER BY r.due_at, r.id
    LIMIT {{.MaxRunning}})
    UNION ALL
    (SELECT coalesce({{.Label}}, ''), r.status, r.locked_until, r.due_at, false, NULL, NULL
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL AND NOT r.waiting AND r.due_at > now()
    ORDER BY r.due_at, r.id
    LIMIT {{.MaxHead}})
) AS s
GROUP BY s.label
ORDER BY count(*) DESC, s.label
LIMIT {{.MaxLanes}}
