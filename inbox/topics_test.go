package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
)

// topics lists the topics as text: consumer, topic, whether it is paused, and how many messages are aside.
func (f *fixture) topics() (texts []string) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) error {
		list, err := f.box.Topics(f.Context(), tx)
		for _, i := range list {
			texts = append(texts, fmt.Sprint(i.Lane, " ", i.Topic, " ", i.Paused, " ", i.Aside))
		}
		return err
	})
	return texts
}

// receiveMany stores messages of a topic for a consumer. Without a topic they have that of their source.
func (f *fixture) receiveMany(consumer, topic string, n int) {
	f.Helper()
	f.exec("INSERT INTO "+f.table+" (consumer, source, message_id, topic, body_hash, payload) "+
		"SELECT $1, 'shop', $2 || ' ' || i, nullif($2, ''), sha256(''), '' FROM generate_series(1, $3::int) AS i",
		consumer, topic, n)
}

// claimed claims all messages of a consumer by the SQL function, and says how many there were of each topic.
func (f *fixture) claimed(consumer string) (texts []string) {
	f.Helper()
	rows, err := f.Pool.Query(f.Context(), "SELECT coalesce(topic, source) || ' ' || count(*) FROM "+f.table+
		"_fetch('00000000-002a-8000-8000-000000000000', '60 s', 100, $1) WHERE entry = 'row' "+
		"GROUP BY coalesce(topic, source) ORDER BY 1",
		consumer)
	if err == nil {
		texts, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		f.Fatal(err)
	}
	return texts
}

// The topics of a consumer are its own: a pause stops the messages of one consumer, and each counts those that it has
// aside.
func TestAPauseIsOfOneConsumer(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	for _, consumer := range []string{"audit", "billing"} {
		f.receiveMany(consumer, "orders", 5)
		f.receiveMany(consumer, "", 3)
	}
	f.receiveMany("billing", "orders of today", 2)
	pause := func(consumer, topic string) {
		f.inTx(func(tx workqueue.Tx) error { return f.box.Pause(f.Context(), tx, consumer, topic) })
	}
	resume := func(consumer, topic string) {
		f.inTx(func(tx workqueue.Tx) error { return f.box.Resume(f.Context(), tx, consumer, topic) })
	}
	is := func(what string, got, want []string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	pause("billing", "orders")
	is("claimed of billing", f.claimed("billing"), []string{"orders of today 2", "shop 3"})
	pause("audit", "shop")
	is("claimed of audit", f.claimed("audit"), []string{"orders 5"})
	is("topics", f.topics(), []string{"audit shop true 3", "billing orders true 5"})
	pause("audit", "orders")
	f.exec("INSERT INTO " + f.table + " (consumer, source, message_id, topic, body_hash, payload) " +
		"VALUES ('audit', 'shop', 'later', 'orders', sha256(''), '')")
	is("claimed of audit", f.claimed("audit"), nil)
	is("topics", f.topics(), []string{"audit orders true 1", "audit shop true 3", "billing orders true 5"})
	resume("audit", "orders")
	is("claimed of audit", f.claimed("audit"), []string{"orders 1"})
	is("claimed of billing", f.claimed("billing"), nil)
	resume("audit", "shop")
	is("claimed of audit", f.claimed("audit"), []string{"shop 3"})
	resume("billing", "orders")
	is("claimed of billing", f.claimed("billing"), []string{"orders 5"})
	is("topics", f.topics(), nil)
}

// A worker obeys the pauses of its consumer, and no others.
func TestAWorkerObeysThePausesOfItsConsumer(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	for _, k := range []topics.Key{{Lane: "audit", Topic: "orders"}, {Lane: "billing", Topic: "news"}} {
		f.inTx(func(tx workqueue.Tx) error { return f.box.Pause(f.Context(), tx, k.Lane, k.Topic) })
	}
	f.receiveMany("billing", "orders", 20)
	f.receiveMany("billing", "news", 20)
	var mu sync.Mutex
	got := map[string]int{}
	handle := func(_ context.Context, _ pgx.Tx, m *inbox.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		got[m.Topic]++
		return nil
	}
	delivered := func(topic string) int { mu.Lock(); defer mu.Unlock(); return got[topic] }
	f.worker(workqueue.WorkerOptions{}, func(w *inbox.Worker) { w.HandleAll(handle) })
	f.until("orders", func() bool { return delivered("orders") == 20 })
	f.until("news are aside", func() bool {
		return slices.Equal(f.topics(), []string{"audit orders true 0",
			"billing news true 20"})
	})
	if n := delivered("news"); n > 0 {
		t.Errorf("%d messages of the paused topic were delivered", n)
	}
	f.inTx(func(tx workqueue.Tx) error { return f.box.Resume(f.Context(), tx, "billing", "news") })
	f.until("news", func() bool { return delivered("news") == 20 })
}

// A claim is of the topics of one consumer, since what is paused is the consumer's own.
func TestAClaimIsOfTheTopicsOfOneConsumer(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	f.receiveMany("a", "orders", 1)
	claim := func(consumers ...string) error {
		_, err := f.Pool.Exec(t.Context(), "SELECT FROM "+f.table+"_claim_by_topic(gen_random_uuid(), "+
			"interval '1 minute', 10, array_fill('-infinity'::timestamptz, ARRAY[cardinality($1::text[])]), "+
			"array_fill('00000000-0000-0000-0000-000000000000'::uuid, ARRAY[cardinality($1::text[])]), $1, "+
			"'{}', NULL, NULL, NULL, NULL, false)", consumers)
		return err
	}
	for _, same := range [][]string{{"a"}, {"a", "a"}} {
		if err := claim(same...); err != nil {
			t.Errorf("a claim of %q: %v", same, err)
		}
	}
	if err := claim("a", "b"); err == nil || !strings.Contains(err.Error(), "consumer must be the same") {
		t.Errorf("a claim of two consumers: %v", err)
	}
}

// A destination that a consumer cannot reach has its messages of that topic rest, and none of another consumer. No
// attempt is used up, and one message probes the destination.
func TestADestinationOfOneConsumerIsUnavailable(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	for _, consumer := range []string{"audit", "billing"} {
		f.receiveMany(consumer, "orders", 20)
	}
	var away atomic.Bool
	var tries atomic.Int64
	away.Store(true)
	for _, consumer := range []string{"audit", "billing"} {
		o := workqueue.WorkerOptions{Concurrency: 2, PollInterval: 50 * time.Millisecond}
		f.workerOn(f.Pool, inbox.WorkerOptions{Consumer: consumer, WorkerOptions: o}, func(w *inbox.Worker) {
			w.HandleAll(func(ctx context.Context, tx pgx.Tx, m *inbox.Delivery) error {
				if consumer == "billing" && away.Load() {
					tries.Add(1)
					return workqueue.Unavailable(errors.New("connection refused"))
				}
				return effect(consumer+" "+m.MessageID)(ctx, tx)
			})
		})
	}
	const of = " FROM inbox_topic WHERE consumer = 'billing' AND topic = 'orders' AND unavailable_since IS NOT NULL"
	f.until("it rests", func() bool { return f.count("SELECT count(*)"+of) == 1 })
	f.until("the other consumer goes on", func() bool {
		return f.count("SELECT count(*) FROM inbox WHERE consumer = 'audit' AND status = 2") == 20
	})
	f.until("nothing is in hand", func() bool { return f.count("SELECT count(*) FROM inbox WHERE status = 1") == 0 })
	before := tries.Load()
	f.until("the rest has grown", func() bool {
		f.exec("UPDATE inbox_topic SET rests_until = clock_timestamp() WHERE probe IS NULL AND unavailable_since IS NOT NULL")
		return f.count("SELECT count(*)"+of+" AND rest > '4 s'") == 1
	})
	if n := tries.Load() - before; n > 5 { // after rests of 0.5, 1, 2 and 4 s, and one that was under way
		t.Errorf("%d probes", n)
	}
	if n := f.count("SELECT count(*) FROM inbox WHERE consumer = 'billing' AND attempts > status"); n > 0 {
		t.Errorf("%d messages have used up an attempt", n)
	}
	away.Store(false)
	f.until("everything is processed", func() bool {
		f.exec("UPDATE inbox_topic SET rests_until = clock_timestamp() WHERE probe IS NULL AND unavailable_since IS NOT NULL")
		return f.count("SELECT count(*) FROM inbox WHERE consumer = 'billing' AND status = 2 AND attempts = 1") == 20
	})
	if n := f.count("SELECT count(*) FROM effects"); n != 40 {
		t.Errorf("%d effects of 40 messages", n)
	}
}
