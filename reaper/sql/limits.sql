-- Limits for one short transaction. lock_timeout skips a table on which another session holds an exclusive lock.
-- statement_timeout ends a batch that takes too long: a reap reads every due row, some microseconds each, so this is a
-- backlog of ten million rows. idle_in_transaction_session_timeout ends the transaction of a leader whose process froze
-- in the middle of it, and which would otherwise lock the leader row until it continues. A condition that refuses a
-- session that does not fit is appended.
SELECT pg_catalog.set_config('lock_timeout', $2::pg_catalog.text, true),
       pg_catalog.set_config('statement_timeout', '60s', true),
       pg_catalog.set_config('idle_in_transaction_session_timeout', $1::pg_catalog.text, true)
