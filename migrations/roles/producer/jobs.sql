-- Replace gives a ready job that has the unique key new args. It encodes them for that job, by its kind and headers.
GRANT SELECT (kind, headers, status), UPDATE (args, priority, due_at) ON {{.Q .Table}} TO {{.Role "producer"}};
