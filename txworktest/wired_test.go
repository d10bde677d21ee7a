package txworktest_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/txworktest"
	"github.com/txwork/txwork/workqueue"
)

// Faults reach the handlers that an application has registered already.

func TestFaultsInARelayThatTheApplicationHasMade(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	faults := txworktest.NewFaults(t)
	calls := 0
	relay := f.relay(func(context.Context, *outbox.Delivery) error { calls++; return nil })

	faults.After(1, txworktest.LoseLease(f.Pool, f.box))
	relay.Wrap(func(h outbox.Handler) outbox.Handler { return txworktest.Inject(faults, h) })

	// A service that does not run yet may hold the worker.
	if _, err := service.New(f.Pool, service.Options{}, relay); err != nil {
		t.Fatal(err)
	}
	f.enqueue(outbox.Message{Topic: "a"})
	wantOutcomes(t, txworktest.DrainAll(t, f.Pool, relay), "lease lost, done")
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
}

func TestFaultsInAnInboxWorkerThatTheApplicationHasMade(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(t, "CREATE TABLE billed (id uuid)")
	box, err := inbox.Open(inbox.Options{Schema: f.Schema, DedupWindow: day, MaxAttempts: 3,
		Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := inbox.NewWorker(f.Pool, box, inbox.WorkerOptions{Consumer: "billing"})
	if err != nil {
		t.Fatal(err)
	}
	w.HandleAll(func(ctx context.Context, tx pgx.Tx, m *inbox.Delivery) error {
		_, err := tx.Exec(ctx, "INSERT INTO billed VALUES ($1)", m.ID)
		return err
	})

	faults := txworktest.NewFaults(t)
	faults.After(1, txworktest.LoseLease(f.Pool, box)) // the handler has written, and nothing has committed
	w.Wrap(func(h inbox.Handler) inbox.Handler { return txworktest.InjectIn(faults, h) })

	err = pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
		_, err := box.Receive(t.Context(), workqueue.Pgx(tx),
			inbox.Message{Consumer: "billing", Source: "shop", MessageID: "1"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, txworktest.DrainAll(t, f.Pool, w), "lease lost, done")
	if n := ask[int](f, f.Pool, "SELECT count(*) FROM billed"); n != 1 {
		t.Errorf("billed %d times", n)
	}
}

func TestFaultsInAJobsWorkerThatTheApplicationHasMade(t *testing.T) {
	t.Parallel()
	n := newNightly(t, nil)
	faults := txworktest.NewFaults(t)
	faults.Before(1, txworktest.Error(errBroken))
	faults.Before(3, txworktest.Error(errBroken))
	n.worker.Wrap(func(h jobs.Handler) jobs.Handler { return txworktest.Inject(faults, h) })

	n.Advance(t, n.Pool, day)
	last := func(handled []txworktest.Handled) txworktest.Outcome { return handled[len(handled)-1].Outcome }
	if handled := txworktest.DrainAll(t, n.Pool, n.worker); last(handled) != txworktest.Done || faults.Calls() != 2 {
		t.Errorf("%d calls: %v", faults.Calls(), handled)
	}
	tx := n.Begin(t)
	n.Advance(t, tx, day)
	if handled := txworktest.Drain(t, tx, n.worker); last(handled) != txworktest.Retried || faults.Calls() != 3 {
		t.Errorf("in a transaction: %d calls: %v", faults.Calls(), handled)
	}
	if len(n.nights) != 1 {
		t.Errorf("%d reports", len(n.nights))
	}
}
