//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A holder keeps something that others need, legitimately or because it is frozen, for one episode. Everything that
// does not need it continues meanwhile, and everything that has waited for it continues when it is released.
type holder struct {
	name string
	// take returns once the holder holds it.
	take func(ctx context.Context, h *holding) (grip, error)
}

// A grip is what a holder holds.
type grip struct {
	detail    string
	shared    []string    // witnesses that need it too
	meanwhile []announced // rows of the holder that must end all the same
	release   func() error
}

// holders is embedded by faults with several holders, which take turns.
type holders struct {
	plain
	inQuiet
	all []holder
	bag []holder
}

func (f *holders) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	if len(f.bag) == 0 {
		f.bag = slices.Clone(f.all)
		random.Shuffle(len(f.bag), func(i, j int) { f.bag[i], f.bag[j] = f.bag[j], f.bag[i] })
	}
	next := f.bag[0]
	f.bag = f.bag[1:]
	return l.hold(ctx, random, next)
}

// A holding is one episode of one holder.
type holding struct {
	*lab
	random *rand.Rand
	pool   *pgxpool.Pool
}

// hold runs one holder and judges how the others fare. Producers pause, see inQuiet, so that no row waits because
// of a backlog.
func (l *lab) hold(ctx context.Context, random *rand.Rand, next holder) (string, error) {
	pool, err := l.open(ctx, "witnesses", int32(2*len(witnesses)), nil)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	h := &holding{lab: l, random: random, pool: pool}
	if err := h.awaitQuiet(ctx); err != nil {
		return "", err
	}
	before := l.lap(ctx, pool, witnesses, random, calmTime)
	l.hit = time.Now()
	g, err := next.take(ctx, h)
	if err != nil {
		return "", fmt.Errorf("%s: %w", next.name, err)
	}
	g.release = sync.OnceValue(g.release)
	defer g.release()
	detail := strings.TrimSpace(next.name + " " + g.detail)
	stalled, during := h.during(ctx, g, detail, before)
	if err := g.release(); err != nil {
		return detail, err
	}
	took := time.Since(l.hit).Round(time.Millisecond)
	if err := h.awaitDue(ctx, time.Now()); err != nil {
		l.fail("%s, %s: %v after that was over, %v", progress, detail, l.options.patience(), err)
	}
	if len(stalled) > 0 && ctx.Err() == nil {
		h.judge(detail, stalled, during, before.longer(l.lap(ctx, pool, witnesses, random, calmTime)))
	}
	return fmt.Sprintf("%s, for %v", detail, took), nil
}

// progress starts the message about work that stood still because of a holder.
const progress = "no progress"

// calmTime is how long witnesses are timed without a holder.
const calmTime = time.Second

// laps is how often slow witnesses are timed again: a machine may be slow for a moment, but a holder stays.
const laps = 3

// during runs the witnesses that do not need what the holder has, and returns those that were slow each time.
func (h *holding) during(ctx context.Context, g grip, detail string, before lap) (stalled []string, last lap) {
	who := slices.DeleteFunc(slices.Clone(witnesses), func(w witness) bool { return slices.Contains(g.shared, w.name) })
	for range laps {
		last = h.lap(ctx, h.pool, who, h.random, episode)
		stalled = last.stalled(before, h.options.slack())
		who = slices.DeleteFunc(who, func(w witness) bool { return !slices.Contains(stalled, w.name) })
		if len(who) == 0 || ctx.Err() != nil {
			break
		}
	}
	limited, cancel := context.WithTimeout(ctx, h.options.patience())
	defer cancel()
	if err := h.awaitEnded(limited, h.pool, g.meanwhile); err != nil && ctx.Err() == nil {
		h.fail("%s, %s: %v while it held, for %v", progress, detail, err, time.Since(h.hit).Round(time.Second))
	}
	return stalled, last
}

func (h *holding) judge(detail string, stalled []string, during, calm lap) {
	for _, name := range stalled {
		if slices.Contains(during.stalled(calm, h.options.slack()), name) {
			h.fail("%s, %s: %s took %v beside it, %v without", progress, detail, name,
				during[name].Round(time.Millisecond), calm[name].Round(time.Millisecond))
		}
	}
}

// awaitDue waits until no row is left that was due at the given time, for as long as a run waits when it drains.
func (h *holding) awaitDue(ctx context.Context, at time.Time) error {
	limited, cancel := context.WithTimeout(ctx, h.options.patience())
	defer cancel()
	for {
		left, err := h.due(limited, at)
		if err == nil && left == 0 {
			return nil
		}
		if limited.Err() != nil {
			return errors.Join(ctx.Err(), fmt.Errorf("%d rows are left that were due then", left))
		}
		time.Sleep(retryBase)
	}
}

// awaitQuiet waits until all rows have ended that are due now, for as long as they become fewer. Producers pause.
func (h *holding) awaitQuiet(ctx context.Context) error {
	at := time.Now()
	for least, until := math.MaxInt, at.Add(h.options.patience()); ctx.Err() == nil; time.Sleep(retryBase) {
		left, err := h.due(ctx, at)
		switch {
		case err == nil && left == 0:
			return nil
		case err == nil && left < least:
			least, until = left, time.Now().Add(h.options.patience())
		case time.Now().After(until):
			return skip("%d rows are left from before, error %v", left, err)
		}
	}
	return ctx.Err()
}

// due counts the rows that were due at the given time and have not ended.
func (h *holding) due(ctx context.Context, at time.Time) (left int, err error) {
	var parts []string
	for _, t := range auditedTables(h.schema) {
		parts = append(parts, fmt.Sprintf("(SELECT count(*) FROM %s.%s WHERE completed_at IS NULL AND created_at <= "+
			"now() - $1::interval AND due_at <= now() - $1::interval)", h.schema, t.Table))
	}
	err = h.pool.QueryRow(ctx, "SELECT "+strings.Join(parts, " + "), time.Since(at)).Scan(&left)
	return left, err
}

// commit writes rows in a committed transaction.
func (h *holding) commit(ctx context.Context, write func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced,
	error)) (names []announced, err error) {
	p := newProducer(h.shop, h.pool, h.random.Uint64())
	err = p.transactSurely(ctx, func(ctx context.Context, tx pgx.Tx) (_ []announced, err error) {
		names, err = write(ctx, p, tx)
		return names, err
	})
	return names, err
}

// leaveOpen opens an application's transaction, which release rolls back.
func (h *holding) leaveOpen(ctx context.Context, do func(ctx context.Context, p *producer,
	tx pgx.Tx) error) (release func() error, err error) {
	tx, err := h.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	release = func() error { return tx.Rollback(context.WithoutCancel(ctx)) }
	if err := do(ctx, newProducer(h.shop, h.pool, h.random.Uint64()), tx); err != nil {
		return nil, errors.Join(err, release())
	}
	return release, nil
}
