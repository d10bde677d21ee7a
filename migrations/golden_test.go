package migrations_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

var update = flag.Bool("update", false, "write the golden files: of a frozen migration only before its release")

// golden compares got with a file, or, with -update, writes the file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.FromSlash(file), []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what is rendered now; if that is meant, run go test -update.\n%s", file,
			firstDifference(string(want), got))
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return "want: " + w[i] + "\ngot:  " + g[i]
		}
	}
	return "one is the beginning of the other"
}

// domains are the migrations that are rendered from the DDL of their domains. After a change of a domain's DDL, before
// its release, run: go generate ./migrations
var domains = map[string]func(schema string) (up, down string, err error){
	"001_outbox": outbox.DDL,
	"003_inbox":  inbox.DDL,
	"004_timers": timers.DDL,
	"005_alarms": alarms.DDL,
	"006_jobs":   jobs.DDL,
	"007_log":    outbox.LogDDL,
}

func TestDomainMigrations(t *testing.T) {
	t.Parallel()
	const stand = "schema_of_the_migrations"
	for name, ddl := range domains {
		up, down, err := ddl(stand)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "sql/"+name+".up.sql", strings.ReplaceAll(up, stand, migrations.SchemaPlaceholder))
		golden(t, "sql/"+name+".down.sql", strings.ReplaceAll(down, stand, migrations.SchemaPlaceholder))
	}
}

func TestRenderedDomainMigrations(t *testing.T) {
	t.Parallel()
	if *update {
		t.Skip("the files that were just written are embedded by the next run")
	}
	for name, ddl := range domains {
		up, down, err := ddl("txwork")
		if err != nil {
			t.Fatal(err)
		}
		if migrations.RenderFile(name+".up.sql", "txwork") != up {
			t.Errorf("%s.up.sql for the schema txwork is not the DDL of its domain", name)
		}
		if migrations.RenderFile(name+".down.sql", "txwork") != down {
			t.Errorf("%s.down.sql for the schema txwork is not the DDL of its domain", name)
		}
	}
}

// invoices is a table of a user's own.
func invoices(schema string) workqueue.Spec {
	return workqueue.Spec{
		Schema: schema,
		Table:  "invoices",
		Columns: []workqueue.Column{
			{Name: "region", Type: "text", NotNull: true},
			{Name: "number", Type: "bigint", NotNull: true},
			{Name: "document", Type: "jsonb"},
		},
		Lanes:  []string{"region"},
		Unique: []string{"number"},
	}
}

// The snapshot with which Validate compares is what the migrations make now.
func TestCatalogSnapshot(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.Pool, migrations.RenderFile("version_table.sql", db.Schema))
	for _, m := range migrations.Known() {
		up := ""
		if ddl, ok := domains[m.Name]; ok {
			var err error
			if up, _, err = ddl(db.Schema); err != nil {
				t.Fatal(err)
			}
		} else {
			up = migrations.RenderFile(m.Name+".up.sql", db.Schema)
		}
		exec(t, db.Pool, migrations.Plain(up))
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	objects, schema := catalogOf(t, db)
	for _, o := range objects {
		delete(o.Facts, "body")
		if err := enc.Encode(o); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "catalog/objects.json", strings.ReplaceAll(b.String(), schema, migrations.SchemaPlaceholder))
}
