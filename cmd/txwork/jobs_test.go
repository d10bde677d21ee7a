package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

type greeting struct {
	Name string `json:"name"`
}

func (greeting) Kind() string { return "greeting" }

// greet enqueues jobs as an application does.
func (c *cli) greet(greetings ...jobs.Insert) []uuid.UUID {
	c.t.Helper()
	client, err := jobs.Open(jobs.Options{Schema: c.db.Schema})
	must(c.t, err)
	ids := make([]uuid.UUID, len(greetings))
	a := &app{databaseURL: c.url, schema: c.db.Schema}
	must(c.t, a.withDatabase(c.t.Context(), func(d *database) error {
		return d.Write(c.t.Context(), func(tx workqueue.Tx) error {
			for i, g := range greetings {
				g.Args = greeting{"secret"}
				done, err := client.Enqueue(c.t.Context(), tx, g)
				if err != nil {
					return err
				}
				ids[i] = done.ID
			}
			return nil
		})
	}))
	return ids
}

// failJobs makes dead letters of the ready jobs of a queue.
func (c *cli) failJobs(queue string) {
	c.t.Helper()
	client, err := jobs.Open(jobs.Options{Schema: c.db.Schema})
	must(c.t, err)
	owner := workqueue.NewOwnerToken()
	q := client.Table().On(c.db.Pool)
	rows, err := q.Claim(c.t.Context(), owner, time.Minute, 100, queue, int16(jobs.Normal))
	must(c.t, err)
	ids := make([]uuid.UUID, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	_, err = q.Fail(c.t.Context(), owner, ids, "no\nway")
	must(c.t, err)
}

func TestJobsList(t *testing.T) {
	c := newMigratedCLI(t)
	ids := c.greet(jobs.Insert{Queue: "mail"}, jobs.Insert{Queue: "mail"},
		jobs.Insert{Priority: jobs.High, Delay: time.Hour})
	c.failJobs("mail")

	all := c.run("jobs", "list").ok().prints("KIND", "greeting", "mail", "high", "(in 59m)", "failed", "1/30", "no…")
	if strings.Contains(all.stdout, "secret") || strings.Index(all.stdout, ids[2].String()) > strings.Index(all.stdout,
		ids[0].String()) {
		t.Errorf("the list is\n%s", all.stdout)
	}
	first := decode[jobsPage](c.run("jobs", "list", "--queue", "mail", "--status", "failed", "--limit", "1",
		"--json").ok())
	if len(first.Jobs) != 1 || first.Jobs[0].ID != ids[1] || first.Next == nil || first.Jobs[0].ArgsBytes == 0 ||
		first.Jobs[0].Status != "failed" {
		t.Fatalf("the first page is %+v", first)
	}
	c.run("jobs", "list", "--queue", "mail", "--limit", "1").ok().says("there is more: --after " + ids[1].String() +
		"\n")
	rest := decode[jobsPage](c.run("jobs", "list", "--queue", "mail", "--limit", "1", "--after", first.Next.String(),
		"--json").ok())
	if len(rest.Jobs) != 1 || rest.Jobs[0].ID != ids[0] || rest.Next != nil {
		t.Errorf("the last page is %+v", rest)
	}
	if none := c.run("jobs", "list", "--kind", "other", "--json").ok().stdout; none != `{"jobs":[]}`+"\n" {
		t.Errorf("no jobs are %s", none)
	}
}

func TestJobsShow(t *testing.T) {
	c := newMigratedCLI(t)
	id := c.greet(jobs.Insert{Queue: "mail", Retry: jobs.Quadratic})[0]
	c.failJobs("mail")
	r := c.run("jobs", "show", id.String()).ok().prints("kind         greeting", "queue        mail", "priority     2",
		"own backoff  {", "(--payloads shows them)",
		"ATTEMPT  ENDED", "1        ", "failed", "no…")
	if strings.Contains(r.stdout, "secret") || strings.Contains(r.stdout, "key_limit") {
		t.Errorf("the job is\n%s", r.stdout)
	}
	c.run("jobs", "show", id.String(), "--payloads").ok().prints(`{"name":"secret"}`)
	shown := decode[struct {
		Table   string
		ID      uuid.UUID
		History []endedAttempt
	}](c.run("jobs", "show", id.String(), "--json").ok())
	if shown.ID != id || len(shown.History) != 1 || shown.History[0].Outcome != "failed" ||
		shown.History[0].Error != "no\nway" {
		t.Errorf("%+v", shown)
	}
	c.run("jobs", "show", uuid.NewString()).exits(exitFailure).says("jobs has no row ")
}

func TestJobsCancelAndRetry(t *testing.T) {
	c := newMigratedCLI(t)
	ids := c.greet(jobs.Insert{Queue: "mail"}, jobs.Insert{Queue: "mail"}, jobs.Insert{})
	c.failJobs("mail")
	c.run("jobs", "cancel", ids[2].String(), "--reason", "not wanted").ok().prints("1 row of " + c.db.Schema +
		".jobs cancelled")
	c.run("jobs", "list", "--queue", "default").ok().prints("cancelled", "not wanted")
	c.run("jobs", "cancel", ids[0].String()).exits(exitFailure).says("it is failed")
	c.run("jobs", "redrive", ids[0].String(), "--actor", "mary").ok().prints("1 row of " + c.db.Schema +
		".jobs redriven")
	// The cancelled one is left out.
	if all := decode[repaired](c.run("jobs", "redrive", "--all-failed", "--yes", "--json").ok()); all.Changed != 1 {
		t.Errorf("retried %+v", all)
	}
	c.run("jobs", "redrive", ids[0].String()).exits(exitFailure).says("was not redriven: it is ready")
}

// A dead letter whose unique key another job holds is left alone, and the command names the holder. In bulk it is not
// counted.
func TestRedriveBesideAHolder(t *testing.T) {
	c := newMigratedCLI(t)
	only := jobs.Insert{Queue: "mail", Unique: &jobs.Unique{Key: "only"}}
	dead := c.greet(only)[0]
	c.failJobs("mail")
	c.greet(jobs.Insert{Queue: "mail"})
	c.failJobs("mail")
	holder := c.greet(only)[0]
	reason := "was not redriven: row " + holder.String() + " holds its unique key"
	c.run("jobs", "redrive", dead.String()).exits(exitFailure).says(dead.String() + " " + reason)
	c.run("redrive", "jobs", dead.String()).exits(exitFailure).says(dead.String() + " " + reason)
	c.run("jobs", "redrive", "--all-failed", "--yes").ok().prints("1 of 2 rows of " + c.db.Schema + ".jobs redriven")
	c.run("jobs", "cancel", holder.String()).ok()
	c.run("jobs", "redrive", dead.String()).ok().prints("1 row of ")
}

func TestJobsQueues(t *testing.T) {
	c := newMigratedCLI(t)
	c.greet(jobs.Insert{Queue: "mail"}, jobs.Insert{Queue: "mail", Delay: time.Hour},
		jobs.Insert{})
	c.run("jobs", "pause", "mail").ok().prints("queue mail paused")
	c.run("jobs", "limit", "mail", "--max-running", "20", "--rate", "2.5").ok().prints("queue mail limited")
	c.run("jobs", "limit", "new", "--rate", "1", "--burst", "9", "--json").ok().prints(`"limited":true`)

	all := decode[struct{ Queues []shownQueue }](c.run("jobs", "queues", "--json").ok()).Queues
	want := []shownQueue{
		{Name: "default", Ready: 1},
		{Name: "mail", Paused: true, Ready: 1, Scheduled: 1, MaxRunning: 20, Rate: 2.5, Burst: 3},
		{Name: "new", Rate: 1, Burst: 9},
	}
	if fmt.Sprint(all) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", all, want)
	}
	c.run("jobs", "queues").ok().prints("MAX RUNNING", "yes", "2.5/s", "20")

	c.run("jobs", "resume", "mail").ok()
	c.run("jobs", "limit", "mail", "--max-running", "0").ok()
	after := decode[struct{ Queues []shownQueue }](c.run("jobs", "queues", "--json").ok()).Queues
	if after[1].Paused || after[1].MaxRunning != 0 || after[1].Rate != 0 {
		t.Errorf("after its resume and the removal of its limits: %+v", after[1])
	}
	c.run("jobs", "limit", "mail", "--rate", "-1").exits(exitUsage).says("Rate is -1")
	c.run("jobs", "pause", "").exits(exitUsage).says("queue")
}

// A mistyped name cannot be told from that of a new queue, so the command works but prints a hint.
func TestAQueueThatNobodyKnows(t *testing.T) {
	c := newMigratedCLI(t)
	c.greet(jobs.Insert{Queue: "mail"})
	const hint = "no rule and has no live job"
	if out := c.run("jobs", "pause", "mail").ok().stdout; strings.Contains(out, hint) {
		t.Errorf("a queue with jobs: %s", out)
	}
	c.run("jobs", "pause", "mial").ok().prints("queue mial paused", hint)
	c.run("jobs", "limit", "mial2", "--rate", "1").ok().prints("queue mial2 limited", hint)
	c.run("jobs", "pause", "mial3", "--json").ok().prints(`"known":false`)
	c.run("jobs", "resume", "mial3", "--json").ok().prints(`"known":true`) // pausing gave it a rule
}

// A queue that has many jobs is known by one of them.
func TestAQueueIsKnownByOneJob(t *testing.T) {
	c := newMigratedCLI(t)
	c.exec(`INSERT INTO {schema}.jobs (kind, queue, priority, args)
		SELECT 'greet', 'mail', 2, '' FROM generate_series(1, 2000)`)
	client, err := jobs.Open(jobs.Options{Schema: c.db.Schema})
	must(t, err)
	tx, err := c.db.Pool.Begin(t.Context())
	must(t, err)
	defer tx.Rollback(t.Context())
	known, err := knowsQueue(t.Context(), client, workqueue.Pgx(tx), "mail")
	must(t, err)
	var read int
	must(t, tx.QueryRow(t.Context(), `SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables
		WHERE schemaname = $1 AND relname = 'jobs'`, c.db.Schema).Scan(&read))
	if !known || read > 100 {
		t.Errorf("the queue is known: %v, by %d jobs", known, read)
	}
}

// behind writes two messages with the same key, makes the first a dead letter, and returns both. The second waits.
func (c *cli) behind(policy string) (first, second uuid.UUID) {
	c.t.Helper()
	line := fmt.Sprintf("{\"k\":%q}\n", policy) // a key for each policy, so that failed messages do not mix
	c.send(line+line, "--topic", policy, "--key-field", "k", "--per-key", "--on-failure", policy).ok()
	ids := value[[]string](c, "SELECT array_agg(id::text ORDER BY key_seq) FROM {schema}.outbox WHERE topic = $1",
		policy)
	first, second = uuid.MustParse(ids[0]), uuid.MustParse(ids[1])
	return first, second
}

func TestSendPerKey(t *testing.T) {
	c := newMigratedCLI(t)
	first, second := c.behind("block")
	c.fold()
	waiting := decode[operate.Page](c.run("list", "outbox", "--status", "waiting", "--json").ok())
	if len(waiting.Rows) != 1 || waiting.Rows[0].ID != second || !waiting.Rows[0].Waiting ||
		waiting.Rows[0].Status != operate.RowStatus(workqueue.Ready) {
		t.Fatalf("waiting are %+v, want %s", waiting.Rows, second)
	}
	ready := decode[operate.Page](c.run("list", "outbox", "--status", "ready", "--json").ok())
	if len(ready.Rows) != 1 ||
		ready.Rows[0].ID != first || ready.Rows[0].Waiting {
		t.Errorf("ready are %+v, want %s", ready.Rows, first)
	}
	c.run("show", "outbox", second.String()).ok().prints("ready, waiting", "concurrency_key")
	if s := decode[struct{ Tables []tableStats }](c.run("stats", "outbox", "--json").ok()).Tables[0]; s.Ready != 1 ||
		s.Waiting != 1 {
		t.Errorf("stats are %+v", s)
	}
}

func TestOutboxUnblock(t *testing.T) {
	c := newMigratedCLI(t)
	first, second := c.behind("block")
	c.fail("no", first)
	if n := value[int](c, "SELECT count(*) FROM {schema}.outbox WHERE waiting"); n != 1 {
		t.Fatalf("%d messages wait behind the failed one", n)
	}
	c.run("outbox", "unblock", first.String()).ok().prints("1 row of " + c.db.Schema + ".outbox unblocked")
	c.run("reap", "outbox").ok()
	if s := c.state(second); s.status != workqueue.Ready ||
		value[bool](c, "SELECT bool_or(waiting) FROM {schema}.outbox") {
		t.Errorf("the message behind is %+v", s)
	}
	c.run("outbox", "unblock", first.String()).ok().prints("0 rows of ")
	r := c.run("outbox", "unblock", second.String(), uuid.NewString()).exits(exitFailure)
	r.says("was not unblocked: it is ready", "was not unblocked: there is no such row", "2 rows of ")
}

// A relay with --until-empty does not wait for messages that are blocked by a dead letter.
func TestRelayUntilEmptyLeavesBlockedMessages(t *testing.T) {
	c := newMigratedCLI(t)
	first, second := c.behind("block")
	c.fail("no", first)
	for _, topics := range [][]string{nil, {"--topic", "block"}} {
		c.run(append([]string{"outbox", "relay", "--stdout", "--until-empty"}, topics...)...).ok().
			says("delivered 0 messages", "remaining: 0 scheduled for later, 1 failed", "1 waiting for others")
	}
	if s := c.state(second); s.status != workqueue.Ready || s.attempts != 0 {
		t.Errorf("the message behind is %+v", s)
	}
}

func TestSendPerKeyPolicies(t *testing.T) {
	c := newMigratedCLI(t)
	first, second := c.behind("park")
	c.fail("no", first)
	c.fold()
	if s := c.state(second); s.status != workqueue.Failed {
		t.Errorf("parked behind a failed one: %+v", s)
	}
	first, second = c.behind("skip")
	c.fail("no", first)
	if s := c.state(second); s.status != workqueue.Ready {
		t.Errorf("skipping the failed one: %+v", s)
	}
}

// Reap runs each sweep of a table: here, that of the inbox's tombstones.
func TestReapSweeps(t *testing.T) {
	c := newMigratedCLI(t)
	box, err := inbox.Open(inbox.Options{Schema: c.db.Schema, DedupWindow: 30 * 24 * time.Hour})
	must(t, err)
	a := &app{databaseURL: c.url, schema: c.db.Schema}
	must(t, a.withDatabase(t.Context(), func(d *database) error {
		return d.Write(t.Context(), func(tx workqueue.Tx) error {
			messages := []inbox.Message{{Consumer: "c", Source: "s", MessageID: "1", Payload: []byte("x")},
				{Consumer: "c", Source: "s", MessageID: "2", Payload: []byte("x")}}
			_, err := box.ReceiveMany(t.Context(), tx, messages...)
			return err
		})
	}))
	c.exec("UPDATE {schema}.inbox SET status = 2, completed_at = now() - interval '1 year'")
	some := decode[struct{ Tables []reapedTable }](c.run("reap", "inbox", "--limit", "1", "--json").ok()).Tables
	if some[0].Swept != 1 || !some[0].More {
		t.Errorf("reaped %+v", some)
	}
	c.run("reap", "inbox", "--limit", "5").ok().prints("SWEPT", c.db.Schema+".inbox  0         0       1")
	if n := value[int](c, "SELECT count(*) FROM {schema}.inbox WHERE payload IS NULL"); n != 2 {
		t.Errorf("%d tombstones, want 2", n)
	}
	c.run("list", "inbox", "--status", "done").ok().prints("CONSUMER", "SOURCE", "MESSAGE_ID", "TOPIC")
	if p := decode[purged](c.run("purge", "inbox", "--done-older-than", "30d", "--yes", "--json").ok()); p.Done != 2 {
		t.Errorf("purged %+v", p)
	}
}

// While an application that has cancelled a task of a workflow keeps its transaction open, expired rows of this
// workflow and of others are still reaped.
func TestReapWaitsForNoApplication(t *testing.T) {
	c := newMigratedCLI(t)
	client, err := jobs.Open(jobs.Options{Schema: c.db.Schema})
	must(t, err)
	flow := jobs.NewWorkflow("w")
	held := flow.Task("held", jobs.Insert{Args: greeting{}})
	lost := flow.Task("lost", jobs.Insert{Args: greeting{}, Priority: jobs.High, MaxAttempts: 1})
	flow.Task("last", jobs.Insert{Args: greeting{}}, jobs.After(held, lost))
	var started jobs.StartedWorkflow
	must(t, workqueue.InTx(t.Context(), c.db.Pool, func(tx workqueue.Tx) (err error) {
		started, err = client.StartWorkflow(t.Context(), tx, flow)
		return err
	}))
	other := c.greet(jobs.Insert{Priority: jobs.High})
	rows, err := client.Table().On(c.db.Pool).Claim(t.Context(), workqueue.NewOwnerToken(),
		time.Minute, 10, "default", jobs.High)
	must(t, err)
	if len(rows) != 2 {
		t.Fatalf("%d jobs are claimed, want 2", len(rows))
	}
	c.exec("UPDATE {schema}.jobs SET locked_until = now() - interval '1 second' WHERE status = 1")
	application, err := c.db.Pool.Begin(t.Context())
	must(t, err)
	defer application.Rollback(context.Background())
	_, err = client.Cancel(t.Context(), workqueue.Pgx(application), "no", started.Tasks["held"])
	must(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c.runWith(ctx, strings.NewReader(""), "reap").ok()
	if n := value[int](c, "SELECT count(*) FROM {schema}.jobs WHERE id = ANY ($1) AND status IN (0, 3)",
		append(other, started.Tasks["lost"])); n != 2 {
		t.Errorf("%d of the 2 expired jobs were reaped", n)
	}
}

// Rows of all tables of the migrations can be listed by state and shown, and each listed row fits on one line.
func TestListKnowsEveryTable(t *testing.T) {
	c := newMigratedCLI(t)
	c.run("migrate", "up", "--domain", "log").ok()
	c.greet(jobs.Insert{})
	c.enqueue(outbox.Message{Topic: "t"})
	c.run("timers", "set", "k", "--topic", "t", "--in", "1h").ok()
	c.run("schedules", "put", "s", "@daily", "--topic", "t").ok()
	for table := range domains {
		for status := range operate.Listings {
			r := c.run("list", table, "--status", status).ok()
			if strings.Contains(r.stdout, "KEY_") || strings.Contains(r.stdout, "WAITING") ||
				strings.Contains(r.stdout, "RETRY") {
				t.Errorf("list of %s shows what is of no use:\n%s", table, r.stdout)
			}
		}
	}
	c.run("list", "jobs", "--status", "ready").ok().prints("KIND", "QUEUE", "PRIORITY", "greeting")
	c.run("list", "timers_schedule", "--status", "scheduled").ok().prints("NAME", "EXPR", "@daily")
}

func TestLibraryErrorsOfUsage(t *testing.T) {
	t.Parallel()
	if err := conclude(validate.Errorf("key", "is empty")); !errors.As(err, new(usageError)) {
		t.Errorf("%v is no usage error", err)
	}
}
