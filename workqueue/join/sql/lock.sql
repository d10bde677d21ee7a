-- Locks the future members and continuations in the order of their ids. The lock excludes a settle: this statement
-- waits for a settle that is under way and sees its result; a later settle waits until this transaction has ended and
-- then finds the memberships. Locking rows of the same transaction never waits. A row that waits
-- for its key does not count as waiting here.
SELECT t.id, t.status, {{.WaitsForJoin "t"}}, coalesce(t.joined, false)
FROM {{.Table}} AS t
WHERE t.id = ANY ($1::uuid[])
ORDER BY t.id
FOR NO KEY UPDATE
