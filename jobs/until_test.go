package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// byAccount are the options of a kind whose jobs are unique by their account.
func byAccount(u jobs.Unique) jobs.KindOptions[change] {
	return jobs.KindOptions[change]{Retry: atOnce, Unique: &u, UniqueKey: func(c change) string { return c.Account }}
}

// A key that is held until the start is free for what arrives while the job runs, and taken by that.
func TestAKeyIsFreeWhenTheJobStarts(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, byAccount(jobs.Unique{Until: jobs.UntilStart}))
	first := f.enqueue(change{"a", 1}).ID
	equal(t, "before the start", f.enqueue(change{"a", 2}), workqueue.Enqueued{ID: first, Duplicate: true})
	token := f.claim(first)
	second := f.enqueue(change{"a", 3})
	equal(t, "after the start", second.Duplicate, false)
	equal(t, "once more", f.enqueue(change{"a", 4}), workqueue.Enqueued{ID: second.ID, Duplicate: true})
	_, err := f.queue().Abandon(f.Context(), token, []uuid.UUID{first}, 0, "no")
	f.ok(err)
	equal(t, "beside a retry", f.enqueue(change{"a", 5}), workqueue.Enqueued{ID: second.ID, Duplicate: true})
	equal(t, "keys", ask[int](f, "SELECT count(unique_key) FROM "+f.table), 1)
}

// A claim that rolls back, like that of a process that dies in it, leaves the key taken; one whose lease expires has
// freed it.
func TestAKeyIsFreeIfTheClaimCommits(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, byAccount(jobs.Unique{Until: jobs.UntilStart}))
	first := f.enqueue(change{"a", 1}).ID
	err := pgx.BeginFunc(f.Context(), f.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(f.Context(), "SELECT "+f.table+"_fetch('00000000-002a-8000-8000-000000000000', '60 s', 1)")
		f.ok(err)
		var keys int
		f.ok(tx.QueryRow(f.Context(), "SELECT count(unique_key) FROM "+f.table).Scan(&keys))
		equal(t, "keys in the claim's transaction", keys, 0)
		return errRollback
	})
	equal(t, "rolled back", errors.Is(err, errRollback), true)
	equal(t, "after a rollback", f.enqueue(change{"a", 2}).Duplicate, true)
	f.claim(first)
	f.exec("UPDATE " + f.table + " SET locked_until = now() - interval '1 minute' WHERE status = 1")
	_, err = f.queue().ReapExpired(f.Context(), 10)
	f.ok(err)
	equal(t, "reaped", f.get(first).Status, workqueue.Ready)
	equal(t, "after a crash", f.enqueue(change{"a", 3}).Duplicate, false)
}

var errRollback = errors.New("roll back")

// However many changes arrive while a job runs or waits for its next attempt, exactly one more runs after it: with the
// first or the last of them.
func TestWhatArrivesDuringARunLeadsToOneMoreRunAfterIt(t *testing.T) {
	t.Parallel()
	for conflict, want := range map[jobs.Conflict]string{jobs.Keep: "[1 1 2]", jobs.Replace: "[1 1 4]"} {
		t.Run(fmt.Sprint(conflict), func(t *testing.T) {
			t.Parallel()
			f := newJobs(t)
			var mu sync.Mutex
			var seen []int
			var running gauge
			inside, goOn := make(chan int, 10), make(chan error)
			jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[change]) error {
				defer running.enter()()
				mu.Lock()
				seen = append(seen, job.Args.N)
				mu.Unlock()
				inside <- job.Args.N
				return <-goOn
			}, byAccount(jobs.Unique{Until: jobs.UntilStartInTurn, OnConflict: conflict}))
			f.work(jobs.WorkerOptions{})
			f.enqueue(change{"a", 1})
			receive(t, inside)
			f.enqueue(change{"a", 2})
			f.enqueue(change{"a", 3})
			goOn <- errors.New("again")
			receive(t, inside) // the second attempt
			last := f.enqueue(change{"a", 4})
			equal(t, "one more waits", last.Duplicate, true)
			goOn <- nil
			receive(t, inside)
			goOn <- nil
			f.await(last.ID, workqueue.Done)
			mu.Lock()
			defer mu.Unlock()
			equal(t, "runs", fmt.Sprint(seen), want)
			equal(t, "at once", running.most.Load(), 1)
			equal(t, "jobs", ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE status = 2"), 2)
		})
	}
}

// The run that is owed comes after a dead letter, too.
func TestADeadLetterDoesNotStopTheNextRun(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, byAccount(jobs.Unique{Until: jobs.UntilStartInTurn}))
	first := f.enqueue(change{"a", 1}).ID
	token := f.claim(first)
	second := f.enqueue(change{"a", 2}).ID
	f.fold()
	equal(t, "waits", f.get(second).Waiting, true)
	_, err := f.queue().Fail(f.Context(), token, []uuid.UUID{first}, "no")
	f.ok(err)
	f.fold()
	equal(t, "waits", f.get(second).Waiting, false)
}

// A schedule's job of such a kind is written while another runs, and waits for it.
func TestAScheduleOwesOneMoreRun(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, byAccount(jobs.Unique{Until: jobs.UntilStartInTurn}))
	f.put(f.schedules(), jobs.Schedule{Name: "daily", Expr: "@daily", Args: change{"a", 1}})
	first := f.enqueue(change{"a", 1}).ID
	f.claim(first)
	f.inTx(func(tx workqueue.Tx) error {
		second, err := f.schedules().Trigger(f.Context(), tx, "daily")
		f.ok(err)
		equal(t, "second", second.Duplicate, false)
		third, err := f.schedules().Trigger(f.Context(), tx, "daily")
		f.ok(err)
		equal(t, "third", fmt.Sprint(third.ID, third.Duplicate), fmt.Sprint(second.ID, true))
		return nil
	})
	f.fold()
	equal(t, "waiting", ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE waiting"), 1)
}

func TestUntilIsValidated(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	until := func(u jobs.Unique, rule keyed.Rule) string {
		return f.refuse(change{"a", 1}, jobs.Insert{Unique: &u, ByKey: rule}).Error()
	}
	for want, got := range map[string]string{
		"Unique.Until is 3":                    until(jobs.Unique{Until: 3}, nil),
		"Unique.While is set, and so is Until": until(jobs.Unique{Until: jobs.UntilStart, While: jobs.WhileDone}, nil),
		"ByKey is set, and so is Unique.Until": until(jobs.Unique{Until: jobs.UntilStartInTurn},
			keyed.Ordered{Key: "a"}),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("error %q, want %q", got, want)
		}
	}
	defer func() {
		if err, _ := recover().(error); err == nil || !strings.Contains(err.Error(), "ByKey is set") {
			t.Errorf("a kind with a ByKey of its own: %v", err)
		}
	}()
	o := byAccount(jobs.Unique{Until: jobs.UntilStartInTurn})
	o.ByKey = func(c change) keyed.Rule { return keyed.Ordered{Key: c.Account} }
	jobs.Declare(f.kinds, o)
}

// successors are the ways in which a job writes its successor.
func successors(f *fixture) map[string]func(ctx context.Context, tx pgx.Tx, next change) error {
	return map[string]func(context.Context, pgx.Tx, change) error{
		"Go": func(ctx context.Context, tx pgx.Tx, next change) error {
			e, err := f.client.Enqueue(ctx, workqueue.Pgx(tx), jobs.Insert{Args: next})
			if err == nil && e.Duplicate {
				err = errors.New("the successor is a duplicate")
			}
			return err
		},
		"SQL": func(ctx context.Context, tx pgx.Tx, next change) error {
			_, err := tx.Exec(ctx, "INSERT INTO "+f.table+" (kind, queue, priority, args, unique_key) VALUES ('change', "+
				"'default', 2, convert_to(jsonb_build_object('Account', $1::text, 'N', $2::int)::text, 'UTF8'), $3)",
				next.Account, next.N, "u:change\x1f"+next.Account)
			return err
		},
	}
}

// A job that enqueues its own key in its transaction continues its chain, and the key always has one holder.
func TestAJobEnqueuesItsSuccessor(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"Go", "SQL"} {
		for _, while := range []jobs.States{0, jobs.WhileDone} {
			t.Run(fmt.Sprint(way, " ", while), func(t *testing.T) {
				t.Parallel()
				const n = 5
				f := newJobs(t)
				ran := make(chan int, n)
				jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[change]) error {
					return job.Tx(ctx, func(tx pgx.Tx) error {
						ran <- job.Args.N
						if job.Args.N == n {
							return nil
						}
						return successors(f)[way](ctx, tx, change{job.Args.Account, job.Args.N + 1})
					})
				}, byAccount(jobs.Unique{While: while}))
				f.work(jobs.WorkerOptions{})
				f.enqueue(change{"a", 1})
				var seen []int
				for range n {
					seen = append(seen, receive(t, ran))
				}
				equal(t, "chain", slices.Equal(seen, []int{1, 2, 3, 4, 5}), true)
				f.until("all are done", func() bool {
					return ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE status = 2") == n
				})
				held := 0
				if while == jobs.WhileDone && way == "Go" { // SQL has not said so
					held = 1
				}
				equal(t, "keys", ask[int](f, "SELECT count(unique_key) FROM "+f.table), held)
			})
		}
	}
}

// If the transaction does not commit, the job still holds its key, and there is no successor. A job that writes its
// successor elsewhere meets its own key, as ever.
func TestAJobKeepsItsKeyIfItsTransactionDoesNot(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	held := make(chan bool, 1)
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[change]) error {
		if job.Attempt > 1 {
			return nil
		}
		err := job.Tx(ctx, func(tx pgx.Tx) error {
			f.ok(successors(f)["Go"](ctx, tx, change{"a", 2}))
			return errRollback
		})
		held <- f.enqueue(change{"a", 3}).ID == job.ID
		return err
	}, byAccount(jobs.Unique{}))
	f.work(jobs.WorkerOptions{})
	first := f.enqueue(change{"a", 1})
	equal(t, "the key is held after the rollback", receive(t, held), true)
	f.await(first.ID, workqueue.Done)
	equal(t, "jobs", ask[int](f, "SELECT count(*) FROM "+f.table), 1)
}

// Others that want the key wait for the transaction of its holder, and then meet its successor.
func TestOthersMeetTheSuccessor(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	written, commit := make(chan struct{}), make(chan struct{})
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[change]) error {
		return job.Tx(ctx, func(tx pgx.Tx) error {
			defer func() { close(written); <-commit }()
			_, err := f.client.Enqueue(ctx, workqueue.Pgx(tx), jobs.Insert{Args: change{"a", 2}, Delay: time.Hour})
			return err
		})
	}, byAccount(jobs.Unique{}))
	f.work(jobs.WorkerOptions{})
	first := f.enqueue(change{"a", 1})
	receive(t, written)
	met := make(chan workqueue.Enqueued)
	go func() { met <- f.enqueue(change{"a", 3}) }()
	f.until("another waits for the key", func() bool {
		return ask[bool](f, "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE "+
			"'%INSERT INTO%' AND query LIKE '%'||$1||'%'", f.Schema)
	})
	close(commit)
	other := receive(t, met)
	equal(t, "jobs", ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE id <> $1", first.ID), 1)
	equal(t, "met the successor", other.Duplicate && other.ID != first.ID, true)
}
