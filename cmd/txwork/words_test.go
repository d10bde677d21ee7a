package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// oddNames are easily taken for each other.
var oddNames = []string{"a", "a ", " a", "a b", "a  b", "a\nb", `a\nb`, `"a\nb"`, "a\tb", `a\tb`, "-", `"-"`, "", `""`,
	"a\xffb", `a\xffb`, "a\x00b", "a'b", `a"b`, "a\u00a0b", "ä", "\u202ea", `\u202ea`, "…", "a: b",
	strings.Repeat("n", 60) + "1", strings.Repeat("n", 60) + "2", strings.Repeat("n", 39) + "…"}

// Two different names are never printed alike, alone or as the parts of a name, in full or cut to a width.
func TestDifferentNamesAreNeverPrintedAlike(t *testing.T) {
	t.Parallel()
	different := func(what string, printed map[string]string, name, text string) {
		t.Helper()
		if other, taken := printed[text]; taken && other != name {
			t.Errorf("%s: %q and %q are both printed as %s", what, other, name, text)
		}
		printed[text] = name
		if harmless(text) != text {
			t.Errorf("%s: %q is printed as %q", what, name, text)
		}
	}
	alone, cells, parts := map[string]string{}, map[string]string{}, map[string]string{}
	for _, name := range oddNames {
		different("alone", alone, name, named(name))
		if name != "" {
			different("in a cell", cells, name, namedOrDash(name))
		}
		for _, other := range oddNames {
			different("of two parts", parts, fmt.Sprintf("%q %q", name, other), names(name, other))
		}
	}
	different("in a cell", cells, "", namedOrDash(""))
	different("of two parts", parts, "one", names("a b a"))
	texts := make([]string, len(oddNames))
	for i, name := range oddNames {
		texts[i] = named(name)
	}
	for _, width := range []int{12, 20, 40, 80} {
		cut := map[string]string{}
		for i, text := range fitAll(texts, width, true) {
			different(fmt.Sprintf("in %d columns", width), cut, oddNames[i], text)
			if n := len([]rune(text)); n > width {
				t.Errorf("%q has %d columns, there is room for %d", text, n, width)
			}
		}
	}
}

// Names in commands that are printed to be pasted reach the command as they are.
func TestQuotedNamesReachACommand(t *testing.T) {
	t.Parallel()
	for _, name := range oddNames {
		if strings.Contains(name, "\x00") {
			continue // no argument can have it
		}
		quoted := postgres.Shell(name)
		out, err := exec.CommandContext(t.Context(), "bash", "-c", "printf %s "+quoted).Output()
		if err != nil || string(out) != name || strings.Contains(quoted, "\n") {
			t.Errorf("%q is quoted as %s and read as %q, %v", name, quoted, out, err)
		}
	}
}

// The position that a page advises continues it, whatever is in it.
func TestAPageIsContinuedAsItSays(t *testing.T) {
	c := newMigratedCLI(t)
	keys := []string{"a b", "a\nb", `a\nb`, "it's", strings.Repeat("k", 200) + "1", strings.Repeat("k", 200) + "2"}
	for _, key := range keys {
		c.run("timers", "set", key, "--topic", "t", "--in", "1h").ok()
	}
	advised := regexp.MustCompile(`there is more: (--after .*)\n`)
	var printed []string
	for more := ""; ; {
		line, err := exec.CommandContext(t.Context(), "bash", "-c",
			"printf '%s\\0' timers list --limit 1 "+more).Output()
		must(t, err)
		r := c.run(strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")...).ok()
		row := strings.Split(r.stdout, "\n")[1]
		printed = append(printed, strings.Split(row, "  ")[0])
		advice := advised.FindStringSubmatch(r.stderr)
		if advice == nil {
			break
		}
		more = advice[1]
	}
	slices.Sort(keys)
	want := make([]string, len(keys))
	for i, key := range keys {
		want[i] = named(key)
	}
	if !slices.Equal(printed, want) {
		t.Errorf("the keys are printed as\n%q, want\n%q", printed, want)
	}
}

// Whatever state a list shows can be asked for, in every list, and means the same rows.
func TestEveryStateCanBeAskedFor(t *testing.T) {
	c := newMigratedCLI(t)
	ids := c.greet(slices.Repeat([]jobs.Insert{{Queue: "q"}}, 7)...)
	later := c.greet(jobs.Insert{Queue: "q", Delay: time.Hour})[0]
	want := map[workqueue.State][]uuid.UUID{
		workqueue.StateReady: ids[:1], workqueue.StateScheduled: {later}, workqueue.StateWaiting: ids[1:2],
		workqueue.StateInProgress: ids[2:4], workqueue.StateExpired: ids[3:4], workqueue.StateDone: ids[4:5],
		workqueue.StateFailed: ids[5:6], workqueue.StateCancelled: ids[6:7],
	}
	c.exec("ALTER TABLE {schema}.jobs DISABLE TRIGGER USER")
	for id, set := range map[uuid.UUID]string{
		ids[1]: "waiting = true",
		ids[2]: "status = 1, attempts = 1, owner_token = id, locked_until = now() + interval '1 hour'",
		ids[3]: "status = 1, attempts = 1, owner_token = id, locked_until = now() - interval '1 hour'",
		ids[4]: "status = 2, attempts = 1, completed_at = now()",
		ids[5]: "status = 3, attempts = 1, completed_at = now(), failed_at = now()",
		ids[6]: "status = 3, completed_at = now(), failed_at = now(), cancelled_at = now()",
	} {
		c.exec("UPDATE {schema}.jobs SET "+set+" WHERE id = $1", id)
	}
	c.exec("ALTER TABLE {schema}.jobs ENABLE TRIGGER USER")
	for i, state := range workqueue.States() {
		if state == workqueue.StateWaiting { // no timer waits
			continue
		}
		c.exec(fmt.Sprintf(`INSERT INTO {schema}.timers (key, topic, payload, fire_at, generation, status, attempts,
			due_at, owner_token, locked_until, completed_at, failed_at, cancelled_at)
			SELECT '%d', 't', '', now(), 1, j.status, j.attempts, j.due_at, j.owner_token, j.locked_until,
				j.completed_at, j.failed_at, j.cancelled_at FROM {schema}.jobs AS j WHERE j.id = $1`, i),
			want[state][0])
	}
	for i, state := range workqueue.States() {
		listed := decode[operate.Page](c.run("list", "jobs", "--status", string(state), "--json").ok()).Rows
		shown := decode[jobsPage](c.run("jobs", "list", "--status", string(state), "--json").ok()).Jobs
		got, alike := map[uuid.UUID]bool{}, len(listed) == len(shown)
		for _, r := range listed {
			got[r.ID] = true
		}
		for _, j := range shown {
			alike = alike && got[j.ID]
			if j.State != string(state) && state != workqueue.StateExpired {
				t.Errorf("--status %s lists a job that is shown as %s", state, j.State)
			}
		}
		for _, id := range want[state] {
			alike = alike && got[id]
		}
		if !alike || len(got) != len(want[state]) {
			t.Errorf("%s: list has %v, jobs list has %+v, want %v", state, got, shown, want[state])
		}
		keys := ""
		for _, timer := range decode[timersPage](c.run("timers", "list", "--status", string(state),
			"--json").ok()).Timers {
			keys += timer.Key
		}
		wantKeys := fmt.Sprint(i)
		switch state {
		case workqueue.StateInProgress:
			wantKeys += fmt.Sprint(i + 1) // the one whose lease has expired
		case workqueue.StateWaiting:
			wantKeys = ""
		}
		if keys != wantKeys {
			t.Errorf("--status %s lists the timers %q, want %q", state, keys, wantKeys)
		}
	}
	c.run("jobs", "list", "--status", "failed,cancelled").ok().prints("failed", "cancelled")
	c.run("jobs", "list").ok().prints("ready", "scheduled", "waiting", "in_progress", "done", "failed", "cancelled")
}

// A page may be larger than what the library reads at once.
func TestPagesAreAsLargeInEveryList(t *testing.T) {
	c := newMigratedCLI(t)
	const n = timers.MaxPage + 500
	c.exec(`INSERT INTO {schema}.timers (key, topic, payload, fire_at, generation)
		SELECT lpad(i::text, 5, '0'), 't', '', now(), 1 FROM generate_series(1, $1) AS i`, n)
	first := decode[timersPage](c.run("timers", "list", "--limit", fmt.Sprint(n-1), "--json").ok())
	rest := decode[timersPage](c.run("timers", "list", "--limit", fmt.Sprint(n-1), "--after", first.Next,
		"--json").ok())
	if len(first.Timers) != n-1 || first.Next != first.Timers[n-2].Key || len(rest.Timers) != 1 || rest.Next != "" {
		t.Errorf("%d timers, then after %q %d", len(first.Timers), first.Next, len(rest.Timers))
	}
}

// Flags that several commands have mean the same in each: they have one type, one text or, where that names what the
// command is about, one pattern of texts, and the same bounds for a page.
func TestFlagsOfOneNameAreAlike(t *testing.T) {
	t.Parallel()
	type flag struct{ command, kind, usage string }
	seen, shared := map[string]flag{}, map[string]bool{}
	eachCommand(newRootCommand(&app{}), func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			kind := strings.TrimSuffix(f.Value.Type(), "64")
			if other, is := seen[f.Name]; is && other.kind != kind && !slices.Contains(severalTypes, f.Name) {
				t.Errorf("--%s is a %s in %s, and a %s in %s", f.Name, other.kind, other.command, kind, path)
			}
			if other, is := seen[f.Name]; is {
				shared[f.Name] = true
				if pattern := meanings[f.Name]; pattern == "" && other.usage != f.Usage {
					t.Errorf("--%s is %q in %s, and %q in %s", f.Name, other.usage, other.command, f.Usage, path)
				} else if p := regexp.MustCompile(pattern); !p.MatchString(f.Usage) || !p.MatchString(other.usage) {
					t.Errorf("--%s is %q in %s and %q in %s, want %s", f.Name, other.usage, other.command, f.Usage,
						path, pattern)
				}
			}
			seen[f.Name] = flag{path, kind, f.Usage}
		})
		if cmd.Flags().Lookup("after") != nil {
			if limit := cmd.Flags().Lookup("limit"); limit == nil || limit.DefValue != fmt.Sprint(defaultListLimit) {
				t.Errorf("%s has --after, and --limit is %v", path, limit)
			}
		}
		if cmd.Flags().Lookup("before") != nil && cmd.Flags().Lookup("limit") != nil {
			t.Errorf("%s pages by --before, the others by --after", path)
		}
		if cmd.Name() == "retry" {
			t.Errorf("%s: a handler's error is retried, a dead letter is redriven", path)
		}
	})
	for name := range meanings {
		if !shared[name] {
			t.Errorf("--%s is no flag of several commands", name)
		}
	}
}

// severalTypes are flags of which one command takes one value and another several.
var severalTypes = []string{"status", "topic"}

// meanings are patterns of what flags mean whose texts name what the command is about.
var meanings = map[string]string{
	"after":             "^continue after this `(id|key|name|position)`, the last of the previous page$",
	"batch":             "^(alarms of the first claim|jobs of a transaction|lines of one transaction)",
	"burst":             "(concurrent|at once)",
	"concurrency":       "^(deliveries|messages) at once|^handlers of each worker$",
	"connections":       "^connections that ",
	"count":             "^(how many jobs|so many times)$",
	"dry-run":           "^only (count the rows|show the times)",
	"exact":             "^(with --dry-run, .*: )?count all rows, which takes long in large tables$",
	"domain":            " `domain`.*; one of .*, repeat for more$",
	"from":              ", as RFC 3339 has it",
	"json":              "JSON",
	"lease":             "^lease of an? .*; after a crash, its .* are redelivered when it has expired$",
	"limit":             " of a page|at most ",
	"log":               "an outbox that is a log$",
	"lanes":             "^how many consumers can read it at once",
	"lock-timeout":      "producers may wait|later transactions wait meanwhile$",
	"listen":            "address`? to serve ",
	"max-attempts":      "tried|attempts of ",
	"of":                "^schedules of timers or of jobs ",
	"older-than":        "^(only rows that|pass over messages that) ",
	"prefix":            "begin",
	"rate":              "per second|jobs a second",
	"statement-timeout": "^how long each statement may take",
	"since":             " since this `long` ago, such as 36h or 7d",
	"status":            " in this `?state|^`state` of the rows",
	"subscription":      "this subscription of (an?|the) ",
	"timeout":           "^how long an .* may take|that takes longer",
	"to-version":        "^go to this version",
	"topic":             "topic",
	"width":             "columns|the width of",
	"workers":           "^workers, ",
	"yes":               "do not ask$|^yes, drop ",
	"zone":              "IANA zone",
}

// Each command refuses what is wrong with the command line with exit code 2, and says with 1 that the database cannot
// be reached: on standard error and, with --json, in the form of failures.
func TestExitCodesAreAlike(t *testing.T) {
	t.Parallel()
	env := map[string]string{databaseURLEnv: "postgres://127.0.0.1:1/none?connect_timeout=1"}
	found := 0
	eachCommand(newRootCommand(&app{}), func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		if cmd.HasSubCommands() || cmd.Hidden || len(path) == 0 ||
			slices.Contains([]string{"help", "completion"}, path[0]) {
			return
		}
		found++
		run := func(args ...string) result {
			return execute(t, t.Context(), strings.NewReader(""), env, append(slices.Clone(path), args...)...)
		}
		if r := run("--none-such"); r.code != exitUsage || !strings.Contains(r.stderr, "unknown flag: --none-such") {
			t.Errorf("%s with an unknown flag: %d, %s", cmd.CommandPath(), r.code, r.stderr)
		}
		args, connects := plainArguments[cmd.CommandPath()]
		if !connects {
			if args, connects = exampleOf(cmd); !connects {
				return
			}
		}
		r := run(args...)
		if r.code != exitFailure || !strings.Contains(r.stderr, "txwork: the database cannot be reached: check") {
			t.Errorf("%s %q without a database: %d, %s", cmd.CommandPath(), args, r.code, r.stderr)
		}
		if cmd.Flags().Lookup("json") == nil || cmd.CommandPath() == "txwork outbox relay" { // it prints to stderr
			return
		}
		r = run(append(args, "--json")...)
		f := decode[map[string]any](r)
		if r.code != exitFailure || f["error"] == "" || f["exit_code"] != 1.0 {
			t.Errorf("%s --json without a database: %d, %s", cmd.CommandPath(), r.code, r.stdout)
		}
	})
	if found < 45 {
		t.Errorf("only %d commands were found", found)
	}
}

// plainArguments are those of commands whose first example does not need only a database.
var plainArguments = map[string][]string{
	"txwork migrate status":   {},
	"txwork migrate validate": {},
	"txwork migrate down":     {"--yes"},
	"txwork outbox send":      {"--topic", "t"},
	"txwork outbox relay":     {"--stdout", "--until-empty"},
	"txwork schedules put":    {"s", "@daily", "--topic", "t"},
	"txwork timers set":       {"k", "--topic", "t", "--in", "1h"},
	"txwork redrive":          {"outbox", "--all-failed", "--yes"},
	"txwork cancel":           {"outbox", "--all-live", "--yes"},
	"txwork run-now":          {"outbox", "--all-scheduled", "--yes"},
	"txwork reschedule":       {"outbox", "--all-ready", "--in", "1h", "--yes"},
	"txwork discard":          {"outbox", "--all-failed", "--yes"},
	"txwork delete":           {"outbox", "--all-ended", "--yes"},
	"txwork purge":            {"outbox", "--done-older-than", "1d", "--yes"},
	"txwork jobs redrive":     {"--all-failed", "--yes"},
	"txwork jobs cancel":      {"--all-live", "--yes"},
}

// local are the commands that need no database, or bring their own.
var local = regexp.MustCompile(`^txwork (demo|postgres|bench .*|table new|roles|migrate (sql|export)|schedules next|` +
	`worker|serve|alarms serve|metrics serve)$`)

// exampleOf returns the arguments of a command's first example, and whether it connects to a database.
func exampleOf(cmd *cobra.Command) (args []string, connects bool) {
	if local.MatchString(cmd.CommandPath()) {
		return nil, false
	}
	line, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
	line, _, _ = strings.Cut(line, " #")
	return strings.Fields(strings.NewReplacer(" --json", "", "'", "").Replace(line))[len(strings.Fields(
		cmd.CommandPath())):], true
}

// The schedules of timers and of jobs are listed together, and a name that both have needs --of.
func TestSchedulesOfTimersAndJobs(t *testing.T) {
	c := newMigratedCLI(t)
	client, err := jobs.Open(jobs.Options{Schema: c.db.Schema})
	must(t, err)
	put := func(schedules ...jobs.Schedule) {
		t.Helper()
		must(t, workqueue.InTx(t.Context(), c.db.Pool, func(tx workqueue.Tx) error {
			return client.Schedules().Put(t.Context(), tx, schedules...)
		}))
	}
	put(jobs.Schedule{Name: "both", Expr: "@daily", Args: greeting{"secret"}},
		jobs.Schedule{Name: "greet", Expr: "@hourly", Args: greeting{"secret"}, Queue: "mail",
			Unique: &jobs.Unique{}})
	c.run("schedules", "put", "both", "@daily", "--topic", "t").ok()
	c.run("schedules", "put", "wake", "@daily", "--topic", "t").ok()

	listed := func(args ...string) (all []string) {
		t.Helper()
		for _, s := range decode[schedulesPage](c.run(append([]string{"schedules", "list", "--json"},
			args...)...).ok()).Schedules {
			all = append(all, s.Of+" "+s.Name)
		}
		return all
	}
	same := func(got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("listed %q, want %q", got, want)
		}
	}
	same(listed(), "timers both", "jobs both", "jobs greet", "timers wake")
	same(listed("--of", "jobs"), "jobs both", "jobs greet")
	same(listed("--limit", "1"), "timers both", "jobs both") // a name is on one page
	same(listed("--after", "both", "--limit", "1"), "jobs greet")
	same(listed("--prefix", "g"), "jobs greet")
	c.run("schedules", "list").ok().prints("OF", "TOPIC OR KIND", "greeting", "jobs")

	for _, args := range [][]string{{"pause", "both"}, {"trigger", "both"}, {"delete", "both"},
		{"backfill", "both", "--from", "2026-01-05T00:00:00Z", "--to", "2026-01-06T00:00:00Z"}} {
		c.run(append([]string{"schedules"}, args...)...).exits(exitUsage).says(
			`both timers and jobs have a schedule "both": say which by --of timers or --of jobs`)
	}
	c.run("schedules", "pause", "both", "--of", "jobs").ok().prints("schedule both paused")
	same(listed("--status", "paused"), "jobs both")
	same(listed("--status", "active"), "timers both", "jobs greet", "timers wake")
	c.run("schedules", "resume", "both", "--of", "jobs",
		"--json").ok().prints(`{"of":"jobs","name":"both","resumed":true}`)
	same(listed("--status", "paused"))

	first := decode[triggeredSchedule](c.run("schedules", "trigger", "greet", "--json").ok())
	if got := value[string](c, "SELECT kind || ' ' || queue FROM {schema}.jobs WHERE id = $1", first.ID); got !=
		"greeting mail" {
		t.Errorf("the triggered job is %s", got)
	}
	c.run("schedules", "trigger", "greet").ok().prints("schedule greet not triggered: job " + first.ID.String() +
		" holds its unique key")
	c.run("schedules", "backfill", "both", "--of", "jobs", "--from", "2026-01-05T00:00:00Z", "--to",
		"2026-01-11T00:00:00Z").ok().prints("schedule both backfilled: 7 jobs set")
	c.run("schedules", "delete", "both", "--of", "jobs").ok().prints("schedule both deleted")
	c.run("schedules", "delete", "both").ok()
	same(listed(), "jobs greet", "timers wake")
	c.run("schedules", "pause", "greet", "--of", "timers").exits(exitFailure).says(`schedule "greet" not found`)
	if got := c.completes("schedules", "pause", ""); !slices.Equal(got, []string{"greet", "wake"}) {
		t.Errorf("completion offers %q", got)
	}
}

// A schema may have one of the domains only.
func TestSchedulesOfOneDomain(t *testing.T) {
	c := newCLI(t)
	c.run("migrate", "up", "--domain", "jobs").ok()
	c.run("schedules", "list", "--json").ok().prints(`{"schedules":[]}`)
	c.run("schedules", "pause", "s").exits(exitFailure).says(`schedule "s" not found`)
	c.run("schedules", "list", "--of", "timers").exits(exitFailure).says("--domain timers")
}

// A topic of the inbox is named with its consumer.
func TestATopicIsNamedWithItsConsumer(t *testing.T) {
	c := newMigratedCLI(t)
	c.run("inbox", "pause", "a b", "c").ok().prints(`topic "a b" c paused`)
	c.run("inbox", "pause", "a", "b c").ok().prints(`topic a "b c" paused`)
	r := c.run("inbox", "topics").ok()
	if lines := strings.Split(r.stdout, "\n"); lines[1] == lines[2] {
		t.Errorf("two topics are printed alike:\n%s", r.stdout)
	}
	frame := decode[struct{ Topics []topTopic }](c.run("top", "--json").ok())
	if len(frame.Topics) != 2 || frame.Topics[0].key() == frame.Topics[1].key() {
		t.Errorf("top has %+v", frame.Topics)
	}
	long := strings.Repeat("t", 100)
	c.enqueue(outbox.Message{Topic: long + "1"}, outbox.Message{Topic: long + "2"})
	c.run("list", "outbox", "--status", "ready").ok().prints(long+"1", long+"2")
}
