package security_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
)

// The worker's role pauses and resumes a topic of a table of the application's own, and its claims set rows aside. The
// roles that may not do that see what is paused.
func TestTopicsOfATableOfOnesOwn(t *testing.T) {
	f := newFixture(t)
	f.in(f.as("producer"), f.writeLetters) // two rows, one of which is a step of a join
	producer, worker := f.as("producer"), f.as("worker")
	key := topics.Key{Topic: "text"}
	pause := func(pool *pgxpool.Pool) error {
		return f.try(pool, func(ctx context.Context, tx workqueue.Tx) error {
			_, err := topics.Pause(ctx, tx, f.own, key)
			return err
		})
	}
	claim := func() int {
		t.Helper()
		rows, err := f.own.On(worker).Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 10)
		must(t, err)
		return len(rows)
	}

	f.isRefused(forbidden, "a pause by a producer", pause(producer))
	f.isRefused(forbidden, "a pause by a viewer", pause(f.as("viewer")))
	for _, statement := range []string{"INSERT INTO letters_topic (topic, paused) VALUES ('text', true)",
		"SELECT letters_resume('text')", "SELECT letters_topic_policies()",
		"INSERT INTO letters (address, text, aside) VALUES ('a', 'text', true)"} {
		f.refuses(producer, forbidden, statement)
	}
	must(t, pause(worker))
	if n := claim(); n != 0 {
		t.Errorf("claimed %d rows of a paused topic", n)
	}
	var list []topics.Info
	f.in(f.as("viewer"), func(ctx context.Context, tx workqueue.Tx) (err error) {
		list, err = topics.List(ctx, tx, f.own)
		return err
	})
	if len(list) != 1 || list[0].Key != key || !list[0].Paused || list[0].Aside != 2 {
		t.Errorf("the viewer sees the topics %+v, want %q with two rows aside", list, key.Topic)
	}
	f.in(worker, func(ctx context.Context, tx workqueue.Tx) error {
		_, err := topics.Resume(ctx, tx, f.own, key)
		return err
	})
	if n := claim(); n != 2 {
		t.Errorf("claimed %d rows after the resume, want 2", n)
	}
}
