package gate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/gate"
)

func timed(t *testing.T, what string, f func()) time.Duration {
	start := time.Now()
	f()
	d := time.Since(start)
	t.Logf("%-60s %v", what, d)
	return d
}

// A1: application holds the head waiting row
func TestAttackAppHoldsHead(t *testing.T) {
	r := newRig(t)
	ids := r.insert(row(1, serial("k")), row(2, serial("k")), row(3, serial("other")))
	tok, _, got := r.claim()
	_ = got
	tx := r.begin()
	_, err := r.table.In(workqueue.Pgx(tx)).Cancel(t.Context(), ids[1:2], "x")
	r.ok(err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = r.queue.Ack(ctx, tok, ids[:1])
	t.Log("ack while the app holds the head:", err)
	// And a sweep on stranded
	ctx2, cancel2 := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel2()
	n, err := r.queue.Sweep(ctx2, 100)
	t.Log("sweep:", n, err)
}

// A2: lock exhaustion
func TestAttackLocks(t *testing.T) {
	r := newRig(t)
	t.Log("max locks", ask[string](r, "select current_setting('max_locks_per_transaction') || ' ' || current_setting('max_connections')|| ' ' || version()"))
	for _, n := range []int{5000, 10000} {
		gates := make([]*gate.Gate, n)
		rows := make([]workqueue.NewRow, n)
		for i := range gates {
			gates[i] = serial(fmt.Sprint("g", n, "-", i))
			rows[i] = row(i, gates[i])
		}
		err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
			if err := gate.Lock(t.Context(), workqueue.Pgx(tx), r.table, gates...); err != nil {
				return err
			}
			_, err := r.table.Insert(t.Context(), workqueue.Pgx(tx), rows...)
			return err
		})
		t.Log(n, "keys in one transaction:", err)
	}
}

// A3: 100,000 keys each with a dead letter in front and a waiting one behind
func TestAttackSweepBlocked(t *testing.T) {
	r := newRig(t)
	r.exec(`ALTER TABLE work DISABLE TRIGGER USER`)
	r.exec(`INSERT INTO work (n, gate_key, gate_limit, gate_policy, gate_seq, status, completed_at, failed_at) SELECT i, 'k' || i, 0, 1, nextval('work_gate_seq'), 3, now(), now() FROM generate_series(1, 100000) i`)
	r.exec(`INSERT INTO work (n, gate_key, gate_limit, gate_policy, gate_seq, waiting) SELECT i, 'k' || i, 0, 1, nextval('work_gate_seq'), true FROM generate_series(1, 100000) i`)
	r.exec(`ALTER TABLE work ENABLE TRIGGER USER`)
	for i := range 4 {
		timed(t, fmt.Sprint("sweep blocked ", i), func() {
			n, err := r.queue.Sweep(t.Context(), 1000)
			t.Log(n, err)
		})
	}
	r.exec(`ANALYZE work`)
	timed(t, "sweep blocked, analysed", func() {
		n, err := r.queue.Sweep(t.Context(), 1000)
		t.Log(n, err)
	})
}

// A4: plain SQL with missing columns
func TestAttackPlainSQL(t *testing.T) {
	r := newRig(t)
	_, err := r.pool.Exec(t.Context(), `INSERT INTO work (n, gate_key) VALUES (1, 'k')`)
	t.Log("no limit, free key:", err)
	r.insert(row(1, serial("k")))
	_, err = r.pool.Exec(t.Context(), `INSERT INTO work (n, gate_key) VALUES (2, 'k')`)
	t.Log("no limit, busy key:", err)
	_, err = r.pool.Exec(t.Context(), `INSERT INTO work (n, gate_key, gate_limit) VALUES (2, 'k', 0)`)
	t.Log("no policy, busy key:", err)
	t.Log("\n" + r.dump())
}

// A5 limit under repeatable read
func TestAttackRR(t *testing.T) {
	r := newRig(t)
	g := &gate.Gate{Key: "k", Limit: 2}
	var rows []workqueue.NewRow
	for i := range 10 {
		rows = append(rows, row(i, g))
	}
	r.insert(rows...)
	r.sweep()
	tok, _, ids := r.claim()
	r.exec("UPDATE work SET status=2, completed_at=now(), locked_until=null WHERE id = $1 AND false", ids[0])
	tx, err := r.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	r.ok(err)
	defer tx.Rollback(context.Background())
	// only 1 live in the snapshot of tx
	_, err = r.queue.Ack(t.Context(), tok, ids[:1]) // promotes one: 2 live
	r.ok(err)
	_ = tx
	t.Log(r.dump())
}

func TestAttackRRLimit(t *testing.T) {
	r := newRig(t)
	g := &gate.Gate{Key: "k", Limit: 2}
	r.insert(row(1, g), row(2, g))
	r.sweep()
	tok, _, ids := r.claim() // both run
	_, err := r.queue.Ack(t.Context(), tok, ids[1:])
	r.ok(err) // one live
	r.insert(row(3, g), row(4, g)) // wait
	tx, err := r.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	r.ok(err)
	defer tx.Rollback(context.Background())
	_, err = tx.Exec(t.Context(), "SELECT 1 FROM work LIMIT 1")
	r.ok(err)
	r.insert(row(5, g), row(6, g)) // not seen by tx
	r.exec(`UPDATE work SET due_at = due_at - interval '1 hour' WHERE n >= 5`)
	r.sweep() // lets 5 through
	_, err = r.table.In(workqueue.Pgx(tx)).Ack(t.Context(), tok, ids[:1])
	r.ok(err)
	r.ok(tx.Commit(t.Context()))
	t.Log("live of limit 2:", ask[int](r, "SELECT count(*) FROM work WHERE completed_at IS NULL AND NOT waiting"))
}

// A6 unlimited gate with rate: a sweep of 100k
func TestAttackUnlimited(t *testing.T) {
	r := newRig(t)
	r.exec(`INSERT INTO work (n, gate_key, gate_limit, gate_policy, gate_rate, gate_burst) SELECT i, 'k', 2147483647, 0, 1e6, 1000000 FROM generate_series(1, 100000) i`)
	timed(t, "sweep unlimited", func() { t.Log(r.queue.Sweep(t.Context(), 1000)) })
}

// A7 settle 1000 gated
func TestAttackSettle1000(t *testing.T) {
	for _, kind := range []string{"none", "serial, 1000 keys, one waiting each", "limited 1000 of one key, 1000 waiting", "limited 1000 of one key with rate, 3000 waiting", "limited 10 of 100 keys", "limited 10 of 100 keys with rate"} {
		r := newRig(t)
		switch kind {
		case "none":
			r.exec(`INSERT INTO work (n) SELECT i FROM generate_series(1, 1000) i`)
		case "serial, 1000 keys, one waiting each":
			r.exec(`INSERT INTO work (n, gate_key, gate_limit, gate_policy) SELECT i, 'k' || (i % 1000), 0, 0 FROM generate_series(1, 2000) i`)
		case "limited 1000 of one key, 1000 waiting":
			r.exec(`INSERT INTO work (n, gate_key, gate_limit, gate_policy) SELECT i, 'k', 1000, 0 FROM generate_series(1, 3000) i`)
		case "limited 1000 of one key with rate, 3000 waiting":
			r.exec(`INSERT INTO work (n, gate_key, gate_limit, gate_policy, gate_rate, gate_burst) SELECT i, 'k', 1000, 0, 100, 1000 FROM generate_series(1, 4000) i`)
		case "limited 10 of 100 keys":
			r.exec(`INSERT INTO work (n, gate_key, gate_limit, gate_policy) SELECT i, 'k' || (i % 100), 10, 0 FROM generate_series(1, 3000) i`)
		case "limited 10 of 100 keys with rate":
			r.exec(`INSERT INTO work (n, gate_key, gate_limit, gate_policy, gate_rate, gate_burst) SELECT i, 'k' || (i % 100), 10, 0, 1, 30 FROM generate_series(1, 3000) i`)
		}
		r.sweep()
		token := workqueue.NewOwnerToken()
		rows, err := r.queue.Claim(t.Context(), token, time.Minute, 1000)
		r.ok(err)
		for i := range rows {
			_ = i
		}
		ids := r.insert()
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
		timed(t, fmt.Sprintf("%s: ack of %d", kind, len(ids)), func() {
			_, err := r.queue.Ack(t.Context(), token, ids)
			r.ok(err)
		})
	}
}

// A8 hot key under a held snapshot
func TestAttackHotKeyHeldSnapshot(t *testing.T) {
	r := newRig(t)
	held, err := r.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	r.ok(err)
	defer held.Rollback(context.Background())
	_, err = held.Exec(t.Context(), "SELECT 1 FROM work")
	r.ok(err)
	r.exec(`INSERT INTO work (n, gate_key, gate_limit, gate_policy) SELECT i, 'k', 0, 0 FROM generate_series(1, 4000) i`)
	start := time.Now()
	for i := 1; i <= 4000; i++ {
		tok, _, ids := r.claim()
		if len(ids) != 1 {
			t.Fatal(ids)
		}
		_, err := r.queue.Ack(t.Context(), tok, ids)
		r.ok(err)
		if i%1000 == 0 {
			t.Log(i, time.Since(start))
			start = time.Now()
		}
	}
}

func TestAttackInsertMany(t *testing.T) {
	r := newRig(t)
	timed(t, "10,000 plain", func() { r.exec(`INSERT INTO work (n) SELECT i FROM generate_series(1, 10000) i`) })
	timed(t, "10,000 serial one key", func() { r.exec(`INSERT INTO work (n, gate_key, gate_limit, gate_policy) SELECT i, 'k', 0, 0 FROM generate_series(1, 10000) i`) })
	timed(t, "5,000 serial distinct", func() { r.exec(`INSERT INTO work (n, gate_key, gate_limit, gate_policy) SELECT i, 'k'||i, 0, 0 FROM generate_series(1, 5000) i`) })
	timed(t, "10,000 limited", func() { r.exec(`INSERT INTO work (n, gate_key, gate_limit, gate_policy) SELECT i, 'k', 5, 0 FROM generate_series(1, 10000) i`) })
}

func TestAttackTruncate(t *testing.T) {
	r := newRig(t)
	r.exec("TRUNCATE work, work_gate_cursor, work_gate_rate")
	r.insert(row(1, &gate.Gate{Key: "k", Limit: 1}))
	t.Log("swept after truncate:", r.sweep(), r.sweep())
}

func TestAttackRateDeleted(t *testing.T) {
	r := newRig(t)
	g := &gate.Gate{Key: "k", Limit: gate.Unlimited, Rate: 1.0 / (7 * 86400), Burst: 1}
	r.insert(row(1, g))
	t.Log(r.sweep())
	r.exec("UPDATE work_gate_rate SET refilled_at = refilled_at - interval '25 hours'")
	t.Log(r.sweep())
	r.insert(row(2, g))
	t.Log("one a week; the second after 25 hours let through:", r.sweep())
	// clock back
	g2 := &gate.Gate{Key: "c", Limit: gate.Unlimited, Rate: 100}
	r.insert(row(3, g2))
	t.Log(r.sweep())
	r.exec("UPDATE work_gate_rate SET refilled_at = refilled_at + interval '1 hour' WHERE gate_key = 'c'")
	r.insert(row(4, g2))
	t.Log(r.sweep())
	t.Log("tokens", ask[float64](r, "SELECT tokens FROM work_gate_rate WHERE gate_key = 'c'"))
}

func TestAttackRateManyBuckets(t *testing.T) {
	r := newRig(t)
	r.exec("INSERT INTO work_gate_rate SELECT 'k' || i, 1, now(), 1, 1000 FROM generate_series(1, 300000) i")
	timed(t, "sweep with 300,000 buckets, nothing waiting", func() { t.Log(r.sweep()) })
	timed(t, "sweep with 300,000 buckets, nothing waiting", func() { t.Log(r.sweep()) })
}

var _ = errors.New
