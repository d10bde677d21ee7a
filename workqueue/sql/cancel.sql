-- Ready -> Failed. For a row in progress, the cancel and its reason are recorded and announced once: the worker that
-- holds the row cancels its handler's context, and any settle but an ack, or the reaper, then makes the row Failed.
WITH changed AS (
    UPDATE {{.Table}} AS t
    SET cancelled_at = clock_timestamp(),
        status = CASE WHEN t.status = 0 THEN 3 ELSE t.status END,
        completed_at = CASE WHEN t.status = 0 THEN clock_timestamp() END,
        failed_at = CASE WHEN t.status = 0 THEN clock_timestamp() END,
        owner_token = CASE WHEN t.status = 1 THEN t.owner_token END,
        last_error = @reason::text
    WHERE t.id = ANY (@ids::uuid[]) AND t.status IN (0, 1) AND t.cancelled_at IS NULL
    RETURNING t.id, t.status
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN bool_or(changed.status = 1) THEN {{.Notify "cancel"}} IS NOT NULL ELSE true END
)
SELECT unnest(told.ids) AS id FROM told
