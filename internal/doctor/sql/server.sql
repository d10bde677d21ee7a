-- The session's role and database, the server's version, and its time, and the role viewer of `txwork roles` that the
-- role is, or is a member of: empty if there is none.
SELECT current_user::text, current_database()::text, current_setting('server_version'), clock_timestamp(),
    coalesce((
        SELECT min(r.rolname::text) FROM pg_roles AS r
        WHERE r.rolname LIKE '%\_viewer' AND pg_has_role(r.oid, 'MEMBER')), '')
