-- $1 lease
-- $2 claimed
-- $3 ids
-- $4 tokens
-- $5 within
UPDATE "txwork"."outbox" AS t
SET locked_until = pg_catalog.clock_timestamp() + $1::interval,
    headers = CASE
        WHEN pg_catalog.jsonb_typeof(coalesce(t.headers, '{}'::pg_catalog.jsonb)) <> 'object'
            OR held.recorded AND coalesce(held.within = pg_catalog.split_part(held.record, ' ', 2), true) THEN t.headers
        ELSE coalesce(t.headers, '{}'::pg_catalog.jsonb) || pg_catalog.jsonb_build_object('txwork-running', pg_catalog.concat(
            CASE WHEN held.recorded THEN pg_catalog.split_part(held.record, ' ', 1)
                ELSE (extract(epoch FROM coalesce(t.locked_until - $2::interval, pg_catalog.clock_timestamp()))
                    * 1000000)::bigint::pg_catalog.text END,
            ' ', held.within, ' ', t.owner_token)) END
FROM (
    SELECT r.id, s.within::pg_catalog.text AS within, r.headers ->> 'txwork-running' AS record,
           coalesce(pg_catalog.split_part(r.headers ->> 'txwork-running', ' ', 3) = s.token::pg_catalog.text, false) AS recorded
    FROM ROWS FROM (pg_catalog.unnest($3::pg_catalog.uuid[]), pg_catalog.unnest($4::pg_catalog.uuid[]), pg_catalog.unnest($5::bigint[]),
            pg_catalog.generate_subscripts('{}'::int[], 1)) AS s (id, token, within)
    JOIN "txwork"."outbox" AS r ON r.id = s.id
    WHERE r.id = ANY ($3::pg_catalog.uuid[]) AND r.owner_token = s.token AND coalesce(r.status = 1, false)
    FOR NO KEY UPDATE OF r SKIP LOCKED
) AS held
WHERE t.id = held.id AND t.status = 1
RETURNING t.id, t.cancelled_at IS NOT NULL AS cancelled;
