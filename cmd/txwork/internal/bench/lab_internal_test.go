package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestALabLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	l, err := openLab(ctx, Options{DatabaseURL: pgtest.URL(t)})
	if err != nil {
		t.Fatal(err)
	}
	exists := func() (exists bool) {
		t.Helper()
		err := db.Pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)",
			l.schema).Scan(&exists)
		if err != nil {
			t.Fatal(err)
		}
		return exists
	}
	if !strings.HasPrefix(l.schema, "txwork_bench_") || !exists() {
		t.Errorf("there is no schema %s", l.schema)
	}
	cancel() // Ctrl-C
	if err := l.close(ctx); err != nil {
		t.Error(err)
	}
	if exists() {
		t.Errorf("schema %s is left behind", l.schema)
	}
}

func TestTheMeterDoesNotCountItself(t *testing.T) {
	t.Parallel()
	l, err := openLab(t.Context(), Options{DatabaseURL: pgtest.URL(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close(t.Context())
	for range 3 {
		if err := l.meter.exec(t.Context(), "SELECT 1"); err != nil {
			t.Fatal(err)
		}
	}
	if l.meter.commits != 5 { // connecting for the first time, creating the schema, and the calls above
		t.Errorf("the meter has counted %d calls, want 5", l.meter.commits)
	}
}

func TestRunOfAnEndedContextIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result, err := Run(ctx, Options{DatabaseURL: pgtest.URL(t)}, Latency{Count: 1})
	if !errors.Is(err, ErrInterrupted) || result != nil {
		t.Errorf("got %v, %v", result, err)
	}
}

func TestTheClockIsTheDatabases(t *testing.T) {
	t.Parallel()
	l, err := openLab(t.Context(), Options{DatabaseURL: pgtest.URL(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close(t.Context())
	c, err := l.readClock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var before, now time.Time
	before = c.now().Add(-c.doubt)
	if err := l.meter.query(t.Context(), []any{&now}, "SELECT clock_timestamp()"); err != nil {
		t.Fatal(err)
	}
	if after := c.now().Add(c.doubt); now.Before(before) || now.After(after) {
		t.Errorf("the database says %v, the clock says between %v and %v", now, before, after)
	}
}
