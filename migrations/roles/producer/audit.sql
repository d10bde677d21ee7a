-- Operators add to the audit, and change nothing that is there. When, and by which role, the server says.
GRANT INSERT (who, origin, action, event, verb, target, about, rows) ON TABLE {{.Q .Table}} TO {{.Role "operator"}};
