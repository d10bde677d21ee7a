package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
)

// The call that runs the handler ends only after all others have answered, which shows that none of them waits for it.
func TestOfManyAtOnceOneRuns(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{2, 8} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			t.Parallel()
			f := newInbox(t)
			others := make(chan inbox.Result, processes)
			handler := func(ctx context.Context, tx pgx.Tx) error {
				for range processes - 1 {
					if got := receive(t, others); got.Answer != inbox.InProgress {
						t.Errorf("another one says %v", got.Answer)
					}
				}
				return effect("1")(ctx, tx)
			}
			var all sync.WaitGroup
			for range processes {
				pool := f.separatePool()
				all.Go(func() {
					result, err := f.box.Process(t.Context(), pool, key("1"), handler)
					if err != nil {
						t.Error(err)
					}
					if result.Answer != inbox.Processed {
						others <- result
					}
				})
			}
			all.Wait()
			if got := f.process(key("1")); got.Answer != inbox.Duplicate {
				t.Errorf("afterwards it says %v", got.Answer)
			}
			if n := f.effects("1"); n != 1 {
				t.Errorf("%d effects, want 1", n)
			}
		})
	}
}

func TestACrashFreesTheKey(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	_, err := f.box.Process(t.Context(), f.separatePool(), key("1"), func(ctx context.Context, tx pgx.Tx) error {
		if err := effect("1")(ctx, tx); err != nil {
			return err
		}
		f.crash(tx)
		return effect("1")(ctx, tx)
	})
	if err == nil {
		t.Fatal("no error")
	}
	f.expectFree("1")
}

// The handler does not notice that its connection is gone, so the COMMIT fails.
func TestACrashBeforeTheCommitFreesTheKey(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	_, err := f.box.Process(t.Context(), f.separatePool(), key("1"), func(ctx context.Context, tx pgx.Tx) error {
		err := effect("1")(ctx, tx)
		f.crash(tx)
		return err
	})
	if err == nil {
		t.Fatal("no error")
	}
	f.expectFree("1")
}

// crash terminates the server process of the transaction's connection.
func (f *fixture) crash(tx pgx.Tx) {
	f.Helper()
	pid := int(tx.Conn().PgConn().PID())
	f.exec("SELECT pg_terminate_backend($1)", pid)
	f.until("the backend has gone", func() bool {
		return f.count("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid) == 0
	})
}

func TestACancelledContextFreesTheKey(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := f.box.Process(ctx, f.Pool, key("1"), func(ctx context.Context, tx pgx.Tx) error {
		err := effect("1")(ctx, tx)
		cancel()
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	f.expectFree("1")
}
