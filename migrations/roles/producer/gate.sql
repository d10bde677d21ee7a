-- A row that comes to a gate looks whether others of its key are before it, and leaves a note.
GRANT SELECT (gate_key, gate_limit, gate_policy, gate_seq, waiting, completed_at, failed_at, cancelled_at)
ON {{.Q .Table}} TO {{.Role "producer"}};
GRANT INSERT ON TABLE {{.Q (print .Table "_gate_note")}} TO {{.Role "producer"}};
GRANT EXECUTE ON FUNCTION {{.Q (print .Table "_gate_place")}} TO {{.Role "producer"}};
