-- Leaves what a scheduler has not written yet of what a schedule was triggered for. The scheduler has held the row's
-- lock since lock.sql. See advance.sql for the attempts.
UPDATE {{.Table}} AS t SET triggers = $2::text::jsonb, attempts = 1 WHERE t.id = $1
