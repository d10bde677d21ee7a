package migrations_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

var update = flag.Bool("update", false, "write the golden files: of a frozen migration only before its release")

// golden compares got with a file, or writes it.
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
		t.Errorf("%s is not what is rendered now; if that is meant, run go test -update.\n%s", file, firstDifference(string(want), got))
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

func TestOutboxMigrationIsTheCore(t *testing.T) {
	t.Parallel()
	const stand = "schema_of_the_migrations"
	up, down, err := workqueue.DDL(outbox.Spec(stand))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "sql/001_outbox.up.sql", strings.ReplaceAll(up, stand, migrations.SchemaPlaceholder))
	golden(t, "sql/001_outbox.down.sql", strings.ReplaceAll(down, stand, migrations.SchemaPlaceholder))
}

func TestRenderedOutboxMigration(t *testing.T) {
	t.Parallel()
	if *update {
		t.Skip("the files that were just written are embedded by the next run")
	}
	up, down, err := workqueue.DDL(outbox.Spec("txwork"))
	if err != nil {
		t.Fatal(err)
	}
	if migrations.RenderFile("001_outbox.up.sql", "txwork") != up {
		t.Error("001_outbox.up.sql for the schema txwork is not the DDL of its Spec")
	}
	if migrations.RenderFile("001_outbox.down.sql", "txwork") != down {
		t.Error("001_outbox.down.sql for the schema txwork is not the DDL of its Spec")
	}
}

func TestPrintedTable(t *testing.T) {
	t.Parallel()
	text, err := migrations.DDL(invoices("billing"))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/invoices.sql", text)
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
