package txworktest_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/txworktest"
	"github.com/txwork/txwork/workqueue"
)

func TestSchemaHasTheTablesOfTheMigrations(t *testing.T) {
	t.Parallel()
	db := txworktest.Schema(t, txworktest.Server(t))
	m, err := migrations.New(db.Pool, migrations.Options{Schema: db.Schema})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSchemaIsDroppedAfterwards(t *testing.T) {
	t.Parallel()
	var schema string
	t.Run("a test", func(t *testing.T) {
		db := txworktest.Schema(t, txworktest.Server(t))
		schema = db.Schema
		db.Exec(t, "CREATE TABLE orders (id int); CREATE TABLE lines (id int)")
		if _, err := db.SQL(t).ExecContext(t.Context(), "INSERT INTO orders VALUES (1)"); err != nil {
			t.Error(err)
		}
	})
	conn, err := pgx.Connect(t.Context(), txworktest.Server(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var there bool
	err = conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema).Scan(&there)
	if there || err != nil {
		t.Errorf("schema %s is still there: %v, %v", schema, there, err)
	}
}

func TestBeginIsRolledBackAfterwards(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	t.Run("a test", func(t *testing.T) {
		f.enqueueIn(f.Begin(t), outbox.Message{Topic: "a"})
	})
	txworktest.RequireNone(t, f.Pool, f.box)
	t.Run("a test that commits", func(t *testing.T) {
		tx := f.Begin(t)
		f.enqueueIn(tx, outbox.Message{Topic: "a"})
		if err := tx.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	})
	txworktest.RequireEnqueued(t, f.Pool, f.box)
}

func TestSchemaConfiguresThePool(t *testing.T) {
	t.Parallel()
	db := txworktest.Schema(t, txworktest.Server(t), func(c *pgxpool.Config) { c.MaxConns = 3 })
	if n := db.Pool.Config().MaxConns; n != 3 {
		t.Errorf("%d connections", n)
	}
	fails(t, func(t testing.TB) { db.Exec(t, "SELECT 1/0") }, "division by zero")
	fails(t, func(t testing.TB) { txworktest.Schema(t, "postgres://nobody@localhost:1/none") }, "connect")
}

// An application's folder of goose migrations has its own files, and those that migrations.Export wrote for the schema
// in production. Migrate applies only its own.
func TestMigrateAppliesTheApplicationsFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own := "-- +goose Up\nCREATE TABLE orders (id int);\n-- +goose Down\nDROP TABLE orders;\n"
	if err := os.WriteFile(filepath.Join(dir, "20260101000001_orders.sql"), []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Export(dir, migrations.FileOptions{Format: migrations.Goose}); err != nil {
		t.Fatal(err)
	}
	db := txworktest.Schema(t, txworktest.Server(t))
	db.Migrate(t, os.DirFS(dir))
	db.Exec(t, "INSERT INTO orders VALUES (1); SELECT FROM outbox")
	var others bool
	err := db.Pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM goose_db_version WHERE version_id <> 0 AND "+
		"version_id <> 20260101000001)").Scan(&others)
	if err != nil || others {
		t.Errorf("txwork's own files were applied, too: %v", err)
	}
	fails(t, func(t testing.TB) { db.Exec(t, own) }, "DB.Migrate")
	fails(t, func(t testing.TB) { db.Migrate(t, os.DirFS(t.TempDir())) }, "migrations")
}

func TestTableOfAnApplication(t *testing.T) {
	t.Parallel()
	db := txworktest.Schema(t, txworktest.Server(t))
	spec := workqueue.Spec{Schema: db.Schema, Table: "notes", Columns: workqueue.ColumnsOf((*note).list)}
	up, _, err := spec.DDL()
	if err != nil {
		t.Fatal(err)
	}
	db.Exec(t, up)
	db.Exec(t, `INSERT INTO notes (text, size, big, ratio, ok, body, at, other, extra, price, day)
		VALUES ('a', 7, 9007199254740993, 0.5, true, '\xff00', '2026-01-02 03:04:05.123456Z', '01890a5d-ac96-774b-bcce-b302099a8057', '{"b": 1}', 1.10, '2026-01-02')`)
	table, err := workqueue.Open(spec, workqueue.Telemetry{})
	if err != nil {
		t.Fatal(err)
	}
	row := txworktest.RequireEnqueued(t, db.Pool, txworktest.Table(table),
		txworktest.Column("text", "a"), txworktest.Column("size", 7), txworktest.Column("big", int64(9007199254740993)),
		txworktest.Column("ratio", 0.5), txworktest.Column("ok", true), txworktest.Column("body", []byte("\xff\x00")),
		txworktest.Column("at", when), txworktest.Column("other", other), txworktest.Column("price", "1.10"),
		txworktest.Column("day", "2026-01-02"), txworktest.Column("none", nil))
	if extra, _ := row.Values["extra"].(json.RawMessage); string(extra) != `{"b": 1}` || row.Text("text") != "a" ||
		row.Text("none") != "" {
		t.Errorf("%+v", row)
	}
	w, err := workqueue.NewWorker(db.Pool, workqueue.Domain[note]{Table: table, Columns: (*note).list}, ack,
		workqueue.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if h := txworktest.RunOne(t, db.Pool, w); h.Outcome != txworktest.Done || h.ID != row.ID {
		t.Error(h)
	}
}

var (
	when  = time.Date(2026, 1, 2, 3, 4, 5, 123456000, time.UTC)
	other = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")
)

// note is a row of the application.
type note struct{ columns [12]any }

func (n *note) list(c *workqueue.Columns) {
	for i, column := range []workqueue.Column{
		{Name: "text", Type: "text"}, {Name: "size", Type: "integer"}, {Name: "big", Type: "bigint"},
		{Name: "ratio", Type: "double precision"},
		{Name: "ok", Type: "boolean"}, {Name: "body", Type: "bytea"}, {Name: "at", Type: "timestamptz"},
		{Name: "other", Type: "uuid"},
		{Name: "extra", Type: "jsonb"}, {Name: "price", Type: "numeric"}, {Name: "day", Type: "date"},
		{Name: "none", Type: "text"},
	} {
		c.Field(column, &n.columns[i])
	}
}

func ack(context.Context, *workqueue.Claim[note]) error { return nil }
