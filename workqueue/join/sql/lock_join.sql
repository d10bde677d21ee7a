-- Locks the join so that its counts and its status cannot change.
SELECT j.status, coalesce(j.on_complete, '00000000-0000-0000-0000-000000000000'),
       coalesce(j.on_fail, '00000000-0000-0000-0000-000000000000')
FROM {{.Join}} AS j
WHERE j.id = $1::uuid
FOR NO KEY UPDATE
