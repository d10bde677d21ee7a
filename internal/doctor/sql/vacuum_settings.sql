-- What autovacuum needs and does not have.
SELECT s.name
FROM pg_settings AS s
WHERE s.name IN ('autovacuum', 'track_counts') AND s.setting = 'off'
ORDER BY s.name
