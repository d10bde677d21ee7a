package log_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
)

func TestMessagesReachEverySubscriptionInOrder(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.append(f.Pool, "before")
	f.subscribe("billing")
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('audit', start => '-infinity')")
	want := numbered("m", 1, 25)
	f.append(f.Pool, want...)
	f.want("billing", f.drain("billing", 10), want...)
	f.want("audit", f.drain("audit", 7), append([]string{"before"}, want...)...)
	f.want("billing again", f.drain("billing", 10))
	f.append(f.Pool, "next")
	f.want("billing", f.drain("billing", 10), "next")
	f.want("audit", f.drain("audit", 10), "next")
}

// A transaction that is open holds nobody up, however many ticks are made meanwhile: its own messages come when it
// commits.
func TestALongTransactionHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	long, undone := f.begin(), f.begin()
	f.append(long, "long 1")
	f.append(undone, "undone")
	for _, round := range []string{"a", "b", "c"} {
		f.append(f.Pool, numbered(round, 1, 3)...)
		f.want("round "+round, f.drain("s", 2), numbered(round, 1, 3)...)
	}
	f.append(long, "long 2")
	f.append(f.Pool, "d")
	f.want("while it is open", f.drain("s", 10), "d")
	f.ok(undone.Rollback(f.Context()))
	f.ok(long.Commit(f.Context()))
	f.append(f.Pool, "e")
	f.want("when it has ended", f.drain("s", 10), "long 1", "long 2", "e")
}

// The sequence has not moved since the last tick, and there is news: a number that was drawn before is committed after.
func TestATickFindsNewsByTransaction(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	tx := f.begin()
	f.append(tx, "m")
	if _, stored := f.tick(); stored {
		t.Error("a tick was stored for a message that is not committed")
	}
	f.append(f.Pool, "other")
	if _, stored := f.tick(); !stored {
		t.Fatal("no tick was stored for a new message")
	}
	if _, stored := f.tick(); stored {
		t.Error("a tick was stored without news")
	}
	f.ok(tx.Commit(f.Context()))
	if _, stored := f.tick(); !stored {
		t.Error("no tick was stored for a message with an earlier number")
	}
	f.want("all", f.drain("s", 10), "m", "other")

	undone := f.begin()
	f.append(undone, "undone")
	f.ok(undone.Rollback(f.Context()))
	if _, stored := f.tick(); stored {
		t.Error("a tick was stored for what was rolled back")
	}
}

func TestATickIsATransactionOfItsOwn(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.append(f.Pool, "m")
	_, err := f.begin().Exec(f.Context(), "CALL "+f.name+"_tick()")
	f.refused("tick in a transaction", err, "2D000")

	wrote := f.begin()
	f.append(wrote, "mine")
	_, err = wrote.Exec(f.Context(), "SELECT "+f.name+"_tick_step()")
	f.refused("the step of a tick in a transaction that wrote", err, "55000")

	fixed, err := f.Pool.BeginTx(f.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	f.ok(err)
	_, err = fixed.Exec(f.Context(), "SELECT "+f.name+"_tick_step()")
	f.refused("the step of a tick in REPEATABLE READ", err, "55000")
	f.ok(fixed.Rollback(f.Context()))

	strict := pgtest.NewPool(t, f.DB, pgtest.WithPool(func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}))
	if value[int](f, f.Pool, "SELECT count(*) FROM "+f.name+"_tick") != 0 {
		t.Error("a refused tick was stored")
	}
	f.exec(strict, "CALL "+f.name+"_tick()")
	if value[int](f, f.Pool, "SELECT count(*) FROM "+f.name+"_tick") != 1 {
		t.Error("sessions whose default is SERIALIZABLE and READ ONLY make no ticks")
	}
}

// A session that is in a tick keeps others waiting, not reading old snapshots: each tick has seen all that the one
// before has.
func TestTicksAreSerialised(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	holder := f.begin()
	f.exec(holder, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f.name+" tick")
	ended := make(chan error, 1)
	go func() {
		_, err := f.Pool.Exec(context.WithoutCancel(f.Context()), "CALL "+f.name+"_tick()")
		ended <- err
	}()
	if !pgtest.Await(pgtest.Patience, func() bool {
		return f.waiting(f.name+" tick", 0)
	}) {
		t.Fatal("the second ticker does not wait")
	}
	f.append(f.Pool, "m") // after the second ticker has begun to wait
	f.ok(holder.Rollback(f.Context()))
	f.ok(<-ended)
	if n := value[int64](f, f.Pool, "SELECT (seen).seq FROM "+f.name+"_tick ORDER BY n DESC LIMIT 1"); n != 1 {
		t.Errorf("the newest tick has seen number %d, want 1: its snapshot is older than its lock", n)
	}
}

// waiting tells whether a session waits for an advisory lock.
func (f *fixture) waiting(lock string, seed int) bool {
	f.Helper()
	return value[bool](f, f.Pool, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
		AND (classid::bigint << 32 | objid::bigint) = hashtextextended($1, $2))`, lock, seed)
}

// Positions carry their snapshots, so any tick may be deleted, and all of them.
func TestTicksMayBeDeleted(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("behind")
	long := f.begin()
	f.append(long, "long")
	f.append(f.Pool, "a")
	f.tick()
	p := f.fetch("behind", 10)
	f.want("in hand", p.payloads(), "a")
	f.append(f.Pool, "b")
	f.tick()
	f.append(f.Pool, "c")
	newest, _ := f.tick()
	f.exec(f.Pool, "DELETE FROM "+f.name+"_tick WHERE n < $1", newest)
	f.settles("ended", "behind", p.token, p.upto)
	f.want("without the ticks between", f.drain("behind", 10), "b", "c")
	f.append(f.Pool, "d")
	f.tick()
	f.exec(f.Pool, "DELETE FROM "+f.name+"_tick")
	f.ok(long.Commit(f.Context()))
	f.append(f.Pool, "e")
	f.want("without ticks", f.drain("behind", 10), "long", "d", "e")
	f.append(f.Pool, "f")
	f.want("with a tick more", f.drain("behind", 10), "f")
	newest, _ = f.tick()
	f.exec(f.Pool, "DELETE FROM "+f.name+"_tick WHERE n = $1", newest)
	f.append(f.Pool, "g")
	f.want("without the newest tick, which the position has seen", f.drain("behind", 10), "g")
}

// Whatever the order in which transactions take ids and numbers, write, undo and end, and whenever ticks are made,
// deleted and read: each subscription gets exactly what was committed, once.
func TestWhateverTheOrderOfTransactions(t *testing.T) {
	t.Parallel()
	f := newLog(t, pgtest.WithPool(func(c *pgxpool.Config) { c.MaxConns = 12 }))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := world{fixture: f, random: rand.New(rand.NewPCG(seed, 1)), got: map[string][]string{}}
	f.subscribe("often")
	f.subscribe("seldom")
	for range pgtest.Size(400, 4000) {
		w.step()
	}
	for len(w.open) > 0 {
		w.end(0)
	}
	for _, s := range []string{"often", "seldom"} {
		w.got[s] = append(w.got[s], f.drain(s, 7)...)
		slices.Sort(w.got[s])
		slices.Sort(w.committed)
		f.want(s, w.got[s], w.committed...)
	}
}

// A world is some transactions that are open, and what has become of the others.
type world struct {
	*fixture
	random    *rand.Rand
	open      []*open
	n         int
	committed []string
	got       map[string][]string
}

type open struct {
	tx    pgx.Tx
	wrote []string
}

func (w *world) step() {
	w.Helper()
	switch n := w.random.IntN(20); {
	case n < 3 && len(w.open) < 6:
		w.open = append(w.open, &open{tx: w.begin()})
		if w.random.IntN(2) == 0 { // an id is taken, and a number drawn, long before the message is written
			w.exec(w.open[len(w.open)-1].tx, "SELECT pg_current_xact_id(), nextval('"+w.name+"_seq')")
		}
	case n < 10 && len(w.open) > 0:
		o := w.open[w.random.IntN(len(w.open))]
		w.write(o)
	case n < 13 && len(w.open) > 0:
		w.end(w.random.IntN(len(w.open)))
	case n < 16:
		w.n++
		w.committed = append(w.committed, strconv.Itoa(w.n))
		w.append(w.Pool, strconv.Itoa(w.n))
	case n < 18:
		w.tick()
	case n == 18:
		w.exec(w.Pool, "DELETE FROM "+w.DB.Schema+".outbox_log_tick WHERE random() < 0.3")
	default:
		w.got["often"] = append(w.got["often"], w.drain("often", 1+w.random.IntN(5))...)
	}
}

// write appends a message in a transaction, sometimes in a subtransaction that is undone.
func (w *world) write(o *open) {
	w.Helper()
	w.n++
	payload := strconv.Itoa(w.n)
	if w.random.IntN(3) > 0 {
		w.append(o.tx, payload)
		o.wrote = append(o.wrote, payload)
		return
	}
	sub, err := o.tx.Begin(w.Context())
	w.ok(err)
	w.append(sub, payload)
	if w.random.IntN(2) == 0 {
		w.ok(sub.Rollback(w.Context()))
		return
	}
	w.ok(sub.Commit(w.Context()))
	o.wrote = append(o.wrote, payload)
}

func (w *world) end(i int) {
	w.Helper()
	o := w.open[i]
	w.open = slices.Delete(w.open, i, i+1)
	if w.random.IntN(3) == 0 {
		w.ok(o.tx.Rollback(w.Context()))
		return
	}
	w.ok(o.tx.Commit(w.Context()))
	w.committed = append(w.committed, o.wrote...)
}

// The order of a key is the order in which its writers commit, since they take turns.
func TestWritersOfAKeyTakeTurns(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	first := f.begin()
	f.appendKey(first, "k", "1")
	ended := make(chan error, 1)
	go func() {
		_, err := f.Pool.Exec(context.WithoutCancel(f.Context()),
			"SELECT "+f.name+"_append('topic', '2'::bytea, 'k')")
		ended <- err
	}()
	if !pgtest.Await(pgtest.Patience, func() bool {
		return f.waiting(f.name+" k", 1)
	}) {
		t.Fatal("the second writer of the key does not wait")
	}
	f.want("before", f.drain("s", 10))
	f.appendKey(first, "k", "1b")
	f.ok(first.Commit(f.Context()))
	f.ok(<-ended)
	f.want("in order", f.drain("s", 10), "1", "1b", "2")
}

func TestOnlyTheTokenIsAsked(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "m")
	f.tick()
	p := f.fetch("s", 10)
	if got := f.settle("s", uuid.New(), p.upto); got != "lost" {
		t.Errorf("settle with a strange token: %s", got)
	}
	f.settles("ended", "s", p.token, p.upto)
}
