-- The writers' locks of several serial keys, in one order for everybody, before rows of them are written.
SELECT pg_advisory_xact_lock(k.lock)
FROM (SELECT DISTINCT {{.WriterLock "u.key"}} AS lock FROM unnest($1::text[]) AS u (key) ORDER BY 1) AS k
