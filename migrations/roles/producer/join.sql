-- Joins: starting one locks its members and marks them, and notes what has settled already. Only the worker counts and
-- ends one, and steps are the worker's to add.
GRANT SELECT (status, waiting, joined), UPDATE (joined) ON {{.Q .Table}} TO {{.Role "producer"}};
GRANT INSERT (id, policy, expected, on_complete, on_fail, deadline, label, look_at, retention), SELECT (id, on_complete, on_fail)
ON {{.Q (print .Table "_join")}} TO {{.Role "producer"}};
GRANT INSERT (member_id, join_id), SELECT ON {{.Q (print .Table "_join_member")}} TO {{.Role "producer"}};
GRANT INSERT ON {{.Q (print .Table "_join_note")}} TO {{.Role "producer"}};
