DROP PROCEDURE {{.Function "maintain"}}(integer, interval, interval);
DROP FUNCTION {{.Function "maintain_step"}}(text, integer, interval, interval);
DROP FUNCTION {{.Function "purge"}}(integer, interval, interval);
DROP FUNCTION {{.Function "fold"}}(integer);
{{if .Admission}}DROP FUNCTION {{.Function "claim_admitted"}}(
    uuid, interval, integer, timestamptz[], uuid[]{{range .Lanes}}, {{.Bind}}[]{{end}}
);
{{end}}{{range .Functions}}DROP FUNCTION {{$.Function .Name}}({{.Types}});
{{end}}DROP TABLE {{.Table}};
DROP FUNCTION {{.Function "announce"}}();
DROP DOMAIN {{.Function "retry"}};
