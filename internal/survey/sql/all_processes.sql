-- The processes that run, by their hosts, at most $1. Those that have missed three beats are gone.
SELECT lpad(to_hex(p.id), 12, '0'), p.host, p.language, p.version, p.serves::text,
       extract(epoch FROM clock_timestamp() - p.beat_at)::float8
FROM {{.}} AS p
WHERE p.beat_at > clock_timestamp() - interval '90 seconds'
ORDER BY p.host, p.id
LIMIT $1::int
