package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// deadLetters makes n dead letters with a topic and an error.
func (c *cli) deadLetters(n int, topic, cause string) []uuid.UUID {
	c.t.Helper()
	ids := c.enqueue(slices.Repeat([]outbox.Message{{Topic: topic}}, n)...)
	c.fail(cause, ids...)
	return ids
}

// Lists and changes find rows by the same filters, even in tables larger than what one statement may read.
func TestFiltersOfListsAndRepairs(t *testing.T) {
	c := newMigratedCLI(t)
	c.deadLetters(operate.ScanBatch+10, "noise", "refused")
	want := c.deadLetters(3, "paid", "connection refused by card-7")
	c.deadLetters(2, "paid", "no such card")
	old := c.deadLetters(1, "paid", "refused long ago")
	c.exec("UPDATE {schema}.outbox SET failed_at = now() - interval '2 days', completed_at = now() - interval '2 "+
		"days' WHERE id = $1", old[0])
	filter := []string{"--topic", "paid", "--error", "refused", "--newer-than", "1d"}
	with := func(words ...string) []string { return append(words, filter...) }

	type rows struct {
		Rows []struct{ ID uuid.UUID }
		Next string
	}
	var listed []uuid.UUID
	list := with("list", "outbox", "--status", "failed", "--limit", "2", "--json")
	for range 2 {
		p := decode[rows](c.run(list...).ok())
		for _, r := range p.Rows {
			listed = append(listed, r.ID)
		}
		list = append(list, "--after", p.Next)
	}
	slices.SortFunc(listed, func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) })
	if !slices.Equal(listed, want) {
		t.Errorf("listed %v, want %v", listed, want)
	}
	if p := decode[rows](c.run("list", "outbox", "--status", "failed", "--older-than", "1d",
		"--json").ok()); len(p.Rows) != 1 || p.Rows[0].ID != old[0] {
		t.Errorf("older than a day is %v, want %v", p.Rows, old)
	}

	c.run(with("redrive", "outbox", "--dry-run", "--exact")...).ok().prints("3 rows of " + c.db.Schema +
		".outbox would be redriven")
	if n := value[int](c, "SELECT count(*) FROM {schema}.outbox WHERE status = 0"); n != 0 {
		t.Errorf("a dry run changed %d rows", n)
	}
	d := decode[selected](c.run(with("redrive", "outbox", "--dry-run", "--exact", "--json")...).ok())
	if d != (selected{Matched: 3, DryRun: true}) {
		t.Errorf("a dry run printed %+v", d)
	}
	c.run(with("redrive", "outbox")...).exits(exitUsage).says("Redrive 3 rows of "+c.db.Schema+".outbox? [y/N]",
		"pass --yes")
	c.runWith(t.Context(), strings.NewReader("n\n"),
		with("redrive", "outbox")...).exits(exitFailure).says("nothing was changed")
	c.runWith(t.Context(), strings.NewReader("y\n"), with("redrive", "outbox", "--limit",
		"2")...).ok().prints("2 rows of ")
	c.run(with("redrive", "outbox", "--yes")...).ok().prints("1 row of ")
	if n := value[int](c, "SELECT count(*) FROM {schema}.outbox WHERE status = 0 AND id = ANY ($1)", want); n != 3 {
		t.Errorf("%d of the rows were redriven, want 3", n)
	}
	c.run("list", "outbox", "--status", "failed", "--kind", "charge").exits(exitUsage).says("has no column kind")
}

func TestCancelBySelection(t *testing.T) {
	c := newMigratedCLI(t)
	due := c.enqueue(slices.Repeat([]outbox.Message{{Topic: "a"}}, 4)...)
	later := c.enqueue(outbox.Message{Topic: "a", ScheduledAt: time.Now().Add(time.Hour)})
	other := c.enqueue(outbox.Message{Topic: "b"})
	_, err := c.queue().Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
	must(t, err)

	c.run("cancel", "outbox", "--topic", "a", "--status", "scheduled", "--yes", "--reason",
		"too late").ok().prints("1 row of ")
	if s := c.state(later[0]); s.status != workqueue.Failed || s.lastErr != "cancelled: too late" {
		t.Errorf("the scheduled row is %+v", s)
	}
	all := decode[struct {
		selected
		repaired
	}](c.run("cancel", "outbox", "--topic", "a", "--yes", "--json").ok())
	if all.Matched != 4 || all.Changed != 4 || all.DryRun {
		t.Errorf("cancelled %+v, want 4", all)
	}
	if s := c.state(other[0]); s.status != workqueue.Ready {
		t.Errorf("the row of another topic is %+v", s)
	}
	c.run("redrive", "outbox", "--topic", "a", "--yes").ok().prints("0 rows of ") // cancelled rows are not dead letters
	c.run("redrive", "outbox", due[1].String()).ok().prints("1 row of ")          // but they are redriven if named
}

func TestPurgeWithAFilter(t *testing.T) {
	c := newMigratedCLI(t)
	c.deadLetters(3, "a", "no")
	c.deadLetters(2, "b", "no")
	c.exec("UPDATE {schema}.outbox SET completed_at = now() - interval '8 days', failed_at = now() - interval '8 days'")
	c.deadLetters(1, "a", "no") // not old enough
	purge := []string{"purge", "outbox", "--failed-older-than", "1w", "--topic", "a", "--json"}
	if p := decode[purged](c.run(append(purge, "--dry-run")...).ok()); p.Failed != 3 || p.Done != 0 || !p.DryRun {
		t.Errorf("would purge %+v, want 3 failed", p)
	}
	if p := decode[purged](c.run(append(purge, "--yes")...).ok()); p.Failed != 3 || p.DryRun {
		t.Errorf("purged %+v, want 3 failed", p)
	}
	if n := value[int](c, "SELECT count(*) FROM {schema}.outbox"); n != 3 {
		t.Errorf("%d rows are left, want 3", n)
	}
}

// After Ctrl-C between two batches, the command reports what it has done.
func TestInterruptedRepairSaysWhatWasDone(t *testing.T) {
	c := newMigratedCLI(t)
	c.deadLetters(3*operate.Batch, "a", "no")
	// The second batch waits for a row that another transaction has locked.
	holder, err := c.db.Pool.Begin(t.Context())
	must(t, err)
	defer holder.Rollback(t.Context())
	_, err = holder.Exec(t.Context(), "SELECT FROM "+c.db.Schema+".outbox WHERE id = (SELECT id FROM "+c.db.Schema+
		".outbox ORDER BY failed_at, id OFFSET $1 LIMIT 1) FOR UPDATE", operate.Batch+5)
	must(t, err)
	r := c.interrupted(holder, "redrive", "outbox", "--all-failed", "--yes").exits(exitInterrupted)
	r.prints("1000 of 3000 rows of " + c.db.Schema + ".outbox redriven").says("interrupted")
}

// A batch whose commit is under way at an interruption is waited for and counted.
func TestAnInterruptedPurgeCountsWhatIsCommitted(t *testing.T) {
	c := newMigratedCLI(t)
	c.deadLetters(2*purgeBatch, "a", "no")
	c.exec("UPDATE {schema}.outbox SET failed_at = now() - interval '1 hour', completed_at = now() - interval '1 hour'")
	const lock = 4711
	c.exec(fmt.Sprintf(`CREATE FUNCTION {schema}.wait() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_advisory_xact_lock_shared(%d); RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER wait AFTER DELETE ON {schema}.outbox DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION {schema}.wait()`, lock))
	holder, err := c.db.Pool.Begin(t.Context())
	must(t, err)
	defer holder.Rollback(t.Context())
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", lock)
	must(t, err)
	ctx, interrupt := context.WithCancelCause(t.Context())
	defer interrupt(nil)
	done := make(chan result, 1)
	go func() {
		done <- c.runWith(ctx, strings.NewReader(""), "purge", "outbox", "--failed-older-than", "1m", "--yes")
	}()
	eventually(t, "the commit waits", func() bool { return c.waitsFor(holder) })
	interrupt(errInterrupted)
	must(t, holder.Rollback(t.Context()))
	r := (<-done).exits(exitInterrupted).says("interrupted")
	left := value[int](c, "SELECT count(*) FROM {schema}.outbox")
	r.prints(fmt.Sprintf("%d failed", 2*purgeBatch-left))
	if left != purgeBatch {
		t.Errorf("%d rows are left, want one batch", left)
	}
}

// A list that has searched many rows in vain ends, and says where, and that it can go on.
func TestAListSaysHowFarItSearched(t *testing.T) {
	c := newMigratedCLI(t)
	c.deadLetters(1, "rare", "no")
	c.exec("UPDATE {schema}.outbox SET failed_at = now() - interval '2 days', completed_at = now() - interval '2 days'")
	noise := `INSERT INTO {schema}.outbox (topic, payload, status, attempts, completed_at, failed_at)
		SELECT 'noise', '', 3, 1, now(), now() FROM generate_series(1, $1)`
	c.exec(noise, operate.ScanBatch)
	list := []string{"list", "outbox", "--status", "failed", "--topic", "rare"}
	r := c.run(list...).ok().says("5000 rows searched, to ", " goes on")
	if strings.Contains(r.stdout, "rare") {
		t.Errorf("a row is found beyond what is searched: %s", r.stdout)
	}
	p := decode[operate.Page](c.run(append(list, "--json")...).ok())
	if p.Searched != operate.ScanBatch || p.SearchedTo == nil || p.Next == "" || len(p.Rows) > 0 {
		t.Errorf("the page is %+v", p)
	}
	c.run(append(list, "--after", p.Next)...).ok().prints("rare")

	purge := []string{"purge", "outbox", "--failed-older-than", "0s", "--dry-run"}
	c.run(purge...).ok().prints(".outbox: at least 0 done, 5000 failed")
	c.run(append(purge, "--limit", "7")...).ok().prints(".outbox: 0 done, 7 failed")
	c.run(append(purge, "--exact")...).ok().prints(".outbox: 0 done, 5001 failed\n")
	if p := decode[purged](c.run(append(purge, "--topic", "rare", "--json")...).ok()); p.Failed != 1 || !p.AtLeast {
		t.Errorf("dead letters of the topic are %+v", p)
	}
	redrive := []string{"redrive", "outbox", "--topic", "rare", "--dry-run"}
	c.run(redrive...).ok().prints("at least 1 row of ", "; --exact counts all of them")
	if r := decode[selected](c.run(append(redrive, "--json")...).ok()); r.Matched != 1 || !r.AtLeast {
		t.Errorf("the rows that would be redriven are %+v", r)
	}
	if r := decode[selected](c.run(append(redrive, "--exact", "--json")...).ok()); r.Matched != 1 || r.AtLeast {
		t.Errorf("the rows that would be redriven are, counted exactly, %+v", r)
	}
	c.run("redrive", "outbox", "--topic", "rare", "--exact").exits(exitUsage).says("--exact goes with --dry-run")
}

// So do lists of jobs and timers that filter or show what has ended. Lists of live ones find all of them.
func TestListsOfJobsAndTimersReadABoundedNumber(t *testing.T) {
	c := newMigratedCLI(t)
	c.exec("INSERT INTO {schema}.jobs (priority, kind, queue, args) VALUES (2, 'rare', 'q', '{}')")
	c.exec(`INSERT INTO {schema}.jobs (priority, kind, queue, args, status, attempts, completed_at)
		SELECT 2, 'noise', 'q', '{}', 2, 1, now() FROM generate_series(1, $1)`, operate.MaxSearched)
	c.exec(`INSERT INTO {schema}.timers (key, topic, payload, fire_at, generation, status, attempts, completed_at, failed_at)
		SELECT 'k' || lpad(i::text, 6, '0'), 't', '', now(), 1, 2 + (i > $1)::int, 1, now(), CASE WHEN i > $1 THEN now() END
		FROM generate_series(1, $1 + 1) AS g (i)`, operate.MaxSearched)
	for _, of := range []struct{ list, noun, finds string }{
		{"jobs list --kind rare", "jobs", "rare"},
		{"timers list --status failed", "timers", "k005001"},
	} {
		list := strings.Fields(of.list)
		r := c.run(list...).ok().says("5000 " + of.noun + " searched: --after ")
		if strings.Contains(r.stdout, of.finds) {
			t.Errorf("%s finds a row beyond what is searched: %s", of.list, r.stdout)
		}
		p := decode[struct {
			Next     string
			Searched int
		}](c.run(append(list, "--json")...).ok())
		if p.Searched != operate.MaxSearched {
			t.Errorf("%s searched %d rows", of.list, p.Searched)
		}
		r = c.run(append(list, "--after", p.Next)...).ok().prints(of.finds)
		if strings.Contains(r.stderr, "searched") {
			t.Errorf("%s goes on at its end: %s", of.list, r.stderr)
		}
	}
	c.run("jobs", "list", "--kind", "rare", "--status", "ready").ok().prints("rare")
	c.run("timers", "list", "--status", "failed", "--prefix", "k005001").ok().prints("k005001")
}
