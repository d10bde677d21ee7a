-- Ready -> Ready at another time: that of the call, or, to run now, an earlier one than before. A row that waits keeps
-- waiting: for its key, a join or its topic.
WITH changed AS (
    UPDATE {{.Table}} AS t
    SET due_at = @at::timestamptz
    WHERE t.id = ANY (@ids::uuid[]) AND t.status = 0
      AND (t.due_at > @at::timestamptz OR t.due_at < @at::timestamptz AND NOT @only_earlier::boolean)
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN {{.Announce}} IS NOT NULL END
)
SELECT unnest(told.ids) AS id FROM told
