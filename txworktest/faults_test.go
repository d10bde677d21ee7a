package txworktest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/txworktest"
	"github.com/txwork/txwork/workqueue"
)

// newShop makes an outbox, and a table shipped into which its handlers write: through Tx, or in a transaction of their
// own.
func newShop(t *testing.T, faults *txworktest.Faults) *fixture {
	t.Helper()
	f := newFixture(t, faults.Watch)
	f.Exec(t, "CREATE TABLE shipped (id uuid)")
	f.enqueue(outbox.Message{Topic: "ship"})
	return f
}

const ship = "INSERT INTO shipped VALUES ($1)"

// carelessly is a handler whose effect may happen twice.
func (f *fixture) carelessly(ctx context.Context, m *outbox.Delivery) error {
	_, err := f.Pool.Exec(ctx, ship, m.ID)
	return err
}

// carefully is a handler whose effect happens exactly once.
func (f *fixture) carefully(ctx context.Context, m *outbox.Delivery) error {
	return m.Tx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, ship, m.ID)
		return err
	})
}

func (f *fixture) shipped() int {
	f.Helper()
	var n int
	var err error
	for range 20 { // the pool may hold terminated connections
		if err = f.Pool.QueryRow(f.Context(), "SELECT count(*) FROM shipped").Scan(&n); err == nil {
			return n
		}
	}
	f.Fatal(err)
	return 0
}

func TestFaultsTellACarefulHandlerFromACarelessOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		plan     func(f *fixture, faults *txworktest.Faults)
		careless string // outcomes, and how often its effect was had
		careful  string
	}{
		{"an error after", func(_ *fixture, faults *txworktest.Faults) { faults.After(1, txworktest.Error(errBroken)) },
			"retried, done: 2", "done: 1"},
		{"an error before", func(_ *fixture, faults *txworktest.Faults) {
			faults.Before(1, txworktest.Error(errBroken))
		},
			"retried, done: 1", "retried, done: 1"},
		{"a panic after", func(_ *fixture, faults *txworktest.Faults) { faults.After(1, txworktest.Panic("boom")) },
			"retried, done: 2", "done: 1"},
		{"a panic before", func(_ *fixture, faults *txworktest.Faults) { faults.Before(1, txworktest.Panic("boom")) },
			"retried, done: 1", "retried, done: 1"},
		{"a lost lease before", func(f *fixture, faults *txworktest.Faults) {
			faults.Before(1, txworktest.LoseLease(f.Pool, f.box))
		},
			"lease lost, done: 2", "lease lost, done: 1"},
		{"a lost lease after", func(f *fixture, faults *txworktest.Faults) {
			faults.After(1, txworktest.LoseLease(f.Pool, f.box))
		},
			"lease lost, done: 2", "done: 1"},
		{"dead connections after", func(_ *fixture, faults *txworktest.Faults) { faults.After(1, faults.Kill) },
			"done: 1", "done: 1"}, // a settle is repeated
		{"a connection that dies at a statement", func(_ *fixture, faults *txworktest.Faults) {
			faults.KillAt(1, "INSERT INTO SHIPPED")
		},
			"retried, done: 1", "retried, done: 1"},
		{"a commit that never arrives", func(_ *fixture, faults *txworktest.Faults) {
			faults.Before(1, func(context.Context, uuid.UUID) error { faults.KillAt(1, "commit"); return nil })
		}, "", "retried, done: 1"},
	} {
		for _, way := range []struct {
			name, want string
			handler    func(*fixture) handler
		}{
			{"carelessly", c.careless, func(f *fixture) handler { return f.carelessly }},
			{"carefully", c.careful, func(f *fixture) handler { return f.carefully }},
		} {
			if way.want == "" {
				continue
			}
			t.Run(c.name+" "+way.name, func(t *testing.T) {
				t.Parallel()
				faults := txworktest.NewFaults(t)
				f := newShop(t, faults)
				c.plan(f, faults)
				handled := txworktest.DrainAll(t, f.Pool, f.relay(txworktest.Inject(faults, way.handler(f))))
				if got := fmt.Sprintf("%s: %d", outcomes(handled), f.shipped()); got != way.want {
					t.Errorf("got %s, want %s\n%v", got, way.want, handled)
				}
			})
		}
	}
}

func TestLostLeasesInATransaction(t *testing.T) {
	t.Parallel()
	faults := txworktest.NewFaults(t)
	f := newFixture(t)
	tx := f.Begin(t)
	f.enqueueIn(tx, outbox.Message{Topic: "a"})
	faults.After(1, txworktest.LoseLease(tx, f.box))
	wantOutcomes(t, txworktest.DrainAll(t, tx, f.relay(txworktest.Inject(faults, deliver))), "lease lost, done")
	if faults.Calls() != 2 {
		t.Errorf("%d calls", faults.Calls())
	}
}

func TestFaultsAtTheNthCall(t *testing.T) {
	t.Parallel()
	faults := txworktest.NewFaults(t)
	f := newFixture(t)
	f.enqueue(slices.Repeat([]outbox.Message{{Topic: "a"}}, 3)...)
	faults.Before(2, txworktest.Error(workqueue.Permanent(errBroken)))
	faults.After(3, func(_ context.Context, row uuid.UUID) error { return fmt.Errorf("of row %v", row) })
	handled := txworktest.Drain(t, f.Pool, f.relay(txworktest.Inject(faults, deliver)))
	wantOutcomes(t, handled, "done, failed, retried")
	if !strings.Contains(handled[2].Error, "of row "+handled[2].ID.String()) {
		t.Error(handled[2])
	}
}

// A fault that is not reached fails the test, because the test has then shown nothing.
func TestFaultsThatAreNotReachedFailTheTest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.enqueue(outbox.Message{Topic: "a"})
	fails(t, func(t testing.TB) {
		faults := txworktest.NewFaults(t)
		faults.After(2, txworktest.Panic("never"))
		faults.KillAt(1, "no such statement")
		txworktest.Drain(t, f.Pool, f.relay(txworktest.Inject(faults, deliver)))
	}, "the fault after call 2 was not reached: there were 1", `the fault at "no such statement" was not reached`)
}

func TestFaultsThatCannotBe(t *testing.T) {
	t.Parallel()
	faults := txworktest.NewFaults(&recorder{TB: t}) // its faults are not reached
	for name, plan := range map[string]func(){
		"call 0":      func() { faults.Before(0, txworktest.Panic("")) },
		"no fault":    func() { faults.After(1, nil) },
		"two at once": func() { faults.After(2, txworktest.Error(nil)); faults.After(2, txworktest.Error(nil)) },
		"statement 0": func() { faults.KillAt(0, "commit") },
		"no text":     func() { faults.KillAt(1, "") },
		"no delivery": func() {
			_ = txworktest.Inject(faults, func(context.Context,
				int) error {
				return nil
			})(t.Context(), 1)
		},
		"another's ID": func() {
			_ = txworktest.Inject(faults, func(context.Context, struct{ ID int }) error { return nil })(t.Context(),
				struct{ ID int }{})
		},
		"a nil delivery": func() {
			_ = txworktest.Inject(faults, func(context.Context, *outbox.Delivery) error { return nil })(t.Context(),
				nil)
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			plan()
		}()
	}
	if err := faults.Kill(t.Context(), uuid.Nil); err == nil || !strings.Contains(err.Error(), "no pool is watched") {
		t.Error(err)
	}
}

func TestInjectWrapsWhatHasAnID(t *testing.T) {
	t.Parallel()
	faults := txworktest.NewFaults(t)
	id := uuid.New()
	type job struct{ *outbox.Delivery }
	seen := func(_ context.Context, row uuid.UUID) error {
		if row != id {
			t.Errorf("row %v, want %v", row, id)
		}
		return nil
	}
	for n := range 3 {
		faults.Before(n+1, seen)
	}
	claim := &workqueue.Claim[note]{Row: workqueue.Row{ID: id}}
	err := errors.Join(
		txworktest.Inject(faults, func(context.Context, *job) error { return nil })(t.Context(),
			&job{&outbox.Delivery{ID: id}}),
		txworktest.Inject(faults, ack)(t.Context(), claim),
		txworktest.InjectIn(faults, func(_ context.Context, tx string,
			_ *outbox.Delivery) error {
			return errors.New(tx)
		})(t.Context(), "tx", &outbox.Delivery{ID: id}),
	)
	if err == nil || err.Error() != "tx" {
		t.Error(err)
	}
}

// Kill terminates only watched connections, so that tests on the same server do not disturb each other.
func TestKillLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	faults := txworktest.NewFaults(t)
	f := newShop(t, faults)
	other := newFixture(t)
	tx := other.Begin(t)
	mine := f.Begin(t)
	if err := faults.Kill(t.Context(), uuid.Nil); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Error(err)
	}
	if _, err := mine.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("a watched connection is alive")
	}
}

func TestWatchKeepsTheTracer(t *testing.T) {
	t.Parallel()
	faults := txworktest.NewFaults(t)
	counter := &statements{}
	f := newFixture(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = counter; faults.Watch(c) })
	faults.KillAt(1, "select 'here'")
	if _, err := f.Pool.Exec(t.Context(), "SELECT 'HERE'"); err == nil || counter.n == 0 {
		t.Errorf("%v after %d statements", err, counter.n)
	}
}

type statements struct{ n int }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n++
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
