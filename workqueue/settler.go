package workqueue

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// settlerCount is how many settle at once: while one waits for its commit to reach the disk, the
	// other collects and sends.
	settlerCount = 2
	// settleBatch bounds the rows of one settle.
	settleBatch = 1000
	// settleQueue bounds the outcomes that wait; handlers that are faster wait for the database.
	settleQueue = 4 * settleBatch
)

// A settler settles the outcomes of handlers in batches: many claims, one transaction.
type settler struct {
	worker  *Worker
	linger  time.Duration
	queue   *Queue // whose statements wait for no locked row for long
	pending chan pendingSettle
	apart   apart
	quit    chan struct{}
	ctx     context.Context
	cancel  context.CancelFunc
}

type pendingSettle struct {
	delivery *delivery
	settlement
}

func newSettler(w *Worker) *settler {
	return &settler{
		worker: w, linger: w.options.SettleLinger,
		queue:   &Queue{table: w.table, exec: poolExecutor{pool: w.system, lockTimeout: lockPatience}},
		pending: make(chan pendingSettle, settleQueue), quit: make(chan struct{}),
		apart: apart{closed: make(chan struct{})},
	}
}

func (s *settler) start(ctx context.Context, running *sync.WaitGroup) {
	s.ctx, s.cancel = context.WithCancel(ctx)
	var settlers sync.WaitGroup
	for range settlerCount {
		settlers.Go(s.run)
	}
	running.Go(func() { settlers.Wait(); close(s.apart.closed) })
	running.Go(s.runApart)
}

// limit ends all settling after the given time, so that a database which is away cannot keep a worker
// from stopping. The returned function lifts the limit.
func (s *settler) limit(d time.Duration) (lift func()) {
	timer := time.AfterFunc(d, s.cancel)
	return func() { timer.Stop(); s.cancel() }
}

// stop ends the settlers once nothing is pending.
func (s *settler) stop() { close(s.quit) }

// add never blocks for good: a handler that outlives the worker adds in vain, and its row is left to
// the lease.
func (s *settler) add(d *delivery, o *Outcome) {
	select {
	case s.pending <- pendingSettle{d, settlement{d.ref(), o, s.worker.stored(d.ctx, o)}}:
	case <-s.ctx.Done():
	}
}

func (s *settler) run() {
	batch := make([]pendingSettle, 0, settleBatch)
	for {
		first, ok := s.next()
		if !ok {
			return
		}
		batch = s.collect(append(batch[:0], first))
		s.flush(batch)
	}
}

// next waits for an outcome; after stop it takes what is left.
func (s *settler) next() (pendingSettle, bool) {
	select {
	case p := <-s.pending:
		return p, true
	case <-s.quit:
	}
	select {
	case p := <-s.pending:
		return p, true
	default:
		return pendingSettle{}, false
	}
}

// collect fills a batch with what is there, and lingers for company only if that is little.
func (s *settler) collect(batch []pendingSettle) []pendingSettle {
	batch = s.takeReady(batch)
	if s.linger <= 0 || len(batch) == settleBatch {
		return batch
	}
	time.Sleep(s.linger)
	return s.takeReady(batch)
}

func (s *settler) takeReady(batch []pendingSettle) []pendingSettle {
	for len(batch) < settleBatch {
		select {
		case p := <-s.pending:
			batch = append(batch, p)
		default:
			return batch
		}
	}
	return batch
}

// flush settles a batch, again and again until the database answers: the settle is guarded by its
// tokens, so to repeat one whose reply was lost changes nothing.
func (s *settler) flush(batch []pendingSettle) {
	pause := minErrorPause
	for {
		err := s.settle(batch)
		switch {
		case err == nil, errors.Is(err, ErrLeaseLost), errors.Is(err, ErrGone):
			s.done(batch)
			return
		case isRefused(err):
			s.isolate(batch, err)
			return
		case isLocked(err):
			s.setApart(batch)
			return
		}
		select {
		case <-s.ctx.Done():
			s.done(batch)
			return
		case <-time.After(pause):
			pause = min(pause*2, maxErrorPause)
		}
	}
}

func (s *settler) settle(batch []pendingSettle) error {
	settlements := make([]settlement, len(batch))
	for i, p := range batch {
		settlements[i] = p.settlement
	}
	return s.worker.within(s.ctx, s.worker.callLimit(), func(ctx context.Context) error {
		return s.worker.table.telemetry.transition(ctx, opSettle, len(batch), func(ctx context.Context) ([]uuid.UUID, error) {
			return s.queue.settle(ctx, settlements)
		})
	})
}

// isRefused reports an error that lies in the data and not in the database's state, so that repeating
// the statement cannot help.
func isRefused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && len(pg.Code) == 5 && slices.Contains(refusals, pg.Code[:2])
}

// refusals are the classes of such errors: data exceptions, violated constraints and view checks, and
// what a trigger of the application raises.
var refusals = []string{"22", "23", "44", "P0"}

// isolate keeps one row that the database refuses from failing the others of its batch: halves are
// settled apart, down to the row itself, which is left to its lease.
func (s *settler) isolate(batch []pendingSettle, err error) {
	if len(batch) > 1 {
		half := len(batch) / 2
		s.flush(batch[:half])
		s.flush(batch[half:])
		return
	}
	s.worker.table.telemetry.logger.LogAttrs(s.ctx, slog.LevelError, "settle refused by the database; the row is left to the reaper",
		slog.String("id", batch[0].id.String()), slog.Any("error", err))
	s.done(batch)
}

// done ends the worker's answering for the batch.
func (s *settler) done(batch []pendingSettle) {
	deliveries := make([]*delivery, len(batch))
	for i, p := range batch {
		deliveries[i] = p.delivery
		s.worker.noteSettled(p.outcome)
	}
	s.worker.held.remove(deliveries...)
}
