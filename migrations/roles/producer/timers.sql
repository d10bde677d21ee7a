-- Timers are set, moved and cancelled in the row that has the key, so the producer reads and changes them, payloads
-- included. It cannot write locked_until: the table's check then lets it neither claim nor settle a timer that fires.
GRANT SELECT, UPDATE (
    topic, payload, headers, fire_at, generation, due_at, max_attempts, attempts, status, waiting, owner_token,
    completed_at, failed_at, cancelled_at, last_error,
    rearm_at, rearm_topic, rearm_payload, rearm_headers, rearm_max_attempts
) ON {{.Q .Table}} TO {{.Role "producer"}};
