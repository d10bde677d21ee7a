package periodic_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// calls records the calls of a plan's Insert.
type calls struct {
	mu    sync.Mutex
	sizes []int
}

// counted replaces Insert: it records the size of each call, calls before, and then inserts the runs.
func (c *calls) counted(before func(occurrences []periodic.Occurrence)) func(*periodic.Options) {
	return func(o *periodic.Options) {
		o.Insert = func(ctx context.Context, tx workqueue.Tx, occurrences []periodic.Occurrence) (int, error) {
			c.mu.Lock()
			c.sizes = append(c.sizes, len(occurrences))
			c.mu.Unlock()
			before(occurrences)
			return insertRuns(ctx, tx, occurrences)
		}
	}
}

// everySecond puts a schedule that owes the newest thousand of four thousand occurrences.
func (f *fixture) everySecond(template []byte) (first time.Time) {
	f.Helper()
	f.put(periodic.Schedule{Name: "s", Expr: "@every 1s", Template: template,
		Rule: schedule.Rule{Misfire: schedule.MisfireAll, Cap: 1000, Grace: time.Second}})
	f.missed("s", 4000*time.Second)
	return *f.get("s").NextAt
}

// caughtUp waits until nothing is owed, and checks that the occurrences have no gap.
func (f *fixture) caughtUp(first time.Time) {
	f.Helper()
	f.until("nothing is owed", func() bool {
		return ask[bool](f, "SELECT fired >= 1000 AND next_at > now() FROM "+
			f.table)
	})
	got, runs := f.get("s"), f.runs("s")
	if total := got.NextAt.Sub(first) / time.Second; got.Fired != int64(len(runs)) ||
		got.Skipped != int64(total)-got.Fired || got.Skipped < 2990 {
		f.Errorf("%d runs of %d, %+v", len(runs), total, got)
	}
	for i := 1; i < len(runs); i++ {
		if runs[i].Sub(runs[i-1]) != time.Second {
			f.Errorf("after %v comes %v", runs[i-1], runs[i])
		}
	}
}

// However many occurrences are owed, each transaction is short, and the occurrences that it has written stay.
func TestADecisionIsMadeInPieces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ template, most int }{"many": {1, 250}, "large": {1 << 20, 8}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c2 calls
			var f *fixture
			before := func([]periodic.Occurrence) {}
			f = newPlan(t, c2.counted(func(o []periodic.Occurrence) { before(o) }))
			f.exec("ALTER TABLE runs ALTER COLUMN template DROP NOT NULL")
			f.exec("CREATE FUNCTION small() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.template := NULL; " +
				"RETURN NEW; END $$")
			// so that the test does not depend on the disk
			f.exec("CREATE TRIGGER small BEFORE INSERT ON runs FOR EACH ROW EXECUTE FUNCTION small()")
			first := f.everySecond(bytes.Repeat([]byte("t"), c.template))
			f.scheduler()
			if c.template > 1 {
				f.until("some pieces are written", func() bool { return len(f.runs("s")) >= 4*c.most })
			} else {
				f.caughtUp(first)
			}
			c2.mu.Lock()
			defer c2.mu.Unlock()
			if len(c2.sizes) < 4 {
				t.Errorf("only %d pieces", len(c2.sizes))
			}
			for i, n := range c2.sizes {
				if n > c.most {
					t.Errorf("piece %d has %d occurrences, want at most %d", i, n, c.most)
				}
			}
		})
	}
}

// The rest after a piece is due at once, without the minimal pause between a handler's snoozes.
func TestNoPauseBetweenPieces(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.exec("CREATE TABLE put_back (due_at timestamptz, at timestamptz)")
	f.exec(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO put_back VALUES (NEW.due_at, clock_timestamp()); RETURN NULL; END $$`)
	f.exec("CREATE TRIGGER note AFTER UPDATE ON " + f.table +
		" FOR EACH ROW WHEN (OLD.status = 1 AND NEW.status = 0) EXECUTE FUNCTION note()")
	first := f.everySecond([]byte("t"))
	f.scheduler()
	f.caughtUp(first)
	f.until("the last piece is settled", func() bool { return ask[int](f, "SELECT count(*) FROM put_back") >= 4 })
	if early := ask[int](f, "SELECT count(*) FROM put_back WHERE due_at <= at"); early < 3 {
		t.Errorf("%d of the first 3 pieces are followed at once", early)
	}
}

// A decision that takes longer than its lease is rolled back entirely, and so is the next one.
func TestADecisionThatTakesLongerThanItsLease(t *testing.T) {
	t.Parallel()
	var c calls
	f := newPlan(t, c.counted(func(occurrences []periodic.Occurrence) {
		pgtest.Pass(time.Duration(len(occurrences)) * 2 * time.Millisecond)
	}))
	first := f.everySecond([]byte("t"))
	f.schedulerWith(periodic.SchedulerOptions{WorkerOptions: workqueue.WorkerOptions{Lease: time.Second}})
	f.caughtUp(first)
}

// If one piece is too large for a transaction, the next attempt writes half of it.
func TestAPieceThatFailsIsHalved(t *testing.T) {
	t.Parallel()
	var c calls
	f := newPlan(t, func(o *periodic.Options) {
		c.counted(func([]periodic.Occurrence) {})(o)
		insert := o.Insert
		o.Insert = func(ctx context.Context, tx workqueue.Tx, occurrences []periodic.Occurrence) (int, error) {
			if len(occurrences) > 100 {
				if _, err := tx.Exec(ctx, "SELECT 1/0"); err != nil {
					return 0, err
				}
			}
			return insert(ctx, tx, occurrences)
		}
	})
	f.everySecond([]byte("t"))
	f.scheduler()
	f.until("62 are written", func() bool { return len(f.runs("s")) == 62 })
	if got := f.get("s"); got.Fired != 62 {
		t.Errorf("got %+v", got)
	}
}
