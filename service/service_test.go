package service_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

const patience = pgtest.Patience

// A world is a schema with all tables, and a part of every kind that uses them.
type world struct {
	*testing.T
	db       *pgtest.DB
	logs     *logs
	box      *outbox.Outbox
	in       *inbox.Inbox
	timers   *timers.Timers
	jobs     *jobs.Client
	relay    *outbox.Relay
	consumer *inbox.Worker
	clock    *timers.Worker
	worker   *jobs.Worker
	handled  chan string
}

type errand struct{}

func (errand) Kind() string { return "errand" }

func newWorld(t *testing.T, options ...pgtest.Option) *world {
	t.Helper()
	return newWorldOf(t, nil, options...)
}

// newWorldOf makes a world with the tables of some domains.
func newWorldOf(t *testing.T, domains []migrations.Domain, options ...pgtest.Option) *world {
	t.Helper()
	db := pgtest.New(t, append(options, pgtest.Reused)...)
	db.Define(t, tables(t, db.Schema, domains...))
	return openWorld(t, db)
}

// tables returns the SQL that creates the tables of some domains, or of all.
func tables(t *testing.T, schema string, domains ...migrations.Domain) string {
	t.Helper()
	text, err := migrations.SQL(migrations.FileOptions{Schema: schema, Domains: domains})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func openWorld(t *testing.T, db *pgtest.DB) *world {
	t.Helper()
	w := &world{T: t, db: db, logs: &logs{}, handled: make(chan string, 100)}
	telemetry := workqueue.Telemetry{Logger: w.logger()}
	var err error
	w.box, err = outbox.Open(outbox.Options{Schema: w.db.Schema, Telemetry: telemetry})
	w.ok(err)
	w.in, err = inbox.Open(inbox.Options{Schema: w.db.Schema, DedupWindow: 30 * 24 * time.Hour, Telemetry: telemetry})
	w.ok(err)
	w.timers, err = timers.Open(timers.Options{Schema: w.db.Schema, Telemetry: telemetry})
	w.ok(err)
	w.jobs, err = jobs.Open(jobs.Options{Schema: w.db.Schema, Telemetry: telemetry})
	w.ok(err)
	w.relay, w.consumer, w.clock, w.worker = w.newRelay(), w.newConsumer("billing"), w.newClock(), w.newWorker()
	return w
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) logger() *slog.Logger { return slog.New(slog.NewTextHandler(w.logs, nil)) }

func (w *world) newRelay() *outbox.Relay {
	relay, err := outbox.NewRelay(w.db.Pool, w.box, outbox.RelayOptions{})
	w.ok(err)
	relay.HandleAll(func(context.Context, *outbox.Delivery) error { w.handled <- "message"; return nil })
	return relay
}

func (w *world) newConsumer(name string) *inbox.Worker {
	consumer, err := inbox.NewWorker(w.db.Pool, w.in, inbox.WorkerOptions{Consumer: name})
	w.ok(err)
	consumer.HandleAll(func(context.Context, pgx.Tx, *inbox.Delivery) error { w.handled <- "receipt"; return nil })
	return consumer
}

func (w *world) newClock() *timers.Worker {
	clock, err := timers.NewWorker(w.db.Pool, w.timers, timers.WorkerOptions{})
	w.ok(err)
	clock.HandleAll(func(context.Context, *timers.Delivery) error { w.handled <- "timer"; return nil })
	return clock
}

func (w *world) newWorker(queues ...jobs.QueueOptions) *jobs.Worker {
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(context.Context, *jobs.Job[errand]) error { w.handled <- "job"; return nil },
		jobs.KindOptions[errand]{})
	worker, err := jobs.NewWorker(w.db.Pool, w.jobs, jobs.WorkerOptions{Registry: kinds, Queues: queues})
	w.ok(err)
	return worker
}

func (w *world) parts() []service.Part {
	return []service.Part{w.relay, w.consumer, w.clock, w.worker}
}

// options returns options with a short reaper interval.
func (w *world) options() service.Options {
	return service.Options{Logger: w.logger(), Reaper: reaper.Options{Interval: reaper.MinInterval}}
}

// start runs a service until the test ends or stops it.
func (w *world) start(s *service.Service) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	var err error
	go func() { defer close(ended); err = s.Run(ctx) }()
	stop = func() error { cancel(); <-ended; return err }
	w.Cleanup(func() { _ = stop() })
	return stop
}

func (w *world) eventually(what string, condition func() bool) {
	w.Helper()
	if !pgtest.Await(patience, condition) {
		w.Fatalf("still waiting for %s\n%s", what, w.logs)
	}
}

func (w *world) ask(query string, args ...any) (yes bool) {
	w.Helper()
	w.ok(w.db.Pool.QueryRow(w.Context(), query, args...).Scan(&yes))
	return yes
}

// work writes a row for every part.
func (w *world) work() {
	w.Helper()
	w.ok(workqueue.InTx(w.Context(), w.db.Pool, func(tx workqueue.Tx) error {
		_, err := w.box.Enqueue(w.Context(), tx, outbox.Message{Topic: "topic"})
		_, err2 := w.in.Receive(w.Context(), tx, inbox.Message{Consumer: "billing", Source: "test", MessageID: rand(),
			Topic: "topic"})
		_, err3 := w.timers.Set(w.Context(), tx, timers.Timer{Key: "key", Topic: "topic"})
		_, err4 := w.jobs.Enqueue(w.Context(), tx, jobs.Insert{Args: errand{}})
		return errors.Join(err, err2, err3, err4)
	}))
}

func rand() string { return uuid.New().String() }

// get asks a probe.
func get(t *testing.T, s *service.Service, path string) (status int, body string) {
	t.Helper()
	answer := httptest.NewRecorder()
	s.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Code, string(text)
}

// All parts of a service work, over the connections of one runtime, and the reaper serves all their tables, including
// those of the schedules.
func TestAServiceRunsAllItsParts(t *testing.T) {
	t.Parallel()
	name := "service_" + rand()
	w := newWorld(t, pgtest.WithPool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = name }))
	s, err := service.New(w.db.Pool, w.options(), w.parts()...)
	w.ok(err)
	if status, body := get(t, s, "/readyz"); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "not started") {
		t.Errorf("ready before the start: %d %s", status, body)
	}
	if status, body := get(t, s, "/livez"); status != http.StatusOK {
		t.Errorf("not alive before the start: %d %s", status, body)
	}
	stop := w.start(s)
	w.eventually("readiness", func() bool { return s.Ready() == nil })
	w.work()
	got := map[string]bool{}
	for len(got) < 4 {
		select {
		case kind := <-w.handled:
			got[kind] = true
		case <-time.After(patience):
			t.Fatalf("handled only %v", got)
		}
	}
	for _, table := range []string{"outbox", "inbox", "timers", "timers_schedule", "jobs", "jobs_schedule"} {
		if !strings.Contains(strings.Join(names(w.parts()), " "), "."+table) {
			t.Errorf("%s is no table of the parts: %v", table, names(w.parts()))
		}
	}
	w.eventually("a leader of the reapers", func() bool {
		return w.ask("SELECT EXISTS (SELECT FROM leader WHERE expires_at > now())")
	})
	var listeners, others int
	w.ok(w.db.Pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE query LIKE 'LISTEN%'), count(*)
		FROM pg_stat_activity WHERE application_name = $1`, name).Scan(&listeners, &others))
	if most := s.Runtime().MaxConnections() + int(w.db.Pool.Stat().TotalConns()); listeners != 1 || others > most {
		t.Errorf("%d sessions listen, and there are %d: want 1 and at most %d", listeners, others, most)
	}
	w.ok(stop())
	if n := strings.Count(w.logs.String(), "service starts"); n != 1 {
		t.Errorf("the start was told %d times:\n%s", n, w.logs)
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if status, body := get(t, s, path); status != http.StatusServiceUnavailable ||
			!strings.Contains(body, "ended") {
			t.Errorf("%s at the end: %d %s", path, status, body)
		}
	}
	if w.ask("SELECT EXISTS (SELECT FROM leader WHERE expires_at > now())") {
		t.Error("the reaper has not given up its leadership")
	}
	if err := s.Run(t.Context()); err == nil {
		t.Error("a service ran twice")
	}
}

// By default the library has at most eight connections beside the pool, and one more for each table.
func TestTheLibrarysConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		parts []service.Part
		want  int
	}{{[]service.Part{w.newRelay()}, 9}, {w.parts(), 14}} {
		s, err := service.New(w.db.Pool, w.options(), c.parts...)
		w.ok(err)
		if n := s.Runtime().MaxConnections(); n != c.want {
			t.Errorf("%d parts have up to %d connections, want %d", len(c.parts), n, c.want)
		}
	}
}

// Jobs need no tables but their own and the reaper's.
func TestAServiceOfJobsAlone(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, []migrations.Domain{migrations.Reaper, migrations.Jobs})
	s, err := service.New(w.db.Pool, w.options(), w.worker)
	w.ok(err)
	stop := w.start(s)
	w.ok(workqueue.InTx(t.Context(), w.db.Pool, func(tx workqueue.Tx) error {
		_, err := w.jobs.Enqueue(t.Context(), tx, jobs.Insert{Args: errand{}})
		return err
	}))
	w.eventually("the job", func() bool { return w.ask("SELECT EXISTS (SELECT FROM jobs WHERE status = 2)") })
	w.eventually("a leader of the reapers", func() bool {
		return w.ask("SELECT EXISTS (SELECT FROM leader WHERE expires_at > now())")
	})
	w.ok(stop())
	if text := w.logs.String(); strings.Contains(text, "level=WARN") || strings.Contains(text, "level=ERROR") {
		t.Errorf("something is missing:\n%s", text)
	}
}

func names(parts []service.Part) (names []string) {
	for _, p := range parts {
		for _, t := range p.Tables() {
			names = append(names, t.Name())
		}
	}
	return names
}

// When the service stops, it waits for a running handler and settles its row, and the reaper runs until then.
func TestAServiceStopsInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begun, release := make(chan struct{}), make(chan struct{})
	relay, err := outbox.NewRelay(w.db.Pool, w.box, outbox.RelayOptions{})
	w.ok(err)
	relay.HandleAll(func(context.Context, *outbox.Delivery) error { close(begun); <-release; return nil })
	s, err := service.New(w.db.Pool, w.options(), relay, w.worker)
	w.ok(err)
	stop := w.start(s)
	w.ok(workqueue.InTx(t.Context(), w.db.Pool, func(tx workqueue.Tx) error {
		_, err := w.box.Enqueue(t.Context(), tx, outbox.Message{Topic: "topic"})
		return err
	}))
	<-begun
	w.eventually("a leader",
		func() bool { return w.ask("SELECT EXISTS (SELECT FROM leader WHERE expires_at > now())") })
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	w.eventually("the service to be stopping", func() bool {
		status, body := get(t, s, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "stopping")
	})
	if status, body := get(t, s, "/livez"); status != http.StatusOK {
		t.Errorf("a service that stops is not alive: %d %s", status, body)
	}
	if !w.ask("SELECT EXISTS (SELECT FROM leader WHERE expires_at > now())") {
		t.Error("the reaper stopped before the handlers")
	}
	close(release)
	w.ok(<-stopped)
	if !w.ask("SELECT bool_and(status = 2) FROM outbox") {
		t.Error("the message is not settled")
	}
}

// A service that cannot work returns an error at once.
func TestAServiceThatCannotWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	elsewhere := service.Options{MaintainedElsewhere: true, Logger: w.logger()}

	var none *outbox.Relay
	for name, parts := range map[string][]service.Part{
		"none":                      nil,
		"nil":                       {w.worker, nil},
		"a nil pointer":             {none},
		"2 and 1 both serve":        {w.newRelay(), w.newRelay()},
		"two consumers of one name": {w.newConsumer("a"), w.newConsumer("b"), w.newConsumer("a")},
		"one queue in two workers": {w.newWorker(jobs.QueueOptions{Name: "a"}),
			w.newWorker(jobs.QueueOptions{Name: "b"}, jobs.QueueOptions{Name: "a"})},
		"one table of schedules twice": {w.newWorker(jobs.QueueOptions{Name: "a"}),
			w.newWorker(jobs.QueueOptions{Name: "b"})},
	} {
		if _, err := service.New(w.db.Pool, elsewhere, parts...); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := service.New(nil, elsewhere, w.newRelay()); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("no pool: %v", err)
	}
	idle, err := outbox.NewRelay(w.db.Pool, w.box, outbox.RelayOptions{})
	w.ok(err)
	empty, err := service.New(w.db.Pool, elsewhere, idle, w.newWorker())
	w.ok(err)
	if err := empty.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "the relay of "+w.db.Schema+
		".outbox has no handler") || strings.Contains(w.logs.String(), "service starts") {
		t.Errorf("a relay without a handler: %v, log %s", err, w.logs)
	}

	for _, table := range []string{"outbox", "leader"} {
		s, err := service.New(w.db.Pool, w.options(), w.newRelay())
		w.ok(err)
		_, err = w.db.Pool.Exec(t.Context(), "ALTER TABLE "+table+" RENAME TO away")
		w.ok(err)
		if err := s.Run(t.Context()); !errors.Is(err, workqueue.ErrSchemaVersion) ||
			!strings.Contains(err.Error(), table) {
			t.Errorf("without the table %s: %v", table, err)
		}
		_, err = w.db.Pool.Exec(t.Context(), "ALTER TABLE away RENAME TO "+table)
		w.ok(err)
	}
}

// If the role lacks rights that the parts need, the error names them.
func TestAServiceWithoutRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	role := "service_" + strings.ReplaceAll(rand(), "-", "")
	exec := func(sql string) {
		_, err := w.db.Pool.Exec(context.Background(), sql)
		w.ok(err)
	}
	exec("CREATE ROLE " + role)
	defer exec("DROP OWNED BY " + role + "; DROP ROLE " + role)
	exec("GRANT USAGE ON SCHEMA " + w.db.Schema + " TO " + role)
	exec("GRANT SELECT, UPDATE ON outbox TO " + role)
	pool := pgtest.NewPool(t, w.db,
		pgtest.WithPool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["role"] = role }))
	defer pool.Close()
	s, err := service.New(pool, w.options(), w.newRelay())
	w.ok(err)
	err = s.Run(t.Context())
	for _, want := range []string{"DELETE on " + w.db.Schema + ".outbox", "INSERT on " + w.db.Schema + ".leader"} {
		if !errors.Is(err, service.ErrRights) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), "UPDATE on "+w.db.Schema+".outbox") {
		t.Errorf("a right that the role has: %v", err)
	}
}

// If the database is unavailable when the service starts, the service waits for it.
func TestAServiceWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	away := true
	pool := pgtest.NewPool(t, w.db, pgtest.WithPool(func(c *pgxpool.Config) {
		c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
			mu.Lock()
			defer mu.Unlock()
			if away {
				return errors.New("no route to host")
			}
			return nil
		}
	}))
	s, err := service.New(pool, w.options(), w.parts()...)
	w.ok(err)
	stop := w.start(s)
	w.eventually("the log to tell", func() bool { return strings.Contains(w.logs.String(), "waits for it") })
	if err := s.Ready(); err == nil {
		t.Error("ready without a database")
	}
	if err := s.Alive(); err != nil {
		t.Errorf("not alive without a database: %v", err)
	}
	mu.Lock()
	away = false
	mu.Unlock()
	w.eventually("readiness", func() bool { return s.Ready() == nil })
	w.ok(stop())
}

// Alarms are a part like the others.
func TestAlarmsInAService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, err := alarms.Open(alarms.Options{Schema: w.db.Schema})
	w.ok(err)
	dispatcher, err := alarms.NewDispatcher(w.db.Pool, a, noWaker{}, alarms.DispatcherOptions{})
	w.ok(err)
	if _, err := service.New(w.db.Pool, w.options(), dispatcher, w.newClock()); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("two parts that fire the same timers: %v", err)
	}
	s, err := service.New(w.db.Pool, w.options(), dispatcher, w.relay)
	w.ok(err)
	stop := w.start(s)
	w.eventually("readiness", func() bool { return s.Ready() == nil })
	w.ok(stop())
}

type noWaker struct{}

func (noWaker) Wake(context.Context, alarms.Wake) error { return nil }

// logs may be written and read at the same time.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
