-- Takes the free leaderships of tables, renews those that the candidate has, and returns who leads each table. A new
-- holder gets a new term. A holder keeps its term even if its lease has expired, since no other candidate has led in
-- between.
--
-- It writes what kept the candidate's last round from serving each table to the end, which a new leader clears.
--
-- It never waits for a lock, except while another candidate inserts the same leadership: an expired lease whose row is
-- locked belongs to the last batch of the old leader, or is being taken. Rows are inserted in the order of their names,
-- so two candidates cannot deadlock. A locked row is the newest version, and that one is updated.
--
-- A role from which row-level security hides rows of a table is not elected for it: it would leave the expired leases
-- that it does not see, and keep others from requeuing them.
--
-- A lease that was granted later than now comes from a clock that has been set back, and would outlast its holder; it
-- is free, too. A candidate that is not elected learns when the current lease ends.
WITH candidate AS MATERIALIZED (
    SELECT w.name, EXISTS (
        SELECT FROM pg_catalog.pg_class AS c
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = split_part(w.name, '.', 1) AND c.relname = split_part(w.name, '.', 2)
          AND row_security_active(c.oid)) AS hidden
    FROM unnest($1::text[]) AS w (name)
), free AS MATERIALIZED (
    SELECT c.name
    FROM {{leader}} AS c
    WHERE c.name = ANY (ARRAY(SELECT w.name FROM candidate AS w WHERE NOT w.hidden))
      AND (c.holder = $2::uuid OR c.expires_at <= clock_timestamp() OR c.granted_at > clock_timestamp())
    FOR NO KEY UPDATE SKIP LOCKED
), taken AS (
    UPDATE {{leader}} AS l
    SET term = CASE
            WHEN l.holder = $2::uuid THEN l.term
            WHEN l.term < 9223372036854775807 THEN l.term + 1
            ELSE 1 END,
        holder = $2::uuid,
        expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond',
        granted_at = clock_timestamp(),
        problem = nullif(($4::text[])[array_position($1::text[], l.name)], '')
    FROM free AS f
    WHERE l.name = f.name
    RETURNING l.name, l.term
), founded AS (
    INSERT INTO {{leader}} (name, term, holder, expires_at, granted_at)
    SELECT w.name, 1, $2::uuid, clock_timestamp() + $3::bigint * interval '1 microsecond', clock_timestamp()
    FROM candidate AS w
    WHERE NOT w.hidden AND NOT EXISTS (SELECT FROM {{leader}} AS c WHERE c.name = w.name)
    ORDER BY w.name
    ON CONFLICT (name) DO NOTHING
    RETURNING name, term
)
SELECT t.name AS table, true AS elected, t.term, 0::float8 AS seconds, false AS hidden FROM taken AS t
UNION ALL
SELECT f.name, true, f.term, 0, false FROM founded AS f
UNION ALL
SELECT w.name, false, coalesce(c.term, 0), coalesce(extract(epoch FROM c.expires_at - clock_timestamp()), 0)::float8,
       w.hidden
FROM candidate AS w
LEFT JOIN {{leader}} AS c ON c.name = w.name
WHERE (c.name IS NOT NULL OR w.hidden) AND NOT EXISTS (SELECT FROM taken AS t WHERE t.name = w.name)
