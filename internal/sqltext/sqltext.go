// Package sqltext renders .sql files, and has SQL that several packages share. The files are embedded and the names in
// them are validated, so a file that cannot be rendered is a defect of its package and panics.
package sqltext

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"
)

// Lanes is the template of a recursive query, lane, that returns the lanes that have rows: one step in the claim index
// for each lane, however many rows the lane has.
//
//go:embed lanes.sql
var Lanes string

// Files are .sql files, parsed. A program has those of many packages and renders few, so each package's are parsed when
// one of them is first rendered.
type Files func() *template.Template

// Parse returns the files that match the patterns.
func Parse(files embed.FS, patterns ...string) Files {
	return sync.OnceValue(func() *template.Template { return template.Must(template.ParseFS(files, patterns...)) })
}

// Execute renders a file for readers of a migration, with its comment. The file is named without .sql.
func Execute(t Files, file string, data any) string {
	var b strings.Builder
	if err := t().ExecuteTemplate(&b, file+".sql", data); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}

// Statement renders a file for the server: [Qualified], and without its comment lines, which are for readers of the
// file.
func Statement(t Files, file string, data any) string {
	return Qualified(WithoutComments(Execute(t, file, data)))
}

// Inline returns a statement for the body of a function, with an expression in the place of each parameter.
func Inline(t Files, file string, data any, args ...string) string {
	var values []string
	for i, arg := range slices.Backward(args) { // $10 before $1
		values = append(values, fmt.Sprintf("$%d", i+1), arg)
	}
	return strings.NewReplacer(values...).Replace(WithoutComments(Execute(t, file, data)))
}

// Indented moves the lines of a text to the right.
func Indented(text string, spaces int) string {
	margin := strings.Repeat(" ", spaces)
	return margin + strings.ReplaceAll(text, "\n", "\n"+margin)
}

// WithoutComments leaves out the comment lines, for a statement within a function.
func WithoutComments(text string) string {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return strings.HasPrefix(l, "--") })
	return strings.Join(lines, "\n")
}

// Hides is a condition in SQL: row-level security hides rows of one of the tables from the current role. It looks at
// the catalogue's cache only, reads no table, and names everything with its schema. The tables are quoted names.
func Hides(tables ...string) string {
	parts := make([]string, len(tables))
	for i, table := range tables {
		parts[i] = fmt.Sprintf("pg_catalog.row_security_active('%s'::pg_catalog.regclass)", table)
	}
	return strings.Join(parts, "\n        OR ")
}

// Refuse raises the error of every function that would conclude something from the absence of rows which the current
// role might only not see. It is the SQLSTATE with which PostgreSQL refuses a role without the privilege, and a
// statement under row_security = off: in each case the work has to be left to another role.
func Refuse(table string) string {
	return fmt.Sprintf(`RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'row-level security hides rows of %s or of its other tables from this role: rows that it does not see would be taken for gone',
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';`,
		strings.ReplaceAll(table, `"`, ""))
}

// SeesAll begins the body of such a function: it refuses a role that does not see all rows of the tables, of which the
// first is the one that the others belong to.
func SeesAll(tables ...string) string {
	return "IF " + Hides(tables...) + " THEN\n        " + Refuse(tables[0]) + "\n    END IF;"
}

// SharedPolicy is the name of the policy that shows all rows of a table to all roles.
const SharedPolicy = "txwork_read"

// SeesShared is SeesAll for tables that a policy named [SharedPolicy] may show to all. The second test is apart, since
// it reads the catalogue, which only roles under row-level security have to do.
func SeesShared(tables ...string) string {
	ids := make([]string, len(tables))
	for i, table := range tables {
		ids[i] = fmt.Sprintf("'%s'::pg_catalog.regclass", table)
	}
	return fmt.Sprintf(`IF %s THEN
        IF EXISTS (
            SELECT FROM pg_catalog.unnest(ARRAY[%s]) AS s (id)
            WHERE (SELECT bool_or(p.polname = '%s') AND bool_and(p.polpermissive) FROM pg_catalog.pg_policy AS p
                WHERE p.polrelid = s.id) IS NOT TRUE)
        THEN
        %s
        END IF;
    END IF;`, Hides(tables...), strings.Join(ids, ", "), SharedPolicy, Refuse(tables[0]))
}
