-- Joins: starting one locks its members and marks them. Only the worker ends one: a join that is over when it starts,
-- since it has no members or they have settled, is the worker's to start, and steps are the worker's to add.
GRANT SELECT (status, waiting, joined), UPDATE (joined) ON {{.Q .Table}} TO {{.Role "producer"}};
GRANT INSERT (id, policy, expected, on_complete, on_fail, deadline, label, look_at, retention), SELECT (id, on_complete, on_fail)
ON {{.Q (print .Table "_join")}} TO {{.Role "producer"}};
GRANT INSERT (member_id, join_id, outcome), SELECT ON {{.Q (print .Table "_join_member")}} TO {{.Role "producer"}};
