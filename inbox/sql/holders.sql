-- The rows that hold the keys which a Receive found taken: reads only, waits for nobody. That a holder is
-- purged before it is read is as if it had been purged before the Receive was told of it.
SELECT t.id, t.status, coalesce(t.body_hash, ''::bytea) AS body_hash
FROM {{.Table}} AS t
WHERE t.id = ANY ($1::uuid[])
