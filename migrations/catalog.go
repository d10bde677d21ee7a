package migrations

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// The catalog as the migrations make it was read from a schema that they had made. Function bodies are not in it: they
// are in the migrations, word for word. A snapshot instead of a second schema to compare with, because whoever may only
// read, or has a standby only, wants to know as well.
var (
	//go:embed catalog/pin.sql
	catalogPin string
	//go:embed catalog/objects.sql
	catalogQuery string
	//go:embed catalog/objects.json
	catalogSnapshot string
)

// An object is a thing of a schema as PostgreSQL's catalog describes it.
type object struct {
	Kind   string            `json:"kind"`
	Parent string            `json:"parent,omitempty"` // the table or the domain that it belongs to
	Name   string            `json:"name"`             // of a function with the types of its arguments
	Facts  map[string]string `json:"facts"`            // by name; what does not hold is absent
}

// An identity is what tells an object from others of its schema.
type identity struct{ kind, parent, name string }

func (o object) identity() identity { return identity{o.Kind, o.Parent, o.Name} }

// bare is a function's name without the types.
func (o object) bare() string {
	name, _, _ := strings.Cut(o.Name, "(")
	return name
}

// A catalog is what a schema holds, in an order in which it can be made.
type catalog struct {
	schema  string // as PostgreSQL writes it in definitions
	objects []object
}

// readCatalog reads a schema's. It writes nothing and takes no lock that anybody waits for.
func readCatalog(ctx context.Context, tx pgx.Tx, schema string) (c catalog, err error) {
	if _, err := tx.Exec(ctx, catalogPin); err != nil {
		return catalog{}, err
	}
	if err := tx.QueryRow(ctx, "SELECT quote_ident($1)", schema).Scan(&c.schema); err != nil {
		return catalog{}, err
	}
	rows, err := tx.Query(ctx, catalogQuery, schema)
	if err != nil {
		return catalog{}, err
	}
	c.objects, err = pgx.CollectRows(rows, pgx.RowToStructByPos[object])
	return c, err
}

// snapshot is the catalog that the migrations make.
func snapshot(schema string, bodies map[string]routine) (c catalog) {
	c.schema = schema
	for line := range strings.Lines(catalogSnapshot) {
		var o object
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			panic(err) // the file is embedded, and read by every test of Validate
		}
		o = o.in(schema)
		if o.Kind == "function" {
			o.Facts["body"] = bodies[o.bare()].body
		}
		c.objects = append(c.objects, o)
	}
	return c
}

// of is what some migrations make, and the table of versions.
func (c catalog) of(chosen []migration) catalog {
	c.objects = slices.DeleteFunc(c.objects, func(o object) bool {
		domain := domainOf(cmp.Or(o.Parent, o.Name))
		return slices.Contains(Domains(), domain) &&
			!slices.ContainsFunc(chosen, func(m migration) bool { return m.domain == domain })
	})
	return c
}

// in is the object of a schema.
func (o object) in(schema string) object {
	o.Name = strings.ReplaceAll(o.Name, schemaPlaceholder, schema)
	for fact, text := range o.Facts {
		o.Facts[fact] = strings.ReplaceAll(text, schemaPlaceholder, schema)
	}
	return o
}

// A routine is a function or procedure in the migrations' text.
type routine struct{ statement, body string }

// routines are all that the migrations make, by name, as the last of them has it.
func routines(all []migration) map[string]routine {
	found := map[string]routine{}
	for _, m := range all {
		rest := m.up
		for {
			_, text, more := strings.Cut(rest, "\nCREATE ")
			if !more {
				break
			}
			rest = text
			text = strings.TrimPrefix(text, "OR REPLACE ")
			line, _, _ := strings.Cut(text, "\n")
			if !begins("CREATE " + line) {
				continue
			}
			text, rest, _ = strings.Cut(text, bodyEnd)
			head, body, _ := strings.Cut(text, bodyStart)
			name, _, _ := strings.Cut(head, `"(`)
			found[name[strings.LastIndex(name, `"`)+1:]] = routine{"CREATE OR REPLACE " + text + bodyEnd, body}
		}
	}
	return found
}

const (
	bodyStart = "AS $txwork$"
	bodyEnd   = "$txwork$;"
)
