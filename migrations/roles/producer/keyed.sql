-- A row that comes to a key looks whether others of its key are before it, and leaves a note.
GRANT SELECT (concurrency_key, key_limit, key_policy, key_seq, waiting, completed_at, failed_at, cancelled_at)
ON {{.Q .Table}} TO {{.Role "producer"}};
GRANT INSERT ON TABLE {{.Q (print .Table "_key_note")}} TO {{.Role "producer"}};
GRANT EXECUTE ON FUNCTION {{.Q (print .Table "_key_place")}} TO {{.Role "producer"}};
