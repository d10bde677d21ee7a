package reaper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// A candidate takes part in the election of each of its tables. Its holder id is its own: a new one for every Run and
// RunOnce.
type candidate struct {
	pool   connections
	lease  time.Duration
	holder uuid.UUID
	tenure *tenure

	elect, verify, withdraw string
}

func newCandidate(pool connections, o Options) candidate {
	leader := pgx.Identifier{o.Schema, leaderTable}
	return candidate{
		pool:     pool,
		lease:    o.Lease,
		holder:   uuid.New(),
		tenure:   &tenure{ends: map[string]time.Time{}},
		elect:    statement("elect", "leader", leader),
		verify:   statement("verify", "leader", leader),
		withdraw: statement("withdraw", "leader", leader),
	}
}

// A tenure is how long a candidate leads its tables for sure, by the local clock. It is for what need not be fenced:
// that two observe for a moment does no harm.
type tenure struct {
	mu   sync.Mutex
	ends map[string]time.Time
}

func (t *tenure) set(tables []string, elected map[string]standing, ends time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, table := range tables {
		if delete(t.ends, table); elected[table].Elected {
			t.ends[table] = ends
		}
	}
}

func (t *tenure) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.ends)
}

// lasts tells whether the candidate leads a table.
func (t *tenure) lasts(table string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Before(t.ends[table])
}

// any tells whether the candidate leads any table.
func (t *tenure) any() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, ends := range t.ends {
		if now.Before(ends) {
			return true
		}
	}
	return false
}

// A standing is how the election of a table ended.
type standing struct {
	Table   string
	Elected bool
	Term    int64
	Seconds float64 // until the lease of the other leader ends; negative if it has
}

// stand takes the leadership of tables if it is free and renews it if it is the candidate's: all of them in one
// statement. A table that is missing has another leader as of this moment.
func (c candidate) stand(ctx context.Context, tables []string) (map[string]standing, error) {
	all := make(map[string]standing, len(tables))
	start := time.Now()
	err := transaction(ctx, c.pool, c.lease, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, c.elect, tables, c.holder, c.lease.Microseconds())
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[standing])
		for _, s := range found {
			all[s.Table] = s
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("txwork: reaper: electing a leader: %w", err)
	}
	c.tenure.set(tables, all, start.Add(c.lease))
	return all, nil
}

// fenced runs work in a transaction in which the term of the table is current until it ends. Otherwise it runs nothing
// and returns ErrNotLeader.
func (c candidate) fenced(ctx context.Context, table string, term int64,
	work func(context.Context, pgx.Tx) error) error {
	return transaction(ctx, c.pool, c.lease, func(ctx context.Context, tx pgx.Tx) error {
		var current bool
		err := tx.QueryRow(ctx, c.verify, table, c.holder, term).Scan(&current)
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

// resign gives up the leadership of all tables that the candidate leads. It is what a stop does last, so it does not
// heed the context's end.
func (c candidate) resign(ctx context.Context) error {
	c.tenure.end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	return transaction(ctx, c.pool, c.lease, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, c.withdraw, c.holder)
		return err
	})
}

// A Leadership is the state of a table's election.
type Leadership struct {
	Table  string    `json:"table"`
	Term   int64     `json:"term"`
	Holder uuid.UUID `json:"holder"`

	// ExpiresIn is how long the lease lasts, by the database's clock; in nanoseconds in JSON. When it is
	// not positive nobody leads, and Holder was the last to do so. The table was last maintained then, be it by `txwork
	// reap` or its procedure; with Term 0 nobody else ever did.
	ExpiresIn time.Duration `json:"expires_in"`
}

// Leaders tells which reapers maintain the tables of a schema, by the name of the table. A table that no reaper has
// ever maintained is missing. An empty schema is [workqueue.DefaultSchema].
func Leaders(ctx context.Context, pool *pgxpool.Pool, schema string) ([]Leadership, error) {
	schema = cmp.Or(schema, workqueue.DefaultSchema)
	if err := validate.Identifier("schema", schema); err != nil {
		return nil, err
	}
	if pool == nil {
		return nil, validate.Errorf("pool", "is nil")
	}
	rows, err := pool.Query(ctx, statement("leaders", "leader", pgx.Identifier{schema, leaderTable}))
	if err != nil {
		return nil, fmt.Errorf("txwork: reaper: reading the leaders: %w", explain(err))
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l Leadership, err error) {
		var seconds float64
		err = row.Scan(&l.Table, &l.Term, &l.Holder, &seconds)
		l.ExpiresIn = time.Duration(seconds * float64(time.Second))
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("txwork: reaper: reading the leaders: %w", explain(err))
	}
	return all, nil
}
