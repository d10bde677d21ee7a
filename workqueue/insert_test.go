package workqueue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/trace"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

var letters = workqueue.Spec{
	Table:   "letters",
	Columns: []workqueue.Column{{Name: "address", Type: "text", NotNull: true}},
	Unique:  []string{"address"},
}

func letter(address string) workqueue.NewRow { return workqueue.NewRow{Values: []any{address}} }

// write inserts rows in a transaction of its own.
func write(ctx context.Context, db *pgtest.DB, table *workqueue.Table,
	rows ...workqueue.NewRow) (in []workqueue.Enqueued, err error) {
	err = pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
		in, err = table.Insert(ctx, workqueue.Pgx(tx), rows...)
		return err
	})
	return in, err
}

func count(t *testing.T, db *pgtest.DB, table *workqueue.Table) (n int) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table.Name()).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// The trace of the enqueueing code travels with the row; a header of the caller's own wins over it.
func TestInsertCarriesTheTrace(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	table := create(t, db, letters)
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
		TraceFlags: trace.FlagsSampled})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	traced, own := letter("a"), letter("b")
	traced.Headers = map[string]string{"k": "v"}
	own.Headers = map[string]string{"Traceparent": "mine"}
	if _, err := write(ctx, db, table, traced, own); err != nil {
		t.Fatal(err)
	}
	rows, err := table.On(db.Pool).Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 2)
	if err != nil || len(rows) != 2 {
		t.Fatalf("claimed %v, error %v", rows, err)
	}
	if got := rows[0].Headers; !strings.Contains(got["traceparent"], span.TraceID().String()) || got["k"] != "v" {
		t.Errorf("headers: got %v, want the trace %s", got, span.TraceID())
	}
	if got := rows[1].Headers; len(got) > 2 || got["Traceparent"] != "mine" { // tracestate is the other
		t.Errorf("headers: got %v, want the caller's own", got)
	}
}

// More rows than one statement takes are written by several, and are all checked before the first.
func TestInsertInSeveralStatements(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var statements []int
	table, err := workqueue.Open(create(t, db, letters).Spec(), workqueue.Telemetry{Observer: func(_ context.Context,
		e workqueue.Event) {
		statements = append(statements, e.Requested)
	}})
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]workqueue.NewRow, workqueue.MaxBatch+2)
	for i := range rows {
		rows[i] = letter(uuid.NewString())
		rows[i].ID = uuid.New()
	}
	rows[1].Values, rows[workqueue.MaxBatch+1].Values = rows[0].Values, []any{"a\x00b"}
	_, err = write(t.Context(), db, table, rows...)
	wantInvalid(t, err, "address")
	if n := count(t, db, table); n != 0 || len(statements) > 0 {
		t.Errorf("%d rows are there, %v were sent, want none", n, statements)
	}
	rows[workqueue.MaxBatch+1].Values = rows[0].Values
	got, err := write(t.Context(), db, table, rows...)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		want := workqueue.Enqueued{ID: row.ID}
		if i == 1 || i == workqueue.MaxBatch+1 {
			want = workqueue.Enqueued{ID: rows[0].ID, Duplicate: true}
		}
		if got[i] != want {
			t.Fatalf("row %d: got %v, want %v", i, got[i], want)
		}
	}
	if n := count(t, db, table); n != workqueue.MaxBatch {
		t.Errorf("%d rows are there, want %d", n, workqueue.MaxBatch)
	}
	if want := []int{workqueue.MaxBatch, 2}; !slices.Equal(statements, want) {
		t.Errorf("statements of %v rows, want %v", statements, want)
	}
}

// The error says which row of the batch is bad; one row alone needs no number.
func TestInsertNamesTheRow(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	table := create(t, db, letters)
	bad := letter("a\x00b")
	if _, err := write(t.Context(), db, table, letter("a"), bad, letter("c")); err == nil ||
		!strings.Contains(err.Error(), "row 2 of 3") {
		t.Errorf("got the error %v, want one about row 2 of 3", err)
	}
	for _, err := range []error{table.Check(&bad), errorOf(write(t.Context(), db, table, bad))} {
		if err == nil || strings.Contains(err.Error(), "row 1") {
			t.Errorf("got the error %v, want one without a number", err)
		}
	}
}

func errorOf(_ []workqueue.Enqueued, err error) error { return err }

// A row that one table has checked is checked again by another.
func TestACheckedRowIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	table := create(t, db, workqueue.Spec{Table: "documents",
		Columns: []workqueue.Column{{Name: "body", Type: "jsonb"}}})
	document := map[string]int{"a": 1}
	row := workqueue.NewRow{Values: []any{document}}
	if err := table.Check(&row); err != nil {
		t.Fatal(err)
	}
	if _, err := write(t.Context(), db, table, row, workqueue.NewRow{Values: []any{document}}); err != nil {
		t.Fatal(err)
	}
	var same bool
	err := db.Pool.QueryRow(t.Context(), "SELECT count(*) = 2 AND count(DISTINCT body) = 1 AND min(body ->> 'a') = "+
		"'1' FROM "+table.Name()).Scan(&same)
	if err != nil || !same {
		t.Errorf("a row that was checked and one that was not differ: %v", err)
	}
	strict := create(t, db, workqueue.Spec{Table: "strict",
		Columns: []workqueue.Column{{Name: "body", Type: "bigint"}}})
	_, err = write(t.Context(), db, strict, row)
	wantInvalid(t, err, "body")
}

func TestInsertOfATakenID(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	table := create(t, db, letters)
	a, b := letter("a"), letter("b")
	a.ID = uuid.New()
	b.ID = a.ID
	_, err := write(t.Context(), db, table, a, b)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "23505" {
		t.Errorf("got the error %v, want a violated primary key", err)
	}
	if n := count(t, db, table); n != 0 {
		t.Errorf("%d rows are there, want none", n)
	}
}

// A row that is written once is a duplicate of the row with its id, whoever holds its unique values.
func TestInsertOnce(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]workqueue.Spec{"unique": letters, "not unique": {Table: letters.Table,
		Columns: letters.Columns}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			table := create(t, db, spec)
			once := func(id uuid.UUID, address string) workqueue.NewRow {
				return workqueue.NewRow{ID: id, Once: true, Values: []any{address}}
			}
			first, other, fresh := uuid.New(), uuid.New(), uuid.New()
			if _, err := write(t.Context(), db, table, once(first, "a"), once(other, "b")); err != nil {
				t.Fatal(err)
			}
			beside := uuid.New()
			got, err := write(t.Context(), db, table, once(first, "a"), once(other, "a"), once(first, "x"),
				once(fresh, "c"), once(beside, "b"))
			if err != nil {
				t.Fatal(err)
			}
			last := workqueue.Enqueued{ID: beside}
			if name == "unique" {
				last = workqueue.Enqueued{ID: other, Duplicate: true}
			}
			want := []workqueue.Enqueued{{ID: first, Duplicate: true}, {ID: other, Duplicate: true},
				{ID: first, Duplicate: true}, {ID: fresh}, last}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}

			taken := letter("d")
			taken.ID = first
			_, err = write(t.Context(), db, table, once(uuid.New(), "e"), taken)
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != "23505" {
				t.Errorf("a row that is not written once, with a taken id: error %v, want a violated primary key", err)
			}
			_, err = write(t.Context(), db, table, once(uuid.Nil, "f"))
			wantInvalid(t, err, "ID")
		})
	}
}

func TestInsertWithAnEndedContext(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	table := create(t, db, letters)
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := table.Insert(ctx, workqueue.Pgx(tx), letter("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("got the error %v, want context.Canceled", err)
	}
	_ = tx.Commit(t.Context())
	if n := count(t, db, table); n != 0 {
		t.Errorf("%d rows are there, want none", n)
	}
}

// A trigger that suppresses rows must not make the library look for the holders of their unique values for ever.
func TestInsertOfASuppressedRow(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]workqueue.Spec{"unique": letters, "not unique": {Table: letters.Table,
		Columns: letters.Columns}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			table := create(t, db, spec)
			_, err := db.Pool.Exec(t.Context(),
				`CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
				CREATE TRIGGER swallow BEFORE INSERT ON letters FOR EACH ROW WHEN (NEW.address = 'nobody') EXECUTE FUNCTION swallow()`)
			if err != nil {
				t.Fatal(err)
			}
			_, err = write(t.Context(), db, table, letter("a"), letter("nobody"))
			if err == nil || !strings.Contains(err.Error(), "trigger") {
				t.Errorf("got the error %v, want one that names the cause", err)
			}
			if n := count(t, db, table); n != 0 {
				t.Errorf("%d rows are there, want none", n)
			}
		})
	}
}

// The holder of unique values may be deleted by its ack while its duplicate is written: then the duplicate is written.
func TestInsertAfterTheHolderVanished(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	spec := letters
	spec.DeleteDone = true
	table := create(t, db, spec)
	for range 20 {
		if _, err := write(t.Context(), db, table, letter("a")); err != nil {
			t.Fatal(err)
		}
		token := workqueue.NewOwnerToken()
		rows, err := table.On(db.Pool).Claim(t.Context(), token, time.Minute, 1)
		if err != nil || len(rows) != 1 {
			t.Fatalf("claimed %v, error %v", rows, err)
		}
		acked := make(chan error, 1)
		go func() {
			_, err := table.On(db.Pool).Ack(t.Context(), token, []uuid.UUID{rows[0].ID})
			acked <- err
		}()
		in, err := write(t.Context(), db, table, letter("a"))
		if err != nil {
			t.Fatal(err)
		}
		if err := <-acked; err != nil {
			t.Fatal(err)
		}
		if in[0].ID == uuid.Nil || in[0].Duplicate != (in[0].ID == rows[0].ID) ||
			count(t, db, table) == 0 != in[0].Duplicate {
			t.Fatalf("inserted %v beside the holder %v, %d rows are there", in[0], rows[0].ID, count(t, db, table))
		}
		if _, err := db.Pool.Exec(t.Context(), "DELETE FROM "+table.Name()); err != nil {
			t.Fatal(err)
		}
	}
}
