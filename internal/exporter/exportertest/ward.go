// Package exportertest creates a schema with rows in every state, and scrapes an exporter of it.
package exportertest

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/exporter"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/reaper"
)

// A Ward is a schema with the tables of txwork, and an exporter of it.
type Ward struct {
	testing.TB
	*pgtest.DB
	Exporter *exporter.Exporter
}

// New makes a Ward. Each scrape observes the database anew.
func New(t testing.TB, options ...pgtest.Option) *Ward {
	t.Helper()
	w := &Ward{TB: t, DB: pgtest.New(t, options...)}
	w.migrate()
	w.Export(reaper.GaugeOptions{})
	return w
}

func (w *Ward) migrate(domains ...migrations.Domain) {
	w.Helper()
	m, err := migrations.New(w.Pool, migrations.Options{Schema: w.Schema, Domains: domains,
		Logger: slog.New(slog.DiscardHandler)})
	w.Must(err)
	_, err = m.Up(w.Context())
	w.Must(err)
}

// MakeLog adds an outbox that is a log, with two subscriptions, billing and a paused one of two lanes, and
// messages that are 1000 seconds old: two in a page that a consumer of billing has in hand, and one that no tick has
// seen. Two are scheduled.
func (w *Ward) MakeLog() {
	w.Helper()
	w.migrate(migrations.Log)
	log := w.Schema + ".outbox_log"
	write := func(n int) {
		w.Exec("INSERT INTO " + log + " (topic, payload, created_at) SELECT 't', '', now() - interval '1000 s' " +
			fmt.Sprintf("FROM generate_series(1, %d)", n))
	}
	w.Exec("CALL " + log + "_tick()")
	w.Exec("SELECT " + log + "_subscribe('billing'), " + log + "_subscribe('paused', lanes => 2)")
	w.Exec("SELECT " + log + "_pause('paused')")
	write(2)
	w.Exec("CALL " + log + "_tick()")
	w.Exec("SELECT " + log + "_fetch('billing', gen_random_uuid(), '1 hour', 10)")
	write(1)
	w.Exec("SELECT " + log + "_append('t', '', scheduled_at => now() + interval '1 hour'), " + log +
		"_append('t', '', scheduled_at => now() + interval '1 hour')")
}

// Must fails the test if there is an error.
func (w *Ward) Must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// Export makes another exporter, with a timeout that suffices on a busy machine.
func (w *Ward) Export(o reaper.GaugeOptions) {
	w.Helper()
	o.Schema, o.Logger = w.Schema, slog.New(slog.DiscardHandler)
	if o.Timeout == 0 {
		o.Timeout, o.StatementTimeout = time.Minute, time.Minute
	}
	o.Freshness = cmp.Or(o.Freshness, time.Nanosecond)
	e, err := exporter.New(w.Pool, o)
	w.Must(err)
	w.Cleanup(func() { w.Must(e.Close()) })
	w.Exporter = e
}

// Exec runs SQL.
func (w *Ward) Exec(statement string) {
	w.Helper()
	_, err := w.Pool.Exec(w.Context(), statement, pgx.QueryExecModeSimpleProtocol)
	w.Must(err)
}

// A Sample is one line of a scrape.
type Sample struct {
	Name   string
	Labels map[string]string
	Value  float64
}

// Text returns the exporter's answer.
func (w *Ward) Text() string {
	w.Helper()
	answer := httptest.NewRecorder()
	w.Exporter.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	if answer.Code != 200 {
		w.Fatalf("status %d: %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

var (
	line  = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? (\S+)$`)
	label = regexp.MustCompile(`([a-z_]+)="([^"\\]*)"`)
)

// Scrape returns the exporter's answer as samples.
func (w *Ward) Scrape() (all []Sample) {
	w.Helper()
	for text := range strings.Lines(w.Text()) {
		if strings.HasPrefix(text, "#") {
			continue
		}
		m := line.FindStringSubmatch(strings.TrimSuffix(text, "\n"))
		if m == nil {
			w.Fatalf("%q is no sample", text)
		}
		value, err := strconv.ParseFloat(m[3], 64)
		w.Must(err)
		sample := Sample{m[1], map[string]string{}, value}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			sample.Labels[l[1]] = l[2]
		}
		all = append(all, sample)
	}
	return all
}

// states are the values of the columns that every table has, in the order of their list.
var states = map[string]string{
	"ready":     "0, 0, now() - interval '1000 s', now() - interval '1000 s', NULL, NULL, NULL, NULL, false",
	"scheduled": "0, 0, now() + interval '1 day', now(), NULL, NULL, NULL, NULL, false",
	"running":   "1, 1, now() - interval '2000 s', now(), now() + interval '1 day', gen_random_uuid(), NULL, NULL, false",
	"expired": "1, 1, now() - interval '3000 s', now(), now() - interval '2500 s', gen_random_uuid(), NULL, " +
		"NULL, false",
	"waiting": "0, 0, now() - interval '1 s', now() - interval '4000 s', NULL, NULL, NULL, NULL, true",
	"done":    "2, 1, now() - interval '1 h', now(), NULL, gen_random_uuid(), now() - interval '1 s', NULL, false",
	"dead": "3, 1, now() - interval '1 h', now(), NULL, gen_random_uuid(), now() - interval '10 min', now() - " +
		"interval '10 min', false",
	"dead before": "3, 1, now() - interval '1 d', now(), NULL, gen_random_uuid(), now() - interval '1 d', now() - " +
		"interval '1 d', false",
}

// domains are the further columns of each table, with their values.
var domains = map[string]struct{ columns, values string }{
	"outbox": {"topic, payload", "'a', '{}'"},
	"inbox":  {"consumer, source, message_id, topic, payload", "'billing', 's', 'm' || i, 'a', '{}'"},
	"jobs":   {"kind, queue, priority, args", "'k', 'mail', 1 + i % 2, '{}'"},
	"jobs_schedule": {"name, paused, expr, zone, misfire, overlap, template, grace, jitter, fired, skipped, cap",
		"'s' || i, false, '@daily', 'UTC', 'skip', 'skip', '{}', 0, 0, 0, 0, 1"},
}

// Put writes n rows of a state without running triggers: ready for 1000 s, scheduled in a day, running, expired for
// 2500 s, waiting for 4000 s, done, dead for 10 minutes, or dead for longer. Jobs are in queue mail.
func (w *Ward) Put(table, state string, n int) {
	w.Helper()
	d := domains[table]
	w.Exec(fmt.Sprintf(`SET session_replication_role = replica;
		INSERT INTO %s (id, %s, status, attempts, due_at, created_at, locked_until, owner_token, completed_at, failed_at, waiting)
		SELECT gen_random_uuid(), %s, %s FROM generate_series(1, %d) AS g (i);
		RESET session_replication_role`, pgx.Identifier{w.Schema, table}.Sanitize(), d.columns, d.values, states[state], n))
}
