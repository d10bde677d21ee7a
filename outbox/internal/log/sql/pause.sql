{{- range $verb, $paused := .Pauses}}
-- {{if $paused}}Stops a subscription: pages in hand are settled, and no other is handed out.
{{- else}}Ends a pause of a subscription.{{end}} Tells whether that changed anything.
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
    {{$.LocksSubscription}}
    UPDATE {{$.Named "subscription"}} AS s SET paused = {{$paused}} WHERE s.name = $1 AND s.paused <> {{$paused}};
    RETURN FOUND;
END
$txwork$;

REVOKE ALL ON FUNCTION {{$.Named $verb}}(text) FROM PUBLIC;
{{end}}
