-- Operators make, change, move and remove subscriptions by their functions, which lock the row of the state against
-- trim, and need a right to write for it: that column never changes.
GRANT INSERT, DELETE, UPDATE (topics, prefixes, headers, lanes, paused, max_age, max_messages)
ON {{.Q "outbox_log_subscription"}} TO {{.Role "operator"}};
GRANT INSERT, UPDATE, DELETE ON {{.Q "outbox_log_position"}} TO {{.Role "operator"}};
GRANT INSERT ON {{.Q "outbox_log_loss"}} TO {{.Role "operator"}};
GRANT UPDATE (one) ON {{.Q "outbox_log_state"}} TO {{.Role "operator"}};

-- Both cancel what is scheduled.
GRANT DELETE, UPDATE (due_at) ON {{.Q "outbox_log_later"}} TO {{.Role "worker"}}, {{.Role "operator"}};
