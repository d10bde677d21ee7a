-- How many rows were inserted and how many ended in the last $1 seconds, up to $2 each. Ids begin with their time (UUID
-- version 7), unless who wrote the row gave another; random ids between two of those are too few to matter.
SELECT (SELECT count(*) FROM (
           SELECT FROM {{.Table}} AS r
           WHERE r.id >= (lpad(to_hex((extract(epoch FROM now()) * 1000 - $1::float8 * 1000)::bigint), 12, '0')
                   || repeat('0', 20))::uuid
             AND r.id < (lpad(to_hex((extract(epoch FROM now()) * 1000 + 10000)::bigint), 12, '0')
                   || repeat('0', 20))::uuid
           LIMIT $2::int) AS a) AS arrived,
       (SELECT count(*) FROM (
           SELECT FROM {{.Table}} AS r
           WHERE r.completed_at IS NOT NULL AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
             AND r.completed_at > now() - $1::float8 * interval '1 second'
           LIMIT $2::int) AS d)
       + (SELECT count(*) FROM (
           SELECT FROM {{.Table}} AS r
           WHERE r.failed_at IS NOT NULL AND r.failed_at > now() - $1::float8 * interval '1 second'
           LIMIT $2::int) AS f) AS ended
