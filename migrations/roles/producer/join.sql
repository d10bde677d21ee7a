-- Starting a join locks and marks its members, and writes notes for those that have settled already. Only the worker
-- counts and ends joins, and adds members later.
GRANT SELECT (status, waiting, joined{{if .Keyed}}, key_seq{{end}}{{if .Topics}}, aside{{end}}), UPDATE (joined)
ON {{.Q .Table}} TO {{.Role "producer"}};
GRANT INSERT (id, policy, expected, on_complete, on_fail, deadline, label, look_at, retention),
    SELECT (id, on_complete, on_fail)
ON {{.Q (print .Table "_join")}} TO {{.Role "producer"}};
GRANT INSERT (member_id, join_id), SELECT ON {{.Q (print .Table "_join_member")}} TO {{.Role "producer"}};
GRANT INSERT ON {{.Q (print .Table "_join_note")}} TO {{.Role "producer"}};
