-- Writes a message under the lock of its key's writers, in one round trip.
SELECT {{.Named "append"}}($2::text, $5::bytea, $3::text, $4::text::jsonb, $1::uuid)
