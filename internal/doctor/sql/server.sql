-- Who looks, where, and what time it is there.
SELECT current_user::text, current_database()::text, current_setting('server_version'),
       current_setting('is_superuser') = 'on', pg_catalog.pg_is_in_recovery(), clock_timestamp()
