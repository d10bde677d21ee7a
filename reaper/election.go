package reaper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A candidate takes part in an election. Its holder id is its own: a new one for every Run and RunOnce.
type candidate struct {
	pool   connections
	name   string
	lease  time.Duration
	holder uuid.UUID
	tenure *tenure

	elect, verify, withdraw string
}

func newCandidate(pool connections, o Options) candidate {
	leader := pgx.Identifier{o.Schema, leaderTable}
	return candidate{
		pool:     pool,
		name:     o.Name,
		lease:    o.Lease,
		holder:   uuid.New(),
		tenure:   &tenure{},
		elect:    statement("elect", "leader", leader),
		verify:   statement("verify", "leader", leader),
		withdraw: statement("withdraw", "leader", leader),
	}
}

// A tenure is how long a candidate leads for sure, by the local clock. It is for what need not be fenced: that two
// observe for a moment does no harm.
type tenure struct {
	mu   sync.Mutex
	ends time.Time
}

func (t *tenure) set(elected bool, ends time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ends = ends; !elected {
		t.ends = time.Time{}
	}
}

func (t *tenure) lasts() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Before(t.ends)
}

// A result is that of one election.
type result struct {
	elected bool
	term    int64
	ends    time.Duration // until the lease of the other leader ends; negative if it has
}

// stand takes the leadership if it is free and renews it if it is the candidate's.
func (c candidate) stand(ctx context.Context) (result, error) {
	var r result
	start := time.Now()
	err := transaction(ctx, c.pool, c.lease, func(ctx context.Context, tx pgx.Tx) error {
		var seconds float64
		err := tx.QueryRow(ctx, c.elect, c.name, c.holder, c.lease.Microseconds()).Scan(&r.elected, &r.term, &seconds)
		r.ends = time.Duration(seconds * float64(time.Second))
		if errors.Is(err, pgx.ErrNoRows) { // the very first election, won by another this moment
			return nil
		}
		return err
	})
	if err != nil {
		return result{}, fmt.Errorf("txwork: reaper: electing a leader: %w", err)
	}
	c.tenure.set(r.elected, start.Add(c.lease))
	return r, nil
}

// fenced runs work in a transaction in which the term is current until it ends. Otherwise it runs nothing
// and returns ErrNotLeader.
func (c candidate) fenced(ctx context.Context, term int64, work func(context.Context, pgx.Tx) error) error {
	return transaction(ctx, c.pool, c.lease, func(ctx context.Context, tx pgx.Tx) error {
		var current bool
		err := tx.QueryRow(ctx, c.verify, c.name, c.holder, term).Scan(&current)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotLeader
		}
		if err != nil {
			return err
		}
		return work(ctx, tx)
	})
}

// withdrawTimeout bounds how long a stop waits for a database that may be gone.
const withdrawTimeout = 3 * time.Second

// resign gives the leadership up if the candidate has it. It is what a stop does last, so it does not
// heed the context's end.
func (c candidate) resign(ctx context.Context) error {
	c.tenure.set(false, time.Time{})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	return transaction(ctx, c.pool, c.lease, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, c.withdraw, c.name, c.holder)
		return err
	})
}

// A Leadership is the state of an election.
type Leadership struct {
	Name   string    `json:"name"`
	Term   int64     `json:"term"`
	Holder uuid.UUID `json:"holder"`

	// ExpiresIn is how long the lease lasts, by the database's clock; in nanoseconds in JSON. When it is
	// not positive nobody leads, and Holder was the last to do so.
	ExpiresIn time.Duration `json:"expires_in"`
}

// Leader tells who leads the election of the Options. It is nil when nobody ever has.
func Leader(ctx context.Context, pool *pgxpool.Pool, o Options) (*Leadership, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if pool == nil {
		return nil, validate.Errorf("pool", "is nil")
	}
	l := Leadership{Name: o.Name}
	var seconds float64
	err := pool.QueryRow(ctx, statement("leader", "leader", pgx.Identifier{o.Schema, leaderTable}), o.Name).
		Scan(&l.Term, &l.Holder, &seconds)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("txwork: reaper: reading the leader: %w", explain(err))
	}
	l.ExpiresIn = time.Duration(seconds * float64(time.Second))
	return &l, nil
}
