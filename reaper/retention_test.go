package reaper_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

func TestRetention(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		spec     workqueue.Spec
		want     reaper.Counts
		wantDone int
		wantDead int
	}{
		"default keeps Done and cancelled a week, dead letters for ever": {
			want: reaper.Counts{PurgedDone: 34}, wantDone: 12, wantDead: 24,
		},
		"failed too": {
			spec: workqueue.Spec{FailedRetention: 30 * day},
			want: reaper.Counts{PurgedDone: 34, PurgedFailed: 13}, wantDone: 12, wantDead: 11,
		},
		"longer": {
			spec: workqueue.Spec{Retention: 20 * day}, wantDone: 37, wantDead: 33,
		},
		"failed sooner than done": {
			spec: workqueue.Spec{Retention: 20 * day, FailedRetention: day},
			want: reaper.Counts{PurgedFailed: 20}, wantDone: 37, wantDead: 13,
		},
		"done deleted": {
			spec: workqueue.Spec{DeleteDone: true},
			// as far as somebody has left Done rows there
			want: reaper.Counts{PurgedDone: 34}, wantDone: 12, wantDead: 24,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			test.spec.Table = "work"
			table := db.table(test.spec)
			db.rows(table, 25, done("8 days"))
			db.rows(table, 12, done("6 days"))
			db.rows(table, 13, failed("31 days"))
			db.rows(table, 7, failed("29 days"))
			db.rows(table, 9, cancelled("8 days"))
			db.rows(table, 4, cancelled("6 days"))
			db.rows(table, 3, ready)
			db.rows(table, 3, running)

			o := db.options()
			o.BatchSize = 10
			wantCounts(t, db.runOnce(o, table).Total(), test.want)
			for status, want := range map[workqueue.Status]int{
				workqueue.Done: test.wantDone, workqueue.Failed: test.wantDead, workqueue.Ready: 3,
				workqueue.InProgress: 3,
			} {
				if got := db.count(table, status); got != want {
					t.Errorf("%d rows %v, want %d", got, status, want)
				}
			}
		})
	}
}

// A backlog is deleted in bounded rounds, in which the tables take turns.
func TestPurgeLimitBoundsARound(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	big := db.table(workqueue.Spec{Table: "big"})
	small := db.table(workqueue.Spec{Table: "small"})
	db.rows(big, 100, done("8 days"))
	db.rows(small, 5, done("8 days"))
	o := db.options()
	o.BatchSize, o.PurgeLimit = 10, 45

	for i, want := range []struct {
		big, small int
		more       bool
	}{{45, 5, true}, {45, 0, true}, {10, 0, false}} {
		report := db.runOnce(o, big, small)
		if b, s := report.Tables[0].PurgedDone, report.Tables[1].PurgedDone; b != want.big || s != want.small ||
			report.More != want.more {
			t.Errorf("round %d purged %d and %d, more %t; want %+v", i+1, b, s, report.More, want)
		}
	}
}

func TestTablesTakeTurns(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	var order []string
	note := func(name string) workqueue.Observer {
		return func(_ context.Context, e workqueue.Event) { order = append(order, e.Operation+" "+name) }
	}
	a := db.observed(workqueue.Spec{Table: "a"}, note("a"))
	b := db.observed(workqueue.Spec{Table: "b"}, note("b"))
	db.rows(a, 3, expired)
	db.rows(a, 1, done("8 days"))
	db.rows(b, 1, expired)
	o := db.options()
	o.BatchSize = 2
	db.runOnce(o, a, b)
	want := []string{"reap a", "reap b", "purge a", "purge b", "reap a"}
	if !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

// If there is more to do, Run does not wait for the interval.
func TestRunGoesOnWhileThereIsMore(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	db.rows(table, 100, done("8 days"))
	o := db.options()
	o.Interval, o.Lease, o.BatchSize, o.PurgeLimit = time.Hour, 2*time.Hour, 10, 10
	db.run(db.Pool, o, table)
	db.await("purged rows", func() bool { return db.count(table, workqueue.Done) == 0 })
}
