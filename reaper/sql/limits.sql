-- Bounds for one short transaction. The first lets a table be skipped on which somebody holds an exclusive
-- lock, the second a batch that grew out of hand (a reap reads every due row, some microseconds each, so
-- this is a backlog of ten million); the third ends the transaction of a leader that was frozen in the
-- middle of it, which would otherwise lock the leader row until it thaws.
SELECT set_config('lock_timeout', $2::text, true),
       set_config('statement_timeout', '60s', true),
       set_config('idle_in_transaction_session_timeout', $1::text, true)
