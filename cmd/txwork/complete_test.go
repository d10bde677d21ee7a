package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
)

func init() { completeTimeout = 15 * time.Second }

// completes returns what the Tab key offers.
func (c *cli) completes(words ...string) []string {
	c.t.Helper()
	// The word to complete comes last, so the flags that name the schema come first.
	line := append([]string{"__complete"}, c.args()...)
	out := c.in(c.t).runLine(append(line, words...)...).ok().stdout
	var offered []string
	for word := range strings.Lines(out) {
		if word = strings.TrimRight(word, "\n"); !strings.HasPrefix(word, ":") {
			offered = append(offered, word)
		}
	}
	return offered
}

// runLine runs a command line as it is.
func (c *cli) runLine(args ...string) result {
	c.t.Helper()
	return execute(c.t, c.t.Context(), strings.NewReader(""), nil, args...)
}

func TestCompletionAsksTheDatabase(t *testing.T) {
	c := newMigratedCLI(t)
	c.populate()
	c.deadLetters(1, "order.shipped", "no")
	c.greet(jobs.Insert{Queue: "mail"}, jobs.Insert{Queue: "charges"})
	for _, test := range []struct{ line, want string }{
		{"show |", "inbox jobs jobs_schedule outbox timers timers_schedule"},
		{"list out|", "outbox"},
		{"stats time|", "timers timers_schedule"},
		{"reap outbox in|", "inbox"},
		{"list outbox --status |", "ready scheduled waiting in_progress expired done failed cancelled"},
		{"jobs list --status |", "ready scheduled waiting in_progress expired done failed cancelled"},
		{"schedules list --status |", "active failing paused ended"},
		{"joins jobs --status |", "pending completed failed cancelled"},
		{"redrive outbox --topic |", "order.shipped t"},
		{"redrive jobs --kind |", "greeting"},
		{"jobs list --queue |", "charges mail"},
		{"jobs pause ma|", "mail"},
		{"outbox pause ord|", "order.shipped"},
		{"list outbox --kind |", ""}, // the outbox has no kinds
	} {
		words := strings.Split(strings.TrimSuffix(test.line, "|"), " ")
		if got := c.completes(words...); !slices.Equal(got, strings.Fields(test.want)) {
			t.Errorf("%s offers %q, want %q", test.line, got, test.want)
		}
	}
}

// Without a database, completion offers nothing and reports no error.
func TestCompletionWithoutADatabase(t *testing.T) {
	t.Parallel()
	r := execute(t, t.Context(), strings.NewReader(""), nil, "__complete", "list", "").ok()
	if strings.Contains(r.stdout, "outbox") {
		t.Errorf("offered %s", r.stdout)
	}
}

// Ids are offered if the command can act on them, those that failed last first, each with a description.
func TestCompletionOfIDs(t *testing.T) {
	c := newMigratedCLI(t)
	failed, _ := c.behind("block")
	c.fail("no such\naddress", failed)
	c.startJoin()
	c.fold()
	queued := c.greet(jobs.Insert{Queue: "mail"})[0].String()
	c.run("timers", "set", "trial/1", "--topic", "trial", "--in", "1h").ok()
	c.run("timers", "set", "trial/2", "--topic", "trial", "--in", "1h").ok()
	c.run("timers", "set", "other", "--topic", "trial", "--in", "1h").ok()
	c.run("schedules", "put", "report", "@daily", "--topic", "t").ok()
	c.run("schedules", "put", "restock", "@daily", "--topic", "t").ok()
	join := value[string](c, "SELECT id::text FROM {schema}.outbox_join")
	waiting := value[string](c, "SELECT id::text FROM {schema}.outbox WHERE waiting AND topic = 'block'")
	done := c.enqueue(outbox.Message{Topic: "over", Payload: []byte("{}")})[0].String()
	c.exec("UPDATE {schema}.outbox SET status = 2, attempts = 1, completed_at = now() WHERE id = '" + done + "'")

	dead := failed.String() + "\tfailed block no such"
	for _, test := range []struct {
		line  string
		first string // the first offer
		among []string
		not   []string
	}{
		{"redrive outbox |", dead, nil, []string{waiting}},
		{"redrive outbox " + failed.String() + " |", "", nil, []string{failed.String()}},
		{"redrive |", "inbox", nil, nil},
		{"outbox unblock |", dead, nil, []string{waiting}},
		{"discard outbox |", dead, nil, []string{waiting}},
		{"run-now outbox |", "", []string{waiting + "\twaiting block"}, []string{failed.String(), done}},
		{"show outbox |", dead, []string{waiting + "\twaiting block"}, []string{done}},
		{"show outbox " + failed.String()[:30] + "|", dead, nil, nil},
		{"show outbox " + strings.ToUpper(done[:13]) + "|", "", nil, nil}, // the shell would not take the other case
		{"show outbox " + done[:30] + "|", done + "\tdone over", nil, nil},
		{"show outbox bogus|", "", nil, nil},
		{"show outbox x |", "", nil, nil}, // the command takes a single id
		{"cancel outbox |", "", []string{waiting + "\twaiting block"}, []string{failed.String(), done}},
		{"jobs show |", queued + "\tready greeting", nil, nil},
		{"jobs cancel |", queued + "\tready greeting", nil, nil},
		{"jobs redrive |", "", nil, []string{queued}},
		{"jobs list --after |", queued + "\tready greeting", nil, nil},
		{"timers cancel trial/|", "trial/1\tready trial", []string{"trial/2\tready trial"}, []string{"other"}},
		{"timers cancel trial/1 trial/|", "trial/2\tready trial", nil, []string{"trial/1"}},
		{"timers set o|", "other\tready trial", nil, nil},
		{"timers list --after ot|", "other\tready trial", nil, nil},
		{"schedules pause re|", "report", []string{"restock"}, nil},
		{"schedules put r|", "report", []string{"restock"}, nil},
		{"schedules list --prefix res|", "restock", nil, []string{"report"}},
		{"table new |", "", nil, []string{"report"}},
		{"joins outbox --after |", join + "\ttwo", nil, nil},
		{"joins outbox |", join + "\ttwo", nil, nil},
		{"joins outbox --label |", "two", nil, nil},
		{"joins jobs --label |", "", nil, []string{"two"}},
		{"list timers --key tr|", "trial/1", []string{"trial/2"}, []string{"other"}},
		{"list outbox --key |", "block", nil, nil},
	} {
		got := c.completes(strings.Split(strings.TrimSuffix(test.line, "|"), " ")...)
		switch {
		case test.first == "" && test.among == nil && test.not == nil && len(got) > 0:
			t.Errorf("%s offers %q, want nothing", test.line, got)
		case test.first != "" && (len(got) == 0 || got[0] != test.first):
			t.Errorf("%s offers %q, want %q first", test.line, got, test.first)
		}
		for _, want := range test.among {
			if !slices.Contains(got, want) {
				t.Errorf("%s offers %q, want %q among it", test.line, got, want)
			}
		}
		for _, not := range test.not {
			if slices.ContainsFunc(got, func(s string) bool { return valueOf(s) == not }) {
				t.Errorf("%s offers %q", test.line, not)
			}
		}
	}
}

// However large a table is, the number of offers is bounded, and so is the number of rows that are read, through an
// index, for each state.
func TestCompletionOfIDsIsBounded(t *testing.T) {
	c := newMigratedCLI(t)
	c.exec("INSERT INTO {schema}.outbox (topic, payload, status, attempts, completed_at, failed_at) SELECT 't', '', 3, 1, " +
		"now(), now() FROM generate_series(1, 5000)")
	c.exec("INSERT INTO {schema}.outbox (topic, payload) SELECT 't', '' FROM generate_series(1, 5000)")
	if got := c.completes("show", "outbox", ""); len(got) != completeValues || !strings.Contains(got[0], "\tfailed t") {
		t.Errorf("%d ids are offered, the first %q", len(got), got[0])
	}
	var plan string
	a := &app{databaseURL: c.url, schema: c.db.Schema}
	must(t, a.withDatabase(t.Context(), func(d *database) error {
		return d.sample(t.Context(), "outbox", func(tx pgx.Tx, l operate.Layout) error {
			least, most, _ := idRange("")
			var lines []string
			err := texts(t.Context(), tx, &lines, "EXPLAIN (ANALYZE, COSTS OFF) "+idText(l, "show", "0"), least, most)
			plan = strings.Join(lines, "\n")
			return err
		})
	}))
	if strings.Contains(plan, "Seq Scan") || strings.Count(plan, "rows=1000 ") < 3 ||
		strings.Contains(plan, "rows=5000 ") {
		t.Errorf("the plan is\n%s", plan)
	}
}

// Completion does not wait for a locked table, and reports no error.
func TestCompletionOfALockedTable(t *testing.T) {
	c := newMigratedCLI(t)
	c.deadLetters(1, "t", "no")
	holder, err := c.db.Pool.Begin(t.Context())
	must(t, err)
	defer holder.Rollback(t.Context())
	_, err = holder.Exec(t.Context(), "LOCK TABLE "+c.db.Schema+".outbox IN ACCESS EXCLUSIVE MODE")
	must(t, err)
	line := append(append([]string{"__complete"}, c.args()...), "redrive", "outbox", "")
	r := c.runLine(line...).ok()
	if strings.Contains(r.stdout, "-") || strings.Contains(r.stderr, "lock") {
		t.Errorf("it says %q and %q", r.stdout, r.stderr)
	}
}
