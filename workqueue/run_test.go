package workqueue_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// A runRig is a table of ordered keys.
type runRig struct {
	*testing.T
	pool  *pgxpool.Pool
	table *workqueue.Table
	queue *workqueue.Queue
}

type keyedNote struct {
	N    int64
	Rule keyed.Rule
}

func (n *keyedNote) columns(c *workqueue.Columns) {
	c.Field(workqueue.Column{Name: "n", Type: "bigint", NotNull: true}, &n.N)
	keyed.Columns(c, n.Rule)
}

// A keyedRow is what a claim returns of such a row.
type keyedRow struct {
	N   int64
	Key *string
}

func (n *keyedRow) columns(c *workqueue.Columns) {
	c.Field(workqueue.Column{Name: "n"}, &n.N)
	c.Field(workqueue.Column{Name: keyed.KeyColumn}, &n.Key)
}

func newRunRig(t *testing.T, change ...func(*workqueue.Spec)) *runRig {
	t.Helper()
	db := pgtest.New(t, pgtest.Reused)
	spec := workqueue.Spec{
		Schema: db.Schema, Table: "work",
		Columns:   workqueue.ColumnsOf((*keyedNote).columns),
		Sweeps:    []string{keyed.SweepSuffix},
		Folds:     []workqueue.Fold{keyed.Fold},
		KeyColumn: keyed.KeyColumn,
		Retry:     workqueue.Retry{Growth: workqueue.Constant},
	}
	for _, f := range change {
		f(&spec)
	}
	table, err := workqueue.Open(spec, workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r := &runRig{T: t, pool: db.Pool, table: table, queue: table.On(db.Pool)}
	core, _, err := spec.DDL()
	r.ok(err)
	rules, _, err := keyed.DDL(spec)
	r.ok(err)
	db.Define(t, core+rules)
	return r
}

func (r *runRig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// ordered are rows of a key, numbered from first on.
func ordered(key string, policy keyed.Policy, first, n int) (rows []workqueue.NewRow) {
	for i := range n {
		note := &keyedNote{N: int64(first + i), Rule: keyed.Ordered{Key: key, OnFailure: policy}}
		rows = append(rows, workqueue.NewRow{Values: workqueue.ValuesOf(note, (*keyedNote).columns)})
	}
	return rows
}

func (r *runRig) insert(rows ...workqueue.NewRow) (ids []uuid.UUID) {
	r.Helper()
	r.ok(pgx.BeginFunc(context.Background(), r.pool, func(tx pgx.Tx) error {
		inserted, err := r.table.Insert(context.Background(), workqueue.Pgx(tx), rows...)
		for _, in := range inserted {
			ids = append(ids, in.ID)
		}
		return err
	}))
	return ids
}

func (r *runRig) exec(sql string, args ...any) {
	r.Helper()
	_, err := r.pool.Exec(context.Background(), sql, args...)
	r.ok(err)
}

func (r *runRig) begin() pgx.Tx {
	r.Helper()
	tx, err := r.pool.Begin(context.Background())
	r.ok(err)
	r.Cleanup(func() { tx.Rollback(context.Background()) })
	return tx
}

func (r *runRig) fold() {
	r.Helper()
	_, err := r.queue.Fold(context.Background())
	r.ok(err)
}

// head folds, and claims the only row that can be claimed.
func (r *runRig) head() workqueue.RunHead {
	r.Helper()
	r.fold()
	rows, err := r.queue.Claim(context.Background(), workqueue.NewOwnerToken(), time.Minute, 10)
	r.ok(err)
	if len(rows) != 1 {
		r.Fatalf("claimed %d rows, want one\n%s", len(rows), r.dump())
	}
	return workqueue.RunHead{ID: rows[0].ID, Token: rows[0].Token, Most: 100}
}

// take takes the run of a head, and returns its rows, the head first.
func (r *runRig) take(h workqueue.RunHead) []uuid.UUID {
	r.Helper()
	runs, err := r.queue.TakeRuns(context.Background(), h)
	r.ok(err)
	return append([]uuid.UUID{h.ID}, runs[h.ID]...)
}

// states are the rows in the order of n: their state, and what they have been charged.
func (r *runRig) states() string {
	r.Helper()
	var states string
	r.ok(r.pool.QueryRow(context.Background(), `SELECT coalesce(string_agg(CASE
			WHEN status = 0 AND waiting THEN 'waits' WHEN status = 0 THEN 'ready' WHEN status = 1 THEN 'runs'
			WHEN status = 2 THEN 'done' WHEN cancelled_at IS NOT NULL THEN 'cancelled' ELSE 'dead' END || attempts, ' '
			ORDER BY n), '') FROM work`).Scan(&states))
	return states
}

func (r *runRig) expect(when, want string) {
	r.Helper()
	if got := r.states(); got != want {
		r.Fatalf("%s: %s, want %s\n%s", when, got, want, r.dump())
	}
}

func (r *runRig) dump() (s string) {
	r.ok(r.pool.QueryRow(context.Background(), `SELECT coalesce(string_agg(format(
		'n %s status %s waiting %s key %s seq %s attempts %s token %s due in %s error %s', n, status, waiting,
		concurrency_key, key_seq, attempts, owner_token, due_at - clock_timestamp(), last_error), E'\n' ORDER BY n),
		'empty') FROM work`).Scan(&s))
	return s
}

func TestARunIsTakenInOrderWithTheTokenOfItsHead(t *testing.T) {
	t.Parallel()
	r := newRunRig(t)
	ids := r.insert(ordered("a", keyed.Block, 1, 5)...)
	head := r.head()
	head.Most = 3
	if got := r.take(head); !slices.Equal(got, ids[:4]) {
		t.Errorf("the run has %v, want %v", got, ids[:4])
	}
	r.expect("a run of four", "runs1 runs1 runs1 runs1 waits0")
	if again := r.take(head); len(again) != 1 {
		t.Errorf("it was taken again: %v", again[1:])
	}
	r.fold()
	rows, err := r.queue.Claim(context.Background(), workqueue.NewOwnerToken(), time.Minute, 10)
	r.ok(err)
	if len(rows) > 0 {
		t.Errorf("another claim got %d rows of the key", len(rows))
	}
	var tokens int
	r.ok(r.pool.QueryRow(context.Background(),
		"SELECT count(DISTINCT owner_token) FROM work WHERE status = 1").Scan(&tokens))
	if tokens != 1 {
		t.Errorf("the run has %d tokens", tokens)
	}
	_, err = r.queue.SettleRun(context.Background(), head.Token, ids[:4], nil, nil, nil, nil)
	r.ok(err)
	r.fold()
	r.expect("the run is done", "done1 done1 done1 done1 ready0")
}

// What is in the way ends a run: it is never passed over.
func TestARunEndsBeforeWhatDoesNotBelongToIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql  string
		want int // rows of the run
	}{
		"nothing":                     {"SELECT", 4},
		"the third is not due":        {"UPDATE work SET due_at = now() + interval '1 hour' WHERE n = 3", 2},
		"the third has lost a lease":  {"UPDATE work SET headers = '{\"txwork-lost-at\": \"\"}' WHERE n = 3", 2},
		"the third may run once":      {"UPDATE work SET max_attempts = 1 WHERE n = 3", 2},
		"the third has another key":   {"UPDATE work SET concurrency_key = 'b' WHERE n = 3", 3},
		"the third was cancelled":     {"SELECT work_cancel(ARRAY[(SELECT id FROM work WHERE n = 3)], 'no')", 3},
		"the head has lost a lease":   {"UPDATE work SET headers = '{\"txwork-lost-at\": \"\"}' WHERE n = 1", 1},
		"the head may run once":       {"UPDATE work SET max_attempts = 1 WHERE n = 1", 1},
		"the head is to be cancelled": {"SELECT work_cancel(ARRAY[(SELECT id FROM work WHERE n = 1)], 'no')", 1},
		"the head's lease is over":    {"UPDATE work SET locked_until = now() - interval '1 second' WHERE n = 1", 1},
		"the head has another token":  {"UPDATE work SET owner_token = gen_random_uuid() WHERE n = 1", 1},
		"a dead letter blocks it": {
			"UPDATE work SET status = 3, waiting = false, completed_at = now(), failed_at = now() WHERE n = 3", 2},
		"another row is in progress": {
			"UPDATE work SET status = 1, waiting = false, owner_token = gen_random_uuid(), locked_until = now() WHERE n = 4",
			1},
		"a row before it has come back": {
			"UPDATE work SET key_seq = (SELECT min(key_seq) - 1 FROM work) WHERE n = 4", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRunRig(t)
			r.insert(ordered("a", keyed.Block, 1, 4)...)
			head := r.head()
			r.exec(c.sql)
			if got := len(r.take(head)); got != c.want {
				t.Errorf("the run has %d rows, want %d\n%s", got, c.want, r.dump())
			}
		})
	}
}

func TestARunEndsBeforeALockedRow(t *testing.T) {
	t.Parallel()
	r := newRunRig(t)
	ids := r.insert(ordered("a", keyed.Block, 1, 4)...)
	head := r.head()
	tx := r.begin()
	_, err := tx.Exec(context.Background(), "SELECT FROM work WHERE n = 3 FOR UPDATE")
	r.ok(err)
	if got := r.take(head); !slices.Equal(got, ids[:2]) {
		t.Errorf("the run has %d rows, want 2", len(got))
	}
	r.expect("a row is locked", "runs1 runs1 waits0 waits0")
}

// A row that a join releases draws its place without the turn of the key's writers. The run behind it must not overtake
// the row of a writer who has drawn an earlier place and commits later.
func TestARunDoesNotOvertakeAWriter(t *testing.T) {
	t.Parallel()
	r := newRunRig(t)
	joined := ordered("a", keyed.Block, 1, 1)
	joined[0].Waiting = true
	r.insert(joined...)
	writer := r.begin()
	_, err := r.table.Insert(context.Background(), workqueue.Pgx(writer), ordered("a", keyed.Block, 2, 1)...)
	r.ok(err)
	r.exec("UPDATE work SET waiting = false WHERE n = 1")
	head := r.head() // the joined row, whose place is behind that of the writer
	r.ok(writer.Commit(context.Background()))
	r.insert(ordered("a", keyed.Block, 3, 2)...)
	if got := r.take(head); len(got) != 1 {
		t.Errorf("the run has %d rows, want the head alone\n%s", len(got), r.dump())
	}
}

// A run is settled as a prefix, whatever its rows came to. Nothing of the key can be claimed but the row that failed.
func TestARunIsSettledAsAPrefix(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	for name, c := range map[string]struct {
		policy        keyed.Policy
		results       []error
		want, settled string
	}{
		"all are done": {keyed.Block, []error{nil, nil, nil},
			"done1 done1 done1 waits0", "done1 done1 done1 ready0"},
		"the first fails":  {keyed.Block, []error{no, nil, nil}, "ready1 waits0 waits0 waits0", ""},
		"the second fails": {keyed.Block, []error{nil, no, nil}, "done1 ready1 waits0 waits0", ""},
		"two fail":         {keyed.Block, []error{nil, no, no}, "done1 ready1 waits0 waits0", ""},
		"the last fails":   {keyed.Block, []error{nil, nil, no}, "done1 done1 ready1 waits0", ""},
		"the second snoozes": {keyed.Block, []error{nil, workqueue.Snooze(time.Minute), nil},
			"done1 ready0 waits0 waits0", ""},
		"the second is unavailable": {keyed.Block, []error{nil, workqueue.Unavailable(no), nil},
			"done1 ready0 waits0 waits0", ""},
		"the second is dead and blocks": {keyed.Block, []error{nil, workqueue.Permanent(no), nil},
			"done1 dead1 waits0 waits0", "done1 dead1 waits0 waits0"},
		"the second is dead and is skipped": {keyed.Skip, []error{nil, workqueue.Permanent(no), nil},
			"done1 dead1 waits0 waits0", "done1 dead1 ready0 waits0"},
		"the second is dead and parks": {keyed.Park, []error{nil, workqueue.Permanent(no), nil},
			"done1 dead1 waits0 waits0", "done1 dead1 dead0 dead0"},
		"the second is cancelled": {keyed.Block, []error{nil, workqueue.Cancelled("no"), nil},
			"done1 cancelled1 waits0 waits0", "done1 cancelled1 ready0 waits0"},
	} {
		for _, deleteDone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/delete=%v", name, deleteDone), func(t *testing.T) {
				t.Parallel()
				r := newRunRig(t, func(s *workqueue.Spec) { s.DeleteDone = deleteDone })
				r.insert(ordered("a", c.policy, 1, 4)...)
				head := r.head()
				head.Most = 2
				ids := r.take(head)
				want, settled := c.want, cmp.Or(c.settled, c.want)
				if deleteDone {
					want, settled = dropDone(want), dropDone(settled)
				}
				for range 2 { // also if the first reply was lost
					_, err := r.queue.SettleRun(context.Background(), head.Token, ids, c.results...)
					if err != nil && !deleteDone && !errors.Is(err, workqueue.ErrLeaseLost) {
						t.Fatal(err)
					}
					r.expect("settled", want)
				}
				r.fold()
				r.expect("folded", settled)
			})
		}
	}
}

func dropDone(states string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(states), func(s string) bool { return s == "done1" }), " ")
}

// A row whose cancel was asked for ends with the settle, unless it is done.
func TestARowOfARunThatIsCancelled(t *testing.T) {
	t.Parallel()
	r := newRunRig(t)
	r.insert(ordered("a", keyed.Block, 1, 4)...)
	head := r.head()
	ids := r.take(head)
	r.exec("SELECT work_cancel($1, 'no')", ids[1:3])
	_, err := r.queue.SettleRun(context.Background(), head.Token, ids, nil, nil, errors.New("no"), nil)
	r.ok(err)
	r.expect("settled", "done1 done1 cancelled1 waits0")
	r.fold()
	r.expect("folded", "done1 done1 cancelled1 ready0")
}

// The leases of a run expire together: no attempt counts, and the key begins again with its first row.
func TestALostRunComesBackInOrder(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 5} { // of each call of the reaper
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			r := newRunRig(t)
			r.insert(ordered("a", keyed.Block, 1, 5)...)
			head := r.head()
			ids := r.take(head)
			r.exec("UPDATE work SET locked_until = now() - interval '1 second'")
			for range 5 {
				var ready int
				_, err := r.queue.ReapExpired(context.Background(), size)
				r.ok(err)
				r.fold()
				r.ok(r.pool.QueryRow(context.Background(), "SELECT count(*) FROM work WHERE status = 0 AND "+
					"NOT waiting AND EXISTS (SELECT FROM work WHERE status = 1)").Scan(&ready))
				if ready > 0 {
					t.Fatalf("a row can be claimed while others of the run are in progress\n%s", r.dump())
				}
			}
			r.expect("reaped", "ready0 waits0 waits0 waits0 waits0")
			_, err := r.queue.SettleRun(context.Background(), head.Token, ids, nil, nil, nil, nil, nil)
			if !errors.Is(err, workqueue.ErrLeaseLost) {
				t.Errorf("the settle of a lost run: %v, want ErrLeaseLost", err)
			}
			r.expect("settled too late", "ready0 waits0 waits0 waits0 waits0")
			r.exec("UPDATE work SET due_at = now()")
			if again := r.take(r.head()); len(again) != 1 {
				t.Errorf("%d rows ran together again that were lost together", len(again))
			}
		})
	}
}

// A reaper has taken a part of a run: what is done before it counts, and what is behind it runs again.
func TestARunThatIsLostInPart(t *testing.T) {
	t.Parallel()
	r := newRunRig(t)
	ids := r.insert(ordered("a", keyed.Block, 1, 5)...)
	head := r.head()
	r.take(head)
	r.exec("UPDATE work SET locked_until = now() - interval '1 second' WHERE n = 3")
	_, err := r.queue.ReapExpired(context.Background(), 10)
	r.ok(err)
	r.fold()
	r.expect("reaped", "runs1 runs1 waits0 runs1 runs1")
	_, err = r.queue.SettleRun(context.Background(), head.Token, ids, nil, nil, nil, nil, errors.New("no"))
	if !errors.Is(err, workqueue.ErrLeaseLost) {
		t.Errorf("the settle: %v, want ErrLeaseLost of the third", err)
	}
	r.expect("settled", "done1 done1 waits0 waits0 waits0")
	r.fold()
	r.expect("folded", "done1 done1 ready0 waits0 waits0")
}

// A transaction that takes or settles a run and does not commit changes nothing.
func TestARunIsTakenAndSettledAtOnce(t *testing.T) {
	t.Parallel()
	r := newRunRig(t)
	r.insert(ordered("a", keyed.Block, 1, 3)...)
	head := r.head()
	tx := r.begin()
	_, err := r.table.In(workqueue.Pgx(tx)).TakeRuns(context.Background(), head)
	r.ok(err)
	if other := r.take(head); len(other) != 1 { // the head is locked
		t.Errorf("it was taken twice: %v", other)
	}
	r.ok(tx.Rollback(context.Background()))
	r.expect("the run is rolled back", "runs1 waits0 waits0")
	ids := r.take(head)
	tx = r.begin()
	_, err = r.table.In(workqueue.Pgx(tx)).SettleRun(context.Background(), head.Token, ids, nil, errors.New("no"), nil)
	r.ok(err)
	r.fold()
	r.expect("the settle is open", "runs1 runs1 runs1")
	r.ok(tx.Rollback(context.Background()))
	r.fold()
	r.expect("the settle is rolled back", "runs1 runs1 runs1")
}

// Clients claim, take runs, settle them, die and are reaped at random, beside writers and operators. After each commit
// the rows of a key in progress have one token and nothing before them waits; and the rows of a key are done in order.
func TestRunsUnderLoad(t *testing.T) {
	t.Parallel()
	const keys, perKey, clients = 3, 120, 5
	r := newRunRig(t, func(s *workqueue.Spec) { s.MaxAttempts = 1000 })
	r.exec(`
CREATE TABLE finished (seq bigint GENERATED ALWAYS AS IDENTITY, key text, n bigint);
CREATE FUNCTION finished() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO finished (key, n) VALUES (NEW.concurrency_key, NEW.n);
	RETURN NULL;
END $$;
CREATE TRIGGER finished AFTER UPDATE ON work FOR EACH ROW WHEN (OLD.status = 1 AND NEW.status = 2)
EXECUTE FUNCTION finished();`)
	ctx := context.Background()
	var all, writers sync.WaitGroup
	for k := range keys {
		writers.Go(func() {
			for n := 0; n < perKey; {
				some := min(1+rand.IntN(20), perKey-n)
				r.insert(ordered(fmt.Sprint(k), keyed.Block, n, some)...)
				n += some
			}
		})
	}
	var over atomic.Bool
	var runs atomic.Int64
	client := func() {
		for !over.Load() {
			_, err := r.queue.Fold(ctx)
			r.ok(err)
			token := workqueue.NewOwnerToken()
			rows, err := r.queue.Claim(ctx, token, time.Minute, 1+rand.IntN(keys))
			r.ok(err)
			for _, row := range rows {
				ids := []uuid.UUID{row.ID}
				if rand.IntN(4) > 0 {
					head := workqueue.RunHead{ID: row.ID, Token: token, Most: 1 + rand.IntN(12)}
					if rand.IntN(10) == 0 { // one that is rolled back
						_ = pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
							_, err := r.table.In(workqueue.Pgx(tx)).TakeRuns(ctx, head)
							r.ok(err)
							return errors.New("no")
						})
					}
					taken, err := r.queue.TakeRuns(ctx, head)
					r.ok(err)
					ids = append(ids, taken[row.ID]...)
					if len(ids) > 1 {
						runs.Add(1)
					}
				}
				if rand.IntN(12) == 0 {
					continue // it dies
				}
				if rand.IntN(12) == 0 { // it stalls, and a reaper takes some
					pgtest.Pass(time.Millisecond)
				}
				results := make([]error, len(ids))
				for i := range results {
					switch rand.IntN(30) {
					case 0:
						results[i] = workqueue.RetryNow(errors.New("no"))
					case 1:
						results[i] = workqueue.Again(0)
					case 2:
						results[i] = workqueue.LeaveFor(workqueue.MinSnooze, errors.New("no"))
					}
				}
				_, err := r.queue.SettleRun(ctx, token, ids, results...)
				if err != nil && !errors.Is(err, workqueue.ErrLeaseLost) {
					r.ok(err)
				}
			}
		}
	}
	for range clients {
		all.Go(client)
	}
	all.Go(func() { // leases end at any time
		for !over.Load() {
			r.exec(`UPDATE work SET locked_until = now() - interval '1 second', headers = headers - 'txwork-lost-at'
				WHERE id IN (SELECT id FROM work WHERE status = 1 ORDER BY random() LIMIT 2 FOR UPDATE SKIP LOCKED)`)
			_, err := r.queue.ReapExpired(ctx, 1+rand.IntN(3))
			r.ok(err)
			r.exec(`UPDATE work SET due_at = now(), headers = headers - 'txwork-lost-at' WHERE id IN (SELECT id FROM work
				WHERE status = 0 AND due_at > now() LIMIT 20 FOR UPDATE SKIP LOCKED)`)
			pgtest.Pass(2 * time.Millisecond)
		}
	})
	wrong := func() (found string) {
		r.ok(r.pool.QueryRow(ctx, `SELECT coalesce(string_agg(what, '; '), '') FROM (
			SELECT 'two tokens in key ' || concurrency_key AS what FROM work WHERE status = 1
			GROUP BY concurrency_key HAVING count(DISTINCT owner_token) > 1
			UNION ALL
			SELECT 'a row of a run can be claimed in key ' || concurrency_key FROM work
			WHERE completed_at IS NULL AND NOT waiting GROUP BY concurrency_key
			HAVING bool_or(status = 0) AND count(*) > 1
			UNION ALL
			SELECT 'out of order in key ' || key FROM (
				SELECT key, n, lag(n, 1, -1) OVER (PARTITION BY key ORDER BY seq) AS before FROM finished) AS f
			WHERE n <> before + 1) AS w`).Scan(&found))
		return found
	}
	total := 0
	for deadline := time.Now().Add(pgtest.Patience); total < keys*perKey; {
		if found := wrong(); found != "" {
			over.Store(true)
			all.Wait()
			t.Fatal(found)
		}
		r.ok(r.pool.QueryRow(ctx, "SELECT count(*) FROM finished").Scan(&total))
		if time.Now().After(deadline) {
			over.Store(true)
			all.Wait()
			t.Fatalf("%d rows are done, want %d\n%s", total, keys*perKey, r.dump())
		}
	}
	over.Store(true)
	writers.Wait()
	all.Wait()
	if found := wrong(); found != "" {
		t.Error(found)
	}
	if runs.Load() == 0 {
		t.Error("no run was taken")
	}
}

// batchWorker makes a worker whose handler gets batches.
func (r *runRig) batchWorker(o workqueue.WorkerOptions, limit int,
	handler workqueue.BatchHandler[keyedRow]) *workqueue.Worker {
	r.Helper()
	batch, err := workqueue.NewBatch(workqueue.BatchOptions{Limit: limit}, nil, handler)
	r.ok(err)
	domain := workqueue.Domain[keyedRow]{Table: r.table, Columns: (*keyedRow).columns}
	w, err := workqueue.NewBatchWorker(r.pool, domain, batch, o)
	r.ok(err)
	return w
}

// start runs a worker until the test ends, or until it is stopped.
func (r *runRig) start(w *workqueue.Worker) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := w.Run(ctx); err != nil {
			r.Error(err)
		}
	})
	stop = func() { cancel(); done.Wait() }
	r.Cleanup(stop)
	return stop
}

func (r *runRig) eventually(what string, sql string) {
	r.Helper()
	if !pgtest.Await(pgtest.Patience, func() (is bool) {
		r.ok(r.pool.QueryRow(context.Background(), "SELECT "+sql).Scan(&is))
		return is
	}) {
		r.Fatalf("still waiting for: %s\n%s", what, r.dump())
	}
}

// keyOf is the key of a claim, and of the rows of a batch.
func keyOf(c *workqueue.Claim[keyedRow]) string { return *c.Body.Key }

// Handlers get the rows of a key in order, many in one call, also if some fail.
func TestBatchesHaveRuns(t *testing.T) {
	t.Parallel()
	const keys, perKey = 3, 300
	r := newRunRig(t, func(s *workqueue.Spec) { s.MaxAttempts, s.Retry.Base = 100, time.Millisecond })
	var rows []workqueue.NewRow
	for n := range perKey {
		for k := range keys {
			rows = append(rows, ordered(fmt.Sprint(k), keyed.Block, n, 1)...)
		}
	}
	r.insert(rows...)
	var mu sync.Mutex
	next, calls, largest := map[string]int64{}, 0, 0
	handler := func(_ context.Context, batch []*workqueue.Claim[keyedRow]) ([]error, error) {
		mu.Lock()
		defer mu.Unlock()
		calls, largest = calls+1, max(largest, len(batch))
		if rand.IntN(8) == 0 {
			return nil, errors.New("no")
		}
		results, failed := make([]error, len(batch)), map[string]bool{}
		for i, c := range batch {
			switch key := keyOf(c); {
			case failed[key]:
			case rand.IntN(50) == 0:
				results[i], failed[key] = errors.New("no"), true
			case c.Body.N != next[key]:
				r.Errorf("key %s has row %d, want %d", key, c.Body.N, next[key])
			default:
				next[key]++
			}
		}
		return results, nil
	}
	r.start(r.batchWorker(workqueue.WorkerOptions{}, 60, handler))
	r.start(r.batchWorker(workqueue.WorkerOptions{}, 60, handler))
	r.eventually("all rows are done", fmt.Sprintf("count(*) = %d FROM work WHERE status = 2", keys*perKey))
	mu.Lock()
	defer mu.Unlock()
	if calls > keys*perKey/2 || largest < 20 {
		t.Errorf("%d calls for %d rows, the largest with %d", calls, keys*perKey, largest)
	}
}

// A poison in a run is found by halving, and only its attempts count. What is behind it is not started before it has
// ended.
// Where one key fills a batch, handlers take different keys at the same time.
func TestLongKeysAreHandledAtTheSameTime(t *testing.T) {
	t.Parallel()
	r := newRunRig(t)
	const keys, each, limit = 4, 60, 10
	for k := range keys {
		r.insert(ordered(fmt.Sprint("key ", k), keyed.Block, 1, each)...)
	}
	var mu sync.Mutex
	last, running, together, wrong := map[string]int64{}, 0, false, 0
	all := make(chan struct{})
	w := r.batchWorker(workqueue.WorkerOptions{Concurrency: keys}, limit,
		func(ctx context.Context, batch []*workqueue.Claim[keyedRow]) ([]error, error) {
			mu.Lock()
			running++
			if running == keys && !together {
				together = true
				close(all)
			}
			wait := len(batch) == limit && keyOf(batch[0]) == keyOf(batch[limit-1])
			for _, c := range batch {
				if c.Body.N != last[keyOf(c)]+1 {
					wrong++
				}
				last[keyOf(c)] = c.Body.N
			}
			mu.Unlock()
			if wait {
				select {
				case <-all:
				case <-time.After(20 * time.Second):
				}
			}
			mu.Lock()
			running--
			mu.Unlock()
			return nil, nil
		})
	defer r.start(w)()
	r.eventually("all rows are done", fmt.Sprintf("count(*) = %d FROM work WHERE status = 2", keys*each))
	if !together || wrong > 0 {
		t.Errorf("the handlers of all keys ran together: %v; %d rows were out of order", together, wrong)
	}
}

func TestAPoisonInARun(t *testing.T) {
	t.Parallel()
	const rows, poison = 40, 13
	r := newRunRig(t, func(s *workqueue.Spec) { s.MaxAttempts, s.Retry.Base = 3, time.Millisecond })
	r.insert(ordered("a", keyed.Skip, 0, rows)...)
	var failures atomic.Int64
	r.start(r.batchWorker(workqueue.WorkerOptions{}, rows, func(_ context.Context,
		batch []*workqueue.Claim[keyedRow]) ([]error, error) {
		for _, c := range batch {
			if c.Body.N == poison {
				if len(batch) == 1 {
					failures.Add(1)
				}
				return nil, errors.New("poison")
			}
			if c.Body.N > poison && failures.Load() < 3 {
				r.Errorf("row %d was started before the poison had ended", c.Body.N)
			}
		}
		return nil, nil
	}))
	r.eventually("all rows have ended", fmt.Sprintf("count(*) = %d FROM work WHERE completed_at IS NOT NULL", rows))
	want := strings.Fields(strings.Repeat("done1 ", rows))
	want[poison] = "dead3"
	r.expect("ended", strings.Join(want, " "))
}

// Transactions of handlers settle the rows of a run in their order, too.
func TestTransactionsInARun(t *testing.T) {
	t.Parallel()
	r := newRunRig(t, func(s *workqueue.Spec) { s.Retry.Base = time.Hour })
	r.insert(ordered("a", keyed.Block, 0, 12)...)
	no := errors.New("no")
	write := func(pgx.Tx) error { return nil }
	tried := make(chan int64, 1) // the row that has failed
	r.start(r.batchWorker(workqueue.WorkerOptions{}, 6, func(ctx context.Context,
		batch []*workqueue.Claim[keyedRow]) ([]error, error) {
		if len(batch) < 4 { // the first batch, before the worker has folded
			return nil, nil
		}
		if err := batch[1].Tx(ctx, write); err == nil {
			r.Error("a transaction settled the second row before the first")
		}
		for _, c := range batch[:2] {
			if err := c.Tx(ctx, write); err != nil {
				r.Error(err)
			}
		}
		if err := batch[2].Tx(ctx, func(pgx.Tx) error { return workqueue.RetryByPolicy(no) }); err != nil {
			r.Error(err)
		}
		tried <- batch[2].Body.N
		return nil, nil
	}))
	n := <-tried
	want := strings.Fields(strings.Repeat("done1 ", int(n)) + "ready1 " + strings.Repeat("waits0 ", 11-int(n)))
	r.expect("after the transaction", strings.Join(want, " "))
}

// writesEffects writes the number of each row of a batch in one transaction. The row with number n has a result.
func writesEffects(n int64, result error) workqueue.BatchHandler[keyedRow] {
	return func(ctx context.Context, batch []*workqueue.Claim[keyedRow]) ([]error, error) {
		return workqueue.BatchTx(ctx, batch, func(tx pgx.Tx) ([]error, error) {
			results := make([]error, len(batch))
			for i, c := range batch {
				if _, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", c.Body.N); err != nil {
					return nil, err
				}
				if c.Body.N == n {
					results[i] = result
				}
			}
			return results, nil
		})
	}
}

// A batch in one transaction is rolled back where one of its rows fails, and is called again with those before it.
func TestABatchTransactionOfARun(t *testing.T) {
	t.Parallel()
	r := newRunRig(t, func(s *workqueue.Spec) { s.Retry.Base = time.Hour })
	r.exec("CREATE TABLE effects (n bigint)")
	r.insert(ordered("a", keyed.Block, 0, 6)...)
	r.start(r.batchWorker(workqueue.WorkerOptions{}, 6, writesEffects(3, errors.New("no"))))
	r.eventually("three rows are done", "count(*) = 3 FROM work WHERE status = 2")
	r.eventually("the others wait", "bool_and(status = 0) FROM work WHERE n > 2")
	r.expect("settled", "done1 done1 done1 ready1 waits0 waits0")
	r.eventually("the effects of what is done", "array_agg(n ORDER BY n) = '{0,1,2}' FROM effects")
}

// A worker that stops puts a run back, and nothing of it counts.
func TestAStoppingWorkerPutsARunBack(t *testing.T) {
	t.Parallel()
	const rows = 8
	r := newRunRig(t)
	r.insert(ordered("a", keyed.Block, 0, rows)...)
	began := make(chan int, 1) // the first row of the run
	stop := r.start(r.batchWorker(workqueue.WorkerOptions{ShutdownTimeout: 100 * time.Millisecond}, 4,
		func(ctx context.Context, batch []*workqueue.Claim[keyedRow]) ([]error, error) {
			if len(batch) < 4 { // the first batch, before the worker has folded
				return nil, nil
			}
			began <- int(batch[0].Body.N)
			<-ctx.Done()
			return nil, ctx.Err()
		}))
	n := <-began
	of := func(state string, n int) string { return strings.Repeat(state+" ", n) }
	r.expect("it runs", strings.TrimSpace(of("done1", n)+of("runs1", 4)+of("waits0", rows-n-4)))
	stop()
	r.fold()
	r.expect("it has stopped", strings.TrimSpace(of("done1", n)+of("ready0", 1)+of("waits0", rows-n-1)))
}

// Handlers of one row, drains and fetches never have runs.
func TestOnlyBatchesHaveRuns(t *testing.T) {
	t.Parallel()
	r := newRunRig(t)
	r.insert(ordered("a", keyed.Block, 0, 4)...)
	var largest atomic.Int64
	w := r.batchWorker(workqueue.WorkerOptions{}, 4, func(_ context.Context,
		batch []*workqueue.Claim[keyedRow]) ([]error, error) {
		largest.Store(max(largest.Load(), int64(len(batch))))
		return nil, nil
	})
	drain, err := w.Drain()
	r.ok(err)
	for range 4 {
		_, err = drain.Process(context.Background())
		r.ok(err)
	}
	r.expect("drained", "done1 done1 done1 done1")
	if largest.Load() != 1 {
		t.Errorf("a drain had a batch of %d rows of a key", largest.Load())
	}
}

// The statements of runs compare no row with each of the others, whatever the planner knows of the table.
func TestRunsCompareFewRows(t *testing.T) {
	t.Parallel()
	const keys, perKey = 4, 250
	r := newRunRig(t)
	ctx := context.Background()
	for k := range keys {
		r.insert(ordered(fmt.Sprint(k), keyed.Block, 0, perKey+1)...)
	}
	r.fold()
	heads, err := r.queue.Claim(ctx, workqueue.NewOwnerToken(), time.Minute, 10)
	r.ok(err)
	c, err := r.pool.Acquire(ctx)
	r.ok(err)
	defer c.Release()
	for _, set := range []string{"enable_seqscan = off", "enable_bitmapscan = off", "enable_sort = off",
		"enable_mergejoin = off", "jit = off", "plan_cache_mode = force_generic_plan"} {
		_, err := c.Exec(ctx, "SET "+set)
		r.ok(err)
	}
	explain := func(name, text, arguments string) {
		_, err := c.Exec(ctx, "PREPARE "+name+" AS "+text)
		r.ok(err)
		rows, err := c.Query(ctx, "EXPLAIN (ANALYZE, TIMING off) EXECUTE "+name+"("+arguments+")")
		r.ok(err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		r.ok(err)
		for _, line := range plan {
			var n int
			_, counts, _ := strings.Cut(line, "Rows Removed by Join Filter: ")
			if fmt.Sscan(counts, &n); n > 10*keys*perKey {
				t.Errorf("%s compares %d rows in vain\n%s", name, n, strings.Join(plan, "\n"))
			}
		}
	}
	array := func(of []string) string { return "'{" + strings.Join(of, ",") + "}'" }
	var ids, tokens, most []string
	for _, h := range heads {
		ids, tokens = append(ids, h.ID.String()), append(tokens, h.Token.String())
		most = append(most, fmt.Sprint(perKey-1))
	}
	take, settle := r.table.RunTexts()
	explain("take", take, strings.Join([]string{array(ids), array(tokens), array(most), "'1 minute'"}, ", "))
	ids, tokens = nil, nil
	var runs, places, whats []string
	rows, err := r.pool.Query(ctx, "SELECT id, owner_token, concurrency_key, n FROM work WHERE status = 1 ORDER BY id")
	r.ok(err)
	for rows.Next() {
		var id, token uuid.UUID
		var key string
		var n int64
		r.ok(rows.Scan(&id, &token, &key, &n))
		ids, tokens, runs = append(ids, id.String()), append(tokens, token.String()), append(runs, key)
		places, whats = append(places, fmt.Sprint(n)), append(whats, "0")
	}
	r.ok(rows.Err())
	if len(ids) != keys*perKey {
		t.Fatalf("the runs have %d rows, want %d", len(ids), keys*perKey)
	}
	explain("settle", settle, strings.Join([]string{array(ids), array(runs), array(places), array(whats),
		array(tokens)}, ", "))
}
