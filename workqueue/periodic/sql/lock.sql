-- Locks the schedule for the decision, and tells whether it is the version that load.sql has read: whoever changes it
-- holds the same lock. No plan but the one by primary key is of use.
SELECT t.xmin::text = $2::text
FROM {{.Table}} AS t
WHERE t.id = $1
FOR NO KEY UPDATE
