-- What the inbox adds to the core's table. The index finds payloads whose time is up and leaves out what
-- has none: tombstones, messages that Process ran, and dead letters, which keep theirs.
ALTER TABLE {{.Table}}
    ADD CONSTRAINT {{.Named "key_check"}} CHECK (
        octet_length(consumer) BETWEEN 1 AND {{.MaxKeyPart}}
        AND octet_length(source) BETWEEN 1 AND {{.MaxKeyPart}}
        AND octet_length(message_id) BETWEEN 1 AND {{.MaxKeyPart}}
    ),
    ADD CONSTRAINT {{.Named "hash_check"}} CHECK (octet_length(body_hash) = {{.HashSize}});

CREATE INDEX {{.Named "payload_idx"}} ON {{.Table}} (completed_at)
WHERE completed_at IS NOT NULL AND failed_at IS NULL AND payload IS NOT NULL;

-- A message that Process ran is Done when it is inserted: there is nothing to announce, and a NOTIFY would
-- make all commits of the database wait for each other.
DROP TRIGGER {{.Named "announce"}} ON {{.Table}};

CREATE TRIGGER {{.Named "announce"}} AFTER INSERT ON {{.Table}}
FOR EACH STATEMENT WHEN (current_setting('txwork.announce', true) IS DISTINCT FROM 'off')
EXECUTE FUNCTION {{.Function "announce"}}();
