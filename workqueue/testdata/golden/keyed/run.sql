-- $1 ids
-- $2 tokens
-- $3 most
-- $4 lease
WITH head AS MATERIALIZED (
    SELECT r.id, r.owner_token, r.concurrency_key AS key, r.key_seq, s.most, pg_catalog.left(r."topic", 255) AS run_topic
    FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.uuid[]), pg_catalog.unnest($2::pg_catalog.uuid[]), pg_catalog.unnest($3::int[]),
            pg_catalog.generate_subscripts('{}'::int[], 1)) AS s (id, token, most)
    JOIN "txwork"."keyed" AS r ON r.id = s.id
    WHERE r.id = ANY ($1::pg_catalog.uuid[]) AND r.owner_token = s.token AND coalesce(r.status = 1, false)
      AND r.key_seq IS NOT NULL AND r.key_limit = 0
      AND r.locked_until > pg_catalog.clock_timestamp() AND r.cancelled_at IS NULL AND r.max_attempts > 1
        AND r.headers ->> 'txwork-lost-at' IS NULL
      AND NOT (pg_catalog.row_security_active('"txwork"."keyed"'::pg_catalog.regclass))
      AND NOT EXISTS (
        SELECT FROM "txwork"."keyed_topic" AS k
        WHERE k.topic = pg_catalog.left(r."topic", 255)
          AND (k.paused OR k.unavailable_since IS NOT NULL))
    FOR NO KEY UPDATE OF r SKIP LOCKED
), next AS MATERIALIZED (
    SELECT h.id AS head, h.owner_token, n.ctid, n.key_seq,
        n.key_seq > h.key_seq AND (n.key_seq < o.key_seq) IS NOT FALSE AND n.fits AS fits
    FROM head AS h
    CROSS JOIN LATERAL (
        SELECT coalesce((
            SELECT g.place FROM "txwork"."keyed_key_state" AS g
            WHERE g.concurrency_key = h.key AND NOT g.limited
            ORDER BY g.concurrency_key DESC, g.limited DESC, g.n DESC
            LIMIT 1), 0) AS place) AS known
    LEFT JOIN LATERAL (
        SELECT true AS is FROM "txwork"."keyed" AS l
        WHERE l.concurrency_key = h.key AND CASE WHEN l.completed_at IS NULL AND l.key_seq IS NOT NULL THEN (NOT l.waiting OR l.aside IS NOT NULL) END AND l.key_limit = 0 AND l.key_seq >= known.place
          AND l.id <> h.id
        LIMIT 1) AS other ON true
    LEFT JOIN LATERAL (
        SELECT f.key_seq FROM "txwork"."keyed" AS f
        WHERE f.concurrency_key = h.key AND CASE WHEN f.failed_at IS NOT NULL AND f.cancelled_at IS NULL THEN f.key_policy > 0 END
        ORDER BY f.concurrency_key, f.key_seq
        LIMIT 1) AS o ON true
    CROSS JOIN LATERAL (
        SELECT w.ctid, w.key_seq, w.status = 0 AND w.due_at <= pg_catalog.now() AND w.cancelled_at IS NULL AND w.max_attempts > 1
        AND w.headers ->> 'txwork-lost-at' IS NULL AND pg_catalog.left(w."topic", 255) = h.run_topic AS fits
        FROM "txwork"."keyed" AS w
        WHERE other.is IS NULL AND w.concurrency_key = h.key AND CASE WHEN w.completed_at IS NULL AND w.key_seq IS NOT NULL AND w.key_limit = 0 THEN w.waiting AND w.aside IS NULL END
          AND w.key_seq >= known.place
        ORDER BY w.concurrency_key, w.key_seq
        LIMIT h.most) AS n
), locked AS MATERIALIZED (
    SELECT w.ctid, w.key_seq -- which a row may have changed with its key
    FROM "txwork"."keyed" AS w
    WHERE w.ctid = ANY (ARRAY(SELECT n.ctid FROM next AS n WHERE n.fits))
      AND CASE WHEN w.completed_at IS NULL THEN w.waiting AND w.aside IS NULL END
      AND w.status = 0 AND w.cancelled_at IS NULL AND w.max_attempts > 1
        AND w.headers ->> 'txwork-lost-at' IS NULL
    FOR NO KEY UPDATE SKIP LOCKED
), run AS MATERIALIZED (
    SELECT p.ctid, p.head, p.owner_token
    FROM (
        SELECT n.ctid, n.head, n.owner_token, -- IN is hashed, where a join might compare each pair
            pg_catalog.bool_and(n.fits AND (n.ctid, n.key_seq) IN (SELECT l.ctid, l.key_seq FROM locked AS l)) OVER (
                PARTITION BY n.head ORDER BY n.key_seq) AS taken
        FROM next AS n) AS p
    WHERE p.taken
)
UPDATE "txwork"."keyed" AS t
SET status = 1,
    waiting = false,
    attempts = t.attempts + 1,
    owner_token = run.owner_token,
    locked_until = pg_catalog.clock_timestamp() + $4::interval
FROM run
WHERE t.ctid = run.ctid
RETURNING run.head, t.key_seq, t.id, t.due_at, t.created_at, t.attempts,
    t.max_attempts, t.headers::pg_catalog.text AS headers, false AS noted, t."topic", t."concurrency_key";
