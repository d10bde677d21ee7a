-- The session's role and database, the server's version, and its time.
SELECT current_user::text, current_database()::text, current_setting('server_version'), clock_timestamp()
