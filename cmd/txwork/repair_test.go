package main

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

func TestRedriveNamedRows(t *testing.T) {
	c := newMigratedCLI(t)
	ids := c.enqueue(make5("t")...)
	c.fail("no", ids[:2]...)
	c.run("redrive", "outbox", ids[0].String(), "--actor", "mary").ok().prints("1 row of " + c.db.Schema +
		".outbox redriven")
	if s := c.state(ids[0]); s.status != workqueue.Ready || s.attempts != 0 {
		t.Errorf("the row is %+v", s)
	}
	if by := value[string](c, "SELECT headers ->> 'txwork-redriven-by' FROM {schema}.outbox WHERE id = $1",
		ids[0]); by != "mary" {
		t.Errorf("redriven by %q", by)
	}
	missing := uuid.New()
	r := c.run("redrive", "outbox", ids[0].String(), ids[1].String(), missing.String())
	r.exits(exitFailure).prints("1 row of ").says(ids[0].String()+" was not redriven: it is ready", missing.String()+
		" was not redriven: there is no such row",
		"2 rows of "+c.db.Schema+".outbox could not be redriven")
}

type repaired struct {
	Changed   int
	Unchanged []unchangedRow
}

func TestRedriveAllFailed(t *testing.T) {
	c := newMigratedCLI(t)
	ids := c.enqueue(slices.Repeat([]outbox.Message{{Topic: "t"}}, 2500)...)
	c.fail("no", ids...)
	c.exec("UPDATE {schema}.outbox SET failed_at = now() - interval '1 hour' WHERE id = $1", ids[2000])

	some := decode[repaired](c.run("redrive", "outbox", "--all-failed", "--limit", "1", "--yes", "--json").ok())
	if some.Changed != 1 || c.state(ids[2000]).status != workqueue.Ready {
		t.Errorf("the oldest should have been redriven: %+v", some)
	}
	all := decode[repaired](c.run("redrive", "outbox", "--all-failed", "--yes", "--json").ok())
	if all.Changed != 2499 {
		t.Errorf("%d rows were redriven, want 2499", all.Changed)
	}
	c.run("redrive", "outbox", "--all-failed").ok().prints("0 rows of ") // nothing to redrive, so no question
}

func TestCancel(t *testing.T) {
	c := newMigratedCLI(t)
	ids := c.enqueue(make5("t")...)
	owner := workqueue.NewOwnerToken()
	_, err := c.queue().Claim(t.Context(), owner, time.Minute, 2)
	must(t, err)
	_, err = c.queue().Ack(t.Context(), owner, ids[:1])
	must(t, err)

	c.run("cancel", "outbox", ids[2].String(), ids[1].String(), "--reason", "sent twice").ok().prints("2 rows of ")
	if s := c.state(ids[2]); s.status != workqueue.Failed || s.lastErr != "cancelled: sent twice" {
		t.Errorf("the ready row is %+v", s)
	}
	if s := c.state(ids[1]); s.status != workqueue.InProgress {
		t.Errorf("the running row is %+v", s)
	}
	again := decode[repaired](c.run("cancel", "outbox", ids[2].String(), ids[1].String(), "--json").ok())
	if again.Changed != 0 || len(again.Unchanged) != 0 {
		t.Errorf("cancelling again did %+v", again)
	}
	r := c.run("cancel", "outbox", ids[0].String(), ids[3].String(), "--json").exits(exitFailure)
	some := decode[repaired](r)
	if some.Changed != 1 || len(some.Unchanged) != 1 || some.Unchanged[0] != (unchangedRow{ids[0], "it is done"}) {
		t.Errorf("cancelling a done row did %+v", some)
	}
}

// The verbs decide about rows that are named and about those that a selection matches, of every table, and do it once.
func TestVerbs(t *testing.T) {
	c := newMigratedCLI(t)
	c.insert(c.createTable(invoices), invoice("eu", 1, 7))
	later := c.enqueue(slices.Repeat([]outbox.Message{{Topic: "a", ScheduledAt: time.Now().Add(time.Hour)}}, 3)...)
	done := c.enqueue(outbox.Message{Topic: "b"})[0]
	c.exec("UPDATE {schema}.outbox SET status = 2, attempts = 1, completed_at = now() WHERE id = $1", done)
	dead := c.deadLetters(3, "a", "no")
	box := c.db.Schema + ".outbox"
	do := func(line, printed string) {
		t.Helper()
		c.run(strings.Fields(line)...).ok().prints(printed)
	}

	do("run-now outbox "+later[0].String(), "1 row of "+box+" made due")
	do("run-now outbox "+later[0].String(), "0 rows of "+box+" made due") // it is due
	c.run("run-now", "outbox", done.String()).exits(exitFailure).says(done.String() + " was not made due: it is done")
	do("run-now outbox --topic a --dry-run", "2 rows of "+box+" would be made due")
	do("run-now outbox --all-scheduled --yes", "2 rows of "+box+" made due")

	for range 2 {
		c.run("reschedule", "outbox", later[0].String(), later[0].String(), "--at", "2040-01-01T00:00:00+01:00").ok()
	}
	at := value[time.Time](c, "SELECT due_at FROM {schema}.outbox WHERE id = $1", later[0])
	if want := time.Date(2039, 12, 31, 23, 0, 0, 0, time.UTC); !at.Equal(want) {
		t.Errorf("the row is due at %v, want %v", at, want)
	}
	do("reschedule outbox --all-ready --status ready --in 2h --yes", "2 rows of "+box+" rescheduled")
	do("reschedule outbox --all-ready --in 3h --limit 1 --yes", "1 row of "+box+" rescheduled")
	do("reschedule outbox --all-ready --in 4h --yes", "3 rows of "+box+" rescheduled")
	do("reschedule invoices --all-ready --in 4h --yes", "1 row of "+c.db.Schema+".invoices rescheduled")
	if n := value[int](c, "SELECT count(*) FROM {schema}.outbox WHERE due_at > now() + interval '239 minutes' AND "+
		"due_at < now() + interval '4 hours'"); n != 3 {
		t.Errorf("%d rows are due in four hours, want 3", n)
	}
	c.run("reschedule", "outbox", done.String(), "--in", "1h").exits(exitFailure).
		says("was not rescheduled: it is done")

	c.run("discard", "outbox", dead[0].String(), "--reason", "gone").ok().prints("1 row of " + box + " discarded")
	if s := c.state(dead[0]); s.status != workqueue.Failed || s.lastErr != "discarded: gone; no" {
		t.Errorf("the discarded row is %+v", s)
	}
	do("discard outbox "+dead[0].String(), "0 rows of ")
	c.run("discard", "outbox", done.String()).exits(exitFailure).says("was not discarded: it is done")
	do("discard outbox --all-failed --yes", "2 rows of "+box+" discarded")

	c.run("delete", "outbox", later[0].String()).exits(exitFailure).says("was not deleted: it is scheduled: cancel")
	do("delete outbox "+dead[0].String(), "1 row of "+box+" deleted")
	c.run("delete", "outbox", dead[0].String()).exits(exitFailure).says("there is no such row")
	c.run("delete", "outbox", "--all-ended").exits(exitUsage).says("Delete 3 rows of " + box + " for good? [y/N]")
	do("delete outbox --status cancelled --topic a --yes", "2 rows of "+box+" deleted")
	do("delete outbox --all-ended --yes", "1 row of "+box+" deleted")
}

// The backoff is the table's own, which only the table's function knows.
func TestReapCallsTheTablesOwnFunction(t *testing.T) {
	c := newMigratedCLI(t)
	spec := invoices
	spec.Retry = workqueue.Retry{Growth: workqueue.Constant, Base: 48 * time.Hour, Cap: 48 * time.Hour}
	table := c.createTable(spec)
	c.insert(table, invoice("eu", 1, 7))
	_, err := table.On(c.db.Pool).Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 1, "eu", 1)
	must(t, err)
	c.exec("UPDATE {schema}.invoices SET locked_until = now() - interval '1 hour'")
	c.orphan("left")

	all := decode[struct{ Tables []reapedTable }](c.run("reap", "--json").ok()).Tables
	if len(all) != len(c.tables("invoices")) {
		t.Errorf("reaped %+v", all)
	}
	for _, table := range all {
		want := reapedTable{Table: table.Table}
		if name := strings.TrimPrefix(table.Table, c.db.Schema+"."); name == "invoices" || name == "outbox" {
			want.Requeued = 1
		}
		if !reflect.DeepEqual(table, want) {
			t.Errorf("reaped %+v, want %+v", table, want)
		}
	}
	due := value[float64](c, "SELECT extract(epoch FROM due_at - now())::float8 / 3600 FROM {schema}.invoices")
	if due < 46.9 || due > 47.1 {
		t.Errorf("the row is due in %.1f hours, want 47 by the table's own backoff", due)
	}
	c.run("reap", "invoices").ok().prints("REQUEUED", c.db.Schema+".invoices")
}

func TestReapLimit(t *testing.T) {
	c := newMigratedCLI(t)
	for range 3 {
		c.orphan("left")
	}
	c.exec("UPDATE {schema}.outbox SET max_attempts = 1 WHERE id = (SELECT id FROM {schema}.outbox ORDER BY due_at, " +
		"id LIMIT 1)")
	c.run("reap", "outbox", "--limit", "2").ok().prints("limit reached")
	all := decode[struct{ Tables []reapedTable }](c.run("reap", "outbox", "--limit", "2", "--json").ok()).Tables
	if all[0].Requeued+all[0].Failed != 1 || all[0].More {
		t.Errorf("the second round reaped %+v", all)
	}
	if n := value[int](c, "SELECT count(*) FROM {schema}.outbox WHERE status = 3"); n != 1 {
		t.Errorf("%d rows have failed, want the one without attempts left", n)
	}
}

// Reap deletes by the retention in the migration, as a reaper does.
func TestReapDeletesWhatIsPastItsRetention(t *testing.T) {
	c := newMigratedCLI(t)
	ids := c.enqueue(slices.Repeat([]outbox.Message{{Topic: "t"}}, 4)...)
	c.fail("no", ids...)
	c.exec("UPDATE {schema}.outbox SET completed_at = now() - interval '8 days', failed_at = now() - interval '8 days'")
	c.exec("UPDATE {schema}.outbox SET status = 2, failed_at = NULL WHERE id <> $1", ids[3])

	c.run("reap", "outbox", "--no-purge").ok()
	for _, want := range []reapedTable{{PurgedDone: 2, More: true}, {PurgedDone: 1}, {}} {
		all := decode[struct{ Tables []reapedTable }](c.run("reap", "outbox", "--limit", "2", "--json").ok()).Tables
		want.Table = c.db.Schema + ".outbox"
		if len(all) != 1 || !reflect.DeepEqual(all[0], want) {
			t.Errorf("reaped %+v, want %+v", all, want)
		}
	}
	if n := value[int](c, "SELECT count(*) FROM {schema}.outbox WHERE status = 3"); n != 1 {
		t.Errorf("%d failed rows are left, want 1: they are kept forever", n)
	}
}

// Reap goes on until nothing is left, one transaction after the other, also behind a row that is in the way, and so
// does the procedure. An interruption ends it after a transaction, and what was done is told.
func TestReapDeletesEverythingPastItsRetention(t *testing.T) {
	c := newMigratedCLI(t)
	old := func() {
		c.exec(`INSERT INTO {schema}.outbox (topic, payload, status, attempts, completed_at)
			SELECT 't', '', 2, 1, now() - interval '90 days' FROM generate_series(1, 3500)`)
	}
	left := func(want int) {
		t.Helper()
		if n := value[int](c, "SELECT count(*) FROM {schema}.outbox"); n != want {
			t.Errorf("%d rows are left, want %d", n, want)
		}
	}
	reap := func(code, want int) {
		t.Helper()
		got := decode[reaped](c.run("reap", "outbox", "--json").exits(code)).Tables
		if len(got) != 1 || got[0].PurgedDone != want || got[0].More {
			t.Errorf("reaped %+v, want %d", got, want)
		}
	}
	old()
	reap(exitOK, 3500)
	left(0)

	old()
	c.exec(`CREATE TABLE {schema}.invoice AS SELECT id AS message FROM {schema}.outbox LIMIT 1;
		ALTER TABLE {schema}.invoice ADD FOREIGN KEY (message) REFERENCES {schema}.outbox`)
	reap(exitFailure, 3499)
	left(1)
	c.exec("DROP TABLE {schema}.invoice")

	old()
	c.exec("CALL {schema}.outbox_maintain(max_rows => 10)")
	left(0)

	old()
	c.exec(`CREATE FUNCTION {schema}.wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
			IF (SELECT count(*) = 500 FROM {schema}.outbox) THEN PERFORM pg_advisory_xact_lock_shared(4712); END IF;
			RETURN NULL;
		END';
		CREATE TRIGGER wait AFTER DELETE ON {schema}.outbox FOR EACH STATEMENT EXECUTE FUNCTION {schema}.wait()`)
	holder, err := c.db.Pool.Begin(t.Context())
	must(t, err)
	defer holder.Rollback(context.Background())
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock(4712)")
	must(t, err)
	c.interrupted(holder, "reap", "outbox").exits(exitInterrupted).prints("2000")
	left(1500)
}

// A long deletion does not keep expired leases of other tables from being requeued.
func TestReapTakesTurns(t *testing.T) {
	c := newMigratedCLI(t)
	c.orphan("left")
	c.exec(`INSERT INTO {schema}.inbox (consumer, source, message_id, status, attempts, completed_at)
		SELECT 'c', 's', g::text, 2, 1, now() - interval '20 years' FROM generate_series(1, 2500) AS g;
		CREATE FUNCTION {schema}.late() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN IF EXISTS (SELECT FROM {schema}.outbox WHERE status = 1) AND (SELECT count(*) < 1000 FROM {schema}.inbox) THEN
			RAISE ''the lease has not been requeued yet''; END IF; RETURN NULL; END';
		CREATE TRIGGER late AFTER DELETE ON {schema}.inbox FOR EACH STATEMENT EXECUTE FUNCTION {schema}.late()`)
	c.run("reap").ok()
	if n := value[int](c, "SELECT count(*) FROM {schema}.inbox"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestPurge(t *testing.T) {
	c := newMigratedCLI(t)
	ids := c.enqueue(slices.Repeat([]outbox.Message{{Topic: "t"}}, 2400)...)
	c.fail("no", ids...)
	c.exec("UPDATE {schema}.outbox SET status = 2, failed_at = NULL WHERE id < $1", ids[1200])
	c.exec("UPDATE {schema}.outbox SET completed_at = now() - interval '8 days' WHERE id <= $1 AND status = 2",
		ids[1100])
	c.exec("UPDATE {schema}.outbox SET completed_at = now() - interval '8 days', failed_at = now() - interval '8 "+
		"days' WHERE id < $1 AND status = 3", ids[1210])

	c.run("purge", "outbox", "--done-older-than", "1w").exits(exitUsage).says("Delete 1101 done and 0 failed rows of "+
		c.db.Schema+".outbox for good? [y/N]", "pass --yes, or --dry-run")
	c.run("purge", "outbox", "--done-older-than", "1w", "--failed-older-than", "1w",
		"--dry-run").ok().prints("would be deleted from", "1101 done, 10 failed")
	one := decode[purged](c.run("purge", "outbox", "--done-older-than", "1w", "--limit", "1050", "--yes",
		"--json").ok())
	if one.Done != 1050 || one.Failed != 0 {
		t.Errorf("purged %+v, want 1050 done", one)
	}
	c.run("purge", "outbox", "--done-older-than", "7d", "--failed-older-than", "168h",
		"--yes").ok().prints("51 done, 10 failed")
	if left := value[int](c, "SELECT count(*) FROM {schema}.outbox"); left != 2400-1050-51-10 {
		t.Errorf("%d rows are left", left)
	}
}

func TestMissingPrivilegeSaysSo(t *testing.T) {
	c := newMigratedCLI(t)
	role := "r_" + strings.TrimPrefix(c.db.Schema, "t_")
	c.exec("CREATE ROLE " + role + "; GRANT USAGE ON SCHEMA {schema} TO " + role)
	defer c.exec("DROP OWNED BY " + role + "; DROP ROLE " + role)
	options := "&options=-crole%3D" + role
	if !strings.Contains(c.url, "?") {
		options = "?" + options[1:]
	}
	if !strings.Contains(c.url, "://") {
		t.Skip("the server is not named by a URL")
	}
	r := execute(t, t.Context(), nil, nil, "reap", "--database-url", c.url+options, "--schema", c.db.Schema)
	r.exits(exitFailure).says("the role lacks a privilege")
}
