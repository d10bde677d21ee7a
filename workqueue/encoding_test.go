package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// An encoded is a table in a database of some encoding.
type encoded struct {
	*testing.T
	db    *pgtest.DB
	table *workqueue.Table
}

func newEncoded(t *testing.T, db *pgtest.DB) *encoded {
	t.Helper()
	spec := workqueue.Spec{Schema: db.Schema, Table: "things", Columns: []workqueue.Column{
		{Name: "name", Type: "text"}, {Name: "payload", Type: "bytea"}}}
	up, _, err := spec.DDL()
	if err != nil {
		t.Fatal(err)
	}
	db.Define(t, up)
	table, err := workqueue.Open(spec, workqueue.Telemetry{})
	if err != nil {
		t.Fatal(err)
	}
	return &encoded{t, db, table}
}

func (e *encoded) insert(name string, headers map[string]string) (uuid.UUID, error) {
	e.Helper()
	var id uuid.UUID
	err := workqueue.InTx(e.Context(), e.db.Pool, func(tx workqueue.Tx) error {
		in, err := e.table.Insert(e.Context(), tx, workqueue.NewRow{Headers: headers,
			Values: []any{name, []byte("日本\x00\xff")}})
		if err == nil {
			id = in[0].ID
		}
		return err
	})
	return id, err
}

// claimed inserts a row and claims it.
func (e *encoded) claimed() (id, owner uuid.UUID) {
	e.Helper()
	id, err := e.insert("plain", nil)
	if err != nil {
		e.Fatal(err)
	}
	owner = workqueue.NewOwnerToken()
	rows, err := e.table.On(e.db.Pool).Claim(e.Context(), owner, time.Minute, 1)
	if err != nil || len(rows) != 1 || rows[0].ID != id {
		e.Fatalf("claimed %v, %v", rows, err)
	}
	return id, owner
}

// wantError checks what became of a row and its text, and ends it.
func (e *encoded) wantError(id uuid.UUID, status workqueue.Status, want string) {
	e.Helper()
	var got string
	var is workqueue.Status
	err := e.db.Pool.QueryRow(e.Context(), "DELETE FROM things WHERE id = $1 RETURNING status, last_error", id).
		Scan(&is, &got)
	if err != nil || is != status || got != want {
		e.Errorf("the row is %s with %q, %v; want %s with %q", is, got, err, status, want)
	}
}

// Texts about rows are stored with replacements if the encoding of the database lacks some of their characters: nothing
// is left unsettled. What an application writes is refused then.
func TestEncodings(t *testing.T) {
	t.Parallel()
	const text = "日本é😀"
	for _, c := range []struct {
		encoding, stored string
		careful, lacking string // in an application's transaction; a text that the encoding lacks
	}{
		{"UTF8", text, text, ""},
		{"SQL_ASCII", text, text, ""},
		{"LATIN1", `\u65e5\u672cé\U0001f600`, `\u65e5\u672cé\U0001f600`, "日"},
		{"EUC_JP", `\u65e5\u672c\u00e9\U0001f600`, `\u65e5\u672c\u00e9\U0001f600`, "😀"},
		{"WIN1252", `\u65e5\u672c\u00e9\U0001f600`, `\u65e5\u672c\u00e9\U0001f600`, "日"},
	} {
		t.Run(c.encoding, func(t *testing.T) {
			t.Parallel()
			e := newEncoded(t, pgtest.NewIn(t, c.encoding))
			e.pooled(text, c.stored)
			e.inTransactions(text, c.careful)
			e.worked(text, c.stored)
			if c.lacking == "" {
				return
			}
			for name, insert := range map[string]func() (uuid.UUID, error){
				"a column": func() (uuid.UUID, error) { return e.insert(c.lacking, nil) },
				"a header": func() (uuid.UUID, error) { return e.insert("n", map[string]string{"h": c.lacking}) },
			} {
				if _, err := insert(); !errors.Is(err, workqueue.ErrInvalid) {
					t.Errorf("%s with %q: %v", name, c.lacking, err)
				}
			}
		})
	}
}

// What the encoding has is stored as it is, outside of an application's transaction.
func TestEncodingKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	e := newEncoded(t, pgtest.NewIn(t, "EUC_JP"))
	e.pooled("日本", "日本")
	e.inTransactions("日本", `\u65e5\u672c`)
}

func (e *encoded) pooled(text, stored string) {
	e.Helper()
	q := e.table.On(e.db.Pool)
	id, owner := e.claimed()
	if _, err := q.Fail(e.Context(), owner, []uuid.UUID{id}, text); err != nil {
		e.Errorf("fail: %v", err)
	}
	if _, err := q.Redrive(e.Context(), []uuid.UUID{id}, text); err != nil {
		e.Errorf("redrive: %v", err)
	}
	if _, err := q.Cancel(e.Context(), []uuid.UUID{id}, text); err != nil {
		e.Errorf("cancel: %v", err)
	}
	e.wantError(id, workqueue.Failed, "cancelled: "+stored)
	id, owner = e.claimed()
	if _, err := q.Abandon(e.Context(), owner, []uuid.UUID{id}, time.Minute, text); err != nil {
		e.Errorf("abandon: %v", err)
	}
	e.wantError(id, workqueue.Ready, stored)
}

// inTransactions fails rows in transactions of the application.
func (e *encoded) inTransactions(text, stored string) {
	e.Helper()
	fail := func(tx workqueue.Tx) uuid.UUID {
		e.Helper()
		id, owner := e.claimed()
		if _, err := e.table.In(tx).Fail(e.Context(), owner, []uuid.UUID{id}, text); err != nil {
			e.Errorf("in a transaction: %v", err)
		}
		return id
	}
	tx, err := e.db.Pool.Begin(e.Context())
	if err != nil {
		e.Fatal(err)
	}
	id := fail(workqueue.Pgx(tx))
	if err := tx.Commit(e.Context()); err != nil {
		e.Error(err)
	}
	e.wantError(id, workqueue.Failed, stored)

	db := stdlib.OpenDBFromPool(e.db.Pool)
	defer db.Close()
	sqlTx, err := db.BeginTx(e.Context(), nil)
	if err != nil {
		e.Fatal(err)
	}
	id = fail(workqueue.SQL(sqlTx))
	if err := sqlTx.Commit(); err != nil {
		e.Error(err)
	}
	e.wantError(id, workqueue.Failed, stored)
}

// worked lets a worker fail a row.
func (e *encoded) worked(text, stored string) {
	e.Helper()
	id, err := e.insert("plain", nil)
	if err != nil {
		e.Fatal(err)
	}
	domain := workqueue.Domain[struct{}]{Table: e.table, Columns: func(_ *struct{}, c *workqueue.Columns) {
		for _, column := range e.table.Spec().Columns {
			c.Field(column, nil)
		}
	}}
	w, err := workqueue.NewWorker(e.db.Pool, domain, func(context.Context, *workqueue.Claim[struct{}]) error {
		return workqueue.Permanent(errors.New(text))
	}, workqueue.WorkerOptions{NoListen: true})
	if err != nil {
		e.Fatal(err)
	}
	ctx, stop := context.WithCancel(e.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	pgtest.Await(pgtest.Patience, func() bool {
		var failed bool
		err := e.db.Pool.QueryRow(e.Context(), "SELECT status = 3 FROM things WHERE id = $1", id).Scan(&failed)
		return failed || err != nil
	})
	stop()
	if err := <-ended; err != nil {
		e.Error(err)
	}
	e.wantError(id, workqueue.Failed, stored)
}

// A session that takes UTF-8 for another encoding would store other texts than it is given.
func TestSessionInAnotherEncoding(t *testing.T) {
	t.Parallel()
	for encoding, fits := range map[string]bool{"LATIN1": false, "EUC_JP": false, "SQL_ASCII": true} {
		e := newEncoded(t, pgtest.NewIn(t, encoding))
		pool := pgtest.NewPool(t, e.db) // with the default of PostgreSQL, the encoding of the database
		_, err := e.table.On(pool).Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
		if fits != (err == nil) || !fits && !errors.Is(err, workqueue.ErrSession) {
			t.Errorf("%s: %v", encoding, err)
		}
		err = workqueue.InTx(t.Context(), pool, func(tx workqueue.Tx) error {
			_, err := e.table.Insert(t.Context(), tx, workqueue.NewRow{Values: []any{"é", nil}})
			return err
		})
		if fits != (err == nil) || !fits && !errors.Is(err, workqueue.ErrSession) {
			t.Errorf("%s: %v", encoding, err)
		}
	}
}

// With standard_conforming_strings = off, a backslash in a literal is an escape.
func TestEscapesInLiterals(t *testing.T) {
	t.Parallel()
	e := newEncoded(t, pgtest.New(t, pgtest.WithPool(func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["standard_conforming_strings"] = "off"
	})))
	const text = `C:\new 'é`
	e.pooled(text, text)
	e.inTransactions(text, text)
	e.worked(text, text)
	id, err := e.insert(text, map[string]string{"path": text})
	if err != nil {
		t.Fatal(err)
	}
	var got string
	err = e.db.Pool.QueryRow(t.Context(), "SELECT name || (headers ->> 'path') FROM things WHERE id = $1", id).
		Scan(&got)
	if err != nil || got != text+text {
		t.Error(fmt.Sprint("stored ", got, err))
	}
}
