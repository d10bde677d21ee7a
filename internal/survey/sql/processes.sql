-- The processes of owner tokens that run: those that have missed three beats are gone.
SELECT lpad(to_hex(p.id), 12, '0'), p.host, p.language, p.version, p.serves::text,
       extract(epoch FROM clock_timestamp() - p.beat_at)::float8
FROM {{.}} AS p
WHERE p.id = ANY (ARRAY(SELECT ('x' || left(translate(t, '-', ''), 12))::bit(48)::bigint FROM unnest($1::text[]) AS t))
  AND p.beat_at > clock_timestamp() - interval '90 seconds'
