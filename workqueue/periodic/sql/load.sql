-- The schedule that a scheduler has claimed, as it is now and not as it was when it was claimed: whoever
-- changes it holds the same lock. No plan but the one by primary key is of use.
SELECT {{template "columns" .}}, clock_timestamp()
FROM {{.Table}} AS t
WHERE t.id = $1
FOR NO KEY UPDATE
