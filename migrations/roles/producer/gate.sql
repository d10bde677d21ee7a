-- A row that comes to a gate looks whether others of its key are before it.
GRANT SELECT (gate_key, gate_limit, gate_policy, gate_seq, waiting, completed_at, failed_at, cancelled_at)
ON {{.Q .Table}} TO {{.Role "producer"}};
