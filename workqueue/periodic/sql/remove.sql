-- Deletes a schedule, whatever its state. A scheduler that holds it waits for this transaction or this one
-- for it; it then finds nothing and writes nothing.
DELETE FROM {{.Table}} WHERE name = $1
