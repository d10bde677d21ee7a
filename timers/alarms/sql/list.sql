-- A page of an owner's alarms, the newest first, after ($2, $3), by alarms_owner_idx. Reads only. The rows are chosen
-- before their payloads are read.
SELECT {{template "current" .}}
FROM (
    SELECT *
    FROM {{.Table}} AS o
    WHERE o.owner_did = $1::text
      AND (o.created_at, o.id) < (
          coalesce($2::timestamptz, 'infinity'), coalesce($3::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    ORDER BY o.created_at DESC, o.id DESC
    LIMIT $4::int
) AS a
{{template "timer" .}}
ORDER BY a.created_at DESC, a.id DESC
