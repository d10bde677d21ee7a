package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/cmd/txwork/internal/workerfile"
	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// parts returns the workers of all sections of the file.
func (w *workerRun) parts() (parts []service.Part, err error) {
	sections := []func() ([]service.Part, error){w.outbox, w.inbox, w.timers, w.jobs}
	for _, section := range sections {
		more, err := section()
		if err != nil {
			return nil, err
		}
		parts = append(parts, more...)
	}
	return parts, nil
}

func (w *workerRun) options(s workerfile.Serving, handlers workerfile.Handlers) workqueue.WorkerOptions {
	return workqueue.WorkerOptions{Concurrency: concurrency(s), Lease: s.Lease, ShutdownTimeout: w.file.Shutdown,
		RunsWithin: cmp.Or(s.RunsWithin, handlers.RunsWithin())}
}

func (w *workerRun) outbox() (parts []service.Part, err error) {
	f := w.file.Outbox
	if f == nil {
		return nil, nil
	}
	f.Options.Schema, f.Options.Telemetry = w.db.Schema, w.telemetry()
	box, err := outbox.Open(f.Options)
	if err != nil {
		return nil, err
	}
	consumers := f.Subscriptions
	if len(consumers) == 0 {
		consumers = map[string]*workerfile.Consumer{"": &f.Consumer}
	}
	for _, subscription := range slices.Sorted(maps.Keys(consumers)) {
		relay, err := w.relay(box, subscription, consumers[subscription])
		if err != nil {
			return nil, err
		}
		parts = append(parts, relay)
	}
	return parts, nil
}

// relay delivers the messages of an outbox of rows, or of a subscription of a log.
func (w *workerRun) relay(box *outbox.Outbox, subscription string, c *workerfile.Consumer) (*outbox.Relay, error) {
	relay, err := outbox.NewRelay(w.db.Pool, box, outbox.RelayOptions{Subscription: subscription,
		WorkerOptions: w.relayOptions(subscription, c)})
	if err != nil {
		return nil, err
	}
	register(c.Topics, relay.Handle, relay.HandleAll, func(h *workerfile.Handler) outbox.Handler {
		do := w.handler(h)
		return func(ctx context.Context, m *outbox.Delivery) error {
			t := messageTask(m)
			t.also = domainEnv("outbox", m.MaxAttempts)
			if subscription != "" {
				t.also = append(t.also, variable("TXWORK_SUBSCRIPTION", subscription))
			}
			return do(ctx, t)
		}
	})
	return relay, nil
}

// relayOptions are those of a relay. The relay of a log takes a handler for hung that takes longer than its
// timeout, so that is longer than those of commands and requests.
func (w *workerRun) relayOptions(subscription string, c *workerfile.Consumer) workqueue.WorkerOptions {
	o := w.options(c.Serving, c.Topics)
	if subscription != "" {
		o.HandlerTimeout = c.Topics.Timeout()
	}
	return o
}

func (w *workerRun) inbox() (parts []service.Part, err error) {
	f := w.file.Inbox
	if f == nil {
		return nil, nil
	}
	f.Options.Schema, f.Options.Telemetry = w.db.Schema, w.telemetry()
	box, err := inbox.Open(f.Options)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(f.Consumers)) {
		c := f.Consumers[name]
		worker, err := inbox.NewWorker(w.db.Pool, box, inbox.WorkerOptions{Consumer: name,
			WorkerOptions: w.options(c.Serving, c.Topics)})
		if err != nil {
			return nil, err
		}
		register(c.Topics, worker.Handle, worker.HandleAll, func(h *workerfile.Handler) inbox.Handler {
			do := w.handler(h)
			return func(ctx context.Context, _ pgx.Tx, m *inbox.Delivery) error { return do(ctx, receivedTask(m)) }
		})
		parts = append(parts, worker)
	}
	return parts, nil
}

func receivedTask(m *inbox.Delivery) task {
	also := append(domainEnv("inbox", m.MaxAttempts), variable("TXWORK_CONSUMER", m.Consumer), variable("TXWORK_SOURCE",
		m.Source), variable("TXWORK_MESSAGE_ID", m.MessageID))
	return task{m.ID.String(), m.Topic, m.MessageID, m.Attempt, m.Headers, m.Payload, also, true}
}

func (w *workerRun) timers() ([]service.Part, error) {
	f := w.file.Timers
	if f == nil {
		return nil, nil
	}
	f.Options.Schema, f.Options.Telemetry = w.db.Schema, w.telemetry()
	all, err := timers.Open(f.Options)
	if err != nil {
		return nil, err
	}
	worker, err := timers.NewWorker(w.db.Pool, all, timers.WorkerOptions{WorkerOptions: w.options(f.Serving, f.Topics)})
	if err != nil {
		return nil, err
	}
	register(f.Topics, worker.Handle, worker.HandleAll, func(h *workerfile.Handler) timers.Handler {
		do := w.handler(h)
		return func(ctx context.Context, d *timers.Delivery) error { return do(ctx, firingTask(d)) }
	})
	return []service.Part{worker}, nil
}

// firingTask has a new id for each firing, because a timer that is set again keeps its row.
func firingTask(d *timers.Delivery) task {
	also := append(domainEnv("timers", d.MaxAttempts), variable("TXWORK_SCHEDULED_AT",
		d.ScheduledAt.UTC().Format(time.RFC3339Nano)), variable("TXWORK_SCHEDULE", d.Schedule))
	return task{fmt.Sprintf("%s-%d", d.ID, d.Generation), d.Topic, d.Key, d.Attempt, d.Headers, d.Payload, also, false}
}

// jobs handles all jobs in a middleware, because the kinds are known only once the file is read. Args are passed on
// unchanged.
func (w *workerRun) jobs() ([]service.Part, error) {
	f := w.file.Jobs
	if f == nil {
		return nil, nil
	}
	f.Options.Schema, f.Options.Telemetry = w.db.Schema, w.telemetry()
	client, err := jobs.Open(f.Options)
	if err != nil {
		return nil, err
	}
	handlers := map[string]taskHandler{}
	for kind, h := range f.Kinds {
		handlers[kind] = w.handler(h)
	}
	dispatch := func(unknown jobs.Handler) jobs.Handler {
		return func(ctx context.Context, d *jobs.Delivery) error {
			do := handlers[d.Kind]
			if do == nil {
				do = handlers[workerfile.Others]
			}
			if do == nil {
				return unknown(ctx, d)
			}
			return doJob(ctx, d, do)
		}
	}
	worker, err := jobs.NewWorker(w.db.Pool, client, jobs.WorkerOptions{
		WorkerOptions: w.options(workerfile.Serving{Lease: f.Lease, RunsWithin: f.RunsWithin}, f.Kinds),
		Queues:        f.Queues,
		Middleware:    []jobs.Middleware{dispatch}, Unknown: f.Unknown,
	})
	if err != nil {
		return nil, err
	}
	return []service.Part{worker}, nil
}

func doJob(ctx context.Context, d *jobs.Delivery, do taskHandler) error {
	var args json.RawMessage
	if err := d.Decode(ctx, &args); err != nil {
		return err
	}
	also := append(domainEnv("jobs", d.MaxAttempts), variable("TXWORK_KIND", d.Kind), variable("TXWORK_QUEUE", d.Queue),
		variable("TXWORK_SCHEDULE", d.Schedule))
	return do(ctx, task{d.ID.String(), d.Kind, "", d.Attempt, d.Headers, args, also, false})
}

func domainEnv(domain string, maxAttempts int) []string {
	return []string{variable("TXWORK_DOMAIN", domain), variable("TXWORK_MAX_ATTEMPTS", strconv.Itoa(maxAttempts))}
}

// register registers the handlers of a worker by topic.
func register[H any](all workerfile.Handlers, handle func(string, H), handleAll func(H),
	as func(*workerfile.Handler) H) {
	for topic, h := range all {
		if topic == workerfile.Others {
			handleAll(as(h))
		} else {
			handle(topic, as(h))
		}
	}
}

func joined(all []string) string { return strings.Join(all, ", ") }
