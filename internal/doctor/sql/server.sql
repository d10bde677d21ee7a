-- Who looks, where, and what time it is there.
SELECT current_user::text, current_database()::text, current_setting('server_version'), clock_timestamp()
