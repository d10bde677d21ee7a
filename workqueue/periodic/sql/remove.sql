-- Deletes a schedule in any state. If a scheduler is deciding about it, one of the two waits for the other; a scheduler
-- that comes second finds no row and writes nothing.
DELETE FROM {{.Table}} WHERE name = $1
