//go:build unix

package torture

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// handlersEach is how many handlers of a domain a process runs at once.
const handlersEach = 8

// runWorkers serves all four domains, and their schedules, until ctx is cancelled.
func runWorkers(ctx context.Context, s setup, pool *pgxpool.Pool, j *journal, p *pointSet) error {
	h := &handlers{setup: s, pool: pool, journal: j, points: p}
	registry := jobs.NewRegistry()
	jobs.Register(registry, h.job)
	d, err := openDomains(s.Schema, registry, workqueue.Telemetry{Logger: quiet().Logger, Observer: h.observe})
	if err != nil {
		return err
	}
	o, err := s.workerOptions()
	if err != nil {
		return err
	}
	relay := outbox.NewRelay(pool, d.outbox, outbox.RelayOptions{WorkerOptions: o})
	relay.HandleAll(h.message)
	consume := inbox.NewWorker(pool, d.inbox, inbox.WorkerOptions{Consumer: consumer, WorkerOptions: o})
	consume.HandleAll(h.received)
	fire := timers.NewWorker(pool, d.timers, timers.WorkerOptions{WorkerOptions: o})
	fire.HandleAll(h.timer)
	work, err := jobs.NewWorker(pool, d.jobs, registry, jobs.WorkerOptions{WorkerOptions: o})
	if err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{relay.Run, consume.Run, fire.Run, work.Run} {
		all.Go(func() error { return run(ctx) })
	}
	return all.Wait()
}

func (s setup) workerOptions() (workqueue.WorkerOptions, error) {
	o := workqueue.WorkerOptions{
		Lease: lease, Concurrency: handlersEach, PollInterval: retryCap, ShutdownTimeout: shutdownLimit, NoListen: s.NoListen,
	}
	if s.ListenURL == "" {
		return o, nil
	}
	config, err := pgx.ParseConfig(s.ListenURL)
	o.ListenConfig = config
	return o, err
}

// observe notes what claims were given, and comes by two of the points.
func (h *handlers) observe(_ context.Context, e workqueue.Event) {
	if e.Operation == "claim" && (e.Err != nil || e.Changed > 0) { // one that failed may have committed
		table := strings.TrimPrefix(e.Table, h.setup.Schema+".")
		h.journal.append(line{What: lineClaim, Table: table, App: h.setup.App, Limit: e.Requested, Changed: e.Changed})
	}
	if e.Err != nil || e.Changed == 0 {
		return
	}
	switch e.Operation {
	case "claim":
		h.points.reach(pointClaimed)
	case "settle", "ack":
		h.points.reach(pointSettled)
	}
}

func (h *handlers) message(ctx context.Context, m *outbox.Delivery) error {
	return h.handle(ctx, delivery{"outbox", m.ID.String(), m.Attempt, decode(m.Payload), m.Tx})
}

func (h *handlers) received(ctx context.Context, tx pgx.Tx, m *inbox.Delivery) error {
	given := func(_ context.Context, fn func(pgx.Tx) error) error { return fn(tx) }
	return h.handle(ctx, delivery{"inbox", m.MessageID, m.Attempt, decode(m.Payload), given})
}

func (h *handlers) timer(ctx context.Context, d *timers.Delivery) error {
	return h.handle(ctx, delivery{"timers", d.Key, d.Attempt, decode(d.Payload), d.Tx})
}

func (h *handlers) job(ctx context.Context, j *jobs.Job[Task]) error {
	return h.handle(ctx, delivery{"jobs", j.ID.String(), j.Attempt, j.Args, j.Tx})
}

// decode reads what a producer wrote. What schedules write has no task and is done as plain.
func decode(payload []byte) (t Task) {
	if json.Unmarshal(payload, &t) != nil {
		t.Mode = modePlain
	}
	return t
}
