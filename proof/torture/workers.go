//go:build unix

package torture

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

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

// runWorkers serves all four domains, their schedules and the log, until ctx is cancelled.
func runWorkers(ctx context.Context, s setup, pool *pgxpool.Pool, j *journal, p *pointSet, log *slog.Logger) error {
	h := &handlers{setup: s, pool: pool, journal: j, points: p}
	h.unasked.Store(int64(len(auditedTables(s.Schema))))
	registry := jobs.NewRegistry()
	jobs.Register(registry, h.job, jobs.KindOptions[Task]{})
	d, err := openDomains(s.Schema, registry, workqueue.Telemetry{Logger: log, Observer: h.observe})
	if err != nil {
		return err
	}
	o, err := s.workerOptions(p)
	if err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	for range s.times() {
		parts, err := h.parts(pool, d, registry, o)
		if err != nil {
			return err
		}
		readers, err := h.readers(pool, o, log)
		if err != nil {
			return err
		}
		for _, run := range slices.Concat(parts, readers) {
			all.Go(func() error { return run(ctx) })
		}
	}
	return all.Wait()
}

// parts returns workers of all domains, each with its own runtime.
func (h *handlers) parts(pool *pgxpool.Pool, d *domains, registry *jobs.Registry,
	o workqueue.WorkerOptions) ([]func(context.Context) error, error) {
	relay, err := outbox.NewRelay(pool, d.outbox, outbox.RelayOptions{WorkerOptions: o})
	if err != nil {
		return nil, err
	}
	relay.HandleAll(h.message)
	if h.setup.Batches {
		relay.HandleBatch(topic, workqueue.BatchOptions{Limit: handlersEach}, h.messages)
	}
	consume, err := inbox.NewWorker(pool, d.inbox, inbox.WorkerOptions{Consumer: consumer, WorkerOptions: o})
	if err != nil {
		return nil, err
	}
	consume.HandleAll(h.received)
	fire, err := timers.NewWorker(pool, d.timers, timers.WorkerOptions{WorkerOptions: o})
	if err != nil {
		return nil, err
	}
	fire.HandleAll(h.timer)
	work, err := jobs.NewWorker(pool, d.jobs, jobs.WorkerOptions{Registry: registry, WorkerOptions: o})
	if err != nil {
		return nil, err
	}
	return []func(context.Context) error{relay.Run, consume.Run, fire.Run, work.Run}, nil
}

func (s setup) times() int {
	if s.Twice {
		return 2
	}
	return 1
}

func (s setup) poll() time.Duration { return cmp.Or(s.Poll, DefaultPoll) }

// listenConfig connects those who listen.
func (s setup) listenConfig() (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(cmp.Or(s.ListenURL, s.URL))
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["application_name"] = s.App
	if s.ListenURL == "" {
		maps.Copy(config.RuntimeParams, s.Parameters)
	}
	return config, nil
}

// workerOptions makes listeners and announcers reach the points of [stepping], however they connect.
func (s setup) workerOptions(p *pointSet) (workqueue.WorkerOptions, error) {
	o := workqueue.WorkerOptions{
		Lease: lease, Concurrency: handlersEach, PollInterval: s.poll(),
		ShutdownTimeout: shutdownLimit, NoListen: s.NoListen,
	}
	config, err := s.listenConfig()
	if err != nil {
		return o, err
	}
	config.AfterNetConnect = p.step
	o.ListenConfig = config
	return o, nil
}

// observe records how many rows each claim received, reaches two of the points, and says when all tables are served.
func (h *handlers) observe(_ context.Context, e workqueue.Event) {
	switch {
	case e.Operation == "claim":
		if e.Err != nil || e.Changed > 0 { // a failed claim may have committed
			h.fetched(strings.TrimPrefix(e.Table, h.setup.Schema+"."), e.Requested, e.Changed)
		}
		if e.Err == nil {
			h.served(e.Table)
		}
	case e.Err == nil && e.Changed > 0 && (e.Operation == "settle" || e.Operation == "ack"):
		h.points.reach(pointSettled)
	}
}

// audits tells whether a table is one of those whose claims are recorded.
func (h *handlers) audits(table string) bool {
	return slices.ContainsFunc(auditedTables(h.setup.Schema), func(a audited) bool { return a.Table == table })
}

func (h *handlers) fetched(table string, asked, got int) {
	if !h.audits(table) {
		return
	}
	h.journal.append(line{What: lineClaim, Table: table, App: h.setup.App, Limit: asked, Changed: got})
	if got > 0 {
		h.points.reach(pointClaimed)
	}
}

func (h *handlers) served(table string) {
	if !h.audits(strings.TrimPrefix(table, h.setup.Schema+".")) {
		return
	}
	if _, before := h.asked.LoadOrStore(table, true); !before && h.unasked.Add(-1) == 0 {
		h.points.say(report{What: isServing})
	}
}

func (h *handlers) message(ctx context.Context, m *outbox.Delivery) error {
	return told(h.handle(ctx, delivery{"outbox", m.ID.String(), m.Attempt, m.DueAt, decode(m.Payload), m.Tx}))
}

// messages handles a batch one by one. Behind one that fails it leaves out the rest of its key, which goes back. A
// batch that panics would be handled again, in halves.
func (h *handlers) messages(ctx context.Context, batch []*outbox.Delivery) ([]error, error) {
	results, failed := make([]error, len(batch)), map[string]bool{}
	for i, m := range batch {
		if !failed[m.Key] {
			results[i] = h.alone(ctx, m)
			failed[m.Key] = m.Key != "" && results[i] != nil
		} else {
			results[i] = errBehind
		}
	}
	return results, nil
}

var errBehind = errors.New("behind one that failed")

func (h *handlers) alone(ctx context.Context, m *outbox.Delivery) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return h.message(ctx, m)
}

func (h *handlers) received(ctx context.Context, tx pgx.Tx, m *inbox.Delivery) error {
	given := func(_ context.Context, fn func(pgx.Tx) error) error { return fn(tx) }
	return told(h.handle(ctx, delivery{"inbox", m.MessageID, m.Attempt, m.DueAt, decode(m.Payload), given}))
}

func (h *handlers) timer(ctx context.Context, d *timers.Delivery) error {
	return told(h.handle(ctx, delivery{"timers", d.Key, d.Attempt, d.DueAt, decode(d.Payload), d.Tx}))
}

func (h *handlers) job(ctx context.Context, j *jobs.Job[Task]) error {
	return told(h.handle(ctx, delivery{"jobs", j.ID.String(), j.Attempt, j.DueAt, j.Args, j.Tx}))
}

// told tells the library what the handler wants.
func told(err error) error {
	if s, ok := errors.AsType[snoozed](err); ok {
		return workqueue.Snooze(time.Duration(s))
	}
	if p, ok := errors.AsType[permanently](err); ok {
		return workqueue.Permanent(p.error)
	}
	if u, ok := errors.AsType[unreachable](err); ok {
		return workqueue.Unavailable(u.error)
	}
	return err
}

// decode reads what a producer wrote. Rows of schedules have no task and are handled as plain.
func decode(payload []byte) (t Task) {
	if json.Unmarshal(payload, &t) != nil {
		t.Mode = modePlain
	}
	return t
}
