-- $1 column_topic
-- $2 column_dedup_key
SELECT s.ord, t.id
FROM unnest($1::pg_catalog.text[], $2::pg_catalog.text[])
    WITH ORDINALITY AS s (c1, c4, ord)
JOIN "txwork"."outbox" AS t ON t."topic" = s.c1 AND t."dedup_key" = s.c4;
