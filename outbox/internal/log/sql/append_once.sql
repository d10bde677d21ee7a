-- Writes messages of which some have a dedup key, in their order, but for those whose key is taken. It waits for other
-- transactions that write one of the keys, which it takes in one order. Of several with one key, the first is written.
-- Returns the numbers of those that were to be written, and how many the log has stored.
WITH m AS MATERIALIZED (
    SELECT m.*, row_number() OVER (PARTITION BY m.topic, m.dedup_key ORDER BY m.ord) AS nth
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::text[])
        WITH ORDINALITY AS m (id, topic, key, headers, payload, dedup_key, ord)
), fresh AS (
    INSERT INTO {{.Named "dedup"}} AS d (topic, dedup_key, id)
    SELECT m.topic, m.dedup_key, m.id FROM m WHERE m.dedup_key <> '' AND m.nth = 1 ORDER BY m.topic, m.dedup_key
    ON CONFLICT DO NOTHING
    RETURNING d.topic, d.dedup_key
), new AS MATERIALIZED (
    SELECT m.*
    FROM m LEFT JOIN fresh AS f ON f.topic = m.topic AND f.dedup_key = m.dedup_key
    WHERE m.dedup_key = '' OR m.nth = 1 AND f.topic IS NOT NULL
), stored AS (
    INSERT INTO {{.Log}} (id, topic, key, headers, payload)
    SELECT n.id, n.topic, nullif(n.key, ''), n.headers::jsonb, n.payload FROM new AS n ORDER BY n.ord
    RETURNING 1
)
SELECT n.ord, (SELECT count(*) FROM stored) FROM new AS n
