package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// notRun are the examples that cannot be run as they are printed, and why. A command in front of a colon stands for all
// its examples.
var notRun = map[string]string{
	"txwork bench:":             "measures for minutes; TestBench runs each kind in small",
	"txwork demo:":              "starts a server of its own; TestDemoEndsWithOneObject runs it in small",
	"txwork postgres:":          "serves until Ctrl-C, or runs all tests; see TestPostgresServesUntilInterrupted",
	"txwork alarms serve:":      "serves until a signal; TestAlarmsServeDeliversWhatWasPosted calls it",
	"txwork serve:":             "serves until a signal; TestServeShowsADashboard calls it",
	"txwork metrics serve:":     "serves until a signal; TestMetricsServe calls it",
	"txwork outbox move:":       "moves the rows of the other examples; TestAnOutboxIsMoved runs it",
	"txwork worker worker.yaml": "runs until a signal; the tests of the worker call it",
	"txwork outbox relay --exec 'curl -sf --data-binary @- https://example.org/hook || exit 75'": "" +
		"posts to a host of others; TestTheCommandsOfOperation runs it with another",
	"txwork migrate down":                       "asks on a terminal",
	"txwork migrate down --yes --to-version 0":  "drops what the other examples need; TestMigrateUpAndDown calls it",
	"txwork migrate down --yes --domain alarms": "drops what the other examples need; TestMigrateUpAndDown calls it",
}

// exampleRows are what the examples name.
const exampleRows = `
	INSERT INTO txwork.outbox (id, topic, payload, status, attempts, completed_at, failed_at, last_error, key,
		concurrency_key, key_limit, key_policy) VALUES ('0198f3a2-6c1e-7b44-9a52-0d5f0c6b7e11', 'order.shipped', '{}',
		3, 1, now(), now(), 'connection refused', 'k', 'k', 0, 1);
	INSERT INTO txwork.jobs (id, kind, queue, priority, args, status, attempts, completed_at, failed_at, last_error)
		VALUES ('0198f3a2-6c1e-7b44-9a52-0d5f0c6b7e11', 'charge', 'default', 2, '{}', 3, 1, now(), now(),
		'card is declined');
	INSERT INTO txwork.jobs_join (id, expected, deadline, retention)
		VALUES ('0198f3a2-6c1e-7b44-9a52-0d5f0c6b7e11', 1, now(), '1 hour');`

// exampleFiles are files that the examples read, and a command of the reader's own.
var exampleFiles = map[string]string{
	"commits.ndjson": `{"sha": "f4ba640"}` + "\n",
	"changes.ndjson": `{"account": 4711}` + "\n",
	"orders.ndjson":  `{"customer": 4711}` + "\n",
	"worker.yaml":    "outbox:\n  topics:\n    order.placed: {exec: [\"true\"]}\n",
	"generate":       "#!/bin/sh\necho '{\"id\": 1}'\n",
}

// logMade makes a log with a subscription.
const logMade = "txwork migrate up --domain log; txwork subscriptions add search || true"

// logBlocked makes one with a key that a dead letter blocks.
const logBlocked = logMade + `; txwork subscriptions add blocked || true; ` +
	`psql --no-psqlrc --quiet "$TXWORK_DATABASE_URL" --command="INSERT INTO ` +
	`txwork.outbox_log_parked (id, subscription, message_id, seq, appended_at, topic, payload, status, attempts, ` +
	`completed_at, failed_at, last_error, key, concurrency_key, key_limit, key_policy) VALUES (` +
	`'0198f3a2-6c1e-7b44-9a52-0d5f0c6b7e11', 'blocked', gen_random_uuid(), 1, now(), 't', '', 3, 1, now(), now(), ` +
	`'refused', 'k', 'k', 0, 1) ON CONFLICT DO NOTHING"`

// before are the commands that make what the examples of a command change.
var before = map[string]string{
	"txwork schedules":      "txwork schedules put report @daily --topic report",
	"txwork subscriptions":  logMade,
	"txwork stats":          logMade,
	"txwork list":           logMade,
	"txwork outbox relay":   logMade,
	"txwork outbox unblock": logBlocked,
	"txwork timers cancel":  "for key in trial/4711 trial/4712; do txwork timers set $key --topic t --in 1h; done",
}

// Every example of every command's help works as it is printed, on a database that has what it names.
func TestEveryExampleOfHelpRuns(t *testing.T) {
	t.Parallel()
	x := newTerminal(t)
	dir := t.TempDir()
	for name, text := range exampleFiles {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	x.env = append(slices.DeleteFunc(x.env, func(v string) bool { return strings.HasPrefix(v, "PATH=") }),
		"PATH="+dir+":"+commandIn(t)+":"+os.Getenv("PATH"))
	x.run("txwork migrate up")
	x.run(`psql --no-psqlrc --quiet -v ON_ERROR_STOP=1 "$TXWORK_DATABASE_URL" --command="` +
		strings.ReplaceAll(exampleRows, "\n", " ") + `"`)
	excused, run := maps.Clone(notRun), 0
	eachCommand(newRootCommand(&app{}), func(c *cobra.Command) {
		for line := range strings.SplitSeq(c.Example, "\n") {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			bare, _, _ := strings.Cut(line, "  ")
			if _, is := notRun[bare]; is {
				delete(excused, bare)
				continue
			}
			if of, is := excusedBy(c); is {
				delete(excused, of)
				continue
			}
			for prefix, first := range before {
				if strings.HasPrefix(c.CommandPath(), prefix) {
					x.run(first)
				}
			}
			run++
			cmd := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", instead.Replace(line))
			cmd.Dir, cmd.Env = dir, x.env
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			err := cmd.Run()
			var ended *exec.ExitError
			if c.Name() == "doctor" && errors.As(err, &ended) && ended.ExitCode() >= exitWarning {
				err = nil // it has found something, if only that the tests' server is not durable
			}
			if err != nil {
				t.Errorf("%s: %v\n%s", line, err, out.String())
			}
		}
	})
	if run < 60 {
		t.Errorf("only %d examples were run", run)
	}
	for line := range excused {
		t.Errorf("no help shows %s", line)
	}
}

// excusedBy returns the line of notRun that stands for all examples of a command or its group.
func excusedBy(c *cobra.Command) (line string, is bool) {
	for ; c != nil; c = c.Parent() {
		if line = c.CommandPath() + ":"; notRun[line] != "" {
			return line, true
		}
	}
	return "", false
}

// The tests that excuses name exist.
func TestExcusesNameTests(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_test.go")
	must(t, err)
	var all strings.Builder
	for _, file := range files {
		all.WriteString(contentOf(t, ".", file))
	}
	for line, why := range notRun {
		for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(why, -1) {
			if !strings.Contains(all.String(), "func "+name+"(") {
				t.Errorf("%s: there is no %s", line, name)
			}
		}
	}
}
