//go:build unix

package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// handlers are the handlers of a worker process.
type handlers struct {
	setup   setup
	pool    *pgxpool.Pool
	journal *journal
	points  *pointSet
	runs    atomic.Int64
	asked   sync.Map // names of the tables that were asked for rows
	unasked atomic.Int64
}

// A delivery is a row of any domain that its handler has received.
type delivery struct {
	table, name string
	attempt     int
	due         time.Time // when the attempt became due, if the handler knows
	task        Task
	tx          func(context.Context, func(pgx.Tx) error) error
}

// handle does what the row's task says, and records its begin and its end.
func (h *handlers) handle(ctx context.Context, d delivery) (err error) {
	l := line{Run: h.runs.Add(1), Table: d.table, Name: d.name, App: h.setup.App, Attempt: d.attempt,
		Mode: d.task.Mode}
	if !d.due.IsZero() {
		l.Due = d.due.UnixNano()
	}
	if d.task.Name != d.name {
		l.Told = cmp.Or(d.task.Name, "nobody")
	}
	l.What = lineStart
	h.journal.append(l)
	h.points.reach(pointHandler)
	l.What, l.Result = lineEnd, resultPanic
	defer func() { h.journal.append(l) }()
	err = h.act(ctx, d)
	l.Result = resultOf(err, d)
	return err
}

// What a handler returns beside an ordinary error, for both kinds of workers.
type (
	snoozed     time.Duration
	permanently struct{ error }
	unreachable struct{ error } // the destination
)

func (s snoozed) Error() string { return fmt.Sprint("snoozed for ", time.Duration(s)) }

// resultOf distinguishes a transaction that has committed from everything else. The inbox commits after its handler.
func resultOf(err error, d delivery) string {
	switch {
	case err != nil:
		return resultError
	case d.task.Mode == modeTx && d.table != "inbox":
		return resultTx
	}
	return resultOK
}

const (
	childPanic = "in a goroutine of the handler"
	exitCode   = 7
)

// work is how long a handler takes at most.
const work = 10 * time.Millisecond

func (h *handlers) act(ctx context.Context, d delivery) error {
	time.Sleep(rand.N(work))
	if h.setup.HoldConns && d.task.Mode != modeTx && d.table != "inbox" {
		defer h.hold(ctx)()
	}
	switch d.task.Mode {
	case modeTx:
		return h.write(ctx, d)
	case modeFlaky:
		if rand.IntN(3) > 0 {
			return errors.New("by chance")
		}
	case modePanic:
		if rand.IntN(3) > 0 {
			panic("by chance")
		}
	case modeSnooze:
		if rand.IntN(2) > 0 {
			return snoozed(rand.N(retryCap))
		}
	case modePermanent:
		return permanently{errOnPurpose}
	case modeAway:
		return unreachable{errOnPurpose}
	case modeSlow:
		return dawdle(ctx, lease+lease/4)
	case modeHang:
		return hang(ctx, hungBeside(h.setup.Journal))
	case modeDeaf:
		time.Sleep(deafFor)
	case modeExit:
		os.Exit(exitCode)
	case modeChildPanic:
		go func() { panic(childPanic) }()
		time.Sleep(lease) // the process ends before this is over
	}
	h.points.reach(pointSettling)
	return nil
}

// write has its effect in the transaction of the settle. It ignores its context, as many handlers do: its late results
// must be refused all the same.
func (h *handlers) write(ctx context.Context, d delivery) error {
	ctx = context.WithoutCancel(ctx)
	return d.tx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO "+h.setup.Schema+".effects (tbl, name, attempt) VALUES ($1, $2, $3)",
			d.table, d.name, d.attempt)
		h.points.reach(pointSettling)
		return err
	})
}

// dawdle takes its time, but respects its context.
func dawdle(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hold keeps a connection of the pool for as long as the handler works, which is longer than it needs it.
func (h *handlers) hold(ctx context.Context) (release func()) {
	conn, err := h.pool.Acquire(ctx)
	if err != nil {
		return func() {}
	}
	_ = dawdle(ctx, 10*work)
	return conn.Release
}
