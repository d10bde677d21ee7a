-- Which of the rows no other session holds locked at this moment. It never waits and changes nothing.
SELECT r.id
FROM {{.Table}} AS r
WHERE r.id = ANY (@ids::uuid[])
FOR NO KEY UPDATE SKIP LOCKED
