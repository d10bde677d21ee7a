-- Locks the schedule for the decision, and returns whether it is the version that load.sql has read. Every change of
-- the schedule takes the same lock.
SELECT t.xmin::text = $2::text
FROM {{.Table}} AS t
WHERE t.id = $1
FOR NO KEY UPDATE
