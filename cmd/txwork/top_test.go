package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rivo/uniseg"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

// patientTop sets a timeout so high that no test fails on a busy machine.
var patientTop = []string{"top", "--statement-timeout", "1m"}

func (c *cli) top(args ...string) result {
	c.t.Helper()
	return c.run(append(slices.Clone(patientTop), args...)...)
}

// find returns the line of a queue.
func (f *topFrame) find(t *testing.T, table, name string) topQueue {
	t.Helper()
	for _, q := range f.Queues {
		if q.Table == table && q.Name == name {
			return q
		}
	}
	t.Fatalf("there is no %s %q in %+v", table, name, f.Queues)
	return topQueue{}
}

func TestTopShowsWhatIsThere(t *testing.T) {
	c := newMigratedCLI(t)
	c.populate()
	f := decode[topFrame](c.top("--json").ok())
	q := f.find(t, "outbox", "")
	// One of the two in progress has expired. The rows arrived and ended within the last ten seconds, or earlier if the
	// machine is slow.
	if q.Ready != 2 || q.Scheduled != 1 || q.InProgress != 2 || q.Expired != 1 || q.Of.DeadLetters != 1 ||
		q.Of.RecentDead != 1 || q.Of.Waiting != 0 || q.AtLeast ||
		q.OldestReady < 0 || q.Of.Arrived > 0.8 || q.Of.Settled == nil || *q.Of.Settled > 0.3 || q.Of.Claimed != nil {
		t.Errorf("the outbox is %+v, %+v", q, q.Of)
	}
	if topic := f.find(t, "outbox", "t"); topic.By != "topic" || topic.Ready != 2 || topic.Expired != 1 ||
		topic.Of != nil {
		t.Errorf("the topic is %+v", topic)
	}
	if len(f.Leases) != 1 || f.Leases[0].Rows != 2 || f.Leases[0].Expired != 1 || f.Leases[0].Ends > -179 ||
		f.Leases[0].About != "t" {
		t.Errorf("the leases are %+v", f.Leases)
	}
	if len(f.Errors) != 1 || f.Errors[0].Error != "no" || f.Errors[0].Failed != 1 || f.Errors[0].Name != "t" {
		t.Errorf("the errors are %+v", f.Errors)
	}
	if len(f.Sessions) == 0 || len(f.Skipped) != 0 || f.Schema != c.db.Schema {
		t.Errorf("the frame is %+v", f)
	}
	for _, width := range []int{40, 80, 200} {
		out := c.top("--once", "--width", fmt.Sprint(width)).ok().prints("QUEUES", "LEASES", "SESSIONS", "ERRORS",
			"outbox", "expired 3m").stdout
		for line := range strings.Lines(out) {
			if n := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("a line has %d columns of %d: %s", n, width, line)
			}
		}
		if strings.Contains(out, "\x1b") {
			t.Error("there are escape sequences without a terminal")
		}
	}
	if c.top().ok().stdout == "" {
		t.Error("nothing is printed without a terminal")
	}
}

func TestTopsUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--every 1ms": "it must be at least 100ms", "--statement-timeout 0s": "whole milliseconds",
		"--width 39": "at least 40", "x": "takes flags only",
	} {
		execute(t, t.Context(), strings.NewReader(""), nil,
			append([]string{"top"}, strings.Fields(args)...)...).exits(exitUsage).says(want)
	}
}

func TestTopOfAnEmptySchema(t *testing.T) {
	newCLI(t).top("--once").exits(exitFailure).says("run `txwork migrate up --schema ")
}

// A locked table is skipped, and reported as skipped.
func TestTopWaitsForNobody(t *testing.T) {
	c := newMigratedCLI(t)
	tx, err := c.db.Pool.Begin(t.Context())
	must(t, err)
	defer tx.Rollback(context.Background())
	_, err = tx.Exec(t.Context(), "LOCK TABLE "+c.db.Schema+".outbox")
	must(t, err)
	f := decode[topFrame](c.top("--json").ok())
	if len(f.Skipped) != 1 || f.Skipped[0].What != "queues of outbox" || f.find(t, "jobs", "").Of == nil {
		t.Errorf("the frame is %+v", f)
	}
}

// steps is a top without a terminal, whose commands run synchronously.
type steps struct {
	*cli
	*topModel
}

func (c *cli) steps(d *database) steps {
	s := steps{c, &topModel{db: d, reader: &topReader{db: d, limit: time.Minute}, height: 24}}
	s.do(s.refresh)
	return s
}

func (s steps) do(command topCommand) {
	if command != nil {
		command(s.t.Context(), func(string) {})(s.topModel)
	}
}

func (s steps) press(keys ...string) {
	for _, key := range keys {
		s.do(s.key(key))
	}
}

// on moves the cursor to an item.
func (s steps) on(item string) {
	s.t.Helper()
	s.cursor = ""
	s.press("up")
	for range s.items() {
		if strings.Contains(s.cursor, item) {
			return
		}
		s.press("down")
	}
	if !strings.Contains(s.cursor, item) {
		s.t.Fatalf("there is no %q among %q", item, s.items())
	}
}

// sees fails the test unless the screen at 80 columns contains the texts. It returns the screen.
func (s steps) sees(texts ...string) string {
	s.t.Helper()
	var b strings.Builder
	for _, l := range s.screen(80, 24) {
		b.WriteString(l.text + "\n")
	}
	contains(s.t, "the screen", b.String(), texts...)
	return b.String()
}

func (c *cli) withSteps(do func(steps)) {
	c.t.Helper()
	a := &app{databaseURL: c.url, schema: c.db.Schema, stderr: &strings.Builder{}}
	must(c.t, a.withDatabase(c.t.Context(), func(d *database) error {
		do(c.steps(d))
		return nil
	}))
}

func TestTopsRates(t *testing.T) {
	c := newMigratedCLI(t)
	c.withSteps(func(s steps) {
		c.enqueue(slices.Repeat([]outbox.Message{{Topic: "t"}}, 40)...)
		owner := workqueue.NewOwnerToken()
		rows, err := c.queue().Claim(t.Context(), owner, time.Minute, 30)
		must(t, err)
		s.press(" ", " ") // pausing and continuing reads a frame
		if claimed := s.frame.find(t, "outbox", "").Of.Claimed; claimed == nil || *claimed <= 0 {
			t.Errorf("claimed %v, want some", claimed)
		}
		ids := make([]uuid.UUID, len(rows))
		for i, r := range rows {
			ids[i] = r.ID
		}
		_, err = c.queue().Ack(t.Context(), owner, ids)
		must(t, err)
		s.do(s.refresh)
		w := s.frame.find(t, "outbox", "").Of
		if w.Settled == nil || *w.Settled > 3 || w.Claimed == nil || *w.Claimed < 0 {
			t.Errorf("%+v", w)
		}
	})
}

// The first frame has the rates of the last minutes from the history, those of them that it knows.
func TestTopsRatesBeforeItWasStarted(t *testing.T) {
	c := newMigratedCLI(t)
	c.exec(`INSERT INTO {schema}.history (table_name, lane, step, at, done, dead, waits)
		SELECT 'outbox', '', 60, date_trunc('minute', now()) - n * interval '1 minute', 100, 20, '{100,80}'
		FROM unnest('{0,1,2,3,4,5}'::int[]) AS n WHERE n <> 3`)
	frame := decode[topFrame](c.top("--json").ok())
	q := frame.find(t, "outbox", "")
	if q.Of.Claimed == nil || *q.Of.Claimed != 3 {
		t.Errorf("%v are claimed a second, want 3", q.Of.Claimed)
	}
	if q := frame.find(t, "jobs", ""); q.Of.Claimed != nil {
		t.Errorf("%v jobs are claimed a second, want that it is not known", *q.Of.Claimed)
	}
}

// Rows that psql inserts count as arrivals, too: their ids are generated by the table, and begin with the time.
func TestTopCountsTheArrivalsOfOtherPrograms(t *testing.T) {
	c := newMigratedCLI(t)
	c.exec("INSERT INTO outbox (topic, payload) SELECT 't', '' FROM generate_series(1, 40)")
	c.withSteps(func(s steps) {
		if w := s.frame.find(t, "outbox", "").Of; w.Arrived <= 0 {
			t.Errorf("arrived %v, want some", w.Arrived)
		}
	})
}

func TestTopsKeys(t *testing.T) {
	c := newShop(t)
	blocker := c.trouble()
	c.withSteps(func(s steps) {
		s.sees("QUEUES", "outbox", "  order.placed", "mail (paused)", "? help")
		s.press("?")
		s.sees("redrive the dead letters")
		s.press("esc")

		// Move to the row that blocks a key, and back.
		s.on("error outbox")
		s.press("enter")
		s.sees("outbox order.shipped  FAILED", blocker.String(), "35m ago")
		s.press("enter")
		s.sees("status", "failed")
		s.press("down", "down", "down")
		s.sees("last error:", "the carrier refused")
		s.press("esc", "right")
		s.sees("outbox order.shipped  DONE", "no row is done")
		s.press("left", "left")
		s.sees("WAITING", "no row is waiting") // with that error
		s.press("esc")
		s.sees("QUEUES")
		if !strings.Contains(s.cursor, "error outbox") {
			t.Errorf("the cursor is on %q", s.cursor)
		}

		// Only the selected rows are redriven, and only after a yes.
		s.on("error jobs")
		s.press("r")
		s.sees("Redrive 6 dead letters of jobs greeting? [y/N]")
		s.press("n")
		s.sees("nothing was changed")
		s.press("r", "y")
		s.sees("6 of 6 rows redriven")
		if n := value[int](c, "SELECT count(*) FROM {schema}.jobs WHERE status = 3"); n != 0 {
			t.Errorf("%d jobs are dead letters, want none", n)
		}
		if n := value[int](c, "SELECT count(*) FROM {schema}.outbox WHERE status = 3"); n != 1 {
			t.Errorf("%d messages are dead letters, want 1", n)
		}
		s.press("r")
		s.sees("has no dead letters there")

		// A queue can be paused and resumed.
		s.do(s.refresh)
		s.on("queue jobs queue mail")
		s.press("p")
		s.sees("Resume queue mail? [y/N]")
		s.press("y")
		s.do(s.refresh)
		if s.frame.find(t, "jobs", "mail").Paused {
			t.Error("the queue is still paused")
		}
		s.press("p", "y")
		s.do(s.refresh)
		if !s.frame.find(t, "jobs", "mail").Paused {
			t.Error("the queue is not paused")
		}
		s.on("queue outbox")
		s.press("p")
		s.sees("only queues of jobs and topics can be paused")

		// Redrive a single row.
		s.press("enter", "left", "left")
		s.sees("outbox  FAILED")
		s.press("r", "y")
		s.sees(blocker.String() + " redriven")
		if st := c.state(blocker); st.status != workqueue.Ready {
			t.Errorf("the row is %+v", st)
		}
		s.press("q")
		if !s.quit {
			t.Error("q does not quit")
		}
	})
}

// The screen fits every size of the terminal and shows the cursor.
func TestTopsSizes(t *testing.T) {
	c := newMigratedCLI(t)
	c.populate()
	c.withSteps(func(s steps) {
		for height := 1; height < 30; height++ {
			for _, width := range []int{1, 20, 80, 200} {
				lines := s.screen(width, height)
				cursor := slices.ContainsFunc(lines, func(l styledLine) bool { return l.style == reverse })
				if len(lines) > height || height > 4 && !cursor {
					t.Errorf("%d lines of %d, with the cursor: %v", len(lines), height, cursor)
				}
				for _, l := range lines {
					if uniseg.StringWidth(l.text) > width {
						t.Errorf("a line is wider than %d: %s", width, l.text)
					}
				}
			}
		}
	})
}

// If the database does not answer, the last frame stays and the screen says so.
func TestTopWithoutADatabase(t *testing.T) {
	c := newMigratedCLI(t)
	c.populate()
	c.withSteps(func(s steps) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s.refresh(ctx, nil)(s.topModel)
		s.sees("no news: ", "outbox")
		s.do(s.refresh)
		if s.topModel.trouble != "" {
			t.Errorf("there are still findings: %s", s.topModel.trouble)
		}
	})
}

func TestKeysOf(t *testing.T) {
	t.Parallel()
	got := keysOf("j\x1b[A\x1bOB\x1b[3~\r\x7f\x1b")
	if want := []string{"j", "up", "down", "enter", "backspace", "esc"}; !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q", got, want)
	}
	for _, text := range []string{"\x1b[", "\x1bO", "\x1b[1;5", "\xff\x00ä"} {
		if got := keysOf(text); slices.Contains(got, "up") {
			t.Errorf("%q is %q", text, got)
		}
	}
}

func TestBrief(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 9999: "9999", 10_000: "10k", 9_999_999: "9999k", 10_000_000: "10M"} {
		if got := brief(n, false); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	if got := fit("日本語のキュー", 6); uniseg.StringWidth(got) > 6 || !strings.HasSuffix(got, "…") {
		t.Errorf("fitted %q", got)
	}
}

// Rows in progress, their claims and expired leases are shown behind many older rows that are ready, and figures that
// may be larger have a plus.
func TestTopBehindABacklog(t *testing.T) {
	c := newMigratedCLI(t)
	const rows = "INSERT INTO {schema}.outbox (topic, payload, due_at, status, attempts, locked_until, owner_token, " +
		"completed_at, failed_at, cancelled_at) SELECT 't', '{}', now() - "
	c.exec(rows + "interval '1 day', 0, 0, NULL, NULL, NULL, NULL, NULL FROM generate_series(1, 900)")
	c.exec(rows + "interval '1 hour', 1, 1, now() + CASE WHEN i < 4 THEN -1 ELSE 1 END * interval '1 hour', " +
		"'01a2087a-7574-7b55-8a53-f7b675147d89', NULL, NULL, NULL FROM generate_series(1, 20) AS g (i)")
	c.exec(rows + "interval '1 day', 3, 1, NULL, NULL, now(), now(), CASE WHEN i % 2 = 0 THEN now() END " +
		"FROM generate_series(1, 22000) AS g (i)")
	f := decode[topFrame](c.top("--json").ok())
	q := f.find(t, "outbox", "")
	if q.Ready != 900 || q.InProgress != 20 || q.Expired != 3 || q.AtLeast || q.Of.DeadLetters != operate.CountedRows ||
		!q.Of.MoreDead || !q.Of.MoreRecent || q.MoreLater || q.Of.MoreWaiting {
		t.Errorf("the outbox is %+v, %+v", q, q.Of)
	}
	if len(f.Leases) != 1 || f.Leases[0].Rows != 20 || f.Leases[0].Expired != 3 {
		t.Errorf("the leases are %+v", f.Leases)
	}
	if cells := q.row().cells; cells[6] != "1000+" || cells[1] != "900" {
		t.Errorf("shown as %q", cells)
	}
	q.AtLeast, q.InProgress = true, 0
	if cells := q.row().cells; cells[3] != "0+" || cells[1] != "900+" || cells[2] != "0" {
		t.Errorf("shown as %q", cells)
	}
}

// A frame has the first claims, sessions, errors and topics, and says how many others there are. Of the topics these
// are the ones that have waited longest, whatever their names, and the mark of a paused one does not depend on that.
func TestTopCountsWhatItLeavesOut(t *testing.T) {
	c := newMigratedCLI(t)
	const n = topGroups + 3
	c.exec(`INSERT INTO {schema}.outbox (topic, payload, due_at, waiting, aside)
		SELECT 'topic ' || chr(64 + i), '', now() - i * interval '1 minute', true, true FROM generate_series(1, $1) AS g (i)`,
		n)
	c.exec("INSERT INTO {schema}.outbox (topic, payload) VALUES ('quiet', '')")
	c.exec("SELECT {schema}.outbox_pause('quiet')")
	for _, table := range []string{"outbox", "timers"} {
		of := map[string][2]string{"outbox": {"payload", "''"},
			"timers": {"key, fire_at, generation, payload", "'k' || i, now(), 1, ''"}}
		c.exec(fmt.Sprintf(`INSERT INTO {schema}.%s (topic, %s, status, attempts, owner_token, locked_until)
			SELECT 't', %s, 1, 1, gen_random_uuid(), now() + i * interval '1 hour' FROM generate_series(1, 6) AS g (i)`, table,
			of[table][0], of[table][1]))
	}
	c.exec(`INSERT INTO {schema}.outbox (topic, payload, status, attempts, completed_at, failed_at, last_error)
		SELECT 't', '', 3, 1, now(), now(), repeat('x', i) FROM generate_series(1, $1) AS g (i)`, n)
	for i := range n {
		c.session(fmt.Sprintf("program%d", i))
	}
	f := decode[topFrame](c.top("--json").ok())
	if got := f.Topics[0].Topic; len(f.Topics) != topGroups || got != "topic K" {
		t.Errorf("%d topics, the first of which is %q: %+v", len(f.Topics), got, f.Topics)
	}
	if len(f.Leases) != topGroups || len(f.Errors) != topGroups || len(f.Sessions) != topGroups {
		t.Errorf("%d claims, %d errors, %d sessions, want %d of each", len(f.Leases), len(f.Errors), len(f.Sessions),
			topGroups)
	}
	sessions := f.More.Sessions // whoever else is connected to the server is among them
	want := topMore{Topics: topRest{Number: 4}, Leases: topRest{Number: 4}, Errors: topRest{Number: 3},
		Sessions: sessions}
	if f.More != want || sessions.Number < 3 || sessions.AtLeast {
		t.Errorf("beside these there are %+v, want %+v", f.More, want)
	}
	if !f.find(t, "outbox", "quiet").Paused {
		t.Error("a paused topic without a line of its own is not marked")
	}
	c.top("--once").ok().prints("and 3 more\n", "and 4 more\n", "quiet (paused)")
}

// What was not read is not said to be nothing.
func TestTopDoesNotTakeTheUnreadForNothing(t *testing.T) {
	c := newMigratedCLI(t)
	c.exec("DROP TABLE {schema}.jobs, {schema}.inbox, {schema}.timers CASCADE")
	c.enqueue(outbox.Message{Topic: "t"})
	conn := c.session("by_hand")
	for _, statement := range []string{"BEGIN", "LOCK TABLE " + c.db.Schema + ".outbox"} {
		_, err := conn.Exec(t.Context(), statement)
		must(t, err)
	}
	r := c.top("--once").ok().prints("not read: queues of outbox")
	for _, wrong := range []string{"no table has a row", "no row is in progress", "nothing has failed"} {
		if strings.Contains(r.stdout, wrong) {
			t.Errorf("a table was not read, and %q:\n%s", wrong, r.stdout)
		}
	}
}

// Figures of a role from which row-level security hides rows are lower bounds, and say so.
func TestTopOfATenant(t *testing.T) {
	c := newMigratedCLI(t)
	c.enqueue(outbox.Message{Topic: "t"})
	c.tenants()
	tenant := c.role(workerRights)
	f := decode[topFrame](tenant.top("--json").ok())
	q := f.find(t, "outbox", "")
	if !q.AtLeast || !q.MoreLater || !q.Of.MoreDead || !q.Of.MoreWaiting || f.find(t, "jobs", "").AtLeast ||
		!f.More.Leases.AtLeast || !f.More.Topics.AtLeast || !f.More.Errors.AtLeast {
		t.Errorf("the outbox is %+v, %+v, beside that %+v", q, q.Of, f.More)
	}
	r := tenant.top("--once").ok().prints("not read: some rows of outbox: row-level security")
	if strings.Contains(r.stdout, "no row is in progress") {
		t.Errorf("hidden rows are taken for none:\n%s", r.stdout)
	}
}

// Numbers of a role from which row-level security hides rows are not all, and say so.
func TestStatsOfATenant(t *testing.T) {
	c := newMigratedCLI(t)
	c.enqueue(outbox.Message{Topic: "t"})
	c.tenants()
	tenant := c.role(workerRights)
	partial := func(r result) (tables []string) {
		for _, s := range decode[counted](r.ok()).Tables {
			if s.Partial {
				tables = append(tables, s.Table)
			}
		}
		return tables
	}
	const hides = "row-level security hides rows from the role"
	if got := partial(tenant.run("stats", "--json")); !slices.Equal(got, []string{c.db.Schema + ".outbox"}) {
		t.Errorf("%v are told to be partial", got)
	}
	tenant.run("stats").ok().prints(c.db.Schema + ".outbox: " + hides)
	if got := partial(c.run("stats", "--json")); len(got) > 0 || strings.Contains(c.run("stats").ok().stdout, hides) {
		t.Errorf("%v of the owner are told to be partial", got)
	}
	pool, err := pgxpool.New(t.Context(), tenant.url)
	must(t, err)
	defer pool.Close()
	h, err := reaper.Health(t.Context(), pool, []*workqueue.Table{c.outbox.Table()})
	must(t, err)
	if !h.Tables[0].Partial {
		t.Errorf("health %+v", h.Tables)
	}
}

// However large a table is, a frame reads a bounded number of its pages in a bounded number of statements.
func TestAFrameReadsABoundedNumberOfPages(t *testing.T) {
	t.Parallel()
	server, err := localpg.Start(t.Context(), localpg.Options{Settings: map[string]string{"autovacuum": "off",
		"shared_buffers": "1GB"}})
	must(t, err)
	t.Cleanup(func() { server.Stop() })
	c := newShopOn(t, server)
	state := func(at string) string {
		return fmt.Sprintf("INSERT INTO {schema}.outbox (topic, payload, due_at, status, attempts, completed_at, "+
			"failed_at, last_error) SELECT 'topic ' || i %% 20, '{}', now() + (%s), CASE i %% 4 WHEN 3 THEN 3 WHEN 2 "+
			"THEN 2 ELSE 0 END, i %% 4 / 2, CASE WHEN i %% 4 > 1 THEN now() END, CASE WHEN i %% 4 = 3 THEN now() "+
			"END, CASE WHEN i %% 4 = 3 THEN 'card ' || i END FROM generate_series(1, $1) AS g (i)", at)
	}
	const read = "SELECT sum(blks_hit + blks_read)::bigint FROM pg_stat_database WHERE datname = current_database()"
	pagesOf := func(run func()) (pages int64) {
		c.exec("SELECT pg_stat_force_next_flush()")
		before := value[int64](c, read)
		run()
		last := int64(-1)
		eventually(t, "the session's statistics are there", func() bool { // a session sends its statistics when it ends
			pages = value[int64](c, read) - before
			still := pages == last && pages > 100
			last = pages
			return still
		})
		return pages
	}
	frame := func() (pages int64, f topFrame) {
		pages = pagesOf(func() { f = decode[topFrame](c.top("--json").ok()) })
		return pages, f
	}
	size := pgtest.Size(60_000, 400_000)
	c.exec(state("(i % 2) * interval '1 hour' - interval '10 minutes'"), 60_000)
	c.exec("INSERT INTO {schema}.outbox (topic, payload, due_at) SELECT 'topic ' || i % 20, '{}', now() - interval '10 "+
		"minutes' FROM generate_series(1, $1) AS g (i)", survey.RunningRows)
	small, f := frame()
	if q := f.find(t, "outbox", ""); !q.AtLeast {
		t.Fatalf("the bound was not reached: %+v", q)
	}
	c.exec(state("(i % 2) * interval '1 hour' - interval '5 minutes'"), 3*size)
	large, f := frame()
	t.Logf("a frame of 60000 rows reads %d pages, one of %d more %d pages in %.0f ms", small, 3*size, large,
		f.Took*1000)
	// Each statement reads a bounded number of due rows, later rows, claims and dead letters, and at most one page of
	// the table for each row.
	if budget := int64(6*operate.CountedRows + 3*topRated); large > budget || small > budget {
		t.Errorf("a frame reads %d pages of %d rows, and %d of 60000; the budget is %d", large, 3*size, small, budget)
	}
	if len(f.Skipped) > 0 {
		t.Errorf("skipped %+v", f.Skipped)
	}
	// So do the commands that count: a page of the table and one of an index for each row, and some of the catalog.
	const catalog = 8000
	for command, rows := range map[string]int64{"stats outbox": 5 * operate.CountedRows,
		"redrive outbox --all-failed --dry-run":                              operate.MaxSearched,
		"cancel outbox --all-live --dry-run":                                 operate.MaxSearched,
		"purge outbox --done-older-than 0s --failed-older-than 0s --dry-run": 2 * operate.MaxSearched} {
		pages := pagesOf(func() { c.run(strings.Fields(command)...).ok().prints("0") })
		t.Logf("%s reads %d pages", command, pages)
		if pages > 2*rows+catalog {
			t.Errorf("%s reads %d pages, more than two for each of %d rows", command, pages, rows)
		}
	}
}
