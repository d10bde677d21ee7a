// Package sqltext renders .sql files, and has the text that several packages share. The files are embedded and the
// names in them validated, so a file that cannot be rendered is a defect of its package and panics.
package sqltext

import (
	_ "embed"
	"slices"
	"strings"
	"text/template"
)

// Lanes is the template of a recursive query, lane, that reads the lanes which have rows: one step of the claim index
// for each, however many rows it has.
//
//go:embed lanes.sql
var Lanes string

// Execute renders a file, named without its .sql, as it is to be read: in a migration.
func Execute(t *template.Template, file string, data any) string {
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, file+".sql", data); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}

// Statement renders a file as it is sent: without the lines of its comment, which is for the reader of the file.
func Statement(t *template.Template, file string, data any) string {
	lines := strings.Split(Execute(t, file, data), "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "--") }), "\n")
}
