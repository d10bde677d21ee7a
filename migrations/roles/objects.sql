-- {{.Title}}
REVOKE ALL ON TABLE {{.List .Tables}}
FROM PUBLIC, {{.Role "producer"}}, {{.Role "worker"}}, {{.Role "viewer"}};
GRANT {{if .ReadOnly}}SELECT{{else}}SELECT, INSERT, UPDATE, DELETE{{end}} ON TABLE {{.List .Tables}}
TO {{.Role "worker"}};
GRANT SELECT ON TABLE {{.List .Tables}} TO {{.Role "viewer"}};
{{- if .Sequences}}
REVOKE ALL ON SEQUENCE {{.List .Sequences}}
FROM PUBLIC, {{.Role "producer"}}, {{.Role "worker"}}, {{.Role "viewer"}};
GRANT USAGE ON SEQUENCE {{.List .Sequences}} TO {{.Role "producer"}}, {{.Role "worker"}};
{{- end}}
{{- if .Calls}}
-- Trigger functions run for every role that changes a row, without a right to execute them. The role needs the right to
-- execute only the functions that they call.
REVOKE ALL ON ROUTINE {{.List .Functions}}
FROM PUBLIC, {{.Role "producer"}}, {{.Role "worker"}}, {{.Role "viewer"}};
GRANT EXECUTE ON ROUTINE {{.List .Calls}} TO {{.Role "worker"}};
{{- end}}
