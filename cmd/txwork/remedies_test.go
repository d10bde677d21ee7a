//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	documentation "github.com/txwork/txwork/internal/page"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// A remedy is a problem and the commands that doctor prints for it.
type remedy struct {
	code string
	only string // the command to run, if the printed ones are alternatives
	exit int    // what the command exits with, if it reports what it finds
	make func(*testing.T) *cli
	then func(*cli) // what the remedy requires in addition; may be nil
}

// expired writes a message whose worker has died.
func (c *cli) expired() {
	c.t.Helper()
	c.enqueue(outbox.Message{Topic: "order.placed", Payload: []byte("{}")})
	_, err := c.queue().Claim(c.t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
	must(c.t, err)
	c.exec("UPDATE {schema}.outbox SET locked_until = now() - interval '5 minutes' WHERE status = 1")
}

// hangs is the token of a worker whose handler hangs.
var hangs = workqueue.NewOwnerToken()

// hanging writes a message whose handler has run for two hours.
func (c *cli) hanging() {
	c.t.Helper()
	ids := c.enqueue(outbox.Message{Topic: "order.placed", Payload: []byte("{}")})
	_, err := c.queue().Claim(c.t.Context(), hangs, time.Minute, 1)
	must(c.t, err)
	_, err = c.queue().Extend(c.t.Context(), hangs, ids, time.Minute)
	must(c.t, err)
	c.runsForHours("outbox")
}

// runsForHours dates back the start of the rows in progress of a table.
func (c *cli) runsForHours(table string) {
	c.t.Helper()
	c.exec(`UPDATE {schema}.` + table + ` SET headers = jsonb_set(headers, '{txwork-running}', to_jsonb(
		(extract(epoch FROM now() - interval '2 hours') * 1000000)::bigint || '  ' || owner_token)) WHERE status = 1`)
}

func (c *cli) jobsQueue() *workqueue.Queue {
	c.t.Helper()
	client, err := jobs.Open(jobs.Options{Schema: c.db.Schema})
	must(c.t, err)
	return client.Table().On(c.db.Pool)
}

// validated runs the statements that migrate validate prints.
func (c *cli) validated() {
	c.t.Helper()
	for _, f := range decode[printed](c.doctor("--json", "--fail-on", "never").ok()).Findings {
		for _, statement := range f.Remedy.SQL {
			if out := c.run("migrate", "validate").stdout; !strings.Contains(out, statement) {
				c.t.Errorf("migrate validate does not print %s:\n%s", statement, out)
			}
			c.exec(statement)
		}
	}
}

// scheduled runs a worker of schedules until one has fired.
func (c *cli) scheduled() {
	c.t.Helper()
	clock, err := timers.Open(timers.Options{Schema: c.db.Schema})
	must(c.t, err)
	worker, err := timers.NewWorker(c.db.Pool, clock, timers.WorkerOptions{})
	must(c.t, err)
	worker.HandleAll(func(context.Context, *timers.Delivery) error { return nil })
	ctx, stop := context.WithCancel(c.t.Context())
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx) }()
	if !pgtest.Await(pgtest.Patience, func() bool {
		var owed int
		must(c.t, c.db.Pool.QueryRow(c.t.Context(), "SELECT count(*) FROM timers_schedule WHERE next_at < now()").Scan(&owed))
		return owed == 0
	}) {
		c.t.Error("the schedule does not fire")
	}
	stop()
	must(c.t, <-done)
}

// unlogged drops the log messages that the tests provoke.
var unlogged = workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}

// alarm writes an alarm that was due an hour ago, and whose first failed delivery is the last of its firing.
func (c *cli) alarm(cron string) {
	c.t.Helper()
	opened, err := alarms.Open(alarms.Options{Schema: c.db.Schema, Telemetry: unlogged})
	must(c.t, err)
	n := alarms.New{OwnerDID: "did:example:1", UserID: "one", Label: "report", Kind: alarms.KindOnce, Delay: time.Hour,
		WakeMessage: "go on", MaxFailures: 1}
	if cron != "" {
		n.Kind, n.CronExpr, n.Delay = alarms.KindCron, cron, 0
	}
	_, _, err = opened.On(c.db.Pool).CreateAlarm(c.t.Context(), n)
	must(c.t, err)
	c.exec("UPDATE {schema}.alarms SET created_at = now() - interval '65 minutes', next_fire_at = now()")
	c.exec("UPDATE {schema}.timers SET due_at = now(), fire_at = now() - interval '55 minutes'")
}

// woken runs a dispatcher whose receiver answers so, until a condition on the alarm holds.
func (c *cli) woken(answer error, until string) {
	c.t.Helper()
	opened, err := alarms.Open(alarms.Options{Schema: c.db.Schema, Telemetry: unlogged})
	must(c.t, err)
	waker := alarms.WakerFunc(func(context.Context, alarms.Wake) error { return answer })
	dispatcher, err := alarms.NewDispatcher(c.db.Pool, opened, waker, alarms.DispatcherOptions{})
	must(c.t, err)
	ctx, stop := context.WithCancel(c.t.Context())
	done := make(chan error, 1)
	go func() { done <- dispatcher.Run(ctx) }()
	if !pgtest.Await(pgtest.Patience, func() bool {
		var holds bool
		must(c.t, c.db.Pool.QueryRow(c.t.Context(), "SELECT bool_and("+until+") FROM alarms").Scan(&holds))
		return holds
	}) {
		c.t.Errorf("the alarm does not become %s", until)
	}
	stop()
	must(c.t, <-done)
}

// returned acts as that worker, whose handler returns an error when its context is cancelled.
func (c *cli) returned() {
	c.t.Helper()
	var id uuid.UUID
	must(c.t, c.db.Pool.QueryRow(c.t.Context(), "SELECT id FROM outbox WHERE status = 1 AND cancelled_at IS NOT NULL").Scan(&id))
	_, err := c.queue().Abandon(c.t.Context(), hangs, []uuid.UUID{id}, 0, "context canceled")
	must(c.t, err)
}

// deployed acts as a worker that has the handlers.
func (c *cli) deployed() {
	c.t.Helper()
	owner := workqueue.NewOwnerToken()
	rows, err := c.queue().Claim(c.t.Context(), owner, time.Minute, workqueue.MaxBatch)
	must(c.t, err)
	for _, r := range rows {
		_, err := c.queue().Ack(c.t.Context(), owner, []uuid.UUID{r.ID})
		must(c.t, err)
	}
}

// blocked makes a dead letter that blocks another message of its key.
func blocked(t *testing.T) *cli {
	t.Helper()
	c := newMigratedCLI(t)
	box, err := outbox.Open(outbox.Options{Schema: c.db.Schema, Ordering: outbox.PerKey})
	must(t, err)
	c.outbox = box
	m := outbox.Message{Topic: "ship", Key: "order 17", Payload: []byte("{}")}
	c.fail("no such address", c.enqueue(m, m)[0])
	return c
}

func against(make func(*cli)) func(*testing.T) *cli {
	return func(t *testing.T) *cli {
		t.Helper()
		c := newMigratedCLI(t)
		make(c)
		return c
	}
}

// logged writes messages to a log with the subscription audit, which are as old as that, and so is the tick that has
// seen them.
func (c *cli) logged(age string) {
	c.t.Helper()
	c.makeLog()
	c.exec("SET session_replication_role = replica; UPDATE {schema}.outbox_log SET created_at = created_at - interval '" +
		age + "'; UPDATE {schema}.outbox_log_tick SET at = at - interval '" + age + "'; RESET session_replication_role")
}

// cut lets the subscription pass over what is old.
func (c *cli) cut() {
	c.t.Helper()
	c.run("subscriptions", "cut", "audit", "--older-than", "2m", "--yes").ok()
}

var remedies = []remedy{
	{code: "log-unticked", make: against(func(c *cli) {
		c.makeLog()
		c.log("INSERT INTO outbox_log (topic, payload, created_at) VALUES ('u', '', now() - interval '1 hour')")
	})},
	{code: "log-untrimmed", make: against(func(c *cli) {
		c.logged("10 days")
		c.log("SELECT outbox_log_replay('audit', now())")
	})},
	{code: "subscription-losing", make: against(func(c *cli) {
		c.logged("1 hour")
		c.run("subscriptions", "change", "audit", "--max-age", "65m").ok()
	})},
	{code: "subscription-unserved", only: "cut", make: against(func(c *cli) { c.logged("1 hour") }),
		then: (*cli).cut},
	{code: "subscription-unserved", only: "remove", make: against(func(c *cli) { c.logged("1 hour") }),
		then: func(c *cli) { c.run("subscriptions", "remove", "audit", "--yes").ok() }},
	{code: "subscription-behind", only: "cut", make: against(func(c *cli) {
		c.logged("1 hour")
		c.log("SELECT outbox_log_fetch('audit', '" + uuid.NewString() + "', '1 hour', 10)")
	}), then: (*cli).cut},
	{code: "subscription-behind", only: "resume", make: against(func(c *cli) {
		c.logged("1 hour")
		token := uuid.NewString()
		c.log("SELECT outbox_log_fetch('audit', '" + token + "', '1 hour', 10)")
		c.log("SELECT outbox_log_unavailable('audit', '" + token + "', 'no route')")
	}), then: func(c *cli) { c.run("subscriptions", "resume", "audit").ok(); c.cut() }},
	{code: "subscription-paused", make: against(func(c *cli) {
		c.logged("1 hour")
		c.run("subscriptions", "pause", "audit").ok()
	})},
	{code: "subscription-paused", only: "move", make: against(func(c *cli) {
		c.logged("1 hour")
		c.run("subscriptions", "pause", "audit").ok()
		c.log("UPDATE outbox_log_state SET successor = 'audit', moving = true, switched_at = now()")
	})},
	{code: "subscription-paused", only: "--dry-run", make: against(func(c *cli) {
		c.makeLog()
		c.log("UPDATE outbox_log_state SET successor = 'audit', moving = true, switched_at = now()")
		c.exec("INSERT INTO {schema}.outbox (topic, payload, concurrency_key, key_limit, key_policy) " +
			"VALUES ('t', '', 'k', 1, 0)")
	}), then: func(c *cli) { c.run("cancel", "outbox", "--all-live", "--yes").ok() }},
	{code: "expired-leases", make: against((*cli).expired)},
	{code: "not-returning", make: against((*cli).hanging), then: (*cli).returned},
	{code: "ends-process", make: against(func(c *cli) {
		c.enqueue(outbox.Message{Topic: "render", Payload: []byte("{}")})
		for range 2 {
			c.exec("UPDATE {schema}.outbox SET due_at = now() WHERE status = 0")
			_, err := c.queue().Claim(c.t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
			must(c.t, err)
			c.exec("UPDATE {schema}.outbox SET locked_until = now() - interval '1 second' WHERE status = 1")
			c.exec("SELECT {schema}.outbox_reap_expired()")
		}
	})},
	{code: "no-reaper", make: against(func(c *cli) {
		c.enqueue(outbox.Message{Topic: "a", Payload: []byte("{}")})
		_, err := c.queue().Claim(c.t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
		must(c.t, err)
	})},
	{code: "nobody-sees-all", make: against(func(c *cli) {
		c.enqueue(outbox.Message{Topic: "a", Payload: []byte("{}")})
		c.exec("ALTER TABLE {schema}.outbox ENABLE ROW LEVEL SECURITY")
	})},
	{code: "failing-maintenance", make: against(func(c *cli) {
		c.exec("SELECT {schema}.leader_note('{schema}.outbox', 'reap: permission denied')")
	})},
	{code: "retention", make: against(func(c *cli) {
		owner, ids := workqueue.NewOwnerToken(), c.enqueue(outbox.Message{Topic: "a", Payload: []byte("{}")})
		_, err := c.queue().Claim(c.t.Context(), owner, time.Minute, 1)
		must(c.t, err)
		_, err = c.queue().Ack(c.t.Context(), owner, ids)
		must(c.t, err)
		c.exec("UPDATE {schema}.outbox SET completed_at = now() - interval '30 days'")
	})},
	{code: "schema", make: newCLI},
	{code: "schema", only: "validate", exit: 1, make: against(func(c *cli) {
		c.exec("DROP INDEX {schema}.jobs_done_idx")
	}), then: (*cli).validated},
	{code: "public-rights", make: against(func(c *cli) {
		c.exec("GRANT SELECT ON {schema}.jobs TO PUBLIC")
	}), then: func(c *cli) { c.exec("REVOKE SELECT ON {schema}.jobs FROM PUBLIC") }},
	{code: "unserved", make: against(func(c *cli) {
		c.enqueue(outbox.Message{Topic: "a", Payload: []byte("{}")})
		c.exec("UPDATE {schema}.outbox SET due_at = now() - interval '1 hour'")
	}), then: (*cli).deployed},
	{code: "backlog", make: against(func(c *cli) {
		for range 4 {
			c.enqueue(outbox.Message{Topic: "a", Payload: []byte("{}")})
		}
		c.exec("UPDATE {schema}.outbox SET due_at = now() - interval '10 minutes'")
		owner := workqueue.NewOwnerToken()
		rows, err := c.queue().Claim(c.t.Context(), owner, time.Minute, 2)
		must(c.t, err)
		_, err = c.queue().Ack(c.t.Context(), owner, []uuid.UUID{rows[0].ID})
		must(c.t, err)
	}), then: (*cli).deployed},
	{code: "queue-paused", make: against(func(c *cli) {
		c.greet(jobs.Insert{Queue: "mail's"})
		c.run("jobs", "pause", "mail's").ok()
		c.exec("UPDATE {schema}.jobs SET due_at = now() - interval '1 hour'")
	})},
	{code: "topic-paused", make: against(func(c *cli) {
		c.run("outbox", "pause", "mail's").ok()
		c.enqueue(outbox.Message{Topic: "mail's", Payload: []byte("{}")})
		_, err := c.queue().Claim(c.t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
		must(c.t, err)
		c.exec("UPDATE {schema}.outbox SET due_at = now() - interval '1 hour'")
	})},
	{code: "topic-unavailable", make: against(func(c *cli) {
		c.enqueue(outbox.Message{Topic: "mail's", Payload: []byte("{}")})
		token := workqueue.NewOwnerToken()
		rows, err := c.queue().Claim(c.t.Context(), token, time.Minute, 1)
		must(c.t, err)
		_, err = c.queue().Unavailable(c.t.Context(), token, []uuid.UUID{rows[0].ID}, "connection refused")
		must(c.t, err)
		c.exec("UPDATE {schema}.outbox SET due_at = now() - interval '1 hour'")
		c.exec("UPDATE {schema}.outbox_topic SET unavailable_since = now() - interval '1 hour'")
	}), then: (*cli).deployed},
	{code: "topic-behind", make: against(func(c *cli) {
		c.run("outbox", "pause", "mail's").ok()
		c.enqueue(outbox.Message{Topic: "mail's", Payload: []byte("{}")})
		_, err := c.queue().Claim(c.t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
		must(c.t, err)
		c.exec("UPDATE {schema}.outbox SET due_at = now() - interval '1 hour'")
		c.run("outbox", "resume", "mail's").ok()
	}), then: func(c *cli) {
		_, err := c.queue().Fold(c.t.Context())
		must(c.t, err)
		c.deployed()
	}},
	{code: "queue-saturated", only: "list", make: against(func(c *cli) {
		c.run("jobs", "limit", "mail", "--max-running", "1").ok()
		c.greet(jobs.Insert{Queue: "mail"}, jobs.Insert{Queue: "mail"})
		q := c.jobsQueue()
		rows, err := q.Claim(c.t.Context(), hangs, time.Minute, 1, "mail", int16(jobs.Normal))
		must(c.t, err)
		_, err = q.Extend(c.t.Context(), hangs, []uuid.UUID{rows[0].ID}, time.Minute)
		must(c.t, err)
		c.runsForHours("jobs")
		c.exec("UPDATE {schema}.jobs SET due_at = now() - interval '1 hour' WHERE status = 0")
	}), then: func(c *cli) {
		q := c.jobsQueue()
		for _, owner := range []uuid.UUID{hangs, workqueue.NewOwnerToken()} {
			var ids []uuid.UUID
			rows, err := q.Claim(c.t.Context(), owner, time.Minute, 1, "mail", int16(jobs.Normal))
			must(c.t, err)
			for _, r := range rows {
				ids = append(ids, r.ID)
			}
			must(c.t, c.db.Pool.QueryRow(c.t.Context(), "SELECT array_agg(id) FROM jobs WHERE owner_token = $1 AND status = 1",
				owner).Scan(&ids))
			_, err = q.Ack(c.t.Context(), owner, ids)
			must(c.t, err)
		}
	}},
	{code: "queue-saturated", only: "limit", make: against(func(c *cli) {
		c.run("jobs", "limit", "mail", "--max-running", "1").ok()
		c.greet(jobs.Insert{Queue: "mail"}, jobs.Insert{Queue: "mail"})
		client, err := jobs.Open(jobs.Options{Schema: c.db.Schema})
		must(c.t, err)
		_, err = client.Table().On(c.db.Pool).Claim(c.t.Context(), workqueue.NewOwnerToken(), time.Minute, 1, "mail",
			int16(jobs.Normal))
		must(c.t, err)
		c.exec("UPDATE {schema}.jobs SET due_at = now() - interval '1 hour'")
	})},
	{code: "schedule-overdue", make: against(func(c *cli) {
		c.run("schedules", "put", "report", "@hourly", "--topic", "report").ok()
		c.exec("UPDATE {schema}.timers_schedule SET due_at = now() - interval '3 hours', next_at = now() - interval '3 hours'")
	}), then: (*cli).scheduled},
	{code: "schedule-failing", make: against(func(c *cli) {
		c.run("schedules", "put", "report", "@hourly", "--topic", "report").ok()
		c.exec("UPDATE {schema}.timers_schedule SET template = 'torn', attempts = 2, last_error = 'no template', " +
			"next_at = now() - interval '3 hours'")
	}), then: func(c *cli) { c.run("schedules", "put", "report", "@hourly", "--topic", "report").ok() }},
	{code: "schedule-dead", make: against(func(c *cli) {
		c.run("schedules", "put", "report", "@hourly", "--topic", "report").ok()
		c.exec("UPDATE {schema}.timers_schedule SET status = 3, completed_at = now(), failed_at = now(), " +
			"last_error = 'no such zone'")
	})},
	{code: "unknown-handler", make: against(func(c *cli) {
		c.fail(`no handler is registered for topic "a b"`, c.enqueue(outbox.Message{Topic: "a b",
			Payload: []byte("{}")})...)
	}), then: (*cli).deployed},
	{code: "poison", make: against(func(c *cli) {
		for i := range 6 {
			c.fail(fmt.Sprintf("card %d is declined", i), c.enqueue(outbox.Message{Topic: "charge",
				Payload: []byte("{}")})...)
		}
	})},
	{code: "alarm-failed", make: against(func(c *cli) {
		c.alarm("")
		c.woken(errors.New("no capacity"), "status = 'failed'")
	}), then: func(c *cli) { c.woken(nil, "status = 'fired'") }},
	{code: "alarm-failing", make: against(func(c *cli) {
		c.alarm("@every 10m")
		c.woken(errors.New("no capacity"), "last_error <> '' AND next_fire_at > now()")
	}), then: func(c *cli) {
		c.exec("UPDATE {schema}.alarms SET next_fire_at = now()")
		c.exec("UPDATE {schema}.timers SET due_at = now()")
		c.woken(nil, "last_error = ''")
	}},
	{code: "alarm-stranded", make: against(func(c *cli) {
		c.alarm("")
		c.exec("UPDATE {schema}.alarms SET next_fire_at = now() - interval '5 minutes'")
		c.exec("DELETE FROM {schema}.timers")
	}), then: func(c *cli) { c.woken(nil, "status = 'fired'") }},
	{code: "blocked-key", only: "redrive", make: blocked},
	{code: "blocked-key", only: "unblock", make: blocked},
	{code: "blocked-key", only: "unblock", make: against(func(c *cli) {
		c.makeLog()
		c.log("SELECT outbox_log_subscribe('billing')",
			"SELECT outbox_log_append('ship', '{}', 'order 17') FROM generate_series(1, 2)", "CALL outbox_log_tick()")
		token := uuid.NewString()
		c.log("SELECT outbox_log_fetch('billing', '" + token + "', '1 hour', 10)")
		c.log("SELECT outbox_log_settle('billing', '" + token + "', max(m.seq), jsonb_build_array(jsonb_build_object(" +
			"'seq', min(m.seq), 'delay', 0))) FROM outbox_log AS m WHERE topic = 'ship'")
		c.run("reap", "--no-purge", "outbox_log_parked").ok()
		token = workqueue.NewOwnerToken().String()
		c.log("SELECT outbox_log_parked_fail('" + token + "', ARRAY(SELECT id FROM outbox_log_parked_fetch('" + token +
			"', '1 minute', 1, subscription => ARRAY['billing']) WHERE entry = 'row'), 'no such address')")
	})},
	{code: "fold-behind", make: against(func(c *cli) {
		c.exec("INSERT INTO {schema}.outbox_key_note (at, concurrency_key, limited) VALUES (now() - interval " +
			"'5 minutes', 'k', false)")
	})},
	{code: "stuck-join", make: against(func(c *cli) {
		started, owner := c.startJoin(), workqueue.NewOwnerToken()
		_, err := c.queue().Claim(c.t.Context(), owner, time.Minute, 2)
		must(c.t, err)
		_, err = c.queue().Ack(c.t.Context(), owner, started.Steps[:1])
		must(c.t, err)
		c.exec("ALTER TABLE {schema}.outbox DISABLE TRIGGER USER")
		c.exec("UPDATE {schema}.outbox SET status = 2, locked_until = NULL, completed_at = now() - interval " +
			"'20 minutes' WHERE status = 1")
		c.exec("ALTER TABLE {schema}.outbox ENABLE TRIGGER USER")
		c.exec("UPDATE {schema}.outbox_join SET created_at = now() - interval '1 hour', look_at = now() - " +
			"interval '1 second'")
	})},
}

// Each command runs in a shell as doctor prints it, and fixes the problem that it is printed for.
func TestPrintedCommandsMend(t *testing.T) {
	t.Parallel()
	rows := make([]string, len(remedies))
	t.Cleanup(func() {
		if *update && !t.Failed() {
			must(t, documentation.Write(remediesPage(), "commands", "| found | code | seconds | commands as printed |\n"+
				"|---|---|---|---|\n"+strings.Join(rows, "")))
		}
	})
	text, err := os.ReadFile(remediesPage())
	must(t, err)
	_, table, _ := strings.Cut(string(text), "<!-- commands:begin -->")
	table, _, _ = strings.Cut(table, "<!-- commands:end -->")
	if n := strings.Count(table, "\n| ") - 1; n != len(remedies) && !*update { // the first line is the heading
		t.Errorf("docs/doctor-conditions.md has %d rows of commands for %d remedies: go test ./cmd/txwork -run "+
			"PrintedCommands -update", n, len(remedies))
	}
	for i, r := range remedies {
		t.Run(r.code+" "+r.only, func(t *testing.T) {
			c := r.make(t)
			title, took, commands := c.printed(r)
			for _, command := range commands {
				c.shell(command, r.exit)
			}
			if r.then != nil {
				r.then(c)
			}
			for _, f := range decode[printed](c.doctor("--json", "--fail-on", "never").ok()).Findings {
				if f.Code == r.code {
					t.Errorf("after %q it is still there: %+v", commands, f)
				}
			}
			row := fmt.Sprintf("`%s` | `` %s ``", r.code, strings.Join(commands, " ``<br>`` "))
			row = anID.ReplaceAllString(strings.ReplaceAll(row, c.db.Schema, "txwork"), "ID")
			code, command, _ := strings.Cut(row, " | ")
			title = anID.ReplaceAllString(strings.ReplaceAll(title, c.db.Schema, "txwork"), "ID")
			rows[i] = fmt.Sprintf("| %s | %s | %.2f | %s |\n", strings.ReplaceAll(title, "|", `\|`), code, took, command)
			if !*update && !regexp.MustCompile(`(?m)\| `+regexp.QuoteMeta(code)+` \| [\d.]+ \| `+
				regexp.QuoteMeta(command)+` \|$`).Match(text) {
				t.Errorf("docs/doctor-conditions.md lacks this row: go test ./cmd/txwork -run PrintedCommands "+
					"-update\n%s", rows[i])
			}
		})
	}
}

func remediesPage() string { return filepath.Join(root, "docs/doctor-conditions.md") }

// printed returns what one examination prints for a problem.
func (c *cli) printed(r remedy) (title string, took float64, commands []string) {
	c.t.Helper()
	p := decode[printed](c.doctor("--json", "--fail-on", "never").ok())
	for _, f := range p.Findings {
		if f.Code != r.code {
			continue
		}
		for _, command := range f.Remedy.Commands {
			if r.only == "" || strings.Contains(command, " "+r.only+" ") {
				commands = append(commands, command)
			}
		}
		if len(commands) == 0 {
			c.t.Fatalf("no command is printed: %+v", f)
		}
		return f.Title, p.Took, commands
	}
	c.t.Fatalf("no finding %s in %+v", r.code, p.Findings)
	return "", 0, nil
}

// shell runs a command line in a shell in which txwork is this program, answers a question with yes, and expects an
// exit code. It returns what was written.
func (c *cli) shell(line string, exit int) string {
	c.t.Helper()
	self, err := os.Executable()
	must(c.t, err)
	cmd := exec.CommandContext(c.t.Context(), "sh", "-ec", `txwork() { "$SELF" "$@"; }`+"\n"+line)
	cmd.Env = append(os.Environ(), asCommand+"=1", "SELF="+self, databaseURLEnv+"="+c.url)
	cmd.Stdin = strings.NewReader("yes\n")
	output, err := cmd.CombinedOutput()
	if code := (*exec.ExitError)(nil); exit != 0 && errors.As(err, &code) && code.ExitCode() == exit {
		return string(output)
	}
	if err != nil || exit != 0 {
		c.t.Fatalf("%s: %v\n%s", line, err, output)
	}
	return string(output)
}
