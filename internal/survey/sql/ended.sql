-- How long ago the oldest row that retention deletes ended, by one step of its index, and that of the dead letters.
SELECT (SELECT extract(epoch FROM now() - min(r.completed_at))::float8 FROM {{.Table}} AS r
        WHERE r.completed_at IS NOT NULL AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)) AS done,
       (SELECT extract(epoch FROM now() - min(r.failed_at))::float8 FROM {{.Table}} AS r
        WHERE r.failed_at IS NOT NULL) AS failed
