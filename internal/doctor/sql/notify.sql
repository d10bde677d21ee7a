-- How full the notification queue is, from 0 to 1.
SELECT pg_notification_queue_usage() AS used
