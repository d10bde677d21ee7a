-- Takes the free leaderships of tables, renews those that the candidate has, and returns who leads each table. A new
-- holder gets a new term. A holder keeps its term even if its lease has expired, since no other candidate has led in
-- between.
--
-- It never waits for a lock, except while another candidate inserts the same leadership: an expired lease whose row is
-- locked belongs to the last batch of the old leader, or is being taken. Rows are inserted in the order of their names,
-- so two candidates cannot deadlock. A locked row is the newest version, and that one is updated.
--
-- A lease that was granted later than now comes from a clock that has been set back, and would outlast its holder; it
-- is free, too. A candidate that is not elected learns when the current lease ends.
WITH free AS MATERIALIZED (
    SELECT c.name
    FROM {{leader}} AS c
    WHERE c.name = ANY ($1::text[])
      AND (c.holder = $2::uuid OR c.expires_at <= clock_timestamp() OR c.granted_at > clock_timestamp())
    FOR NO KEY UPDATE SKIP LOCKED
), taken AS (
    UPDATE {{leader}} AS l
    SET term = l.term + CASE WHEN l.holder = $2::uuid THEN 0 ELSE 1 END,
        holder = $2::uuid,
        expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond',
        granted_at = clock_timestamp()
    FROM free AS f
    WHERE l.name = f.name
    RETURNING l.name, l.term
), founded AS (
    INSERT INTO {{leader}} (name, term, holder, expires_at, granted_at)
    SELECT w.name, 1, $2::uuid, clock_timestamp() + $3::bigint * interval '1 microsecond', clock_timestamp()
    FROM unnest($1::text[]) AS w (name)
    WHERE NOT EXISTS (SELECT FROM {{leader}} AS c WHERE c.name = w.name)
    ORDER BY w.name
    ON CONFLICT (name) DO NOTHING
    RETURNING name, term
)
SELECT t.name AS table, true AS elected, t.term, 0::float8 AS seconds FROM taken AS t
UNION ALL
SELECT f.name, true, f.term, 0 FROM founded AS f
UNION ALL
SELECT c.name, false, c.term, extract(epoch FROM c.expires_at - clock_timestamp())::float8
FROM {{leader}} AS c
WHERE c.name = ANY ($1::text[]) AND NOT EXISTS (SELECT FROM taken AS t WHERE t.name = c.name)
