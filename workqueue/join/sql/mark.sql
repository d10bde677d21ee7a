-- Lets the triggers see the rows that were inserted without the flag. They are locked already.
UPDATE {{.Table}} AS t SET joined = true WHERE t.id = ANY ($1::uuid[]) AND t.joined IS NOT TRUE
