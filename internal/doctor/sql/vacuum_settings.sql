-- The settings that autovacuum needs and that are off.
SELECT s.name
FROM pg_settings AS s
WHERE s.name IN ('autovacuum', 'track_counts') AND s.setting = 'off'
ORDER BY s.name
