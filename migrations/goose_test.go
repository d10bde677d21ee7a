package migrations_test

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

func TestGooseLayout(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	layout, err := migrations.GooseLayout("txwork")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range migrations.All() {
		names = append(names, m.Name+".sql")
	}
	if err := fstest.TestFS(layout, names...); err != nil {
		t.Error(err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db.SQL(t), layout)
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, source := range provider.ListSources() {
		got = append(got, source.Version)
	}
	if !slices.Equal(got, every()) {
		t.Errorf("goose sees the versions %v", got)
	}
}

// goose's own store, and therefore its command, can read the table of versions.
func TestGooseReadsTheVersions(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	layout, err := migrations.GooseLayout(db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db.SQL(t), layout, goose.WithTableName(db.Schema+
		".schema_version"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := provider.Status(t.Context())
	if err != nil || len(all) != len(every()) {
		t.Errorf("%+v, %v", all, err)
	}
	for _, s := range all {
		if s.State != goose.StateApplied {
			t.Errorf("goose takes version %d for %s", s.Source.Version, s.State)
		}
	}
}

// The pairs can be run as files by the user's own goose, which also records them in a table of its own.
func TestPairsThroughGoose(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	schema := unmade(t, db)
	pairs, err := migrations.FS(migrations.FileOptions{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	statement := func(name string) string {
		text, err := fs.ReadFile(pairs, name)
		if err != nil {
			t.Fatal(err)
		}
		return "-- +goose StatementBegin\n" + string(text) + "-- +goose StatementEnd\n"
	}
	files := fstest.MapFS{}
	for _, m := range migrations.All() {
		files[m.Name+".sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + statement(m.Name+".up.sql") +
			"-- +goose Down\n" + statement(m.Name+".down.sql"))}
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db.SQL(t), files)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := newMigrator(t, db.Pool, schema).Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := provider.DownTo(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if n := objects(t, db.Pool, schema); n != 0 {
		t.Errorf("%d objects remain", n)
	}
}

// The user's own goose runs the migration that DDL returns, and its SQL functions work.
func TestPrintedTableThroughGoose(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	schema := unmade(t, db)
	text, err := migrations.DDL(invoices(schema))
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db.SQL(t),
		fstest.MapFS{"20260102030405_invoices.sql": {Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := provider.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		claimAndAck(t, db, schema)
		if _, err := provider.Down(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := objects(t, db.Pool, schema); n != 0 {
			t.Fatalf("%d objects remain", n)
		}
	}
}

func claimAndAck(t *testing.T, db *pgtest.DB, schema string) {
	t.Helper()
	table, err := workqueue.Open(invoices(schema), workqueue.Telemetry{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if err := table.CheckVersion(t.Context(), db.Pool); err != nil {
		t.Fatal(err)
	}
	exec(t, db.Pool, "INSERT INTO "+schema+".invoices (region, number) SELECT 'eu', n FROM generate_series(1, 3) AS n")
	token := workqueue.NewOwnerToken()
	ids := collect(t, db, "SELECT id FROM "+schema+".invoices_fetch($1, '60 s', 10, '{eu}') WHERE entry = 'row'", token)
	if len(ids) != 3 {
		t.Fatalf("claimed %d rows", len(ids))
	}
	if acked := collect(t, db, "SELECT id FROM "+schema+".invoices_ack($1, $2) WHERE result = 'done'", uuid.New(),
		ids); len(acked) != 0 {
		t.Errorf("a stale token acked %d rows", len(acked))
	}
	if acked := collect(t, db, "SELECT id FROM "+schema+".invoices_ack($1, $2) WHERE result = 'done'", token,
		ids); len(acked) != 3 {
		t.Errorf("acked %d rows", len(acked))
	}
}

func collect(t *testing.T, db *pgtest.DB, query string, args ...any) [][16]byte {
	t.Helper()
	rows, err := db.Pool.Query(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return ids
}

// Every form a Spec can take has to survive goose's parser.
func TestPrintedTablesParse(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	plain := invoices(db.Schema)
	plain.Lanes, plain.Unique = nil, nil
	deleting := invoices(db.Schema)
	deleting.Table, deleting.DeleteDone = "deleting", true
	bare := workqueue.Spec{Schema: db.Schema, Table: "bare"}
	files := fstest.MapFS{}
	for i, spec := range []workqueue.Spec{plain, deleting, bare} {
		text, err := migrations.DDL(spec)
		if err != nil {
			t.Fatal(err)
		}
		files[string(rune('1'+i))+"_"+spec.Table+".sql"] = &fstest.MapFile{Data: []byte(text)}
	}
	if names, err := fs.Glob(files, "*"); err != nil || len(names) != 3 {
		t.Fatal(names, err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db.SQL(t), files)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Up(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := provider.DownTo(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

func TestDDLRefusesABadSpec(t *testing.T) {
	t.Parallel()
	if text, err := migrations.DDL(workqueue.Spec{Table: "Bad Name"}); err == nil || text != "" {
		t.Errorf("%q, %v", text, err)
	}
}

// If `txwork migrate up` has made the tables before the application's own goose applies the exported files, goose fails
// and changes nothing, and goes on as soon as it is told that these files are applied: docs/operations.md.
func TestExportedFilesAfterUp(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	schema, dir := unmade(t, db), t.TempDir()
	m := newMigrator(t, db.Pool, schema)
	up(t, m)
	written, err := migrations.Export(dir, migrations.FileOptions{Schema: schema, Format: migrations.Goose})
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db.SQL(t), os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Up(t.Context()); err == nil || !strings.Contains(err.Error(), "42710") {
		t.Fatalf("goose applied the files again: %v", err)
	}
	for version := range written {
		exec(t, db.Pool, fmt.Sprintf("INSERT INTO goose_db_version (version_id, is_applied) VALUES (%d, true)", version+1))
	}
	if results, err := provider.Up(t.Context()); err != nil || len(results) != 0 {
		t.Errorf("%v, %v", results, err)
	}
	if err := m.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}
