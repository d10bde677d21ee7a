-- Sessions of other roles of which this role sees no more than that they are there.
SELECT count(*)
FROM pg_catalog.pg_stat_activity AS a
WHERE a.usesysid IS NOT NULL AND a.backend_type IS NULL
