-- Replication slots without a reader that retain more than $1 bytes of write-ahead log.
SELECT s.slot_name::text AS name, s.slot_type AS type, pg_wal_lsn_diff(
           CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
           s.restart_lsn)::bigint AS bytes
FROM pg_replication_slots AS s
WHERE NOT s.active AND s.restart_lsn IS NOT NULL
  AND pg_wal_lsn_diff(
          CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
          s.restart_lsn) > $1::bigint
ORDER BY bytes DESC
LIMIT $2::int
