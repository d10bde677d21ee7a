-- Receive tells what became of a message that is there already.
GRANT SELECT (status, body_hash) ON {{.Q .Table}} TO {{.Role "producer"}};
