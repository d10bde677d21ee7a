package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// A jsonRun is a command line, without --json, and its expected exit code.
type jsonRun struct {
	line    string
	code    int
	stdin   string
	nowhere bool // there is no database
	locked  bool // a table is locked
}

// elsewhere tells whether other tests check a command's output, because it runs for long: TestDemoEndsWithOneObject,
// TestPostgresServesUntilInterrupted, TestAlarmsServeKeepsWithinItsConnections and TestBench.
func elsewhere(command string) bool {
	return slices.Contains([]string{"txwork demo", "txwork postgres", "txwork alarms serve"}, command) ||
		strings.HasPrefix(command, "txwork bench ")
}

// Each command with --json runs on a database with every kind of data, once successfully and once with an error. Its
// output has a form of docs/json.md, and each field that is always present occurs.
func TestEachCommandPrintsItsForms(t *testing.T) {
	c := newMigratedCLI(t)
	seen := map[string][]map[string]bool{}
	run := func(r jsonRun) {
		t.Helper()
		args := c.args(append(strings.Fields(r.line), "--json")...)
		if r.nowhere {
			args = append(args, "--database-url", "postgres://127.0.0.1:1/none?connect_timeout=1")
		}
		if r.locked {
			holder, err := c.db.Pool.Begin(t.Context())
			must(t, err)
			defer holder.Rollback(t.Context())
			_, err = holder.Exec(t.Context(), "LOCK TABLE "+c.db.Schema+".inbox IN ACCESS EXCLUSIVE MODE")
			must(t, err)
		}
		done := execute(t, t.Context(), strings.NewReader(r.stdin), nil, args...)
		if done.code != r.code {
			t.Fatalf("%s: exit code %d, want %d: %s%s", r.line, done.code, r.code, done.stdout, done.stderr)
		}
		command, fields := printsForms(t, args, done.stdout, done.stderr)
		if done.stdout == "" && command != "txwork outbox relay" {
			t.Errorf("%s prints nothing", r.line)
		}
		if seen[command] == nil {
			seen[command] = make([]map[string]bool, len(fields))
		}
		for i := range fields {
			if fields[i] != nil && seen[command][i] == nil {
				seen[command][i] = map[string]bool{}
			}
			maps.Copy(seen[command][i], fields[i])
		}
	}
	for _, r := range c.everyForm() {
		run(r)
	}

	forms := readForms(t)
	eachWithJSON(func(cmd *cobra.Command, _ []any) {
		path := cmd.CommandPath()
		if elsewhere(path) {
			return
		}
		if len(seen[path]) == 0 {
			t.Errorf("%s --json was not run", path)
			return
		}
		for i, form := range append(slices.Clone(forms[path]), forms[""]...) {
			for name, field := range form {
				if !field.missing && !seen[path][i][name] && !within(form, name) {
					t.Errorf("%s --json: %s was never there", path, name)
				}
			}
		}
	})
}

// within tells whether a field belongs to an object that may be missing itself.
func within(f jsonForm, path string) bool {
	for parent, field := range f {
		if field.missing && (strings.HasPrefix(path, parent+".") || strings.HasPrefix(path, parent+"[")) {
			return true
		}
	}
	return false
}

// everyForm prepares what the commands show, and returns their command lines in order.
func (c *cli) everyForm() []jsonRun {
	c.t.Helper()
	dir := c.t.TempDir()
	file, wrong := filepath.Join(dir, "worker.yaml"), filepath.Join(dir, "wrong.yaml")
	must(c.t, os.WriteFile(file, []byte("outbox:\n  topics:\n    a: {exec: [\"true\"]}\n"), 0o600))
	must(c.t, os.WriteFile(wrong, []byte("outbox:\n  topic: {}\n"), 0o600))

	c.makeLog()

	first, _ := c.behind("block")
	started := c.startJoin()
	c.fail("no such address", first)
	c.fold()
	dead := c.deadLetters(6, "charge", "card is declined")
	c.greet(jobs.Insert{Queue: "mail"}, jobs.Insert{Queue: "mail"}, jobs.Insert{Queue: "mail"})
	c.failJobs("mail")
	c.greet(jobs.Insert{Queue: "mail"}, jobs.Insert{Queue: "mail"})
	client, err := jobs.Open(jobs.Options{Schema: c.db.Schema})
	must(c.t, err)
	claimed, err := client.Table().On(c.db.Pool).Claim(c.t.Context(), workqueue.NewOwnerToken(), time.Minute, 1, "mail",
		int16(jobs.Normal))
	must(c.t, err)
	job := claimed[0].ID.String()
	must(c.t, workqueue.InTx(c.t.Context(), c.db.Pool, func(tx workqueue.Tx) error {
		clock, err := timers.Open(timers.Options{Schema: c.db.Schema})
		if err != nil {
			return err
		}
		return clock.Schedules().Put(c.t.Context(), tx, timers.Schedule{Name: "gone", Expr: "@daily", Topic: "t"})
	}))
	message := value[string](c, "SELECT id::text FROM {schema}.outbox_log LIMIT 1")
	failedJob := value[string](c, "SELECT id::text FROM {schema}.jobs WHERE status = 3 LIMIT 1")

	c.exec(historyOf("jobs"))

	runs := []jsonRun{
		{line: "outbox pause held"},
		{line: "top"}, {line: "top", locked: true}, {line: "top", code: exitFailure, nowhere: true},
		{line: "doctor --fail-on never --statement-timeout 1m --timeout 5m"},
		{line: "doctor --fail-on never --statement-timeout 1m --timeout 5m", locked: true},
		{line: "doctor --fail-on nothing", code: exitUsage}, {line: "doctor more", code: exitUsage},
		{line: "stats"}, {line: "stats --announcers --for 10ms"}, {line: "stats --since 24h"},
		{line: "stats --since 1s", code: exitUsage},
		{line: "audit"}, {line: "audit --after none", code: exitUsage}, {line: "stats nothing", code: exitFailure},
		{line: "list outbox --status failed --limit 2"}, {line: "list outbox --status bogus", code: exitUsage},
		{line: "show outbox --payloads " + dead[0].String()}, {line: "show outbox " + uuid.NewString(),
			code: exitFailure},
		{line: "show outbox_log --payloads " + message},
		{line: "keys outbox"}, {line: "keys timers", code: exitUsage},
		{line: "joins outbox"}, {line: "joins outbox " + started.ID.String()}, {line: "joins timers", code: exitUsage},
		{line: "redrive outbox --topic charge --limit 1 --yes"},
		{line: "redrive outbox " + dead[1].String() + " " + uuid.NewString(), code: exitFailure},
		{line: "redrive outbox --all-failed", code: exitUsage},
		{line: "cancel outbox --topic charge --dry-run"},
		{line: "run-now outbox --topic charge --dry-run"},
		{line: "run-now outbox " + uuid.NewString(), code: exitFailure},
		{line: "run-now outbox", code: exitUsage},
		{line: "reschedule outbox --topic charge --in 1h --dry-run"},
		{line: "reschedule outbox --in 1h " + uuid.NewString(), code: exitFailure},
		{line: "reschedule outbox --in 1h", code: exitUsage},
		{line: "discard outbox --topic charge --dry-run"},
		{line: "discard outbox " + uuid.NewString(), code: exitFailure},
		{line: "discard outbox", code: exitUsage},
		{line: "delete outbox --topic charge --dry-run"},
		{line: "delete outbox " + uuid.NewString(), code: exitFailure},
		{line: "delete outbox", code: exitUsage},
		{line: "cancel outbox", code: exitUsage}, {line: "cancel outbox " + uuid.NewString(), code: exitFailure},
		{line: "outbox unblock " + first.String()}, {line: "outbox unblock " + uuid.NewString(), code: exitFailure},
		{line: "outbox unblock 17", code: exitUsage}, {line: "outbox send --topic t --batch 0", code: exitUsage},
		{line: "outbox send --topic t", stdin: "{}\n"}, {line: "outbox send --topic t", stdin: "{\n",
			code: exitFailure},
		{line: "outbox relay --until-empty --exec true --topic nothing"},
		{line: "outbox relay --until-empty --exec true", code: exitFailure, nowhere: true},
		{line: "timers set k --topic t --in 1h"}, {line: "timers list"},
		{line: "timers list --limit 0", code: exitUsage},
		{line: "timers set k --topic t --in 1h", code: exitFailure, nowhere: true},
		{line: "timers cancel k"}, {line: "timers cancel nobody", code: exitFailure},
		{line: "timers cancel k", code: exitFailure, nowhere: true},
		{line: "schedules put s @daily --topic t"}, {line: "schedules put s bogus --topic t", code: exitUsage},
		{line: "schedules list"}, {line: "schedules list --limit 0", code: exitUsage},
		{line: "schedules pause s"}, {line: "schedules pause nobody", code: exitFailure},
		{line: "schedules resume s"}, {line: "schedules resume nobody", code: exitFailure},
		{line: "schedules trigger s"}, {line: "schedules trigger nobody", code: exitFailure},
		{line: "schedules backfill s --from 2026-03-01T00:00:00Z --to 2026-03-02T00:00:00Z"},
		{line: "schedules backfill s --from 2026-03-01T00:00:00Z --to 2026-03-02T00:00:00Z --dry-run"},
		{line: "schedules backfill nobody --from 2026-03-01T00:00:00Z --to 2026-03-02T00:00:00Z", code: exitFailure},
		{line: "schedules delete gone"}, {line: "schedules delete nobody", code: exitFailure},
		{line: "schedules next @daily"}, {line: "schedules next bogus", code: exitUsage},
		{line: "subscriptions list"}, {line: "subscriptions list", code: exitFailure, nowhere: true},
		{line: "subscriptions add more --topic t"}, {line: "subscriptions add more", code: exitFailure},
		{line: "subscriptions change more --topic u"}, {line: "subscriptions change nobody", code: exitFailure},
		{line: "subscriptions pause more"}, {line: "subscriptions pause nobody", code: exitFailure},
		{line: "subscriptions resume more"}, {line: "subscriptions resume nobody", code: exitFailure},
		{line: "subscriptions replay more --start beginning --yes"},
		{line: "subscriptions replay nobody --start now --yes", code: exitFailure},
		{line: "subscriptions cut more --older-than 0s --yes"},
		{line: "subscriptions cut more --older-than 1h", code: exitUsage},
		{line: "subscriptions remove more --yes"}, {line: "subscriptions remove nobody --yes", code: exitFailure},
		{line: "outbox move log --subscription successor --dry-run"},
		{line: "outbox move rows --subscription successor --dry-run", code: exitUsage},
		{line: "jobs list --limit 2"}, {line: "jobs list --limit 0", code: exitUsage},
		{line: "jobs show " + failedJob}, {line: "jobs show " + uuid.NewString(), code: exitFailure},
		{line: "jobs limit mail --max-running 1"}, {line: "jobs limit mail --max-running -1", code: exitUsage},
		{line: "jobs pause mail"}, {line: "jobs pause mail", code: exitFailure, nowhere: true},
		{line: "outbox pause t"}, {line: "outbox pause t", code: exitFailure, nowhere: true},
		{line: "outbox topics"}, {line: "outbox topics", code: exitFailure, nowhere: true},
		{line: "outbox resume t"}, {line: "outbox resume t", code: exitFailure, nowhere: true},
		{line: "inbox pause c t"}, {line: "inbox pause c t", code: exitFailure, nowhere: true},
		{line: "inbox topics"}, {line: "inbox topics", code: exitFailure, nowhere: true},
		{line: "inbox resume c t"}, {line: "inbox resume c t", code: exitFailure, nowhere: true},
		{line: "jobs queues"}, {line: "jobs queues", code: exitFailure, nowhere: true},
		{line: "jobs resume mail"}, {line: "jobs resume mail", code: exitFailure, nowhere: true},
		{line: "jobs redrive --kind greeting --yes"}, {line: "jobs redrive " + job, code: exitFailure},
		{line: "jobs redrive", code: exitUsage}, {line: "jobs cancel", code: exitUsage},
		{line: "jobs cancel --queue mail --dry-run"}, {line: "jobs cancel " + uuid.NewString(), code: exitFailure},
		{line: "purge outbox --failed-older-than 1h --dry-run"}, {line: "purge outbox", code: exitUsage},
		{line: "reap"}, {line: "reap nothing", code: exitFailure},
		{line: "worker --check " + file}, {line: "worker --check " + wrong, code: exitUsage},
		{line: "worker --check " + file + ".no", code: exitUsage},
		{line: "migrate status"}, {line: "migrate status", code: exitFailure, nowhere: true},
		{line: "migrate export " + filepath.Join(dir, "new")}, {line: "migrate export --format none " + dir,
			code: exitUsage},
	}
	// These come last, because they break or drop what the others need.
	return append(runs,
		jsonRun{line: "migrate down", code: exitUsage},
		jsonRun{line: "migrate down --to-version 5 --yes --drop-rows"},
		jsonRun{line: "migrate status", code: exitFailure},
		jsonRun{line: "migrate validate", code: exitFailure},
		jsonRun{line: "migrate validate", code: exitFailure, nowhere: true},
		jsonRun{line: "migrate up"}, jsonRun{line: "migrate up --to-version -1", code: exitFailure},
	)
}
