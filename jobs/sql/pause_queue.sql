-- Pauses a queue, or ends its pause. Its limits stay.
INSERT INTO {{.Queue}} AS q (name, paused) VALUES ($1::text, $2::boolean)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, changed_at = clock_timestamp()
