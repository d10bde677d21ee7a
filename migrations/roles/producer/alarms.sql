-- The API creates alarms, shows them to their owners and cancels them.
GRANT SELECT, INSERT, UPDATE (status, claimed_at, updated_at) ON {{.Q .Table}} TO {{.Role "producer"}};
