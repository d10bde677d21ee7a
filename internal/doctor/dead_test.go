package doctor_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

func ids(rows []workqueue.Row) []uuid.UUID {
	all := make([]uuid.UUID, len(rows))
	for i, r := range rows {
		all[i] = r.ID
	}
	return all
}

// The error is the one that a relay records.
func TestATopicWithoutAHandler(t *testing.T) {
	w := newWard(t)
	w.enqueue(messages("order.placed", 3)...)
	w.relays("other", func() bool {
		return ask[int](w, "SELECT count(*) FROM outbox WHERE last_error IS NOT NULL AND status = 0") == 3
	})
	f := w.finds("unknown-handler", []string{`no handler is registered for topic "order.placed"`, "3 rows"})
	w.exec("UPDATE outbox SET due_at = now()")
	w.relays("order.placed", func() bool { return ask[int](w, "SELECT count(*) FROM outbox WHERE status <> 2") == 0 })
	w.goneAfter(f, byWord, nil)
}

func TestAKindWithoutAHandler(t *testing.T) {
	w := newWard(t)
	w.enqueueJobs("mail", 2)
	w.exec(`UPDATE jobs SET attempts = 1, due_at = now() + interval '1 minute', last_error = 'unknown kind: no handler is registered for "letter"'`)
	w.finds("unknown-handler", []string{`kind "letter"`, "2 rows"})
}

type parcel struct{}

func (parcel) Kind() string { return "parcel" }

func done[T jobs.Args](context.Context, *jobs.Job[T]) error { return nil }

// A job of a kind that each worker leaves to others costs no attempt, and is due again after some seconds, for ever.
func TestAKindThatIsLeftToOthers(t *testing.T) {
	w := newWard(t)
	w.enqueueJobs("mail", 2)
	works := func(known bool, until string) {
		registry := jobs.NewRegistry()
		jobs.Register(registry, done[parcel], jobs.KindOptions[parcel]{})
		if known {
			jobs.Register(registry, done[letter], jobs.KindOptions[letter]{})
		}
		worker, err := jobs.NewWorker(w.Pool, w.jobs, jobs.WorkerOptions{Registry: registry, Unknown: jobs.LeaveUnknown,
			Queues: []jobs.QueueOptions{{Name: "mail"}}})
		must(t, err)
		w.exec("UPDATE jobs SET due_at = now()")
		w.while(worker.Run, func() bool { return ask[bool](w, until) })
	}
	works(false, "SELECT bool_and(status = 0 AND due_at > now() + interval '1 s') FROM jobs")
	w.goneNow("unknown-handler", nil) // another worker may take them
	w.exec("UPDATE jobs SET last_error = regexp_replace(last_error, 'since .*', 'since ' || " +
		"to_char(now() AT TIME ZONE 'UTC' - interval '28 minutes', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'))")
	f := w.finds("unknown-handler", []string{`kind "letter": 2 rows left to workers that have one, for up to 28 min`})
	works(true, "SELECT bool_and(status = 2) FROM jobs")
	w.goneAfter(f, byWord, nil)
}

// The finding stays however long the rows have been due, and its remedy fits the state that they are in.
func TestATopicWithoutAHandlerInEachState(t *testing.T) {
	w := newWard(t)
	all := w.enqueue(messages("order.placed", 3)...)
	const unhandled = `no handler is registered for topic "order.placed"`
	says := func(state string, redrives bool) {
		t.Helper()
		f := w.finds("unknown-handler", []string{unhandled + ": " + state})
		if redrives != (len(f.Remedy.Commands) == 1) {
			t.Errorf("%s: the remedy is %+v", state, f.Remedy)
		}
	}
	w.exec("UPDATE outbox SET attempts = 1, last_error = $1, due_at = now() + interval '1 minute'", unhandled)
	says("3 rows being retried", false)
	w.exec("UPDATE outbox SET due_at = now() - interval '10 minutes'")
	says("3 rows being retried", false)
	owner := workqueue.NewOwnerToken()
	_, err := w.queue().Claim(t.Context(), owner, time.Hour, 3)
	must(t, err)
	says("3 rows being retried", false)
	_, err = w.queue().Fail(t.Context(), owner, all[:1], unhandled)
	must(t, err)
	says("2 rows being retried, 1 row failed within an hour", true)
	_, err = w.queue().Fail(t.Context(), owner, all[1:], unhandled)
	must(t, err)
	says("3 rows failed within an hour", true)
}

func TestPoison(t *testing.T) {
	w := newWard(t)
	others := append(w.enqueue(messages("ship", 2)...), w.enqueue(messages("charge", 1)...)...)
	all := w.enqueue(messages("charge", 7)...)
	for i, id := range append(all, others...) {
		text := "card %d is declined\nby the bank"
		if id == others[2] { // of the same topic
			text = "bank %d cannot be reached"
		}
		w.fail(fmt.Sprintf(text, i), id)
		w.exec("UPDATE outbox SET locked_until = now() WHERE status = 1")
		w.exec("SELECT outbox_reap_expired(); UPDATE outbox SET due_at = now() WHERE status = 0")
	}
	w.goneNow("unknown-handler", nil)
	f := w.finds("poison", []string{`topic "charge"`, "7 dead letters", "card … is declined"})
	w.mends(f, nil)
	if n := ask[int](w, "SELECT count(*) FROM outbox WHERE status = 0 AND topic = 'charge'"); n != 7 {
		t.Errorf("%d messages are ready", n)
	}
	if n := ask[int](w, "SELECT count(*) FROM outbox WHERE status = 3 AND id = ANY ($1)", others); n != len(others) {
		t.Errorf("%d dead letters of another topic or with another error are left, want %d", n, len(others))
	}
}
