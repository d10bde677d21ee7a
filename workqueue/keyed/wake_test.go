package keyed_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// A record counts what a table logs.
type record struct {
	slog.Handler
	mu    sync.Mutex
	vain  int // claims that found no row
	awake int // how often an announcer woke up
}

func (r *record) Enabled(context.Context, slog.Level) bool { return true }
func (r *record) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *record) WithGroup(string) slog.Handler            { return r }
func (r *record) Handle(_ context.Context, l slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.Message == "announcer awake" {
		r.awake++
	}
	l.Attrs(func(a slog.Attr) bool {
		if l.Message == "claim" && a.Key == "changed" && a.Value.Int64() == 0 {
			r.vain++
		}
		return true
	})
	return nil
}

// drained processes rows of ordered keys with one worker, and returns what it logged and how long it took.
func drained(t *testing.T, rows, keys int) (*record, time.Duration) {
	t.Helper()
	r := newRig(t)
	log := new(record)
	var err error
	r.table, err = workqueue.Open(spec(strings.TrimSuffix(r.table.Name(), ".work")),
		workqueue.Telemetry{Logger: slog.New(log)})
	r.ok(err)
	batch := make([]workqueue.NewRow, rows)
	for i := range batch {
		batch[i] = row(i, keyed.Ordered{Key: string(rune('a' + i%keys))})
	}
	r.insert(batch...)
	var done atomic.Int64
	start := time.Now()
	r.work(workqueue.WorkerOptions{PollInterval: time.Hour}, func(context.Context, *workqueue.Claim[body]) error {
		done.Add(1)
		return nil
	})
	r.eventually("all rows", func() bool { return done.Load() == int64(rows) })
	log.mu.Lock()
	defer log.mu.Unlock()
	return &record{vain: log.vain, awake: log.awake}, time.Since(start)
}

// Each row of a key is released by a separate fold. The worker learns of the row from its own fold, and again from the
// notification for other workers, but it claims only once.
func TestAFoldWakesAWorkerOnce(t *testing.T) {
	t.Parallel()
	const rows = 200
	log, took := drained(t, rows, 1)
	others := int(took/(100*time.Millisecond)) + 10 // claims that look for rows which cursors may have passed
	if log.vain > rows/4+others {
		t.Errorf("%d claims in vain for %d rows, want next to none", log.vain, rows)
	}
}

// Folds notify often, and from several sessions. That does not mean that producers are busy and that an announcer could
// save them notifications.
func TestFoldsWakeNoAnnouncer(t *testing.T) {
	t.Parallel()
	if log, _ := drained(t, 2000, 25); log.awake > 0 {
		t.Errorf("an announcer woke up %d times while nobody wrote", log.awake)
	}
}
