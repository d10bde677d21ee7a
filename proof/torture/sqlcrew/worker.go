package sqlcrew

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/semaphore"
)

// A Worker serves the tables of a schema. All fields but Listen and InTransactions are required.
type Worker struct {
	Connect        *pgx.ConnConfig
	Listen         *pgx.ConnConfig // nil: it does not listen
	Schema         string
	Consumer       string
	Lease, Poll    time.Duration
	Grace          time.Duration // of handlers, when the worker stops
	Places         int           // handlers of a table
	InTransactions bool          // no claim or settle is a statement by itself
	Parked         string        // a subscription of the log, whose parked messages it runs

	// Fetched is called after each fetch that returned rows or an error, before their handlers. Asked is called after
	// each that returned no error, and Settled when rows were settled.
	Fetched func(table string, asked, got int)
	Asked   func(table string)
	Settled func()
	// Handle runs a row's handler.
	Handle func(context.Context, *Row) Outcome

	process  int64
	tables   []*table
	width    *semaphore.Weighted // narrow while a suspect runs
	pool     chan *session       // for transactions of handlers
	news     chan struct{}       // a cancel was heard
	deadline context.Context     // of settles
	giveUp   context.CancelFunc
}

// A table is what a worker knows of one.
type table struct {
	name, columns, lanes string
	folds                bool

	worker  *Worker
	free    chan struct{} // a token for each free place
	ended   chan *Row     // rows whose outcome is known
	kick    chan struct{} // something was heard
	settled chan struct{} // something was settled or noted, so there may be notes to fold

	mu    sync.Mutex
	heard []string
	sweep bool
	held  map[string]*Row // by id
}

// served are all tables, with the columns that name a row and are its payload.
func served(parked string) []*table {
	return []*table{
		{name: "outbox", columns: "id::text, payload", folds: true},
		{name: "inbox", columns: "message_id, payload", lanes: "consumer => $7::text, "},
		{name: "timers", columns: "key, payload"},
		{name: "jobs", columns: "id::text, args", lanes: "priority => '{1,2,3}', ", folds: true},
		{name: "outbox_log_parked", columns: "message_id::text, payload", lanes: "subscription => '{" + parked + "}', ",
			folds: true},
	}
}

const (
	errorPause  = 50 * time.Millisecond
	beatEvery   = 30 * time.Second
	mostHeard   = 1000
	settleBatch = 20
	handlerPool = 8
	refusals    = 3 // after which a row is left to its lease, such as for a deadlock
)

// Run works until ctx is cancelled, and then until the handlers have ended.
func (w *Worker) Run(ctx context.Context) {
	w.process = 1 + rand.Int64N(1<<48-1)
	w.tables, w.news = served(w.Parked), make(chan struct{}, 1)
	w.width = semaphore.NewWeighted(int64(w.Places * len(w.tables)))
	w.deadline, w.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	defer w.giveUp()
	w.pool = make(chan *session, handlerPool)
	for range handlerPool {
		w.pool <- &session{config: w.Connect}
	}
	for _, t := range w.tables {
		t.worker, t.held = w, map[string]*Row{}
		t.free, t.ended = make(chan struct{}, w.Places), make(chan *Row, w.Places)
		t.kick, t.settled = make(chan struct{}, 1), make(chan struct{}, 1)
		for range w.Places {
			t.free <- struct{}{}
		}
	}
	beside, over := context.WithCancel(w.deadline)
	var fetching, settling, others sync.WaitGroup
	for _, t := range w.tables {
		fetching.Go(func() { t.fetch(ctx) })
		settling.Go(t.settle)
		if t.folds {
			others.Go(func() { t.fold(ctx) })
		}
	}
	others.Go(func() { w.listen(ctx) })
	others.Go(func() { w.beat(ctx) })
	others.Go(func() { w.extend(beside) })
	<-ctx.Done()
	cancel := time.AfterFunc(w.Grace, w.cancelAll)
	end := time.AfterFunc(2*w.Grace, w.giveUp)
	fetching.Wait() // with all handlers
	for _, t := range w.tables {
		close(t.ended)
	}
	settling.Wait()
	over()
	others.Wait()
	cancel.Stop()
	end.Stop()
	for range handlerPool {
		s := <-w.pool
		s.close()
	}
}

func (w *Worker) cancelAll() {
	for _, t := range w.tables {
		t.mu.Lock()
		for _, r := range t.held {
			r.cancel()
		}
		t.mu.Unlock()
	}
}

func pause(ctx context.Context, d time.Duration, kick <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	case <-kick:
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
