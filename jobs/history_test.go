package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// This test checks the design decisions about retries one by one: attempts are counted when a job is claimed; the same
// rule decides between retry and dead letter for reported failures and for expired leases; the backoff is the square of
// the attempt in seconds, and is stored in a column instead of a separate queue; a dead letter can be read, and it can
// be redriven.
func TestRetriesAndDeadLetters(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, jobs.KindOptions[mail]{Retry: jobs.Quadratic, MaxAttempts: jobs.QuadraticAttempts})
	id := f.enqueue(mail{To: "ann"}).ID
	queue := f.client.Table().On(f.Pool)
	claim := func(attempt int) uuid.UUID {
		t.Helper()
		f.exec("UPDATE "+f.table+" SET due_at = now() WHERE id = $1", id)
		token := workqueue.NewOwnerToken()
		rows, err := queue.Claim(f.Context(), token, time.Minute, 10, "default", jobs.Normal)
		f.ok(err)
		equal(t, "claimed", len(rows), 1)
		equal(t, "attempts at the claim", f.get(id).Attempts, attempt)
		return token
	}
	backoff := func() time.Duration {
		t.Helper()
		return time.Duration(ask[float64](f, "SELECT extract(epoch FROM due_at - now())::float8 FROM "+f.table+
			" WHERE id = $1", id) * float64(time.Second)).Round(time.Second)
	}

	_, err := queue.Retry(f.Context(), claim(1), []uuid.UUID{id}, "no answer")
	f.ok(err)
	equal(t, "backoff after the first", backoff(), time.Second)

	claim(2) // the process dies after this claim
	f.exec("UPDATE "+f.table+" SET locked_until = now() - interval '1 millisecond' WHERE id = $1", id)
	_, err = queue.ReapExpired(f.Context(), 10)
	f.ok(err)
	equal(t, "status after a lost lease", f.get(id).Status, workqueue.Ready)
	equal(t, "backoff after the second", backoff(), 4*time.Second)

	_, err = queue.Retry(f.Context(), claim(3), []uuid.UUID{id}, "no answer, again")
	f.ok(err)
	dead := f.get(id)
	equal(t, "status after the third", dead.Status, workqueue.Failed)
	equal(t, "last error", dead.LastError, "no answer, again")
	equal(t, "args", string(dead.Args), `{"to":"ann"}`)
	rows, err := queue.Claim(f.Context(), workqueue.NewOwnerToken(), time.Minute, 10, "default", jobs.Normal)
	f.ok(err)
	equal(t, "claims of a dead letter", len(rows), 0)

	f.inTx(func(tx workqueue.Tx) error {
		changed, err := f.client.Redrive(f.Context(), tx, "ann", id)
		equal(t, "redriven", len(changed), 1)
		return err
	})
	again := f.get(id)
	equal(t, "attempts", again.Attempts, 0)
	equal(t, "who", again.Headers["txwork-redriven-by"], "ann")
	_, err = queue.Ack(f.Context(), claim(1), []uuid.UUID{id})
	f.ok(err)
	equal(t, "status in the end", f.get(id).Status, workqueue.Done)

	history := f.history(id)
	equal(t, "history", fmt.Sprint(outcomes(history)), "[failed lost failed succeeded]")
	equal(t, "first error", history[0].Error, "no answer")
	if !strings.HasPrefix(history[1].Error, "lease expired at ") || history[2].Attempt != 3 || history[3].Attempt != 1 {
		t.Errorf("history %+v", history)
	}
}

func TestWhatIsNoAttemptIsNotOnRecord(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	runs := make(chan struct{}, 10)
	jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[mail]) error {
		runs <- struct{}{}
		if len(runs) == 1 {
			return workqueue.Snooze(0)
		}
		return nil
	}, jobs.KindOptions[mail]{})
	f.work(jobs.WorkerOptions{})
	id := f.enqueue(mail{}).ID
	f.await(id, workqueue.Done)
	equal(t, "history", fmt.Sprint(outcomes(f.history(id))), "[succeeded]")
	equal(t, "rows", ask[int](f, "SELECT count(*) FROM "+f.table+"_attempt"), 0)
}

func TestListGoesThroughThePages(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	jobs.Register(f.kinds, func(context.Context,
		*jobs.Job[report]) error {
		return workqueue.Permanent(errors.New("no"))
	}, jobs.KindOptions[report]{})
	var mails []uuid.UUID
	for i := range 5 {
		mails = append(mails, f.enqueue(mail{To: fmt.Sprint(i)}, jobs.Insert{Queue: "mail"}).ID)
	}
	slices.Reverse(mails)
	failed := f.enqueue(report{}).ID
	f.work(jobs.WorkerOptions{})
	f.await(failed, workqueue.Failed)

	list := func(filter jobs.Filter) (ids []uuid.UUID) {
		t.Helper()
		f.inTx(func(tx workqueue.Tx) error {
			infos, err := f.client.List(f.Context(), tx, filter)
			for _, info := range infos {
				ids = append(ids, info.ID)
			}
			return err
		})
		return ids
	}
	var pages []uuid.UUID
	for before := uuid.Nil; ; before = pages[len(pages)-1] {
		page := list(jobs.Filter{Kind: "mail", Before: before, Limit: 2})
		pages = append(pages, page...)
		if len(page) < 2 {
			break
		}
	}
	if !slices.Equal(pages, mails) {
		t.Errorf("pages %v, want %v", pages, mails)
	}
	equal(t, "all", len(list(jobs.Filter{})), 6)
	equal(t, "of a queue", len(list(jobs.Filter{Queue: "mail"})), 5)
	equal(t, "live", len(list(jobs.Filter{Status: []workqueue.Status{workqueue.Ready, workqueue.InProgress}})), 5)
	equal(t, "dead letters", list(jobs.Filter{Status: []workqueue.Status{workqueue.Failed}})[0], failed)
	equal(t, "ended", len(list(jobs.Filter{Status: []workqueue.Status{workqueue.Failed, workqueue.Done}})), 1)
	equal(t, "dead letters", list(jobs.Filter{State: []workqueue.State{workqueue.StateFailed}})[0], failed)
	equal(t, "cancelled", len(list(jobs.Filter{State: []workqueue.State{workqueue.StateCancelled}})), 0)
	equal(t, "live", len(list(jobs.Filter{State: []workqueue.State{workqueue.StateReady, workqueue.StateWaiting,
		workqueue.StateScheduled, workqueue.StateInProgress}})), 5)
	err := f.try(func(tx workqueue.Tx) error {
		_, err := f.client.List(f.Context(), tx, jobs.Filter{State: []workqueue.State{"late"}})
		return err
	})
	if !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("error %v, want ErrInvalid", err)
	}
	err = f.try(func(tx workqueue.Tx) error { _, err := f.client.Get(f.Context(), tx, uuid.New()); return err })
	if !errors.Is(err, workqueue.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
}

// The record of a job's attempts is deleted with the job, however it ended.
func TestADeletedJobTakesItsAttemptsAlong(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*fixture, uuid.UUID){
		"failed": func(f *fixture, id uuid.UUID) { f.fail(id) },
		"done at the second attempt": func(f *fixture, id uuid.UUID) {
			_, err := f.queue().Retry(f.Context(), f.claim(id), []uuid.UUID{id}, "no good")
			f.ok(err)
			f.ack(id)
		},
		"done at the first attempt after it was redriven": func(f *fixture, id uuid.UUID) {
			f.fail(id)
			f.redrive(id)
			f.ack(id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newJobs(t, anyKind)
			id := f.enqueue(part{}).ID
			end(f, id)
			equal(t, "attempts on record", ask[int](f, "SELECT count(*) FROM "+f.table+"_attempt"), 1)
			f.exec("DELETE FROM "+f.table+" WHERE id = $1", id)
			equal(t, "attempts on record of a deleted job", ask[int](f, "SELECT count(*) FROM "+f.table+"_attempt"), 0)
		})
	}
}
