package workqueue_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// Names that Validate accepts work everywhere: in the DDL, its functions, indexes and triggers, in every statement, as
// a LISTEN channel, and in the DDL that drops all of it. All others never reach the database.
func FuzzIdentifiers(f *testing.F) {
	for _, s := range [][3]string{
		{"txwork", "outbox", "payload"}, {"order", "table", "user"}, {"_", "_", "_"}, {"a1", "select", "group"},
		{"pg_x", "t", "c"}, {`a"; DROP SCHEMA public CASCADE; --`, "t", "c"}, {"a", `t"`, "c"}, {"a", "t", "c'; --"},
		{"a.b", "t", "c"},
		{"A", "t", "c"}, {"a", "t\x00", "c"}, {"a", "tä", "c"}, {"a", "t$", "c"}, {"a", "t", "ids"},
		{"a", "t", "owner_token"}, {"a", "t", "t"},
		{"a", "t_123456789012345678901234567890123456789012345", "c"}, {"a", "new", "old"}, {"a", "excluded", "r"},
		{"a", "t", "s"}, {"a", "t", "ord"},
		{"information_schema", "t", "c"}, {"a", "t", "xmin"},
		{"s_12345678901234567890123456789012345678901234567890123456789", "t", "c"},
		{"a", "t", "c_1234567890123456789012345678901234567890123456789012345678901"}, {"a", "t\n", "c"},
		{"public", "t", "c1"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	db := pgtest.New(f)
	f.Fuzz(func(t *testing.T, schema, table, column string) {
		spec := workqueue.Spec{
			Schema: schema, Table: table,
			Columns: []workqueue.Column{{Name: column, Type: "text", NotNull: true}},
			Lanes:   []string{column}, Unique: []string{column},
		}
		if spec.Validate() != nil {
			return
		}
		if schema == "public" || schema == db.Schema {
			t.Skip("not ours to drop")
		}
		if schema == "" {
			spec.Schema = workqueue.DefaultSchema // what the empty name stands for
		}
		useEverywhere(t, db, spec)
	})
}

// useEverywhere uses a name in every place that it can reach, and cleans up.
func useEverywhere(t *testing.T, db *pgtest.DB, spec workqueue.Spec) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, db.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	schema := pgx.Identifier{spec.Schema}.Sanitize()
	must(t, execute(ctx, conn, "CREATE SCHEMA "+schema))
	defer func() { must(t, execute(context.WithoutCancel(ctx), conn, "DROP SCHEMA "+schema+" CASCADE")) }()

	up, down, err := spec.DDL()
	must(t, err)
	must(t, execute(ctx, conn, up))
	must(t, execute(ctx, conn, "LISTEN "+pgx.Identifier{spec.Name()}.Sanitize()))
	q, err := workqueue.Open(spec, workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)

	ids := insertAndClaim(ctx, t, conn, q)
	for _, call := range []string{"extend($1, $2, '30 s')", "retry($1, $2)", "fail($1, $2, 'x')", "ack($1, $2)"} {
		name, arguments, _ := strings.Cut(call, "(")
		must(t, execute(ctx, conn, "SELECT "+pgx.Identifier{spec.Schema, spec.Table + "_" + name}.Sanitize()+"("+
			arguments, workqueue.NewOwnerToken(), ids))
	}
	if _, err := conn.WaitForNotification(ctx); err != nil {
		t.Fatalf("nothing heard on channel %s: %v", spec.Name(), err)
	}
	must(t, execute(ctx, conn, down))
	var left int
	must(t, conn.QueryRow(ctx, "SELECT count(*) FROM pg_class WHERE relnamespace = $1::regnamespace",
		schema).Scan(&left))
	if left > 0 {
		t.Fatalf("%d relations are left", left)
	}
}

func insertAndClaim(ctx context.Context, t *testing.T, conn *pgx.Conn, q *workqueue.Table) (ids []uuid.UUID) {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := q.Insert(ctx, workqueue.Pgx(tx), workqueue.NewRow{Values: []any{"lane"}}); err != nil {
			return err
		}
		rows, err := q.In(workqueue.Pgx(tx)).Claim(ctx, workqueue.NewOwnerToken(), time.Minute, 10, "lane")
		for _, r := range rows {
			ids = append(ids, r.ID)
		}
		return err
	})
	must(t, err)
	if len(ids) != 1 {
		t.Fatalf("claimed %d rows, want 1", len(ids))
	}
	return ids
}

func execute(ctx context.Context, conn *pgx.Conn, statement string, args ...any) error {
	_, err := conn.Exec(ctx, statement, args...)
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
