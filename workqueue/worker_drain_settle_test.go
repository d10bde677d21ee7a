package workqueue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// A row that the database refuses to settle does not delay the other rows, and the run goes on.
func TestDrainSettlesTheNeighboursOfARefusedRow(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]workqueue.WorkerOptions{
		"all at once": {Lease: time.Hour, Concurrency: 20},
		"a few":       {Lease: time.Hour, Concurrency: 3},
		"one by one":  {Lease: time.Hour, Concurrency: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			r.onSettle("IF NEW.topic = 'refused' THEN RAISE EXCEPTION 'no' USING ERRCODE = '42501'; END IF;")
			refused, fine := r.mixed("refused", 1, "fine", 19)
			n, err := r.drain(r.worker(o, ackAll).Drain()).Process(t.Context())
			if n != 20 || err == nil || !strings.Contains(err.Error(), refused[0].String()) ||
				!strings.Contains(err.Error(), "42501") {
				t.Errorf("processed %d, %v; want 20, and the refused row named", n, err)
			}
			checkDone(r, fine)
			if row := r.row(refused[0]); row.Status != workqueue.InProgress {
				t.Errorf("the refused row is %v", row.Status)
			}
		})
	}
}

// A lost claim is reported, and ends nothing else.
func TestDrainGoesOnAfterALostLease(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	stolen, fine := r.mixed("stolen", 1, "fine", 9)
	n, err := r.drain(r.worker(workqueue.WorkerOptions{Lease: time.Hour, Concurrency: 2}, func(_ context.Context,
		c *noteClaim) error {
		if c.ID == stolen[0] {
			r.exec("UPDATE notes SET owner_token = gen_random_uuid() WHERE id = $1", c.ID)
		}
		return nil
	}).Drain()).Process(t.Context())
	if n != 10 || !errors.Is(err, workqueue.ErrLeaseLost) {
		t.Errorf("processed %d, %v; want 10, and the lost lease", n, err)
	}
	checkDone(r, fine)
}

// A row that another session has locked waits, and the others are settled meanwhile.
func TestDrainSettlesALockedRowLast(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	ids := r.insertMany("a", 20)
	locks, err := r.Eyes.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Rollback(context.Background())
	d := r.drain(r.worker(workqueue.WorkerOptions{Lease: time.Hour, Concurrency: 5}, func(ctx context.Context,
		c *noteClaim) error {
		if c.ID != ids[3] {
			return nil
		}
		_, err := locks.Exec(ctx, "SELECT FROM notes WHERE id = $1 FOR UPDATE", c.ID)
		return err
	}).Drain())
	released := make(chan struct{})
	go func() {
		defer close(released)
		r.eventually("the others", func() bool { return r.count("status = 2") == 19 })
		locks.Rollback(context.Background())
	}()
	r.process(d, 20)
	<-released
	r.awaitStatus(workqueue.Done, ids...)
}

// While nothing can be settled, a drain claims no more, because each row that it handled for nothing would lose an
// attempt.
func TestDrainStopsWhenNothingCanBeSettled(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.onSettle("RAISE EXCEPTION 'no' USING ERRCODE = '42501';")
	r.insertMany("a", 200)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n, err := r.drain(r.worker(workqueue.WorkerOptions{Lease: time.Hour, Concurrency: 20}, ackAll).Drain()).Process(ctx)
	if n != 20 || err == nil || !strings.Contains(err.Error(), "42501") {
		t.Errorf("processed %d, %v; want 20, and the refusal", n, err)
	}
}

// In a transaction of the application, a refused settle spoils nothing else.
func TestDrainInATransactionSurvivesARefusedSettle(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.onSettle("IF NEW.topic = 'refused' THEN RAISE EXCEPTION 'no'; END IF;")
	refused, fine := r.mixed("refused", 1, "fine", 4)
	tx, err := r.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	n, err := r.drain(r.worker(workqueue.WorkerOptions{}, ackAll).DrainIn(tx)).Process(t.Context())
	if n != 5 || err == nil || !strings.Contains(err.Error(), refused[0].String()) {
		t.Errorf("processed %d, %v; want 5, and the refused row named", n, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkDone(r, fine)
}

func checkDone(r *rig, ids []uuid.UUID) {
	r.Helper()
	if n := r.count("id = ANY ($1) AND status = 2", ids); n != len(ids) {
		r.Errorf("%d rows are done, want %d", n, len(ids))
	}
}
