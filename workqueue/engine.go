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
	"github.com/txwork/txwork/workqueue/internal/fault"
	"github.com/txwork/txwork/workqueue/internal/flow"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// A consumer is a table with the handler of its rows, whose type is erased. A Worker and its Drains share it. What a
// further kind of handler takes is in docs/architecture.md.
type consumer struct {
	table    *Table
	handling handling
	lanes    [][]any
	target   func(*Columns) any
	handler  func(context.Context, *delivery) error
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

// An engine takes the rows of a consumer from their claim to their settle: claim claims some, handle calls the handler
// of one, settle settles the outcomes of many. Each [Worker] and each part of a [Drain] owns one and decides when it
// does that. The engine renews the leases of the rows that it has claimed, if renew runs.
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
	counts   *history.Counts // for the table history; nil: in a transaction of the application, which may roll back
	settles  atomic.Int64    // how many have changed something
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
	err = e.within(base, e.handling.Lease/3, func(ctx context.Context) (err error) {
		ctx, call := e.table.telemetry.Start(ctx, telemetry.Claim, limit)
		claimed, err = e.claimer.claim(ctx, limit)
		call.End(telemetry.Event{Rows: claimed, Err: err})
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
			e.receive(base, &slab[i], row, start)
			rows = append(rows, &slab[i])
		}
	}
	return rows
}

// receive makes the delivery of a row, or of a message of an [External].
func (e *engine) receive(base context.Context, d *delivery, row *claimedRow, start int64) {
	d.claimedRow, d.engine, d.claimed = row, e, start
	d.settlement.claimRef, d.settlement.row = claimRef{d.ID, d.Token}, row
	d.settlement.outcome, d.settlement.message = exited, errGoexit.Error() // until it is decided
	d.settlement.lane = e.counts.Lane(d.labels[e.table.counted])
	d.ctx, d.cancel = context.WithCancelCause(base)
	d.expires.Store(start + int64(e.handling.Lease))
	d.place.Topic, d.place.Lost = row.topic, row.lostLeases(e.dbClock)
	if e.batches != nil {
		d.batching = e.batches(d)
	}
}

// minCallTimeout leaves a slow database time even where the lease is short.
const minCallTimeout = 5 * time.Second

// callTimeout bounds the engine's own statements on which no lease depends.
func (e *engine) callTimeout() time.Duration { return max(e.handling.Lease/3, minCallTimeout) }

// maxSettleTime bounds the settle of a row, however long its lease.
const maxSettleTime = 10 * time.Second

func (e *engine) settleTimeout() time.Duration { return min(e.callTimeout(), maxSettleTime) }

// within runs one of the engine's own statements for no longer than the timeout.
func (e *engine) within(ctx context.Context, timeout time.Duration, statement func(context.Context) error) error {
	return within(ctx, timeout, e.at, e.logger, e.outage, statement)
}

// within runs one of our own statements for no longer than the timeout. Otherwise a connection whose peer has vanished
// would block it until the kernel gives the peer up, which takes minutes. A panic, such as one in a hook of the pool,
// is an error like any other.
func within(ctx context.Context, timeout time.Duration, at interface{ timedOut(error) }, logger *slog.Logger,
	o *fault.Outage, statement func(context.Context) error) (err error) {
	defer func() { o.Note(logger, err) }()
	defer contain.Recover(&err)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = statement(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		at.timedOut(err)
	}
	return err
}
