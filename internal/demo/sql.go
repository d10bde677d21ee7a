package demo

import (
	"embed"
	"strings"
)

//go:embed sql/*.sql
var files embed.FS

// statement is an embedded file for a schema. One that is missing is a defect of this package.
func statement(schema, name string) string {
	text, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(string(text), "{{schema}}", schema)
}
