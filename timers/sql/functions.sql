-- Cancels timers by key, as Timers.Cancel does. There is a row for each key, in their order: the timer is cancelled, or
-- cancelling if it fires and its handler was told to stop; it had ended before; or it is gone: no timer has the key.
CREATE FUNCTION {{.Schema}}."timers_cancel"(keys text[]) RETURNS TABLE (key text, result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $txwork$
#variable_conflict use_column
DECLARE
    live text[] := '{}';
    ids uuid[] := '{}';
    was jsonb;
    one record;
BEGIN
    {{.RefuseKeys}}
    FOR one IN
{{.Inline "cancel" "$1"}}
    LOOP
        live := live || one.key;
        ids := ids || one.id;
    END LOOP;
    FOR one IN
{{.CancelIDs "ids" "'cancelled: by its key'"}}
    LOOP
    END LOOP;
    was := jsonb_object(live, live);
    RETURN QUERY
    SELECT u.key, CASE
        WHEN t.status IS NULL THEN 'gone'
        WHEN NOT was ? u.key THEN 'ended'
        WHEN t.status = 1 THEN 'cancelling'
        ELSE 'cancelled' END
    FROM unnest($1) WITH ORDINALITY AS u (key, ord)
    LEFT JOIN LATERAL (SELECT t.status FROM {{.Table}} AS t WHERE t.key = u.key OFFSET 0) AS t ON true
    ORDER BY u.ord;
END
$txwork$;

-- A timer by its key, as Timers.Get reads it; no row if no timer has the key.
CREATE FUNCTION {{.Schema}}."timers_get"(
    INOUT key text, OUT id uuid, OUT topic text, OUT payload bytea, OUT headers jsonb, OUT scheduled_at timestamptz,
    OUT due_at timestamptz, OUT generation integer, OUT schedule text, OUT status integer, OUT attempts integer,
    OUT max_attempts integer, OUT last_error text, OUT created_at timestamptz, OUT completed_at timestamptz,
    OUT cancelled_at timestamptz, OUT rearm_at timestamptz
) RETURNS SETOF record
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $txwork$
#variable_conflict use_column
BEGIN
    {{.RefuseKey}}
    RETURN QUERY
    SELECT g.key::text, g.id, g.topic, g.payload, g.headers::jsonb, g.fire_at::timestamptz, g.due_at::timestamptz,
        g.generation::integer, g.schedule, g.status::integer, g.attempts, g.max_attempts, g.last_error,
        g.created_at::timestamptz, g.completed_at::timestamptz, g.cancelled_at::timestamptz, g.rearm_at::timestamptz
    FROM (
{{.Inline "get" "$1"}}
    ) AS g (id, key, topic, payload, headers, fire_at, due_at, generation, schedule, status, attempts, max_attempts,
        last_error, created_at, completed_at, cancelled_at, rearm_at);
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Schema}}."timers_cancel"(text[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION {{.Schema}}."timers_get"(text) FROM PUBLIC;
