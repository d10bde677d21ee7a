-- Whether an occurrence of a schedule has not ended, as 0 or 1: from an index that holds no others.
SELECT count(*) FROM (SELECT FROM {{.Table}} AS t WHERE t.schedule = $1 AND t.completed_at IS NULL LIMIT 1) AS l
