package migrations_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/history"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// flushed calls process_beat with counts.
func flushed(ctx context.Context, pool *pgxpool.Pool, process, number int, again bool, rows ...history.Row) error {
	counts, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "CALL process_beat($1, 'h', 'go', 'v', '[]', $2::text::jsonb, $3, $4)", process, string(counts),
		number, again)
	return err
}

// sums are what a part of the history adds up to.
func sums(t *testing.T, db *pgtest.DB, where string) string {
	t.Helper()
	return value[string](t, db.Pool, `SELECT concat_ws(' ', sum(done), sum(retried), sum(dead), sum(snoozed), sum(cancelled),
		sum(lost), (SELECT string_agg(n || ':' || v, ',' ORDER BY n) FROM (SELECT n, sum(v) AS v
			FROM history AS h, unnest(waits) WITH ORDINALITY AS u (v, n) WHERE `+where+` GROUP BY n) AS w),
		(SELECT string_agg(n || ':' || v, ',' ORDER BY n) FROM (SELECT n, sum(v) AS v
			FROM history AS h, unnest(runs) WITH ORDINALITY AS u (v, n) WHERE `+where+` GROUP BY n) AS r))
		FROM history AS h WHERE `+where)
}

// Processes flush, repeat flushes whose answer they take for lost, and beat in between, while two sessions merge. What
// they have counted is in the minutes, in the hours and in the totals, once. With more than a hundred lanes, too.
func TestHistoryHasWhatProcessesHaveCounted(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	const processes, flushes = 8, 20
	var want [6]int64
	var waits, runs []int64
	var mu sync.Mutex
	var work, merges sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		merges.Go(func() {
			for {
				if _, err := db.Pool.Exec(t.Context(), "SELECT history_merge('{jobs}', 7)"); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for p := range processes {
		work.Go(func() {
			random := rand.New(rand.NewPCG(uint64(p), 1))
			for number := 1; number <= flushes; number++ {
				var rows []history.Row
				for lane := range 1 + random.IntN(20) {
					r := history.Row{Table: "jobs", Lane: fmt.Sprintf("q%d", (p*17+lane)%130), Done: random.Int64N(9),
						Retried: 1, Dead: random.Int64N(3), Snoozed: 2, Cancelled: random.Int64N(2), Lost: 1}
					r.Waits, r.Runs = make([]int64, random.IntN(5)), make([]int64, random.IntN(9))
					for i := range r.Waits {
						r.Waits[i] = random.Int64N(4)
					}
					for i := range r.Runs {
						r.Runs[i] = random.Int64N(4)
					}
					rows = append(rows, r)
				}
				for try := range 1 + random.IntN(3) {
					if err := flushed(t.Context(), db.Pool, p+1, number, try > 0, rows...); err != nil {
						t.Error(err)
						return
					}
				}
				mu.Lock()
				for _, r := range rows {
					for i, n := range []int64{r.Done, r.Retried, r.Dead, r.Snoozed, r.Cancelled, r.Lost} {
						want[i] += n
					}
					waits, runs = history.Add(waits, r.Waits), history.Add(runs, r.Runs)
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	close(done)
	merges.Wait()
	for value[int](t, db.Pool, "SELECT coalesce(history_merge('{jobs}'), 1)") > 0 {
	}
	buckets := func(counts []int64) string {
		var all []string
		for i, n := range counts {
			all = append(all, fmt.Sprintf("%d:%d", i+1, n))
		}
		return strings.Join(all, ",")
	}
	expected := strings.Trim(fmt.Sprint(want), "[]") + " " + buckets(waits) + " " + buckets(runs)
	for _, step := range []string{"60", "3600"} {
		for _, part := range []string{"lane = ''", "lane <> ''"} {
			if got := sums(t, db, "step = "+step+" AND "+part); got != expected {
				t.Errorf("step %s, %s:\n%s, want\n%s", step, part, got, expected)
			}
		}
	}
	if most := value[int](t, db.Pool, `SELECT max(n) FROM (SELECT count(*) FILTER (WHERE lane NOT IN ('', '_OTHER')) AS n
		FROM history GROUP BY step, at) AS m`); most != 100 {
		t.Errorf("a minute or an hour has up to %d lanes, want 100", most)
	}
}

// A table may be called like the parked messages of another: the history of both is kept, and each is counted once.
func TestHistoryOfATableThatIsCalledParked(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	if _, err := db.Pool.Exec(t.Context(), "CREATE TABLE cars (); CREATE TABLE cars_parked ()"); err != nil {
		t.Fatal(err)
	}
	if err := flushed(t.Context(), db.Pool, 1, 1, false, history.Row{Table: "cars", Done: 3},
		history.Row{Table: "cars_parked", Done: 5}); err != nil {
		t.Fatal(err)
	}
	if n := value[int](t, db.Pool, "SELECT history_merge('{cars_parked,cars}', 10, '{7,1}')"); n != 2 {
		t.Errorf("%d rows were merged, want 2", n)
	}
	got := value[string](t, db.Pool, `SELECT string_agg(concat_ws(' ', table_name, done, expired), ', ' ORDER BY table_name)
		FROM (SELECT table_name, sum(done) AS done, sum(expired) AS expired FROM history
			WHERE lane = '' AND step = 60 GROUP BY table_name) AS h`)
	if want := "cars 3 1, cars_parked 5 7"; got != want {
		t.Errorf("the history is %q, want %q", got, want)
	}
}

// A process that was away for so long that its row is gone does not know whether its last flush is stored.
func TestAFlushIsNotStoredTwice(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	send := func(number int, again bool) {
		t.Helper()
		if err := flushed(t.Context(), db.Pool, 1, number, again, history.Row{Table: "jobs", Done: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		number int
		again  bool
		gone   bool // the process' row
		want   int
	}{{1, false, false, 1}, {1, true, false, 1}, {2, true, false, 2}, {2, true, true, 2}, {3, false, true, 3},
		{4, false, false, 4}} {
		if step.gone {
			exec(t, db.Pool, "DELETE FROM process")
		}
		send(step.number, step.again)
		value[*int](t, db.Pool, "SELECT history_merge('{jobs}')")
		if got := value[int](t, db.Pool, "SELECT sum(done) FROM history WHERE step = 60 AND lane = ''"); got != step.want {
			t.Errorf("after %+v there are %d", step, got)
		}
	}
	for args, parameter := range map[string]string{"'{}', 1": "counts", "'[]', 0": "flush",
		`'[{"table": "none", "done": 1}]', 5`: "counts", `'[{"done": 1}]', 5`: "counts"} {
		refusedArgument(t, db, "CALL process_beat(1, 'h', 'l', 'v', '[]', "+args+")", parameter)
	}
}

// What is enqueued is the difference of two counters, and a gap where that is not known.
func TestHistoryOfEnqueues(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	conn, err := db.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	insert := func(n int) {
		t.Helper()
		for _, sql := range []string{fmt.Sprintf("SELECT outbox_enqueue('t', 'x'::bytea) FROM generate_series(1, %d)", n),
			"SELECT pg_stat_force_next_flush()", "SELECT"} {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	merge := func() { value[*int](t, db.Pool, "SELECT history_merge('{outbox,jobs,none}', 10, '{3}', '{1}')") }
	enqueued := func(step int) string {
		return value[string](t, db.Pool, `SELECT coalesce(string_agg(coalesce(enqueued::text, '?'), ' ' ORDER BY at), '')
			FROM history WHERE table_name = 'outbox' AND step = $1`, step)
	}
	insert(5)
	merge()
	if got := enqueued(60); got != "?" {
		t.Errorf("at first %s, want that it is not known", got)
	}
	insert(7)
	merge()
	insert(2)
	merge()
	total := func() int {
		return value[int](t, db.Pool, "SELECT coalesce(sum(enqueued), -1) FROM history WHERE step = 3600")
	}
	if got := total(); got != 9 {
		t.Errorf("%d, want 9", got)
	}
	for _, reset := range []string{"inserted = inserted + 1000", "counted_since = now()",
		"at = at - interval '7 minutes'"} {
		exec(t, db.Pool, "UPDATE history SET "+reset+" WHERE table_name = 'outbox' AND step = 60")
		insert(3)
		merge()
		if got := total(); got != 9 {
			t.Errorf("after %s: %d, want 9", reset, got)
		}
	}
	insert(4)
	merge()
	if got := total(); got != 13 {
		t.Errorf("%d, want 13", got)
	}
	leases := value[string](t, db.Pool, "SELECT sum(expired) || ' ' || sum(dead) FROM history WHERE step = 3600")
	if leases != "21 7" {
		t.Errorf("leases %s, want 21 7", leases)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	exec(t, db.Pool, `INSERT INTO history (table_name, lane, step, at)
		SELECT 'gone', '', s, now() - n * interval '1 hour'
		FROM unnest('{60,3600}'::int[]) AS s, generate_series(1, 2400) AS n`)
	count := func() string {
		value[*int](t, db.Pool, "SELECT history_merge('{}', 10000)")
		return value[string](t, db.Pool, `SELECT concat_ws(' ', count(*) FILTER (WHERE step = 60),
			count(*) FILTER (WHERE step = 3600)) FROM history`)
	}
	if got := count(); got != "47 2159" {
		t.Errorf("minutes and hours are %s, want 47 2159", got)
	}
	exec(t, db.Pool, "INSERT INTO history_keep (minutes, hours) VALUES ('3 hours', '2 days')")
	if got := count(); got != "2 47" {
		t.Errorf("minutes and hours are %s, want 2 47", got)
	}
	exec(t, db.Pool, "UPDATE history_keep SET enabled = false")
	if err := flushed(t.Context(), db.Pool, 1, 1, false, history.Row{Table: "jobs", Done: 1}); err != nil {
		t.Fatal(err)
	}
	value[*int](t, db.Pool, "SELECT history_merge('{jobs}')")
	if got := value[int](t, db.Pool, "SELECT (SELECT count(*) FROM history WHERE table_name = 'jobs')"+
		" + (SELECT count(*) FROM history_flush)"); got != 0 {
		t.Errorf("%d rows of history that is turned off", got)
	}
	if got := value[int](t, db.Pool, "SELECT count(*) FROM process"); got != 1 {
		t.Errorf("%d processes say that they run", got)
	}
}

// Maintenance that a program calls by itself keeps the history, too.
func TestMaintainKeepsTheHistory(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	if err := flushed(t.Context(), db.Pool, 1, 1, false, history.Row{Table: "jobs", Lane: "q", Done: 1}); err != nil {
		t.Fatal(err)
	}
	exec(t, db.Pool, "CALL jobs_maintain()")
	if got := sums(t, db, "step = 60 AND lane = 'q'"); got != "1 0 0 0 0 0" {
		t.Errorf("the history is %s", got)
	}
	exec(t, db.Pool, "ALTER TABLE history ADD CHECK (false) NOT VALID")
	exec(t, db.Pool, "DELETE FROM leader")
	exec(t, db.Pool, "CALL jobs_maintain()")
	if got := value[int](t, db.Pool, "SELECT count(*) FROM leader"); got != 1 {
		t.Error("maintenance without a history is not noted")
	}
}

// A deafConn loses the answers to the first flush of a process.
type deafConn struct {
	net.Conn
	sent *atomic.Int64
	deaf bool
}

func (c *deafConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"table":"jobs"`)) && bytes.Contains(p, []byte(`"done":`)) && c.sent.Add(1) == 1 {
		c.deaf = true
	}
	return c.Conn.Write(p)
}

func (c *deafConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.deaf {
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// Workers flush what becomes of their rows, and what they have not flushed when they stop. A flush whose answer is lost
// counts once.
func TestWorkersWriteHistory(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	db := pgtest.New(t, pgtest.WithPool(func(c *pgxpool.Config) {
		dial := c.ConnConfig.DialFunc
		c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return &deafConn{Conn: conn, sent: &sent}, err
		}
	}))
	up(t, newMigrator(t, db.Pool, db.Schema))
	const each = 40
	enqueue, stop := runOutcomes(t, db, each, quiet)
	enqueue()
	finished := func() bool { return value[int](t, db.Pool, "SELECT count(*) FROM jobs WHERE status < 2") == 0 }
	if !pgtest.Await(pgtest.Patience, func() bool { return sent.Load() > 0 && finished() }) {
		t.Fatal("no flush")
	}
	enqueue()
	pgtest.Await(pgtest.Patience, finished)
	stop()
	value[*int](t, db.Pool, "SELECT history_merge('{jobs}')")
	const want = "240 80 80 80 0 0 480 480"
	for _, part := range []string{"step = 60 AND lane = ''", "step = 3600 AND lane = 'default'"} {
		if got := value[string](t, db.Pool, `SELECT concat_ws(' ', sum(done), sum(retried), sum(dead), sum(snoozed),
			sum(cancelled), sum(lost), sum((SELECT sum(n) FROM unnest(waits) AS n)),
			sum((SELECT sum(n) FROM unnest(runs) AS n)))
			FROM history WHERE `+part); got != want {
			t.Errorf("%s: %s, want %s", part, got, want)
		}
	}
	if sent.Load() < 3 {
		t.Errorf("%d flushes were sent, want the first twice, and one more", sent.Load())
	}
}

// A drain counts, too. The first one sends what it has counted when it ends; what later ones count waits for the next
// beat that is due.
func TestDrainsWriteHistory(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	client, w := outcomesWorker(t, db, quiet)
	drain, err := w.Drain()
	if err != nil {
		t.Fatal(err)
	}
	const each = 7
	want := ""
	for range 2 {
		enqueueOutcomes(t, db, client, each)
		if _, err := drain.Process(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want == "" { // rows that are put back may be due again in the same run
			want = value[string](t, db.Pool, "SELECT count(*) FILTER (WHERE status = 2) || ' 7 7 7 0 0 ' FROM jobs")
		}
		value[*int](t, db.Pool, "SELECT history_merge('{jobs}')")
		if got := sums(t, db, "step = 60 AND lane = 'default'"); !strings.HasPrefix(got, want) {
			t.Errorf("the history is %s, want %s: what the first run has done", got, want)
		}
	}
}

// A worker of functions reports what it has counted itself.
func TestProgramsReportTheirCounts(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	exec(t, db.Pool, "SELECT outbox_enqueue('mail', 'x'::bytea) FROM generate_series(1, 3)")
	exec(t, db.Pool, `WITH got AS MATERIALIZED (SELECT array_agg(id) AS ids FROM
		outbox_fetch('00000000-0001-8000-8000-000000000001', interval '1 minute', 10) WHERE id IS NOT NULL)
		SELECT outbox_ack('00000000-0001-8000-8000-000000000001', ids) FROM got`)
	for _, again := range []string{"false", "true"} { // the answer to the first was lost
		exec(t, db.Pool, `CALL process_beat(process => 1, host => 'h', language => 'sql', version => '1',
			counts => '[{"table": "outbox", "lane": "mail", "done": 3, "waits": [1, 2], "runs": [3]}]', flush => 1, again => `+again+")")
	}
	exec(t, db.Pool, "CALL outbox_maintain()")
	if got := sums(t, db, "step = 60 AND lane = 'mail'"); got != "3 0 0 0 0 0 1:1,2:2 1:3" {
		t.Errorf("the history is %s", got)
	}
}

// A history that cannot be written harms no work and no beat. It is logged once.
func TestWorkersRunWithoutHistory(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"no tables": "DROP TABLE history_flush, history_keep",
		"an older procedure": `ALTER PROCEDURE process_beat RENAME TO beat_now;
			CREATE PROCEDURE process_beat(process bigint, host text, language text, version text, serves jsonb)
			LANGUAGE sql AS 'INSERT INTO process VALUES ($1, $2, $3, $4, $5, now()) ON CONFLICT DO NOTHING'`,
		"a table that refuses":     "ALTER TABLE history_flush ADD CHECK (false) NOT VALID",
		"a column that is missing": "ALTER TABLE history_flush DROP COLUMN lost",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			up(t, newMigrator(t, db.Pool, db.Schema))
			for _, sql := range strings.Split(change, ";") {
				exec(t, db.Pool, sql)
			}
			var log lockedText
			enqueue, stop := runOutcomes(t, db, 5, slog.New(slog.NewTextHandler(&log, nil)))
			enqueue()
			if !pgtest.Await(pgtest.Patience, func() bool {
				return value[int](t, db.Pool, "SELECT count(*) FROM jobs WHERE status < 2") == 0 &&
					value[int](t, db.Pool, "SELECT count(*) FROM process") == 1
			}) {
				t.Error("jobs or the beat wait")
			}
			stop()
			n := strings.Count(log.String(), "does not become a part of the table history")
			if n > 1 || n == 0 && name != "a table that refuses" || strings.Contains(log.String(), "level=ERROR") {
				t.Errorf("the log has it %d times:\n%s", n, log.String())
			}
		})
	}
}

// A task is a job that ends in some way.
type task struct{ Ends string }

func (task) Kind() string { return "task" }

func (task) end(attempt int, ends string) error {
	switch {
	case ends == "dead":
		return workqueue.Permanent(errors.New("no"))
	case ends == "retried" && attempt == 1:
		return workqueue.RetryAfter(0, errors.New("not yet"))
	case ends == "snoozed":
		return workqueue.SnoozeFor(0, nil)
	}
	return nil
}

// outcomesWorker is a worker of tasks.
func outcomesWorker(t *testing.T, db *pgtest.DB, logger *slog.Logger) (*jobs.Client, *jobs.Worker) {
	t.Helper()
	client, err := jobs.Open(jobs.Options{Schema: db.Schema, Telemetry: workqueue.Telemetry{Logger: logger}})
	if err != nil {
		t.Fatal(err)
	}
	var snoozed sync.Map
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(_ context.Context, j *jobs.Job[task]) error {
		if _, again := snoozed.LoadOrStore(j.ID, true); again && j.Args.Ends == "snoozed" {
			return nil
		}
		return j.Args.end(j.Attempt, j.Args.Ends)
	}, jobs.KindOptions[task]{})
	w, err := jobs.NewWorker(db.Pool, client, jobs.WorkerOptions{Registry: kinds,
		Queues: []jobs.QueueOptions{{Name: "default", Concurrency: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	return client, w
}

// enqueueOutcomes adds some jobs of each outcome.
func enqueueOutcomes(t *testing.T, db *pgtest.DB, client *jobs.Client, each int) {
	t.Helper()
	var all []jobs.Insert
	for range each {
		for _, ends := range []string{"done", "dead", "retried", "snoozed"} {
			all = append(all, jobs.Insert{Args: task{ends}})
		}
	}
	if err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		_, err := client.EnqueueMany(t.Context(), workqueue.Pgx(tx), all...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// runOutcomes runs a worker until stop is called. enqueue adds some jobs of each outcome.
func runOutcomes(t *testing.T, db *pgtest.DB, each int, logger *slog.Logger) (enqueue, stop func()) {
	t.Helper()
	client, w := outcomesWorker(t, db, logger)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return func() { t.Helper(); enqueueOutcomes(t, db, client, each) }, stop
}

// A flush that could not be added to the history is refused, so that it does not keep others from it.
func TestOddFlushesAreRefused(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	insert := func(flush int, column, odd string) error {
		_, err := db.Pool.Exec(t.Context(), `INSERT INTO history_flush SELECT f.* FROM jsonb_populate_record(NULL::history_flush,
			jsonb_build_object('table_name', 'jobs', 'process', 1, 'flush', $1::int, 'lane', 'l', 'at', now(), 'done', 1,
				'retried', 0, 'dead', 0, 'snoozed', 0, 'cancelled', 0, 'lost', 0, 'waits', '[1]'::jsonb, 'runs', '[]'::jsonb)
			|| $2::text::jsonb) AS f`, flush, `{"`+column+`": `+odd+`}`)
		return err
	}
	for column, odd := range map[string][]string{
		"at":      {`"infinity"`, `"-infinity"`, `"294000-01-01"`},
		"done":    {"-1", "9223372036854775807"},
		"lost":    {"-1", "1000000000001"},
		"waits":   {"[-1]", "[null, 5]", "[1, 9223372036854775807]", "[" + strings.Repeat("0, ", 64) + "0]"},
		"runs":    {"[0, -5]", "[1000000000001]"},
		"retried": {"9000000000000000000"},
	} {
		for _, o := range odd {
			var pg *pgconn.PgError
			if err := insert(1, column, o); !errors.As(err, &pg) || pg.Code != "23514" {
				t.Errorf("%s = %.50s: %v", column, o, err)
			}
		}
	}
	for i, o := range [][2]string{{"done", "1000000000000"}, {"waits", "[5, 1000000000000]"},
		{"lane", `"_OTHER"`}, {"lane", `""`}, {"at", `"9999-12-30"`}, {"at", `"2000-01-01"`}} {
		if err := insert(i+2, o[0], o[1]); err != nil {
			t.Errorf("%s: %v", o, err)
		}
	}
	if n := value[*int](t, db.Pool, "SELECT history_merge('{jobs}')"); n == nil || *n != 6 {
		t.Errorf("%v flushes were added", n)
	}
}
