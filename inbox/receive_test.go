package inbox_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

func answers(results []inbox.Result) (answers []inbox.Answer) {
	for _, r := range results {
		answers = append(answers, r.Answer)
	}
	return answers
}

func TestReceiveInTheCallersTransaction(t *testing.T) {
	t.Parallel()
	for _, w := range apptx.Libraries() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			f := newInbox(t)
			tx, end := w.Begin(f, f.DB)
			if _, err := f.box.Receive(t.Context(), tx, message("1", "lost")); err != nil {
				t.Fatal(err)
			}
			end(false)
			if n := f.rows(); n != 0 {
				t.Fatalf("%d rows are left of a transaction that was rolled back", n)
			}

			tx, end = w.Begin(f, f.DB)
			got, err := f.box.ReceiveMany(t.Context(), tx,
				message("2", "b"), message("1", "a"), message("2", "b"), message("1", "something else"))
			if err != nil {
				t.Fatal(err)
			}
			end(true)
			want := []inbox.Answer{inbox.Stored, inbox.Stored, inbox.Duplicate, inbox.HashMismatch}
			if !slices.Equal(answers(got), want) || got[2].ID != got[0].ID || got[3].ID != got[1].ID {
				t.Errorf("got %+v, want %v", got, want)
			}
			if a, b := f.row(got[1].ID), f.row(got[0].ID); string(a.Payload) != "a" || string(b.Payload) != "b" {
				t.Errorf("payloads are %q and %q", a.Payload, b.Payload)
			}
		})
	}
}

func TestWhatIsStored(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	full := message("full", "body")
	full.Topic, full.Headers, full.MaxAttempts = "order.placed", map[string]string{"a": "b"}, 3
	full.ScheduledAt, full.BodyHash = time.Now().Add(time.Hour).Truncate(time.Microsecond), hash("as it was signed")
	got := f.receive(full, inbox.Message{Consumer: "billing", Source: "shop", MessageID: "bare"})

	r := f.row(got[0].ID)
	if *r.Topic != "order.placed" || !maps.Equal(r.Headers, full.Headers) || !slices.Equal(r.Hash, full.BodyHash) ||
		!r.Due.Equal(full.ScheduledAt) {
		t.Errorf("got %+v", r)
	}
	if n := f.count("SELECT max_attempts FROM "+f.table+" WHERE id = $1", got[0].ID); n != 3 {
		t.Errorf("max attempts is %d", n)
	}
	r = f.row(got[1].ID)
	if *r.Topic != "shop" || !r.HasPayload || len(r.Payload) != 0 || !slices.Equal(r.Hash, hash("")) {
		t.Errorf("got %+v, want the source as topic, and an empty payload with its hash", r)
	}
}

// A duplicate does not change the stored message, whatever its state.
func TestADuplicateTouchesNothing(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	for name, c := range map[string]struct {
		state  string
		status workqueue.Status
	}{
		"ready": {"attempts = 2, due_at = now() + '1 hour'", workqueue.Ready},
		"in progress": {"status = 1, attempts = 1, locked_until = now() + '1 hour', owner_token = gen_random_uuid()",
			workqueue.InProgress},
		"done":        {"status = 2, attempts = 1, completed_at = now()", workqueue.Done},
		"dead letter": {"status = 3, attempts = 1, completed_at = now(), failed_at = now()", workqueue.Failed},
	} {
		first := f.receive(message(name, "first"))[0]
		f.exec("UPDATE "+f.table+" SET "+c.state+" WHERE id = $1", first.ID)
		before := f.version(first.ID)
		other := message(name, "other")
		other.ScheduledAt, other.MaxAttempts, other.Topic = time.Now().Add(time.Minute), 1, "other"
		want := []inbox.Result{
			{Answer: inbox.Duplicate, ID: first.ID, Status: c.status},
			{Answer: inbox.HashMismatch, ID: first.ID, Status: c.status},
		}
		if got := f.receive(message(name, "first"), other); !slices.Equal(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		if after := f.version(first.ID); after != before {
			t.Errorf("%s: the row was\n%s\nand is\n%s", name, before, after)
		}
	}
}

// version returns a row with its physical position and transaction id, which change whenever the row is written.
func (f *fixture) version(id uuid.UUID) (v string) {
	f.Helper()
	err := f.Pool.QueryRow(f.Context(), "SELECT concat_ws(' ', t.ctid, t.xmin, t) FROM "+f.table+" AS t WHERE id = $1",
		id).Scan(&v)
	if err != nil {
		f.Fatal(err)
	}
	return v
}

func TestAMessageThatProcessRanIsADuplicate(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	k := key("1")
	k.Body = []byte("a")
	ran := f.process(k)
	f.process(key("2")) // says nothing of its body
	got := f.receive(message("1", "a"), message("1", "b"), message("2", "b"))
	want := []inbox.Answer{inbox.Duplicate, inbox.HashMismatch, inbox.Duplicate}
	if !slices.Equal(answers(got), want) || got[0].ID != ran.ID || got[0].Status != workqueue.Done {
		t.Errorf("got %+v, want %v", got, want)
	}
}

func TestManyMessagesInOneCall(t *testing.T) {
	t.Parallel()
	f := newInbox(t, func(o *inbox.Options) { o.MaxPayload = 10 << 20 })
	msgs := make([]inbox.Message, workqueue.MaxBatch+10)
	for i := range msgs {
		msgs[i] = message(fmt.Sprint(i), "")
	}
	large := strings.Repeat("x", 9<<20)
	msgs[0].Payload, msgs[1].Payload = []byte(large), []byte(large)
	msgs[len(msgs)-1] = msgs[5]
	got := f.receive(msgs...)
	if got[len(msgs)-1].Answer != inbox.Duplicate || got[len(msgs)-1].ID != got[5].ID || f.rows() != len(msgs)-1 {
		t.Errorf("%d rows, the last is %+v", f.rows(), got[len(msgs)-1])
	}
	// They are claimed in the order of the call, which is not that of their keys.
	ids := make([]uuid.UUID, len(got)-1)
	for i := range ids {
		ids[i] = got[i].ID
	}
	if !slices.IsSortedFunc(ids, func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) }) {
		t.Error("the ids do not grow in the order of the call")
	}
	if none := f.receive(); len(none) != 0 {
		t.Errorf("no messages: got %+v", none)
	}
}

// Redeliveries arrive in any order, so two calls with the same messages in different orders must not deadlock.
func TestReceiveInAnyOrderDoesNotDeadlock(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			msgs := make([]inbox.Message, 200)
			for n := range msgs {
				msgs[n] = message(fmt.Sprint((n*(2*i+1))%200), "")
			}
			if i%2 == 1 {
				slices.Reverse(msgs)
			}
			f.receive(msgs...)
		})
	}
	all.Wait()
	if n := f.rows(); n != 200 {
		t.Errorf("%d rows, want 200", n)
	}
}

// If the transaction that wrote the message first is rolled back, the message must not be lost.
func TestReceiveWaitsForTheTransactionThatHoldsTheKey(t *testing.T) {
	t.Parallel()
	for name, commit := range map[string]bool{"commit": true, "rollback": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newInbox(t)
			tx, end := apptx.Pgx(f, f.DB)
			f.expectBegin(tx, key("1"), inbox.Processed)
			second := make(chan inbox.Result, 1)
			go func() { second <- f.receive(message("1", ""))[0] }()
			f.until("the receiver waits", func() bool { return pgtest.SomebodyWaits(t, f.Pool, f.table) })
			end(commit)
			want := inbox.Stored
			if commit {
				want = inbox.Duplicate
			}
			if got := receive(t, second); got.Answer != want {
				t.Errorf("got %v, want %v", got.Answer, want)
			}
		})
	}
}
