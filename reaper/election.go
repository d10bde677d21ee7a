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

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// A candidate takes part in the election of each of its tables. Every Run and RunOnce is a new candidate, with a holder
// id of its own.
type candidate struct {
	pool   connections
	lease  time.Duration
	holder uuid.UUID
	tenure *tenure

	// problems are what kept the last round from serving tables to the end. Each election writes them.
	problems map[string]string

	elect, verify, withdraw string
}

func newCandidate(pool connections, o Options) candidate {
	leader := pgx.Identifier{o.Schema, leaderTable}
	return candidate{
		pool:     pool,
		lease:    o.Lease,
		holder:   uuid.New(),
		tenure:   &tenure{ends: map[string]time.Time{}},
		problems: map[string]string{},
		elect:    statement("elect", "leader", leader),
		verify:   statement("verify", "leader", leader),
		withdraw: statement("withdraw", "leader", leader),
	}
}

// A tenure records, by the local clock, until when a candidate certainly leads its tables. Only the gauges use it,
// which need no fencing: two reapers that observe a table for a moment do no harm.
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

func (t *tenure) end(tables []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, table := range tables {
		delete(t.ends, table)
	}
}

// lasts reports whether the candidate leads a table.
func (t *tenure) lasts(table string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Before(t.ends[table])
}

// any reports whether the candidate leads any table.
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

// A standing is the result of a table's election.
type standing struct {
	Table   string
	Elected bool
	Term    int64
	Seconds float64 // until the lease of the other leader ends; negative if it has
	Hidden  bool    // row-level security hides rows of the table from the role, so it is not elected
}

// stand takes the leadership of tables that is free, and renews the leadership that the candidate has, in one statement
// for all tables. A table that is missing from the result has just got another leader.
func (c candidate) stand(ctx context.Context, tables []string) (map[string]standing, error) {
	all := make(map[string]standing, len(tables))
	start := time.Now()
	err := transaction(ctx, c.pool, c.lease, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, c.elect, tables, c.holder, c.lease.Microseconds(),
			c.problemsOf(tables))
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

// fenced runs work in a transaction that keeps the term of the table current until it ends. If the term is not current,
// fenced changes nothing and returns ErrNotLeader.
func (c candidate) fenced(ctx context.Context, table string, term int64,
	work func(context.Context, pgx.Tx) error) error {
	return transaction(ctx, c.pool, c.lease, func(ctx context.Context, tx pgx.Tx) error {
		if err := c.keeps(ctx, tx, table, term); err != nil {
			return err
		}
		return work(ctx, tx)
	})
}

// fencedLast is fenced for work that begins in a transaction which has done nothing yet: the lock of the term gives it
// an id, and a log does not tick in a transaction that has one.
func (c candidate) fencedLast(ctx context.Context, table string, term int64,
	work func(context.Context, pgx.Tx) error) error {
	return transaction(ctx, c.pool, c.lease, func(ctx context.Context, tx pgx.Tx) error {
		if err := work(ctx, tx); err != nil {
			return err
		}
		return c.keeps(ctx, tx, table, term)
	})
}

// keeps keeps the term of a table current until the transaction ends, if it is.
func (c candidate) keeps(ctx context.Context, tx pgx.Tx, table string, term int64) error {
	var current bool
	err := tx.QueryRow(ctx, c.verify, table, c.holder, term).Scan(&current)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotLeader
	}
	return err
}

// withdrawTimeout bounds how long a stop waits for a database that may be unavailable.
const withdrawTimeout = 3 * time.Second

// problemsOf returns the problems of tables, in their order.
func (c candidate) problemsOf(tables []string) []string {
	problems := make([]string, len(tables))
	for i, table := range tables {
		problems[i] = c.problems[table]
	}
	return problems
}

// resign gives up the leadership of those of the tables that the candidate leads. It may be the last step of a stop, so
// it ignores that the context has ended.
func (c candidate) resign(ctx context.Context, tables []string) error {
	c.tenure.end(tables)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	return transaction(ctx, c.pool, c.lease, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, c.withdraw, c.holder, tables, c.problemsOf(tables))
		return err
	})
}

// A Leadership is the state of a table's election.
type Leadership struct {
	Table  string    `json:"table"`
	Term   int64     `json:"term"`
	Holder uuid.UUID `json:"holder"`

	// ExpiresIn is how much longer the lease lasts, by the database's clock; in nanoseconds in JSON. If it is not
	// positive, no reaper leads, and Holder was the last to do so. It then says how long ago the table was last
	// maintained, by a reaper, by `txwork reap` or by its procedure. With Term 0, no reaper ever led the table.
	ExpiresIn time.Duration `json:"expires_in"`

	// Problem is what kept the last maintenance from serving the table to the end: its error, or the first of the rows
	// that it skipped. It is empty if nothing did.
	Problem string `json:"problem,omitempty"`
}

// Leaders returns the reapers that maintain the tables of a schema, by the name of the table. A table that has never
// been maintained is missing. An empty schema means [workqueue.DefaultSchema].
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
		err = row.Scan(&l.Table, &l.Term, &l.Holder, &seconds, &l.Problem)
		l.ExpiresIn = postgres.Seconds(seconds)
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("txwork: reaper: reading the leaders: %w", explain(err))
	}
	return all, nil
}
