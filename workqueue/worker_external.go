package workqueue

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/history"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// An External has the handlers of a worker process messages that are no rows of its table, such as those of a log. Who
// makes it claims and settles them; all in between is as for rows: batches and their halving, timeouts, panics,
// outcomes and telemetry. [Claim.Tx] returns an error.
type External[T any] struct {
	engine *engine
	worker *Worker
	base   context.Context
}

// NewExternal makes an External of a worker whose batches are known, see [SetBatches]. Telemetry calls the messages
// those of the table, whose labels have to be those of the worker's table. The contexts of handlers carry the values of
// ctx.
func NewExternal[T any](ctx context.Context, w *Worker, table *Table) *External[T] {
	c := w.consumer
	c.logger = c.loggerOf(table)
	c.table, c.leaves = table, nil
	return &External[T]{newEngine(c), w, context.WithoutCancel(ctx)}
}

// ExternalRows are messages that telemetry is told of. It asks for one when it needs it, so that nobody pays for what
// nobody reads.
type ExternalRows struct {
	Len int
	Row func(i int) ExternalSettled
}

// Fetch tells telemetry of the claim of at most so many messages, which have not ended.
func (x *External[T]) Fetch(ctx context.Context, limit int, fetch func(context.Context) (ExternalRows, error)) error {
	ctx, call := x.engine.table.telemetry.Start(ctx, telemetry.Claim, limit)
	rows, err := fetch(ctx)
	call.End(telemetry.Event{Rows: externalClaimed{rows}, Err: err})
	return err
}

// An ExternalSettled is a message that a settle passes, with what became of it. Its labels are those of the table.
type ExternalSettled struct {
	Row
	Labels telemetry.Labels
	ExternalEnd
}

// Settle tells telemetry of a settle, which says whether it held: if not, the messages are lost, and nothing has
// changed.
func (x *External[T]) Settle(ctx context.Context, rows ExternalRows,
	settle func(context.Context) (held bool, err error)) error {
	ctx, call := x.engine.table.telemetry.Start(ctx, telemetry.Settle, rows.Len)
	held, err := settle(ctx)
	e := telemetry.Event{IDs: []uuid.UUID{}, Err: err}
	if err == nil {
		e.Rows = externalSettled{rows, held}
	}
	if held {
		e.IDs = make([]uuid.UUID, rows.Len)
		for i := range e.IDs {
			e.IDs[i] = rows.Row(i).ID
		}
	}
	call.End(e)
	if err == nil {
		x.count(rows, held)
	}
	return err
}

// count counts what became of messages. One that has failed is attempted again as a row of the worker's table.
func (x *External[T]) count(rows ExternalRows, held bool) {
	for i := range rows.Len {
		r := rows.Row(i)
		o, counted := outcomeOfHistory[string(r.Outcome)]
		switch {
		case !held:
			o = history.Lost
		case !counted:
			continue
		}
		x.engine.counts.Lane(r.Labels[x.engine.table.counted]).Settled(o)
	}
}

// externalClaimed implement [telemetry.Rows].
type externalClaimed struct{ rows ExternalRows }

func (c externalClaimed) Len() int { return c.rows.Len }

func (c externalClaimed) Row(i int) telemetry.Row {
	r := c.rows.Row(i)
	return (&claimedRow{Row: r.Row, labels: r.Labels}).row()
}

// externalSettled implement [telemetry.Rows].
type externalSettled struct {
	rows ExternalRows
	held bool
}

func (s externalSettled) Len() int { return s.rows.Len }

func (s externalSettled) Row(i int) telemetry.Row {
	r := s.rows.Row(i)
	row := telemetry.Row{ID: r.ID, Labels: r.Labels, Attempt: r.Attempt, MaxAttempts: r.MaxAttempts, Headers: r.Headers,
		State: int16(Done), Outcome: string(r.Outcome), Error: r.Error, Delay: -1}
	switch {
	case !s.held:
		row.State, row.Outcome = int16(Ready), telemetry.OutcomeLost
	case r.Outcome == RowCancelled:
		row.State = int16(Failed)
	case r.Outcome != RowAcked:
		row.State, row.Delay = int16(Ready), r.Delay
	}
	if r.Outcome == RowAbandoned && s.held {
		row.Reason = telemetry.Failed
	}
	return row
}

// An ExternalRow is a message on its way through an [External].
type ExternalRow struct {
	Place int // for its owner

	d *delivery
}

// Take makes a message ready for its handler. The labels are those of the table.
func (x *External[T]) Take(place int, row Row, body T, labels telemetry.Labels) *ExternalRow {
	of := new(struct { // one allocation: each refers to the others
		r ExternalRow
		d delivery
		c claimedRow
	})
	c, d := &of.c, &of.d
	of.r.Place, of.r.d = place, d
	c.Row, c.labels, c.body = row, labels, &Claim[T]{Body: body}
	x.engine.receive(x.base, d, c, x.engine.clock())
	return &of.r
}

// Unit puts together what is handled with the first of the rows that wait: others of those, which it puts in front, and
// for each of them a run of the rows behind it in its key. Taken is how many of the waiting are in the unit. Behind
// takes the next row of a key, which does not wait, unless it returns nil.
func (x *External[T]) Unit(waiting []*ExternalRow, behind func(*ExternalRow) *ExternalRow) (unit []*ExternalRow,
	taken int) {
	taken, batch := together(waiting, func(r *ExternalRow) *delivery { return r.d })
	unit = waiting[:taken:taken]
	for i := 0; i < len(unit) && !batch.IsFull(); i++ {
		if next := behind(unit[i]); next != nil && batch.Offer(next.d) {
			unit[i].leads(next)
			unit = append(unit, next)
		}
	}
	return unit, taken
}

// leads puts a row behind this one in the run of their key.
func (r *ExternalRow) leads(next *ExternalRow) {
	if r.d.run == nil {
		newRun([]*delivery{r.d})
	}
	r.d.run.add(next.d)
}

// Handle calls the handler of rows that [External.Unit] has put together. It calls begins before each call of the
// handler, and ended for each row as soon as its outcome is known, of a run in its order. Rows behind one of their run
// that is not done are released, whatever their handler says. It returns when all have ended, unless the handler ends
// its goroutine: then the rest has its outcome as well.
func (x *External[T]) Handle(unit []*ExternalRow, begins func(), ended func(*ExternalRow)) {
	if unit[0].d.batching == nil {
		begins()
		defer ended(unit[0])
		x.engine.handle(unit[0].d)
		return
	}
	rows := make([]*delivery, len(unit))
	for i, r := range unit {
		rows[i] = r.d
	}
	x.engine.handleBatch(rows, begins, func(d *delivery) { ended(unit[slices.Index(rows, d)]) })
}

// Cancel cancels the context of the row's handler.
func (r *ExternalRow) Cancel(cause error) { r.d.abort(cause) }

// An ExternalEnd is what a handler's result makes of a message.
type ExternalEnd struct {
	// Outcome is in the words of events. A row that is to be attempted again is RowAbandoned, whatever is left of its
	// attempts.
	Outcome RowOutcome
	Delay   time.Duration // until the next attempt
	Error   string        // as it is to be stored
}

// End is how the row has ended, once [External.Handle] has told so. It frees the payload.
func (r *ExternalRow) End() ExternalEnd {
	r.d.cancel(nil)
	r.d.body = nil
	o := r.d.settlement.outcome
	e := ExternalEnd{Outcome: RowOutcome(o.kind.String()), Delay: o.delay, Error: r.d.settlement.message}
	if r.d.lost.Load() && o.kind == outcomeRetry {
		e.Outcome = RowReleased // the handler was broken off
	}
	if e.Delay < 0 {
		e.Delay = r.d.engine.table.spec.Retry.Delay(r.d.Attempt)
	}
	return e
}

// Open opens the worker's runtime for the statements of an External, once the worker has checked its table, or ctx is
// done. The result closes it.
func (x *External[T]) Open(ctx context.Context) (stop func(), err error) {
	select {
	case <-x.worker.begun:
	case <-ctx.Done():
	}
	system, err := x.worker.runtime.join(ctx)
	if err != nil {
		return nil, err
	}
	x.engine.at, x.engine.outage = externalPlace{onRuntime{system: system}}, &x.worker.runtime.others
	x.engine.dbClock = &system.clock
	table, at := x.engine.table, homeOf(x.worker.runtime.pool, x.engine.table)
	counts := &history.Counts{Table: table.spec.Table}
	x.engine.counts = counts
	at.count(counts)
	return func() {
		at.countNoMore(counts, teller{table, x.worker.runtime.AcquireFunc})
		x.worker.runtime.leave()
	}, nil
}

// An externalPlace is the runtime, without transactions of handlers: nothing could be settled in them.
type externalPlace struct{ onRuntime }

func (externalPlace) begin(context.Context, *delivery) (begunTx, error) {
	return begunTx{}, errExternalTx
}

var errExternalTx = errors.New("the message is no row of a table, so no transaction can settle it")

// An ExternalQuery is a statement of an [External].
type ExternalQuery struct {
	SQL    string
	Args   []any
	Renews bool // a lease: it goes before other statements
	Row    func(scan func(dest ...any) error) error
	Reset  func() // forgets what Row has collected, because the statement runs again
}

// Query runs a statement in a READ COMMITTED transaction of its own, over the runtime's connections, and for no longer
// than a third of the lease. What the rows say holds when it returns.
func (x *External[T]) Query(ctx context.Context, q ExternalQuery) error {
	at := x.engine.at.(externalPlace)
	queue := at.queue(x.engine.table, TxLimits{})
	if q.Renews {
		queue = at.renewing(x.engine.table)
	}
	call := conn.Call{Statement: conn.Statement{Name: "external", Text: q.SQL}, Args: map[string]any{}, Row: q.Row,
		Reset: q.Reset}
	for i, arg := range q.Args {
		name := strconv.Itoa(i + 1)
		call.Params, call.Args[name] = append(call.Params, name), arg
	}
	return x.engine.within(ctx, x.engine.callTimeout(), func(ctx context.Context) error {
		return queue.exec.run(ctx, call)
	})
}

// Call runs a statement outside of transactions, such as a CALL of a procedure that commits, and scans the row that it
// returns.
func (x *External[T]) Call(ctx context.Context, sql string, results ...any) error {
	return x.engine.within(ctx, x.engine.callTimeout(), func(ctx context.Context) error {
		return explain(x.worker.runtime.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
			return c.QueryRow(ctx, sql, pgx.QueryExecModeSimpleProtocol).Scan(results...)
		}))
	})
}

// hears takes in what is announced, see [External.Listen].
type hears struct {
	heard  func(what string, first bool)
	missed func()
}

// Listen has heard called with what [Spec.AnnounceExternal] tells of messages, and missed whenever something may have
// been missed. Unless the worker does not listen. first says that no other External of the process's runtime, of those
// without a ClaimCooldown, is told so of the same table. The functions must not block.
func (x *External[T]) Listen(heard func(what string, first bool), missed func()) {
	x.worker.external.Store(&hears{heard, missed})
}

// Refuse has [Worker.Ready] return an error until it is called with nil.
func (x *External[T]) Refuse(why error) { x.worker.refused.Store(&why) }

// Logger is that of the messages, with the worker's lane.
func (x *External[T]) Logger() *slog.Logger { return x.engine.logger }
