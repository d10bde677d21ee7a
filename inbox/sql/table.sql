-- The inbox's additions to the core's table. The index finds payloads past their retention. It leaves out rows without
-- a payload, such as tombstones and messages of Process, and dead letters, which keep their payloads.
CREATE INDEX {{.Named "payload_idx"}} ON {{.Table}} (completed_at)
WHERE completed_at IS NOT NULL AND failed_at IS NULL AND payload IS NOT NULL;

-- A message of Process is Done when it is inserted, so there is nothing to announce. A NOTIFY would also serialize all
-- commits of the database that notify.
DROP TRIGGER {{.Named "announce"}} ON {{.Table}};

CREATE TRIGGER {{.Named "announce"}} AFTER INSERT ON {{.Table}}
FOR EACH STATEMENT WHEN (current_setting('txwork.announce', true) IS DISTINCT FROM 'off')
EXECUTE FUNCTION {{.Function "announce"}}();
