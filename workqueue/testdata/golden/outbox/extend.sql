-- $1 lease
-- $2 claimed
-- $3 ids
-- $4 tokens
-- $5 within
UPDATE "txwork"."outbox" AS t
SET locked_until = pg_catalog.clock_timestamp() + $1::interval,
    headers = CASE
        WHEN pg_catalog.jsonb_typeof(coalesce(t.headers, '{}'::pg_catalog.jsonb)) <> 'object'
            OR coalesce(pg_catalog.split_part((t.headers ->> 'txwork-running'), ' ', 3) = t.owner_token::pg_catalog.text, false) AND coalesce(s.within::pg_catalog.text = pg_catalog.split_part((t.headers ->> 'txwork-running'), ' ', 2), true)
        THEN t.headers
        ELSE coalesce(t.headers, '{}'::pg_catalog.jsonb) || pg_catalog.jsonb_build_object('txwork-running', pg_catalog.concat(
            CASE WHEN coalesce(pg_catalog.split_part((t.headers ->> 'txwork-running'), ' ', 3) = t.owner_token::pg_catalog.text, false) THEN pg_catalog.split_part((t.headers ->> 'txwork-running'), ' ', 1)
                ELSE (extract(epoch FROM coalesce(t.locked_until - $2::interval, pg_catalog.clock_timestamp()))
                    * 1000000)::bigint::pg_catalog.text END,
            ' ', s.within, ' ', t.owner_token)) END
FROM ROWS FROM (pg_catalog.unnest($3::pg_catalog.uuid[]), pg_catalog.unnest($4::pg_catalog.uuid[]), pg_catalog.unnest($5::bigint[]),
        pg_catalog.generate_subscripts('{}'::int[], 1)) AS s (id, token, within)
WHERE t.id = ANY (ARRAY(
    SELECT r.id
    FROM ROWS FROM (pg_catalog.unnest($3::pg_catalog.uuid[]), pg_catalog.unnest($4::pg_catalog.uuid[]), pg_catalog.generate_subscripts('{}'::int[], 1)) AS h (id, token)
    JOIN "txwork"."outbox" AS r ON r.id = h.id
    WHERE r.id = ANY ($3::pg_catalog.uuid[]) AND r.owner_token = h.token AND coalesce(r.status = 1, false)
    FOR NO KEY UPDATE OF r SKIP LOCKED))
  AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.cancelled_at IS NOT NULL AS cancelled;
