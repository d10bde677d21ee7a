-- The producer writes messages, and draws their numbers. It reads nothing, not even what it wrote, except which dedup
-- keys are taken, by which ids, and until when messages of a key are scheduled. Workers enqueue, too, and a tick says
-- which number was the last.
GRANT INSERT (id, topic, key, headers, payload) ON {{.Q .Table}} TO {{.Role "producer"}}, {{.Role "worker"}};
GRANT SELECT ON SEQUENCE {{.Q (print .Table "_seq")}} TO {{.Role "worker"}};
GRANT USAGE ON SEQUENCE {{.Q (print .Table "_seq")}} TO {{.Role "producer"}}, {{.Role "worker"}};
GRANT INSERT (topic, dedup_key, id), SELECT (topic, dedup_key, id) ON {{.Q (print .Table "_dedup")}}
TO {{.Role "producer"}}, {{.Role "worker"}};
GRANT INSERT (id, due_at, scheduled_at, ordered, topic, key, headers, payload, dedup_key), SELECT (key, due_at, ordered)
ON {{.Q (print .Table "_later")}} TO {{.Role "producer"}}, {{.Role "worker"}};
