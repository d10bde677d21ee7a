package migrations

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"regexp"
	"slices"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// The functions of a schema name it in full, because a search_path may name any schema. If the schema is renamed, they
// go on naming the former one: its own triggers and claims fail, or, if a schema of that name is made again, work on
// the tables of a stranger, and rows that wait for them wait for ever.

//go:embed catalog/renamed.sql
var renamedQuery string

// refuseRenamed refuses to migrate a schema that was renamed, and to make a new schema under the name that a renamed
// one still uses. It returns nil if no schema was renamed, and for a schema with tables of its own.
func (m *Migrator) refuseRenamed(ctx context.Context, db *sql.DB, has state) error {
	type renaming struct{ schema, names string }
	all, err := list(ctx, db, renamedQuery, func(row *sql.Rows) (r renaming, err error) {
		return r, row.Scan(&r.schema, &r.names)
	}, CoreTables(), m.schema)
	for _, r := range all {
		repair := "run the SQL that " + postgres.Command(r.schema, "migrate", "validate") + " prints"
		switch {
		case r.schema == m.schema:
			return fmt.Errorf("%w: the schema was renamed: its functions still name %s; %s", workqueue.ErrSchemaVersion,
				r.names, repair)
		case len(has.entries) == 0:
			return fmt.Errorf("%w: schema %s was renamed: its functions still name %s, and would work on the tables that "+
				"are to be made here; %s, or name that schema", workqueue.ErrSchemaVersion, r.schema, r.names, repair)
		}
	}
	return err
}

// namedSchema finds the first schema that the body of a function names.
var namedSchema = regexp.MustCompile(`"([a-z_][a-z0-9_]*)"\."`)

// formerBodies returns the functions of a catalog that only differ in the schema that they name, and that schema, which
// is empty if there are none.
func formerBodies(want, have catalog, schema string) (former string, functions []identity) {
	wanted := index(want.objects)
	var bodies routineTexts
	for _, o := range have.objects {
		w, ours := wanted[o.identity()]
		body := o.Facts["body"]
		if o.Kind != "function" || !ours || same("body", w.Facts["body"], body) {
			continue
		}
		found := namedSchema.FindStringSubmatch(body)
		if former == "" && found != nil && found[1] != schema {
			former, bodies = found[1], routines(load(found[1]))
		}
		if former != "" && same("body", bodies.of(o).body, body) {
			functions = append(functions, o.identity())
		}
	}
	if len(functions) == 0 {
		return "", nil
	}
	return former, functions
}

// collapse replaces the differences of functions that name a former schema by one, which names the cause.
func (c *comparison) collapse() {
	if c.former == "" {
		return
	}
	cause := Difference{Object: "schema " + c.schema, DDL: []string{}, Problem: fmt.Sprintf(
		"was renamed: %d of its functions still name %s, and work on that schema or fail", len(c.renamed), c.former)}
	at := -1
	var rest Differences
	for _, d := range c.found {
		is := slices.ContainsFunc(c.renamed, func(id identity) bool {
			return d.Object == c.describe(object{Kind: id.kind, Parent: id.parent, Name: id.name})
		})
		if !is {
			rest = append(rest, d)
			continue
		}
		if cause.DDL = append(cause.DDL, d.DDL...); at < 0 {
			at = len(rest)
		}
	}
	c.found = slices.Insert(rest, at, cause)
}
