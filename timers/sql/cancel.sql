-- Finds and locks, in key order, the timers to cancel; the core's cancel follows. It also drops what was set during a
-- firing, because the core does not touch a firing that was cancelled before.
WITH held AS (
    SELECT t.id, t.key, t.rearm_at IS NOT NULL AS rearmed
    FROM {{.Table}} AS t
    WHERE t.key = ANY ($1::text[]) AND t.completed_at IS NULL
    ORDER BY t.key
    FOR NO KEY UPDATE OF t
), dropped AS (
    UPDATE {{.Table}} AS t
    SET rearm_at = NULL,
        rearm_topic = NULL,
        rearm_payload = NULL,
        rearm_headers = NULL,
        rearm_max_attempts = NULL
    FROM held AS h
    WHERE t.id = h.id AND h.rearmed
)
SELECT held.id, held.key, held.rearmed FROM held
