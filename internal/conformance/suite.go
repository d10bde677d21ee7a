package conformance

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

const (
	// lease is longer than a test takes: what one part leaves claimed must not be reaped with the rows of another.
	lease = 30 * time.Minute

	// patience bounds operations that a correct library completes at once: nothing here is expected to take long.
	patience = pgtest.Patience
	slack    = pgtest.Slack
)

// A suite is one test's table, with the helpers that the tests are written in.
type suite struct {
	*testing.T
	Case
	way   way
	db    *pgtest.DB
	eyes  *pgxpool.Pool // used for the tests' own statements
	table *workqueue.Table
	begin begin
	rows  *atomic.Int64 // number of rows made so far
	seen  *names        // nil: nothing is compared
}

// Run records the name of the test before it runs it.
func (s *suite) Run(name string, run func(*testing.T)) bool {
	return s.T.Run(name, func(t *testing.T) {
		s.seen.add(t.Name())
		run(t)
	})
}

func newSuite(t *testing.T, c Case, w way, options ...pgtest.Option) *suite {
	db := pgtest.New(t, options...)
	table := createTable(t, db, c)
	eyes := pgtest.Direct(t, db, options...)
	return &suite{T: t, Case: c, way: w, db: db, eyes: eyes, table: table, begin: w.open(t, db, table),
		rows: new(atomic.Int64)}
}

func createTable(t *testing.T, db *pgtest.DB, c Case) *workqueue.Table {
	t.Helper()
	spec := c.Spec
	spec.Schema = db.Schema
	table, err := workqueue.Open(spec, workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	up, _, err := c.ddl(db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), up); err != nil {
		t.Fatalf("DDL: %v\n%s", err, up)
	}
	return table
}

// each runs a test for every item on the same table, one after the other.
func each[T any](s *suite, items []T, name func(T) string, run func(*suite, T)) {
	for _, item := range items {
		s.Run(name(item), func(t *testing.T) {
			sub := *s
			sub.T = t
			run(&sub, item)
		})
	}
}

// try runs fn in a transaction of the way and commits it, unless fn failed. A settle that was refused for some rows is
// an answer and not a failure: what it changed for the others is committed.
func (s *suite) try(fn func(ctx context.Context, o ops) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tx, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer tx.rollback()

	err = fn(ctx, tx.ops)
	if refused := (*workqueue.SettleError)(nil); err != nil && !errors.As(err, &refused) {
		return err
	}
	return cmp.Or(tx.commit(), err)
}

// do is try for operations that have to succeed.
func (s *suite) do(fn func(ctx context.Context, o ops) error) {
	s.Helper()
	s.ok(s.try(fn))
}

// open begins a transaction that the test ends itself.
func (s *suite) open() *transaction {
	s.Helper()
	tx, err := s.begin(s.Context())
	s.ok(err)
	s.Cleanup(func() { _ = tx.rollback() })
	return tx
}

// A claim is the rows held under one owner token.
type claim struct {
	token uuid.UUID
	ids   []uuid.UUID
}

// newRow makes a unique row in the first lane, due now.
func (s *suite) newRow() workqueue.NewRow {
	return workqueue.NewRow{Values: s.values(int(s.rows.Add(1)), 0)}
}

// values returns the domain columns of the n-th row in one of the lanes.
func (s *suite) values(n, lane int) []any {
	values := slices.Clone(s.Values(n))
	for i, c := range s.Spec.Columns {
		if l := slices.Index(s.Spec.Lanes, c.Name); l >= 0 {
			values[i] = s.Lanes[lane][l]
		}
	}
	return values
}

// ready inserts n due rows. Each edit may change every row first.
func (s *suite) ready(n int, edit ...func(*workqueue.NewRow)) []uuid.UUID {
	s.Helper()
	rows := make([]workqueue.NewRow, n)
	for i := range rows {
		rows[i] = s.newRow()
		for _, e := range edit {
			e(&rows[i])
		}
	}
	var ids []uuid.UUID
	s.do(func(ctx context.Context, o ops) (err error) {
		ids, err = o.insert(ctx, rows...)
		return err
	})
	return ids
}

// claimed inserts n rows and claims them. They are due earlier than all other rows, so that the claim takes them.
func (s *suite) claimed(n int, edit ...func(*workqueue.NewRow)) claim {
	s.Helper()
	ids := s.ready(n, edit...)
	// Before all rows of earlier cases, however long these took.
	s.set(fmt.Sprintf("due_at = timestamptz '2001-01-01' - interval '%d seconds'", s.rows.Load()), ids...)
	c := s.claim(n)
	s.sameIDs(c.ids, ids)
	return c
}

// one inserts a row and claims it.
func (s *suite) one(edit ...func(*workqueue.NewRow)) (claim, uuid.UUID) {
	s.Helper()
	c := s.claimed(1, edit...)
	return c, c.ids[0]
}

// claim claims rows of the first lane under a new token, as a process of its own: what it loses is not lost together
// with what another claim loses.
func (s *suite) claim(limit int) claim {
	s.Helper()
	c := claim{token: workqueue.NewOwnerToken()}
	rand.Read(c.token[:6])
	s.do(func(ctx context.Context, o ops) (err error) {
		c.ids, err = o.claim(ctx, c.token, lease, limit, s.Lanes[0]...)
		return err
	})
	return c
}

func maxAttempts(n int) func(*workqueue.NewRow) {
	return func(row *workqueue.NewRow) { row.MaxAttempts = n }
}

// sql replaces $T with the table's name.
func (s *suite) sql(query string) string {
	return strings.ReplaceAll(query, "$T", s.table.Name())
}

// exec runs SQL without the library.
func (s *suite) exec(query string, args ...any) {
	s.Helper()
	_, err := s.eyes.Exec(s.Context(), s.sql(query), args...)
	s.ok(err)
}

// set changes columns of rows without the library.
func (s *suite) set(assignments string, ids ...uuid.UUID) {
	s.Helper()
	s.exec("UPDATE $T SET "+assignments+" WHERE id = ANY ($1)", ids)
}

// expire ends the lease of rows.
func (s *suite) expire(ids ...uuid.UUID) {
	s.Helper()
	s.set("locked_until = clock_timestamp() - interval '1 microsecond'", ids...)
}

// query returns the ids that a statement selects.
func (s *suite) query(query string, args ...any) []uuid.UUID {
	s.Helper()
	rows, err := s.eyes.Query(s.Context(), s.sql(query), args...)
	s.ok(err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	s.ok(err)
	return ids
}

// scan reads one value.
func scan[T any](s *suite, query string, args ...any) T {
	s.Helper()
	var v T
	s.ok(s.eyes.QueryRow(s.Context(), s.sql(query), args...).Scan(&v))
	return v
}

// locked runs fn while another transaction holds the rows locked.
func (s *suite) locked(ids []uuid.UUID, fn func()) {
	s.Helper()
	s.ok(pgx.BeginFunc(s.Context(), s.eyes, func(tx pgx.Tx) error {
		if _, err := tx.Exec(s.Context(), s.sql("SELECT 1 FROM $T WHERE id = ANY ($1) FOR UPDATE"), ids); err != nil {
			return err
		}
		fn()
		return nil
	}))
}

// together runs fn n times concurrently.
func (s *suite) together(n int, fn func(i int) error) {
	s.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = fn(i) })
	}
	wg.Wait()
	s.ok(errors.Join(errs...))
}

func (s *suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) sameIDs(got, want []uuid.UUID) {
	s.Helper()
	if !slices.Equal(sorted(got), sorted(want)) {
		s.Fatalf("got the rows %v, want %v", got, want)
	}
}

func sorted(ids []uuid.UUID) []uuid.UUID {
	return slices.SortedFunc(slices.Values(ids), func(a, b uuid.UUID) int {
		return cmp.Compare(a.String(), b.String())
	})
}

func equal[T comparable](s *suite, what string, got, want T) {
	s.Helper()
	if got != want {
		s.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// refused checks what a call reports about rows that it could not change.
func (s *suite) refused(err error, lost, gone []uuid.UUID) {
	s.Helper()
	if len(lost)+len(gone) == 0 {
		s.ok(err)
		return
	}
	var e *workqueue.SettleError
	if !errors.As(err, &e) {
		s.Fatalf("got the error %v, want a SettleError", err)
	}
	s.sameIDs(e.Lost, lost)
	s.sameIDs(e.Gone, gone)
	equal(s, "errors.Is(err, ErrLeaseLost)", errors.Is(err, workqueue.ErrLeaseLost), len(lost) > 0)
	equal(s, "errors.Is(err, ErrGone)", errors.Is(err, workqueue.ErrGone), len(gone) > 0)
	equal(s, "table of the error", e.Table, s.table.Name())
}

// contents returns the whole table as text, to check that nothing was written.
func (s *suite) contents() string {
	s.Helper()
	return scan[string](s, "SELECT coalesce(string_agg(t::text, chr(10) ORDER BY id), 'empty') FROM $T AS t")
}
