-- $1 ids
SELECT s.ord, t.id
FROM pg_catalog.unnest($1::pg_catalog.uuid[]) WITH ORDINALITY AS s (id, ord)
JOIN "txwork"."outbox" AS t ON t.id = s.id;
