package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
)

// A Fault is what was done to one worker and what came of it.
type Fault struct {
	Worker  string
	Applied int           // messages in the ledger when it happened
	Claims  int           // that the worker held
	Midway  int           // of those, with a handler in the middle of its transaction
	After   time.Duration // until its claims were taken over (killed) or it was continued (frozen)
	Refused int           // stale settles of a frozen worker
}

// faults does to the crew what the demo is about.
type faults struct {
	crew   *crew
	bank   *bank
	schema string
	show   *display
}

// freezeGate and killGate are the places in the plan before which the faults happen: at a quarter and at
// half. There is always a transfer between the two; the kill of a plan of one transfer finds the message
// that comes back from the frozen worker.
func freezeGate(p plan) *gate { return newGate(p.count / 4) }

func killGate(p plan) *gate { return newGate(max(p.count/2, p.count/4+1)) }

// run freezes a worker and kills another, and returns when both are over and done with.
func (f *faults) run(ctx context.Context, freezeAt, killAt *gate) (frozen, killed Fault, err error) {
	frozen, thaw, err := f.freeze(ctx, freezeAt)
	if err != nil {
		return frozen, killed, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return thaw(ctx, &frozen) })
	group.Go(func() (err error) {
		killed, err = f.kill(ctx, killAt)
		return err
	})
	err = group.Wait()
	return frozen, killed, err
}

// A blow is a fault that has begun.
type blow struct {
	victim
	tokens []uuid.UUID // of the victim's claims
	since  time.Time
	Fault
}

// strike catches a worker and does something to it.
func (f *faults) strike(ctx context.Context, g *gate, act func(*member) error) (blow, error) {
	select {
	case <-g.reached:
	case <-ctx.Done():
		return blow{}, context.Cause(ctx)
	}
	v, err := f.crew.catch(ctx, g)
	if err != nil {
		return blow{}, err
	}
	b := blow{victim: v, Fault: Fault{Worker: v.name, Midway: len(v.messages)}}
	if err := f.scan(ctx, `SELECT array_agg(DISTINCT owner_token) FROM %s.outbox WHERE id = ANY ($1) AND status = 1`,
		v.claims, &b.tokens); err != nil {
		return b, err
	}
	if err := act(v.member); err != nil {
		return b, fmt.Errorf("%s: %w", v.name, err)
	}
	b.since = time.Now()
	if b.Claims, err = f.held(ctx, b.tokens); err != nil {
		return b, err
	}
	return b, f.scan(ctx, `SELECT count(*) FROM %s.ledger`, nil, &b.Applied)
}

// freeze stops a worker and returns how to continue it.
func (f *faults) freeze(ctx context.Context, g *gate) (Fault, func(context.Context, *Fault) error, error) {
	b, err := f.strike(ctx, g, func(m *member) error { return freeze(m.cmd.Process) })
	if err != nil {
		return b.Fault, nil, err
	}
	f.show.say("%s frozen (SIGSTOP) after %s: it holds %s, %d in the middle of a transaction",
		b.Worker, count(b.Applied, "message"), count(b.Claims, "claim"), b.Midway)
	return b.Fault, func(ctx context.Context, fault *Fault) error { return f.thaw(ctx, b, fault) }, nil
}

// thaw continues the frozen worker once others have delivered what its handlers have in their hands:
// every settle that these are about to make is stale, and every row that they have written is one too many.
func (f *faults) thaw(ctx context.Context, b blow, fault *Fault) error {
	err := f.await(ctx, "the frozen worker's messages being delivered by others", func() (bool, error) {
		var left int
		err := f.scan(ctx, `SELECT count(*) FROM %s.outbox WHERE id = ANY ($1) AND status < 2`, b.messages, &left)
		return left == 0, err
	})
	if err != nil {
		return err
	}
	b.tell(command{Do: doResume})
	if err := thaw(b.cmd.Process); err != nil {
		return fmt.Errorf("%s: %w", b.Worker, err)
	}
	fault.After = time.Since(b.since)
	err = f.await(ctx, "the handlers of the frozen worker to end", func() (bool, error) {
		ended, err := f.ended(ctx, b.victim, fault)
		return ended >= len(b.messages), err
	})
	if err != nil {
		return err
	}
	f.show.say("%s continued (SIGCONT) after %.1f s: %s refused", b.Worker, fault.After.Seconds(),
		count(fault.Refused, "stale settle"))
	return nil
}

// ended counts the handlers that a frozen worker held and that have ended since: refused, as they must be,
// or applied, which the reckoning then finds.
func (f *faults) ended(ctx context.Context, v victim, fault *Fault) (n int, err error) {
	err = f.bank.pool.QueryRow(ctx, fmt.Sprintf(`
		SELECT count(*), count(*) FILTER (WHERE refused)
		FROM (SELECT message, worker, true AS refused FROM %[1]s.refusals
			UNION ALL SELECT message, worker, false FROM %[1]s.ledger) AS e
		WHERE message = ANY ($1) AND worker = $2`, f.schema), v.messages, v.name).Scan(&n, &fault.Refused)
	return n, err
}

// kill ends a worker and waits until nothing is claimed by it any more.
func (f *faults) kill(ctx context.Context, g *gate) (Fault, error) {
	b, err := f.strike(ctx, g, func(m *member) error { m.kill(); return nil })
	if err != nil {
		return b.Fault, err
	}
	f.show.say("%s killed (SIGKILL) after %s: it held %s, %d in the middle of a transaction",
		b.Worker, count(b.Applied, "message"), count(b.Claims, "claim"), b.Midway)
	err = f.await(ctx, "the killed worker's claims being taken over", func() (bool, error) {
		left, err := f.held(ctx, b.tokens)
		return left == 0, err
	})
	b.After = time.Since(b.since)
	if err != nil {
		return b.Fault, err
	}
	f.show.say("%s of %s recovered by the reaper %.1f s after its death", count(b.Claims, "claim"), b.Worker,
		b.After.Seconds())
	return b.Fault, nil
}

// held counts the rows that are in progress under these claims.
func (f *faults) held(ctx context.Context, tokens []uuid.UUID) (n int, err error) {
	err = f.scan(ctx, `SELECT count(*) FROM %s.outbox WHERE owner_token = ANY ($1) AND status = 1`, tokens, &n)
	return n, err
}

// scan reads one value. The query has a place for the schema and, unless ids is nil, an array of ids.
func (f *faults) scan(ctx context.Context, query string, ids []uuid.UUID, dest any) error {
	var args []any
	if ids != nil {
		args = append(args, ids)
	}
	return f.bank.pool.QueryRow(ctx, fmt.Sprintf(query, f.schema), args...).Scan(dest)
}

const (
	awaitPoll  = 50 * time.Millisecond
	awaitLimit = time.Minute // far beyond lease, reaper and backoff
)

// await looks again and again.
func (f *faults) await(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, awaitLimit, fmt.Errorf("waited %v in vain for %s", awaitLimit, what))
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(awaitPoll):
		}
	}
}
