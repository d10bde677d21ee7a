package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// MoveOptions configure [Outbox.Move].
type MoveOptions struct {
	// Subscription is the name of the successor: the subscription to which the destination of the rows changes. The
	// switch makes it, for all topics, and paused. It is required.
	Subscription string

	// Lanes are those of the successor. Default: 1.
	Lanes int

	// LockTimeout bounds how long producers and relays wait behind the switch at a time, because it waits for a
	// transaction that has written rows. Then it lets them pass, and tries again after as long. Timeouts of the role
	// for statements and transactions do not count. Default: 2 s.
	LockTimeout time.Duration

	// Wait bounds how long the switch is tried. Default: 1 minute.
	Wait time.Duration

	// Progress is called after each step, if it is not nil.
	Progress func(MoveState)
}

// A MoveState says how far the move of an outbox from rows to a log is.
type MoveState struct {
	Stage      MoveStage
	Successor  string        // the subscription that has the destination of the rows; empty: BeforeMove
	Since      time.Duration // since the switch
	Moved      int64         // rows that this call of Move has parked
	Unfinished int64         // rows that have not ended, up to 10,000 released and as many that wait
	InProgress int64         // of these, rows that a relay has in hand: they stay until they are settled
	Blocking   int64         // dead letters that block their key, up to 10,000: they move, too
	Limited    int64         // unfinished rows of a key with a limit: relays of the rows have to deliver them
	Hindrance  string        // BeforeMove: why the switch is refused; empty: it is possible
	Back       string        // AfterMove: why MoveBack is refused; empty: it is possible
}

// A MoveStage is a stage of a move.
type MoveStage string

// The stages of a move.
const (
	BeforeMove MoveStage = "rows"   // messages are rows
	DuringMove MoveStage = "moving" // messages go to the log; some rows have not ended, so the successor is paused
	AfterMove  MoveStage = "moved"  // no row is left that has not ended
)

// ErrSwitch is that of a move whose switch was not possible in time, because a transaction that has written messages
// stayed open, or, on the way back, a message in progress. Nothing was changed.
var ErrSwitch = errors.New("what the switch of the outbox has to wait for did not end")

// Move moves an outbox from rows to a log while producers and relays run. The outbox has to be opened with [MoveToLog],
// as all its producers, and the schema needs the log's tables. The pool's role has to own the tables.
//
// First comes the switch, a short transaction that waits for all others that have written rows: from its commit on,
// producers write to the log, and the table takes no rows. Then rows that have not ended are parked for the successor,
// some hundreds in a transaction, with their ids, attempts, times and dedup keys, in the order of their keys. Rows in
// progress are settled by their relay before. When none is left, the successor is resumed. Relays of the rows and of
// the successor run all the time.
//
// It can be called again after it was broken off wherever it was, and goes on. After it has ended, it moves rows that
// were redriven since.
func (o *Outbox) Move(ctx context.Context, pool *pgxpool.Pool, opts MoveOptions) (MoveState, error) {
	if o.rows == nil {
		return MoveState{}, validate.Errorf("storage", "is not MoveToLog, with which all producers of an outbox that "+
			"moves have to be opened")
	}
	if opts.Lanes < 0 || opts.LockTimeout < 0 || opts.Wait < 0 {
		return MoveState{}, validate.Errorf("move", "has negative options: %+v", opts)
	}
	m := newMove(o, pool, opts)
	if err := m.switchOver(ctx); err != nil {
		return MoveState{}, err
	}
	return m.moveRows(ctx)
}

func newMove(o *Outbox, pool *pgxpool.Pool, opts MoveOptions) *move {
	opts.LockTimeout = cmp.Or(opts.LockTimeout, 2*time.Second)
	opts.Wait = cmp.Or(opts.Wait, time.Minute)
	return &move{Outbox: o, pool: pool, MoveOptions: opts}
}

// MoveState returns how far the move is.
func (o *Outbox) MoveState(ctx context.Context, tx workqueue.Tx) (s MoveState, err error) {
	if err := o.refusesSubscriptions(); err != nil {
		return s, err
	}
	queue := o.table.In(tx)
	var successor *string
	var since *float64
	err = queue.Query(ctx, func(scan func(...any) error) error {
		return scan(&s.Stage, &successor, &since, &s.Unfinished, &s.InProgress, &s.Blocking, &s.Limited)
	}, "SELECT state, successor, seconds, coalesce(unfinished, 0), coalesce(in_progress, 0), coalesce(blocking, 0), "+
		"coalesce(limited, 0) FROM "+o.named("moving")+"()")
	if err != nil {
		return s, err
	}
	hindrance, why := "move_hindrance", &s.Hindrance
	if successor != nil {
		s.Successor, s.Since = *successor, seconds(*since)
		hindrance, why = "back_hindrance", &s.Back
	}
	if s.Stage == DuringMove {
		return s, nil
	}
	err = queue.Query(ctx, func(scan func(...any) error) error { return scan(why) },
		"SELECT coalesce("+o.named(hindrance)+"(), '')")
	return s, err
}

// hasMoved asks where messages go, and keeps that so until the transaction ends. It refuses what the log will refuse.
func (o *Outbox) hasMoved(ctx context.Context, tx workqueue.Tx, b batch) (moved bool, err error) {
	if err := b.checkLogged(); err != nil {
		return false, err
	}
	err = o.table.In(tx).Query(ctx, func(scan func(...any) error) error { return scan(&moved) },
		"SELECT "+o.named("storage")+"() = 'log'")
	return moved, err
}

// A move is one call of Move.
type move struct {
	*Outbox
	pool *pgxpool.Pool
	MoveOptions
	moved int64
}

// switchOver switches to the log.
func (m *move) switchOver(ctx context.Context) error {
	return m.try(ctx, func() error {
		return m.switched(ctx, func(queue *workqueue.Queue) error {
			_, err := queue.Exec(ctx, "SELECT "+m.named("take_over")+"($1::text, coalesce(nullif($2::integer, 0), 1))",
				m.Subscription, m.Lanes)
			return err
		})
	})
}

// try tries a switch until it has all locks in time. Others that wait behind it are let through in between.
func (m *move) try(ctx context.Context, do func() error) error {
	for end := time.Now().Add(m.Wait); ; {
		err := do()
		if !isBlocked(err) {
			return err
		}
		if time.Now().Add(m.LockTimeout).After(end) {
			return fmt.Errorf("txwork: %w within %v: %w", ErrSwitch, m.Wait, err)
		}
		if err := pause(ctx, m.LockTimeout); err != nil {
			return err
		}
	}
}

// switched runs a switch, which waits for no lock for longer than the timeout.
func (m *move) switched(ctx context.Context, do func(*workqueue.Queue) error) error {
	return m.inTx(ctx, func(queue *workqueue.Queue) error {
		_, err := queue.Exec(ctx, "SELECT set_config('lock_timeout', $1::text, true)",
			fmt.Sprintf("%dms", max(m.LockTimeout.Milliseconds(), 1)))
		if err != nil {
			return err
		}
		return do(queue)
	})
}

// isBlocked tells whether a statement waited for too long for what others held, or was cancelled by somebody who waited
// for it: it may succeed the next time.
func isBlocked(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.Contains([]string{"55P03", "40P01", "57014"}, pg.Code)
}

// moveBatch is how many rows without a key one transaction moves; of those with one it moves about as many keys.
const moveBatch = 500

// moveRows moves rows until none is left, and maintains those that stay meanwhile: nobody else may.
func (m *move) moveRows(ctx context.Context) (MoveState, error) {
	for wait := time.Duration(0); ; {
		if err := m.maintain(ctx); err != nil {
			return MoveState{}, err
		}
		var n int64
		var ended bool
		err := m.inTx(ctx, func(queue *workqueue.Queue) error {
			return queue.Query(ctx, func(scan func(...any) error) error { return scan(&n, &ended) },
				"SELECT moved, ended FROM "+m.named("move_rows")+"($1::text, $2::integer)", m.Subscription, moveBatch)
		})
		if err != nil && !isBlocked(err) {
			return MoveState{}, err
		}
		m.moved += n
		if m.Progress != nil || ended && n == 0 {
			s, err := m.state(ctx)
			if err != nil {
				return s, err
			}
			if m.Progress != nil {
				m.Progress(s)
			}
			if ended && n == 0 {
				return s, nil
			}
		}
		if wait = min(2*wait+10*time.Millisecond, time.Second); n > 0 {
			wait = 0
		}
		if err := pause(ctx, wait); err != nil {
			return MoveState{}, err
		}
	}
}

// maintain lets each key have a row that is released, and ends leases of relays that have died.
func (m *move) maintain(ctx context.Context) error {
	queue := m.rows.table.On(m.pool)
	if _, err := queue.ReapExpired(ctx, moveBatch); err != nil {
		return err
	}
	_, err := queue.Fold(ctx)
	return err
}

func (m *move) state(ctx context.Context) (s MoveState, err error) {
	err = workqueue.InTx(ctx, m.pool, func(tx workqueue.Tx) error {
		s, err = m.MoveState(ctx, tx)
		return err
	})
	s.Moved = m.moved
	return s, err
}

// inTx bounds nothing but waits: a key moves as a whole, however long that takes. Not every server has all timeouts.
func (m *move) inTx(ctx context.Context, do func(*workqueue.Queue) error) error {
	return hinted(workqueue.InTx(ctx, m.pool, func(tx workqueue.Tx) error {
		queue := m.table.In(tx)
		_, err := queue.Exec(ctx, "SELECT set_config(name, '0', true) FROM pg_settings "+
			"WHERE name IN ('statement_timeout', 'transaction_timeout')")
		if err != nil {
			return err
		}
		return do(queue)
	}))
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
