package browser

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// A Shop is a program at work: it has rows in every state, of every domain.
type Shop struct {
	Pool *pgxpool.Pool

	server *localpg.Server
	closed context.Context // reports return when it ends
	stop   context.CancelFunc
	ended  chan error

	outbox *outbox.Outbox
	inbox  *inbox.Inbox
	timers *timers.Timers
	jobs   *jobs.Client
	kinds  *jobs.Registry
}

// Open starts a shop, and returns when it has handled what can be handled. The caller has to close it.
func Open(ctx context.Context) (s *Shop, err error) {
	s = &Shop{kinds: jobs.NewRegistry()}
	s.closed, s.stop = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.server, err = localpg.Start(ctx, localpg.Options{Durable: true}); err != nil {
		return s, err
	}
	if s.Pool, err = pgxpool.New(ctx, s.server.URL()); err != nil {
		return s, err
	}
	if err := s.open(ctx); err != nil {
		return s, err
	}
	if err := workqueue.InTx(ctx, s.Pool, func(tx workqueue.Tx) error { return s.rules(ctx, tx) }); err != nil {
		return s, err
	}
	if err := s.start(); err != nil {
		return s, err
	}
	if err := workqueue.InTx(ctx, s.Pool, func(tx workqueue.Tx) error { return s.trade(ctx, tx) }); err != nil {
		return s, err
	}
	if err := s.settled(ctx); err != nil {
		return s, err
	}
	return s, errors.Join(s.spread(ctx), s.remember(ctx), s.stock(ctx))
}

// Close stops the shop and its server.
func (s *Shop) Close() error {
	var errs []error
	s.stop()
	if s.ended != nil {
		errs = append(errs, <-s.ended)
	}
	if s.Pool != nil {
		s.Pool.Close()
	}
	if s.server != nil {
		errs = append(errs, s.server.Stop())
	}
	return errors.Join(errs...)
}

// quiet logs nothing, since the shop fails on purpose.
var quiet = workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}

func (s *Shop) open(ctx context.Context) error {
	m, err := migrations.New(s.Pool, migrations.Options{Logger: quiet.Logger})
	if err != nil {
		return err
	}
	if _, err := m.Up(ctx); err != nil {
		return err
	}
	s.outbox, err = outbox.Open(outbox.Options{Ordering: outbox.PerKey, OnFailure: keyed.Block, Telemetry: quiet})
	if err != nil {
		return err
	}
	if s.inbox, err = inbox.Open(inbox.Options{DedupWindow: 30 * 24 * time.Hour, Telemetry: quiet}); err != nil {
		return err
	}
	if s.timers, err = timers.Open(timers.Options{Telemetry: quiet}); err != nil {
		return err
	}
	s.register()
	s.jobs, err = jobs.Open(jobs.Options{Registry: s.kinds, Telemetry: quiet})
	return err
}

// Jobs of the shop. A charge fails for the reason that it names. A report does not return.
type (
	charge struct {
		Order  int    `json:"order"`
		Amount string `json:"amount"`
		Fails  string `json:"fails,omitempty"`
	}
	resize struct {
		Image string `json:"image"`
	}
	report struct {
		Month string `json:"month"`
	}
)

func (charge) Kind() string { return "charge" }
func (resize) Kind() string { return "resize" }
func (report) Kind() string { return "report" }

// start runs the workers until Close.
func (s *Shop) start() error {
	parts, err := s.parts()
	if err != nil {
		return err
	}
	all, err := service.New(s.Pool, service.Options{HandlersWithoutPool: true, Logger: quiet.Logger}, parts...)
	if err != nil {
		return err
	}
	s.ended = make(chan error, 1)
	go func() { s.ended <- all.Run(s.closed) }()
	return nil
}

func (s *Shop) parts() ([]service.Part, error) {
	relay, err := outbox.NewRelay(s.Pool, s.outbox, outbox.RelayOptions{})
	if err != nil {
		return nil, err
	}
	relay.HandleAll(func(_ context.Context, m *outbox.Delivery) error { return failure(m.Headers["fails"]) })
	payments, err := inbox.NewWorker(s.Pool, s.inbox, inbox.WorkerOptions{Consumer: "payments"})
	if err != nil {
		return nil, err
	}
	payments.HandleAll(func(context.Context, pgx.Tx, *inbox.Delivery) error { return nil })
	clock, err := timers.NewWorker(s.Pool, s.timers, timers.WorkerOptions{})
	if err != nil {
		return nil, err
	}
	clock.HandleAll(func(context.Context, *timers.Delivery) error { return nil })
	worker, err := jobs.NewWorker(s.Pool, s.jobs, jobs.WorkerOptions{Queues: []jobs.QueueOptions{
		{Name: "payments", Concurrency: 4}, {Name: "media", Concurrency: 4}, {Name: "reports", Concurrency: 2}}})
	return []service.Part{relay, payments, clock, worker}, err
}

func (s *Shop) register() {
	jobs.Register(s.kinds, func(_ context.Context, j *jobs.Job[charge]) error { return failure(j.Args.Fails) },
		jobs.KindOptions[charge]{Queue: "payments"})
	jobs.Register(s.kinds, func(context.Context, *jobs.Job[resize]) error { return nil },
		jobs.KindOptions[resize]{Queue: "media"})
	jobs.Register(s.kinds, func(context.Context, *jobs.Job[report]) error {
		<-s.closed.Done()
		return s.closed.Err()
	}, jobs.KindOptions[report]{Queue: "reports"})
}

// failure is an error for good, or nil.
func failure(why string) error {
	if why == "" {
		return nil
	}
	return workqueue.Permanent(errors.New(why))
}

// orders is how many orders the shop gets.
const orders = 240

// trade writes what the shop has to do.
func (s *Shop) trade(ctx context.Context, tx workqueue.Tx) error {
	for i := range orders {
		if err := s.order(ctx, tx, i); err != nil {
			return err
		}
	}
	w := jobs.NewWorkflow("close the month")
	scans := w.Task("scan invoices", jobs.Insert{Args: resize{Image: "invoices.png"}})
	var charges []*jobs.Task
	for i := range 4 {
		charges = append(charges, w.Task(fmt.Sprintf("charge region %d", i+1),
			jobs.Insert{Args: charge{Order: i, Amount: "1.00"}}))
	}
	books := w.Task("reconcile the books", jobs.Insert{Args: charge{Amount: "0.00"}},
		jobs.After(append(charges, scans)...))
	w.Task("report to the board", jobs.Insert{Args: report{Month: "2026-10"}}, jobs.After(books))
	w.Task("archive", jobs.Insert{Args: resize{Image: "books.png"}}, jobs.After(books))
	_, err := s.jobs.StartWorkflow(ctx, tx, w)
	return err
}

// rules pauses and limits queues, and puts schedules.
func (s *Shop) rules(ctx context.Context, tx workqueue.Tx) error {
	if err := s.jobs.Pause(ctx, tx, "media"); err != nil {
		return err
	}
	if err := s.jobs.SetLimits(ctx, tx, "reports", jobs.Limits{MaxRunning: 2}); err != nil {
		return err
	}
	err := s.jobs.Schedules().Put(ctx, tx,
		jobs.Schedule{Name: "monthly-report", Expr: "0 6 1 * *", Zone: "Europe/Zagreb", Args: report{Month: "last"}},
		jobs.Schedule{Name: "thumbnails", Expr: "*/15 * * * *", Args: resize{Image: "all"}},
		jobs.Schedule{Name: "dunning", Expr: "30 9 * * 1-5", Zone: "America/New_York", Args: charge{Order: 0},
			Rule: schedule.Rule{Jitter: time.Minute}})
	if err != nil {
		return err
	}
	if err := s.jobs.Schedules().Pause(ctx, tx, "dunning"); err != nil {
		return err
	}
	return s.timers.Schedules().Put(ctx, tx, timers.Schedule{Name: "stock-check", Expr: "@hourly", Topic: "stock"})
}

// reasons are why charges fail, by the number of the order.
var reasons = []struct {
	every int
	text  string
}{{7, "card %d is declined: code 51"}, {17, "card %d has expired"}, {31, "smtp 550: mailbox %d unavailable"}}

func (s *Shop) order(ctx context.Context, tx workqueue.Tx, i int) error {
	var why string
	for _, r := range reasons {
		if i%r.every == 3 {
			why = fmt.Sprintf(r.text, 4000+i)
		}
	}
	amount := fmt.Sprintf("%d.%02d", 5+i%90, i%100)
	message := outbox.Message{Topic: "order.placed", Key: fmt.Sprintf("customer-%d", i%50),
		Value: map[string]any{"order": i, "total": map[string]string{"amount": amount, "currency": "EUR"},
			"lines": []map[string]any{{"sku": "A-1", "quantity": 1 + i%3}}}, Headers: map[string]string{}}
	if i == 60 { // what comes behind it in its key waits
		message.Headers["fails"] = "POST https://erp.example/orders: 422 the customer is unknown"
	}
	if _, err := s.outbox.Enqueue(ctx, tx, message); err != nil {
		return err
	}
	inserts := []jobs.Insert{{Args: charge{Order: i, Amount: amount, Fails: why}}}
	switch {
	case i%20 == 0:
		inserts = append(inserts, jobs.Insert{Args: resize{Image: fmt.Sprintf("order-%d.png", i)}})
	case i%60 == 1:
		inserts = append(inserts, jobs.Insert{Args: report{Month: fmt.Sprintf("2026-%02d", 1+i/60)}})
	case i%6 == 1:
		inserts = append(inserts, jobs.Insert{Args: charge{Order: i, Amount: amount},
			Delay: time.Duration(i) * time.Minute})
	}
	if _, err := s.jobs.EnqueueMany(ctx, tx, inserts...); err != nil {
		return err
	}
	if i%3 > 0 {
		return nil
	}
	name := fmt.Sprintf("payment-%d", i)
	if _, err := s.inbox.Receive(ctx, tx, inbox.Message{Consumer: "payments", Source: "bank", MessageID: name,
		Payload: fmt.Appendf(nil, `{"order": %d, "paid": %q}`, i, amount)}); err != nil {
		return err
	}
	_, err := s.timers.Set(ctx, tx, timers.Timer{Key: fmt.Sprintf("reminder-%d", i), Topic: "reminder",
		Delay: time.Duration(i-120) * time.Hour * time.Duration(min(1, max(0, i-120)))})
	return err
}

// patience is how long the shop may take on a slow machine.
const patience = 40 * time.Second

// settled waits until nothing is left but what cannot be handled.
func (s *Shop) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the shop does not come to an end"))
	defer cancel()
	for {
		var left, failed, running int
		err := s.Pool.QueryRow(ctx, `SELECT
			(SELECT count(*) FROM txwork.jobs WHERE queue = 'payments' AND status < 2 AND due_at <= now() AND NOT waiting)
				+ (SELECT count(*) FROM txwork.outbox WHERE status < 2 AND NOT waiting)
				+ (SELECT count(*) FROM txwork.inbox WHERE status < 2)
				+ (SELECT count(*) FROM txwork.timers WHERE status < 2 AND due_at <= now()),
			(SELECT count(*) FROM txwork.outbox WHERE status = 3), (SELECT count(*) FROM txwork.jobs WHERE status = 1)`).
			Scan(&left, &failed, &running)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case left == 0 && failed == 1 && running >= 2:
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// spread moves what has ended into the last three hours, as if the shop had run for longer.
func (s *Shop) spread(ctx context.Context) error {
	for _, table := range []string{"jobs", "outbox", "inbox", "timers"} {
		err := pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SET LOCAL session_replication_role = replica`)
			if err == nil {
				_, err = tx.Exec(ctx, strings.ReplaceAll(`
					WITH ended AS (SELECT id, random() * interval '3 hours' AS ago FROM {table} WHERE status >= 2)
					UPDATE {table} AS t SET created_at = created_at - ago, due_at = due_at - ago,
						completed_at = completed_at - ago, failed_at = failed_at - ago
					FROM ended WHERE t.id = ended.id`, "{table}", "txwork."+table))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// remember writes a history of the same hours.
func (s *Shop) remember(ctx context.Context) error {
	_, err := s.Pool.Exec(ctx, `
		WITH counted AS (
			SELECT t.name, t.lane, t.failing, date_bin('1 minute', now(), 'epoch') - m * interval '1 minute' AS at,
				(t.rate * (1 + 0.35 * sin(m / 11.0) + 0.15 * sin(m * 1.7)))::bigint AS n
			FROM (VALUES ('jobs', 'payments', 60, 0.08), ('outbox', 'order.placed', 90, 0.01), ('inbox', 'payments', 30, 0),
				('timers', 'reminder', 20, 0)) AS t (name, lane, rate, failing), generate_series(1, 180) AS m
		)
		INSERT INTO txwork.history (table_name, lane, step, at, done, retried, dead, enqueued, waits, runs)
		SELECT name, l.lane, 60, at, n, (n * failing)::bigint, (n * failing / 3)::bigint,
			CASE l.lane WHEN '' THEN n + (n * failing / 3)::bigint END,
			array_fill(0::bigint, ARRAY[10]) || ARRAY[n / 4, n / 2, n / 4],
			array_fill(0::bigint, ARRAY[12]) || ARRAY[n / 3, n / 3, n / 4, n / 12]
		FROM counted, LATERAL (VALUES (counted.lane), ('')) AS l (lane)
		ON CONFLICT DO NOTHING`)
	return err
}
