-- Failed -> Ready as a new row: attempts 0, no token, due now. The headers record who redrove it, and when. They no
-- longer record which leases it has lost, and since when it ran.
WITH changed AS (
    UPDATE {{.Table}} AS t
    SET status = 0,
        waiting = {{.RedriveWaits}},
        {{- if .HasTopics}}
        aside = NULL,
        {{- end}}
        {{- if .Freed}}
        {{.Held}} = coalesce(t.{{.Held}}, t.{{.Freed}}),
        {{.Freed}} = NULL,
        {{- end}}
        attempts = 0,
        due_at = clock_timestamp(),
        completed_at = NULL,
        failed_at = NULL,
        cancelled_at = NULL,
        owner_token = NULL,
        headers = CASE WHEN jsonb_typeof(t.headers) = 'object' THEN t.headers - {{.History}}
            ELSE coalesce(t.headers, '{}'::jsonb) END || jsonb_build_object(
            'txwork-redriven-by', coalesce(@actor::text, session_user::text),
            'txwork-redriven-at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
    WHERE t.id = ANY (@ids::uuid[]) AND t.status = 3
    {{- if .Freed}}
      AND (t.{{.Freed}} IS NULL OR {{.MayRetake}})
    {{- end}}
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN {{.Announce}} IS NOT NULL END
)
SELECT unnest(told.ids) AS id FROM told
