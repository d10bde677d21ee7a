-- How many occurrences of a schedule have not ended: from an index that holds no others.
SELECT count(*) FROM {{.Table}} AS t WHERE t.schedule = $1 AND t.completed_at IS NULL
