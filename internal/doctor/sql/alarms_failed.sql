-- Which of these alarms have failed, in the order of their ids' list.
SELECT l.place::bigint AS place, a.id::text AS id, a.label, a.kind, a.last_error AS error
FROM unnest($1::uuid[]) WITH ORDINALITY AS l (id, place)
JOIN {{.Table}} AS a ON a.id = l.id
WHERE a.status = 'failed'
ORDER BY l.place
