-- Replace overwrites a Ready job that has the same unique key with the new job.
GRANT SELECT (status, attempts, trail, unique_key),
    UPDATE (args, queue, priority, due_at, headers, max_attempts, retry, unique_states, schedule, concurrency_key,
        key_limit, key_policy, key_rate, key_burst, attempts, last_error, trail, progress, progress_note, output)
ON {{.Q .Table}} TO {{.Role "producer"}};
-- What a job has become is not the producer's to say.
REVOKE INSERT (slot, trail, freed_key, progress, progress_note, output) ON {{.Q .Table}} FROM {{.Role "producer"}};
