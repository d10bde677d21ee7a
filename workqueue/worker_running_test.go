package workqueue_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
)

// running returns since when a row runs, and within how many seconds it should end. Neither is known of a row whose
// lease was not renewed.
func (r *rig) running(id uuid.UUID) (since *time.Time, within *float64) {
	r.Helper()
	query := fmt.Sprintf("SELECT %s, %s FROM notes AS r WHERE id = $1", sqltext.RunningSince("r"),
		sqltext.RunningWithin("r", "7"))
	if err := r.Eyes.QueryRow(r.Context(), query, id).Scan(&since, &within); err != nil {
		r.Fatal(err)
	}
	return since, within
}

// headersOf returns the headers as the database has them; empty for none.
func (r *rig) headersOf(id uuid.UUID) string {
	return ask[string](r, "SELECT coalesce(headers::text, '') FROM notes WHERE id = $1", id)
}

// Rows that end before their lease is renewed are written no more than ever.
func TestWhatIsNotRenewedHasNoRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	// A listener that has just connected renews at once.
	r.start(workqueue.WorkerOptions{Lease: time.Hour, NoListen: true},
		func(context.Context, *noteClaim) error { return nil })
	id := r.insert("short")[0]
	r.awaitStatus(workqueue.Done, id)
	if headers := r.headersOf(id); strings.Contains(headers, "txwork-running") {
		t.Errorf("the headers are %s", headers)
	}
}

// The first renewal of a claim records since when the row runs, and no later one changes that.
func TestARenewalRecordsSinceWhenARowRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	started, release := make(chan struct{}), make(chan error)
	r.start(workqueue.WorkerOptions{Lease: pgtest.Lease, RunsWithin: 90 * time.Second}, func(context.Context,
		*noteClaim) error {
		started <- struct{}{}
		return <-release
	})
	before := r.now()
	id := r.insert("long")[0]
	receive(t, started, "the handler")
	after := r.now()
	r.awaitRenewals(id, 1)
	first, headers := r.record(id, before, after, 90)
	r.awaitRenewals(id, 3)
	if again := r.headersOf(id); again != headers {
		t.Errorf("a later renewal changed %s to %s", headers, again)
	}

	// The next attempt has a record of its own, and until it is renewed it has none.
	release <- fmt.Errorf("fails")
	receive(t, started, "the second attempt")
	since, _ := r.running(id)
	if since != nil && !since.After(first) {
		t.Errorf("the second attempt runs since %v, when the first began", since)
	}
	r.awaitRenewals(id, 2)
	if again, _ := r.record(id, after, r.now(), 90); !again.After(first) {
		t.Errorf("the second attempt runs since %v, the first did since %v", again, first)
	}
	release <- nil
	r.awaitStatus(workqueue.Done, id)
	if since, _ := r.running(id); since != nil {
		t.Errorf("a row that is done runs since %v", since)
	}
	r.updatesInPlace(2) // a settle, and a retry, which changes due_at
}

// record checks the record of a row in progress and returns it.
func (r *rig) record(id uuid.UUID, before, after time.Time, seconds float64) (time.Time, string) {
	r.Helper()
	since, within := r.running(id)
	if since == nil || since.Before(before) || since.After(after) || within == nil || *within != seconds {
		r.Fatalf("runs since %v, within %v, claimed from %v to %v, headers %s", since, within, before, after,
			r.headersOf(id))
	}
	return *since, r.headersOf(id)
}

// updatesInPlace checks that every update of the table was heap-only, except so many.
func (r *rig) updatesInPlace(except int64) {
	r.Helper()
	const of = " FROM pg_stat_user_tables WHERE relid = 'notes'::regclass"
	r.eventually("the statistics of all sessions", func() bool {
		return ask[bool](r, "SELECT n_tup_upd - n_tup_hot_upd >= $1 AND n_tup_hot_upd >= 6"+of, except)
	})
	if n := ask[int64](r, "SELECT n_tup_upd - n_tup_hot_upd"+of); n != except {
		r.Errorf("%d updates were not heap-only, want %d", n, except)
	}
}

// A handler may say itself how long its row may run, when it has found out.
func TestAHandlerSaysHowLongItMayRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	says, said := make(chan time.Duration), make(chan struct{})
	r.start(workqueue.WorkerOptions{Lease: pgtest.Lease, HandlerTimeout: time.Hour}, func(_ context.Context,
		c *noteClaim) error {
		for d := range says {
			c.RunsWithin(d)
			said <- struct{}{}
		}
		return nil
	})
	before := r.now()
	id := r.insert("a")[0]
	r.awaitRenewals(id, 2)
	first, _ := r.record(id, before, r.now(), (2 * time.Hour).Seconds())
	for _, d := range []time.Duration{3 * time.Minute, time.Minute} {
		says <- d
		receive(t, said, "the handler")
		r.awaitRenewals(id, 2)
		if since, _ := r.record(id, before, r.now(), d.Seconds()); !since.Equal(first) {
			t.Errorf("a new bound changed since when it runs: %v, was %v", since, first)
		}
	}
	says <- -1
	receive(t, said, "the handler")
	r.awaitRenewals(id, 2)
	if since, within := r.running(id); since == nil || within != nil {
		t.Errorf("since %v, within %v: want no bound", since, within)
	}
	close(says)
	r.awaitStatus(workqueue.Done, id)
}

// Whoever renews by the function, or by a method of Queue, may have claimed with another lease. So the row has run
// since its first renewal at least, and never since before its claim.
func TestRenewalsByHandRecordNoMoreThanTheyKnow(t *testing.T) {
	t.Parallel()
	for name, extend := range map[string]func(*rig, uuid.UUID, uuid.UUID){
		"SQL": func(r *rig, token, id uuid.UUID) {
			r.exec("SELECT notes_extend($1, ARRAY[$2::uuid], '2 h')", token, id)
		},
		"Queue": func(r *rig, token, id uuid.UUID) {
			if _, err := r.Queue.Extend(r.Context(), token, []uuid.UUID{id}, 2*time.Hour); err != nil {
				r.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			id, token := r.insert("a")[0], workqueue.NewOwnerToken()
			r.exec("SELECT notes_fetch($1, '60 s', 1)", token)
			if since, _ := r.running(id); since != nil {
				t.Errorf("runs since %v before any renewal", since)
			}
			before := r.now()
			extend(r, token, id)
			first, headers := r.record(id, before, r.now(), 7)
			extend(r, token, id)
			if again := r.headersOf(id); again != headers {
				t.Errorf("the second renewal changed %s to %s", headers, again)
			}

			// A retry, a snooze, a lost lease and a redrive: none of them shows the record of the attempt before.
			stale := func(how string, sql string, args ...any) {
				t.Helper()
				r.exec(sql, args...)
				r.exec("UPDATE notes SET due_at = now() WHERE id = $1", id)
				token = workqueue.NewOwnerToken()
				r.exec("SELECT notes_fetch($1, '60 s', 1)", token)
				if since, _ := r.running(id); since != nil || r.row(id).Status != workqueue.InProgress {
					t.Errorf("%s: runs since %v, headers %s", how, since, r.headersOf(id))
				}
				extend(r, token, id)
				if since, _ := r.running(id); since == nil || !since.After(first) {
					t.Errorf("%s: runs since %v, and the attempt before did since %v", how, since, first)
				}
			}
			stale("a retry", "SELECT notes_retry($1, ARRAY[$2::uuid], '0')", token, id)
			const lose = "UPDATE notes SET locked_until = now() - interval '1 second'; SELECT notes_reap_expired()"
			stale("a lost lease", lose)
			r.exec("SELECT notes_fail($1, ARRAY[$2::uuid], 'e')", token, id)
			stale("a redrive", "SELECT id FROM notes_redrive(ARRAY[$1::uuid])", id)
			r.exec(lose)
			if headers := r.headersOf(id); strings.Contains(headers, "txwork-running") {
				t.Errorf("after a lost lease the headers are %s", headers)
			}
		})
	}
}

// Everybody may write headers. None keeps a lease from being renewed, or fails the reader, or is shown as a record that
// it is not.
func TestOddHeadersAndRenewals(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	for _, headers := range []string{`null`, `[1]`, `"text"`, `7`, `{}`, `{"txwork-running": {"a": 1}}`,
		`{"txwork-running": "9999999999999999 9999999999999999 TOKEN"}`, `{"txwork-running": "17 x TOKEN"}`,
		`{"txwork-running": "99999999999999999999 1 TOKEN"}`, `{"txwork-running": "17 1 00000000-0000-0000-0000-000000000000"}`,
	} {
		token := workqueue.NewOwnerToken()
		id := r.insert("a")[0]
		r.exec("UPDATE notes SET headers = $2 WHERE id = $1", id, strings.ReplaceAll(headers, "TOKEN", token.String()))
		r.exec("SELECT notes_fetch($1, '60 s', 1)", token)
		r.running(id)
		r.exec("SELECT notes_extend($1, ARRAY[$2::uuid], '2 h')", token, id)
		if row := r.row(id); !row.LockedUntil.After(r.now().Add(time.Hour)) {
			t.Errorf("%s: the lease ends at %v", headers, row.LockedUntil)
		}
		since, _ := r.running(id)
		known := strings.HasPrefix(headers, "{") && !strings.Contains(headers, "99999999999999999999")
		if known != (since != nil) { // whoever knows the token of a claim beforehand may hide since when it runs
			t.Errorf("%s: runs since %v", headers, since)
		}
		if !strings.HasPrefix(headers, "{") && r.headersOf(id) != headers {
			t.Errorf("%s was changed to %s", headers, r.headersOf(id))
		}
		r.exec("SELECT notes_ack($1, ARRAY[$2::uuid])", token, id)
	}
}

func TestHowLongRowsMayRunByDefault(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]time.Duration{
		0: time.Hour, -1: time.Hour, time.Second: 61 * time.Second, time.Minute: 2 * time.Minute,
		time.Hour: 2 * time.Hour,
	} {
		if got := workqueue.RunsWithin(timeout); got != want {
			t.Errorf("with a timeout of %v: %v, want %v", timeout, got, want)
		}
	}
}

// The process that holds a row which runs for longer than it should logs that once.
func TestTheProcessOfARowThatDoesNotReturnLogsIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	release := make(chan struct{})
	r.start(workqueue.WorkerOptions{Lease: pgtest.Lease, RunsWithin: time.Millisecond}, func(context.Context,
		*noteClaim) error {
		<-release
		return nil
	})
	id := r.insert("a")[0]
	r.awaitRenewals(id, 4)
	close(release)
	r.awaitStatus(workqueue.Done, id)
	const line = "handlers run for longer than they should"
	log := r.Logs.String()
	if n := strings.Count(log, line); n != 1 {
		t.Fatalf("it is logged %d times:\n%s", n, log)
	}
	_, rest, _ := strings.Cut(log, line)
	process := strings.ReplaceAll(r.row(id).Token.String()[:13], "-", "")
	if said, _, _ := strings.Cut(rest, "\n"); !strings.Contains(said, id.String()) ||
		!strings.Contains(said, "process="+process) {
		t.Errorf("%s lacks the row %v or its process %s", said, id, process)
	}
}
