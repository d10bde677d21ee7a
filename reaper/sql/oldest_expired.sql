-- How long ago the oldest expired lease ended. Reads the index of live rows.
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(r.locked_until)), 0)::float8 AS seconds
FROM {{table}} AS r
WHERE r.completed_at IS NULL AND NOT r.waiting AND r.status = 1 AND r.locked_until < now()
