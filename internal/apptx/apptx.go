// Package apptx opens transactions as applications do, in each of the libraries that applications use, for the tests of
// domains.
package apptx

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jmoiron/sqlx"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// A Library is one by which an application opens its transactions.
type Library struct {
	Name string

	// Begin opens a transaction. end commits it or rolls it back.
	Begin func(t testing.TB, db *pgtest.DB) (tx workqueue.Tx, end func(commit bool))
}

// Libraries are all of them. pgx is there twice, since it sends arguments as text where it does not prepare statements,
// as behind a pooler.
func Libraries() []Library {
	return []Library{{"pgx", Pgx}, {"pgx unprepared", unprepared}, {"database/sql", SQL}, {"sqlx", sqlxTx}}
}

// Pgx opens a transaction on the test's pool.
func Pgx(t testing.TB, db *pgtest.DB) (workqueue.Tx, func(bool)) {
	t.Helper()
	tx, err := db.Pool.Begin(t.Context())
	return pgxTx(t, tx, err)
}

func unprepared(t testing.TB, db *pgtest.DB) (workqueue.Tx, func(bool)) {
	t.Helper()
	config, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	tx, err := conn.Begin(t.Context())
	return pgxTx(t, tx, err)
}

func pgxTx(t testing.TB, tx pgx.Tx, err error) (workqueue.Tx, func(bool)) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return workqueue.Pgx(tx), ending(t,
		func() error { return tx.Commit(t.Context()) },
		func() error { return tx.Rollback(t.Context()) })
}

// SQL opens a transaction of database/sql.
func SQL(t testing.TB, db *pgtest.DB) (workqueue.Tx, func(bool)) {
	t.Helper()
	tx, err := db.SQL(t).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return workqueue.SQL(tx), ending(t, tx.Commit, tx.Rollback)
}

func sqlxTx(t testing.TB, db *pgtest.DB) (workqueue.Tx, func(bool)) {
	t.Helper()
	tx, err := sqlx.NewDb(db.SQL(t), "pgx").BeginTxx(t.Context(), &sql.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return workqueue.SQL(tx), ending(t, tx.Commit, tx.Rollback)
}

func ending(t testing.TB, commit, rollback func() error) func(bool) {
	return func(keep bool) {
		t.Helper()
		finish := rollback
		if keep {
			finish = commit
		}
		if err := finish(); err != nil {
			t.Fatal(err)
		}
	}
}
