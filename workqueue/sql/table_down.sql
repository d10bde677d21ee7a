DROP PROCEDURE {{.Function "maintain"}}(integer, interval, interval);
DROP FUNCTION {{.Function "maintain_step"}}(text, integer, interval, interval, uuid[], text);
DROP FUNCTION {{.Function "each"}}(text, integer, interval, uuid[]);
{{range .Writers}}DROP FUNCTION {{.Function}}({{.Types}});
{{end}}{{with .ManyFunction}}DROP FUNCTION {{.}}(jsonb);
{{end}}DROP FUNCTION {{.Function "purge"}}(integer, interval, interval);
DROP PROCEDURE {{.Function "fold"}}(text, integer, double precision, boolean);
DROP FUNCTION {{.Function "fold_step"}}(integer, text, integer);
{{if .Admission}}DROP FUNCTION {{.Function "claim_admitted"}}(
    uuid, interval, integer, timestamptz[], uuid[]{{range .Lanes}}, {{.Bind}}[]{{end}}
);
{{end}}{{if .HasTopics}}{{range .TopicFunctions}}{{if not .OfTable}}DROP FUNCTION {{$.Function .Name}}({{.Types}});
{{end}}{{end}}{{end}}{{range .Functions}}DROP FUNCTION {{$.Function .Name}}({{.Types}});
{{end}}{{range .Verbs}}DROP FUNCTION {{$.Function .Name}}({{.Types}});
{{end}}DROP FUNCTION {{.Function "fetch"}}({{.FetchTypes}});
DROP TYPE {{.Function "fetched"}};
{{if .HasTopics}}DROP TABLE {{.Function "topic"}};
DROP FUNCTION {{.Function "topic_changed"}}();
{{end}}DROP TABLE {{.Table}};
DROP FUNCTION {{.Function "announce"}}();
DROP DOMAIN {{.Function "retry"}};
DROP DOMAIN {{.Function "time"}};
{{- range .StoredBounds}}
DROP DOMAIN {{$.Stored .}};
{{- end}}
