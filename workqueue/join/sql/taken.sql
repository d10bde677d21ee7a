-- Existing joins that conflict with new ones: joins with the same id, and joins that already have one of the rows as
-- their continuation. The rows are locked, so no other transaction can take one meanwhile.
SELECT j.id, coalesce(j.on_complete, '00000000-0000-0000-0000-000000000000'),
       coalesce(j.on_fail, '00000000-0000-0000-0000-000000000000')
FROM {{.Join}} AS j
WHERE j.id = ANY ($1::uuid[])
UNION ALL
SELECT j.id, coalesce(j.on_complete, '00000000-0000-0000-0000-000000000000'),
       coalesce(j.on_fail, '00000000-0000-0000-0000-000000000000')
FROM {{.Join}} AS j
WHERE j.on_complete = ANY ($2::uuid[])
UNION ALL
SELECT j.id, coalesce(j.on_complete, '00000000-0000-0000-0000-000000000000'),
       coalesce(j.on_fail, '00000000-0000-0000-0000-000000000000')
FROM {{.Join}} AS j
WHERE j.on_fail = ANY ($2::uuid[])
