{{range .Functions}}DROP FUNCTION {{$.Function .Name}}({{.Types}});
{{end}}DROP TABLE {{.Table}};
DROP FUNCTION {{.Function "announce"}}();
DROP DOMAIN {{.Function "retry"}};
