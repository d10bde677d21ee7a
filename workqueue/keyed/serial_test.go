package keyed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// done and failed are the ways in which a claimed row can end as Done or Failed.
var done = map[string]func(r *rig, token uuid.UUID, ids []uuid.UUID){
	"ack": func(r *rig, token uuid.UUID, ids []uuid.UUID) {
		_, err := r.queue.Ack(context.Background(), token, ids)
		r.ok(err)
	},
	"SQL ack": func(r *rig, token uuid.UUID, ids []uuid.UUID) {
		r.exec("SELECT work_ack($1, $2)", token, ids)
	},
}

var failed = map[string]func(r *rig, token uuid.UUID, ids []uuid.UUID){
	"fail": func(r *rig, token uuid.UUID, ids []uuid.UUID) {
		_, err := r.queue.Fail(context.Background(), token, ids, "no")
		r.ok(err)
	},
	"SQL fail": func(r *rig, token uuid.UUID, ids []uuid.UUID) {
		r.exec("SELECT work_fail($1, $2, 'no')", token, ids)
	},
	"abandoned too often": func(r *rig, token uuid.UUID, ids []uuid.UUID) {
		r.exec("UPDATE work SET attempts = max_attempts WHERE id = ANY ($1)", ids)
		_, err := r.queue.Abandon(context.Background(), token, ids, 0, "no")
		r.ok(err)
	},
	"reaped too often": func(r *rig, token uuid.UUID, ids []uuid.UUID) {
		r.exec("UPDATE work SET attempts = max_attempts, owner_token = gen_random_uuid(), "+
			"locked_until = now() - interval '1 second' WHERE id = ANY ($1)", ids)
		_, err := r.queue.ReapExpired(context.Background(), 10)
		r.ok(err)
	},
}

func TestSerialKeyRunsOneAtATimeInOrder(t *testing.T) {
	t.Parallel()
	for _, deleteDone := range []bool{false, true} {
		for name, end := range done {
			t.Run(fmt.Sprintf("%s/delete=%v", name, deleteDone), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, func(s *workqueue.Spec) { s.DeleteDone = deleteDone })
				r.insert(row(1, serial("a")), row(2, serial("a")), row(10, serial("b")), row(100, nil))
				r.insert(row(3, serial("a")), row(11, serial("b")), row(101, nil))
				token, ids := r.expect(100, 101, 1, 10)
				r.expect()
				end(r, token, ids[2:3])
				token2, ids2 := r.expect(2)
				end(r, token, append(ids[:2], ids[3]))
				r.expect(11)
				end(r, token2, ids2)
				r.expect(3)
				r.sweep()
				if n := r.fold(); n != 0 {
					t.Errorf("a sweep let %d rows through", n)
				}
			})
		}
	}
}

func TestRetriesKeepTheirPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, serial("a")), row(2, serial("a")))
	token, ids := r.expect(1)
	_, err := r.queue.Abandon(t.Context(), token, ids, time.Hour, "later")
	r.ok(err)
	r.expect()
	r.exec("UPDATE work SET due_at = now() WHERE n = 1")
	token, ids = r.expect(1)
	_, err = r.queue.Snooze(t.Context(), token, ids, 0)
	r.ok(err)
	r.expect(1)
	r.exec("UPDATE work SET locked_until = now() - interval '1 second' WHERE status = 1")
	_, err = r.queue.ReapExpired(t.Context(), 10)
	r.ok(err)
	token, ids = r.expect(1)
	_, err = r.queue.Ack(t.Context(), token, ids)
	r.ok(err)
	r.expect(2)
}

func TestFailurePolicies(t *testing.T) {
	t.Parallel()
	for name, fail := range failed {
		for _, policy := range []keyed.Policy{keyed.Skip, keyed.Block, keyed.Park} {
			t.Run(fmt.Sprintf("%v/%s", policy, name), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				key := keyed.Ordered{Key: "a", OnFailure: policy}
				all := r.insert(row(1, key), row(2, key), row(3, key), row(50, serial("other")))
				token, ids := r.expect(1, 50)
				fail(r, token, ids[:1])
				all = append(all, r.insert(row(4, key))...)
				switch policy {
				case keyed.Skip:
					r.finish(2, 3, 4)
					r.redrive(all[0])
					r.finish(1)
				case keyed.Block:
					r.expect()
					r.redrive(all[0])
					r.finish(1, 2, 3, 4)
				case keyed.Park:
					r.expect()
					if n := ask[int](r, "SELECT count(*) FROM work WHERE status = 3 AND last_error = 'parked behind "+
						"'||$1::text", all[0]); n != 3 {
						t.Fatalf("%d rows are parked, want 3\n%s", n, r.dump())
					}
					r.redrive(all[4], all[2], all[1], all[0])
					r.finish(1, 2, 3, 4)
				}
			})
		}
	}
}

// finish claims and acks rows one after the other, and fails unless they come in this order.
func (r *rig) finish(want ...int) {
	r.Helper()
	for _, n := range want {
		token, ids := r.expect(n)
		done["ack"](r, token, ids)
	}
}

func (r *rig) redrive(ids ...uuid.UUID) {
	r.Helper()
	changed, err := r.queue.Redrive(context.Background(), ids, "")
	r.ok(err)
	if len(changed) != len(ids) {
		r.Fatalf("redrove %d of %d", len(changed), len(ids))
	}
}

func TestBlockedKeyGoesOnWhenItsDeadLetterIsGone(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(r *rig, id uuid.UUID){
		"skipped": func(r *rig, id uuid.UUID) {
			r.ok(pgx.BeginFunc(context.Background(), r.pool, func(tx pgx.Tx) error {
				ids, err := keyed.Unblock(context.Background(), workqueue.Pgx(tx), r.table, id)
				if len(ids) != 1 {
					r.Errorf("skipped %v", ids)
				}
				return err
			}))
		},
		"deleted": func(r *rig, id uuid.UUID) { r.exec("DELETE FROM work WHERE id = $1", id) },
		"purged": func(r *rig, id uuid.UUID) {
			r.exec("UPDATE work SET failed_at = failed_at - interval '1 day' WHERE id = $1", id)
			_, err := r.queue.PurgeFailed(context.Background(), time.Hour, 10)
			r.ok(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			key := keyed.Ordered{Key: "a", OnFailure: keyed.Block}
			ids := r.insert(row(1, key), row(2, key))
			token, _ := r.expect(1)
			failed["fail"](r, token, ids[:1])
			r.expect()
			remove(r, ids[0])
			r.expect(2)
		})
	}
}

func TestCancelledRowsObstructNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := keyed.Ordered{Key: "a", OnFailure: keyed.Block}
	ids := r.insert(row(1, key), row(2, key), row(3, key), row(4, key))
	_, err := r.queue.Cancel(t.Context(), ids[1:2], "") // one that waits
	r.ok(err)
	_, err = r.queue.Cancel(t.Context(), ids[:1], "") // the first
	r.ok(err)
	token, claimed := r.expect(3)
	_, err = r.queue.Cancel(t.Context(), claimed, "") // one in progress
	r.ok(err)
	_, err = r.queue.Abandon(t.Context(), token, claimed, 0, "context cancelled")
	r.ok(err)
	r.expect(4)
}

// The writers of a key take turns. Writers of other keys do not wait for them, and neither do settles.
func TestWritersOfAKeyTakeTurnsAndNobodyElseWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, serial("a")))
	token, ids := r.expect(1)
	first := r.begin()
	r.insertIn(first, row(2, serial("a")))
	second := make(chan []uuid.UUID, 1)
	go func() { second <- r.insert(row(3, serial("a"))) }()
	r.insert(row(10, serial("b")))
	done["ack"](r, token, ids) // while the key is being written
	r.eventually("the second writer of the key waits for the first", func() bool {
		return pgtest.SomebodyWaits(t, r.pool, r.table.Name())
	})
	r.ok(first.Commit(t.Context()))
	<-second
	token, ids = r.expect(2, 10)
	done["ack"](r, token, ids[:1])
	r.expect(3)
}

func TestRowsOfStricterTransactionsWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tx, err := r.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	r.ok(err)
	_, err = tx.Exec(t.Context(), "SELECT 1 FROM work") // takes the snapshot
	r.ok(err)
	r.insert(row(1, serial("a"))) // which does not see this one
	r.insertIn(tx, row(2, serial("a")))
	r.ok(tx.Commit(t.Context()))
	r.finish(1, 2)
}

// Two calls lock many keys in opposite orders at the same time.
func TestLockOrdersKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				rules := make([]keyed.Rule, 10)
				rows := make([]workqueue.NewRow, 10)
				for i, k := range rand.Perm(10) {
					rules[i] = serial(fmt.Sprint(k))
					rows[i] = row(k, rules[i])
				}
				err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
					if err := keyed.Lock(t.Context(), workqueue.Pgx(tx), r.table, rules...); err != nil {
						return err
					}
					_, err := r.table.Insert(t.Context(), workqueue.Pgx(tx), rows...)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// Writers commit, roll back or delay their commits, while workers fail and lose their leases.
func TestOrderOfEffectsIsThatOfCommits(t *testing.T) {
	t.Parallel()
	const keys, writers, each = 5, 4, 60
	r := newRig(t)
	r.exec("CREATE TABLE effects (n bigint, key text, at bigserial)")
	for range 3 {
		r.work(workqueue.WorkerOptions{Lease: pgtest.Lease, Concurrency: 8}, func(ctx context.Context,
			c *workqueue.Claim[body]) error {
			if rand.IntN(5) == 0 && c.Attempt < c.MaxAttempts {
				return errors.New("try again")
			}
			return c.Tx(ctx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO effects (n, key) VALUES ($1, $2)", c.Body.N, c.Body.Key)
				return err
			})
		})
	}
	var mu sync.Mutex
	committed := map[string][]int{}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				key := fmt.Sprint(rand.IntN(keys))
				n := w*each + i
				tx, err := r.pool.Begin(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				r.insertIn(tx, row(n, serial(key)))
				if rand.IntN(4) == 0 {
					pgtest.Pass(time.Duration(rand.IntN(10)) * time.Millisecond)
				}
				if rand.IntN(10) == 0 {
					tx.Rollback(t.Context())
					continue
				}
				mu.Lock() // this transaction still holds the key, so no other writer can commit in between
				committed[key] = append(committed[key], n)
				mu.Unlock()
				if err := tx.Commit(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	total := 0
	for _, ns := range committed {
		total += len(ns)
	}
	r.eventually(fmt.Sprintf("all %d rows", total), func() bool {
		return ask[int](r, "SELECT count(*) FROM work "+
			"WHERE status >= 2") == total
	})
	for key, want := range committed {
		got := ask[[]int](r, "SELECT array_agg(n ORDER BY at) FROM effects WHERE key = $1", key)
		if !slices.Equal(got, want) {
			t.Errorf("key %s:\neffects %v\ncommits %v", key, got, want)
		}
	}
}

// One call redrives dead letters of many keys, with the ids in any order. The test does not force marked places.
func TestRedrivenRowsRunInTheirOrder(t *testing.T) {
	t.Parallel()
	const keys = 700
	r := newRig(t, func(s *workqueue.Spec) { s.MaxAttempts = 1 })
	for first := 0; first < 3*keys; first += 350 {
		r.exec("INSERT INTO work (n, concurrency_key, key_limit, key_policy) SELECT i, 'k' || i % $3, 0, 0 FROM "+
			"generate_series($1::int, $2) AS i", first, first+349, keys)
	}
	var dead []uuid.UUID
	for range 3 {
		r.fold()
		token := workqueue.NewOwnerToken()
		rows, err := r.queue.Claim(context.Background(), token, time.Minute, 10*keys)
		r.ok(err)
		var ids []uuid.UUID
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
		if len(ids) != keys {
			t.Fatal(len(ids))
		}
		_, err = r.queue.Fail(t.Context(), token, ids, "no")
		r.ok(err)
		dead = append(dead, ids...)
	}
	slices.Reverse(dead)
	r.fold()
	// redriven one after the other, the last first, before the next fold
	for chunk := range slices.Chunk(dead, 350) {
		_, err := r.queue.Redrive(t.Context(), chunk, "somebody")
		r.ok(err)
	}
	r.fold()
	if n := ask[int](r, "SELECT count(*) FROM work WHERE NOT waiting AND completed_at IS NULL AND n >= $1",
		keys); n > 0 {
		t.Errorf("%d keys go on with a later row although their first waits", n)
	}
}
