package alarms

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// A Due is a due alarm whose timer the caller has claimed, to deliver it. Settle it with one of [Store.MarkFired],
// [Store.Reschedule], [Store.RecordRetry], [Store.MarkFailed] and [Store.RescheduleAfterFailure], which check the
// claim's owner token.
type Due struct {
	Alarm
	Nominal time.Time // the nominal time of this firing: retries never change it
	Attempt int       // 1 is the first delivery of this firing; lost deliveries count, too

	most   int // the timer's maximum of attempts
	logger *slog.Logger
	tx     func(ctx context.Context, work func(pgx.Tx) (result, error)) error
}

// last reports whether a failure of this delivery ends the firing: because it exhausts the failures that are allowed,
// or because so many deliveries were lost that the timer has no attempt left.
func (d Due) last() bool { return d.FailureCount+1 >= d.MaxFailures || d.Attempt >= d.most }

// A result says how a claim is settled.
type result struct {
	kind  resultKind
	delay time.Duration
	cause error
}

type resultKind uint8

const (
	resultDone  resultKind = iota // the timer has fired
	resultRetry                   // it fires again after the delay
	resultFail                    // the timer has failed
	resultEnded                   // the alarm has ended, so there is nothing to fire
)

// outcome returns the result as the error that a worker's handler returns.
func (r result) outcome() error {
	switch r.kind {
	case resultRetry:
		return workqueue.RetryAfter(r.delay, r.cause)
	case resultFail:
		return workqueue.Permanent(r.cause)
	case resultEnded:
		return workqueue.Cancelled(ErrEnded.Error())
	}
	return nil
}

// settle applies the result to a claim of ClaimDue, which no worker settles.
func (r result) settle(ctx context.Context, q *workqueue.Queue, owner uuid.UUID, id uuid.UUID) (err error) {
	ids := []uuid.UUID{id}
	switch r.kind {
	case resultRetry:
		_, err = q.Abandon(ctx, owner, ids, r.delay, r.cause.Error())
	case resultFail:
		_, err = q.Fail(ctx, owner, ids, r.cause.Error())
	case resultEnded:
		_, err = q.Fail(ctx, owner, ids, ErrEnded.Error())
	default:
		_, err = q.Ack(ctx, owner, ids)
	}
	return err
}

// foreignDelay is how long a timer of another topic is left to its own worker.
const foreignDelay = 5 * time.Second

// errForeign is the last error of such a timer.
var errForeign = errors.New("a dispatcher of alarms leaves timers of other topics to their workers")

// errNeedsPool is returned by the dispatcher's operations inside an application's transaction.
var errNeedsPool = errors.New("txwork: this operation needs transactions of its own: use Alarms.On")

// ClaimDue claims up to batch due alarms for the length of the lease, in the order in which they are due. It is for
// dispatchers of your own; a [Dispatcher] also renews leases and delivers concurrently. A claim that is not settled
// within its lease is lost: settling it afterwards changes nothing and returns [workqueue.ErrLeaseLost].
//
// Due timers of other topics are claimed, too, because timers are claimed whatever their topic. They are left to their
// workers for five seconds, which does not count as an attempt.
func (s *Store) ClaimDue(ctx context.Context, batch int, lease time.Duration) ([]Due, error) {
	if s.pool == nil {
		return nil, errNeedsPool
	}
	c := claim{owner: uuid.New(), queue: s.alarms.timers.Table().On(s.pool), due: map[uuid.UUID]workqueue.Row{}}
	rows, err := c.queue.Claim(ctx, c.owner, lease, batch)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	for _, row := range rows {
		c.sort(row)
	}
	claimed, err := s.begin(ctx, &c)
	return claimed, errors.Join(err, c.putBack(ctx, err == nil))
}

// A claim holds what one call of ClaimDue has claimed.
type claim struct {
	owner          uuid.UUID
	queue          *workqueue.Queue
	due            map[uuid.UUID]workqueue.Row // timers by the ids of their alarms
	foreign, ended []uuid.UUID                 // timers of other topics; timers without an active alarm
}

// sort puts a claimed timer into one of the three groups.
func (c *claim) sort(row workqueue.Row) {
	key, topic := row.Values[0].(string), row.Values[1].(string)
	switch id, err := alarmID(key); {
	case topic != Topic:
		c.foreign = append(c.foreign, row.ID)
	case err != nil:
		c.ended = append(c.ended, row.ID)
	default:
		c.due[id] = row
	}
}

// begin records in the alarms that their deliveries begin. If an alarm is no longer active, its timer has ended.
func (s *Store) begin(ctx context.Context, c *claim) (claimed []Due, err error) {
	list, err := s.beginAll(ctx, slices.Collect(maps.Keys(c.due)))
	for _, a := range list {
		id := uuid.MustParse(a.ID)
		row := c.due[id]
		delete(c.due, id)
		claimed = append(claimed, Due{Alarm: a, Nominal: row.Values[3].(time.Time).UTC(), Attempt: row.Attempt,
			most: row.MaxAttempts, tx: s.claimTx(c.owner, row.ID)})
	}
	for _, row := range c.due {
		c.ended = append(c.ended, row.ID)
	}
	slices.SortFunc(claimed, func(a, b Due) int { return a.NextFireAt.Compare(b.NextFireAt) })
	return claimed, err
}

// putBack settles the timers that are not delivered. If the alarms could not be read, their timers stay claimed until
// the lease expires.
func (c *claim) putBack(ctx context.Context, read bool) error {
	_, err := c.queue.Leave(ctx, c.owner, c.foreign, foreignDelay, errForeign.Error())
	if read {
		_, failErr := c.queue.Fail(ctx, c.owner, c.ended, ErrEnded.Error())
		err = errors.Join(err, failErr)
	}
	return err
}

func (s *Store) beginAll(ctx context.Context, ids []uuid.UUID) (list []Alarm, err error) {
	err = s.do(ctx, func(tx workqueue.Tx) error {
		list, err = s.read(ctx, tx, s.alarms.statements.begin, ids)
		return err
	})
	return list, err
}

// claimTx returns a function that settles a claim of ClaimDue in the transaction in which work writes.
func (s *Store) claimTx(owner, timer uuid.UUID) func(context.Context, func(pgx.Tx) (result, error)) error {
	return func(ctx context.Context, work func(pgx.Tx) (result, error)) error {
		return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted,
			AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
			r, err := work(tx)
			if err != nil {
				return err
			}
			return r.settle(ctx, s.alarms.timers.Table().In(workqueue.Pgx(tx)), owner, timer)
		})
	}
}

// deliveryTx returns a function that settles a worker's claim in the transaction in which work writes.
func deliveryTx(d *timers.Delivery) func(context.Context, func(pgx.Tx) (result, error)) error {
	return func(ctx context.Context, work func(pgx.Tx) (result, error)) error {
		return d.Tx(ctx, func(tx pgx.Tx) error {
			r, err := work(tx)
			if err != nil {
				return err
			}
			return r.outcome()
		})
	}
}

// alarmID returns the id of the alarm to which the timer with the key belongs.
func alarmID(key string) (uuid.UUID, error) {
	id, found := strings.CutPrefix(key, KeyPrefix)
	if !found {
		return uuid.Nil, validate.Errorf("key", "%q does not begin with %q", clip(key), KeyPrefix)
	}
	return uuid.Parse(id)
}
