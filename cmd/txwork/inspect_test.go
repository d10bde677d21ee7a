package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// invoices is an application's own table, with lanes, a document and a name that needs quoting.
var invoices = workqueue.Spec{
	Table: "invoices",
	Columns: []workqueue.Column{
		{Name: "region", Type: "text", NotNull: true},
		{Name: "priority", Type: "smallint", NotNull: true},
		{Name: "order", Type: "bigint"},
		{Name: "document", Type: "jsonb"},
	},
	Lanes: []string{"region", "priority"},
}

func invoice(region string, priority, order int) workqueue.NewRow {
	return workqueue.NewRow{Values: []any{region, priority, order, fmt.Sprintf(`{"secret": %d}`, order)}}
}

// populate writes rows in every state: 2 ready, 1 scheduled, 2 in progress (1 of them expired), 1 done and 1 failed.
func (c *cli) populate() {
	c.t.Helper()
	ids := c.enqueue(make5("t")...)
	owner := workqueue.NewOwnerToken()
	_, err := c.queue().Claim(c.t.Context(), owner, time.Minute, 4)
	must(c.t, err)
	_, err = c.queue().Ack(c.t.Context(), owner, ids[:1])
	must(c.t, err)
	_, err = c.queue().Fail(c.t.Context(), owner, ids[1:2], "no\nway")
	must(c.t, err)
	c.exec("UPDATE {schema}.outbox SET locked_until = now() - interval '3 minutes' WHERE id = $1", ids[2])
	c.enqueue(outbox.Message{Topic: "t"}, outbox.Message{Topic: "t", ScheduledAt: time.Now().Add(time.Hour)})
}

func make5(topic string) []outbox.Message {
	return slices.Repeat([]outbox.Message{{Topic: topic, Payload: []byte("secret")}}, 5)
}

func TestStats(t *testing.T) {
	c := newMigratedCLI(t)
	c.populate()
	c.insert(c.createTable(invoices), invoice("eu", 1, 7))
	c.exec("CREATE TABLE {schema}.not_ours (id int)")

	all := decode[struct{ Tables []tableStats }](c.run("stats", "--json").ok()).Tables
	want := tableStats{Table: c.db.Schema + ".outbox", Ready: 2, Scheduled: 1, InProgress: 2, Expired: 1, Failed: 1}
	byName := map[string]tableStats{}
	for _, s := range all {
		byName[strings.TrimPrefix(s.Table, c.db.Schema+".")] = s
	}
	if got, want := slices.Sorted(maps.Keys(byName)), c.tables("invoices"); !slices.Equal(got, want) {
		t.Fatalf("tables are %v, want %v", got, want)
	}
	got := byName["outbox"]
	if got.OldestReady <= 0 || got.OldestReady > 600 {
		t.Errorf("the oldest has waited for %v s", got.OldestReady)
	}
	got.OldestReady = 0
	if got != want || byName["invoices"].Ready != 1 {
		t.Errorf("stats are %+v, want %+v", got, want)
	}
	r := c.run("stats", "outbox").ok().prints("IN PROGRESS", c.db.Schema+".outbox")
	if strings.Contains(r.stdout, "invoices") {
		t.Error("stats of one table show another")
	}
}

// However many rows a table has, stats and queues read a bounded number of them, and say so.
func TestCountsAreLowerBoundsUnlessTheyAreToBeExact(t *testing.T) {
	c := newMigratedCLI(t)
	const more = survey.RunningRows + 7
	for _, of := range [][2]string{{"due_at", "now() - interval '1 hour'"}, {"due_at", "now() + interval '1 hour'"},
		{"waiting", "true"}, {"status, attempts, completed_at, failed_at", "3, 1, now(), now()"}} {
		c.exec("INSERT INTO {schema}.jobs (queue, kind, args, priority, "+of[0]+") SELECT 'mail', 'k', '{}', 2, "+of[1]+
			" FROM generate_series(1, $1)", more)
	}
	bounded := decode[counted](c.run("stats", "jobs", "--json").ok()).Tables[0]
	if !bounded.AtLeast || !bounded.MoreLater || !bounded.MoreWaiting || !bounded.MoreFailed ||
		bounded.Failed != topRows || bounded.Ready != survey.RunningRows || bounded.OldestReady < 3600 {
		t.Errorf("the bounded counts are %+v", bounded)
	}
	exact := decode[counted](c.run("stats", "jobs", "--exact", "--json").ok()).Tables[0]
	if exact.AtLeast || exact.Ready != more || exact.Scheduled != more || exact.Waiting != more ||
		exact.Failed != more {
		t.Errorf("the exact counts are %+v", exact)
	}
	c.run("stats", "jobs").ok().prints("10000+", "2000+", "--exact counts all rows")
	c.run("stats", "jobs", "--exact").ok().prints("10007 ")
	c.run("jobs", "queues").ok().prints("10000+", "--exact counts all rows")
	if q := decode[queuesList](c.run("jobs", "queues", "--exact", "--json").ok()).Queues[0]; q.Ready != more ||
		q.Scheduled != more || q.Waiting != more || q.AtLeast {
		t.Errorf("the exact counts of the queue are %+v", q)
	}
	c.run("stats", "--exact", "--since", "1h").exits(exitUsage).says("--exact is for counts of rows")
}

// tables returns the names of all tables that the migrations of the default domains create, and the others, sorted.
func (c *cli) tables(others ...string) []string {
	for table := range domains {
		if slices.Contains(migrations.DefaultDomains(), migrations.Domain(postgres.DomainOf(table))) {
			others = append(others, table)
		}
	}
	return slices.Sorted(slices.Values(others))
}

func TestUnknownTableNamesThoseThereAre(t *testing.T) {
	c := newMigratedCLI(t)
	c.createTable(invoices)
	for _, args := range [][]string{
		{"stats", "outbux"}, {"list", "outbux", "--status", "failed"}, {"show", "outbux", uuid.NewString()},
		{"redrive", "outbux", "--all-failed"}, {"cancel", "outbux", uuid.NewString()}, {"reap", "outbux"},
		{"delete", "outbux", uuid.NewString()},
		{"purge", "outbux", "--done-older-than", "1d", "--yes"}, {"stats", "leader"},
	} {
		c.run(args...).exits(exitFailure).says(fmt.Sprintf("there is no txwork table %q in schema %s: it has %s",
			args[1], c.db.Schema, strings.Join(c.tables("invoices"), ", ")))
	}
	c.run("stats", c.db.Schema+".outbox").ok()
}

func TestSchemaWithoutTables(t *testing.T) {
	c := newCLI(t)
	c.run("stats").exits(exitFailure).says("has no txwork tables: run `txwork migrate up --schema ")
	c.run("reap", "outbox").exits(exitFailure).says("run `txwork migrate up --schema ")
}

func TestTableOfAnotherVersion(t *testing.T) {
	c := newMigratedCLI(t)
	c.exec("COMMENT ON TABLE {schema}.outbox IS 'txwork core 99'")
	c.run("stats").exits(exitFailure).says("has version 99", "upgrade the library")
}

func TestListEachState(t *testing.T) {
	c := newMigratedCLI(t)
	c.populate()
	for status, want := range map[string]int{"ready": 2, "scheduled": 1, "in_progress": 2, "expired": 1, "done": 1,
		"failed": 1, "cancelled": 0} {
		p := decode[operate.Page](c.run("list", "outbox", "--status", status, "--json").ok())
		if len(p.Rows) != want || p.Next != "" {
			t.Errorf("%s has %d rows, want %d; next is %q", status, len(p.Rows), want, p.Next)
		}
	}
	r := c.run("list", "outbox", "--status", "failed").ok().prints("TOPIC", "DEDUP_KEY", "1/130", "no…", "Z (", " ago)")
	if strings.Contains(r.stdout, "secret") || strings.Contains(r.stdout, "PAYLOAD") {
		t.Errorf("the payload is shown: %s", r.stdout)
	}
	c.run("list", "outbox", "--status", "scheduled").ok().prints("(in 59m)")
}

func TestListAsJSON(t *testing.T) {
	c := newMigratedCLI(t)
	c.populate()
	p := decode[map[string]any](c.run("list", "outbox", "--status", "failed", "--json").ok())
	row := p["rows"].([]any)[0].(map[string]any)
	if row["status"] != "failed" || row["last_error"] != "no\nway" || row["columns"].(map[string]any)["topic"] != "t" {
		t.Errorf("the row is %v", row)
	}
	if failedAt := row["failed_at"].(string); !strings.HasSuffix(failedAt, "Z") {
		t.Errorf("failed_at is %s, want UTC", failedAt)
	}
	if empty := c.run("list", "outbox", "--status", "expired", "--json", "--limit",
		"1").ok().stdout; !strings.Contains(empty, `"rows":[{`) {
		t.Errorf("expired is %s", empty)
	}
}

// walk lists a table page by page.
func (c *cli) walk(table, status string, limit int) (ids []uuid.UUID) {
	c.t.Helper()
	after := []string{}
	for {
		args := append([]string{"list", table, "--status", status, "--json", "--limit", fmt.Sprint(limit)}, after...)
		p := decode[operate.Page](c.run(args...).ok())
		for _, r := range p.Rows {
			ids = append(ids, r.ID)
		}
		if p.Next == "" {
			return ids
		}
		after = []string{"--after", p.Next}
	}
}

func TestListPages(t *testing.T) {
	c := newMigratedCLI(t)
	msgs := slices.Repeat([]outbox.Message{{Topic: "t"}}, 30)
	ids := c.enqueue(msgs...) // one transaction: all are due at the same time
	first := c.run("list", "outbox", "--status", "ready", "--limit", "7").ok().says("there is more: --after ")
	if n := strings.Count(first.stdout, "\n"); n != 8 {
		t.Errorf("a page of 7 has %d lines", n)
	}
	if got := c.walk("outbox", "ready", 7); !slices.Equal(got, ids) {
		t.Errorf("ready rows in pages are %v, want %v", got, ids)
	}
	if got := c.walk("outbox", "ready", 10); !slices.Equal(got, ids) {
		t.Error("pages that end with the list differ")
	}

	owner := workqueue.NewOwnerToken()
	_, err := c.queue().Claim(t.Context(), owner, time.Minute, 100)
	must(t, err)
	if got := c.walk("outbox", "in_progress", 7); !slices.Equal(got, ids) {
		t.Error("pages of rows in progress differ")
	}
	for i, id := range ids { // one by one, so that each has its own time
		if i%2 == 0 {
			_, err = c.queue().Ack(t.Context(), owner, []uuid.UUID{id})
		} else {
			_, err = c.queue().Fail(t.Context(), owner, []uuid.UUID{id}, "")
		}
		must(t, err)
	}
	var done, failed []uuid.UUID
	for i, id := range slices.Backward(ids) {
		if i%2 == 0 {
			done = append(done, id)
		} else {
			failed = append(failed, id)
		}
	}
	if got := c.walk("outbox", "done", 4); !slices.Equal(got, done) {
		t.Error("done rows are not the newest first")
	}
	if got := c.walk("outbox", "failed", 4); !slices.Equal(got, failed) {
		t.Error("failed rows are not the newest first")
	}
	c.exec("UPDATE {schema}.outbox SET completed_at = '2026-01-01' WHERE status = 2")
	if got := c.walk("outbox", "done", 4); len(got) != len(done) {
		t.Errorf("%d rows that were done at the same time were listed, want %d", len(got), len(done))
	}
}

func TestListPagesThroughLanes(t *testing.T) {
	c := newMigratedCLI(t)
	table := c.createTable(invoices)
	var ids []uuid.UUID
	for i := range 20 {
		ids = append(ids, c.insert(table, invoice([]string{"us", "eu", `a"b,c`}[i%3], i%2, i))...)
	}
	got := c.walk("invoices", "ready", 3)
	if len(got) != len(ids) {
		t.Fatalf("%d rows were listed, want %d", len(got), len(ids))
	}
	slices.SortFunc(got, compareIDs)
	slices.SortFunc(ids, compareIDs)
	if !slices.Equal(got, ids) {
		t.Error("pages repeat some rows and miss others")
	}
	r := c.run("list", "invoices", "--status", "ready").ok().prints("REGION", "ORDER")
	if strings.Contains(r.stdout, "secret") {
		t.Error("the document is shown")
	}
}

func compareIDs(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) }

func TestListRefusesForeignPositions(t *testing.T) {
	c := newMigratedCLI(t)
	c.createTable(invoices)
	c.enqueue(make5("t")...)
	next := decode[operate.Page](c.run("list", "outbox", "--status", "ready", "--limit", "1", "--json").ok()).Next
	c.run("list", "outbox", "--status", "scheduled", "--after",
		next).exits(exitUsage).says("a position among rows with --status ready")
	c.run("list", "invoices", "--status", "ready", "--after",
		next).exits(exitUsage).says("is no position of this table")
	c.run("list", "outbox", "--status", "ready", "--after", "18f").exits(exitUsage).says("is no position of this table")
}

func TestListShowsNoControlCharacters(t *testing.T) {
	c := newMigratedCLI(t)
	c.enqueue(outbox.Message{Topic: "a\x1b[2Jb", Key: "k\tk"})
	r := c.run("list", "outbox", "--status", "ready").ok().prints(`a\x1b[2Jb`, `k\tk`)
	if strings.Contains(r.stdout, "\x1b") {
		t.Error("an escape sequence reaches the terminal")
	}
}

func TestShow(t *testing.T) {
	c := newMigratedCLI(t)
	id := c.enqueue(outbox.Message{Topic: "orders", Key: "k1", Payload: []byte(`{"card":"4242"}`),
		Headers: map[string]string{"a": "b"}})[0]
	c.fail("first line\nsecond\x1b line", id)

	r := c.run("show", "outbox", id.String()).ok()
	r.prints("status       failed", "attempts     1 of 130", "topic        orders", "key          k1", `{"a": "b"}`,
		"payload      15 bytes (--payloads shows them)", "  first line\n", `  second\x1b line`, "dedup_key    -")
	if strings.Contains(r.stdout, "4242") {
		t.Error("the payload is shown without being asked for")
	}
	c.run("show", "outbox", id.String(), "--payloads").ok().prints("15 bytes, below",
		"\npayload:\n{\"card\":\"4242\"}\n")
	c.run("show", "outbox", uuid.NewString()).exits(exitFailure).says("outbox has no row ")
}

func TestShowAsJSON(t *testing.T) {
	c := newMigratedCLI(t)
	ids := c.enqueue(outbox.Message{Topic: "t", Payload: []byte("text")}, outbox.Message{Topic: "t",
		Payload: []byte{0xff, 0}}, outbox.Message{Topic: "t"})
	type shown struct {
		Status   string
		Columns  map[string]any
		Headers  map[string]string
		Payloads map[string]json.RawMessage
	}
	hidden := decode[shown](c.run("show", "outbox", ids[0].String(), "--json").ok())
	if hidden.Status != "ready" || hidden.Columns["topic"] != "t" || hidden.Headers == nil ||
		string(hidden.Payloads["payload"]) != `{"bytes":4}` {
		t.Errorf("without --payloads: %+v", hidden)
	}
	for i, want := range []string{`{"bytes":4,"text":"text"}`, `{"bytes":2,"base64":"/wA="}`, `{"bytes":0,"text":""}`} {
		got := decode[shown](c.run("show", "outbox", ids[i].String(), "--json", "--payloads").ok())
		if string(got.Payloads["payload"]) != want {
			t.Errorf("payload is %s, want %s", got.Payloads["payload"], want)
		}
	}
	c.run("show", "outbox", ids[1].String(), "--payloads").ok().prints("00000000  ff 00")
}

func TestShowTableOfOnesOwn(t *testing.T) {
	c := newMigratedCLI(t)
	table := c.createTable(invoices)
	ids := c.insert(table, invoice("eu", 1, 7), workqueue.NewRow{Values: []any{"us", 2, nil, nil}})
	r := c.run("show", "invoices", ids[0].String()).ok().prints("region       eu", "order        7",
		"document     13 bytes (--payloads")
	if strings.Contains(r.stdout, "secret") {
		t.Error("the document is shown without being asked for")
	}
	c.run("show", "invoices", ids[0].String(), "--payloads").ok().prints(`{"secret": 7}`)
	c.run("show", "invoices", ids[1].String(), "--payloads").ok().prints("order        -", "document     -")
}
