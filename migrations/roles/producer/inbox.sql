-- Receive returns the state of a message that exists already.
GRANT SELECT (status, body_hash) ON {{.Q .Table}} TO {{.Role "producer"}};
