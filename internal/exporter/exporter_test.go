package exporter_test

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/exporter"
	"github.com/txwork/txwork/internal/exporter/exportertest"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/reaper"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A ward reads its figures by their labels.
type ward struct{ *exportertest.Ward }

func newWard(t *testing.T, options ...pgtest.Option) ward {
	t.Helper()
	t.Parallel()
	return ward{exportertest.New(t, options...)}
}

// values returns the values of a metric, by its labels as Prometheus writes them. Table names are without the schema.
func (w ward) values(scrape []exportertest.Sample, name string) map[string]float64 {
	all := map[string]float64{}
	for _, sample := range scrape {
		if sample.Name != name {
			continue
		}
		var labels []string
		for _, l := range slices.Sorted(maps.Keys(sample.Labels)) {
			labels = append(labels, strings.TrimPrefix(l, "txwork_")+"="+strings.TrimPrefix(sample.Labels[l], w.Schema+
				"."))
		}
		all[strings.ReplaceAll(strings.Join(labels, " "), "messaging_destination_name=", "")] = sample.Value
	}
	return all
}

// near compares ages with a tolerance, because the test may take a while.
func near(got, want float64) bool { return got >= want && got < want+1000 }

func TestTheGauges(t *testing.T) {
	w := newWard(t)
	for name, n := range map[string]int{"ready": 1, "scheduled": 2, "running": 3, "expired": 4, "waiting": 5, "done": 6,
		"dead": 7, "dead before": 8} {
		w.Put("outbox", name, n)
	}
	for name, n := range map[string]int{"ready": 3, "scheduled": 2, "running": 1} {
		w.Put("jobs", name, n)
	}
	w.Exec("INSERT INTO " + w.Schema + ".jobs (kind, queue, priority, args) VALUES ('k', 'reports', 2, '{}')")
	scrape := w.Scrape()
	depth := w.values(scrape, "txwork_queue_depth")
	for labels, want := range map[string]float64{
		"outbox state=ready": 1, "outbox state=scheduled": 2, "outbox state=in_progress": 7, "outbox state=waiting": 5,
		"outbox state=dead_letter":    15,
		"jobs queue=mail state=ready": 3, "jobs queue=mail state=scheduled": 2, "jobs queue=mail state=in_progress": 1,
		"jobs queue=reports state=ready": 1, "jobs queue=reports state=in_progress": 0, "timers state=ready": 0,
		"timers_schedule state=dead_letter": 0,
	} {
		if got, found := depth[labels]; !found || got != want {
			t.Errorf("depth %s is %v, want %v; there are %v", labels, got, want, slices.Sorted(maps.Keys(depth)))
		}
	}
	age := w.values(scrape, "txwork_queue_age_seconds")
	for labels, want := range map[string]float64{"outbox state=ready": 1000, "outbox state=expired": 2500,
		"outbox state=waiting": 4000, "jobs queue=mail state=ready": 1000} {
		if !near(age[labels], want) {
			t.Errorf("age %s is %v, want %v", labels, age[labels], want)
		}
	}
	for metric, want := range map[string]map[string]float64{
		"txwork_queue_dead_letters_last_hour": {"outbox": 7, "jobs": 0},
		"txwork_lease_overrun":                {"outbox": 4, "jobs queue=reports": 0},
		"txwork_topic_unavailable_seconds":    {"outbox": 0},
		"txwork_key_blocked":                  {"outbox": 0},
		"txwork_fold_lag_seconds":             {"outbox": 0, "jobs": 0},
		"txwork_schedule_lateness_seconds":    {"timers_schedule": 0, "jobs_schedule": 0},
		"txwork_join_stuck":                   {"outbox": 0, "jobs": 0},
		"txwork_observation_up":               {"": 1},
		"txwork_observation_skipped":          {"": 0},
	} {
		got := w.values(scrape, metric)
		for labels, v := range want {
			if g, found := got[labels]; !found || g != v {
				t.Errorf("%s %s is %v, want %v", metric, labels, got, v)
			}
		}
	}
}

// Exactly the listed metrics are exported, with their kinds and attributes.
func TestTheListOfGauges(t *testing.T) {
	w := newWard(t)
	w.Put("outbox", "running", 1)
	w.Put("jobs", "running", 1)
	w.Put("inbox", "running", 1)
	w.MakeLog()
	w.Exec("INSERT INTO " + w.Schema + ".outbox_log_parked (subscription, message_id, seq, appended_at, topic, payload) " +
		"VALUES ('billing', gen_random_uuid(), 1, now(), 't', '')")
	w.Exec("INSERT INTO " + w.Schema + ".leader (name, term, holder, expires_at, granted_at) VALUES ('" + w.Schema +
		".outbox', 1, gen_random_uuid(), now(), now())")
	found := map[string]map[string]bool{}
	for _, sample := range w.Scrape() {
		if found[sample.Name] == nil {
			found[sample.Name] = map[string]bool{}
		}
		for label := range sample.Labels {
			found[sample.Name][label] = true
		}
	}
	text := w.Text()
	for _, g := range reaper.Gauges() {
		name := exporter.Name(g)
		if !strings.Contains(text, "# HELP "+name+" "+g.Meaning+"\n# TYPE "+name+" gauge\n") {
			t.Errorf("the text has no gauge %s", name)
		}
		want := map[string]bool{}
		for _, a := range g.Attributes {
			want[exporter.Label(a)] = true
		}
		if !maps.Equal(found[name], want) {
			t.Errorf("%s has the labels %v, want %v", name, found[name], want)
		}
		delete(found, name)
	}
	for name := range found {
		t.Errorf("%s is exported and not listed", name)
	}
}

// A log reports how far its subscriptions are behind.
func TestTheGaugesOfALog(t *testing.T) {
	w := newWard(t)
	w.MakeLog()
	scrape := w.Scrape()
	const billing, paused = "outbox_log subscription=billing", "outbox_log subscription=paused"
	for metric, want := range map[string]map[string]float64{
		"txwork_subscription_lag":                 {billing: 3, paused: 3},
		"txwork_subscription_lag_bounded":         {billing: 0, paused: 0},
		"txwork_subscription_in_hand":             {billing: 1, paused: 0},
		"txwork_subscription_paused":              {billing: 0, paused: 1},
		"txwork_subscription_unavailable_seconds": {billing: 0, paused: 0},
		"txwork_log_tick":                         {"outbox_log": 2},
		"txwork_log_restored":                     {"outbox_log": 0},
		"txwork_log_scheduled":                    {"outbox_log": 2},
		"txwork_log_overdue_seconds":              {"outbox_log": 0},
		"txwork_observation_skipped":              {"": 0},
	} {
		if got := w.values(scrape, metric); !maps.Equal(got, want) {
			t.Errorf("%s is %v, want %v", metric, got, want)
		}
	}
	for metric, labels := range map[string]string{"txwork_subscription_age_seconds": billing,
		"txwork_log_unticked_seconds": "outbox_log", "txwork_log_age_seconds": "outbox_log"} {
		if got := w.values(scrape, metric)[labels]; !near(got, 1000) {
			t.Errorf("%s %s is %v, want 1000", metric, labels, got)
		}
	}
	lanes := w.values(scrape, "txwork_lane_lag") // only of the subscription that has several
	first, second := lanes["outbox_log lane=0 subscription=paused"], lanes["outbox_log lane=1 subscription=paused"]
	if len(lanes) != 2 || first+second != 3 {
		t.Errorf("the lanes are behind by %v", lanes)
	}
	kept := w.values(scrape, "txwork_subscription_retained_bytes")[billing]
	size := w.values(scrape, "txwork_log_size_bytes")
	if kept <= 0 || size["outbox_log"] < kept {
		t.Errorf("%v bytes are kept for a subscription, of %v", kept, size)
	}
}

// A schedule that no scheduler runs is late; a paused one is not.
func TestOverdueSchedules(t *testing.T) {
	w := newWard(t)
	w.Put("jobs_schedule", "ready", 2)
	w.Exec("UPDATE " + w.Schema +
		".jobs_schedule SET paused = true, due_at = due_at - interval '1 day' WHERE name = 's1'")
	late := func() float64 { return w.values(w.Scrape(), "txwork_schedule_lateness_seconds")["jobs_schedule"] }
	if late := late(); !near(late, 1000) {
		t.Errorf("the schedule is %v s late, want 1000", late)
	}
	// Failed attempts put off the due time, but not what is owed.
	w.Exec("UPDATE " + w.Schema + ".jobs_schedule SET attempts = 28, due_at = now() + interval '1 minute', " +
		"next_at = now() - interval '28 minutes' WHERE name <> 's1'")
	if late := late(); !near(late, 1680) {
		t.Errorf("the schedule that fails is %v s late, want 1680", late)
	}
}

// Depths stop at a bound and say so, and rows beyond it do not hide other figures.
func TestDepthsAreBounded(t *testing.T) {
	w := newWard(t)
	w.Put("outbox", "dead before", 20_500)
	w.Put("outbox", "scheduled", 20_500)
	w.Exec("UPDATE " + w.Schema + ".outbox SET due_at = due_at + interval '1 day' WHERE status = 0")
	w.Put("jobs", "dead before", 300)
	w.Put("jobs", "ready", 49_000)
	// What a cancel has ended is no dead letter, and does not use up their bound.
	w.Put("jobs", "dead", 20_500)
	w.Exec("UPDATE " + w.Schema + ".jobs SET cancelled_at = completed_at WHERE failed_at > now() - interval '1 hour'")
	scrape := w.Scrape()
	depth, bounded := w.values(scrape, "txwork_queue_depth"), w.values(scrape, "txwork_queue_depth_bounded")
	for labels, want := range map[string]struct{ depth, bounded float64 }{
		"outbox state=dead_letter": {20_000, 1}, "outbox state=scheduled": {20_000, 1}, "outbox state=ready": {0, 0},
		"jobs state=dead_letter": {300, 0}, "jobs queue=mail state=ready": {49_000, 0},
	} {
		if depth[labels] != want.depth || bounded[labels] != want.bounded {
			t.Errorf("%s: %v, bounded %v, want %+v", labels, depth[labels], bounded[labels], want)
		}
	}
}

// The bound is not split in equal parts over lanes of which most need less.
func TestDepthsOfManyLanes(t *testing.T) {
	w := newWard(t)
	w.Put("jobs", "ready", 14_000)
	w.Put("jobs", "scheduled", 12_000)
	w.Exec("UPDATE " + w.Schema + ".jobs SET priority = 1, queue = CASE WHEN right(id::text, 2) < '10' THEN 'q' || " +
		"right(id::text, 1) ELSE queue END")
	scrape := w.Scrape()
	sum := map[string]float64{}
	for labels, n := range w.values(scrape, "txwork_queue_depth") {
		if _, state, jobs := strings.Cut(labels, " state="); jobs && strings.HasPrefix(labels, "jobs queue=") {
			sum[state] += n
		}
	}
	if sum["ready"] != 14_000 || sum["scheduled"] != 12_000 {
		t.Errorf("depths %v", sum)
	}
	for labels, is := range w.values(scrape, "txwork_queue_depth_bounded") {
		if is != 0 {
			t.Errorf("%s is bounded", labels)
		}
	}
}

// Rows in progress, and those whose lease has expired, are found behind many older rows that are ready.
func TestRowsInProgressBehindABacklog(t *testing.T) {
	w := newWard(t)
	w.Put("outbox", "ready", 20_500)
	w.Exec("UPDATE " + w.Schema + ".outbox SET due_at = now() - interval '1 day'")
	w.Put("outbox", "running", 20)
	w.Put("outbox", "expired", 3)
	scrape := w.Scrape()
	depth := w.values(scrape, "txwork_queue_depth")
	if n, over := depth["outbox state=in_progress"], w.values(scrape, "txwork_lease_overrun")["outbox"]; n != 23 ||
		over != 3 {
		t.Errorf("%v in progress, %v with an expired lease", n, over)
	}
}

// If row-level security hides rows, the scrape says that something is missing.
func TestRowsThatAreHidden(t *testing.T) {
	w := newWard(t)
	w.Exec("ALTER TABLE " + w.Schema + ".outbox ENABLE ROW LEVEL SECURITY; ALTER TABLE " + w.Schema +
		".outbox FORCE ROW LEVEL SECURITY")
	role := "r_" + strings.ToLower(w.Schema[2:12])
	w.Exec("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + w.Schema + " TO " + role +
		"; GRANT SELECT ON ALL TABLES IN SCHEMA " + w.Schema + " TO " + role)
	t.Cleanup(func() {
		if _, err := w.Pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	config := w.Pool.Config().Copy()
	config.ConnConfig.User = role
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	w.Must(err)
	t.Cleanup(pool.Close)
	e, err := exporter.New(pool, reaper.GaugeOptions{Schema: w.Schema, Timeout: time.Minute,
		StatementTimeout: time.Minute})
	w.Must(err)
	w.Cleanup(func() { w.Must(e.Close()) })
	w.Exporter = e
	if skipped := w.values(w.Scrape(), "txwork_observation_skipped")[""]; skipped != 1 {
		t.Errorf("%v skipped", skipped)
	}
}

// counted counts the observations that a pool makes.
type counted struct {
	mu sync.Mutex
	n  int
}

func (c *counted) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "pg_stat_get_dead_tuples") { // the first statement of an observation
		c.mu.Lock()
		c.n++
		c.mu.Unlock()
	}
	return ctx
}

func (c *counted) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Scrapes at the same time, or soon after each other, share one observation.
func TestScrapesShareAnObservation(t *testing.T) {
	c := &counted{}
	w := newWard(t, pgtest.WithPool(func(config *pgxpool.Config) { config.ConnConfig.Tracer = c }))
	w.Export(reaper.GaugeOptions{Freshness: time.Hour})
	var scrapes sync.WaitGroup
	for range 8 {
		scrapes.Go(func() {
			answer := httptest.NewRecorder()
			w.Exporter.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
			if !strings.Contains(answer.Body.String(), "txwork_observation_up 1\n") {
				t.Error(answer.Body)
			}
		})
	}
	scrapes.Wait()
	if c.n != 1 {
		t.Errorf("8 scrapes made %d observations", c.n)
	}
}

// A locked table costs only its own gauges, and the scrape says that something is missing.
func TestALockedTable(t *testing.T) {
	w := newWard(t)
	w.Put("jobs", "ready", 1)
	tx, err := w.Pool.Begin(t.Context())
	w.Must(err)
	defer tx.Rollback(context.Background())
	_, err = tx.Exec(t.Context(), "LOCK TABLE "+w.Schema+".outbox")
	w.Must(err)
	scrape := w.Scrape()
	depth := w.values(scrape, "txwork_queue_depth")
	if _, found := depth["outbox state=ready"]; found || depth["jobs queue=mail state=ready"] != 1 {
		t.Errorf("depths %v", depth)
	}
	if skipped := w.values(scrape, "txwork_observation_skipped")[""]; skipped == 0 {
		t.Error("nothing was skipped")
	}
}

// If the database cannot be reached, there are no gauges and the scrape says so.
func TestADatabaseThatIsAway(t *testing.T) {
	w := newWard(t)
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	w.Must(err)
	defer pool.Close()
	log := &strings.Builder{}
	e, err := exporter.New(pool, reaper.GaugeOptions{Freshness: time.Nanosecond,
		Logger: slog.New(slog.NewTextHandler(log, nil))})
	w.Must(err)
	defer func() { w.Must(e.Close()) }()
	for range 3 {
		answer := httptest.NewRecorder()
		e.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
		body, err := io.ReadAll(answer.Body)
		w.Must(err)
		if answer.Code != 200 || !strings.Contains(string(body), "txwork_observation_up 0\n") ||
			strings.Contains(string(body), "depth") {
			t.Errorf("status %d: %s", answer.Code, body)
		}
	}
	if n := strings.Count(log.String(), "gauges cannot be observed"); n != 1 {
		t.Errorf("the log has %d lines of it: %s", n, log)
	}
}
