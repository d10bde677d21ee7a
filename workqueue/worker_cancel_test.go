package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// A cancel of a running row reaches its handler at once by notification, or else with the next renewal. The handler's
// result decides: an ack counts, and everything else ends the row.
func TestCancelOfARunningRow(t *testing.T) {
	t.Parallel()
	ways := map[string]workqueue.WorkerOptions{
		"notification": {Lease: time.Hour, PollInterval: time.Hour}, // a renewal would come too late
		"renewal":      {Lease: pgtest.Lease, NoListen: true},
	}
	stopped := errors.New("stopped half-way")
	results := map[string]struct {
		result func(context.Context, *noteClaim) error
		status workqueue.Status
	}{
		"ack":       {func(context.Context, *noteClaim) error { return nil }, workqueue.Done},
		"error":     {func(context.Context, *noteClaim) error { return stopped }, workqueue.Failed},
		"ctx error": {func(ctx context.Context, _ *noteClaim) error { return ctx.Err() }, workqueue.Failed},
		"retry":     {func(context.Context, *noteClaim) error { return workqueue.RetryNow(stopped) }, workqueue.Failed},
		"snooze":    {func(context.Context, *noteClaim) error { return workqueue.Snooze(0) }, workqueue.Failed},
		"permanent": {func(context.Context, *noteClaim) error { return workqueue.Permanent(stopped) },
			workqueue.Failed},
		"panic": {func(context.Context, *noteClaim) error { panic("stopped") }, workqueue.Failed},
		"ack in Tx": {func(_ context.Context, c *noteClaim) error {
			return c.Tx(context.Background(), func(pgx.Tx) error { return nil })
		}, workqueue.Done},
		"retry in Tx": {func(_ context.Context, c *noteClaim) error {
			return c.Tx(context.Background(), func(pgx.Tx) error { return workqueue.RetryNow(stopped) })
		}, workqueue.Failed},
	}
	for way, options := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			started := make(chan struct{}, len(results))
			options.Concurrency = len(results) + 1
			r.start(options, func(ctx context.Context, c *noteClaim) error {
				started <- struct{}{}
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, workqueue.ErrRowCancelled) {
					t.Errorf("%s: the context ended with %v", c.Body.Topic, cause)
				}
				return results[c.Body.Topic].result(ctx, c)
			})
			if !options.NoListen {
				r.awaitListener()
			}
			ids := map[string]uuid.UUID{}
			var all []uuid.UUID
			for name := range results {
				ids[name] = r.insert(name)[0]
				all = append(all, ids[name])
			}
			for range results {
				receive(t, started, "the handlers")
			}
			if changed, err := r.Queue.Cancel(t.Context(), all, "no longer wanted"); err != nil ||
				len(changed) != len(all) {
				t.Fatalf("cancelled %d, %v", len(changed), err)
			}
			for name, want := range results {
				r.awaitStatus(want.status, ids[name])
				row := r.row(ids[name])
				if !row.Cancelled || !row.Completed || row.Attempts != 1 {
					t.Errorf("%s: %+v", name, row)
				}
				if row.Status == workqueue.Failed && !strings.HasPrefix(row.Error, "cancelled: no longer wanted") {
					t.Errorf("%s: last error %q, want who asked to cancel it and why", name, row.Error)
				}
			}
		})
	}
}

// A cancel ends the handler of its own row and no other.
func TestCancelLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	started := make(chan context.Context, 2)
	release := make(chan struct{})
	for range 2 {
		r.start(workqueue.WorkerOptions{Concurrency: 1, Lease: time.Hour,
			PollInterval: 20 * time.Millisecond}, func(ctx context.Context, c *noteClaim) error {
			if c.Body.Topic == "cancelled" {
				<-ctx.Done()
				return ctx.Err()
			}
			started <- ctx
			<-release
			return nil
		})
	}
	kept := r.insert("kept")[0]
	ctx := receive(t, started, "the first handler")
	cancelled := r.insert("cancelled")[0]
	r.awaitStatus(workqueue.InProgress, cancelled)
	if _, err := r.Queue.Cancel(t.Context(), []uuid.UUID{cancelled}, "no"); err != nil {
		t.Fatal(err)
	}
	r.awaitStatus(workqueue.Failed, cancelled)
	if ctx.Err() != nil {
		t.Errorf("the other handler's context ended with %v", context.Cause(ctx))
	}
	close(release)
	r.awaitStatus(workqueue.Done, kept)
}

// Cancels race claims and acks: each row ends once, and none is left.
func TestCancelRacesEverything(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.start(workqueue.WorkerOptions{Concurrency: 10}, func(ctx context.Context, c *noteClaim) error {
		if c.ID[15]%3 != 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stopped: %w", context.Cause(ctx))
		case <-time.After(time.Duration(c.ID[14]) * 100 * time.Microsecond):
			return nil
		}
	})
	for range 10 {
		ids := r.insertMany("racing", 60)
		for i := 0; i < len(ids); i += 5 {
			if _, err := r.Queue.Cancel(t.Context(), ids[i:i+3], "no"); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.eventually("every row to end", func() bool { return r.count("completed_at IS NULL") == 0 })
	if n := r.count("status = 3 AND cancelled_at IS NULL OR attempts > 1"); n > 0 {
		t.Errorf("%d rows failed without being cancelled, or ran twice", n)
	}
}
