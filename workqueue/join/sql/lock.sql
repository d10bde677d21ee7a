-- The rows that are to be members or continuations, locked in the order of their ids. The lock excludes a
-- settle: one that is under way is waited for and seen here, one that comes later waits until this
-- transaction has ended and then finds its memberships. Rows of this same transaction wait for nobody. A row
-- that waits for its key does not wait for a join.
SELECT t.id, t.status, t.waiting{{if .Keyed}} AND t.key_seq IS NULL{{end}}, coalesce(t.joined, false)
FROM {{.Table}} AS t
WHERE t.id = ANY ($1::uuid[])
ORDER BY t.id
FOR NO KEY UPDATE
