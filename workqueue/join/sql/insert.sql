-- Nothing -> pending. Nobody else can see these rows. Steps that have ended already are counted by count_ended.sql,
-- so that who may only insert cannot write what a join has counted.
INSERT INTO {{.Join}} (id, policy, expected, on_complete, on_fail, deadline, label, look_at, retention)
SELECT s.id, s.policy, s.expected, s.on_complete, s.on_fail, s.deadline, s.label,
       least(s.deadline, now() + interval '1 minute'), s.retention
FROM jsonb_to_recordset($1::text::jsonb) AS s (
    id uuid, policy smallint, expected integer, on_complete uuid, on_fail uuid, deadline timestamptz, label text, retention interval)
