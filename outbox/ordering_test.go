package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

func perKey(onFailure keyed.Policy) func(*outbox.Options) {
	return func(o *outbox.Options) {
		o.Ordering, o.OnFailure = outbox.PerKey, onFailure
		o.Retry = workqueue.Retry{Growth: workqueue.Constant}
	}
}

func withKey(key, payload string) outbox.Message {
	return outbox.Message{Topic: "a", Key: key, Payload: []byte(payload)}
}

// journal collects what was delivered, by key.
type journal struct {
	mu   sync.Mutex
	keys map[string][]string
}

func (j *journal) write(m *outbox.Delivery) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.keys == nil {
		j.keys = map[string][]string{}
	}
	j.keys[m.Key] = append(j.keys[m.Key], string(m.Payload))
}

func (j *journal) of(key string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.keys[key])
}

func TestPerKeyIsCommitOrder(t *testing.T) {
	t.Parallel()
	for _, w := range apptx.Libraries() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			f := newOutbox(t, perKey(keyed.Block))
			var j journal
			var want []string
			var msgs []outbox.Message
			for i := range 30 {
				want = append(want, fmt.Sprint(i))
				msgs = append(msgs, withKey("k", want[i]), withKey("", "free"), withKey(fmt.Sprint("other ", i%3), "x"))
			}
			for chunk := range slices.Chunk(msgs, 9) {
				tx, end := w.Begin(f, f.DB)
				if _, err := f.box.EnqueueMany(t.Context(), tx, chunk...); err != nil {
					t.Fatal(err)
				}
				end(true)
			}
			f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
				failed := map[uuid.UUID]bool{}
				var mu sync.Mutex
				r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
					mu.Lock()
					again := !failed[m.ID] && m.Key == "k" && m.Payload[0]%2 == 0
					failed[m.ID] = true
					mu.Unlock()
					if again {
						return errors.New("the first attempt fails")
					}
					j.write(m)
					return nil
				})
			})
			f.until("all are delivered", func() bool {
				return f.count("SELECT count(*) FROM "+f.table+
					" WHERE status = 2") == len(msgs)
			})
			if got := j.of("k"); !slices.Equal(got, want) {
				t.Errorf("delivered %v", got)
			}
			if n := len(j.of("")); n != 30 {
				t.Errorf("delivered %d messages without a key", n)
			}
		})
	}
}

func TestOnFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		onFailure keyed.Policy
		then      map[string][]string // what is delivered for the key, by what is then done with the failed message
	}{
		"block": {keyed.Block, map[string][]string{"redrive": {"1", "2", "3"}, "skip": {"2", "3"}, "nothing": nil}},
		"park":  {keyed.Park, map[string][]string{"redrive": {"1", "2", "3"}, "nothing": nil}},
		"skip":  {keyed.Skip, map[string][]string{"nothing": {"2", "3"}}},
	} {
		for action, want := range c.then {
			t.Run(name+"/"+action, func(t *testing.T) {
				t.Parallel()
				f := newOutbox(t, perKey(c.onFailure))
				ids := f.enqueue(withKey("k", "1"), withKey("k", "2"), withKey("other", "x"), withKey("k", "3"))
				var j journal
				var closed sync.Mutex
				fails := true
				f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
					r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
						closed.Lock()
						defer closed.Unlock()
						if fails && string(m.Payload) == "1" {
							return workqueue.Permanent(errors.New("no"))
						}
						j.write(m)
						return nil
					})
				})
				f.until("the first has failed", func() bool { return f.row(ids[0]).Status == workqueue.Failed })
				f.until("the other key is delivered", func() bool { return len(j.of("other")) == 1 })
				if c.onFailure == keyed.Park { // parking happens some time after the failure
					f.until("those behind it are parked",
						func() bool { return f.row(ids[3]).Status == workqueue.Failed })
				}
				closed.Lock()
				fails = false
				closed.Unlock()
				f.inTx(func(tx pgx.Tx) (err error) {
					switch action {
					case "redrive":
						all := ids
						if c.onFailure == keyed.Block {
							all = ids[:1]
						}
						_, err = f.box.Table().In(workqueue.Pgx(tx)).Redrive(t.Context(), all, "")
					case "skip":
						_, err = f.box.Unblock(t.Context(), workqueue.Pgx(tx), ids[0])
					}
					return err
				})
				f.until(fmt.Sprintf("%v are delivered", want), func() bool { return len(j.of("k")) >= len(want) })
				if got := j.of("k"); !slices.Equal(got, want) {
					t.Errorf("delivered %v, want %v", got, want)
				}
			})
		}
	}
}

func TestOrderingOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for _, o := range []outbox.Options{
		{Ordering: 7}, {Ordering: outbox.PerKey, OnFailure: 9}, {OnFailure: keyed.Skip},
	} {
		if _, err := outbox.Open(o); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A test that drains in a transaction and rolls it back sees all deliveries: also later messages of a key, and the
// continuation of a join.
func TestDrainInATransactionDeliversWhatItsSettlesLetThrough(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, perKey(keyed.Block))
	tx, err := f.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := f.box.EnqueueMany(t.Context(), workqueue.Pgx(tx), withKey("k", "1"), withKey("k", "2"),
		withKey("k", "3")); err != nil {
		t.Fatal(err)
	}
	end := outbox.Message{Topic: "a", Key: "k", Payload: []byte("end")}
	if _, err := f.box.StartJoin(t.Context(), workqueue.Pgx(tx),
		outbox.Join{Steps: []outbox.Message{{Topic: "a", Payload: []byte("step")}}, OnComplete: &end}); err != nil {
		t.Fatal(err)
	}
	relay, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delivered := map[string]int{}
	relay.Handle("a", func(_ context.Context, m *outbox.Delivery) error {
		delivered[string(m.Payload)] = len(delivered)
		return nil
	})
	drain, err := relay.DrainIn(tx)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the join's continuation waits for its key, and a sweep releases it
		if _, err := drain.Process(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(delivered) != 5 || delivered["1"] > delivered["2"] || delivered["2"] > delivered["3"] {
		t.Errorf("delivered %v, want all 5, and 1, 2, 3 in their order", delivered)
	}
}

// The guide's query for a blocked key lists the message that blocks it before those behind it.
func TestTheQueryForABlockedKey(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/outbox.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(guide), "why a key is blocked")
	_, text, _ = strings.Cut(text, "```sql\n")
	query, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("the guide has no such query")
	}
	f := newOutbox(t, perKey(keyed.Block))
	ids := f.enqueue(withKey("k", "blocks"), withKey("k", "waits"), withKey("other", "runs"))
	f.exec("UPDATE "+f.table+" SET status = 3, attempts = 1, completed_at = now(), failed_at = now() WHERE id = $1",
		ids[0])
	rows, err := f.Pool.Query(t.Context(), strings.ReplaceAll(query, "txwork.outbox", f.table))
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		ID     uuid.UUID
		Status int16
	}
	got, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (v row, err error) {
		return v, r.Scan(&v.ID, &v.Status, nil, nil, nil, nil) // nil skips a column
	})
	if want := []row{{ids[0], 3}, {ids[1], 0}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
