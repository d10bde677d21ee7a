-- Nothing -> pending, with the steps counted that have ended already. Nobody else can see these rows.
INSERT INTO {{.Join}} (id, policy, expected, succeeded, failed, on_complete, on_fail, deadline, label, look_at, retention)
SELECT s.id, s.policy, s.expected, s.succeeded, s.failed, s.on_complete, s.on_fail, s.deadline, s.label,
       least(s.deadline, now() + interval '1 minute'), s.retention
FROM jsonb_to_recordset($1::text::jsonb) AS s (
    id uuid, policy smallint, expected integer, succeeded integer, failed integer, on_complete uuid, on_fail uuid,
    deadline timestamptz, label text, retention interval)
