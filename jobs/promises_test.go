package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/periodic"
)

// A way in writes a job of an account, or says why it is refused. What writes a row of columns is told the settings.
type wayIn func(f *promises, account string) error

// plainSQL writes what a program in another language knows of the kind.
const plainSQL = `INSERT INTO %s (kind, queue, priority, args, max_attempts, retry, concurrency_key, key_limit, key_policy,
	unique_key) VALUES ('change', 'changes', 1, convert_to(jsonb_build_object('Account', $1::text)::text, 'UTF8'), 4,
	'{"growth": "quadratic", "base_us": 1000000, "cap_us": 3600000000}', $1, 1, 0, $2)`

// waysIn are all ways by which a job can come into the table.
var waysIn = map[string]wayIn{
	"enqueue": func(f *promises, account string) error {
		return f.try(func(tx workqueue.Tx) error {
			_, err := f.client.Enqueue(f.Context(), tx, jobs.Insert{Args: change{account, 1}})
			return err
		})
	},
	"many": func(f *promises, account string) error {
		return f.try(func(tx workqueue.Tx) error {
			_, err := f.client.EnqueueMany(f.Context(), tx, jobs.Insert{Args: change{account, 1}},
				jobs.Insert{Args: report{1}})
			return err
		})
	},
	"batch": func(f *promises, account string) error {
		return f.batchOf(jobs.Batch{Jobs: []jobs.Insert{{Args: change{account, 1}}}})
	},
	"continuation of a batch": func(f *promises, account string) error {
		return f.batchOf(jobs.Batch{OnComplete: &jobs.Insert{Args: change{account, 1}}})
	},
	"workflow": func(f *promises, account string) error {
		w := jobs.NewWorkflow("w")
		w.Task("first", jobs.Insert{Args: report{1}})
		w.Task("second", jobs.Insert{Args: change{account, 1}}, jobs.AfterNamed("first"))
		return f.try(func(tx workqueue.Tx) error {
			_, err := f.client.StartWorkflow(f.Context(), tx, w)
			return err
		})
	},
	"schedule": func(f *promises, account string) error {
		f.putFor(account)
		f.exec("UPDATE "+f.table+"_schedule SET next_at = next_at - interval '1 hour', due_at = now() WHERE name = $1",
			account)
		return f.fire()
	},
	"trigger": func(f *promises, account string) error {
		f.putFor(account)
		return f.try(func(tx workqueue.Tx) error {
			_, err := f.schedules().Trigger(f.Context(), tx, account)
			return err
		})
	},
	"backfill": func(f *promises, account string) error {
		f.putFor(account)
		return f.try(func(tx workqueue.Tx) error {
			now := ask[time.Time](f.fixture, "SELECT now()")
			_, err := f.schedules().Backfill(f.Context(), tx, account, now.Add(-time.Hour), now)
			return err
		})
	},
	"SQL": func(f *promises, account string) error {
		var key any
		if f.unique {
			key = "u:change\x1f" + account
		}
		_, err := f.Pool.Exec(f.Context(), fmt.Sprintf(plainSQL, f.table), account, key)
		return err
	},
	"COPY": func(f *promises, account string) error {
		f.enqueue(change{account, 1})
		f.copyOut(account)
		return f.copyIn()
	},
	"redrive": func(f *promises, account string) error {
		id := f.enqueue(change{account, 1}).ID
		f.exec("UPDATE "+f.table+" SET status = 3, completed_at = now(), failed_at = now() WHERE id = $1", id)
		f.fold()
		f.redrive(id)
		return nil
	},
	"replace": func(f *promises, account string) error {
		only := &jobs.Unique{Key: "only " + account, OnConflict: jobs.Replace}
		old := jobs.Insert{Unique: only, Queue: "other", Priority: jobs.Low, MaxAttempts: 2, Retry: atOnce,
			ByKey: keyed.Ordered{Key: "other"}, Delay: time.Hour}
		f.enqueue(change{"other", 1}, old)
		f.fold()
		e := f.enqueue(change{account, 1}, jobs.Insert{Unique: only})
		equal(f.T, "replaced", e.Replaced, true)
		return nil
	},
}

// promises is a fixture with the kinds of these tests.
type promises struct {
	*fixture
	unique bool // jobs of the kind are unique by their account
	dump   bytes.Buffer
}

func promising(t *testing.T, o jobs.KindOptions[change],
	handle func(context.Context, *jobs.Job[change]) error) *promises {
	t.Helper()
	f := &promises{fixture: newJobs(t)}
	o.Queue, o.Priority, o.MaxAttempts, o.Retry = "changes", jobs.High, 4, jobs.Quadratic
	o.Timeout = time.Hour
	o.ByKey = func(c change) keyed.Rule { return keyed.Limited{Key: c.Account, MaxRunning: 1} }
	f.unique = o.UniqueKey != nil
	jobs.Register(f.kinds, handle, o)
	jobs.Register(f.kinds, nothing[report], jobs.KindOptions[report]{})
	return f
}

func (f *fixture) batchOf(b jobs.Batch) error {
	return f.try(func(tx workqueue.Tx) error {
		_, err := f.client.StartBatch(f.Context(), tx, b)
		return err
	})
}

func (f *fixture) putFor(account string) {
	f.Helper()
	f.put(f.schedules(), jobs.Schedule{Name: account, Expr: "@hourly", Args: change{account, 1}})
}

// fire writes what schedules owe.
func (f *fixture) fire() error {
	scheduler, err := f.schedules().Scheduler(f.Pool, periodic.SchedulerOptions{})
	f.ok(err)
	drain, err := scheduler.Drain()
	f.ok(err)
	_, err = drain.Process(f.Context())
	return err
}

// begin makes a job run, and end ends it, in whichever queue it is.
func (f *fixture) begin(id uuid.UUID) {
	f.Helper()
	f.exec("UPDATE "+f.table+" SET status = 1, attempts = 1, owner_token = $1, locked_until = now() + interval '1 hour' "+
		"WHERE id = $2 AND NOT waiting", uuid.New(), id)
	equal(f.T, "status", f.get(id).Status, workqueue.InProgress)
}

func (f *fixture) end(id uuid.UUID) {
	f.Helper()
	f.exec("UPDATE "+f.table+" SET status = 2, completed_at = now(), locked_until = NULL WHERE id = $1 AND status = 1", id)
	f.fold()
}

// copyOut takes the rows of an account out of the table as a dump, and copyIn puts them back.
func (f *promises) copyOut(account string) {
	f.Helper()
	f.dump.Reset()
	conn, err := f.Pool.Acquire(f.Context())
	f.ok(err)
	defer conn.Release()
	_, err = conn.Conn().PgConn().CopyTo(f.Context(), &f.dump, "COPY (SELECT * FROM "+f.table+
		" WHERE concurrency_key = '"+account+"') TO STDOUT")
	f.ok(err)
	f.exec("DELETE FROM "+f.table+" WHERE concurrency_key = $1", account)
}

func (f *promises) copyIn() error {
	conn, err := f.Pool.Acquire(f.Context())
	f.ok(err)
	defer conn.Release()
	_, err = conn.Conn().PgConn().CopyFrom(f.Context(), bytes.NewReader(f.dump.Bytes()), "COPY "+f.table+" FROM STDIN")
	return err
}

// Every job has the settings of its kind, by whatever way it came in, and runs with the kind's timeout.
func TestSettingsOfAKindHoldOnEveryWayIn(t *testing.T) {
	t.Parallel()
	ran := make(chan string, 100)
	f := promising(t, jobs.KindOptions[change]{}, func(ctx context.Context, job *jobs.Job[change]) error {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Errorf("%s: no timeout", job.Args.Account)
		}
		ran <- job.Args.Account
		return nil
	})
	for _, way := range slices.Sorted(maps.Keys(waysIn)) {
		f.ok(waysIn[way](f, way))
		equal(t, way, ask[string](f.fixture, `SELECT coalesce(string_agg(concat_ws(' ', queue, priority, max_attempts,
			retry ->> 'growth', key_limit), ', '), '') FROM `+f.table+" WHERE concurrency_key = $1", way),
			"changes 1 4 quadratic 1")
	}
	f.work(jobs.WorkerOptions{Queues: []jobs.QueueOptions{{Name: "changes"}, {}}})
	left := maps.Clone(waysIn)
	for len(left) > 0 {
		delete(left, receive(t, ran))
	}
}

// A job waits for a running job of its key, by whatever way it came in.
func TestALimitedKeyHoldsOnEveryWayIn(t *testing.T) {
	t.Parallel()
	f := promising(t, jobs.KindOptions[change]{}, nothing[change])
	for _, way := range slices.Sorted(maps.Keys(waysIn)) {
		first := f.enqueue(change{way, 0}).ID
		f.fold()
		f.begin(first)
		f.ok(waysIn[way](f, way))
		f.fold()
		equal(t, way+": jobs that may run", f.through(way), 1)
		equal(t, way+": the running one", f.get(first).Status, workqueue.InProgress)
	}
}

// No second job of a unique key comes into the table beside its holder: it is a duplicate, or it is refused and the
// error says that it is for being unique.
func TestUniqueHoldsOnEveryWayIn(t *testing.T) {
	t.Parallel()
	f := promising(t, jobs.KindOptions[change]{UniqueKey: func(c change) string { return c.Account }}, nothing[change])
	refused := map[string]string{
		"batch": "Unique is set on kind", "continuation of a batch": "Unique is set on kind",
		"workflow": "Unique is set on kind", "SQL": "jobs_unique_idx", "COPY": "jobs_unique_idx",
	}
	live := "SELECT count(*) FROM " + f.table + " WHERE concurrency_key = $1 AND completed_at IS NULL"
	for _, way := range slices.Sorted(maps.Keys(waysIn)) {
		switch way {
		case "replace": // turns one job into another, which has a key of its own
			continue
		case "redrive": // the job takes the key again that it gave up when it failed
			f.ok(waysIn[way](f, way))
			equal(t, way+": duplicate", f.enqueue(change{way, 2}).Duplicate, true)
		case "COPY": // the holder comes between the dump and its restore
			f.enqueue(change{way, 1})
			f.copyOut(way)
			f.enqueue(change{way, 2})
			wantRefusal(t, way, f.copyIn(), refused[way])
		default:
			f.enqueue(change{way, 2})
			wantRefusal(t, way, waysIn[way](f, way), refused[way])
		}
		equal(t, way+": live jobs", ask[int](f.fixture, live, way), 1)
	}
}

func wantRefusal(t *testing.T, way string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", way, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: error %v, want one with %q", way, err, want)
	}
}

// Five occurrences of a kind that allows one job are one job. The schedule has fired five times, says so, and goes on.
func TestAnOccurrenceWhoseKeyIsTakenHasFired(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct {
		conflict jobs.Conflict
		holder   int // the day of the occurrence that the one job is
		said     bool
	}{{jobs.Keep, 1, true}, {jobs.Reject, 1, true}, {jobs.Replace, 5, false}} {
		t.Run(fmt.Sprint(c.conflict), func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			f := newJobs(t, func(o *jobs.Options) { o.Telemetry.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			jobs.Declare(f.kinds, jobs.KindOptions[mail]{Unique: &jobs.Unique{OnConflict: c.conflict}})
			f.put(f.schedules(), jobs.Schedule{Name: "daily", Expr: "@daily", Args: mail{To: "ann"},
				Rule: schedule.Rule{Misfire: schedule.MisfireAll}})
			f.exec("UPDATE " + f.table + "_schedule SET next_at = next_at - interval '5 days', due_at = now()")
			first := ask[time.Time](f, "SELECT next_at FROM "+f.table+"_schedule")
			f.ok(f.fire())
			id := ask[uuid.UUID](f, "SELECT id FROM "+f.table)
			equal(t, "occurrence", ask[time.Time](f, "SELECT (headers ->> 'txwork-nominal')::timestamptz FROM "+f.table).
				Equal(first.Add(time.Duration(c.holder-1)*day)), true)
			seconds, _ := id.Time().UnixTime()
			equal(t, "the id is the first one's", seconds, first.Unix())
			equal(t, "fired", ask[string](f, "SELECT concat_ws(' ', fired, skipped, last_error, next_at = $1) FROM "+
				f.table+"_schedule", first.Add(5*day)), "5 0 t")
			equal(t, "said", strings.Contains(log.String(), "occurrences=4"), c.said)

			f.inTx(func(tx workqueue.Tx) error {
				n, err := f.schedules().Backfill(f.Context(), tx, "daily", first, first.Add(4*day))
				f.ok(err)
				equal(t, "backfilled beside the holder", n, map[bool]int{true: 0, false: 4}[c.said])
				return nil
			})
			f.triggerBeside(c.conflict, id)

			f.exec("UPDATE " + f.table + " SET status = 2, completed_at = now()")
			f.inTx(func(tx workqueue.Tx) error {
				n, err := f.schedules().Backfill(f.Context(), tx, "daily", first, first.Add(day))
				f.ok(err)
				equal(t, "backfilled when the key is free, without the one that is there", n, 1)
				return nil
			})
		})
	}
}

// triggerBeside triggers the schedule while a job holds the key.
func (f *fixture) triggerBeside(conflict jobs.Conflict, holder uuid.UUID) {
	f.Helper()
	var o periodic.Occurrence
	err := f.try(func(tx workqueue.Tx) (err error) {
		o, err = f.schedules().Trigger(f.Context(), tx, "daily")
		return err
	})
	equal(f.T, "refused", errors.Is(err, jobs.ErrUnique), conflict == jobs.Reject)
	if err == nil {
		equal(f.T, "triggered", fmt.Sprint(o.ID, o.Duplicate), fmt.Sprint(holder, conflict == jobs.Keep))
	}
}

// The program that puts a schedule decides about the settings of its jobs, and not the one that fires it.
func TestSettingsOfASchedulesJobsAreThoseOfItsPut(t *testing.T) {
	t.Parallel()
	f := newJobs(t, func(o *jobs.Options) { o.MaxAttempts = 7 })
	jobs.Declare(f.kinds, jobs.KindOptions[change]{Queue: "changes", Priority: jobs.Low,
		UniqueKey: func(c change) string { return c.Account },
		ByKey:     func(c change) keyed.Rule { return keyed.Ordered{Key: c.Account} }})
	jobs.Declare(f.kinds, jobs.KindOptions[mail]{})
	f.put(f.schedules(), jobs.Schedule{Name: "changes", Expr: "@daily", Args: change{"a", 1}},
		jobs.Schedule{Name: "mail", Expr: "@daily", Args: mail{To: "ann"}})

	others := jobs.NewRegistry()
	jobs.Declare(others, jobs.KindOptions[mail]{Queue: "elsewhere", Priority: jobs.High, MaxAttempts: 3,
		Retry: jobs.Quadratic, Unique: &jobs.Unique{},
		ByKey: func(m mail) keyed.Rule { return keyed.Ordered{Key: m.To} }})
	other := f.open(jobs.Options{Schema: f.Schema, Registry: others, MaxAttempts: 5})
	f.inTx(func(tx workqueue.Tx) error {
		for _, name := range []string{"changes", "mail"} {
			_, err := other.Schedules().Trigger(f.Context(), tx, name)
			f.ok(err)
		}
		return nil
	})
	equal(t, "jobs", ask[string](f, `SELECT string_agg(concat_ws(' ', kind, queue, priority, max_attempts,
		retry ->> 'growth', replace(unique_key, chr(31), ' '), concurrency_key), ', ' ORDER BY kind) FROM `+f.table),
		"change changes 3 7 u:change a a, mail default 2 7")
}

// A schedule that an earlier version has put, without a unique key and a maximum of attempts, keeps firing.
func TestASchedulesTemplateMayBeOld(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, jobs.KindOptions[mail]{Unique: &jobs.Unique{}})
	f.put(f.schedules(), jobs.Schedule{Name: "yearly", Expr: "@yearly", Args: mail{To: "ann"}})
	f.exec("UPDATE " + f.table + `_schedule SET template = convert_to((convert_from(template, 'UTF8')::jsonb - 'unique'
		- 'max_attempts')::text, 'UTF8'), next_at = next_at - interval '1 year', due_at = now()`)
	f.enqueue(mail{To: "ann"})
	f.ok(f.fire())
	equal(t, "jobs", ask[string](f, "SELECT string_agg(concat_ws(' ', unique_key IS NOT NULL, max_attempts), ', ' "+
		"ORDER BY created_at) FROM "+f.table), "t 30, f 30")
}

// A Replace whose args name another key leaves the old key and waits for its turn in the new one.
func TestReplaceChangesTheKey(t *testing.T) {
	t.Parallel()
	rules := map[string]func(key string) keyed.Rule{
		"none":    func(string) keyed.Rule { return keyed.None{} },
		"ordered": func(key string) keyed.Rule { return keyed.Ordered{Key: key} },
		"limited": func(key string) keyed.Rule { return keyed.Limited{Key: key, MaxRunning: 1} },
	}
	for before, old := range rules {
		for after, rule := range rules {
			t.Run(before+" to "+after, func(t *testing.T) {
				t.Parallel()
				f := newJobs(t)
				jobs.Declare(f.kinds, jobs.KindOptions[change]{})
				only := jobs.Insert{Unique: &jobs.Unique{Key: "only", OnConflict: jobs.Replace}, ByKey: old("a")}
				moved := f.enqueue(change{"a", 1}, only).ID
				behind := f.enqueue(change{"a", 2}, jobs.Insert{ByKey: old("a")}).ID
				running := f.enqueue(change{"b", 1}, jobs.Insert{ByKey: rule("b")}).ID
				f.fold()
				f.begin(running)
				only.ByKey = rule("b")
				equal(t, "replaced", f.enqueue(change{"b", 2}, only).Replaced, true)
				f.fold()
				equal(t, "waits for the running job", f.get(moved).Waiting, after != "none")
				equal(t, "the next of the old key", f.get(behind).Waiting, false)
				last := f.enqueue(change{"b", 3}, jobs.Insert{ByKey: rule("b")}).ID
				f.end(running)
				f.fold()
				equal(t, "its turn has come", f.get(moved).Waiting, false)
				equal(t, "it is before what came later", f.get(last).Waiting, after != "none")
			})
		}
	}
}

// A Replace that keeps the key keeps the place, and a waiting job that becomes urgent goes first.
func TestReplaceKeepsThePlaceInItsKey(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, jobs.KindOptions[change]{})
	rule := keyed.Ordered{Key: "a"}
	running := f.enqueue(change{"a", 1}, jobs.Insert{ByKey: rule}).ID
	only := jobs.Insert{Unique: &jobs.Unique{Key: "only", OnConflict: jobs.Replace}, ByKey: rule}
	second := f.enqueue(change{"a", 2}, only).ID
	third := f.enqueue(change{"a", 3}, jobs.Insert{ByKey: rule}).ID
	f.fold()
	f.begin(running)
	equal(t, "replaced", f.enqueue(change{"a", 4}, only).Replaced, true)
	f.end(running)
	f.fold()
	equal(t, "second and third wait", fmt.Sprint(f.get(second).Waiting, f.get(third).Waiting), "false true")
}

// Urgent jobs of a limited key go before the others, which still get a share.
func TestALimitedKeyGoesByPriority(t *testing.T) {
	t.Parallel()
	const n = 120
	f := newJobs(t)
	var mu sync.Mutex
	var started []jobs.Priority
	jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[change]) error {
		mu.Lock()
		defer mu.Unlock()
		started = append(started, job.Priority)
		return nil
	}, limited(keyed.Limited{MaxRunning: 1}))
	var inserts []jobs.Insert
	for i := range n {
		for _, p := range []jobs.Priority{jobs.Normal + jobs.Priority(i%2), jobs.High} {
			inserts = append(inserts, jobs.Insert{Args: change{"a", i}, Priority: p})
		}
	}
	f.many(inserts...)
	w, err := jobs.NewWorker(f.Pool, f.client, jobs.WorkerOptions{})
	f.ok(err)
	drain, err := w.Drain()
	f.ok(err)
	f.until("all are done", func() bool {
		_, err := drain.Process(f.Context())
		f.ok(err)
		mu.Lock()
		defer mu.Unlock()
		return len(started) == 2*n
	})
	less := 0
	for _, p := range started[:n] {
		if p != jobs.High {
			less++
		}
	}
	// An eighth is 15. By due time there would be 60. Both bounds are passed by chance in less than one of a million.
	if less == 0 || less > 40 {
		t.Errorf("of the first %d jobs, %d are less urgent than the others", n, less)
	}
}
