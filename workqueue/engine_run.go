package workqueue

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/internal/fault"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// A run is a row of an ordered key with those behind it that were claimed with it. All are handled in one batch, in
// their order, and settled together: as far as they are done, from the first one on. What is behind a row that is not
// done goes back, whatever became of it. An [External] has runs, too, and settles what comes of them by itself.
type run struct {
	runName
	rows []*delivery
	stop int // the place of the first row that is known not to be done
}

func newRun(rows []*delivery) *run {
	r := &run{}
	for _, d := range rows {
		r.add(d)
	}
	return r
}

// add puts a row at the end.
func (r *run) add(d *delivery) {
	d.run, d.settlement.run, d.settlement.place = r, &r.runName, len(r.rows)
	r.rows = append(r.rows, d)
	r.stop = len(r.rows)
}

// inOrder is the outcome of a row of a run, if it would be this one by itself.
func (d *delivery) inOrder(o *Outcome) *Outcome {
	if d.run == nil {
		return o
	}
	if by := d.byTx.Load(); by != nil {
		o = by.outcome
	} else if d.isStopped() {
		return interrupted
	}
	if o.kind != outcomeAck {
		d.run.stop = min(d.run.stop, d.settlement.place)
	}
	return o
}

// isStopped reports that a row before this one in its run is not done.
func (d *delivery) isStopped() bool { return d.run != nil && d.settlement.place > d.run.stop }

// errNotNext is the error of [Claim.Tx] and [BatchTx] for a row that must not be settled yet.
var errNotNext = errors.New("txwork: the claims of an ordered key are settled in their order: a claim of the same key " +
	"before this one is not acknowledged")

// isNext reports whether all rows before this one in its run were acknowledged by a transaction.
func (d *delivery) isNext() bool {
	return d.run == nil || !slices.ContainsFunc(d.run.rows[:d.settlement.place], func(before *delivery) bool {
		by := before.byTx.Load()
		return by == nil || by.outcome.kind != outcomeAck
	})
}

// settledTogether is how a transaction settles rows with these outcomes. It begins with them. Where the last row of a
// run is not done, those behind it go back: they need not be ours any more.
func settledTogether(ctx context.Context, rows []*delivery, results []*Outcome) (all []*delivery, batch []*settlement,
	err error) {
	last := map[*run]*delivery{}
	for i, d := range rows {
		if before := last[d.run]; before == nil && !d.isNext() ||
			before != nil && d.settlement.place != before.settlement.place+1 {
			return nil, nil, errNotNext
		}
		if d.run != nil {
			last[d.run] = d
		}
		batch = append(batch, d.settledIn(ctx, results[i]))
	}
	all = slices.Clone(rows)
	for i, d := range rows {
		if last[d.run] != d || results[i].kind == outcomeAck {
			continue
		}
		for _, behind := range d.run.rows[d.settlement.place+1:] {
			all, batch = append(all, behind), append(batch, behind.settledIn(ctx, interrupted))
		}
	}
	return all, batch, nil
}

// withoutBehind are the results of rows in one transaction if it must be rolled back, because it has also written for
// rows which go back: those of a run behind one that is not done. They go back, and the others are called again.
func withoutBehind(rows []*delivery, results []error) (again []error, isNeeded bool) {
	stopped := map[*run]bool{}
	again = make([]error, len(rows))
	for i, d := range rows {
		if again[i] = errAgain; stopped[d.run] {
			again[i], isNeeded = interrupted, true
		}
		if d.run != nil && outcomeOf(results[i]).kind != outcomeAck {
			stopped[d.run] = true
		}
	}
	return again, isNeeded
}

// takeRuns takes the rows behind those of a batch that are the first of an ordered key, as far as the batch has room,
// and returns the batch with them. What could not be taken comes later, as do the rows of a run whose claim failed.
func (e *engine) takeRuns(rows []*delivery) []*delivery {
	b := rows[0].batching
	heads, req := e.runsBehind(b, rows)
	want := req.limit()
	if want == 0 {
		return rows
	}
	room := e.flow.BeginRuns(want)
	if room == 0 {
		return rows
	}
	for i, n := range req.most {
		req.most[i] = min(n, room)
		room -= req.most[i]
	}
	b.learn(len(heads), e.claimRuns(heads, req) == req.limit())
	return withRuns(b, rows)
}

// runsBehind asks for runs behind the heads among rows. How much of the batch's bytes a row takes, its head tells.
func (e *engine) runsBehind(b *batching, rows []*delivery) (heads map[uuid.UUID]*delivery, req runRequest) {
	heads, req = map[uuid.UUID]*delivery{}, runRequest{lease: e.handling.Lease, target: e.target}
	if e.flow == nil || e.table.statements().run.Text == "" {
		return heads, req
	}
	bytes, sizes := uint(b.options.Bytes), []uint(nil)
	for _, d := range rows {
		size := uint(b.size(d))
		bytes -= min(size, bytes)
		if e.mayLead(d) {
			heads[d.ID] = d
			req.heads, sizes = append(req.heads, d.settlement.claimRef), append(sizes, size)
		}
	}
	room := b.options.Limit - len(rows)
	for i, size := range sizes {
		left := len(sizes) - i
		most := room / left
		if size > 0 && b.options.Bytes > 0 {
			most = min(most, int(min(bytes/uint(left)/size, math.MaxInt32)))
		}
		req.most = append(req.most, most)
		room -= most
	}
	return heads, req
}

// mayLead reports whether a row may be the first of a run. What has lost a lease, or may be attempted once only, is
// handled by itself.
func (e *engine) mayLead(d *delivery) bool {
	return d.place.Lost == nil && d.MaxAttempts > 1 && !d.probes && d.unreadable == nil && d.ctx.Err() == nil &&
		d.folds() && !e.topicRests(d)
}

// claimRuns claims runs, makes the engine responsible for their rows, and returns how many these are. A hook of the
// application may end the goroutine meanwhile.
func (e *engine) claimRuns(heads map[uuid.UUID]*delivery, req runRequest) int {
	base, start := context.Background(), e.clock()
	var claimed claimedRows
	known := false
	defer func() {
		e.flow.EndRuns(len(claimed))
		if !known {
			withoutRuns(heads)
		}
	}()
	var of runAnswer
	err := e.within(base, e.handling.Lease/3, func(ctx context.Context) (err error) {
		ctx, call := e.table.telemetry.Start(ctx, telemetry.Claim, req.limit())
		claimed, of, err = e.queue.claimRuns(ctx, req)
		for i, row := range claimed {
			row.Token = heads[of.heads[i]].Token
		}
		call.End(telemetry.Event{Rows: claimed, Err: err})
		return err
	})
	if err != nil {
		e.logger.WarnContext(base, "claiming runs of ordered keys failed", "error", err)
		known = fault.IsRefused(err)
		return 0
	}
	rows := e.deliver(base, claimed, start)
	type placed struct {
		*delivery
		seq int64
	}
	behind := map[uuid.UUID][]placed{}
	for i, d := range rows {
		behind[of.heads[i]] = append(behind[of.heads[i]], placed{d, of.seqs[i]})
	}
	for head, of := range behind {
		slices.SortFunc(of, func(a, b placed) int {
			if a.seq < b.seq {
				return -1
			}
			return 1
		})
		all := []*delivery{heads[head]}
		for _, p := range of {
			all = append(all, p.delivery)
		}
		newRun(all)
	}
	e.inFlight.add(rows)
	known = true
	return len(rows)
}

// withoutRuns puts heads back whose runs may have been claimed without our knowledge: neither a reply nor a refusal of
// the database has come. They wait until the leases of those rows have ended: no row of a key may be claimed while
// others are in progress.
func withoutRuns(heads map[uuid.UUID]*delivery) {
	for _, d := range heads {
		newRun([]*delivery{d}).stop = -1
		d.decide(d.ctx, interrupted)
	}
}

// withRuns is a batch with the runs of its rows. The rows of a run that the batch does not accept go back, and so do
// those behind them.
func withRuns(b *batching, rows []*delivery) (batch []*delivery) {
	bytes, most := uint(0), uint(b.options.Bytes) // a negative one is very large
	for _, d := range rows {
		bytes += uint(b.size(d))
	}
	for _, d := range rows {
		batch = append(batch, d)
		if d.run == nil {
			continue
		}
		fits := true
		for _, next := range d.run.rows[1:] {
			if fits {
				bytes += uint(b.size(next))
				fits = next.batching == b && bytes <= most
			}
			if fits {
				batch = append(batch, next)
			} else {
				next.decide(next.ctx, released)
			}
		}
	}
	return batch
}

// runsOf are the runs of which rows are in a batch.
func runsOf(batch []*delivery) (runs []*run) {
	for _, d := range batch {
		if d.run != nil && d.settlement.place == 0 {
			runs = append(runs, d.run)
		}
	}
	return runs
}
