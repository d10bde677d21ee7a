-- How long ago the oldest done or cancelled row ended, by one step of their index.
SELECT extract(epoch FROM now() - min(r.completed_at))::float8 AS age
FROM {{.Table}} AS r
WHERE r.completed_at IS NOT NULL AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
