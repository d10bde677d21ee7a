package workqueue_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/txwork/txwork/workqueue"
)

// A worker keeps no payload of a row that is settled, nor of one whose settle has to wait. This holds while the worker
// is idle and when it has ended.
func TestWorkerKeepsNoPayloads(t *testing.T) {
	t.Parallel()
	for name, onSettle := range map[string]string{
		"settled at once": "",
		"bisected":        "IF nextval('refusals') = 1 THEN RAISE EXCEPTION 'no'; END IF;",
		"waiting":         "RAISE EXCEPTION 'no' USING ERRCODE = 'lock_not_available';",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			r.exec("CREATE SEQUENCE refusals")
			r.onSettle(onSettle)
			const n = 200
			var mu sync.Mutex
			var claims []weak.Pointer[noteClaim]
			together := r.holds(n)
			w := r.start(workqueue.WorkerOptions{Lease: time.Hour, Concurrency: n,
				ClaimLimit: n}, func(ctx context.Context, c *noteClaim) error {
				mu.Lock()
				claims = append(claims, weak.Make(c))
				mu.Unlock()
				return together(ctx, c)
			})
			r.insertMany("a", n)
			r.eventually("every row has run", func() bool { mu.Lock(); defer mu.Unlock(); return len(claims) == n })
			kept := func() (kept int) {
				runtime.GC()
				for _, c := range claims {
					if c.Value() != nil {
						kept++
					}
				}
				return kept
			}
			r.eventually("an idle worker to keep no payload", func() bool { return kept() == 0 })
			r.onSettle("")
			r.eventually("every row is done", func() bool { return r.count("status = 2") == n })
			if err := w.stop(t); err != nil {
				t.Error(err)
			}
			runtime.KeepAlive(w.Worker)
		})
	}
}
