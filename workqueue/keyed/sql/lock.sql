-- The writers' locks of several ordered keys, in one order for everybody, before rows of them are written. More than one
-- transaction may have are not taken: the insert refuses them with a message.
WITH k AS MATERIALIZED (
    SELECT DISTINCT {{.WriterLock "u.key"}} AS lock FROM unnest($1::text[]) AS u (key) ORDER BY 1
)
SELECT pg_advisory_xact_lock(k.lock)
FROM k
WHERE (SELECT count(*) FROM k) <= {{.MaxTurns}}
