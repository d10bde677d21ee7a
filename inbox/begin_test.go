package inbox_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/workqueue"
)

func TestBeginInTheCallersTransaction(t *testing.T) {
	t.Parallel()
	for _, w := range apptx.Libraries() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			f := newInbox(t)
			k := key("1")
			k.Body, k.KeepBody = []byte("a\x00b"), true

			tx, end := w.Begin(f, f.DB)
			f.expectBegin(tx, k, inbox.Processed)
			end(false)

			tx, end = w.Begin(f, f.DB)
			first := f.expectBegin(tx, k, inbox.Processed)
			f.expectBegin(tx, k, inbox.Duplicate) // in the same transaction
			f.expectBegin(tx, key("2"), inbox.Processed)
			end(true)

			tx, end = w.Begin(f, f.DB)
			if again := f.expectBegin(tx, k, inbox.Duplicate); again.ID != first.ID || again.Status != workqueue.Done {
				t.Errorf("got %+v, want the row %s", again, first.ID)
			}
			k.Body = nil
			f.expectBegin(tx, k, inbox.Duplicate)
			k.BodyHash = hash("something else")
			f.expectBegin(tx, k, inbox.HashMismatch)
			end(true)
			if n := f.rows(); n != 2 {
				t.Errorf("%d rows, want 2", n)
			}
		})
	}
}

func (f *fixture) expectBegin(tx workqueue.Tx, k inbox.Key, want inbox.Answer) inbox.Result {
	f.Helper()
	got, err := f.box.Begin(f.Context(), tx, k)
	if err != nil {
		f.Fatal(err)
	}
	if got.Answer != want {
		f.Errorf("got %v, want %v", got.Answer, want)
	}
	return got
}

// An application that freezes after Begin loses the key when the server ends its session. A timeout that the session
// has set itself is kept.
func TestAFrozenApplicationLosesTheKey(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	tx, err := f.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	bound := func() (bound string) {
		if err := tx.QueryRow(t.Context(),
			"SELECT current_setting('idle_in_transaction_session_timeout')").Scan(&bound); err != nil {
			t.Fatal(err)
		}
		return bound
	}
	f.expectBegin(workqueue.Pgx(tx), key("a"), inbox.Processed)
	if got := bound(); got != "1min" {
		t.Errorf("the bound is %s, want %v", got, inbox.IdleTimeout)
	}
	if _, err := tx.Exec(t.Context(), "SET LOCAL idle_in_transaction_session_timeout = '700ms'"); err != nil {
		t.Fatal(err)
	}
	f.expectBegin(workqueue.Pgx(tx), key("b"), inbox.Processed)
	if got := bound(); got != "700ms" {
		t.Errorf("the application's own bound of 700ms is %s", got)
	}
	f.until("the keys are free", func() bool {
		result, err := f.box.Process(t.Context(), f.Pool, key("a"), effect("a"))
		return err == nil && result.Answer == inbox.Processed
	})
	if err := tx.Commit(t.Context()); err == nil {
		t.Error("a transaction that was ended by the server has committed")
	}
}

// Two batches with the same messages in opposite orders would deadlock if one waited for the other.
func TestBeginInAnyOrderWaitsForNobody(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	one, endOne := apptx.Pgx(f, f.DB)
	two, endTwo := apptx.SQL(f, f.DB)
	f.expectBegin(one, key("a"), inbox.Processed)
	f.expectBegin(two, key("b"), inbox.Processed)
	if got := f.expectBegin(one, key("b"), inbox.InProgress); got.Status != workqueue.InProgress {
		t.Errorf("got %+v", got)
	}
	f.expectBegin(two, key("a"), inbox.InProgress)
	endOne(false)
	f.expectBegin(two, key("a"), inbox.Processed)
	endTwo(true)
}

// Begin does not wait for a Receive of the same message whose transaction is still open.
func TestAReceiveThatIsStillOpenIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	open, end := apptx.Pgx(f, f.DB)
	if _, err := f.box.Receive(t.Context(), open, message("1", "")); err != nil {
		t.Fatal(err)
	}
	tx, endTx := apptx.Pgx(f, f.DB)
	f.expectBegin(tx, key("1"), inbox.InProgress)
	f.expectBegin(tx, key("2"), inbox.Processed) // the transaction can go on
	endTx(true)
	if got := f.process(key("1")); got.Answer != inbox.InProgress {
		t.Errorf("got %+v", got)
	}
	end(false)
	f.expectFree("1")
}

func TestASavepointGivesTheKeyBack(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	tx, err := f.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	part, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.expectBegin(workqueue.Pgx(part), key("1"), inbox.Processed)
	if err := part.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.expectFree("1") // while the outer transaction is still open
}

// The query modes that pgx uses behind a pooler encode arguments differently.
func TestEveryModeOfTheDriver(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
		pgx.QueryExecModeDescribeExec} {
		config := f.Pool.Config()
		config.ConnConfig.DefaultQueryExecMode = mode
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		k := key(mode.String())
		k.Body, k.KeepBody = []byte("a\x00\xff"), true
		for _, want := range []inbox.Answer{inbox.Processed, inbox.Duplicate} {
			got, err := f.box.Process(t.Context(), pool, k, effect(k.MessageID))
			if err != nil || got.Answer != want {
				t.Errorf("%v: got %+v, %v, want %v", mode, got, err, want)
			}
			if r := f.row(got.ID); string(r.Payload) != "a\x00\xff" {
				t.Errorf("%v: kept %q", mode, r.Payload)
			}
		}
		err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			got, err := f.box.ReceiveMany(t.Context(), workqueue.Pgx(tx), message(mode.String(), "other"),
				message("r"+mode.String(), "x"))
			if err == nil && (got[0].Answer != inbox.HashMismatch || got[1].Answer != inbox.Stored) {
				t.Errorf("%v: got %+v", mode, got)
			}
			return err
		})
		if err != nil {
			t.Errorf("%v: %v", mode, err)
		}
		if _, err := f.box.Purge(t.Context(), pool); err != nil {
			t.Errorf("%v: %v", mode, err)
		}
		pool.Close()
	}
}
