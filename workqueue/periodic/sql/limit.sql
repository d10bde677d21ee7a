-- Bounds the waits for locks until the setting is put back: the application's own bound holds where it has one.
WITH own AS MATERIALIZED (SELECT current_setting('lock_timeout') AS lock_timeout)
SELECT own.lock_timeout, set_config('lock_timeout', CASE own.lock_timeout WHEN '0' THEN $1::text ELSE own.lock_timeout END, true)
FROM own
