-- Takes the leadership of tables that is free, renews what the candidate has, and tells who leads each of them.
-- A new holder gets a new term. The holder keeps its own even if its lease has ended, since nobody else has led in
-- between.
-- It waits for nobody, except for who founds the same election this moment: an ended lease whose row is locked
-- belongs to the last batch of the old leader, or is being taken. Founders go by name, so two cannot wait for each
-- other. A row that was locked is the newest version, and the one that is updated.
-- A lease that was granted later than now is one of a clock that has been set back: it would outlast its holder.
-- Who is not elected learns when the current lease ends.
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
