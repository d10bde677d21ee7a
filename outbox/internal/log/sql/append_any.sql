-- Writes messages in their order, of which some have a dedup key, are scheduled, or may be behind one that is. Those
-- whose dedup key is taken are not written. It waits for other transactions that write one of the dedup keys, which it
-- takes in one order. Of several with one of them, the first is written. The locks of the keys' writers are held.
-- Returns the numbers of those that were to be written, and how many were stored. The function turn refuses a role that
-- does not see all that is scheduled.
WITH m AS MATERIALIZED (
    SELECT m.*, row_number() OVER (PARTITION BY m.topic, m.dedup_key ORDER BY m.ord) AS nth,
        m.key <> '' AND $8::boolean AS ordered,
        CASE WHEN m.scheduled_at > clock_timestamp() THEN m.scheduled_at END AS due_at
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::text[], $7::timestamptz[])
        WITH ORDINALITY AS m (id, topic, key, headers, payload, dedup_key, scheduled_at, ord)
), sees AS MATERIALIZED (
    SELECT CASE WHEN {{.HidesLater}} THEN {{.Named "turn"}}((SELECT max(m.key) FROM m WHERE m.ordered)) END AS refused
), fresh AS (
    INSERT INTO {{.Named "dedup"}} AS d (topic, dedup_key, id)
    SELECT m.topic, m.dedup_key, m.id FROM m WHERE m.dedup_key <> '' AND m.nth = 1 ORDER BY m.topic, m.dedup_key
    ON CONFLICT DO NOTHING
    RETURNING d.topic, d.dedup_key
), new AS MATERIALIZED (
    SELECT m.ord, m.id, m.topic, nullif(m.key, '') AS key, m.headers::jsonb AS headers, m.payload, m.ordered,
        nullif(m.dedup_key, '') AS dedup_key, m.scheduled_at,
        CASE WHEN m.ordered THEN greatest((SELECT s.refused FROM sees AS s), h.due_at,
            max(m.due_at) OVER (PARTITION BY m.ordered, m.key ORDER BY m.ord))
            ELSE m.due_at END AS due_at
    FROM m
    LEFT JOIN fresh AS f ON f.topic = m.topic AND f.dedup_key = m.dedup_key
    LEFT JOIN LATERAL (
        SELECT max(l.due_at) AS due_at FROM {{.Named "later"}} AS l WHERE m.ordered AND l.ordered AND l.key = m.key
    ) AS h ON true
    WHERE m.dedup_key = '' OR m.nth = 1 AND f.topic IS NOT NULL
), later AS (
    INSERT INTO {{.Named "later"}} (id, due_at, scheduled_at, ordered, topic, key, headers, payload, dedup_key)
    SELECT n.id, n.due_at, coalesce(n.scheduled_at, now()), n.ordered, n.topic, n.key, n.headers, n.payload, n.dedup_key
    FROM new AS n WHERE n.due_at IS NOT NULL ORDER BY n.ord
    RETURNING 1
), stored AS (
    INSERT INTO {{.Log}} (id, topic, key, headers, payload)
    SELECT n.id, n.topic, n.key, n.headers, n.payload FROM new AS n WHERE n.due_at IS NULL ORDER BY n.ord
    RETURNING 1
)
SELECT n.ord, (SELECT count(*) FROM later) + (SELECT count(*) FROM stored) FROM new AS n
