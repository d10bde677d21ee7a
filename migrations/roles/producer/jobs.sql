-- Replace overwrites a Ready job that has the same unique key with the new job.
GRANT SELECT (status, attempts, trail, unique_key),
    UPDATE (args, priority, due_at, headers, max_attempts, retry, unique_states, attempts, last_error, trail, progress,
        progress_note, output)
ON {{.Q .Table}} TO {{.Role "producer"}};
