-- Sets lock_timeout until the caller restores it, unless the application has set one itself.
WITH own AS MATERIALIZED (SELECT current_setting('lock_timeout') AS lock_timeout)
SELECT own.lock_timeout,
       set_config('lock_timeout', CASE own.lock_timeout WHEN '0' THEN $1::text ELSE own.lock_timeout END, true)
FROM own
