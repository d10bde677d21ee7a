-- The existing rows with the ids that an insert conflicted with.
SELECT s.ord, t.id
FROM unnest(@ids::uuid[]) WITH ORDINALITY AS s (id, ord)
JOIN {{.Table}} AS t ON t.id = s.id
