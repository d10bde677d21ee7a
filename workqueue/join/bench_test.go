package join_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// Graphs of tasks that wait for other tasks, like workflows of jobs. The first task waits for no other.
var graphs = map[string]func(tasks []uuid.UUID) []join.Join{
	"chain": func(tasks []uuid.UUID) (joins []join.Join) {
		for i := range tasks[1:] {
			joins = append(joins, join.Join{Members: tasks[i : i+1], OnComplete: tasks[i+1]})
		}
		return joins
	},
	"fan-out": func(tasks []uuid.UUID) (joins []join.Join) { // and fan-in: the last waits for all
		last := len(tasks) - 1
		for _, id := range tasks[1:last] {
			joins = append(joins, join.Join{Members: tasks[:1], OnComplete: id})
		}
		return append(joins, join.Join{Members: tasks[1:last], OnComplete: tasks[last]})
	},
	"lattice": func(tasks []uuid.UUID) (joins []join.Join) { // a hundred wide, each waits for ten of the level before
		const wide, deps = 100, 10
		for i, id := range tasks {
			if i == 0 {
				continue
			}
			var members []uuid.UUID
			if i <= wide {
				members = tasks[:1]
			} else {
				level := 1 + (i-1)/wide*wide - wide
				for d := range deps {
					members = append(members, tasks[level+(i+d)%wide])
				}
			}
			joins = append(joins, join.Join{Members: members, OnComplete: id})
		}
		return joins
	},
}

// graph starts a graph of n tasks with a join of all of them, and returns its first.
func (f *fixture) graph(kind string, n int) (first, all uuid.UUID) {
	f.Helper()
	var tasks []uuid.UUID
	f.ok(f.inTx(func(tx workqueue.Tx) (err error) {
		tasks, err = f.insert(f.Context(), tx, 1, nil)
		for err == nil && len(tasks) < n {
			var more []uuid.UUID
			more, err = f.insert(f.Context(), tx, min(n-len(tasks), workqueue.MaxBatch), waiting)
			tasks = append(tasks, more...)
		}
		return err
	}))
	all = uuid.New()
	f.ok(f.inTx(func(tx workqueue.Tx) error {
		return f.startMembers(tx, append(graphs[kind](tasks), join.Join{ID: all, Members: tasks}))
	}))
	f.exec("ANALYZE steps, steps_join, steps_join_member")
	return tasks[0], all
}

// startMembers starts joins with any number of members, as many at a time as fit one call.
func (f *fixture) startMembers(tx workqueue.Tx, joins []join.Join) error {
	for len(joins) > 0 {
		n, members := 1, len(joins[0].Members)
		for n < len(joins) && members+len(joins[n].Members) <= workqueue.MaxBatch {
			members += len(joins[n].Members)
			n++
		}
		rest := joins[0].Members[min(members, len(joins[0].Members), workqueue.MaxBatch):]
		joins[0].Members = joins[0].Members[:len(joins[0].Members)-len(rest)]
		ids, err := f.joins.Start(f.Context(), tx, joins[:n]...)
		for err == nil && len(rest) > 0 {
			more := min(len(rest), workqueue.MaxBatch)
			err = f.joins.Add(f.Context(), tx, ids[0], rest[:more]...)
			rest = rest[more:]
		}
		if err != nil {
			return err
		}
		joins = joins[n:]
	}
	return nil
}

// The first of many tasks fails, and all tasks after it are cancelled. Reports how many folds that takes, how long the
// longest fold takes, and how long the settle takes.
func BenchmarkFailure(b *testing.B) {
	for kind := range graphs {
		for _, n := range []int{2000, 5000, 10_000} {
			b.Run(fmt.Sprint(kind, "-", n), func(b *testing.B) {
				for range b.N {
					b.StopTimer()
					f := newFixture(b)
					first, all := f.graph(kind, n)
					b.StartTimer()
					f.failFirst(b, first)
					b.StopTimer()
					f.want(all, counts{join.Failed, 0, n, 0})
				}
			})
		}
	}
}

func (f *fixture) failFirst(b *testing.B, first uuid.UUID) {
	token := f.claim(first)
	start := time.Now()
	_, err := f.queue.Fail(b.Context(), token, []uuid.UUID{first}, "no good")
	f.ok(err)
	b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "settle-ms")
	var folds int
	var longest time.Duration
	for again := new(float64); again != nil && *again <= 0; folds++ {
		one := time.Now()
		f.ok(f.Pool.QueryRow(b.Context(), "SELECT again FROM steps_join_fold(1000)").Scan(&again))
		longest = max(longest, time.Since(one))
	}
	b.ReportMetric(float64(folds), "folds")
	b.ReportMetric(float64(longest.Milliseconds()), "longest-ms")
}
