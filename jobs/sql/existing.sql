-- The places of those of some ids whose jobs exist. Reads only, by the primary key.
SELECT w.place
FROM unnest($1::uuid[]) WITH ORDINALITY AS w (id, place)
WHERE EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = w.id)
