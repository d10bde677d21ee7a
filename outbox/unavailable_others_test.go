package outbox_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// restsLong has a topic rest for an hour at a time, as no slow test takes.
func (f *fixture) restsLong(topics ...string) {
	f.Helper()
	f.exec("INSERT INTO "+f.table+"_topic (topic, first_rest, longest_rest) SELECT t, '1 hour', '1 hour' "+
		"FROM unnest($1::text[]) AS t ON CONFLICT (topic) DO UPDATE SET first_rest = '1 hour', longest_rest = '1 hour'",
		topics)
}

// beginsIn runs work in a transaction that stays open until end is called.
func (f *fixture) beginsIn(work func(tx pgx.Tx)) (end func(commits bool)) {
	f.Helper()
	tx, err := f.Pool.Begin(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	work(tx)
	return func(commits bool) {
		f.Helper()
		if !commits {
			err = tx.Rollback(f.Context())
		} else {
			err = tx.Commit(f.Context())
		}
		if err != nil {
			f.Error(err)
		}
	}
}

// soon is a context for what must not wait for others.
func (f *fixture) soon() context.Context {
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	f.Cleanup(cancel)
	return ctx
}

// sickness makes a topic rest that has so many rows.
func (f *fixture) sickness(topic string, rows int) {
	f.Helper()
	f.sendMany(topic, rows)
	f.restsLong(topic)
	hand := f.claim(rows)
	f.unavailable(hand, hand.ids...)
	if _, rests := f.resting(topic); !rests {
		f.Fatalf("topic %s does not rest", topic)
	}
}

// A batch that still gathers when its topic begins to rest does not begin, and its messages keep their attempts.
func TestABatchStopsWhenItsTopicRests(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.restsLong("sick")
	f.sendMany("sick", 1)
	hand := f.claim(1)
	f.sendMany("sick", 2)
	var calls atomic.Int64
	f.relay(workqueue.WorkerOptions{Concurrency: 2}, func(r *outbox.Relay) {
		r.HandleAllBatch(workqueue.BatchOptions{Limit: 100, Bytes: 1000, Linger: time.Hour}, func(_ context.Context,
			b []*outbox.Delivery) ([]error, error) {
			if slices.ContainsFunc(b, func(m *outbox.Delivery) bool { return m.Topic == "sick" }) {
				calls.Add(1)
			}
			return nil, nil
		})
	})
	running := func() int { return f.count("SELECT count(*) FROM " + f.table + " WHERE status = 1") }
	f.until("the batch gathers", func() bool { return running() == 3 })
	f.unavailable(hand, hand.ids...)
	f.until("the relay knows of the rest", func() bool {
		f.sendMany("sick", 1)
		return f.count("SELECT count(*) FROM "+f.table+" WHERE aside AND id <> $1", hand.ids[0]) > 0
	})
	f.enqueue(outbox.Message{Topic: "fills", Payload: make([]byte, 2000)}) // has the batch begin
	f.until("the messages are back", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+" WHERE topic = 'sick' AND status <> 0") == 0
	})
	if n := f.count("SELECT max(attempts) FROM " + f.table + " WHERE topic = 'sick'"); n > 0 || calls.Load() > 0 {
		t.Errorf("%d calls, %d attempts", calls.Load(), n)
	}
}

// A call of a batch that a shutdown has cut short says nothing about the destination of the messages that are left.
func TestABatchThatAShutdownEndsMakesNoTopicRest(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.restsLong("well")
	f.sendMany("well", 4)
	r, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{WorkerOptions: workqueue.WorkerOptions{
		ShutdownTimeout: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	calls := 0
	r.HandleBatch("well", workqueue.BatchOptions{Limit: 4, Linger: time.Hour}, func(ctx context.Context,
		b []*outbox.Delivery) ([]error, error) {
		if calls++; calls == 1 {
			return nil, errors.New("one of them is refused")
		}
		stop()
		<-ctx.Done()
		return nil, workqueue.Unavailable(errors.New(away))
	})
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
	if _, rests := f.resting("well"); rests || calls != 2 {
		t.Errorf("rests: %v, after %d calls", rests, calls)
	}
	if n := f.count("SELECT count(*) FROM " + f.table + " WHERE status = 0 AND attempts = 0"); n != 4 {
		t.Errorf("%d messages are back with their attempts, want 4", n)
	}
}

// A settle does not wait for another one that makes the same topic rest and has not committed. If that one rolls back,
// the next makes the topic rest.
func TestASettleDoesNotWaitForAnotherThatMakesATopicRest(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"a topic that nobody knows": false, "a topic with a state": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newOutbox(t)
			if known {
				f.restsLong("sick")
			}
			f.sendMany("sick", 3)
			hand := f.claim(3)
			end := f.beginsIn(func(tx pgx.Tx) {
				_, err := f.box.Table().In(workqueue.Pgx(tx)).Unavailable(t.Context(), hand.token, hand.ids[:1], away)
				if err != nil {
					t.Fatal(err)
				}
			})
			settle := func(id uuid.UUID) {
				t.Helper()
				changed, err := f.box.Table().On(f.Pool).Unavailable(f.soon(), hand.token, []uuid.UUID{id}, away)
				if err != nil || len(changed) != 1 {
					t.Fatalf("settled %d rows, %v", len(changed), err)
				}
			}
			settle(hand.ids[1])
			if r := f.row(hand.ids[1]); r.Status != workqueue.Ready || r.Attempts != 0 {
				t.Errorf("put back as %+v", r)
			}
			end(false)
			if _, rests := f.resting("sick"); rests {
				t.Error("the topic rests after a rollback")
			}
			settle(hand.ids[2])
			if _, rests := f.resting("sick"); !rests {
				t.Error("the topic does not rest")
			}
		})
	}
}

// A claim that opens a topic serves it beside the other topics with rows aside, whoever claims.
func TestAClaimThatOpensATopicServesOthersToo(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sendMany("other", 3)
	f.pause("other")
	f.claim(1) // sets them aside
	f.sickness("sick", 3)
	f.rested("sick")
	probe := f.claim(1)
	if _, err := f.box.Table().On(f.Pool).Ack(t.Context(), probe.token, probe.ids); err != nil {
		t.Fatal(err)
	}
	f.resume("other")
	got := map[string]int{}
	for _, id := range f.claim(10).ids {
		got[f.topicOf(id)]++
	}
	if got["sick"] != 2 || got["other"] != 3 {
		t.Errorf("claimed %v, want what is left of both topics", got)
	}
}

// A claim locks the state of the topics only that it opens or probes.
func TestAClaimLocksNoTopicThatItDoesNotProbe(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(*fixture) (locked int){
		"more topics than rows are wanted": func(*fixture) int { return 1 },
		"no row is due": func(f *fixture) int {
			f.exec("UPDATE " + f.table + " SET due_at = now() + interval '1 hour'")
			return 0
		},
		"there is no row": func(f *fixture) int { f.exec("DELETE FROM " + f.table); return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newOutbox(t)
			f.sickness("sick", 2)
			f.sickness("ill", 2)
			f.rested("sick")
			f.rested("ill")
			want := arrange(f)
			end := f.beginsIn(func(tx pgx.Tx) {
				q := f.box.Table().In(workqueue.Pgx(tx))
				if _, err := q.Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 1); err != nil {
					t.Fatal(err)
				}
			})
			var free int
			f.inTx(func(tx pgx.Tx) error {
				return tx.QueryRow(t.Context(), "SELECT count(*) FROM (SELECT FROM "+f.table+
					"_topic FOR UPDATE SKIP LOCKED) AS p").Scan(&free)
			})
			if free != 2-want {
				t.Errorf("%d topics are locked, want %d", 2-free, want)
			}
			end(true)
		})
	}
}
