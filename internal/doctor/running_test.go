package doctor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// hanging runs a relay of two places, both open to any topic, whose handler of the topic hang returns only when its
// context is cancelled or, if it ignores that, when stop is called. Stop ends the relay as a kill of its process does:
// nothing is settled.
func (w *ward) hanging(ignores bool) (stop func()) {
	w.Helper()
	relay, err := outbox.NewRelay(w.Pool, w.box, outbox.RelayOptions{WorkerOptions: workqueue.WorkerOptions{
		Concurrency: 2, TopicConcurrency: 2, Lease: 5 * time.Second, ShutdownTimeout: time.Millisecond,
		RunsWithin: 2 * time.Second}})
	must(w, err)
	released := make(chan struct{})
	relay.Handle("hang", func(ctx context.Context, _ *outbox.Delivery) error {
		if ignores {
			<-released
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
	relay.Handle("quick", func(context.Context, *outbox.Delivery) error { return nil })
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = relay.Run(ctx) // which says that handlers were still running
	}()
	stop = func() {
		cancel()
		<-done
	}
	w.Cleanup(func() {
		stop()
		close(released)
	})
	return stop
}

// inProgress waits until so many messages are in progress, and makes the others wait for ten minutes.
func (w *ward) inProgress(n int) {
	w.Helper()
	w.becomes("messages in progress", func() bool {
		return ask[int](w, "SELECT count(*) FROM outbox WHERE status = 1") == n
	})
	w.exec("UPDATE outbox SET due_at = now() - interval '10 minutes' WHERE status = 0")
}

// Rows whose handlers hang are found, with since when they run. They hold the places of the relay, so what waits for a
// place is not told to get more places, but to end these.
func TestHandlersThatDoNotReturn(t *testing.T) {
	w := newWard(t)
	ids := w.enqueue(messages("hang", 2)...)
	w.enqueue(messages("quick", 3)...)
	w.hanging(false)
	w.inProgress(2)
	w.becomes("two rows that run for too long", func() bool {
		return w.with("not-returning", []string{"2 rows"}) != nil
	})
	owner := ask[string](w, "SELECT owner_token::text FROM outbox WHERE id = $1", ids[0])
	w.becomes("the relay says that it runs", func() bool { return ask[int](w, "SELECT count(*) FROM process") == 1 })
	f := w.finds("not-returning", []string{"outbox: 2 rows run for longer than they should", `topic "hang"`,
		ids[0].String(), ids[1].String(), "process", "txwork cancel outbox"})
	for _, e := range f.Evidence {
		ran, _ := e.Get("running_seconds").(float64)
		if e.Get("within_seconds") != 2.0 || ran < 2 || ran > 600 || e.Get("topic") != "hang" ||
			e.Get("process") != strings.ReplaceAll(owner[:13], "-", "") ||
			e.Get("host") == nil || e.Get("serves") == nil {
			t.Errorf("evidence %+v", e)
		}
	}
	b := w.finds("backlog", []string{"outbox: 3 ready rows"})
	if strings.Contains(b.Remedy.Do, "concurrency") || !strings.Contains(b.Remedy.Do, "2 of 2 rows in progress run "+
		"for longer than they should") {
		t.Errorf("the remedy of the backlog is %q", b.Remedy.Do)
	}
	_, err := w.queue().Cancel(t.Context(), ids, "hangs")
	must(t, err)
	w.becomes("an empty outbox", func() bool { return ask[int](w, "SELECT count(*) FROM outbox WHERE status < 2") == 0 })
	w.goneAfter(f, byWord, nil)
	w.goneNow("backlog", nil)
}

// A handler that ignores its context keeps its place until its process ends. Maintenance then ends the cancelled row.
func TestAHandlerThatIgnoresItsCancel(t *testing.T) {
	w := newWard(t)
	ids := w.enqueue(messages("hang", 1)...)
	kill := w.hanging(true)
	w.becomes("a row that runs for too long", func() bool { return w.with("not-returning", nil) != nil })
	_, err := w.queue().Cancel(t.Context(), ids, "hangs")
	must(t, err)
	f := w.finds("not-returning", []string{ids[0].String(), "The rows have been cancelled", "restart its process"})
	if len(f.Remedy.Commands) > 0 || f.Evidence[0].Get("cancelled") != "yes" {
		t.Errorf("%+v", f)
	}
	kill()
	w.becomes("the end of the row", func() bool {
		w.exec("SELECT outbox_reap_expired()")
		return ask[int](w, "SELECT count(*) FROM outbox WHERE status = 3 AND cancelled_at IS NOT NULL") == 1
	})
	w.goneAfter(f, byWord, nil)
}

// Rows that run long, but not longer than they may, may be what a backlog waits for. It says so, since nobody knows yet
// whether they hang.
func TestABacklogBehindRowsThatRunLong(t *testing.T) {
	w := newWard(t)
	w.enqueueJobs("mail", 4)
	queue, owner := w.jobs.Table().On(w.Pool), workqueue.NewOwnerToken()
	claimed, err := queue.Claim(t.Context(), owner, time.Hour, 2, "mail", int16(2))
	must(t, err)
	w.exec("UPDATE jobs SET due_at = now() - interval '10 minutes'")
	if f := w.finds("backlog", []string{"queue mail"}); !strings.Contains(f.Remedy.Do, "raise the concurrency") {
		t.Errorf("%q", f.Remedy.Do)
	}
	_, err = queue.Extend(t.Context(), owner, ids(claimed), time.Hour)
	must(t, err)
	runs := func(since string) {
		w.exec(`UPDATE jobs SET headers = headers || jsonb_build_object('txwork-running', (extract(epoch FROM now() - $1::interval)
			* 1000000)::bigint || '  ' || owner_token) WHERE status = 1`, since)
	}
	runs("20 minutes")
	w.goneNow("not-returning", nil)
	if f := w.finds("backlog", []string{"queue mail", "longest_running_seconds 12"}); !strings.Contains(f.Remedy.Do,
		"2 of 2 rows in progress have run for longer than 5 min") || !strings.Contains(f.Remedy.Do, "if their handlers hang") {
		t.Errorf("%q", f.Remedy.Do)
	}
	runs("61 minutes") // nobody said how long they may run
	w.finds("not-returning", []string{"jobs: 2 rows run", "queue mail"})
	w.exec("UPDATE jobs SET locked_until = now() - interval '30 seconds' WHERE status = 1")
	w.goneNow("not-returning", nil) // whose lease expired: its process is gone
}

// A row that lost its lease twice while it was alone is told before it is a dead letter, and as one.
func TestARowThatEndsItsProcess(t *testing.T) {
	w := newWard(t)
	id := w.enqueue(outbox.Message{Topic: "render", Payload: []byte("{}"), MaxAttempts: 3})[0]
	dies := func() {
		t.Helper()
		w.exec("UPDATE outbox SET due_at = now() WHERE status = 0")
		_, err := w.queue().Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 10)
		must(t, err)
		w.exec("UPDATE outbox SET locked_until = now() - interval '1 second' WHERE status = 1")
		w.exec("SELECT outbox_reap_expired()")
	}
	dies()
	w.goneNow("ends-process", nil)
	dies()
	f := w.finds("ends-process", []string{id.String(), `topic "render"`, "lost its lease twice alone", "tried again",
		"txwork cancel outbox"})
	if f.Severity != doctor.Critical {
		t.Errorf("%+v", f)
	}
	for _, odd := range []string{"yesterday", "", "2020-01-01T00:00:00Z"} {
		w.exec(`UPDATE outbox SET headers = headers || jsonb_build_object('txwork-lost-at', $1::text)`, odd)
		w.goneNow("ends-process", nil) // long ago, or whatever a producer wrote
	}
	dies()
	w.finds("ends-process", []string{id.String(), "3 times alone", "dead letter", "txwork show outbox"})
	w.goneNow("poison", nil)
	_, err := w.queue().Redrive(t.Context(), []uuid.UUID{id}, "")
	must(t, err)
	dies()
	dies()
	f = w.finds("ends-process", []string{"twice alone"})
	_, err = w.queue().Cancel(t.Context(), []uuid.UUID{id}, "ends its process")
	must(t, err)
	w.goneAfter(f, byWord, nil)
}

// Rows that lost leases long ago do not hide that there are others behind them.
func TestManyRowsThatLostLeasesLongAgo(t *testing.T) {
	w := newWard(t)
	const lost = "INSERT INTO outbox (topic, payload, headers) SELECT 't', '', jsonb_build_object('txwork-lost-alone', " +
		"$1::text, 'txwork-lost-at', $2::text) FROM generate_series(1, $3)"
	w.exec(lost, "9", "2020-01-01T00:00:00Z", 999)
	w.goneNow("ends-process", nil)
	w.exec(lost, "9", "2020-01-01T00:00:00Z", 1)
	w.exec(lost, "2", time.Now().UTC().Format(time.RFC3339), 1)
	w.unseen("ends-process", "outbox", "more rows have lost leases alone than are looked at")
}

// Dead letters whose processes ended are no failures of a handler, and are not told as such.
func TestDeadLettersOfLostLeases(t *testing.T) {
	w := newWard(t)
	for range 6 {
		w.enqueue(outbox.Message{Topic: "a", Payload: []byte("{}"), MaxAttempts: 1})
		_, err := w.queue().Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 10)
		must(t, err)
		w.exec("UPDATE outbox SET locked_until = now() - interval '1 second' WHERE status = 1")
		w.exec("SELECT outbox_reap_expired()")
	}
	f := w.finds("poison", []string{"6 dead letters", "lease expired at", "No handler reported these failures"})
	w.mends(f, nil)
}
