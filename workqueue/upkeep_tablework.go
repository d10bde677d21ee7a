package workqueue

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txwork/txwork/internal/history"
	"github.com/txwork/txwork/workqueue/internal/fault"
)

// A tableWork is what the workers of a runtime share on one table: its sweeps, its folds, its notifications, and its
// outages.
type tableWork struct {
	system *system
	table  *Table
	queue  *Queue // for the folds
	swept  *Queue
	outage fault.Outage
	folder *folder // nil where the table has no folds

	announcer *announcer

	counts history.Counts // for the table history

	leads   atomic.Bool   // this process sweeps the table, see upkeep_elect.go
	follows atomic.Bool   // another process sweeps it
	elected chan struct{} // signals that this process leads from now on

	mu       sync.Mutex
	interval time.Duration // the shortest PollInterval of its workers
	timeout  time.Duration // the shortest callTimeout
	users    int
	serves   []*Worker // those that claim, or are about to
	intake   []*Worker // of those, the ones that claim
	hearing  []*Worker // of those, the ones that listen
	stopFold func()
	stops    []func() // end the sweeps and the beats
	sleep    func()   // ends the announcer; nil: none of its workers has listened

	refused atomic.Bool // its folds or sweeps were refused, and that was logged

	unfitUntil time.Time // until then another process may sweep: the sweeps have failed here

	looking   bool // see wake_notified.go
	lookAgain bool // a notification has come since the last look began
	looks     sync.WaitGroup
}

// joinTable adds a worker to the work on its table. Every join must be followed by a leave.
func (s *system) joinTable(w *Worker) *tableWork {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[w.table.Name()]
	if t == nil {
		t = &tableWork{
			system: s, table: w.table, queue: s.queue(w.table, TxLimits{}), swept: s.queue(w.table, batchLimits),
			interval: w.options.PollInterval, timeout: w.callTimeout(), elected: make(chan struct{}, 1),
			counts: history.Counts{Table: w.table.spec.Table},
		}
		homeOf(s.runtime.pool, w.table).count(&t.counts)
		t.outage.LogTo(&s.runtime.outages)
		t.announcer = newAnnouncer(w.table, s.connectListener)
		s.tables[w.table.Name()] = t
		if len(w.table.spec.Folds) > 0 {
			t.folder = newFolder(t)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.interval, t.timeout = min(t.interval, w.options.PollInterval), min(t.timeout, w.callTimeout())
	t.users++
	return t
}

// serve adds a worker that is ready to claim, except that it has not seen its table yet.
func (t *tableWork) serve(w *Worker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.serves = append(slices.Clone(t.serves), w)
}

// leave removes a worker. After the table's last worker it ends the announcer and the folds, once these have applied
// what the last settles have noted.
func (t *tableWork) leave(w *Worker) {
	t.system.mu.Lock()
	t.mu.Lock()
	t.users--
	t.serves = slices.DeleteFunc(slices.Clone(t.serves), func(o *Worker) bool { return o == w })
	stops := []func(){t.stopFold, t.sleep, t.looks.Wait}
	if t.users > 0 {
		stops = nil
	} else {
		delete(t.system.tables, t.table.Name())
	}
	t.mu.Unlock()
	t.system.mu.Unlock()
	for _, stop := range stops {
		if stop != nil {
			stop()
		}
	}
	if stops != nil {
		homeOf(t.system.runtime.pool, t.table).countNoMore(&t.counts, t.teller())
		t.outage.End()
	}
}

// beginIntake starts the table's beats, sweeps and folds for a worker that claims, and passes notifications on to the
// worker.
func (t *tableWork) beginIntake(w *Worker) {
	t.mu.Lock()
	t.intake = append(t.intake, w)
	if len(t.intake) == 1 {
		t.stops = []func(){inBackground(t.beat)}
		if len(t.table.spec.Sweeps) > 0 {
			t.stops = append(t.stops, inBackground(t.runSweeps))
		}
	}
	if t.stopFold == nil && t.folder != nil {
		t.stopFold = inBackground(t.folder.run)
	}
	listens := !w.options.NoListen
	if listens {
		t.hearing = append(t.hearing, w)
	}
	first := listens && len(t.hearing) == 1
	if first && t.sleep == nil {
		t.sleep = inBackground(t.announcer.run)
	}
	t.mu.Unlock()
	switch {
	case first:
		t.system.listener.add(t)
	case listens:
		t.missedBy(w)
	}
}

// endIntake undoes beginIntake. It returns when no notification reaches the worker any more.
func (t *tableWork) endIntake(w *Worker) {
	is := func(o *Worker) bool { return o == w }
	t.mu.Lock()
	listened := len(t.hearing) > 0
	t.intake, t.hearing = slices.DeleteFunc(slices.Clone(t.intake), is), slices.DeleteFunc(slices.Clone(t.hearing), is)
	last := listened && len(t.hearing) == 0
	var stops []func()
	if len(t.intake) == 0 {
		stops, t.stops = t.stops, nil
	}
	t.mu.Unlock()
	if last {
		t.system.listener.remove(t)
	}
	for _, stop := range stops {
		stop()
	}
}

// inBackground runs a function until stop is called, which cancels its context and waits for it.
func inBackground(run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); run(ctx) }()
	return func() { cancel(); <-done }
}

func (t *tableWork) serving() []*Worker {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.serves
}

func (t *tableWork) claiming() []*Worker {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.intake
}

func (t *tableWork) listening() []*Worker {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hearing
}

func (t *tableWork) pollInterval() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.interval
}

// foldInterval is how long a process may go without folding if it is not asked to fold. The process that sweeps folds
// at every poll interval, on behalf of the others.
func (t *tableWork) foldInterval() time.Duration {
	if t.follows.Load() {
		return max(t.pollInterval(), sweepEmptyEvery)
	}
	return t.pollInterval()
}

// within runs one of the table's own statements.
func (t *tableWork) within(ctx context.Context, statement func(context.Context) error) error {
	t.mu.Lock()
	timeout := t.timeout
	t.mu.Unlock()
	return within(ctx, timeout, t.system, t.table.telemetry.Logger(), &t.outage, statement)
}

// logError logs an error unless it is an outage: those are logged when they begin and when they end.
func logError(logger *slog.Logger, err error) {
	if fault.IsOutage(err) {
		return
	}
	logger.LogAttrs(context.Background(), slog.LevelError, "a statement of the worker failed and will be repeated",
		slog.Any("error", err))
}
