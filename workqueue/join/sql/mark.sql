-- Sets the flag that makes the triggers watch the rows, where it is not set yet. The rows are locked already.
UPDATE {{.Table}} AS t SET joined = true WHERE t.id = ANY ($1::uuid[]) AND t.joined IS NOT TRUE
