-- What holds back vacuum, the oldest first. A snapshot (backend_xmin) holds back vacuum in its own database only. A
-- transaction that has written (backend_xid) does so in all databases, since every snapshot that is taken while it runs
-- starts there. VACUUM ignores other VACUUMs. A slot's catalog_xmin holds back the catalogs only. A standby's feedback
-- appears as its walsender, or as the slot that it uses; when its query began is not known here. Columns that the role
-- may not see are NULL.
SELECT h.*
FROM (
    SELECT CASE WHEN a.backend_type = 'walsender' THEN 'standby' ELSE 'transaction' END AS kind,
           a.pid,
           ''::text AS name,
           coalesce(a.usename, '')::text AS role,
           coalesce(a.datname, '')::text AS database,
           coalesce(a.application_name, '') AS application,
           coalesce(a.state, '') AS state,
           greatest(age(a.backend_xid), CASE
               WHEN a.datid IS NULL OR a.datid = 0 OR a.datname = current_database() THEN age(a.backend_xmin)
           END) AS xmin_age,
           extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds,
           false AS catalog_only,
           coalesce(host(a.client_addr), '') AS client,
           coalesce(a.backend_xmin, a.backend_xid)::text AS xmin
    FROM pg_catalog.pg_stat_activity AS a
    WHERE a.pid <> pg_backend_pid()
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_progress_vacuum AS v WHERE v.pid = a.pid)
    UNION ALL
    SELECT 'prepared_transaction', 0, p.gid, p.owner::text, p.database::text, '', 'prepared',
           age(p.transaction), extract(epoch FROM clock_timestamp() - p.prepared)::float8, false, '',
           p.transaction::text
    FROM pg_catalog.pg_prepared_xacts AS p
    UNION ALL
    SELECT 'replication_slot', coalesce(s.active_pid, 0), s.slot_name::text, '', coalesce(s.database, '')::text, '',
           CASE WHEN s.active THEN 'active' ELSE 'inactive' END,
           coalesce(age(s.xmin), age(s.catalog_xmin)), NULL, s.xmin IS NULL,
           coalesce((SELECT host(w.client_addr) FROM pg_catalog.pg_stat_activity AS w WHERE w.pid = s.active_pid), ''),
           coalesce(s.xmin, s.catalog_xmin)::text
    FROM pg_catalog.pg_replication_slots AS s
) AS h
WHERE h.xmin_age IS NOT NULL
ORDER BY h.catalog_only, h.xmin_age DESC, h.seconds DESC NULLS LAST
LIMIT $1::int
