// Package deploy_test checks the rules and the dashboard of this directory, with Prometheus' own parser and engine,
// against what txwork exports. It is a separate module, so that only its users get the dependencies of these tests.
package deploy_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/otlptranslator"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/internal/exporter"
	"github.com/txwork/txwork/internal/exporter/exportertest"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue/metrics"
)

const (
	rulesFile     = "prometheus-rules.yaml"
	dashboardFile = "grafana-dashboard.json"
	runbooks      = "../docs/runbooks"
)

var promQL = parser.NewParser(parser.Options{})

// alerts returns the rules by name.
func alerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	text, err := os.ReadFile(rulesFile)
	must(t, err)
	groups, errs := rulefmt.Parse(text, false, model.LegacyValidation, promQL)
	for _, err := range errs {
		t.Fatal(err)
	}
	all := map[string]rulefmt.Rule{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if _, twice := all[r.Alert]; twice || r.Alert == "" {
				t.Errorf("alert %q is defined twice, or has no name", r.Alert)
			}
			all[r.Alert] = r
		}
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Every alert has a runbook that names the doctor's finding, and every runbook belongs to an alert.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	var codes []string
	for _, k := range doctor.Kinds() {
		codes = append(codes, k.Code)
	}
	index, err := os.ReadFile(filepath.Join(runbooks, "README.md"))
	must(t, err)
	pages, err := os.ReadDir(runbooks)
	must(t, err)
	all := alerts(t)
	if len(pages) != len(all)+1 {
		t.Errorf("%d pages for %d alerts", len(pages)-1, len(all))
	}
	for name, a := range all {
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" ||
			!slices.Contains([]string{"warning", "critical"}, a.Labels["severity"]) {
			t.Errorf("%s lacks a summary, a description or a severity", name)
		}
		page := filepath.Base(a.Annotations["runbook_url"])
		text, err := os.ReadFile(filepath.Join(runbooks, page))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.HasPrefix(string(text), "# "+name+"\n") ||
			!strings.Contains(string(index), "["+name+"]("+page+")") {
			t.Errorf("%s: %s is not its page, or is not in the list of runbooks", name, page)
		}
		for _, part := range []string{"the doctor:**", "\n## Diagnose\n", "\n## Fix\n", "txwork doctor\n", "```sql\n"} {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s lacks %q", page, part)
			}
		}
		_, finding, _ := strings.Cut(string(text), "the doctor:**")
		finding, _, _ = strings.Cut(finding, "\n\n")
		named := slices.ContainsFunc(codes, func(code string) bool { return strings.Contains(finding, "`"+code+"`") })
		if without := name == "TxworkNotObserved" || name == "TxworkObservationIncomplete"; named == without {
			t.Errorf("%s names no finding of the doctor: %s", page, finding)
		}
	}
}

// The queries in the runbooks work.
func TestTheSQLOfRunbooks(t *testing.T) {
	t.Parallel()
	w := exportertest.New(t)
	w.MakeLog()
	pages, err := filepath.Glob(filepath.Join(runbooks, "*.md"))
	must(t, err)
	asked := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		must(t, err)
		for i, block := range strings.Split(string(text), "```sql\n")[1:] {
			block, _, _ := strings.Cut(block, "```")
			block = strings.NewReplacer("txwork.", w.Schema+".", "'txwork'", "'"+w.Schema+"'").Replace(block)
			for statement := range strings.SplitSeq(block, ";\n") {
				if strings.TrimSpace(statement) == "" {
					continue
				}
				asked++
				if _, err := w.Pool.Exec(t.Context(), statement); err != nil {
					t.Errorf("%s, block %d: %s: %v", page, i+1, statement, err)
				}
			}
		}
	}
	if asked < 15 {
		t.Errorf("only %d statements were found", asked)
	}
}

// exported returns the possible labels of the metrics, by their names in Prometheus. They come from the list, which
// tests of packages workqueue and exporter compare with what is exported.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, m := range slices.Concat(metrics.Workers(), reaper.Gauges()) {
		name, labels := exporter.Name(m), []string(nil)
		for _, a := range m.Attributes {
			labels = append(labels, exporter.Label(a))
		}
		if m.Instrument == "histogram" {
			name, labels = name+"_bucket", append(labels, "le")
		}
		all[name] = labels
	}
	return all
}

// Our names are those that OpenTelemetry's rules derive for Prometheus.
func TestNamesInPrometheus(t *testing.T) {
	t.Parallel()
	kinds := map[string]otlptranslator.MetricType{
		"counter":         otlptranslator.MetricTypeMonotonicCounter,
		"up-down counter": otlptranslator.MetricTypeNonMonotonicCounter, "gauge": otlptranslator.MetricTypeGauge,
		"histogram": otlptranslator.MetricTypeHistogram,
	}
	for _, m := range slices.Concat(metrics.Workers(), reaper.Gauges()) {
		namer := otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes)
		want, err := namer.Build(otlptranslator.Metric{Name: m.Name, Unit: m.Unit, Type: kinds[m.Instrument]})
		must(t, err)
		if got := exporter.Name(m); got != want {
			t.Errorf("%s is %s, want %s", m.Name, got, want)
		}
	}
}

// ofALog are the names of gauges that only an outbox that is a log has.
var ofALog = regexp.MustCompile(`^txwork\.(log|subscription|lane)\.`)

// Prometheus' own parser accepts what is exported, whatever the names of queues.
func TestTheTextIsPrometheus(t *testing.T) {
	t.Parallel()
	w := exportertest.New(t)
	names := []string{"mail", `a"b\c`, "new\nline", "{x=\"y\"} 7"}
	for _, name := range names {
		_, err := w.Pool.Exec(t.Context(), "INSERT INTO "+w.Schema+
			".jobs (kind, queue, priority, args) VALUES ('k', $1, 2, '{}')", name)
		must(t, err)
	}
	reader := expfmt.NewTextParser(model.LegacyValidation)
	families, err := reader.TextToMetricFamilies(strings.NewReader(w.Text()))
	must(t, err)
	var read []string
	for _, m := range families["txwork_queue_depth"].GetMetric() {
		for _, l := range m.Label {
			if l.GetName() == "txwork_queue" && !slices.Contains(read, l.GetValue()) {
				read = append(read, l.GetValue())
			}
		}
	}
	slices.Sort(names)
	if slices.Sort(read); !slices.Equal(read, names) {
		t.Errorf("the queues are %q, want %q", read, names)
	}
	want := -2 // no reaper has led
	for _, g := range reaper.Gauges() {
		if !ofALog.MatchString(g.Name) { // there is none
			want++
		}
	}
	if len(families) != want {
		t.Errorf("there are %d metrics, want %d: %v", len(families), want, slices.Sorted(maps.Keys(families)))
	}
}

// checkNames finds metrics and labels in an expression that are not exported.
func checkNames(t *testing.T, where, expression string, metrics map[string][]string) {
	t.Helper()
	parsed, err := promQL.ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %s: %v", where, expression, err)
		return
	}
	var known []string // labels of the metrics in the expression
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		s, is := node.(*parser.VectorSelector)
		if !is {
			return nil
		}
		names, found := metrics[s.Name]
		if !found {
			t.Errorf("%s: nothing exports %s", where, s.Name)
		}
		known = append(known, names...)
		for _, m := range s.LabelMatchers {
			if m.Name != model.MetricNameLabel && !slices.Contains(names, m.Name) {
				t.Errorf("%s: %s has no label %s", where, s.Name, m.Name)
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		var by []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			by = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				by = n.VectorMatching.MatchingLabels
			}
		}
		for _, name := range by {
			if !slices.Contains(known, name) {
				t.Errorf("%s: no metric of %s has the label %s", where, expression, name)
			}
		}
		return nil
	})
}

func TestNamesInRules(t *testing.T) {
	t.Parallel()
	metrics := exported(t)
	for name, a := range alerts(t) {
		checkNames(t, name, a.Expr, metrics)
	}
}

// A dashboard is the part of Grafana's format that is checked.
type dashboard struct {
	Templating struct {
		List []struct {
			Name, Type string
			Definition string
		}
	}
	Panels []struct {
		ID      int
		Title   string
		Type    string
		GridPos struct{ H, W, X, Y int }
		Targets []struct{ Expr, LegendFormat string }
	}
}

func TestNamesInTheDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(dashboardFile)
	must(t, err)
	var d dashboard
	must(t, json.Unmarshal(text, &d))
	metrics, shown, ids := exported(t), map[string]bool{}, map[int]bool{}
	instead := strings.NewReplacer("$__rate_interval", "5m", "$table", "All")
	for _, p := range d.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 || p.Title == "" {
			t.Errorf("panel %d %q: its id is used twice, it is too wide, or it has no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %q of type %s has %d targets", p.Title, p.Type, len(p.Targets))
		}
		for _, target := range p.Targets {
			checkNames(t, p.Title, instead.Replace(target.Expr), metrics)
			for name := range metrics {
				if strings.Contains(target.Expr, name) {
					shown[name] = true
				}
			}
		}
	}
	for _, g := range exportedGauges(t) {
		if !shown[g] && g != "txwork_transaction_horizon" { // its age is shown instead
			t.Errorf("no panel shows %s", g)
		}
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" && v.Definition != "label_values(txwork_queue_depth, messaging_destination_name)" {
			t.Errorf("variable %s asks for %s", v.Name, v.Definition)
		}
	}
}

func exportedGauges(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(slices.Collect(maps.Keys(exported(t))), func(name string) bool {
		return !strings.HasPrefix(name, "txwork_") || strings.HasSuffix(name, "_total") ||
			strings.HasSuffix(name, "_bucket")
	})
}

// step is the time between two scrapes, and over is how long they continue.
const (
	step = 15 * time.Second
	over = 40 * time.Minute
)

// A history is what Prometheus would have after repeated scrapes of the same state.
type history []storage.Series

// repeat makes a history from one scrape. The metrics in grows are ages of something that stays, so they increase.
func repeat(t testing.TB, scrape []exportertest.Sample, grows ...string) (h history) {
	for _, sample := range scrape {
		set := []string{model.MetricNameLabel, sample.Name}
		for name, value := range sample.Labels {
			set = append(set, name, value)
		}
		chunk := chunkenc.NewXORChunk()
		to, err := chunk.Appender()
		must(t, err)
		for at := time.Duration(0); at <= over; at += step {
			v := sample.Value
			if slices.Contains(grows, sample.Name) {
				v += at.Seconds()
			}
			to.Append(0, at.Milliseconds(), v)
		}
		h = append(h, &storage.SeriesEntry{Lset: labels.FromStrings(set...), SampleIteratorFn: chunk.Iterator})
	}
	return h
}

// Querier provides the history to Prometheus' engine.
func (h history) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints,
		matchers ...*labels.Matcher) storage.SeriesSet {
		set := &seriesSet{at: -1}
		for _, s := range h {
			if !slices.ContainsFunc(matchers,
				func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
				set.all = append(set.all, s)
			}
		}
		slices.SortFunc(set.all, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
		return set
	}}, nil
}

type seriesSet struct {
	all []storage.Series
	at  int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at < len(s.all) }
func (s *seriesSet) At() storage.Series                { return s.all[s.at] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// fires returns the labels for which an alert fires at the end of a history: those for which its expression has held
// long enough.
func fires(t *testing.T, a rulefmt.Rule, h history) (firing []labels.Labels) {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
		Parser: promQL})
	defer engine.Close()
	active := map[string]int{}
	steps := 0
	for at := over - time.Duration(a.For); at <= over; at += step {
		steps++
		query, err := engine.NewInstantQuery(context.Background(), h, nil, a.Expr, time.UnixMilli(at.Milliseconds()))
		must(t, err)
		result := query.Exec(context.Background())
		must(t, result.Err)
		vector, err := result.Vector()
		must(t, err)
		for _, sample := range vector {
			key := sample.Metric.String()
			if active[key]++; active[key] == steps && at+step > over {
				firing = append(firing, sample.Metric)
			}
		}
		query.Close()
	}
	return firing
}

// leads makes a reaper lead every table.
func leads(w *exportertest.Ward) {
	w.Exec("INSERT INTO " + w.Schema + ".leader (name, term, holder, expires_at, granted_at) SELECT '" + w.Schema +
		".' || t, 1, gen_random_uuid(), now() + interval '1 day', now() FROM unnest(ARRAY['outbox', 'inbox', 'timers', " +
		"'timers_schedule', 'jobs', 'jobs_schedule']) AS t")
}

// No alert fires while nothing is wrong, however much there is to do.
func TestNoAlertFiresForAHealthySystem(t *testing.T) {
	t.Parallel()
	w := exportertest.New(t)
	leads(w)
	for _, state := range []string{"scheduled", "running", "waiting", "done", "dead before"} {
		w.Put("outbox", state, 100)
		w.Put("jobs", state, 100)
	}
	w.Put("jobs_schedule", "scheduled", 10)
	w.Exec("UPDATE " + w.Schema +
		".outbox SET due_at = now() WHERE status = 0 AND NOT waiting AND id IN (SELECT id FROM " + w.Schema +
		".outbox LIMIT 30)")
	h := repeat(w, w.Scrape())
	for name, a := range alerts(t) {
		for _, l := range fires(t, a, h) {
			t.Errorf("%s fires for %s", name, l)
		}
	}
}

// troubles create the problem that each alert is for. If a table is given, the alert has to fire for that table.
var troubles = map[string]struct {
	table string
	make  func(w *exportertest.Ward) history
}{
	"TxworkNotObserved": {"", func(w *exportertest.Ward) history {
		w.Pool.Close()
		return repeat(w, w.Scrape())
	}},
	"TxworkObservationIncomplete": {"", func(w *exportertest.Ward) history {
		tx, err := w.Pool.Begin(w.Context())
		must(w, err)
		defer tx.Rollback(context.Background())
		_, err = tx.Exec(w.Context(), "LOCK TABLE "+w.Schema+".outbox")
		must(w, err)
		return repeat(w, w.Scrape())
	}},
	"TxworkBacklog": {"outbox", func(w *exportertest.Ward) history {
		w.Put("outbox", "ready", 10)
		w.Put("outbox", "running", 10)
		return repeat(w, w.Scrape())
	}},
	"TxworkUnserved": {"jobs", func(w *exportertest.Ward) history {
		w.Put("jobs", "ready", 10)
		return repeat(w, w.Scrape())
	}},
	"TxworkSubscriptionBehind": {"outbox_log", func(w *exportertest.Ward) history {
		w.MakeLog()
		w.Exec("SELECT " + w.Schema + ".outbox_log_unsubscribe('paused')")
		return repeat(w, w.Scrape())
	}},
	"TxworkLogStopped": {"outbox_log", func(w *exportertest.Ward) history {
		w.MakeLog()
		return repeat(w, w.Scrape())
	}},
	"TxworkLeasesExpired": {"jobs", func(w *exportertest.Ward) history {
		w.Put("jobs", "expired", 3)
		return repeat(w, w.Scrape())
	}},
	"TxworkNotReturning": {"jobs", func(w *exportertest.Ward) history {
		w.Put("jobs", "running", 3)
		w.Exec("SELECT " + w.Schema + ".jobs_extend(owner_token, ARRAY[id], '1 day') FROM " + w.Schema + ".jobs WHERE status = 1")
		w.Exec("UPDATE " + w.Schema + ".jobs SET headers = headers || jsonb_build_object('txwork-running', " +
			"(extract(epoch FROM now() - interval '10 minutes') * 1000000)::bigint || ' 300000000 ' || owner_token)")
		return repeat(w, w.Scrape())
	}},
	"TxworkReaperMissing": {"inbox", func(w *exportertest.Ward) history {
		w.Exec("UPDATE " + w.Schema + ".leader SET expires_at = now() - interval '1 hour' WHERE name LIKE '%.inbox'")
		return repeat(w, w.Scrape())
	}},
	"TxworkMaintenanceFailing": {"timers", func(w *exportertest.Ward) history {
		w.Exec("UPDATE " + w.Schema + ".leader SET problem = '3 rows were skipped' WHERE name LIKE '%.timers'")
		return repeat(w, w.Scrape())
	}},
	"TxworkDeadLetters": {"outbox", func(w *exportertest.Ward) history {
		w.Put("outbox", "dead", 5)
		return repeat(w, w.Scrape())
	}},
	"TxworkScheduleOverdue": {"jobs_schedule", func(w *exportertest.Ward) history {
		w.Put("jobs_schedule", "ready", 1)
		return repeat(w, w.Scrape())
	}},
	"TxworkScheduleDead": {"jobs_schedule", func(w *exportertest.Ward) history {
		w.Put("jobs_schedule", "dead before", 1)
		return repeat(w, w.Scrape())
	}},
	"TxworkKeysBlocked": {"outbox", func(w *exportertest.Ward) history {
		w.Put("outbox", "dead before", 1)
		w.Put("outbox", "waiting", 2)
		w.Exec("SET session_replication_role = replica; UPDATE " + w.Schema +
			".outbox SET concurrency_key = 'k', key_limit = 0, key_policy = 1, " +
			"key_seq = CASE WHEN waiting THEN 2 ELSE 1 END; RESET session_replication_role")
		return repeat(w, w.Scrape())
	}},
	"TxworkFoldBehind": {"outbox", func(w *exportertest.Ward) history {
		w.Exec("INSERT INTO " + w.Schema + ".outbox_key_note (at, concurrency_key, limited) VALUES (now() - interval '5 " +
			"minutes', 'k', false)")
		return repeat(w, w.Scrape())
	}},
	"TxworkJoinsStuck": {"outbox", func(w *exportertest.Ward) history {
		w.Exec("INSERT INTO " + w.Schema + ".outbox_join (id, expected, succeeded, created_at, look_at, retention) " +
			"VALUES (gen_random_uuid(), 2, 2, now() - interval '1 hour', now(), interval '1 day')")
		return repeat(w, w.Scrape())
	}},
	"TxworkHorizonHeld": {"", func(w *exportertest.Ward) history {
		tx, err := w.Pool.Begin(w.Context())
		must(w, err)
		defer tx.Rollback(context.Background())
		_, err = tx.Exec(w.Context(), "SELECT pg_current_xact_id()")
		must(w, err)
		scrape := w.Scrape()
		if !slices.ContainsFunc(scrape,
			func(s exportertest.Sample) bool { return s.Name == "txwork_transaction_oldest_seconds" && s.Value > 0 }) {
			w.Error("the scrape reports no transaction")
		}
		return repeat(w, scrape, "txwork_transaction_oldest_seconds")
	}},
	"TxworkDeadRows": {"outbox", func(w *exportertest.Ward) history {
		w.Exec("ALTER TABLE " + w.Schema + ".outbox SET (autovacuum_enabled = off)")
		w.Put("outbox", "done", 120_000)
		w.Exec("DELETE FROM " + w.Schema + ".outbox")
		for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
			scrape := w.Scrape()
			if slices.ContainsFunc(scrape,
				func(s exportertest.Sample) bool { return s.Name == "txwork_table_dead_rows" && s.Value >= 120_000 }) {
				return repeat(w, scrape)
			}
			if time.Now().After(deadline) {
				w.Fatal("the statistics do not show the dead rows")
			}
		}
	}},
}

// Each alert fires on a scrape of a database that has the problem.
func TestEachAlertFires(t *testing.T) {
	t.Parallel()
	all := alerts(t)
	for name := range troubles {
		if _, there := all[name]; !there {
			t.Errorf("there is no alert %s", name)
		}
	}
	for name, a := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trouble, there := troubles[name]
			if !there {
				t.Fatal("no entry of troubles creates the problem of this alert")
			}
			w := exportertest.New(t)
			leads(w)
			before := fires(t, a, repeat(w, w.Scrape()))
			if len(before) > 0 {
				t.Fatalf("it fires before anything is wrong: %v", before)
			}
			firing := fires(t, a, trouble.make(w))
			if len(firing) != 1 {
				t.Fatalf("it fires for %v, want one", firing)
			}
			if table := firing[0].Get("messaging_destination_name"); trouble.table != "" && table != w.Schema+"."+
				trouble.table {
				t.Errorf("it fires for table %q, want %s", table, trouble.table)
			}
		})
	}
}

// If nothing is scraped at all, an alert fires.
func TestSilenceIsAnAlert(t *testing.T) {
	t.Parallel()
	all := alerts(t)
	for _, name := range []string{"TxworkNotObserved", "TxworkReaperMissing"} {
		if firing := fires(t, all[name], history{}); len(firing) != 1 {
			t.Errorf("%s fires for %v", name, firing)
		}
	}
}
