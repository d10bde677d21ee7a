-- The rows that hold the keys with which a Receive conflicted. It only reads, so it never waits. If a holder is purged
-- before it is read, the result is the same as if it had been purged before the Receive.
SELECT t.id, t.status, coalesce(t.body_hash, ''::bytea) AS body_hash
FROM {{.Table}} AS t
WHERE t.id = ANY ($1::uuid[])
