package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// A Fault is what was done to one worker and what came of it.
type Fault struct {
	Worker  string
	Applied int           // messages in the ledger when the fault began
	Claims  int           // claims that the worker held
	Midway  int           // of these, claims with a handler in the middle of its transaction
	After   time.Duration // until its claims were taken over (killed) or it was continued (frozen)
	Refused int           // stale settles of a frozen worker
}

// faults freezes one worker of the crew and kills another.
type faults struct {
	crew   *crew
	bank   *bank
	schema string
	show   *display
}

// freezeGate and killGate are the places in the plan before which the faults happen: a quarter and half of it. There is
// always a transfer between the two; in a plan of one transfer, the kill hits the message that the frozen worker gives
// up.
func freezeGate(p plan) *gate { return newGate(p.count / 4) }

func killGate(p plan) *gate { return newGate(max(p.count/2, p.count/4+1)) }

// run freezes a worker and kills another, and returns when both have been recovered from.
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
	tokens []uuid.UUID // owner tokens of the victim's claims
	since  time.Time
	Fault
}

// strike waits for the gate, catches a worker and applies the fault to it.
func (f *faults) strike(ctx context.Context, g *gate, act func(*member) error) (blow, error) {
	select {
	case <-g.reached:
	case <-ctx.Done():
		return blow{}, context.Cause(ctx)
	}
	v, err := f.crew.catch(ctx, g, func(holding []notice) ([]notice, bool, error) { return f.kept(ctx, holding) })
	if err != nil {
		return blow{}, err
	}
	b := blow{victim: v, Fault: Fault{Worker: v.name, Midway: len(v.messages)}}
	if err := f.scan(ctx, &b.tokens, `
		SELECT array_agg(DISTINCT owner_token) FROM %s.outbox WHERE id = ANY ($1) AND status = 1`, v.claims); err != nil {
		return b, err
	}
	if err := act(v.member); err != nil {
		return b, fmt.Errorf("%s: %w", v.name, err)
	}
	b.since = time.Now()
	if b.Claims, err = f.held(ctx, b.tokens); err != nil {
		return b, err
	}
	return b, f.scan(ctx, &b.Applied, `SELECT count(*) FROM %s.ledger`)
}

// kept selects the notices whose claims are still the worker's, and remain so for long enough to strike it: on a slow
// machine a worker may lose its lease while its handler is held. It reports whether all are lost.
func (f *faults) kept(ctx context.Context, holding []notice) (kept []notice, lost bool, err error) {
	ids, attempts := make([]uuid.UUID, len(holding)), make([]int, len(holding))
	for i, n := range holding {
		ids[i], attempts[i] = n.Message, n.Attempt
	}
	rows, err := f.bank.pool.Query(ctx, fmt.Sprintf(`
		SELECT h.place, o.locked_until > clock_timestamp() + $3::interval
		FROM unnest($1::uuid[], $2::int[]) WITH ORDINALITY AS h (id, attempt, place)
			JOIN %s.outbox AS o USING (id)
		WHERE o.status = 1 AND o.attempts = h.attempt
		ORDER BY h.place`, f.schema), ids, attempts, lease/2)
	if err != nil {
		return nil, false, err
	}
	lost = true
	var place int
	var lasts bool
	_, err = pgx.ForEachRow(rows, []any{&place, &lasts}, func() error {
		lost = false
		if lasts {
			kept = append(kept, holding[place-1])
		}
		return nil
	})
	return kept, lost && err == nil, err
}

// freeze stops a worker, and returns the function that continues it.
func (f *faults) freeze(ctx context.Context, g *gate) (Fault, func(context.Context, *Fault) error, error) {
	b, err := f.strike(ctx, g, func(m *member) error { return freeze(m.cmd.Process) })
	if err != nil {
		return b.Fault, nil, err
	}
	f.show.say("%s frozen (SIGSTOP) after %s: it holds %s, %d in the middle of a transaction",
		b.Worker, count(b.Applied, "message"), count(b.Claims, "claim"), b.Midway)
	return b.Fault, func(ctx context.Context, fault *Fault) error { return f.thaw(ctx, b, fault) }, nil
}

// thaw continues the frozen worker once others have delivered the messages of its held handlers. Every settle that
// these are about to make is stale, and every row that they have written must be rolled back.
func (f *faults) thaw(ctx context.Context, b blow, fault *Fault) error {
	err := f.await(ctx, "the frozen worker's messages being delivered by others", func() (bool, error) {
		var left int
		err := f.scan(ctx, &left, `SELECT count(*) FROM %s.outbox WHERE id = ANY ($1) AND status < 2`, b.messages)
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

// ended counts the handlers of the frozen worker that have ended since: with a refused settle, as they should, or with
// an applied row, which the reconciliation would then find.
func (f *faults) ended(ctx context.Context, v victim, fault *Fault) (n int, err error) {
	err = f.bank.pool.QueryRow(ctx, fmt.Sprintf(`
		SELECT count(*), count(*) FILTER (WHERE refused)
		FROM (SELECT message, worker, true AS refused FROM %[1]s.refusals
			UNION ALL SELECT message, worker, false FROM %[1]s.ledger) AS e
		WHERE message = ANY ($1) AND worker = $2`, f.schema), v.messages, v.name).Scan(&n, &fault.Refused)
	return n, err
}

// kill kills a worker and waits until it no longer holds a claim.
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

// held counts the rows that are in progress under the given tokens.
func (f *faults) held(ctx context.Context, tokens []uuid.UUID) (n int, err error) {
	err = f.scan(ctx, &n, `SELECT count(*) FROM %s.outbox WHERE owner_token = ANY ($1) AND status = 1`, tokens)
	return n, err
}

// scan reads one value. The query has a place for the schema. An array among its arguments may be nil.
func (f *faults) scan(ctx context.Context, dest any, query string, args ...any) error {
	return f.bank.pool.QueryRow(ctx, fmt.Sprintf(query, f.schema), args...).Scan(dest)
}

const (
	awaitPoll  = 50 * time.Millisecond
	awaitLimit = time.Minute // much longer than lease, reaper and backoff together
)

// await polls a condition until it holds.
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
