package outbox_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// While a relay runs, a topic is paused whose rows are in every state. What runs ends; what fails, becomes due or is
// redriven during the pause waits for its end; nothing is lost.
func TestAPauseOfATopicWithRowsInEveryState(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	message := func(payload string) outbox.Message { return outbox.Message{Topic: "sick", Payload: []byte(payload)} }
	dead := f.enqueue(message("dead"))
	q, owner := f.box.Table().On(f.Pool), workqueue.NewOwnerToken()
	if rows, err := q.Claim(t.Context(), owner, time.Minute, 1); err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	if _, err := q.Fail(t.Context(), owner, dead, "no"); err != nil {
		t.Fatal(err)
	}

	var got deliveries
	release := make(chan struct{})
	f.relay(workqueue.WorkerOptions{Concurrency: 8}, func(r *outbox.Relay) {
		r.HandleAll(func(ctx context.Context, m *outbox.Delivery) error {
			text := string(m.Payload)
			if m.Attempt == 1 && (text == "ends" || text == "fails") {
				<-release
			}
			if m.Attempt == 1 && text == "fails" {
				return workqueue.RetryNow(errors.New("not yet"))
			}
			return got.handle(ctx, m)
		})
	})
	first := f.enqueue(message("ends"), message("fails"))
	f.until("two rows run", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+" WHERE status = 1") == 2
	})
	f.pause("sick")
	rest(700 * time.Millisecond)
	later := message("scheduled")
	later.ScheduledAt = time.Now().Add(time.Second).Truncate(time.Microsecond)
	scheduled := f.enqueue(later)
	if ids, err := q.Redrive(t.Context(), dead, ""); err != nil || len(ids) != 1 {
		t.Fatal(ids, err)
	}
	close(release)
	f.until("what ran, has failed, was scheduled or redriven to wait", func() bool {
		return f.row(first[0]).Status == workqueue.Done && f.count("SELECT count(*) FROM "+f.table+
			" WHERE aside AND waiting AND status = 0 AND id = ANY ($1)", slices.Concat(first, scheduled, dead)) == 3
	})
	f.enqueue(outbox.Message{Topic: "well", Payload: []byte("1")})
	f.until("another topic", func() bool { return len(got.of("well")) == 1 })
	if texts := got.of("sick"); !slices.Equal(texts, []string{"ends"}) {
		t.Errorf("delivered during the pause were %q", texts)
	}
	if n := f.count("SELECT count(*) FROM "+f.table+" WHERE id = $1 AND due_at = $2", scheduled[0],
		later.ScheduledAt); n != 1 {
		t.Error("the pause has moved a due time")
	}
	f.resume("sick")
	f.until("the rest", func() bool { return len(got.of("sick")) == 4 })
	texts := got.of("sick")
	slices.Sort(texts)
	if !slices.Equal(texts, []string{"dead", "ends", "fails", "scheduled"}) {
		t.Errorf("delivered were %q", texts)
	}
}

// A dead letter that blocks its key is redriven while its topic is paused: it holds the key, and the rows behind it
// follow in their order after the resume.
func TestARedriveOfAnOrderedRowIntoAPausedTopic(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	var order deliveries
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(ctx context.Context, m *outbox.Delivery) error {
			if m.Headers["txwork-redriven-at"] == "" && string(m.Payload) == "1" {
				return workqueue.Permanent(errors.New("no"))
			}
			m.Topic = "" // one list for all topics
			return order.handle(ctx, m)
		})
	})
	message := func(topic, payload string) outbox.Message {
		return outbox.Message{Topic: topic, Key: "k", Payload: []byte(payload)}
	}
	ids := f.enqueue(message("sick", "1"), message("well", "2"), message("sick", "3"))
	f.until("the first row to be a dead letter", func() bool { return f.row(ids[0]).Status == workqueue.Failed })
	f.pause("sick")
	rest(700 * time.Millisecond)
	if changed, err := f.box.Table().On(f.Pool).Redrive(t.Context(), ids[:1], ""); err != nil || len(changed) != 1 {
		t.Fatal(changed, err)
	}
	f.until("the redriven row to be aside", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+" WHERE aside AND waiting AND id = $1", ids[0]) == 1
	})
	rest(300 * time.Millisecond)
	if texts := order.of(""); len(texts) > 0 {
		t.Errorf("delivered during the pause were %q", texts)
	}
	f.resume("sick")
	f.until("all rows of the key", func() bool { return len(order.of("")) == 3 })
	if texts := order.of(""); !slices.Equal(texts, numbers(3)) {
		t.Errorf("the order of the key was %q", texts)
	}
}
