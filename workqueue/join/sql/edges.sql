-- The edges of the graph from these rows: the continuations of the joins that have them as members.
SELECT m.member_id, c.id
FROM {{.Member}} AS m
JOIN {{.Join}} AS j ON j.id = m.join_id
CROSS JOIN LATERAL (VALUES (j.on_complete), (j.on_fail)) AS c (id)
WHERE m.member_id = ANY ($1::uuid[]) AND c.id IS NOT NULL
