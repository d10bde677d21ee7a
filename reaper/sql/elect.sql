-- Takes the leadership or renews it, and tells the term. A new holder gets a new term. The holder keeps
-- its own even if its lease has ended, since nobody else has led in between.
-- It waits for nobody, except for who founds the same election this moment: an ended lease whose row is
-- locked belongs to the last batch of the old leader, or is being taken. The subquery is an InitPlan and
-- runs once; the row it has locked is the newest version, and the one that is updated.
-- A lease that was granted later than now is one of a clock that has been set back: it would outlast its holder.
-- Who is not elected learns when the current lease ends.
WITH taken AS (
    UPDATE {{leader}} AS l
    SET term = l.term + CASE WHEN l.holder = $2::uuid THEN 0 ELSE 1 END,
        holder = $2::uuid,
        expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond',
        granted_at = clock_timestamp()
    WHERE l.name = (
        SELECT c.name
        FROM {{leader}} AS c
        WHERE c.name = $1::text
          AND (c.holder = $2::uuid OR c.expires_at <= clock_timestamp() OR c.granted_at > clock_timestamp())
        FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING l.term
), founded AS (
    INSERT INTO {{leader}} (name, term, holder, expires_at, granted_at)
    SELECT $1::text, 1, $2::uuid, clock_timestamp() + $3::bigint * interval '1 microsecond', clock_timestamp()
    WHERE NOT EXISTS (SELECT FROM {{leader}} AS c WHERE c.name = $1::text)
    ON CONFLICT (name) DO NOTHING
    RETURNING term
)
SELECT true AS elected, t.term, 0::float8 AS seconds FROM taken AS t
UNION ALL
SELECT true, f.term, 0 FROM founded AS f
UNION ALL
SELECT false, c.term, extract(epoch FROM c.expires_at - clock_timestamp())::float8
FROM {{leader}} AS c
WHERE c.name = $1::text AND NOT EXISTS (SELECT FROM taken)
