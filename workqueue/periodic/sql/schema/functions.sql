-- Pauses a schedule, as Plan.Pause does. The result is paused, also if it was before, or gone: there is none of that
-- name.
CREATE FUNCTION {{.Function "pause"}}(name text, OUT result text)
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
BEGIN
    {{.RefuseName}}
    PERFORM FROM {{.Table}} AS t WHERE t.name = $1 FOR NO KEY UPDATE;
    result := CASE WHEN FOUND THEN 'paused' ELSE 'gone' END;
    {{.Inline "pause" "$1"}};
END
$txwork$;

-- Ends a pause, as Plan.Resume does, but that a scheduler finds the next time. The result is resumed, also if it was
-- not paused, or gone.
CREATE FUNCTION {{.Function "resume"}}(name text, OUT result text)
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    own uuid;
    held boolean;
    told text;
BEGIN
    {{.RefuseName}}
    SELECT t.id, t.paused INTO own, held FROM {{.Table}} AS t WHERE t.name = $1 FOR NO KEY UPDATE;
    result := CASE WHEN FOUND THEN 'resumed' ELSE 'gone' END;
    IF held THEN
        {{.Inline "resume" "own" "NULL" "NULL" "clock_timestamp()"}} INTO own, told;
    END IF;
END
$txwork$;

-- Asks schedulers for an occurrence outside of the plan. The result is triggered, with the id that the timer or job
-- will have; gone; ended: the schedule is never due again, and no scheduler looks at it; or full, if {{.MaxTriggers}}
-- of them wait for a scheduler.
CREATE FUNCTION {{.Function "trigger"}}(name text, OUT id uuid, OUT result text)
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    own uuid;
    told text;
BEGIN
    {{.RefuseName}}
    SELECT t.id, CASE
        WHEN t.completed_at IS NOT NULL THEN 'ended'
        WHEN jsonb_array_length(t.triggers) >= {{.MaxTriggers}} THEN 'full'
        ELSE 'triggered' END
    INTO own, result
    FROM {{.Table}} AS t WHERE t.name = $1 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        result := 'gone';
    ELSIF result = 'triggered' THEN
        id := {{.NewID}};
        {{.Inline "trigger" "own" "$2"}} INTO own, told;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "pause"}}(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION {{.Function "resume"}}(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION {{.Function "trigger"}}(text) FROM PUBLIC;
