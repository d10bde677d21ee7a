package model_test

import (
	"context"
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// games is the default number of games for each table.
const games = "10"

func TestMain(m *testing.M) {
	flag.Parse()
	named := false
	flag.Visit(func(f *flag.Flag) { named = named || f.Name == "rapid.checks" })
	if !named {
		if err := flag.Set("rapid.checks", games); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

func TestTableBehavesAsItsModel(t *testing.T)            { t.Parallel(); playGames(t, false) }
func TestTableThatDeletesBehavesAsItsModel(t *testing.T) { t.Parallel(); playGames(t, true) }

func playGames(t *testing.T, deleteDone bool) {
	db := pgtest.New(t)
	handle := db.SQL(t)
	real := newTable(t, db, deleteDone)
	rapid.Check(t, func(r *rapid.T) {
		m := &machine{table: table{deleteDone: deleteDone}, db: db, sql: handle, real: real}
		m.exec(r, "DELETE FROM "+real.Name())
		r.Repeat(map[string]func(*rapid.T){
			"": m.Check, "insert": m.Insert, "claim": m.Claim, "claim too": m.Claim, "settle": m.Settle,
			"settle too": m.Settle,
			"cancel":     m.Cancel, "redrive": m.Redrive, "reap": m.Reap, "purge": m.Purge, "pass": m.Pass,
		})
	})
}

func newTable(t *testing.T, db *pgtest.DB, deleteDone bool) *workqueue.Table {
	t.Helper()
	spec := workqueue.Spec{
		Schema:     db.Schema,
		Table:      "games",
		Columns:    []workqueue.Column{{Name: "key", Type: "text"}, {Name: "lane", Type: "integer", NotNull: true}},
		Lanes:      []string{"lane"},
		Unique:     []string{"key"},
		Retry:      workqueue.Retry{Growth: workqueue.Linear, Base: time.Hour, Cap: capHours * time.Hour},
		DeleteDone: deleteDone,
	}
	up, _, err := spec.DDL()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), up); err != nil {
		t.Fatal(err)
	}
	table, err := workqueue.Open(spec, workqueue.Telemetry{})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func (m *machine) exec(t *rapid.T, statement string) {
	if _, err := m.db.Pool.Exec(context.Background(), statement); err != nil {
		t.Fatal(err)
	}
}

// clock returns the time of the database, from which due times are counted.
func (m *machine) clock(t *rapid.T) (now time.Time) {
	if err := m.db.Pool.QueryRow(context.Background(), "SELECT clock_timestamp()").Scan(&now); err != nil {
		t.Fatal(err)
	}
	return now
}
