-- Which of the rows nobody holds locked this moment: waits for nobody, changes nothing.
SELECT r.id
FROM {{.Table}} AS r
WHERE r.id = ANY (@ids::uuid[])
FOR NO KEY UPDATE SKIP LOCKED
