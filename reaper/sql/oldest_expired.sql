-- How long ago the first of the leases that have ended did so. Reads the live-row index.
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(r.locked_until)), 0)::float8 AS seconds
FROM {{table}} AS r
WHERE r.completed_at IS NULL AND NOT r.waiting AND r.status = 1 AND r.locked_until < now()
