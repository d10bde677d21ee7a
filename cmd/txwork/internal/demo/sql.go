package demo

import (
	"embed"
	"strings"
)

//go:embed sql/*.sql
var files embed.FS

// statement renders an embedded file for a schema. A missing file is a defect of this package, so it panics.
func statement(schema, name string) string {
	text, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(string(text), "{{schema}}", schema)
}
