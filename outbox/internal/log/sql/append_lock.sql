-- Takes the locks of the writers of some keys, in the same order in every transaction, before the messages are written:
-- so numbers are drawn under them. If there are more keys than a quarter of the server's lock table, it takes none.
WITH k AS MATERIALIZED (
    SELECT DISTINCT {{.WriterLock "u.key"}} AS lock FROM unnest($1::text[]) AS u (key) ORDER BY 1
)
SELECT pg_advisory_xact_lock(k.lock)
FROM k
WHERE (SELECT count(*) FROM k) <= {{.MaxTurns}}
