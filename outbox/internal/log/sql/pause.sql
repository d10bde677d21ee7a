{{- range $verb, $paused := .Pauses}}
-- {{if $paused}}Stops a subscription: pages in hand are settled, and no other is handed out.
{{- else}}Ends a pause of a subscription, and a rest of its destination: the next messages try it.
{{- end}}
-- Tells whether that changed anything.
CREATE FUNCTION {{$.Named $verb}}(name text) RETURNS boolean
LANGUAGE plpgsql
{{$.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s {{$.Named "subscription"}};
BEGIN
    {{$.SeesAll}}
{{- if not $paused}}
    {{$.IdleBound "interval '1 minute'"}}
{{- end}}
    {{$.LocksSubscription}}
    {{- if not $paused}}
    {{$.RefusesMoving}}
    {{- end}}
    UPDATE {{$.Named "subscription"}} AS s SET paused = {{$paused}} WHERE s.name = $1 AND s.paused <> {{$paused}};
{{- if $paused}}
    RETURN FOUND;
{{- else}}
    UPDATE {{$.Named "position"}} AS p SET rest = NULL WHERE p.subscription = $1 AND (p.rest).since IS NOT NULL;
    RETURN FOUND OR own.s.paused;
{{- end}}
END
$txwork$;

REVOKE ALL ON FUNCTION {{$.Named $verb}}(text) FROM PUBLIC;
{{end}}
