-- Nothing -> pending. No other transaction can see these rows yet. Notes make a fold look at each join at its deadline,
-- and at a join without members at once.
WITH s AS (
    SELECT *
    FROM jsonb_to_recordset($1::text::jsonb) AS s (
        id pg_catalog.uuid, policy smallint, expected integer, on_complete pg_catalog.uuid, on_fail pg_catalog.uuid,
        deadline pg_catalog.timestamptz, label pg_catalog.text, retention interval)
), noted AS (
    INSERT INTO {{.Note}} (at, join_id)
    SELECT clock_timestamp(), s.id FROM s WHERE s.expected = 0
    UNION ALL
    SELECT greatest(s.deadline, clock_timestamp()), s.id FROM s WHERE s.deadline IS NOT NULL
    RETURNING (SELECT {{.Announce.Note}})
)
INSERT INTO {{.Join}} (id, policy, expected, on_complete, on_fail, deadline, label, look_at, retention)
SELECT s.id, s.policy, s.expected, s.on_complete, s.on_fail, s.deadline, s.label, now() + interval '1 minute',
       s.retention
FROM s
