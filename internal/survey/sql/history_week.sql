-- What happened in an hour and in the same hour of the week before, of the tables $1 and their lanes, where both are
-- known. From the half of an hour on it is that hour, otherwise the one before. The hour is computed once, in a query
-- of its own, since no index serves a condition with a clock that goes on.
SELECT n.table_name, n.lane, n.at, n.done, n.retried, n.dead, n.waits, n.runs,
       b.done AS done_before, b.retried AS retried_before, b.dead AS dead_before, b.waits AS waits_before,
       b.runs AS runs_before
FROM {{.}} AS n
JOIN {{.}} AS b ON (b.table_name, b.lane, b.step, b.at) = (n.table_name, n.lane, 3600, n.at - interval '168 hours')
WHERE n.step = 3600 AND n.table_name = ANY ($1::text[]) AND NOT row_security_active('{{.}}')
    AND n.at = (SELECT date_bin('1 hour', clock_timestamp() - interval '30 minutes', 'epoch'))
ORDER BY n.table_name, n.lane
LIMIT $2
