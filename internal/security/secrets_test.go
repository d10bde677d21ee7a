package security_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// marker stands for a secret in payloads, headers, keys, handlers' errors, and the password of the database.
const marker = "hunter2marker"

// A witness collects everything that is logged, traced and answered.
type witness struct {
	*fixture
	mu     sync.Mutex
	log    bytes.Buffer
	spans  *tracetest.SpanRecorder
	errors []error
	pool   *pgxpool.Pool
}

func (w *witness) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func newWitness(t *testing.T) *witness {
	t.Parallel()
	db := pgtest.New(t)
	w := &witness{fixture: &fixture{t: t, db: db, kinds: jobs.NewRegistry()}, spans: tracetest.NewSpanRecorder(),
		pool: db.Pool}
	db.Define(t, tables(t, db.Schema))
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans))
	tel := workqueue.Telemetry{Logger: w.logger(), TracerProvider: tracers}
	jobs.Register(w.kinds, func(context.Context, *jobs.Job[secretArgs]) error { return errSecret },
		jobs.KindOptions[secretArgs]{})
	var errs [5]error
	w.outbox, errs[0] = outbox.Open(outbox.Options{Schema: db.Schema, Ordering: outbox.PerKey, MaxPayload: 100,
		Telemetry: tel})
	w.inbox, errs[1] = inbox.Open(inbox.Options{Schema: db.Schema, DedupWindow: 30 * 24 * time.Hour, MaxPayload: 100,
		Telemetry: tel})
	w.timers, errs[2] = timers.Open(timers.Options{Schema: db.Schema, MaxPayload: 100, Telemetry: tel})
	w.alarms, errs[3] = alarms.Open(alarms.Options{Schema: db.Schema, Telemetry: tel})
	w.jobs, errs[4] = jobs.Open(jobs.Options{Schema: db.Schema, Registry: w.kinds, Telemetry: tel})
	must(t, errors.Join(errs[:]...))
	return w
}

func (w *witness) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// secretArgs are args whose stored form the handler may be unable to decode.
type secretArgs struct{ Text any }

func (secretArgs) Kind() string { return "secret" }

// errSecret is a handler's error that contains a secret, which the Redact hook removes.
var errSecret = fmt.Errorf("the partner refused %s\nsecond line %s", marker, marker)

func redact(_ context.Context, message string) string {
	return strings.ReplaceAll(message, marker, "***")
}

// note collects an error that a call has returned.
func (w *witness) note(err error) {
	if err != nil {
		w.errors = append(w.errors, err)
	}
}

func (w *witness) enqueue(do func(ctx context.Context, tx workqueue.Tx) error) {
	w.t.Helper()
	must(w.t, w.try(w.pool, do))
}

// refused collects the error of a call that has to fail.
func (w *witness) refused(do func(ctx context.Context, tx workqueue.Tx) error) {
	w.t.Helper()
	err := w.try(w.pool, do)
	if err == nil {
		w.t.Error("nothing was refused")
	}
	w.note(err)
}

func headers() map[string]string { return map[string]string{"authorization": marker} }

// fillWithSecrets writes rows on which workers fail.
func (w *witness) fillWithSecrets() {
	payload := []byte(`{"Text": "` + marker + `"`) // truncated JSON
	w.enqueue(func(ctx context.Context, tx workqueue.Tx) error {
		_, err := w.outbox.EnqueueMany(ctx, tx, outbox.Message{Topic: "fails", Key: marker, Payload: payload,
			Headers: headers(), DedupKey: marker, MaxAttempts: 1},
			outbox.Message{Topic: "undecodable", Payload: payload, Headers: headers(), MaxAttempts: 1},
			outbox.Message{Topic: "panics", Payload: payload, Headers: headers(), MaxAttempts: 1},
			outbox.Message{Topic: "unknown", Payload: payload, Headers: headers(), MaxAttempts: 1})
		_, err2 := w.outbox.Enqueue(ctx, tx, outbox.Message{Topic: "fails", DedupKey: marker})
		_, err3 := w.inbox.Receive(ctx, tx, inbox.Message{Consumer: "c", Source: "s", MessageID: marker, Topic: "fails",
			Payload: payload, Headers: headers(), MaxAttempts: 1})
		_, err4 := w.timers.Set(ctx, tx, timers.Timer{Key: marker, Topic: "fails", Payload: payload, Headers: headers(),
			MaxAttempts: 1})
		_, err5 := w.jobs.Enqueue(ctx, tx, jobs.Insert{Args: secretArgs{marker}, Headers: headers(), MaxAttempts: 1,
			Unique: &jobs.Unique{Key: marker}})
		undecodable, err6 := w.jobs.Enqueue(ctx, tx, jobs.Insert{Args: secretArgs{marker}, Headers: headers(),
			MaxAttempts: 1})
		if err7 := errors.Join(err, err2, err3, err4, err5, err6); err7 != nil {
			return err7
		}
		_, err = tx.Exec(ctx, "UPDATE jobs SET args = $1 WHERE id = $2", payload, undecodable.ID)
		return err
	})
}

// refuseSecrets makes calls fail whose arguments are secret.
func (w *witness) refuseSecrets() {
	long := []byte(strings.Repeat(marker, 20))
	w.refused(func(ctx context.Context, tx workqueue.Tx) error {
		_, err := w.outbox.Enqueue(ctx, tx, outbox.Message{Topic: "t", Payload: long})
		return err
	})
	w.refused(func(ctx context.Context, tx workqueue.Tx) error {
		_, err := w.outbox.Enqueue(ctx, tx, outbox.Message{Topic: "t", Headers: map[string]string{"h": marker +
			"\x00"}})
		return err
	})
	w.refused(func(ctx context.Context, tx workqueue.Tx) error {
		_, err := w.outbox.Enqueue(ctx, tx, outbox.Message{Topic: "t", Value: map[string]any{marker: make(chan int)}})
		return err
	})
	w.refused(func(ctx context.Context, tx workqueue.Tx) error {
		_, err := w.inbox.Receive(ctx, tx, inbox.Message{Consumer: "c", Source: "s", MessageID: "m", Topic: "t",
			Payload: long})
		return err
	})
	w.refused(func(ctx context.Context, tx workqueue.Tx) error {
		_, err := w.timers.Set(ctx, tx, timers.Timer{Key: "k", Topic: "t", Payload: long})
		return err
	})
	// PostgreSQL puts the refused row into the detail of its error.
	must(w.t, tryExec(w.t.Context(), w.pool, "ALTER TABLE outbox ADD CONSTRAINT never CHECK (topic <> 'never')"))
	w.refused(func(ctx context.Context, tx workqueue.Tx) error {
		_, err := w.outbox.Enqueue(ctx, tx, outbox.Message{Topic: "never", Payload: []byte(marker), Headers: headers(),
			Key: marker})
		return err
	})
}

// workOn runs every worker until all rows have ended, each by some failure.
func (w *witness) workOn() {
	ctx, stop := context.WithTimeout(w.t.Context(), pgtest.Patience)
	defer stop()
	options := workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond, Redact: redact}
	relay, err := outbox.NewRelay(w.pool, w.outbox, outbox.RelayOptions{WorkerOptions: options})
	must(w.t, err)
	relay.Handle("fails", func(context.Context, *outbox.Delivery) error { return errSecret })
	relay.Handle("undecodable", func(_ context.Context, m *outbox.Delivery) error {
		return json.Unmarshal(m.Payload, &secretArgs{})
	})
	relay.Handle("panics", func(_ context.Context, m *outbox.Delivery) error { panic(string(m.Payload)) })
	consumer, err := inbox.NewWorker(w.pool, w.inbox, inbox.WorkerOptions{Consumer: "c", WorkerOptions: options})
	must(w.t, err)
	consumer.Handle("fails", func(context.Context, pgx.Tx, *inbox.Delivery) error { return errSecret })
	firing, err := timers.NewWorker(w.pool, w.timers, timers.WorkerOptions{WorkerOptions: options})
	must(w.t, err)
	firing.Handle("fails", func(context.Context, *timers.Delivery) error { return errSecret })
	running, err := jobs.NewWorker(w.pool, w.jobs, jobs.WorkerOptions{Registry: w.kinds, WorkerOptions: options})
	must(w.t, err)
	workers := []func(context.Context) error{relay.Run, consumer.Run, firing.Run, running.Run}
	ended := make(chan error)
	for _, run := range workers {
		go func() { ended <- run(ctx) }()
	}
	const live = `SELECT (SELECT count(*) FROM outbox WHERE completed_at IS NULL) + (SELECT count(*) FROM inbox WHERE completed_at IS NULL)
		+ (SELECT count(*) FROM timers WHERE completed_at IS NULL) + (SELECT count(*) FROM jobs WHERE completed_at IS NULL AND kind = 'secret')`
	for ask[int](w.fixture, live) > 0 && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	if ctx.Err() != nil {
		w.t.Error("after a minute rows are left")
	}
	stop()
	for range workers {
		w.note(<-ended)
	}
}

// losesDatabase runs code that connects, with a password, to an address without a server.
func (w *witness) losesDatabase() {
	config, err := pgxpool.ParseConfig("postgres://user:" + marker + "@127.0.0.1:1/nowhere?connect_timeout=1")
	must(w.t, err)
	pool, err := pgxpool.NewWithConfig(w.t.Context(), config)
	must(w.t, err)
	defer pool.Close()
	_, err = w.outbox.Table().On(pool).Claim(w.t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
	w.note(err)
	_, err = reaper.RunOnce(w.t.Context(), pool, []*workqueue.Table{w.outbox.Table()},
		reaper.Options{Schema: w.db.Schema, Logger: w.logger()})
	w.note(err)
	ctx, stop := context.WithTimeout(w.t.Context(), time.Second)
	defer stop()
	relay, err := outbox.NewRelay(pool, w.outbox, outbox.RelayOptions{})
	must(w.t, err)
	relay.HandleAll(func(context.Context, *outbox.Delivery) error { return nil })
	w.note(relay.Run(ctx))
	m, err := migrations.New(pool, migrations.Options{Schema: w.db.Schema, Logger: w.logger()})
	must(w.t, err)
	w.note(m.Validate(w.t.Context()))
}

// api calls the REST API with tokens and bodies that it refuses, and provokes internal errors.
func (w *witness) api() {
	tokens, err := alarms.NewTokens(map[string]alarms.Owner{"a-token-of-some-length": {DID: "did:x", UserID: "u"}})
	must(w.t, err)
	server, err := alarms.NewServer(w.alarms.On(w.pool), tokens, alarms.ServerOptions{Logger: w.logger()})
	must(w.t, err)
	must(w.t, tryExec(w.t.Context(), w.pool, "ALTER TABLE alarms ADD CONSTRAINT never CHECK (false)"))
	for _, request := range [][2]string{
		{"wrong" + marker, `{}`},
		{"a-token-of-some-length", `{"kind": "once", "delay_seconds": 5, "wake_message": "` + marker + `"}`},
		{"a-token-of-some-length", `{"kind": "once", "delay_seconds": 5, "wake_message": "` + marker +
			`", "payload": {"a": "` + marker + `"}, "fire_at": 3}`},
	} {
		r := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, "/v1/alarms", strings.NewReader(request[1]))
		r.Header.Set("Authorization", "Bearer "+request[0])
		answer := httptest.NewRecorder()
		if server.ServeHTTP(answer, r); answer.Code < 400 {
			w.t.Errorf("%s: %d", request[1], answer.Code)
		}
		w.note(errors.New(answer.Body.String()))
	}
}

func TestSecretsAreNeitherLoggedNorTracedNorTold(t *testing.T) {
	w := newWitness(t)
	w.fillWithSecrets()
	w.workOn()
	w.refuseSecrets()
	w.losesDatabase()
	w.api()
	w.looksThroughErrors()
	w.looksThroughTheLog()
	w.looksThroughSpans()
	w.looksThroughTheTables()
}

func (w *witness) looksThroughErrors() {
	if len(w.errors) < 12 {
		w.t.Errorf("only %d errors came back", len(w.errors))
	}
	for _, err := range w.errors {
		if strings.Contains(err.Error(), marker) {
			w.t.Errorf("an error contains a secret: %v", err)
		}
	}
}

func (w *witness) looksThroughTheLog() {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(w.log.String()), "\n")
	for what, needle := range map[string]string{"debug lines": `"level":"DEBUG"`, "dead letters": `"msg":"dead letter"`,
		"refused enqueues": `"msg":"enqueue failed"`, "failed claims": `"msg":"claim failed"`} {
		if !strings.Contains(w.log.String(), needle) {
			w.t.Errorf("the log has no %s", what)
		}
	}
	for table, labels := range map[string]string{"outbox": `"topic":"fails"`, "inbox": `"consumer":"c","topic":"fails"`,
		"timers": `"topic":"fails"`, "jobs": `"kind":"secret","queue":"default"`} {
		if told := `"msg":"dead letter","table":"` + w.db.Schema + "." + table + `",` +
			labels; !strings.Contains(w.log.String(), told) {
			w.t.Errorf("no line has %s", told)
		}
	}
	for _, line := range lines {
		if strings.Contains(line, marker) {
			w.t.Errorf("the log contains a secret: %s", line)
		}
	}
}

func (w *witness) looksThroughSpans() {
	spans, failed := w.spans.Ended(), 0
	for _, span := range spans {
		if len(span.Events()) > 0 {
			failed++
		}
		if all := fmt.Sprint(span.Name(), span.Attributes(), span.Status(), span.Events(),
			span.Links()); strings.Contains(all, marker) {
			w.t.Errorf("a span contains a secret: %s", all)
		}
	}
	if failed < 8 {
		w.t.Errorf("only %d of %d spans failed", failed, len(spans))
	}
}

// looksThroughTheTables checks that stored errors have passed the Redact hook.
func (w *witness) looksThroughTheTables() {
	for _, table := range []string{"outbox", "inbox", "timers", "jobs"} {
		if n := ask[int](w.fixture, "SELECT count(*) FROM "+table+" WHERE last_error IS NOT NULL"); n == 0 {
			w.t.Errorf("%s has no errors", table)
		}
		if told := w.lines("SELECT last_error FROM "+table+" WHERE position($1 IN last_error) > 0",
			marker); len(told) > 0 {
			w.t.Errorf("%s stores a secret in last_error: %q", table, told)
		}
	}
	if told := w.lines("SELECT error FROM jobs_attempt WHERE position($1 IN error) > 0", marker); len(told) > 0 {
		w.t.Errorf("jobs_attempt stores a secret: %q", told)
	}
}
