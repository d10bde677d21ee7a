// Package sqltext renders .sql files, and has SQL that several packages share. The files are embedded and the names in
// them are validated, so a file that cannot be rendered is a defect of its package and panics.
package sqltext

import (
	_ "embed"
	"slices"
	"strings"
	"text/template"
)

// Lanes is the template of a recursive query, lane, that returns the lanes that have rows: one step in the claim index
// for each lane, however many rows the lane has.
//
//go:embed lanes.sql
var Lanes string

// Execute renders a file for readers of a migration, with its comment. The file is named without .sql.
func Execute(t *template.Template, file string, data any) string {
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, file+".sql", data); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}

// Statement renders a file for the server: without its comment lines, which are for readers of the file.
func Statement(t *template.Template, file string, data any) string {
	lines := strings.Split(Execute(t, file, data), "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "--") }), "\n")
}
