package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

func TestAKindsSettingsAreStoredWithItsJobs(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, jobs.KindOptions[mail]{
		Queue: "mail", Priority: jobs.High, MaxAttempts: jobs.QuadraticAttempts, Retry: jobs.Quadratic,
		Unique: &jobs.Unique{Key: "only"},
		ByKey:  func(m mail) keyed.Rule { return keyed.Ordered{Key: "to:" + m.To} },
	})
	info := f.get(f.enqueue(mail{To: "ann"}).ID)
	equal(t, "queue", info.Queue, "mail")
	equal(t, "priority", info.Priority, jobs.High)
	equal(t, "max attempts", info.MaxAttempts, 3)
	equal(t, "unique", info.UniqueKey, "u:mail\x1fonly")
	equal(t, "retry", ask[string](f, "SELECT retry ->> 'growth' FROM "+f.table), "quadratic")
	equal(t, "key", ask[string](f, "SELECT concurrency_key FROM "+f.table), "to:ann")

	own := f.get(f.enqueue(mail{}, jobs.Insert{
		Queue: "other", Priority: jobs.Low, MaxAttempts: 5, Unique: &jobs.Unique{}, ByKey: keyed.None{},
	}).ID)
	equal(t, "own queue", own.Queue, "other")
	equal(t, "own priority", own.Priority, jobs.Low)
	equal(t, "own max attempts", own.MaxAttempts, 5)
	equal(t, "own keys", ask[int](f, "SELECT count(concurrency_key) FROM "+f.table), 1)
}

func TestAClientWithARegistryRefusesOtherKinds(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, jobs.KindOptions[mail]{})
	insert := jobs.Insert{Args: report{1}}
	for name, write := range map[string]func(tx workqueue.Tx) error{
		"Enqueue": func(tx workqueue.Tx) error {
			_, err := f.client.Enqueue(f.Context(), tx, jobs.Insert{Args: report{1}})
			return err
		},
		"EnqueueMany": func(tx workqueue.Tx) error {
			_, err := f.client.EnqueueMany(f.Context(), tx, jobs.Insert{Args: mail{}}, insert)
			return err
		},
		"StartBatch": func(tx workqueue.Tx) error {
			_, err := f.client.StartBatch(f.Context(), tx, jobs.Batch{OnComplete: &insert})
			return err
		},
		"Put": func(tx workqueue.Tx) error {
			return f.schedules().Put(f.Context(), tx, jobs.Schedule{Name: "s", Expr: "@daily", Args: report{1}})
		},
	} {
		f.inTx(func(tx workqueue.Tx) error {
			err := write(tx)
			if !errors.Is(err, jobs.ErrUnknownKind) || !errors.Is(err, workqueue.ErrInvalid) ||
				!strings.Contains(err.Error(), `kind "report" is not in the client's Registry`) {
				t.Errorf("%s: error %v, want ErrUnknownKind and ErrInvalid", name, err)
			}
			return nil // commits: a refusal leaves the transaction usable
		})
	}
	equal(t, "jobs", ask[int](f, "SELECT count(*) FROM "+f.table), 0)
	jobs.Declare(f.kinds, jobs.KindOptions[report]{})
	f.enqueue(report{1})
}

// The scheduler of any program enqueues the jobs of all schedules.
func TestASchedulesKindIsCheckedByTheProgramThatPutsIt(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.put(f.schedules(), jobs.Schedule{Name: "s", Expr: "@daily", Args: mail{To: "ann"}})
	other := f.open(jobs.Options{Schema: f.Schema, Registry: f.kinds})
	f.inTx(func(tx workqueue.Tx) error { _, err := other.Schedules().Trigger(f.Context(), tx, "s"); return err })
	equal(t, "jobs", ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE kind = 'mail'"), 1)
}

// A program without a registry can enqueue jobs of every kind for other programs.
func TestAKindNeedNotBeRegisteredToBeEnqueued(t *testing.T) {
	t.Parallel()
	f := newJobs(t, func(o *jobs.Options) { o.Registry = nil; o.MaxAttempts = 7 })
	info := f.get(f.enqueue(mail{To: "ann"}).ID)
	equal(t, "queue", info.Queue, jobs.DefaultQueue)
	equal(t, "max attempts", info.MaxAttempts, 7)
	equal(t, "args", string(info.Args), `{"to":"ann"}`)
}

func TestDueTimesAreTheDatabases(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	at := time.Now().Add(48 * time.Hour).Truncate(time.Microsecond)
	delayed := f.enqueue(mail{}, jobs.Insert{Delay: time.Hour}).ID
	runAt := f.enqueue(mail{}, jobs.Insert{ScheduledAt: at}).ID
	past := f.enqueue(mail{}, jobs.Insert{ScheduledAt: at.Add(-96 * time.Hour)}).ID
	seconds := ask[float64](f, "SELECT extract(epoch FROM due_at - created_at)::float8 FROM "+f.table+" WHERE id = $1",
		delayed)
	if seconds < 3600 || seconds > 3660 {
		t.Errorf("due after %v s, want an hour", seconds)
	}
	if got := f.get(runAt).DueAt; !got.Equal(at) {
		t.Errorf("due at %v, want %v", got, at)
	}
	equal(t, "a past time is now", ask[bool](f, "SELECT due_at = created_at FROM "+f.table+" WHERE id = $1", past),
		true)
}

func TestEveryTransactionWillDo(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	tx, err := f.SQL(t).BeginTx(f.Context(), nil)
	f.ok(err)
	defer tx.Rollback()
	unique := jobs.Insert{Args: mail{To: "ann"}, Delay: time.Hour,
		Unique: &jobs.Unique{Key: "only", OnConflict: jobs.Replace}}
	first, err := f.client.Enqueue(f.Context(), workqueue.SQL(tx), unique)
	f.ok(err)
	unique.Args = mail{To: "bob"}
	second, err := f.client.Enqueue(f.Context(), workqueue.SQL(tx), unique)
	f.ok(err)
	equal(t, "replaced", second, workqueue.Enqueued{ID: first.ID, Duplicate: true, Replaced: true})
	f.ok(f.client.SetLimits(f.Context(), workqueue.SQL(tx), "default", jobs.Limits{MaxRunning: 2, Rate: 1.5}))
	f.ok(f.client.Pause(f.Context(), workqueue.SQL(tx), "default"))
	queues, err := f.client.Queues(f.Context(), workqueue.SQL(tx))
	f.ok(err)
	equal(t, "queue", queues[0], jobs.QueueInfo{Name: "default", Paused: true, Limits: jobs.Limits{MaxRunning: 2,
		Rate: 1.5, Burst: 2}, Scheduled: 1})
	info, err := f.client.Get(f.Context(), workqueue.SQL(tx), first.ID)
	f.ok(err)
	equal(t, "args", string(info.Args), `{"to":"bob"}`)
	equal(t, "progress", info.Progress == nil && info.Output == nil, true)
	list, err := f.client.List(f.Context(), workqueue.SQL(tx), jobs.Filter{Kind: "mail",
		Status: []workqueue.Status{workqueue.Ready}})
	f.ok(err)
	equal(t, "jobs", len(list), 1)
	history, err := f.client.History(f.Context(), workqueue.SQL(tx), first.ID)
	f.ok(err)
	equal(t, "attempts", len(history), 0)
	_, err = f.client.Cancel(f.Context(), workqueue.SQL(tx), "no", first.ID)
	f.ok(err)
	redriven, err := f.client.Redrive(f.Context(), workqueue.SQL(tx), "ann", first.ID)
	f.ok(err)
	equal(t, "redriven", len(redriven), 1)
	f.ok(tx.Commit())
}

// The jobs need more than one statement, because of their number and because of their size.
func TestManyJobsAreEnqueuedAtOnce(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	const n = 12_000
	inserts := make([]jobs.Insert, n)
	large := strings.Repeat("x", 900<<10)
	for i := range inserts {
		inserts[i].Args = mail{To: fmt.Sprint(i)}
		if i < 40 {
			inserts[i].Args = mail{To: large}
		}
	}
	enqueued := f.many(inserts...)
	equal(t, "results", len(enqueued), n)
	equal(t, "rows", ask[int](f, "SELECT count(*) FROM "+f.table), n)
	equal(t, "the last", string(f.get(enqueued[n-1].ID).Args), fmt.Sprintf(`{"to":"%d"}`, n-1))
}

func TestOneBadJobKeepsAllFromBeingWritten(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	id := uuid.New()
	for name, bad := range map[string]jobs.Insert{
		"negative delay": {Args: mail{}, Delay: -1},
		"id of another":  {Args: mail{}, ID: id},
		"no args":        {},
	} {
		err := f.try(func(tx workqueue.Tx) error {
			_, err := f.client.EnqueueMany(f.Context(), tx, jobs.Insert{Args: mail{},
				ID: id}, bad)
			if err == nil {
				t.Errorf("%s: accepted", name)
			}
			var e *workqueue.ItemError
			if !errors.As(err, &e) || e.Index != 1 || e.Count != 2 || !errors.Is(err, workqueue.ErrInvalid) {
				t.Errorf("%s: error %v, want one that names job 2 of 2", name, err)
			}
			return nil // commits: a refusal leaves the transaction usable
		})
		f.ok(err)
	}
	equal(t, "rows", ask[int](f, "SELECT count(*) FROM "+f.table), 0)
}

func TestUniqueScopes(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	by := func(u jobs.Unique) jobs.Insert { return jobs.Insert{Unique: &u} }
	for _, c := range []struct {
		name      string
		first     jobs.Args
		then      jobs.Args
		unique    jobs.Unique
		duplicate bool
	}{
		{"same args", mail{"a"}, mail{"a"}, jobs.Unique{}, true},
		{"other args", mail{"b"}, mail{"c"}, jobs.Unique{}, false},
		{"other kind", report{1}, mail{"a"}, jobs.Unique{Key: "k"}, false},
		{"same key", mail{"d"}, mail{"e"}, jobs.Unique{Key: "key"}, true},
	} {
		first := f.enqueue(c.first, by(c.unique))
		second := f.enqueue(c.then, by(c.unique))
		equal(t, c.name, second.Duplicate, c.duplicate)
		equal(t, c.name+": the holder's id", second.ID == first.ID, c.duplicate)
	}
}

// One job per order, however the rest of the args differs and in whatever form they are passed.
func TestAKindDerivesTheUniqueKeyFromTheArgs(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, jobs.KindOptions[change]{UniqueKey: func(c change) string { return c.Account }})
	jobs.Declare(f.kinds, jobs.KindOptions[*mail]{
		Unique:    &jobs.Unique{OnConflict: jobs.Reject, While: jobs.WhileDone},
		UniqueKey: func(m *mail) string { return m.To },
	})
	first := f.enqueue(change{"a", 1})
	equal(t, "key", f.get(first.ID).UniqueKey, "u:change\x1fa")
	equal(t, "same order", f.enqueue(&change{"a", 2}), workqueue.Enqueued{ID: first.ID, Duplicate: true})
	equal(t, "other order", f.enqueue(change{"b", 1}).Duplicate, false)

	own := func(u jobs.Unique) jobs.Insert { return jobs.Insert{Unique: &u} }
	equal(t, "own conflict, the kind's key", f.enqueue(change{"a", 3}, own(jobs.Unique{OnConflict: jobs.Replace})),
		workqueue.Enqueued{ID: first.ID, Duplicate: true, Replaced: true})
	equal(t, "own key", f.enqueue(change{"a", 4}, own(jobs.Unique{Key: "c"})).Duplicate, false)

	f.enqueue(mail{"ann"})
	if err := f.refuse(&mail{"ann"}, jobs.Insert{}); !errors.Is(err, jobs.ErrUnique) {
		t.Errorf("error %v, want ErrUnique", err)
	}
	equal(t, "states", ask[int](f, "SELECT unique_states FROM "+f.table+" WHERE kind = 'mail'"), int(jobs.WhileDone))
	equal(t, "no key", f.refuse(change{}, jobs.Insert{}).Error(), `txwork: UniqueKey of kind "change" is empty`)
}

func TestAUniqueKeyIsFreeInEveryStateThatItIsNotTakenIn(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	end := map[string]error{"done": nil, "failed": workqueue.Permanent(errors.New("no"))}
	jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[mail]) error { return end[job.Args.To] },
		jobs.KindOptions[mail]{})
	type test struct {
		end   string
		while jobs.States
		taken bool
	}
	tests := []test{
		{"done", 0, false}, {"done", jobs.WhileDone, true}, {"done", jobs.WhileFailed, false},
		{"failed", 0, false}, {"failed", jobs.WhileFailed, true}, {"failed", jobs.WhileDone, false},
		{"failed", jobs.WhileDone | jobs.WhileFailed, true},
	}
	options := func(i int) jobs.Insert {
		return jobs.Insert{Unique: &jobs.Unique{Key: fmt.Sprint(i), While: tests[i].while}}
	}
	var ids []uuid.UUID
	for i, c := range tests {
		ids = append(ids, f.enqueue(mail{To: c.end}, options(i)).ID)
		equal(t, "taken while it is ready", f.enqueue(mail{To: c.end}, options(i)).ID, ids[i])
	}
	f.work(jobs.WorkerOptions{})
	for i, c := range tests {
		f.until("job has ended", func() bool { return f.get(ids[i]).CompletedAt != nil })
		again := f.enqueue(mail{To: c.end}, options(i))
		equal(t, fmt.Sprintf("%+v: duplicate", c), again.Duplicate, c.taken)
	}
}

func TestAUniqueKeyIsTakenWhileItsHolderRunsAndRetries(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	running, release := make(chan struct{}, 2), make(chan error)
	jobs.Register(f.kinds, func(context.Context, *jobs.Job[mail]) error { running <- struct{}{}; return <-release },
		jobs.KindOptions[mail]{})
	f.work(jobs.WorkerOptions{})
	o := jobs.Insert{Unique: &jobs.Unique{}}
	first := f.enqueue(mail{}, o)
	receive(t, running)
	equal(t, "in progress", f.enqueue(mail{}, o).Duplicate, true)
	release <- errors.New("again")
	f.attempted(first.ID)
	equal(t, "waiting for its retry", f.enqueue(mail{}, o).Duplicate, true)
	f.inTx(func(tx workqueue.Tx) error { _, err := f.client.Cancel(f.Context(), tx, "no", first.ID); return err })
	equal(t, "cancelled", f.enqueue(mail{}, o).Duplicate, false)
	receive(t, running)
	release <- nil
}

func TestReplaceChangesAJobThatIsReady(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	running, release := make(chan string, 2), make(chan struct{})
	jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[mail]) error {
		running <- job.Args.To
		<-release
		return nil
	}, jobs.KindOptions[mail]{})
	f.work(jobs.WorkerOptions{})
	o := jobs.Insert{Unique: &jobs.Unique{Key: "only", OnConflict: jobs.Replace}, Delay: time.Hour}
	first := f.enqueue(mail{To: "ann"}, o)
	o.Delay, o.Priority = 0, jobs.High
	equal(t, "ready", f.enqueue(mail{To: "bob"}, o), workqueue.Enqueued{ID: first.ID, Duplicate: true, Replaced: true})
	equal(t, "args", receive(t, running), "bob") // and the worker was told that it is due
	equal(t, "priority", f.get(first.ID).Priority, jobs.High)
	equal(t, "in progress", f.enqueue(mail{To: "eve"}, o), workqueue.Enqueued{ID: first.ID, Duplicate: true})
	close(release)
	f.await(first.ID, workqueue.Done)
	equal(t, "args", string(f.get(first.ID).Args), `{"to":"bob"}`)

	x, y, z := o, o, o
	x.Args, y.Args, z.Args = mail{To: "x"}, mail{To: "y"}, mail{To: "z"}
	last := f.many(x, y, z)
	equal(t, "of one call the last holds", receive(t, running), "z")
	equal(t, "results", fmt.Sprint(last[0].Duplicate, last[1].Replaced, last[2].Replaced), "false true true")
}

func TestRejectNamesTheHolder(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	job := jobs.Insert{Args: mail{To: "ann"}, Unique: &jobs.Unique{OnConflict: jobs.Reject}}
	first := f.many(job)[0]
	f.inTx(func(tx workqueue.Tx) error {
		_, err := f.client.Enqueue(f.Context(), tx, job)
		var e *jobs.UniqueError
		if !errors.Is(err, jobs.ErrUnique) || !errors.As(err, &e) || e.ID != first.ID {
			t.Errorf("error %v, want ErrUnique with %s", err, first.ID)
		}
		job.Args = mail{To: "bob"}
		_, err = f.client.Enqueue(f.Context(), tx, job) // the transaction is still usable
		return err
	})
	equal(t, "jobs", ask[int](f, "SELECT count(*) FROM "+f.table), 2)
}

func TestConcurrentDuplicatesAreWrittenOnce(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	var wg sync.WaitGroup
	ids := make([]uuid.UUID, 6)
	for i := range ids {
		wg.Go(func() {
			err := pgx.BeginFunc(f.Context(), f.Pool, func(tx pgx.Tx) error {
				e, err := f.client.Enqueue(f.Context(), workqueue.Pgx(tx), jobs.Insert{Args: mail{},
					Unique: &jobs.Unique{}})
				ids[i] = e.ID
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		equal(t, "id", id, ids[0])
	}
	equal(t, "jobs", ask[int](f, "SELECT count(*) FROM "+f.table), 1)
}

// Two calls write the same keys in opposite orders.
func TestCallsThatShareUniqueKeysDoNotDeadlock(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	for round := range 20 {
		var calls [2][]jobs.Insert
		for i := range 300 {
			insert := jobs.Insert{Args: mail{"a"}}
			insert.Unique = &jobs.Unique{Key: fmt.Sprintf("%d/%d", round, i)}
			calls[0] = append(calls[0], insert)
			calls[1] = slices.Insert(calls[1], 0, insert)
		}
		var both sync.WaitGroup
		for _, inserts := range calls {
			both.Go(func() {
				err := f.try(func(tx workqueue.Tx) error {
					_, err := f.client.EnqueueMany(t.Context(), tx, inserts...)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}
	equal(t, "jobs", ask[int](f, "SELECT count(*) FROM "+f.table), 20*300)
}

// In whatever order the jobs are written, the results are in the order of the call.
func TestResultsAreInTheOrderOfTheCall(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	held := f.enqueue(mail{"held"}, jobs.Insert{Unique: &jobs.Unique{Key: "b"}})
	var inserts []jobs.Insert
	for _, key := range []string{"c", "", "b", "a", "c"} {
		insert := jobs.Insert{Args: mail{key}}
		if insert.ID = uuid.New(); key != "" {
			insert.Unique = &jobs.Unique{Key: key}
		}
		inserts = append(inserts, insert)
	}
	want := []workqueue.Enqueued{{ID: inserts[0].ID}, {ID: inserts[1].ID}, {ID: held.ID, Duplicate: true},
		{ID: inserts[3].ID}, {ID: inserts[0].ID, Duplicate: true}}
	if got := f.many(inserts...); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	inserts[2].Unique.OnConflict = jobs.Reject
	for i := range inserts {
		inserts[i].ID = uuid.New()
	}
	var refused *jobs.UniqueError
	err := f.try(func(tx workqueue.Tx) error {
		_, err := f.client.EnqueueMany(t.Context(), tx, inserts...)
		return err
	})
	if !errors.As(err, &refused) || refused.Index != 2 || refused.ID != held.ID {
		t.Errorf("got %v", err)
	}
}

// A job gives its key up when it fails, and is Ready without a key after a redrive. Both may happen between the insert
// that found the key taken and the update that replaces its holder. The update then has to leave the job alone.
func TestReplaceLeavesAJobAloneThatHasGivenItsKeyUp(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	job := jobs.Insert{Args: mail{To: "ann"}, Unique: &jobs.Unique{Key: "only", OnConflict: jobs.Replace},
		Delay: time.Hour}
	first := f.many(job)[0]
	job.Args = mail{To: "bob"}
	pool := pgtest.NewPool(t, f.DB, pgtest.WithPool(func(c *pgxpool.Config) {
		c.ConnConfig.Tracer = beforeQuery(func(sql string) {
			if strings.Contains(sql, "SET args = s.args") {
				f.exec("UPDATE " + f.table + " SET unique_key = NULL")
			}
		})
	}))
	f.ok(pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		again, err := f.client.Enqueue(t.Context(), workqueue.Pgx(tx), job)
		equal(t, "replaced", again.Replaced, false)
		return err
	}))
	equal(t, "args", string(f.get(first.ID).Args), `{"to":"ann"}`)
}

// beforeQuery is called before each statement.
type beforeQuery func(sql string)

func (b beforeQuery) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	b(data.SQL)
	return ctx
}

func (beforeQuery) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Concurrent calls replace the holders of many keys, some of which are new, in different orders and in several chunks.
func TestCallsThatReplaceDoNotDeadlock(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	insert := func(i int) jobs.Insert {
		return jobs.Insert{Args: mail{"a"}, Delay: time.Hour,
			Unique: &jobs.Unique{Key: fmt.Sprint(i), OnConflict: jobs.Replace}}
	}
	const keys = 40
	for i := range keys / 2 {
		f.many(insert(keys - 1 - i)) // so that ids and keys have opposite orders
	}
	var writers sync.WaitGroup
	for range 6 {
		writers.Go(func() {
			for range pgtest.Size(20, 60) {
				var inserts []jobs.Insert
				for _, i := range rand.Perm(keys) {
					inserts = append(inserts, insert(i))
				}
				err := f.try(func(tx workqueue.Tx) error {
					_, err := f.client.EnqueueMany(t.Context(), tx, inserts[:keys/2]...)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
}

// Replace leaves only the new job: nothing remains of the old job's tenant, trace, retries and records.
func TestReplaceLeavesNothingOfTheOldJob(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	unique := &jobs.Unique{Key: "only", OnConflict: jobs.Replace}
	old := f.enqueue(mail{To: "alice"}, jobs.Insert{Unique: unique,
		Headers: map[string]string{"txwork-tenant": "acme", "traceparent": "old"}, MaxAttempts: 3,
		Retry: workqueue.Retry{Growth: workqueue.Constant, Base: time.Minute}})
	token := f.claimAdmitted(1)
	_, err := f.client.Table().On(f.Pool).Retry(t.Context(), token, []uuid.UUID{old.ID}, "no luck")
	f.ok(err)
	f.exec("UPDATE " + f.table + " SET progress = 50, progress_note = 'half', output = 'x', trail = true")
	f.exec("INSERT INTO "+f.table+"_step (job_id, name, result) VALUES ($1, 'paid', 'x')", old.ID)

	replaced := f.enqueue(mail{To: "bob"}, jobs.Insert{Unique: unique, Headers: map[string]string{"from": "bob"},
		MaxAttempts: 7})
	equal(t, "replaced", replaced, workqueue.Enqueued{ID: old.ID, Duplicate: true, Replaced: true})
	var headers, rest string
	f.ok(f.Pool.QueryRow(t.Context(), "SELECT headers::text, concat_ws(' ', attempts, max_attempts, retry, "+
		"last_error, progress, progress_note, output, trail) FROM "+f.table).Scan(&headers, &rest))
	equal(t, "headers", headers, `{"from": "bob"}`)
	equal(t, "attempts, maximum and trail", rest, "0 7 f")
	runs := 0
	jobs.Register(f.kinds, func(ctx context.Context, j *jobs.Job[mail]) error {
		_, err := jobs.Step(ctx, j, "paid", func(context.Context) (string, error) { runs++; return "y", nil })
		return err
	}, jobs.KindOptions[mail]{})
	f.work(jobs.WorkerOptions{})
	f.until("the new job is done", func() bool { return f.get(old.ID).Status == workqueue.Done })
	equal(t, "runs of the step", runs, 1)
	f.exec("DELETE FROM " + f.table)
	equal(t, "attempts on record of a job that is gone", ask[int](f, "SELECT count(*) FROM "+f.table+"_attempt"), 0)
}
