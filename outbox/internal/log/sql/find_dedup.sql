-- The ids of the messages that have dedup keys, with the numbers of the keys.
SELECT k.ord, d.id
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (topic, dedup_key, ord)
JOIN {{.Named "dedup"}} AS d ON d.topic = k.topic AND d.dedup_key = k.dedup_key
