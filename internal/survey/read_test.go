package survey_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/survey"
)

// A process that stands still between two statements keeps its transaction for as long as a statement may take.
func TestATransactionMayBeIdleForAsLongAsAStatementTakes(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for limit, want := range map[time.Duration]string{time.Second: "5s", time.Minute: "1min"} {
		var got string
		err := survey.Reader{From: db.Pool, Limit: limit}.Read(t.Context(), func(tx pgx.Tx) error {
			return tx.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&got)
		})
		if err != nil || got != want {
			t.Errorf("with a limit of %v a transaction may be idle for %s, %v, want %s", limit, got, err, want)
		}
	}
}

// Reads that share a transaction go on after one that fails, after the session has ended, and read statistics anew if
// they are asked to. They take one connection.
func TestReadsShareATransaction(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.WithPool(func(c *pgxpool.Config) { c.MaxConns = 1 }))
	ctx := t.Context()
	read := func(r survey.Reader, text string) (string, error) {
		all, err := survey.Rows[struct{ Text string }](ctx, r, text)
		if err != nil {
			return "", err
		}
		return all[0].Text, nil
	}
	const transaction = "SELECT now()::text"
	for age, shared := range map[time.Duration]bool{0: true, time.Minute: false} {
		err := survey.Reader{From: db.Pool, Limit: time.Minute}.Together(ctx, func(r survey.Reader) error {
			first, err := read(r, transaction)
			if err != nil {
				return err
			}
			r.Age(age)
			second, err := read(r, transaction)
			if (first == second) != shared {
				t.Errorf("at an age of %v the transactions began at %s and %s", age, first, second)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	err := survey.Reader{From: db.Pool, Limit: time.Minute}.Together(ctx, func(r survey.Reader) error {
		if _, err := read(r, "SELECT (1 / 0)::text"); err == nil {
			t.Error("1/0 can be read")
		}
		first, err := read(r, transaction)
		if err != nil {
			t.Errorf("after an error: %v", err)
		}
		if err := r.Anew(ctx); err != nil {
			t.Error(err)
		}
		if next, _ := read(r, transaction); next == first {
			t.Error("the transaction was not ended")
		}
		if _, err := read(r, "SELECT pg_terminate_backend(pg_backend_pid())::text"); err == nil {
			t.Error("the session has not ended")
		}
		for range 2 {
			if _, err := read(r, transaction); err != nil {
				t.Errorf("after the end of the session: %v", err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
