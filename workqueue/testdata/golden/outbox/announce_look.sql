-- $1 after_due
-- $2 after_id
SELECT l.ord::int AS ord,
       (extract(epoch FROM f.due_at) * 1000000)::bigint AS first,
       (extract(epoch FROM b.due_at) * 1000000)::bigint AS last_due,
       b.id::pg_catalog.text AS last_id
FROM unnest($1::pg_catalog.text::pg_catalog.timestamptz[], $2::pg_catalog.text::pg_catalog.uuid[])
    WITH ORDINALITY AS l (after_due, after_id, ord)
CROSS JOIN LATERAL (
    SELECT r.due_at, r.id
    FROM "txwork"."outbox" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.due_at <= pg_catalog.now()
      AND (r.due_at, r.id) > (l.after_due, l.after_id)
    ORDER BY r.due_at DESC, r.id DESC
    LIMIT 1
) AS b
LEFT JOIN LATERAL (
    SELECT r.due_at
    FROM "txwork"."outbox" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 0
      AND r.due_at <= b.due_at
      AND (r.due_at, r.id) > (l.after_due, l.after_id)
    ORDER BY r.due_at, r.id
    LIMIT 1
) AS f ON true;
