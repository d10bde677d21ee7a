package periodic_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// Failed writes lose no occurrence, LastError has the error, and a success resets the count of failures.
func TestOccurrencesThatCannotBeWrittenAreTriedAgain(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	f := newPlan(t, func(o *periodic.Options) {
		o.Insert = func(ctx context.Context, tx workqueue.Tx, occurrences []periodic.Occurrence) (int, error) {
			n, err := insertRuns(ctx, tx, occurrences)
			if broken.Load() {
				err = errors.New("the disk is full")
			}
			return n, err
		}
	})
	f.put(hourly(schedule.Rule{}))
	f.missed("s", time.Hour)
	f.scheduler()
	f.until("it was tried twice", func() bool { return ask[int](f, "SELECT attempts FROM "+f.table) >= 2 })
	if got := f.get("s"); got.LastError != "the disk is full" || got.Fired != 0 || got.Failures < 1 ||
		len(f.runs("s")) != 0 {
		t.Errorf("got %+v and %d runs", got, len(f.runs("s")))
	}
	broken.Store(false)
	f.until("it is written", func() bool { return len(f.runs("s")) == 1 && f.get("s").Fired == 1 })
	f.until("the attempts count from the start", func() bool {
		return ask[int](f, "SELECT attempts FROM "+
			f.table) == 0
	})
	if got := f.get("s"); got.Failures != 0 {
		t.Errorf("got %+v", got)
	}
}

// A panic in a domain's Insert fails only that decision: other schedules fire, and this one fires once the panics stop.
func TestPanicsOfADecisionAreContained(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	f := newPlan(t, func(o *periodic.Options) {
		o.Insert = func(ctx context.Context, tx workqueue.Tx, occurrences []periodic.Occurrence) (int, error) {
			if occurrences[0].Schedule == "s" && broken.Load() {
				panic("out of cheese")
			}
			return insertRuns(ctx, tx, occurrences)
		}
	})
	other := hourly(schedule.Rule{})
	other.Name = "other"
	f.put(hourly(schedule.Rule{}), other)
	f.missed("s", time.Hour)
	f.missed("other", time.Hour)
	f.scheduler()
	f.until("it was tried", func() bool { return strings.Contains(f.get("s").LastError, "out of cheese") })
	f.until("the other fires", func() bool { return f.get("other").Fired == 1 })
	broken.Store(false)
	f.until("it fires", func() bool { return f.get("s").Fired == 1 })
}

// A schedule whose expression or zone this program cannot read, because another version wrote it, is retried.
func TestAScheduleThatCannotBeReadIsTriedAgain(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.put(hourly(schedule.Rule{}))
	f.exec("UPDATE " + f.table + " SET zone = 'Moon/Tranquillity', due_at = now(), next_at = now()")
	f.scheduler()
	f.until("it was tried", func() bool { return strings.Contains(f.get("s").LastError, "Moon/Tranquillity") })
	f.exec("UPDATE " + f.table + " SET zone = 'UTC'")
	f.until("it fires", func() bool { return len(f.runs("s")) == 1 })
}

// The connection dies after the occurrence was written and before the commit.
func TestADecisionThatIsCutOffIsMadeAgain(t *testing.T) {
	t.Parallel()
	var cuts atomic.Int32
	f := newPlan(t, func(o *periodic.Options) {
		o.Insert = func(ctx context.Context, tx workqueue.Tx, occurrences []periodic.Occurrence) (int, error) {
			n, err := insertRuns(ctx, tx, occurrences)
			if err == nil && cuts.Add(1) == 1 {
				_, err = tx.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
			}
			return n, err
		}
	})
	f.put(hourly(schedule.Rule{}))
	f.missed("s", time.Hour)
	f.scheduler()
	f.until("it is written", func() bool { return f.get("s").Fired == 1 })
	if n := len(f.runs("s")); n != 1 || cuts.Load() < 2 {
		t.Errorf("%d runs after %d decisions", n, cuts.Load())
	}
}

// A policy that SQL has written, and that is none, fails its own schedule. Others are listed and fire, and the schedule
// can be put anew.
func TestAPolicyThatIsNoneFailsAlone(t *testing.T) {
	t.Parallel()
	f := newPlan(t, func(*periodic.Options) {})
	f.put(hourly(schedule.Rule{}))
	f.exec("UPDATE " + f.table + " SET misfire = 'perhaps'")
	if i := f.get("s"); !strings.Contains(i.LastError, "perhaps") {
		t.Errorf("the schedule is shown with the error %q", i.LastError)
	}
	f.missed("s", time.Hour)
	f.scheduler()
	f.until("it has failed", func() bool { return f.get("s").Failures > 0 })
	f.put(hourly(schedule.Rule{}))
	if misfire := ask[string](f, "SELECT misfire FROM "+f.table); misfire != "once" {
		t.Errorf("put anew, its policy is %s", misfire)
	}
}
