package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/outbox"
)

// A folded is what a call of the procedure fold returns.
type folded struct {
	Cursor  string
	Folded  int
	AgainIn float64
	Busy    bool
}

func (f *fixture) fold(cursor any) folded {
	f.Helper()
	rows, err := f.Pool.Query(f.Context(), "CALL "+f.table+"_fold(cursor => $1)", cursor)
	if err != nil {
		f.Fatal(err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[folded])
	if err != nil {
		f.Fatal(err)
	}
	if r.Cursor == "" || r.AgainIn < 0 || r.AgainIn > 60 {
		f.Errorf("a fold returned %+v", r)
	}
	return r
}

// claimable counts the rows that a claim would find.
func (f *fixture) claimable() int {
	f.Helper()
	return f.count("SELECT count(*) FROM " + f.table + " WHERE status = 0 AND NOT waiting")
}

func sqlState(err error) (code, column string) {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code, pg.ColumnName
	}
	return "", ""
}

// The procedure folds until nothing is left, with a cursor that it is given or without, and leaves no lock behind.
func TestTheProcedureFolds(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	other := newOutbox(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	one := func(key string) outbox.Message { return outbox.Message{Topic: "t", Key: key} }

	var many []outbox.Message
	for n := range 2500 { // more than one step
		many = append(many, one(string(rune('a'+n%7))))
	}
	f.enqueue(many...)
	r := f.fold(nil)
	if r.Folded < 7 || r.Busy || f.claimable() != 7 || f.count("SELECT count(*) FROM "+f.table+"_key_note") != 0 {
		t.Fatalf("%+v, and %d rows can be claimed, want 7", r, f.claimable())
	}
	if again := f.fold(r.Cursor); again.Folded != 0 || again.Busy {
		t.Errorf("after all, %+v", again)
	}

	f.enqueue(one("new"))
	if again := f.fold(r.Cursor); again.Folded == 0 || f.claimable() != 8 {
		t.Errorf("%+v, and %d rows can be claimed, want 8", again, f.claimable())
	}
	other.enqueue(one("elsewhere"))
	if again := other.fold(r.Cursor); again.Folded == 0 || other.claimable() != 1 {
		t.Errorf("with a cursor of another table, %+v", again)
	}

	// A transaction that began before the cursor's place commits after it. The next pass from the start finds its note.
	late, err := f.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer late.Rollback(context.Background())
	if _, err := late.Exec(t.Context(), "SELECT "+f.table+"_enqueue('t', '', key => 'late')"); err != nil {
		t.Fatal(err)
	}
	rest(2 * time.Millisecond)
	f.enqueue(one("later"))
	r = f.fold(nil)
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.until("the late note is folded", func() bool {
		r = f.fold(r.Cursor)
		return f.claimable() == 10
	})
}

// Another session that folds keeps nobody waiting, and a fold in a transaction is refused.
func TestTheProcedureHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	f.enqueue(outbox.Message{Topic: "t", Key: "k"})
	holder, err := f.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "SELECT "+f.table+"_key_fold(1000)"); err != nil {
		t.Fatal(err)
	}
	r := f.fold(nil)
	if !r.Busy || r.Folded != 0 || r.AgainIn < 1 {
		t.Errorf("beside another fold, %+v", r)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := f.fold(r.Cursor); again.Busy || again.Folded == 0 {
		t.Errorf("after another fold, %+v", again)
	}

	err = pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "CALL "+f.table+"_fold()")
		return err
	})
	if code, _ := sqlState(err); code != "2D000" { // invalid_transaction_termination
		t.Errorf("in a transaction, %v", err)
	}
	for _, text := range []string{"", "fold1", "fold1 abcdef01 1", "fold1 abcdef01 1 x", r.Cursor + ";"} {
		_, err := f.Pool.Exec(t.Context(), "CALL "+f.table+"_fold(cursor => $1)", text)
		if code, column := sqlState(err); code != "22023" || column != "cursor" {
			t.Errorf("with the cursor %q, %v", text, err)
		}
	}
}
