package workqueue_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// The database accepts every row that Check accepts: a refused value would fail the application's transaction.
func FuzzValues(f *testing.F) {
	types := postgres.ColumnTypes
	every := pgtest.Size(3, 1) // value with each type
	for i := range types {
		for n, v := range []string{
			"", "1", "-1.5e3", "NaN", "true", "2026-02-28", "2026-02-28T23:59:59Z",
			"9999-12-31T23:59:59.999999999-14:00", "0001-01-01",
			"01890a5d-ac96-774b-bcce-b302099a8057", "{}", `{"a": [1, "two", null]}`, `"\u0000"`, `"\\u0000"`,
			`"\ud800"`, `"\udc00\ud800"`, `"\ud83d\ude00"`,
			"1e400", "1e-400", "1e999999", "-0", "a\x00b", "\xff", "\ufeff{}", "9223372036854775808", "1e9999",
			"1e+9999", "0x1p4", "1_000", "Infinity",
		} {
			if n%every == i%every {
				f.Add(uint8(i), v)
			}
		}
	}
	db := pgtest.New(f)
	tables := make([]*workqueue.Table, len(types))
	for i, typ := range types {
		tables[i] = tableOfType(f, db, typ, i)
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		table := tables[int(which)%len(tables)]
		for _, v := range []any{text, []byte(text), json.RawMessage(text), map[string]string{text: text}} {
			row := workqueue.NewRow{Values: []any{v}, Headers: map[string]string{"h": text}}
			checked := row
			checked.Values = []any{v}
			if table.Check(&checked) == nil {
				insertAndForget(t, db, table, row)
				insertAndForget(t, db, table, checked)
			}
		}
	})
}

func tableOfType(f *testing.F, db *pgtest.DB, typ string, i int) *workqueue.Table {
	spec := workqueue.Spec{Schema: db.Schema, Table: "values_" + string(rune('a'+i)),
		Columns: []workqueue.Column{{Name: "v", Type: typ}}}
	up, _, err := spec.DDL()
	if err != nil {
		f.Fatal(err)
	}
	if _, err := db.Pool.Exec(f.Context(), up); err != nil {
		f.Fatal(err)
	}
	table, err := workqueue.Open(spec, workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	return table
}

func insertAndForget(t *testing.T, db *pgtest.DB, table *workqueue.Table, row workqueue.NewRow) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tx, err := db.Pool.Begin(ctx)
	must(t, err)
	defer func(tx pgx.Tx) { _ = tx.Rollback(context.WithoutCancel(ctx)) }(tx)
	if _, err := table.Insert(ctx, workqueue.Pgx(tx), row); err != nil {
		t.Fatalf("%s refused %#v of column type %v: %v", table.Name(), row.Values[0], row.Values, err)
	}
}
