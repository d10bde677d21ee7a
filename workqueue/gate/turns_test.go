package gate_test

import (
	"context"
	"testing"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/gate"
)

// An application that cancels a waiting row and takes its time holds up neither settles nor sweeps.
func TestSettlesWaitForNoRowThatAnApplicationHolds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		gate       gate.Gate
		first      string // how the first row ends
		held, then []int  // what is claimed while the second is held, and then
	}{
		"serial":  {gate.Gate{}, "ack", nil, []int{3}},
		"limited": {gate.Gate{Limit: 1}, "ack", []int{3}, nil},
		"parked":  {gate.Gate{OnFailure: gate.Park}, "fail", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			g := test.gate
			g.Key = "k"
			ids := r.insert(row(1, &g), row(2, &g), row(3, &g))
			r.sweep()
			token, _ := r.expect(1)
			app := r.begin()
			_, err := r.table.In(workqueue.Pgx(app)).Cancel(t.Context(), ids[1:2], "not wanted")
			r.ok(err)

			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if test.first == "fail" {
				_, err = r.queue.Fail(ctx, token, ids[:1], "no good")
			} else {
				_, err = r.queue.Ack(ctx, token, ids[:1])
			}
			r.ok(err)
			_, err = r.queue.Sweep(ctx, 100)
			r.ok(err)
			r.expect(test.held...)
			r.ok(app.Commit(t.Context()))
			r.sweep()
			r.expect(test.then...)
		})
	}
}

// An application is writing the key's first row. Rows that joins release meanwhile wait for it, but neither a sweep nor
// whoever deletes one of them does.
func TestSweepsAndDeletesWaitForNoWriter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 2 {
		held := row(i, serial("k"))
		held.Waiting = true
		r.insert(held)
	}
	app := r.begin()
	r.insertIn(app, row(2, serial("k")))
	r.exec("UPDATE work SET waiting = false")
	r.exec("BEGIN; SET LOCAL lock_timeout = '2s'; SELECT work_gate_sweep(100); COMMIT")
	r.exec("BEGIN; SET LOCAL lock_timeout = '2s'; DELETE FROM work WHERE n = 0; COMMIT")
	r.ok(app.Commit(context.Background()))
	r.finish(2, 1)
}

// Of two that let rows of a key through, neither sees what the other has not committed.
func TestPromotersOfAKeyTakeTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := &gate.Gate{Key: "k", Limit: 1}
	r.insert(row(1, one), row(2, one))
	first := r.begin()
	_, err := first.Exec(t.Context(), "SELECT work_gate_sweep(100)")
	r.ok(err)
	if n := ask[int](r, "SELECT work_gate_promote('k', false, false)"); n != 0 {
		t.Errorf("%d more rows are through, the limit is 1", n)
	}
	r.ok(first.Commit(t.Context()))
	r.finish(1, 2)
}

// A sweep that finds another at work leaves it to that.
func TestSweepsTakeTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, &gate.Gate{Key: "k", Limit: 1}))
	other := r.begin()
	_, err := other.Exec(t.Context(), "SELECT FROM work_gate_cursor FOR UPDATE")
	r.ok(err)
	r.exec("BEGIN; SET LOCAL lock_timeout = '2s'; SELECT work_gate_sweep(100); COMMIT")
	r.expect()
	r.ok(other.Commit(t.Context()))
	r.sweep()
	r.expect(1)
}

// A bucket that somebody is taking tokens from is left to the next sweep.
func TestSweepsWaitForNoBucket(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, one("k", 1)))
	r.sweep()
	r.exec("UPDATE work_gate_rate SET refilled_at = refilled_at - interval '1 hour'") // it is full
	other := r.begin()
	_, err := other.Exec(t.Context(), "SELECT FROM work_gate_rate FOR UPDATE")
	r.ok(err)
	for range 2 { // one of them begins anew with the first bucket
		r.exec("BEGIN; SET LOCAL lock_timeout = '2s'; SELECT work_gate_sweep(100); COMMIT")
	}
	if n := ask[int](r, "SELECT count(*) FROM work_gate_rate"); n != 1 {
		t.Errorf("%d buckets, want the one that is held", n)
	}
}
