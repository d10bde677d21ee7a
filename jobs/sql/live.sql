-- How many jobs of a schedule have not ended. Reads only the index of those.
SELECT count(*) FROM {{.Table}} AS t WHERE t.schedule = $1::text AND t.completed_at IS NULL
