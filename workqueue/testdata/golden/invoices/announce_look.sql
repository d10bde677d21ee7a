-- $1 after_due
-- $2 after_id
-- $3 lane_region
-- $4 lane_priority
SELECT l.ord::int AS ord,
       (extract(epoch FROM f.due_at) * 1000000)::bigint AS first,
       (extract(epoch FROM b.due_at) * 1000000)::bigint AS last_due,
       b.id::pg_catalog.text AS last_id
FROM unnest($1::pg_catalog.text::pg_catalog.timestamptz[], $2::pg_catalog.text::pg_catalog.uuid[], $3::pg_catalog.text::pg_catalog.text[], $4::pg_catalog.text::pg_catalog.text[])
    WITH ORDINALITY AS l (after_due, after_id, c1, c2, ord)
CROSS JOIN LATERAL (
    SELECT r.due_at, r.id
    FROM "billing"."invoices" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.due_at <= pg_catalog.now()
      AND (r.due_at, r.id) > (l.after_due, l.after_id)
      AND r."region" = l.c1::pg_catalog.text
      AND r."priority" = l.c2::smallint
    ORDER BY r."region" DESC, r."priority" DESC, r.due_at DESC, r.id DESC
    LIMIT 1
) AS b
LEFT JOIN LATERAL (
    SELECT r.due_at
    FROM "billing"."invoices" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 0
      AND r.due_at <= b.due_at
      AND (r.due_at, r.id) > (l.after_due, l.after_id)
      AND r."region" = l.c1::pg_catalog.text
      AND r."priority" = l.c2::smallint
    ORDER BY r."region", r."priority", r.due_at, r.id
    LIMIT 1
) AS f ON true;
