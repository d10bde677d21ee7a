package doctor_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgschema"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(recorder{m}) }

// quiet and silent drop log messages that the tests provoke.
var (
	quiet  = slog.New(slog.DiscardHandler)
	silent = workqueue.Telemetry{Logger: quiet}
)

const patience = pgtest.Patience

// settings are those of the server that the tests share: those of a healthy server, and what some tests need.
var settings = map[string]string{"max_prepared_transactions": "10", "wal_level": "logical",
	"max_replication_slots": "10", "fsync": "on", "full_page_writes": "on"}

// sound is a server that claims to be durable. It need not be, and may keep its data in memory.
var sound = localpg.Options{Settings: map[string]string{"fsync": "on", "full_page_writes": "on"}}

// sharedServer is used by most tests. The supervisor of package localpg stops it when the process ends.
var sharedServer = sync.OnceValues(func() (string, error) {
	server, err := localpg.Start(context.Background(), localpg.Options{Settings: settings})
	if err != nil {
		return "", err
	}
	return server.URL(), nil
})

// A ward is a schema with a problem.
type ward struct {
	*testing.T
	*pgschema.DB
	box  *outbox.Outbox
	jobs *jobs.Client
	took time.Duration // duration of the last examination

	server *localpg.Server // the ward's own server, if it has one
}

// newWard creates the tables of txwork in the test's own schema.
func newWard(t *testing.T) *ward {
	t.Helper()
	w := newEmptyWard(t)
	w.migrate()
	return w
}

func newEmptyWard(t *testing.T) *ward {
	t.Helper()
	t.Parallel()
	url, err := sharedServer()
	must(t, err)
	return openWard(t, url)
}

// newServerWard starts its own server, for findings about the server as a whole.
func newServerWard(t *testing.T, o localpg.Options, domains ...migrations.Domain) *ward {
	t.Helper()
	t.Parallel()
	server, err := localpg.Start(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { server.Stop() })
	w := openWard(t, server.URL())
	w.server = server
	w.migrate(domains...)
	return w
}

func openWard(t *testing.T, url string) *ward {
	t.Helper()
	w := &ward{T: t, DB: pgschema.NewReused(t, url, "")}
	var err error
	w.box, err = outbox.Open(outbox.Options{Schema: w.Schema, Ordering: outbox.PerKey, Telemetry: silent})
	must(t, err)
	w.jobs, err = jobs.Open(jobs.Options{Schema: w.Schema, Registry: kinds, Telemetry: silent})
	must(t, err)
	return w
}

// migrate creates the tables of the given domains, or of all.
func (w *ward) migrate(domains ...migrations.Domain) {
	w.Helper()
	text, err := migrations.SQL(migrations.FileOptions{Schema: w.Schema, Domains: domains})
	must(w, err)
	w.Define(w, text)
}

// kinds has a kind that any test may enqueue.
var kinds = func() *jobs.Registry {
	r := jobs.NewRegistry()
	jobs.Declare(r, jobs.KindOptions[letter]{})
	return r
}()

type letter struct{ To string }

func (letter) Kind() string { return "letter" }

// examine runs doctor and fails the test if anything was skipped.
func (w *ward) examine(change ...func(*doctor.Options)) doctor.Report {
	w.Helper()
	o := w.options()
	for _, c := range change {
		c(&o)
	}
	r, err := doctor.Examine(w.Context(), w.Pool, o)
	must(w, err)
	for _, s := range r.Skipped {
		w.Errorf("skipped: %+v", s)
	}
	w.took = r.Took
	return r
}

// options give an examination time even on a busy machine.
func (w *ward) options() doctor.Options {
	return doctor.Options{Schema: w.Schema, Timeout: 5 * time.Minute, StatementTimeout: time.Minute}
}

// all returns the findings with a code.
func (w *ward) all(code string, change ...func(*doctor.Options)) (found []doctor.Finding) {
	w.Helper()
	for _, f := range w.examine(change...).Findings {
		if f.Code == code {
			found = append(found, f)
		}
	}
	return found
}

// finds returns the only finding with a code whose title and evidence contain the texts.
func (w *ward) finds(code string, texts []string, change ...func(*doctor.Options)) doctor.Finding {
	w.Helper()
	found := w.all(code, change...)
	for _, f := range found {
		said := fmt.Sprint(f.Title, " ", f.Evidence, " ", f.Remedy)
		missing := false
		for _, text := range texts {
			missing = missing || !strings.Contains(said, text)
		}
		if !missing {
			w.complete(f)
			return f
		}
	}
	w.Fatalf("no finding %s with %q in %+v", code, texts, found)
	return doctor.Finding{}
}

// complete fails the test if the finding lacks something that an operator needs.
func (w *ward) complete(f doctor.Finding) {
	w.Helper()
	if f.Title == "" || strings.Contains(f.Title, "\n") || f.Meaning == "" || f.Remedy.Do == "" ||
		len(f.Evidence) == 0 || f.Severity == "" {
		w.Errorf("the finding is incomplete: %+v", f)
	}
	if f.Fixable && len(f.Remedy.SQL) == 0 {
		w.Errorf("nothing fixes the finding: %+v", f)
	}
}

// mends follows the remedy as printed, and checks that the finding with the texts is gone.
func (w *ward) mends(f doctor.Finding, texts []string, change ...func(*doctor.Options)) {
	w.Helper()
	for _, statement := range f.Remedy.SQL {
		w.exec(statement)
	}
	w.goneAfter(f, bySQL, texts, change...)
}

// ends follows the remedy as printed, which takes effect a moment later, when a session ends or a setting is read.
func (w *ward) ends(f doctor.Finding, texts []string, change ...func(*doctor.Options)) {
	w.Helper()
	took := w.took
	for _, statement := range f.Remedy.SQL {
		w.exec(statement)
	}
	w.becomes("mended", func() bool { return w.with(f.Code, texts, change...) == nil })
	w.took = took
	w.mended(f, bySQL)
}

// goneAfter checks that the last action has fixed the finding.
func (w *ward) goneAfter(f doctor.Finding, how string, texts []string, change ...func(*doctor.Options)) {
	w.Helper()
	took := w.took
	w.goneNow(f.Code, texts, change...)
	w.took = took
	if !w.Failed() {
		w.mended(f, how)
	}
}

// fixes lets doctor run the remedy.
func (w *ward) fixes(f doctor.Finding, texts []string, change ...func(*doctor.Options)) {
	w.Helper()
	must(w, doctor.Fix(w.Context(), w.Pool, f))
	w.goneAfter(f, byFix, texts, change...)
}

func (w *ward) goneNow(code string, texts []string, change ...func(*doctor.Options)) {
	w.Helper()
	if left := w.with(code, texts, change...); left != nil {
		w.Errorf("the finding has not gone away: %+v", *left)
	}
}

// with returns a finding that contains the texts, or nil.
func (w *ward) with(code string, texts []string, change ...func(*doctor.Options)) *doctor.Finding {
	w.Helper()
	for _, f := range w.all(code, change...) {
		said, missing := fmt.Sprint(f.Title, " ", f.Evidence), false
		for _, text := range texts {
			missing = missing || !strings.Contains(said, text)
		}
		if !missing {
			return &f
		}
	}
	return nil
}

// becomes waits until a condition holds.
func (w *ward) becomes(what string, condition func() bool) {
	w.Helper()
	if !pgtest.Await(patience, condition) {
		w.Fatalf("%s: not within %v", what, patience)
	}
}

func (w *ward) exec(statement string, args ...any) {
	w.Helper()
	args = append([]any{pgx.QueryExecModeExec}, args...)
	if _, err := w.Pool.Exec(w.Context(), statement, args...); err != nil {
		w.Fatalf("%s: %v", statement, err)
	}
}

func ask[T any](w *ward, query string, args ...any) (v T) {
	w.Helper()
	if err := w.Pool.QueryRow(w.Context(), query, args...).Scan(&v); err != nil {
		w.Fatalf("%s: %v", query, err)
	}
	return v
}

// in runs work in a transaction.
func (w *ward) in(work func(tx workqueue.Tx) error) {
	w.Helper()
	must(w, pgx.BeginFunc(w.Context(), w.Pool, func(tx pgx.Tx) error { return work(workqueue.Pgx(tx)) }))
}

// enqueue writes messages.
func (w *ward) enqueue(messages ...outbox.Message) []uuid.UUID {
	w.Helper()
	var enqueued []workqueue.Enqueued
	w.in(func(tx workqueue.Tx) (err error) {
		enqueued, err = w.box.EnqueueMany(w.Context(), tx, messages...)
		return err
	})
	return workqueue.IDs(enqueued)
}

// enqueueJobs writes jobs into a queue.
func (w *ward) enqueueJobs(queue string, n int) (ids []uuid.UUID) {
	w.Helper()
	w.in(func(tx workqueue.Tx) error {
		for range n {
			e, err := w.jobs.Enqueue(w.Context(), tx, jobs.Insert{Args: letter{"you"}, Queue: queue})
			if err != nil {
				return err
			}
			ids = append(ids, e.ID)
		}
		return nil
	})
	return ids
}

// messages returns n messages with a topic.
func messages(topic string, n int) []outbox.Message {
	all := make([]outbox.Message, n)
	for i := range all {
		all[i] = outbox.Message{Topic: topic, Payload: []byte("{}")}
	}
	return all
}

func (w *ward) queue() *workqueue.Queue { return w.box.Table().On(w.Pool) }

// fail makes messages dead letters.
func (w *ward) fail(cause string, ids ...uuid.UUID) {
	w.Helper()
	owner := workqueue.NewOwnerToken()
	_, err := w.queue().Fold(w.Context())
	must(w, err)
	_, err = w.queue().Claim(w.Context(), owner, time.Minute, workqueue.MaxBatch)
	must(w, err)
	_, err = w.queue().Fail(w.Context(), owner, ids, cause)
	must(w, err)
}

// session opens a connection with an application name. It is closed when the test ends.
func (w *ward) session(application string) *pgx.Conn {
	w.Helper()
	config, err := pgx.ParseConfig(w.URL)
	must(w, err)
	config.RuntimeParams["application_name"] = application
	conn, err := pgx.ConnectConfig(w.Context(), config)
	must(w, err)
	w.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (w *ward) says(conn *pgx.Conn, statements ...string) {
	w.Helper()
	for _, s := range statements {
		if _, err := conn.Exec(w.Context(), s); err != nil {
			w.Fatalf("%s: %v", s, err)
		}
	}
}

// thresholds changes some thresholds.
func thresholds(change func(*doctor.Thresholds)) func(*doctor.Options) {
	return func(o *doctor.Options) { change(&o.Thresholds) }
}

// as returns a pool of a new role that can log in. The role is dropped with the test.
func (w *ward) as(rights ...string) (role string, pool *pgxpool.Pool) {
	w.Helper()
	role = "r_" + strings.ToLower(w.Schema[2:12])
	w.exec("CREATE ROLE " + role + " LOGIN")
	w.Cleanup(func() {
		ctx := context.Background()
		for _, s := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if _, err := w.Pool.Exec(ctx, s); err != nil {
				w.Errorf("%s: %v", s, err)
			}
		}
	})
	for _, r := range rights {
		w.exec(strings.ReplaceAll(strings.ReplaceAll(r, "{role}", role), "{schema}", w.Schema))
	}
	return role, pgschema.NewPool(w, w.URL, func(c *pgxpool.Config) { c.ConnConfig.User = role })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
