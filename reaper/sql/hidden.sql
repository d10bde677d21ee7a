-- How many sessions of other roles hide their details from this role.
SELECT count(*)
FROM pg_catalog.pg_stat_activity AS a
-- A parallel worker that starts has no type yet, but its query is not hidden.
WHERE a.usesysid IS NOT NULL AND a.backend_type IS NULL AND a.query = '<insufficient privilege>'
