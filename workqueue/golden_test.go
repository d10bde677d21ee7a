package workqueue

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/workqueue/internal/conn"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// goldenOutbox has the outbox's shape: a dedup key and no lanes.
var goldenOutbox = Spec{
	Table: "outbox",
	Columns: []Column{
		{Name: "topic", Type: "text", NotNull: true},
		{Name: "key", Type: "text"},
		{Name: "payload", Type: "bytea", NotNull: true},
		{Name: "dedup_key", Type: "text"},
	},
	Unique: []string{"topic", "dedup_key"},
}

// goldenInvoices has everything that the outbox lacks: lanes, casts, a schema, delete on ack.
var goldenInvoices = Spec{
	Schema: "billing",
	Table:  "invoices",
	Columns: []Column{
		{Name: "region", Type: "text", NotNull: true},
		{Name: "priority", Type: "smallint", NotNull: true},
		{Name: "amount", Type: "numeric"},
		{Name: "order", Type: "jsonb"},
		{Name: "due", Type: "date"},
	},
	Lanes:       []string{"region", "priority"},
	MaxAttempts: 5,
	Retry:       Retry{Growth: Linear, Base: 5 * time.Second, Cap: time.Hour},
	DeleteDone:  true,
}

// goldenKeyed has rows of ordered keys. Of its statements only those of runs are shown, which only such a table has.
var goldenKeyed = Spec{
	Table: "keyed",
	Columns: []Column{
		{Name: "topic", Type: "text", NotNull: true},
		{Name: "concurrency_key", Type: "text"},
		{Name: "key_limit", Type: "integer", Internal: true},
		{Name: "key_policy", Type: "smallint", Internal: true},
		{Name: "key_seq", Type: "bigint", Internal: true},
	},
	KeyColumn: "concurrency_key",
	Topics:    Topics{Columns: []string{"topic"}},
}

// shown are the statements of a Spec that have golden files.
func shown(spec Spec) []conn.Statement {
	return slices.DeleteFunc(allStatements(spec), func(s conn.Statement) bool {
		return spec.Table == goldenKeyed.Table && s.Name != "run" && s.Name != "settle_run"
	})
}

// TestGolden shows a reviewer every statement as it is sent. After an intended change, run it with -update. Whole
// tables are not among them: those of the domains are in migrations/sql, a user's own in examples/customtable.
// pinText pins the plans of the statements after it in its transaction.
var pinText = "SELECT " + conn.PinSets

func TestGolden(t *testing.T) {
	t.Parallel()
	for _, spec := range []Spec{goldenOutbox, goldenInvoices, goldenKeyed} {
		t.Run(spec.Table, func(t *testing.T) {
			t.Parallel()
			for _, stmt := range shown(spec) {
				golden(t, spec.Table+"/"+stmt.Name+".sql", annotated(stmt))
			}
		})
	}
	t.Run("plan settings", func(t *testing.T) {
		t.Parallel()
		golden(t, "plan_settings.sql", strings.Join(append([]string{pinText}, conn.PinTexts()...), ";\n\n")+";\n")
	})
}

// TestGoldenFilesAreAllUsed finds the files of statements that no longer exist.
func TestGoldenFilesAreAllUsed(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"plan_settings.sql": true}
	for _, spec := range []Spec{goldenOutbox, goldenInvoices, goldenKeyed} {
		for _, stmt := range shown(spec) {
			known[spec.Table+"/"+stmt.Name+".sql"] = true
		}
	}
	files, err := filepath.Glob("testdata/golden/*/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < len(known)/2 {
		t.Errorf("only %d files", len(files))
	}
	for _, file := range files {
		name, _ := filepath.Rel("testdata/golden", file)
		if !known[filepath.ToSlash(name)] {
			t.Errorf("%s is the golden file of no statement", file)
		}
	}
}

// TestEveryFileIsAStatement finds templates that are never rendered.
func TestEveryFileIsAStatement(t *testing.T) {
	t.Parallel()
	used := map[string]bool{"table": true, "table_down": true, "function": true, "retry_or_fail": true,
		"maintain": true, "each": true, "claim_admitted": true, "lost": true, "topics": true,
		"fetch": true, "sort_out": true, "fold": true, "reschedule": true, "discard": true, "delete": true,
		"unblock": true, "candidates": true, "put_back": true, "enqueue": true, "enqueue_as": true,
		"enqueue_many": true, "may_retake": true, "claimed": true, "acked": true,
		"settle": true, "settle_one": true, "settle_rows": true, "settle_extend": true, "settle_complete": true,
		"wait_until": true}
	ruled := goldenInvoices
	ruled.Admission = ruled.Lanes[0]
	byTopic := goldenOutbox
	byTopic.Topics.Columns = []string{"topic"}
	for _, spec := range []Spec{goldenOutbox, goldenInvoices, goldenKeyed, ruled, byTopic} {
		for _, stmt := range allStatements(spec) {
			used[stmt.Name] = true
		}
	}
	files, err := sqlFiles.ReadDir("sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(file.Name(), ".sql"); !used[name] {
			t.Errorf("no statement renders sql/%s", file.Name())
		}
	}
}

// allStatements returns the statements of a Spec, with some of its inserts. It finds new statements by itself.
func allStatements(spec Spec) (list []conn.Statement) {
	add := func(field reflect.Value) {
		stmt := conn.Statement{Name: field.FieldByName("Name").String(), Text: field.FieldByName("Text").String()}
		for p := range field.FieldByName("Params").Len() {
			stmt.Params = append(stmt.Params, field.FieldByName("Params").Index(p).String())
		}
		if stmt.Text != "" && !slices.ContainsFunc(list, func(s conn.Statement) bool { return s.Name == stmt.Name }) {
			list = append(list, stmt)
		}
	}
	v := reflect.ValueOf(*renderStatements(spec))
	for i := range v.NumField() {
		field := v.Field(i)
		if field.Kind() != reflect.Array {
			add(field)
			continue
		}
		for j := range field.Len() {
			add(field.Index(j))
		}
	}
	return append(list, inserts(spec)...)
}

// inserts returns the two extremes of an insert: several rows with different values in every column, and one row with
// only the values that it needs.
func inserts(spec Spec) []conn.Statement {
	v := newView(spec)
	forms := func(required, others form) string {
		list := make([]byte, 0, firstColumn+len(v.Columns))
		for range firstColumn {
			list = append(list, byte(others))
		}
		for _, c := range v.Columns {
			if c.NotNull {
				list = append(list, byte(required))
			} else {
				list = append(list, byte(others))
			}
		}
		return string(list)
	}
	many := v.insertStatement(shape{forms: forms(varying, varying), guarded: len(v.Unique) > 0})
	one := v.insertStatement(shape{forms: forms(common, absent), one: true})
	one.Name = "insert_one"
	return []conn.Statement{many, one}
}

// annotated is a statement with the names of its parameters.
func annotated(s conn.Statement) string {
	var b strings.Builder
	for i, name := range s.Params {
		fmt.Fprintf(&b, "-- $%d %s\n", i+1, name)
	}
	return b.String() + s.Text + ";\n"
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", filepath.FromSlash(name))
	if *update {
		writeGolden(t, file, got)
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: run go test -run Golden -update", err)
	}
	if got != string(want) {
		t.Errorf("%s is not what is rendered now; if that is meant, run go test -run Golden -update\n%s", file,
			firstDifference(got, string(want)))
	}
}

func writeGolden(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d\n got: %s\nwant: %s", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("got %d lines, want %d", len(g), len(w))
}
