-- Ready -> Ready with new args, priority and due time: what Replace makes of the job that holds the key. A
-- row that is being claimed is waited for; it then is in progress, and left alone. The workers are told, since
-- the row may be due earlier than it was. Ids are sorted, so that concurrent calls lock in one order.
WITH changed AS (
    UPDATE {{.Table}} AS t
    SET args = s.args,
        priority = s.priority,
        due_at = greatest(s.due_at, now())
    FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::bigint[], $5::timestamptz[]) AS s (id, unique_key, args, priority, due_at)
    WHERE t.id = s.id AND t.unique_key = s.unique_key AND t.status = 0
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN {{.Announce}} IS NOT NULL END
)
SELECT unnest(told.ids) AS id FROM told
