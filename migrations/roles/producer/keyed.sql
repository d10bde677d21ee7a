-- Inserting a row with a key reads the places of the key's other rows, and writes a note.
GRANT SELECT (concurrency_key, key_limit, key_policy, key_seq, waiting, completed_at, failed_at, cancelled_at)
ON {{.Q .Table}} TO {{.Role "producer"}};
GRANT INSERT ON TABLE {{.Q (print .Table "_key_note")}} TO {{.Role "producer"}};
GRANT EXECUTE ON FUNCTION {{.Q (print .Table "_key_place")}} TO {{.Role "producer"}};
