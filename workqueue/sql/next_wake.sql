-- When the table next needs attention: the earliest due time of a Ready row or the earliest end of a lease.
SELECT extract(epoch FROM min(w.at) - clock_timestamp())::float8 AS seconds, min(w.at) AS at
FROM (
    (SELECT min(r.due_at) AS at FROM {{.Table}} AS r WHERE r.completed_at IS NULL AND NOT r.waiting AND r.status = 0)
    UNION ALL
    (SELECT min(r.locked_until) FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL AND NOT r.waiting AND r.status = 1 AND r.due_at <= now())
) AS w
HAVING min(w.at) IS NOT NULL
