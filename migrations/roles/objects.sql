-- {{.Title}}
REVOKE ALL ON TABLE {{.List .Tables}}
FROM PUBLIC, {{.Role "producer"}}, {{.Role "worker"}}, {{.Role "viewer"}};
GRANT {{if .ReadOnly}}SELECT{{else}}SELECT, INSERT, UPDATE, DELETE{{end}} ON TABLE {{.List .Tables}}
TO {{.Role "worker"}};
GRANT SELECT ON TABLE {{.List .Tables}} TO {{.Role "viewer"}};
{{- if .Sequences}}
REVOKE ALL ON SEQUENCE {{.List .Sequences}}
FROM PUBLIC, {{.Role "producer"}}, {{.Role "worker"}}, {{.Role "viewer"}};
{{- if not .ReadOnly}}
GRANT USAGE ON SEQUENCE {{.List .Sequences}} TO {{.Role "worker"}};
{{- end}}
GRANT SELECT ON SEQUENCE {{.List .Sequences}} TO {{.Role "viewer"}};
{{- end}}
{{- if .Calls}}
-- Trigger functions run for every role that changes a row, without a right to execute them. The role needs the right to
-- execute only the functions that they call with its rights.
REVOKE ALL ON ROUTINE {{.List .Functions}}
FROM PUBLIC, {{.Role "producer"}}, {{.Role "worker"}}, {{.Role "viewer"}};
GRANT EXECUTE ON ROUTINE {{.List .Calls}} TO {{.Role "worker"}};
{{- end}}
{{- if .Seen}}
-- Policies of the side tables call it, or those who read.
GRANT EXECUTE ON FUNCTION {{.List .Seen}}
TO {{.Role "producer"}}, {{.Role "worker"}}, {{.Role "viewer"}};
{{- end}}
