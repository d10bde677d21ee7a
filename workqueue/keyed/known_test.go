package keyed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// mostPlacesAreMarked changes the functions so that most places are marked, and not one in eight: the release of almost
// every row then writes work_key_state.
func (r *rig) mostPlacesAreMarked() {
	r.Helper()
	for _, name := range []string{"work_key_next", "work_key_fill", "work_key_come"} {
		definition := ask[string](r, "SELECT pg_get_functiondef(p.oid) FROM pg_proc AS p WHERE p.proname = $1 AND "+
			"p.pronamespace = current_schema()::regnamespace", name)
		marked := markedPlace.ReplaceAllString(definition, "$1 <> 1")
		if marked == definition {
			r.Fatalf("%s marks no places:\n%s", name, definition)
		}
		r.exec(marked)
	}
}

var markedPlace = regexp.MustCompile(`(hashint8\([a-z._]+\) & \d+) = 0`)

// A row that a join releases draws an earlier place than another row, which is already released when the join commits.
// It is next when that row has ended.
func TestARowThatComesBeforeTheOneThatIsThroughIsNext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mostPlacesAreMarked()
	for key := range 8 {
		k, n := serial(fmt.Sprint(key)), 10*key
		r.insert(held(n+1, k))
		join := r.begin()
		_, err := join.Exec(t.Context(), "UPDATE work SET waiting = false WHERE n = $1", n+1)
		r.ok(err)
		// the place of the join's row skips marked places
		r.exec("SELECT nextval('work_key_seq') FROM generate_series(1, 100)")
		r.insert(row(n+2, k))
		token, ids := r.expect(n + 2)
		r.ok(join.Commit(t.Context()))
		r.fold()
		done["ack"](r, token, ids)
		r.expect(n + 1)
	}
}

// A key with a few rows is not worth a row in work_key_state.
func TestFewKeysAreKnown(t *testing.T) {
	t.Parallel()
	const keys = 400
	for name, limit := range map[string]int{"ordered": 0, "limited": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.exec("INSERT INTO work (n, concurrency_key, key_limit, key_policy) SELECT n, 'k' || n, $1, 0 FROM "+
				"generate_series(1, $2) AS n", limit, keys)
			if n := r.fold(); n != keys {
				t.Fatalf("%d rows got through, want %d", n, keys)
			}
			if n := ask[int](r, "SELECT count(*) FROM work_key_state"); n == 0 || n > keys/3 {
				t.Errorf("of %d keys with a row each %d are known", keys, n)
			}
		})
	}
}

// A sweep deletes the state of keys that are not in use, and only that.
func TestSweepsKeepWhatIsInUse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mostPlacesAreMarked()
	for i := range 10 {
		limited := keyed.Limited{Key: fmt.Sprint("l", i), MaxRunning: 1}
		r.insert(row(2*i, serial(fmt.Sprint("o", i))), row(2*i+1, limited))
	}
	r.fold()
	before := ask[int](r, "SELECT count(*) FROM work_key_state")
	r.sweep()
	if after := ask[int](r, "SELECT count(*) FROM work_key_state"); before == 0 || after != before {
		t.Errorf("of %d keys %d are known after a sweep", before, after)
	}
	r.exec("UPDATE work_key_state SET at = at - interval '2 minutes'")
	holder := r.begin()
	_, err := holder.Exec(t.Context(), "SELECT FROM work_key_state WHERE concurrency_key <> 'o1' FOR UPDATE")
	r.ok(err)
	r.exec("UPDATE work_key_cursor SET swept_at = '-infinity'; SET LOCAL lock_timeout = '5s'; SELECT " +
		"work_key_sweep(1000)")
	if after := ask[int](r, "SELECT count(*) FROM work_key_state"); after != before-1 {
		t.Errorf("%d keys are known, of which somebody holds %d", after, before-1)
	}
	r.ok(holder.Rollback(t.Context()))
	r.sweep()
	if after := ask[int](r, "SELECT count(*) FROM work_key_state"); after != 0 {
		t.Errorf("%d keys are known after two minutes", after)
	}
}

// If another session holds a key's row in work_key_state, a fold continues and writes another row.
func TestAFoldWaitsForNobodyWhoHoldsWhatIsKnown(t *testing.T) {
	t.Parallel()
	for name, updates := range map[string]int{"a row to be updated": 0, "a row to be replaced": 64} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.mostPlacesAreMarked()
			ordered, limited := serial("o"), keyed.Limited{Key: "l", MaxRunning: 1}
			r.insert(row(1, ordered), row(2, limited))
			token, ids := r.expect(1, 2)
			r.exec("UPDATE work_key_state SET updates = $1 WHERE limited", updates)
			done["ack"](r, token, ids)
			holder := r.begin()
			_, err := holder.Exec(t.Context(), "SELECT FROM work_key_state FOR UPDATE")
			r.ok(err)
			r.insert(row(3, ordered), row(4, limited))
			r.exec("SET LOCAL lock_timeout = '5s'; SELECT work_key_fold(1000)")
			token, ids = r.expect(3, 4)
			r.ok(holder.Rollback(t.Context()))
			done["ack"](r, token, ids)
			r.insert(row(5, ordered), row(6, limited))
			r.expect(5, 6)
		})
	}
}

// A row that a join releases draws its place while a writer's transaction with an earlier place is open. The writer's
// row comes before the rows that are written after it, whatever work_key_state says, and even if a fold takes only the
// notes of the later rows.
func TestARowThatIsReleasedHidesNoneThatIsBeingWritten(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mostPlacesAreMarked()
	for key := range 8 {
		k := serial(fmt.Sprint(key))
		n := 10 * key
		r.insert(row(n, k), held(n+3, k))
		token, ids := r.expect(n)
		done["ack"](r, token, ids)
		writer := r.begin()
		r.insertIn(writer, row(n+1, k))
		r.exec("UPDATE work SET waiting = false WHERE n = $1", n+3)
		token, ids = r.expect(n + 3)
		done["ack"](r, token, ids)
		r.fold()
		since := ask[string](r, "SELECT clock_timestamp()::text")
		r.ok(writer.Commit(t.Context()))
		r.insert(row(n+2, k))
		r.exec("SELECT work_key_fold(1000, $1::timestamptz)", since)
		if got := ask[string](r,
			"SELECT string_agg(n::text, ' ') FROM work WHERE completed_at IS NULL AND NOT waiting"); got != fmt.Sprint(n+1) {
			t.Errorf("%s is through, want %d", got, n+1)
		}
		r.finish(n+1, n+2)
	}
}

// The states of an ordered key and of a limited key come and go independently, even if both have the same name. A rate
// whose state is lost would get its whole burst again.
func TestARateIsKeptBesideOrderedRows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mostPlacesAreMarked()
	r.insert(row(0, keyed.Limited{Key: "k", Rate: 1, Burst: 2}))
	r.expect(0)
	const nextAt = "SELECT next_at::text FROM work_key_state WHERE concurrency_key = 'k' AND limited"
	before := ask[string](r, nextAt)
	for n := range 5 {
		r.insert(row(n+1, serial("k")))
		r.finish(n + 1)
	}
	if after := ask[string](r, nextAt); after != before {
		t.Errorf("the next row may start at %s, and before the ordered rows it was %s", after, before)
	}
}

// The stored state of a key equals a fresh count, whatever has happened to its rows.
func TestWhatIsKnownIsTrue(t *testing.T) {
	t.Parallel()
	for range pgtest.Size(1, 8) {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(s *workqueue.Spec) { s.MaxAttempts = 50 })
			r.mostPlacesAreMarked()
			w := &walk{rig: r, random: rand.New(rand.NewPCG(seed, 0)), running: map[uuid.UUID]uuid.UUID{}, level: "1"}
			w.walk()
		})
		t.Run(fmt.Sprint(seed, " with priorities"), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(s *workqueue.Spec) {
				s.MaxAttempts = 50
				s.Columns = append(s.Columns, workqueue.Column{Name: "priority", Type: "smallint", NotNull: true})
				s.Lanes, s.PriorityColumn = []string{"priority"}, "priority"
			})
			r.exec("ALTER TABLE work ALTER COLUMN priority SET DEFAULT 2")
			r.mostPlacesAreMarked()
			w := &walk{rig: r, random: rand.New(rand.NewPCG(seed, 0)), running: map[uuid.UUID]uuid.UUID{},
				level: "t.priority"}
			w.walk()
		})
	}
}

func (w *walk) walk() {
	w.Helper()
	for range 250 {
		w.step()
		w.fold()
	}
	w.end()
}

// A walk changes rows at random in all possible ways.
type walk struct {
	*rig
	random  *rand.Rand
	n       int
	running map[uuid.UUID]uuid.UUID // rows and their tokens
	open    []pgx.Tx
	since   time.Time
	level   string // of a row t, as SQL
}

// hasLevels tells whether the rows have priorities.
func (w *walk) hasLevels() bool { return w.level != "1" }

// lane is a random lane.
func (w *walk) lane() (lane []any) {
	if w.hasLevels() {
		lane = []any{int16(1 + w.random.IntN(3))}
	}
	return lane
}

// knownIsWrong compares the stored state with the rows. It takes pending notes into account; keys with a note that has
// them counted anew are left out.
const knownIsWrong = `
	WITH known AS (SELECT DISTINCT ON (concurrency_key, limited) * FROM work_key_state ORDER BY concurrency_key, limited, n DESC),
	real AS (SELECT k.*, p.*,
		(SELECT count(*) FROM work AS t WHERE t.concurrency_key = k.concurrency_key AND (t.key_limit > 0) = k.limited AND t.key_seq IS NOT NULL AND t.completed_at IS NULL AND NOT t.waiting) AS live,
		(SELECT min(t.key_seq) FROM work AS t WHERE t.concurrency_key = k.concurrency_key AND t.key_limit = 0 AND t.key_seq IS NOT NULL AND t.completed_at IS NULL AND NOT k.limited) AS first_place,
		(SELECT min(t.due_at) FROM work AS t WHERE t.concurrency_key = k.concurrency_key AND t.key_limit > 0 AND t.key_seq IS NOT NULL AND t.completed_at IS NULL AND t.waiting AND k.limited
			AND t.due_at < least(k.due[%[1]s], p.p_due)) AS earlier
		FROM known AS k
		CROSS JOIN LATERAL (SELECT coalesce(bool_or(n.ended IS NULL), false) AS anew, coalesce(sum(n.ended), 0) AS p_ended, min(n.place) AS p_place, min(n.due) AS p_due
			FROM work_key_note AS n WHERE n.concurrency_key = k.concurrency_key AND n.limited = k.limited) AS p)
	SELECT coalesce(string_agg(to_jsonb(real)::text, ' '), '') FROM real
	WHERE NOT anew AND (limited AND taken <> live + p_ended OR first_place < least(place, p_place) OR earlier IS NOT NULL)`

var walkRules = []keyed.Rule{
	keyed.Ordered{Key: "a", OnFailure: keyed.Skip}, keyed.Ordered{Key: "b", OnFailure: keyed.Block},
	keyed.Ordered{Key: "c", OnFailure: keyed.Park},
	keyed.Limited{Key: "d", MaxRunning: 1}, keyed.Limited{Key: "d", MaxRunning: 3},
	keyed.Limited{Key: "e", MaxRunning: 2},
	keyed.Limited{Key: "f", MaxRunning: 2, Rate: 5000, Burst: 3}, keyed.Limited{Key: "a", MaxRunning: 1},
}

func (w *walk) step() {
	switch w.random.IntN(15) {
	case 0, 1, 2:
		w.insertSome(nil)
	case 3: // an application that keeps its transaction open
		if len(w.open) == 2 {
			break // the pool has few connections
		}
		tx := w.begin()
		w.open = append(w.open, tx)
		w.insertSome(tx)
	case 4, 5:
		token, ids := w.claimSome()
		for _, id := range ids {
			w.running[id] = token
		}
	case 6, 7, 8:
		w.settle()
	case 9:
		if ids := w.some("completed_at IS NULL"); len(ids) > 0 {
			w.cancel(ids[0])
		}
	case 10:
		if w.random.IntN(2) == 0 {
			w.exec("DELETE FROM work WHERE id = (SELECT id FROM work ORDER BY random() LIMIT 1)")
			break
		}
		if ids := w.some("status = 3"); len(ids) > 0 {
			_, err := w.queue.Redrive(context.Background(), ids, "somebody")
			w.ok(err)
		}
	case 11: // a join releases a row
		w.n++
		row := held(w.n, walkRules[w.random.IntN(len(walkRules))])
		row.Values = append(row.Values, w.lane()...)
		w.insert(row)
		if w.random.IntN(2) == 0 {
			w.exec("UPDATE work SET waiting = false WHERE id = (SELECT id FROM work WHERE key_seq IS NULL AND " +
				"waiting AND completed_at IS NULL ORDER BY random() LIMIT 1)")
		}
	case 12:
		w.disturb()
	case 14: // a Replace
		v := keyValues(walkRules[w.random.IntN(len(walkRules))])
		w.exec("UPDATE work SET concurrency_key = $1, key_limit = $2, key_policy = $3, key_rate = $4, key_burst = $5 "+
			"WHERE id IN (SELECT id FROM work WHERE status = 0 ORDER BY random() LIMIT 2 FOR UPDATE SKIP LOCKED)", v[:5]...)
		if w.hasLevels() {
			w.exec("UPDATE work SET priority = 1 + priority % 3 WHERE id IN (SELECT id FROM work WHERE waiting ORDER BY " +
				"random() LIMIT 2 FOR UPDATE SKIP LOCKED)")
		}
	case 13:
		for len(w.open) > 0 {
			w.ok(w.open[0].Commit(context.Background()))
			w.open = w.open[1:]
		}
		w.exec("UPDATE work SET due_at = due_at - interval '1 hour' WHERE id = (SELECT id FROM work WHERE " +
			"completed_at IS NULL AND waiting ORDER BY random() LIMIT 1)")
		w.exec("SELECT work_unblock(ARRAY(SELECT id FROM work WHERE status = 3 ORDER BY random() LIMIT 1))")
	}
}

// disturb changes the tables in ways that no application should, and in ways that time does.
func (w *walk) disturb() {
	w.Helper()
	switch w.random.IntN(6) {
	case 0:
		w.sweep()
	case 1:
		w.exec("UPDATE work_key_state SET at = at - interval '1 hour' WHERE random() < 0.5 AND n = (SELECT max(o.n) " +
			"FROM work_key_state AS o WHERE o.concurrency_key = work_key_state.concurrency_key AND o.limited = " +
			"work_key_state.limited)")
		w.sweep()
	case 2:
		w.exec("TRUNCATE work_key_state")
	case 3:
		w.exec("UPDATE work_key_state SET updates = 63 WHERE random() < 0.5")
	case 4:
		w.exec("INSERT INTO work (n, concurrency_key, key_limit, key_policy, status, attempts, owner_token, locked_until) " +
			"SELECT -1, 'd', 2, 0, 1, 1, gen_random_uuid(), now() WHERE NOT EXISTS (SELECT FROM work WHERE concurrency_key " +
			"= 'd' AND NOT waiting AND completed_at IS NULL) AND NOT EXISTS (SELECT FROM work WHERE concurrency_key = 'd' " +
			"AND waiting)")
	case 5:
		w.exec("UPDATE work SET status = 0, completed_at = NULL, failed_at = NULL, cancelled_at = NULL, attempts = " +
			"0, owner_token = NULL, waiting = true, due_at = due_at - random() * interval '1 hour' WHERE id IN " +
			"(SELECT id FROM work WHERE status = 2 ORDER BY random() LIMIT 3)")
	}
}

// some returns up to three rows.
func (w *walk) some(condition string) (ids []uuid.UUID) {
	w.Helper()
	rows, err := w.pool.Query(context.Background(), "SELECT id FROM work WHERE "+condition+" ORDER BY random() LIMIT 3")
	w.ok(err)
	ids, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	w.ok(err)
	return ids
}

func (w *walk) insertSome(tx pgx.Tx) {
	w.Helper()
	g := walkRules[w.random.IntN(len(walkRules))]
	if o, ordered := g.(keyed.Ordered); ordered && tx != nil {
		g = keyed.Limited{Key: o.Key, MaxRunning: 1} // or the writers of the key would wait for it
	}
	var rows []workqueue.NewRow
	for range 1 + w.random.IntN(4) {
		w.n++
		one := row(w.n, g)
		one.Values = append(one.Values, w.lane()...)
		switch w.random.IntN(6) {
		case 0:
			one.DueAt = time.Now().Add(-time.Duration(w.random.IntN(int(time.Hour))))
		case 1:
			one.DueAt = time.Now().Add(time.Duration(w.random.IntN(int(100 * time.Millisecond))))
		}
		rows = append(rows, one)
	}
	if tx != nil {
		w.insertIn(tx, rows...)
		return
	}
	w.insert(rows...)
}

func (w *walk) claimSome() (token uuid.UUID, ids []uuid.UUID) {
	token = workqueue.NewOwnerToken()
	rows, err := w.queue.Claim(context.Background(), token, time.Minute, 1+w.random.IntN(4), w.lane()...)
	w.ok(err)
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	return token, ids
}

// settle ends a running row in one of the possible ways.
func (w *walk) settle() {
	w.Helper()
	ctx := context.Background()
	for id, token := range w.running {
		delete(w.running, id)
		ids, delay := []uuid.UUID{id}, time.Duration(w.random.IntN(2))*50*time.Millisecond
		var err error
		switch w.random.IntN(6) {
		case 0:
			_, err = w.queue.Fail(ctx, token, ids, "no")
		case 1:
			_, err = w.queue.Abandon(ctx, token, ids, delay, "again")
		case 2:
			_, err = w.queue.Snooze(ctx, token, ids, delay)
		case 3:
			w.exec("UPDATE work SET locked_until = now() - interval '1 second' WHERE id = $1 AND status = 1", id)
			_, err = w.queue.ReapExpired(ctx, 10)
		default:
			_, err = w.queue.Ack(ctx, token, ids)
		}
		w.lost(err)
		return
	}
}

// lost accepts the error of a claim that is no longer current.
func (w *walk) lost(err error) {
	w.Helper()
	var lost *workqueue.SettleError
	if !errors.As(err, &lost) {
		w.ok(err)
	}
}

// fold folds all notes or some, and compares the stored state with the rows.
func (w *walk) fold() {
	w.Helper()
	switch w.random.IntN(4) { // all notes, or some, or only recent ones
	case 0:
		w.exec("SELECT work_key_fold(1000)")
	case 1:
		w.exec("SELECT work_key_fold(1)")
	case 2:
		w.exec("SELECT work_key_fold(3, $1)", w.since)
	case 3:
		w.since = time.Now()
	}
	wrong := ask[string](w.rig, fmt.Sprintf(knownIsWrong, w.level))
	if wrong != "" {
		w.Fatalf("known: %s\n%s", wrong, w.dump())
	}
	over := ask[string](w.rig, `
		SELECT coalesce(string_agg(k, ' '), '') FROM ( -- the first that waits says the limit, so the largest of the key counts
			SELECT concurrency_key AS k FROM work WHERE key_seq IS NOT NULL GROUP BY concurrency_key, key_limit > 0
			HAVING count(*) FILTER (WHERE completed_at IS NULL AND NOT waiting) > CASE WHEN concurrency_key = 'd' THEN 3 ELSE greatest(max(key_limit), 1) END) AS o`)
	if over != "" {
		w.Fatalf("more rows of %s are through than may be\n%s", over, w.dump())
	}
}

// end waits until all rows have ended: no row waits without a note that will release it.
func (w *walk) end() {
	w.Helper()
	for _, tx := range w.open {
		w.ok(tx.Commit(context.Background()))
	}
	w.exec("UPDATE work SET key_policy = 0 WHERE key_policy > 0")
	w.exec("UPDATE work SET waiting = false WHERE key_seq IS NULL AND waiting AND completed_at IS NULL")
	w.eventually("all rows have ended", func() bool {
		w.fold()
		w.exec("UPDATE work SET locked_until = now() - interval '1 second' WHERE status = 1 AND n = -1")
		_, err := w.queue.ReapExpired(context.Background(), 10)
		w.ok(err)
		token, ids := w.claimSome()
		for _, id := range ids {
			w.running[id] = token
		}
		for id, token := range w.running {
			_, err := w.queue.Ack(context.Background(), token, []uuid.UUID{id})
			w.lost(err)
			delete(w.running, id)
		}
		return ask[int](w.rig, "SELECT count(*) FROM work WHERE completed_at IS NULL") == 0
	})
}

// The stored state is right in every snapshot while all kinds of changes run concurrently.
func TestWhatIsKnownIsTrueUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *workqueue.Spec) { s.MaxAttempts = 50 })
	r.mostPlacesAreMarked()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(pgtest.Size(400, 5000))*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	loop := func(statements ...string) {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if _, err := r.pool.Exec(ctx, statements[rand.IntN(len(statements))]); err != nil && ctx.Err() == nil {
					t.Log(err)
				}
			}
		})
	}
	insert := `INSERT INTO work (n, concurrency_key, key_limit, key_policy, due_at, waiting)
		SELECT i, 'k' || l || '-' || i % 7, l, 0, clock_timestamp() + (random() - 0.5) * interval '100 milliseconds', random() < 0.1 FROM generate_series(1, 20) AS i, (SELECT (random() * 3)::int AS l) AS l`
	loop(insert, insert, insert, "UPDATE work SET waiting = false WHERE id IN (SELECT id FROM work WHERE waiting AND "+
		"key_seq IS NULL LIMIT 20 FOR UPDATE SKIP LOCKED)",
		"UPDATE work SET status = 0, completed_at = NULL, failed_at = NULL, cancelled_at = NULL, attempts = 0, "+
			"owner_token = NULL, waiting = true, due_at = clock_timestamp() WHERE id IN (SELECT id FROM work WHERE "+
			"completed_at IS NOT NULL ORDER BY random() LIMIT 3 FOR UPDATE SKIP LOCKED)",
		"DELETE FROM work WHERE id IN (SELECT id FROM work ORDER BY random() LIMIT 3 FOR UPDATE SKIP LOCKED)",
		"DELETE FROM work WHERE completed_at IS NOT NULL",
		"UPDATE work SET status = 3, completed_at = now(), failed_at = now(), cancelled_at = now() WHERE id IN "+
			"(SELECT id FROM work WHERE status = 0 ORDER BY random() LIMIT 3 FOR UPDATE SKIP LOCKED)",
		"UPDATE work SET due_at = due_at - interval '1 hour' WHERE id IN (SELECT id FROM work WHERE status = 0 AND "+
			"waiting ORDER BY random() LIMIT 3 FOR UPDATE SKIP LOCKED)")
	all.Go(func() {
		for ctx.Err() == nil {
			token := workqueue.NewOwnerToken()
			rows, err := r.queue.Claim(ctx, token, time.Minute, 20)
			if err != nil {
				return
			}
			for _, row := range rows {
				switch rand.IntN(4) {
				case 0:
					r.pool.Exec(ctx, "UPDATE work SET status = 0, locked_until = NULL, owner_token = NULL, due_at = "+
						"clock_timestamp() WHERE id = $1 AND status = 1", row.ID)
				default:
					r.pool.Exec(ctx, "UPDATE work SET status = 2, completed_at = clock_timestamp(), locked_until = "+
						"NULL WHERE id = $1 AND status = 1", row.ID)
				}
			}
		}
	})
	fold := "SELECT work_key_fold(30)"
	loop(fold, fold, fold, "SELECT work_key_fold(1000, now() - interval '5 milliseconds')",
		"SELECT work_key_fold(1000)")
	loop("WITH s AS (UPDATE work_key_cursor SET swept_at = '-infinity') SELECT pg_sleep(0.05)",
		"SELECT work_key_sweep(1000)", "SELECT pg_sleep(0.05)",
		"UPDATE work_key_state SET at = at - interval '1 hour' WHERE ctid IN (SELECT ctid FROM work_key_state "+
			"WHERE random() < 0.2 FOR UPDATE SKIP LOCKED)")
	looks := 0
	for ctx.Err() == nil {
		var wrong string
		if r.pool.QueryRow(ctx, fmt.Sprintf(knownIsWrong, "1")).Scan(&wrong) != nil {
			break
		}
		looks++
		if wrong != "" {
			t.Errorf("known: %.1500s", wrong)
			cancel()
		}
	}
	all.Wait()
	t.Logf("%d looks, %d rows ended", looks, ask[int](r, "SELECT count(*) FROM work WHERE completed_at IS NOT NULL"))
}
