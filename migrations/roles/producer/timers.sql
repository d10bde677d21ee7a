-- Setting, moving and cancelling a timer changes the row with its key, so the producer reads and updates timers,
-- payloads included. It cannot write locked_until, so the table's check prevents it from claiming a timer or settling a
-- firing.
GRANT SELECT, UPDATE (
    topic, payload, headers, fire_at, generation, due_at, max_attempts, attempts, status, waiting, owner_token,
    completed_at, failed_at, cancelled_at, last_error,
    rearm_at, rearm_topic, rearm_payload, rearm_headers, rearm_max_attempts
) ON {{.Q .Table}} TO {{.Role "producer"}};
GRANT EXECUTE ON FUNCTION {{.Q "timers_cancel"}}(text[]) TO {{.Role "producer"}};
-- A new timer does not fire.
REVOKE INSERT (rearm_at, rearm_topic, rearm_payload, rearm_headers, rearm_max_attempts)
ON {{.Q .Table}} FROM {{.Role "producer"}};
