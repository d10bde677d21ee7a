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

// The snapshot describes the schema that the migrations make. It was read from such a schema. Function bodies are not
// in it, because they are in the migrations, word for word. Comparing with a snapshot, and not with a second schema,
// works for roles that may only read, and on a standby.
var (
	//go:embed catalog/pin.sql
	catalogPin string
	//go:embed catalog/objects.sql
	catalogQuery string
	//go:embed catalog/objects.json
	catalogSnapshot string
)

// An object is an object of a schema as PostgreSQL's catalog describes it.
type object struct {
	Kind   string            `json:"kind"`
	Parent string            `json:"parent,omitempty"` // the table or the domain type that it belongs to
	Name   string            `json:"name"`             // for a function, with the types of its arguments
	Facts  map[string]string `json:"facts"`            // by name; facts that do not hold are absent
}

// An identity identifies an object in its schema.
type identity struct{ kind, parent, name string }

func (o object) identity() identity { return identity{o.Kind, o.Parent, o.Name} }

// bare returns a function's name without the types of its arguments.
func (o object) bare() string {
	name, _, _ := strings.Cut(o.Name, "(")
	return name
}

// A catalog lists the objects of a schema, in an order in which they can be created.
type catalog struct {
	schema  string // as PostgreSQL writes it in definitions
	objects []object
}

// readCatalog reads the catalog of a schema. It writes nothing, and its locks do not block reads or writes of tables.
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
	c.objects, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o object, err error) {
		var body *string
		if err = row.Scan(&o.Kind, &o.Parent, &o.Name, &o.Facts, &body); body != nil {
			o.Facts["body"] = *body
		}
		return o, err
	})
	return c, err
}

// snapshot returns the catalog that the migrations make.
func snapshot(schema string, bodies routineTexts) (c catalog) {
	c.schema = schema
	for line := range strings.Lines(catalogSnapshot) {
		var o object
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			panic(err) // the file is embedded, and read by every test of Validate
		}
		o = o.in(schema)
		if o.Kind == "function" {
			o.Facts["body"] = bodies.of(o).body
		}
		c.objects = append(c.objects, o)
	}
	return c
}

// of returns the part of the catalog that some migrations make, and the tables of versions and domains.
func (c catalog) of(chosen []migration) catalog {
	c.objects = slices.DeleteFunc(c.objects, func(o object) bool {
		domain := domainOf(cmp.Or(o.Parent, o.Name))
		return slices.Contains(Domains(), domain) &&
			!slices.ContainsFunc(chosen, func(m migration) bool { return m.domain == domain })
	})
	return c
}

// in replaces the placeholder of an object from the snapshot by a schema.
func (o object) in(schema string) object {
	o.Name = strings.ReplaceAll(o.Name, schemaPlaceholder, schema)
	for fact, text := range o.Facts {
		o.Facts[fact] = strings.ReplaceAll(text, schemaPlaceholder, schema)
	}
	return o
}

// A routine is a function or procedure in the text of a migration.
type routine struct{ statement, body string }

// routineTexts are routines by name, and by name and types: several may have one name.
type routineTexts map[string]routine

// of returns the text of a function of the catalog.
func (t routineTexts) of(o object) routine {
	if r, ok := t[o.Name]; ok {
		return r
	}
	return t[o.bare()]
}

// routines returns all routines that the migrations create. A later migration overrides earlier ones. Behind each
// stands the statement that revokes the rights of PUBLIC, also where a migration replaces it: its types are read there.
func routines(all []migration) routineTexts {
	found := routineTexts{}
	for _, m := range all {
		rest := "\n" + m.up
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
			name = name[strings.LastIndex(name, `"`)+1:]
			r := routine{"CREATE OR REPLACE " + text + bodyEnd, body}
			found[name], found[name+typesOf(rest)] = r, r
		}
	}
	return found
}

// typesOf returns the types of a routine's arguments, as the catalog writes them, from the statement behind it.
func typesOf(rest string) string {
	revoke, _, _ := strings.Cut(strings.TrimSpace(rest), ";")
	_, types, _ := strings.Cut(strings.TrimSuffix(revoke, " FROM PUBLIC"), `"(`)
	return "(" + strings.ReplaceAll(types, "timestamptz", "timestamp with time zone")
}

const (
	bodyQuote = "$txwork$"
	bodyStart = "AS " + bodyQuote
	bodyEnd   = bodyQuote + ";"
)
