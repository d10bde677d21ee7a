package workqueue

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/history"
	"github.com/txwork/txwork/workqueue/dispatch"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/fault"
	"github.com/txwork/txwork/workqueue/internal/flow"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// A consumer is a table with the handler of its rows, whose type is erased. A Worker and its Drains share it.
type consumer struct {
	table    *Table
	handling handling
	lanes    [][]any
	target   func(*Columns) any
	handle   func(context.Context, *delivery) error
	leaves   func(context.Context, *delivery) error // nil: none
	batches  func(*delivery) *batching              // nil: every row is handled alone
	each     int                                    // how many rows to claim for a handler
	logger   *slog.Logger                           // names the table and the lane
}

// A handling is what the options of a worker say of the way of its rows, see [WorkerOptions].
type handling struct {
	Lease, SettleLinger, HandlerTimeout, RunsWithin time.Duration

	TxLimits TxLimits
	Redact   Redactor
}

// An engine takes the rows of a consumer from their claim to their settle: claim claims some, run runs the handler of
// one, settle settles the outcomes of many. Each [Worker] and each part of a [Drain] owns one and decides when it does
// that. The engine renews the leases of the rows that it has claimed, if renew runs.
type engine struct {
	consumer
	at       place
	queue    *Queue // on the table, at the place, without limits
	claimer  *claimer
	inFlight inFlight
	outage   *fault.Outage // of the table
	dbClock  *dbClock
	epoch    time.Time       // its monotonic clock starts here
	beat     atomic.Int64    // when the loop of renewals last turned, by that clock; 0: it does not run
	counts   *history.Counts // for the table history; nil: nobody asks
	cancels  chan struct{}   // signals that a running row was cancelled

	// What only a worker has; nil in a drain.
	flow  *flow.Buffer[*delivery]
	poll  *dispatch.Poll
	notes *notesDue // nil also where the table has no folds
}

func newEngine(c consumer) *engine {
	return &engine{consumer: c, outage: fault.NewOutage(), dbClock: new(dbClock), epoch: time.Now(),
		cancels: make(chan struct{}, 1)}
}

// workAt says where the engine works, before it does anything.
func (e *engine) workAt(at place) {
	e.at, e.queue = at, at.queue(e.table, TxLimits{})
	e.claimer = newClaimer(e)
}

// clock is the engine's monotonic clock.
func (e *engine) clock() int64 { return int64(time.Since(e.epoch)) }

// claim claims up to limit rows and makes the engine responsible for them. Their claim has committed when it returns: a
// handler that is faster than the commit would find nothing to ack.
//
// It is not cancelled with ctx: a claim that is broken off could leave rows claimed by nobody until their leases
// expire. It gives up after a third of the lease, so that the rest is still of use.
func (e *engine) claim(ctx context.Context, limit int) (rows []*delivery, err error) {
	base, start := context.WithoutCancel(ctx), e.clock()
	var claimed claimedRows
	err = e.limited(base, e.handling.Lease/3, func(ctx context.Context) (err error) {
		ctx, call := e.table.telemetry.Start(ctx, telemetry.Claim, limit)
		claimed, err = e.claimer.claim(ctx, limit)
		call.End(telemetry.Event{IDs: rowIDs(claimed), Rows: claimed, Err: err})
		return err
	})
	rows = e.deliver(base, claimed, start)
	e.inFlight.add(rows)
	return rows, err
}

// deliver makes the deliveries of rows whose claim was sent at the given time.
func (e *engine) deliver(base context.Context, claimed []*claimedRow, start int64) []*delivery {
	rows := make([]*delivery, 0, len(claimed))
	for some := range slices.Chunk(claimed, slabSize) {
		slab := make([]delivery, len(some))
		for i, row := range some {
			d := &slab[i]
			d.claimedRow, d.engine, d.claimed = row, e, start
			d.settlement.claimRef, d.settlement.row = claimRef{d.ID, d.Token}, row
			d.settlement.outcome, d.settlement.message = ended, errGoexit.Error() // until it is decided
			d.ctx, d.cancel = context.WithCancelCause(base)
			d.expires.Store(start + int64(e.handling.Lease))
			if e.batches != nil {
				d.batching = e.batches(d)
			}
			rows = append(rows, d)
		}
	}
	return rows
}

// run runs the handler of a delivery and decides on its outcome, which its owner passes on to settle, unless [Claim.Tx]
// has settled it. It decides in a deferred function, which also runs if the handler ends its goroutine.
//
// A handler does not start if the lease was lost while the row waited, or the topic of the row has begun to rest. The
// settle is attempted in any case: its guard decides, and after its lease has expired a row is still ours until another
// session takes it.
func (e *engine) run(d *delivery) {
	if d.lost.Load() || e.topicRests(d) {
		d.decide(d.ctx, released)
		return
	}
	if o := d.leaveOutcome(); o != nil {
		d.decide(d.ctx, o)
		return
	}
	start := time.Now()
	ctx, call := e.table.telemetry.Handle(d.ctx, d.row(), start, e.dbClock.of(start).Sub(d.DueAt))
	e.countStart(d, start)
	result := ended
	defer func() {
		d.decide(ctx, d.conclude(result))
		handled := d.handled()
		e.countRun(d, handled, start)
		call.End(handled)
	}()
	result = d.call(ctx)
}

// topicRests reports that the topic of a row has begun to rest since the row was claimed, unless the row is its probe.
func (e *engine) topicRests(d *delivery) bool {
	return !d.probes && d.topic != "" && e.claimer.topics.rests(d.topic)
}

// settle settles in one transaction and returns how many rows that changed. It is guarded by the tokens, so repeating a
// settle whose reply was lost changes nothing.
func (e *engine) settle(ctx context.Context, batch []*settlement, l TxLimits) (changed int, err error) {
	if anyFolds(batch) {
		began := e.notes.settleBegins()
		defer e.notes.settleEnded(began) // also where the reply was lost
	}
	try := triedFirst
	if !batch[0].isNew() {
		try = triedBefore
	}
	limit := l.Statement + e.settleLimit() // the server's limit ends first, which shows that the server is there
	err = e.limited(ctx, limit, func(ctx context.Context) error {
		ctx, call := e.table.telemetry.Start(ctx, telemetry.Settle, len(batch))
		done, err := e.at.settle(ctx, e.table, batch, l, try)
		if try == triedBefore && fault.IsUnsettled(err) {
			err = &telemetry.Repeated{Err: err}
		}
		changed = len(done.ids)
		e.countSettled(done.rows)
		call.End(telemetry.Event{IDs: done.ids, Rows: settlements(done.rows), Err: err})
		return err
	})
	return changed, err
}

// done ends the engine's responsibility for rows that are settled.
func (e *engine) done(batch []*settlement) {
	for _, s := range batch {
		e.noteSettled(s.outcome)
	}
	e.forget(batch...)
}

// noteSettled wakes the worker if a settle may have made a row ready again, or made room under the rule of its lanes.
func (e *engine) noteSettled(o *Outcome) {
	if o.kind == outcomeUnavailable {
		e.claimer.topics.changed()
	}
	if e.poll != nil && (outcomes[o.kind].again || e.table.spec.Admission != "" && e.claimer.rule.isDue()) {
		e.poll.Wake()
	}
}

// leaveToLease ends the engine's responsibility for rows that cannot be settled: their leases expire.
func (e *engine) leaveToLease(rows []*settlement, cause error) {
	for _, s := range rows {
		e.table.telemetry.LogRow(context.Background(), slog.LevelError, "settle failed; the row is left to the reaper",
			s.row.labels, s.id, slog.Any("error", cause))
	}
	e.forget(rows...)
}

// forget takes rows out of flight. The next claim looks what a probe has found out.
func (e *engine) forget(rows ...*settlement) {
	for _, s := range rows {
		if s.row != nil && s.row.probes {
			e.claimer.topics.changed()
			if e.poll != nil {
				e.poll.Wake()
			}
		}
	}
	e.inFlight.remove(rows)
	e.flow.Settled()
}

// minCallLimit leaves a slow database time even where the lease is short.
const minCallLimit = 5 * time.Second

// callLimit bounds the engine's own statements on which no lease depends.
func (e *engine) callLimit() time.Duration { return max(e.handling.Lease/3, minCallLimit) }

// maxSettleTime bounds the settle of a row, however long its lease.
const maxSettleTime = 10 * time.Second

func (e *engine) settleLimit() time.Duration { return min(e.callLimit(), maxSettleTime) }

// limited runs one of the engine's own statements for at most the limit.
func (e *engine) limited(ctx context.Context, limit time.Duration, statement func(context.Context) error) error {
	return limited(ctx, limit, e.at, e.logger, e.outage, statement)
}

// limited runs one of our own statements for at most the limit. Otherwise a connection whose peer has vanished would
// block it until the kernel gives the peer up, which takes minutes. A panic, such as one in a hook of the pool, is an
// error like any other.
func limited(ctx context.Context, limit time.Duration, at interface{ timedOut(error) }, logger *slog.Logger,
	o *fault.Outage, statement func(context.Context) error) (err error) {
	defer func() { o.Note(logger, err) }()
	defer contain.Recover(&err)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = statement(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		at.timedOut(err)
	}
	return err
}

// stored is an outcome's cause as it goes into the table.
func (e *engine) stored(ctx context.Context, o *Outcome) string {
	if e.handling.Redact == nil || o.cause == nil {
		return o.stored()
	}
	return conn.Storable(e.redact(ctx, o.stored()))
}

// redact calls the application's hook. Should that panic, the text is withheld: it may hold a secret.
func (e *engine) redact(ctx context.Context, message string) (redacted string) {
	defer func() {
		if recover() != nil {
			redacted = "withheld: the Redact hook panicked"
		}
	}()
	return e.handling.Redact(ctx, message)
}
