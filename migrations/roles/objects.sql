-- {{.Title}}
REVOKE ALL ON TABLE {{.List .Tables}}
FROM PUBLIC, {{.Role "producer"}}, {{.Role "worker"}}, {{.Role "viewer"}};
GRANT {{if .ReadOnly}}SELECT{{else}}SELECT, INSERT, UPDATE, DELETE{{end}} ON TABLE {{.List .Tables}} TO {{.Role "worker"}};
GRANT SELECT ON TABLE {{.List .Tables}} TO {{.Role "viewer"}};
{{- if .Sequences}}
REVOKE ALL ON SEQUENCE {{.List .Sequences}} FROM PUBLIC, {{.Role "producer"}}, {{.Role "worker"}}, {{.Role "viewer"}};
GRANT USAGE ON SEQUENCE {{.List .Sequences}} TO {{.Role "producer"}}, {{.Role "worker"}};
{{- end}}
{{- if .Calls}}
-- Triggers run their functions for whoever changes a row; nobody needs a right to those, only to what they call.
REVOKE ALL ON ROUTINE {{.List .Functions}}
FROM PUBLIC, {{.Role "producer"}}, {{.Role "worker"}}, {{.Role "viewer"}};
GRANT EXECUTE ON ROUTINE {{.List .Calls}} TO {{.Role "worker"}};
{{- end}}
