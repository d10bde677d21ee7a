-- Takes the writers' locks of several ordered keys before their rows are written, in the same order in every
-- transaction. If there are more keys than a transaction may write, it takes none: the insert then refuses them with a
-- message.
WITH k AS MATERIALIZED (
    SELECT DISTINCT {{.WriterLock "u.key"}} AS lock FROM unnest($1::text[]) AS u (key) ORDER BY 1
)
SELECT pg_advisory_xact_lock(k.lock)
FROM k
WHERE (SELECT count(*) FROM k) <= {{.MaxTurns}}
