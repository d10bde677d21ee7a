package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/workqueue"
)

// deliveredTogether records the effect of each message of a batch.
func deliveredTogether(ctx context.Context, tx pgx.Tx, batch []*inbox.Delivery) error {
	for _, m := range batch {
		if err := delivered(ctx, tx, m); err != nil {
			return err
		}
	}
	return nil
}

func contains(batch []*inbox.Delivery, id string) bool {
	return slices.ContainsFunc(batch, func(m *inbox.Delivery) bool { return m.MessageID == id })
}

// batch checks that each of the messages is done and has one effect, but for one that was poisoned.
func (f *fixture) batch(poisoned inbox.Result, wantStatus workqueue.Status, effects int, all []inbox.Result) {
	f.Helper()
	for i, r := range all {
		status, n := workqueue.Done, 1
		if r.ID == poisoned.ID {
			status, n = wantStatus, effects
		}
		got := f.settled(r.ID)
		if f.until("its effect", func() bool { return f.effects(fmt.Sprint(i)) == n }); got.Status != status ||
			got.Attempts != 1 {
			f.Errorf("message %d is %v after %d attempts: %s", i, got.Status, got.Attempts, got.LastError)
		}
	}
}

func eight() (msgs []inbox.Message) {
	for i := range 8 {
		msgs = append(msgs, message(fmt.Sprint(i), ""))
	}
	return msgs
}

// However a message fails, its batch's writes commit without it, once.
func TestMessagesAreProcessedTogether(t *testing.T) {
	t.Parallel()
	refuse := errors.New("refused")
	each := func(batch []*inbox.Delivery, err error) []error {
		results := make([]error, len(batch))
		for i, m := range batch {
			if m.MessageID == "5" {
				results[i] = err
			}
		}
		return results
	}
	for name, c := range map[string]struct {
		fail    func(context.Context, pgx.Tx, []*inbox.Delivery) ([]error, error)
		status  workqueue.Status
		effects int
		calls   int
	}{
		"a result": {func(_ context.Context, _ pgx.Tx, b []*inbox.Delivery) ([]error, error) {
			return each(b, refuse), nil
		}, workqueue.Ready, 0, 2},
		"an outcome commits": {func(_ context.Context, _ pgx.Tx, b []*inbox.Delivery) ([]error, error) {
			return each(b, workqueue.Permanent(refuse)), nil
		}, workqueue.Failed, 1, 1},
		"an error": {func(context.Context, pgx.Tx, []*inbox.Delivery) ([]error, error) {
			return nil, refuse
		}, workqueue.Ready, 0, 7},
		"a panic": {func(context.Context, pgx.Tx, []*inbox.Delivery) ([]error, error) {
			panic("refused")
		}, workqueue.Ready, 0, 7},
		"a statement": {func(ctx context.Context, tx pgx.Tx, _ []*inbox.Delivery) ([]error, error) {
			_, _ = tx.Exec(ctx, "SELECT 1/0")
			return nil, nil
		}, workqueue.Ready, 0, 7},
		"a statement and a result": {func(ctx context.Context, tx pgx.Tx, b []*inbox.Delivery) ([]error, error) {
			_, err := tx.Exec(ctx, "SELECT 1/0")
			return each(b, workqueue.Permanent(err)), nil
		}, workqueue.Failed, 0, 2},
		"an end": {func(ctx context.Context, tx pgx.Tx, _ []*inbox.Delivery) ([]error, error) {
			_, err := tx.Exec(ctx, "ROLLBACK")
			return nil, err
		}, workqueue.Ready, 0, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newInbox(t)
			all := f.receive(eight()...)
			calls := make(chan int, 100)
			f.worker(workqueue.WorkerOptions{Concurrency: 1}, func(w *inbox.Worker) {
				w.HandleBatch("shop", workqueue.BatchOptions{Limit: 8, Linger: time.Hour}, func(ctx context.Context,
					tx pgx.Tx, b []*inbox.Delivery) ([]error, error) {
					calls <- len(b)
					if err := deliveredTogether(ctx, tx, b); err != nil {
						return nil, err
					}
					if contains(b, "5") {
						return c.fail(ctx, tx, b)
					}
					return nil, nil
				})
			})
			f.batch(all[5], c.status, c.effects, all)
			if len(calls) != c.calls {
				t.Errorf("%d calls, want %d", len(calls), c.calls)
			}
		})
	}
}

// An outcome of a message commits with its writes, also if another message of the batch fails.
func TestAnOutcomeOfABatchCommitsWithItsWrites(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	all := f.receive(eight()...)
	calls := make(chan int, 100)
	f.worker(workqueue.WorkerOptions{Concurrency: 1}, func(w *inbox.Worker) {
		w.HandleBatch("shop", workqueue.BatchOptions{Limit: 8, Linger: time.Hour}, func(ctx context.Context, tx pgx.Tx,
			b []*inbox.Delivery) ([]error, error) {
			calls <- len(b)
			results := make([]error, len(b))
			for i, m := range b {
				switch m.MessageID {
				case "2":
					results[i] = workqueue.Permanent(errors.New("unknown"))
				case "5":
					results[i] = errors.New("refused")
				}
			}
			return results, deliveredTogether(ctx, tx, b)
		})
	})
	f.batch(all[2], workqueue.Failed, 1, all[:5])
	if got := f.settled(all[5].ID); got.Status != workqueue.Ready || got.Attempts != 1 || f.effects("5") != 0 {
		t.Errorf("the message that failed is %v after %d attempts with %d effects", got.Status, got.Attempts,
			f.effects("5"))
	}
	if len(calls) != 2 {
		t.Errorf("%d calls, want 2", len(calls))
	}
}

// A message whose lease is lost in the middle of a batch has no effect by it, and the others have one.
func TestALostMessageOfABatchHasNoEffect(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	all := f.receive(eight()...)
	first := true
	f.worker(workqueue.WorkerOptions{Concurrency: 1}, func(w *inbox.Worker) {
		w.HandleAllBatch(workqueue.BatchOptions{Limit: 8, Linger: time.Hour}, func(ctx context.Context, tx pgx.Tx,
			b []*inbox.Delivery) ([]error, error) {
			if first {
				f.exec("UPDATE "+f.table+" SET owner_token = gen_random_uuid() WHERE id = $1", all[2].ID)
			}
			if !first && contains(b, "2") {
				t.Error("the lost message is processed again")
			}
			first = false
			return nil, deliveredTogether(ctx, tx, b)
		})
	})
	for i, r := range all {
		if i != 2 {
			if got := f.settled(r.ID); got.Status != workqueue.Done || f.effects(fmt.Sprint(i)) != 1 {
				t.Errorf("message %d is %v with %d effects", i, got.Status, f.effects(fmt.Sprint(i)))
			}
		}
	}
	if n := f.effects("2"); n != 0 {
		t.Errorf("the lost message has %d effects", n)
	}
}

// In a transaction of the application each try is a savepoint.
func TestABatchIsProcessedInADrain(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	all := f.receive(eight()...)
	w, err := inbox.NewWorker(f.Pool, f.box, inbox.WorkerOptions{Consumer: "billing"})
	if err != nil {
		t.Fatal(err)
	}
	w.HandleBatch("shop", workqueue.BatchOptions{}, func(ctx context.Context, tx pgx.Tx,
		b []*inbox.Delivery) ([]error, error) {
		err := deliveredTogether(ctx, tx, b)
		if contains(b, "5") {
			err = errors.New("refused")
		}
		return nil, err
	})
	if err := pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
		d, err := w.DrainIn(tx)
		if err == nil {
			_, err = d.Process(t.Context())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	f.batch(all[5], workqueue.Ready, 0, all)
}
