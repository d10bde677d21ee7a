package workqueue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/dispatch"
)

func (r *rig) worker(o workqueue.WorkerOptions, handler workqueue.Handler[note]) *workqueue.Worker {
	r.Helper()
	w, err := workqueue.NewWorker(r.Pool, r.Domain, handler, o)
	if err != nil {
		r.Fatal(err)
	}
	return w
}

// drain passes on what Drain or DrainIn returns. An error ends the test.
func (r *rig) drain(d *workqueue.Drain, err error) *workqueue.Drain {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
	return d
}

func (r *rig) process(p dispatch.Processor, want int) {
	r.Helper()
	if n, err := p.Process(r.Context()); n != want || err != nil {
		r.Fatalf("processed %d, %v; want %d", n, err, want)
	}
}

// wakesIn expects the next wake in about that time; -1: none.
func (r *rig) wakesIn(p dispatch.Processor, want time.Duration) {
	r.Helper()
	w, err := p.NextWakeAt(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	switch {
	case w == nil && want < 0:
	case w == nil || want < 0 || w.In > want || w.In < want-slack:
		r.Fatalf("the next wake is %+v, want in %v", w, want)
	}
}

func TestDrainHandlesWhatIsDue(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Retry = never }})
	ids := r.insert("ok", "ok", "fails", "dead", "tx")
	r.insertRows(workqueue.NewRow{Values: []any{"later", ""}, DueAt: time.Now().Add(10 * time.Minute)})
	d := r.drain(r.worker(workqueue.WorkerOptions{Concurrency: 2}, func(ctx context.Context, c *noteClaim) error {
		switch c.Body.Topic {
		case "fails":
			return errors.New("not now")
		case "dead":
			return workqueue.Permanent(errors.New("never"))
		case "tx":
			return c.Tx(ctx, func(pgx.Tx) error { return nil })
		}
		return nil
	}).Drain())
	r.process(d, 5)
	r.awaitStatus(workqueue.Done, ids[0], ids[1], ids[4])
	r.awaitStatus(workqueue.Failed, ids[3])
	r.wakesIn(d, 10*time.Minute)
	r.process(d, 0)
	r.exec("UPDATE notes SET due_at = now() WHERE status = 0")
	d.Limit = 1
	r.process(d, 1)
	d.Limit = 0
	r.process(d, 1)
}

// A process dies in its Process. The next one takes its row back.
func TestDrainWakesForExpiredLeasesAndTakesThemBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	ids := r.insert("a")
	if _, err := r.Queue.Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 1); err != nil {
		t.Fatal(err)
	}
	d := r.drain(r.worker(workqueue.WorkerOptions{}, ackAll).Drain())
	r.wakesIn(d, time.Minute)
	r.process(d, 0)
	r.exec("UPDATE notes SET locked_until = now()")
	r.wakesIn(d, 0)
	r.process(d, 1)
	r.awaitStatus(workqueue.Done, ids...)
	r.wakesIn(d, -1)
}

func TestDrainKeepsTheLeasesOfSlowHandlers(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	ids := r.insert("a")
	d := r.drain(r.worker(workqueue.WorkerOptions{Lease: pgtest.Lease}, func(ctx context.Context,
		c *noteClaim) error {
		before := r.row(c.ID).LockedUntil
		r.eventually("a renewal", func() bool { return r.row(c.ID).LockedUntil.After(before) })
		return ctx.Err()
	}).Drain())
	r.process(d, 1)
	r.awaitStatus(workqueue.Done, ids...)
}

func TestDrainInATransactionLeavesNothingWhenThatRollsBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.exec("CREATE TABLE effects (topic text)")
	tx, err := r.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids, err := r.insertIn(tx, workqueue.NewRow{Values: []any{"good", ""}}, workqueue.NewRow{Values: []any{"bad", ""}})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	d := r.drain(r.worker(workqueue.WorkerOptions{}, func(ctx context.Context, c *noteClaim) error {
		order = append(order, c.Body.Topic)
		return c.Tx(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", c.Body.Topic)
			if c.Body.Topic == "bad" {
				_, err = tx.Exec(ctx, "SELECT 1/0")
			}
			return err
		})
	}).DrainIn(tx))
	r.process(d, 2)
	if !slices.Equal(order, []string{"good", "bad"}) {
		t.Errorf("handled %v", order)
	}
	var effects []string
	if err := tx.QueryRow(t.Context(), "SELECT array_agg(topic) FROM effects").Scan(&effects); err != nil ||
		!slices.Equal(effects, []string{"good"}) {
		t.Errorf("effects are %v, %v", effects, err)
	}
	var statuses []int16
	err = tx.QueryRow(t.Context(), "SELECT array_agg(status ORDER BY array_position($1, id)) FROM notes",
		ids).Scan(&statuses)
	if err != nil || !slices.Equal(statuses, []int16{2, 0}) {
		t.Errorf("statuses are %v, %v", statuses, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := r.count("true") + ask[int](r, "SELECT count(*)::int FROM effects"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestDrainUnderDispatchers(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	var mu sync.Mutex
	handled := 0
	d := r.drain(r.worker(workqueue.WorkerOptions{}, func(context.Context, *noteClaim) error {
		mu.Lock()
		defer mu.Unlock()
		handled++
		return nil
	}).Drain())
	poll := dispatch.NewPoll(dispatch.Group("all", d), dispatch.PollOptions{Interval: 20 * time.Millisecond})
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { defer close(done); poll.Run(ctx) }()
	ids := r.insertMany("a", 50)
	r.awaitStatus(workqueue.Done, ids...)
	cancel()
	<-done
	if handled != 50 {
		t.Errorf("handled %d, want 50", handled)
	}
}

func TestDrainInATransactionKeepsItsAdmissionInIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: byRule})
	r.exec(everything)
	r.insert("new")
	tx, err := r.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := r.insertIn(tx, workqueue.NewRow{Values: []any{"new", ""}}); err != nil {
		t.Fatal(err)
	}
	r.process(r.drain(r.serving(lanes("new")).worker(workqueue.WorkerOptions{}, ackAll).DrainIn(tx)), 2)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := r.count("status = 0 AND attempts = 0"); n != 1 {
		t.Errorf("%d rows are as they were, want 1", n)
	}
}

func TestDrainInATransactionLeavesItsSettingsAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: byRule})
	r.exec(everything)
	tx, err := r.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := r.insertIn(tx, workqueue.NewRow{Values: []any{"a", ""}}); err != nil {
		t.Fatal(err)
	}
	r.process(r.drain(r.serving(lanes("a")).worker(workqueue.WorkerOptions{}, func(ctx context.Context,
		c *noteClaim) error {
		return c.Tx(ctx, func(pgx.Tx) error { return nil })
	}).DrainIn(tx)), 1)
	var seqscan, sort string
	if err := tx.QueryRow(t.Context(),
		"SELECT current_setting('enable_seqscan'), current_setting('enable_sort')").Scan(&seqscan, &sort); err != nil {
		t.Fatal(err)
	}
	if seqscan != "on" || sort != "on" {
		t.Errorf("the transaction goes on with enable_seqscan %s, enable_sort %s", seqscan, sort)
	}
}

// A claim that was broken off would leave rows in progress, with no handler, until their leases expire.
func TestDrainFinishesItsClaimWhenItIsCancelled(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.5); RETURN NEW; END $$;
		CREATE TRIGGER slow BEFORE UPDATE ON notes FOR EACH ROW WHEN (OLD.status = 0 AND NEW.status = 1) EXECUTE FUNCTION slow()`)
	ids := r.insert("a")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		r.eventually("the claim is under way", func() bool {
			return ask[int](r, "SELECT count(*)::int FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query "+
				"LIKE '%' || current_schema() || '%'") > 0
		})
	}()
	if n, err := r.drain(r.worker(workqueue.WorkerOptions{}, ackAll).Drain()).Process(ctx); n != 1 || err != nil {
		t.Errorf("processed %d, %v; want 1", n, err)
	}
	r.awaitStatus(workqueue.Done, ids...)
}

// Only sweeps find rows that wait for a deadline, a rate or a free place.
func TestDrainWakesForSweepsWhileRowsWait(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Sweeps = []string{"release"} }})
	r.exec(release)
	d := r.drain(r.worker(workqueue.WorkerOptions{}, ackAll).Drain())
	r.process(d, 0)
	r.wakesIn(d, -1)
	r.insertRows(workqueue.NewRow{Values: []any{"stay", ""}, Waiting: true})
	r.process(d, 0)
	first, err := d.NextWakeAt(t.Context())
	if err != nil || first == nil || first.In > time.Minute {
		t.Fatalf("wakes at %+v, %v", first, err)
	}
	for range 10 {
		r.process(d, 0)
	}
	if last, err := d.NextWakeAt(t.Context()); err != nil || last == nil || last.In != time.Minute {
		t.Errorf("wakes at %+v, %v, after many runs that found nothing; want in a minute", last, err)
	}
	r.exec("UPDATE notes SET topic = 'go'")
	r.process(d, 1)
	r.wakesIn(d, -1)
}

func TestADrainOfSeveralWorkersSharesItsLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: byTopic})
	r.insertMany("a", 3)
	r.insertMany("b", 2)
	var order orderOf
	workers := workqueue.Workers{
		r.serving(lanes("a")).worker(workqueue.WorkerOptions{}, order.handle),
		r.serving(lanes("b")).worker(workqueue.WorkerOptions{}, order.handle),
	}
	d := r.drain(workers.Drain())
	if d.Namespace() != r.Table.Name() || len(d.Parts()) != 2 {
		t.Errorf("%s has %d parts", d.Namespace(), len(d.Parts()))
	}
	r.wakesIn(d, 0)
	d.Limit = 1
	for range 4 {
		r.process(d, 1)
	}
	if got := strings.Join(order.topics, " "); got != "a b a b" {
		t.Errorf("handled %s, want each worker's in turn", got)
	}
	d.Limit = 0
	r.process(d, 1)
	r.wakesIn(d, -1)
}

func TestDrainInNeedsATransaction(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	if _, err := r.worker(workqueue.WorkerOptions{}, ackAll).DrainIn(nil); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
