package txworktest_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/txworktest"
	"github.com/txwork/txwork/workqueue"
)

// near reports whether a time is about fromNow away from now.
func near(at time.Time, fromNow time.Duration) bool {
	d := time.Until(at) - fromNow
	return d > -time.Minute && d < time.Minute
}

func TestAdvanceMovesLiveRows(t *testing.T) {
	t.Parallel()
	places(t, func(f *fixture, q txworktest.Querier, enqueue func(...outbox.Message)) {
		enqueue(outbox.Message{Topic: "later", ScheduledAt: time.Now().Add(24 * time.Hour)},
			outbox.Message{Topic: "now"})
		claim(f, q)
		txworktest.Advance(f, q, 23*time.Hour, f.box)
		later := txworktest.RequireEnqueued(f, q, f.box, txworktest.Topic("later"))
		if !near(later.DueAt, time.Hour) || !near(later.CreatedAt, -23*time.Hour) {
			f.Errorf("%+v", later)
		}
		leased := txworktest.RequireStatus(f, q, f.box, workqueue.InProgress, txworktest.Topic("now"))
		rows := txworktest.RequireCount(f, q, f.box, 2)
		if !near(leased.DueAt, -23*time.Hour) || rows[0].CreatedAt != rows[1].CreatedAt {
			f.Errorf("%+v", rows)
		}
		txworktest.Drain(f, q, f.relay(byTopic))
		taken := txworktest.RequireEnqueued(f, q, f.box, txworktest.Topic("now"))
		if taken.Status == workqueue.InProgress || !strings.Contains(taken.LastError, "lease expired") {
			f.Errorf("%+v", taken)
		}
		f.Advance(f, q, 61*time.Minute)
		txworktest.Drain(f, q, f.relay(byTopic))
		txworktest.RequireCount(f, q, f.box, 2,
			txworktest.Where("is done", func(r txworktest.Row) bool { return r.Status == workqueue.Done }))
	})
}

func TestAdvanceAgesWhatHasEnded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.enqueue(outbox.Message{Topic: "ok"}, outbox.Message{Topic: "dead"})
	txworktest.Drain(t, f.Pool, f.relay(byTopic))
	purge := func(want int) {
		t.Helper()
		q := f.box.Table().On(f.Pool)
		done, err := q.PurgeDone(t.Context(), 7*24*time.Hour, 10)
		if err != nil {
			t.Fatal(err)
		}
		failed, err := q.PurgeFailed(t.Context(), 7*24*time.Hour, 10)
		if err != nil || done+failed != want {
			t.Errorf("purged %d and %d, %v, want %d", done, failed, err, want)
		}
	}
	f.Advance(t, f.Pool, 6*24*time.Hour)
	purge(0)
	f.Advance(t, f.Pool, 24*time.Hour)
	purge(2)
}

func TestAdvanceMovesTheDeadlinesOfJoins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(t,
		`INSERT INTO outbox_join (id, retention, deadline) VALUES (gen_random_uuid(), '1 day', now() + interval '1 hour')`)
	txworktest.Advance(t, f.Pool, 2*time.Hour, f.box)
	if !ask[bool](f, f.Pool, "SELECT deadline < now() AND created_at < now() - interval '1 hour' AND look_at < now() "+
		"FROM outbox_join") {
		t.Error("the deadline is still to come")
	}
}

func TestAdvanceOfOneDomainLeavesTheOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(t, `CREATE TABLE outbox_archive (at timestamptz); INSERT INTO outbox_archive VALUES ('2026-01-01');
		INSERT INTO inbox (consumer, source, message_id, due_at) VALUES ('a', 'b', 'c', '2026-01-01')`)
	txworktest.Advance(t, f.Pool, time.Hour, f.box)
	tx := f.Begin(t)
	f.Advance(t, tx, time.Hour) // of all, and rolled back
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !ask[bool](f, f.Pool, "SELECT i.due_at = '2026-01-01' AND a.at = '2026-01-01' FROM inbox i, outbox_archive a") {
		t.Error("other tables have moved")
	}
	f.Advance(t, f.Pool, time.Hour)
	if !ask[bool](f, f.Pool, "SELECT i.due_at = '2025-12-31 23:00:00+00' AND a.at = '2026-01-01' FROM inbox i, "+
		"outbox_archive a") {
		t.Error("not txwork's tables, or more than these, have moved")
	}
}

func TestAdvanceLeavesWhatIsNeverDue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.enqueue(outbox.Message{Topic: "paused", ScheduledAt: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)})
	f.Advance(t, f.Pool, 99*365*24*time.Hour)
	if row := txworktest.RequireEnqueued(t, f.Pool, f.box); row.DueAt.Year() != 9999 {
		t.Error(row.DueAt)
	}
	wantOutcomes(t, txworktest.DrainAll(t, f.Pool, f.relay(deliver)), "")
}

func TestAdvanceRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fails(t, func(t testing.TB) { f.Advance(t, f.Pool, -time.Second) }, "advance by -1s")
	fails(t, func(t testing.TB) { f.Advance(t, f.Pool, 101*366*24*time.Hour) }, "must be between")
	f.Exec(t, "ALTER TABLE outbox ADD CHECK (created_at > '2020-01-01')")
	f.enqueue(outbox.Message{Topic: "a"})
	fails(t, func(t testing.TB) { f.Advance(t, f.Pool, 50*366*24*time.Hour) }, "outbox", "violates check constraint")
}

// Workers that listen look for due rows at once, even if they would have slept for long.
// The starts of a queue move, although one moves to where another was.
func TestAdvanceMovesTheStartsOfQueues(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.Pool.Exec(t.Context(), "INSERT INTO "+f.Schema+`.jobs_start (queue, at, job_id, owner_token)
		SELECT 'default', i * 3600000000, gen_random_uuid(), gen_random_uuid() FROM generate_series(1, 3) AS i`)
	if err != nil {
		t.Fatal(err)
	}
	f.Advance(t, f.Pool, time.Hour)
	got := ask[[]int64](f, f.Pool, "SELECT array_agg(at / 3600000000 ORDER BY at) FROM "+f.Schema+".jobs_start")
	if !slices.Equal(got, []int64{0, 1, 2}) {
		t.Errorf("starts %v", got)
	}
}

// The rest of a topic ends, as its destination may be back by then. A pause is an operator's, and stays as it is.
func TestAdvanceEndsTheRestOfATopic(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.Pool.Exec(t.Context(), "INSERT INTO "+f.Schema+`.outbox_topic
		(topic, paused, changed_at, unavailable_since, rests_until, rest, cause)
		VALUES ('sick', true, '2026-01-01', now(), now() + interval '10 minutes', '10 minutes', 'no answer')`)
	if err != nil {
		t.Fatal(err)
	}
	f.Advance(t, f.Pool, time.Hour)
	if !ask[bool](f, f.Pool, "SELECT rests_until < now() AND unavailable_since < now() - interval '59 minutes' AND "+
		"changed_at = '2026-01-01' AND paused FROM "+f.Schema+".outbox_topic") {
		t.Error("the topic still rests, or its pause has moved")
	}
}

func TestAdvanceWakesWorkers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conn, err := f.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), `LISTEN "`+f.Schema+`.outbox"`); err != nil {
		t.Fatal(err)
	}
	f.Advance(t, f.Pool, time.Hour)
	n, err := conn.Conn().WaitForNotification(t.Context())
	if err != nil || n.Channel != f.Schema+".outbox" || n.Payload == "" {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := conn.Exec(t.Context(), "UNLISTEN *"); err != nil {
		t.Error(err)
	}
}

// For every new timestamptz column, it has to be decided whether Advance moves it: here, and in its documentation.
func TestEveryTimeIsAccountedFor(t *testing.T) {
	t.Parallel()
	stays := map[string]string{
		"timers.fire_at":              "nominal: the application's",
		"timers_schedule.next_at":     "nominal: the schedule's clock moves",
		"timers_schedule.last_at":     "nominal: the schedule's clock moves",
		"timers_schedule.buffered_at": "nominal: the schedule's clock moves",
		"timers_schedule.anchor":      "the phase of its interval",
		"jobs_schedule.anchor":        "the phase of its interval",
		"jobs_schedule.next_at":       "nominal: the schedule's clock moves",
		"jobs_schedule.last_at":       "nominal: the schedule's clock moves",
		"jobs_schedule.buffered_at":   "nominal: the schedule's clock moves",
		"schema_version.tstamp":       "of the migrations",
		"outbox_topic.changed_at":     "when an operator paused it",
		"inbox_topic.changed_at":      "when an operator paused it",
		"leader.expires_at":           "the reapers' own",
		"leader.granted_at":           "the reapers' own",
		"process.beat_at":             "the processes' own",
		"history_flush.at":            "when a process counted",
		"history.at":                  "the minute or hour that was counted",
		"history.counted_since":       "of the server's statistics",
		"audit.at":                    "when an operator acted",
		"outbox_key_cursor.swept_at":  "the sweeps' own",
		"jobs_key_cursor.swept_at":    "the sweeps' own",
		"outbox_join_cursor.swept_at": "the sweeps' own",
		"jobs_join_cursor.swept_at":   "the sweeps' own",
	}
	for _, name := range []string{"fire_at", "next_fire_at", "claimed_at", "created_at", "updated_at",
		"last_fired_at"} {
		stays["alarms."+name] = "what an alarm's owner sees; the alarm's timer decides"
	}
	f := newFixture(t)
	moved := txworktest.Moves(t, f.Pool, f.Schema)
	all := strings.Fields(ask[string](f, f.Pool, `SELECT string_agg(table_name || '.' || column_name, ' ')
		FROM information_schema.columns
		WHERE table_schema = $1 AND (data_type LIKE 'timestamp%' OR column_name = 'at')`, f.Schema))
	for _, column := range all {
		if !moved[column] && stays[column] == "" {
			t.Errorf("%s does not move, and nothing says why", column)
		}
		delete(moved, column)
	}
	if len(moved) > 0 {
		t.Errorf("these move and are not there: %v", slices.Sorted(maps.Keys(moved)))
	}
}
