-- Writes messages in their order: each row draws its number when it is written, so numbers have it, too.
INSERT INTO {{.Log}} (id, topic, key, headers, payload)
SELECT m.id, m.topic, nullif(m.key, ''), m.headers::jsonb, m.payload
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[])
    WITH ORDINALITY AS m (id, topic, key, headers, payload, ord)
ORDER BY m.ord
