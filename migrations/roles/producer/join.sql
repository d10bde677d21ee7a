-- Joins: starting one locks its members and marks them. Only the worker ends one: a join that is over when it starts,
-- since it has no members or they have settled, is the worker's to start, and steps are the worker's to add.
GRANT SELECT (status, waiting, joined), UPDATE (joined) ON {{.Q .Table}} TO {{.Role "producer"}};
GRANT INSERT, SELECT (id, on_complete, on_fail) ON {{.Q (print .Table "_join")}} TO {{.Role "producer"}};
GRANT INSERT, SELECT ON {{.Q (print .Table "_join_member")}} TO {{.Role "producer"}};
