-- A schedule by name, locked for a change, and the current time. The lock makes changes and the scheduler's decision
-- about the same schedule wait for each other, so that neither works on a version that the other has replaced.
SELECT {{template "columns" .}}, clock_timestamp()
FROM {{.Table}} AS t
WHERE t.name = $1
FOR NO KEY UPDATE
