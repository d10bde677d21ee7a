// Package sqltext renders the .sql files of the packages above the core. The files are embedded and the names in
// them validated, so a file that cannot be rendered is a defect of its package and panics.
package sqltext

import (
	"slices"
	"strings"
	"text/template"
)

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
