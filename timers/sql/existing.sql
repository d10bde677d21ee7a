-- The places of those of some keys that timers have. Reads only, by the unique index.
SELECT w.place
FROM unnest($1::text[]) WITH ORDINALITY AS w (key, place)
WHERE EXISTS (SELECT FROM {{.Table}} AS t WHERE t.key = w.key)
