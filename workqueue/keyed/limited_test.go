package keyed_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

func TestLimitedKeyLetsSoManyThrough(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	two := keyed.Limited{Key: "a", MaxRunning: 2}
	r.insert(row(1, two), row(2, two), row(3, two), row(4, two), row(10, keyed.Limited{Key: "b", MaxRunning: 1}))
	token, ids := r.expect(1, 2, 10)
	r.expect()
	done["ack"](r, token, ids[:1])
	r.expect(3)
	failed["fail"](r, token, ids[1:2])
	r.expect(4)
}

func TestRetriesOfLimitedKeysGiveTheirPlaceUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := keyed.Limited{Key: "a", MaxRunning: 1}
	r.insert(row(1, one), row(2, one))
	token, ids := r.expect(1)
	_, err := r.queue.Abandon(t.Context(), token, ids, time.Hour, "later")
	r.ok(err)
	token, ids = r.expect(2)
	r.exec("UPDATE work SET due_at = now() WHERE n = 1")
	r.expect()
	done["ack"](r, token, ids)
	r.expect(1)
}

func TestRowsDueLaterWaitForTheirTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(late(1, keyed.Limited{Key: "a", MaxRunning: 1}), row(2, keyed.Limited{Key: "a", MaxRunning: 1}))
	token, ids := r.expect(2)
	done["ack"](r, token, ids)
	r.expect()
	r.exec("UPDATE work SET due_at = now() WHERE n = 1")
	r.expect(1)
}

// A limit that has been changed holds as soon as a row comes with it, whatever those that are through came with.
func TestTheFirstThatWaitsSaysTheLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	limit := func(n int) keyed.Rule { return keyed.Limited{Key: "a", MaxRunning: n} }
	r.insert(row(1, limit(1)))
	token, ids := r.expect(1)
	r.insert(row(2, limit(2)))
	r.expect(2)
	r.insert(row(3, limit(1)))
	done["ack"](r, token, ids)
	r.expect() // 2 is through
}

func TestACancelledRowTakesNoPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := keyed.Limited{Key: "a", MaxRunning: 1}
	ids := r.insert(row(1, one), row(2, one))
	_, err := r.queue.Cancel(t.Context(), ids[:1], "")
	r.ok(err)
	r.expect(2)
}

func TestRowsDueLaterTakeNoPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	two := keyed.Limited{Key: "a", MaxRunning: 2}
	r.insert(row(1, two), late(2, two))
	r.expect(1)
	r.insert(row(3, two))
	r.expect(3)
}

// The rate of a key is that of the row that is next.
func TestRowsDueLaterFillNoBucket(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	slow := keyed.Limited{Key: "a", Rate: 0.001, Burst: 1}
	r.insert(row(1, slow))
	r.expect(1)
	r.insert(late(2, keyed.Limited{Key: "a", Rate: keyed.MaxRate, Burst: 1}))
	r.insert(row(3, slow))
	r.expect()
}

func TestRateLetsABurstThroughAndThenItsRate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	slow := keyed.Limited{Key: "a", Rate: 0.001, Burst: 3}
	for i := range 5 {
		r.insert(row(i, slow))
	}
	r.expect(0, 1, 2)
	r.expect()
	later := func(interval string) {
		r.exec("UPDATE work_key_state SET next_at = next_at - $1::text::interval", interval)
		r.exec("UPDATE work_key_note SET at = at - $1::text::interval", interval)
	}
	later("1001 seconds")
	r.expect(3)
	later("1 day")
	r.expect(4)
	if used := ask[float64](r,
		"SELECT extract(epoch FROM next_at - clock_timestamp())::float8 FROM work_key_state"); used < 990 ||
		used > 1000 {
		t.Errorf("the next row but two may start in %v s, want 1,000 after a day and one row", used)
	}
}

// Rows are let through ahead of their time, each due when the rate allows it. A row that may start when the fold lets
// it through is due at the front of the queue, which is earlier: it starts no earlier than the fold, whose time follows
// from the time of the next start that the fold has stored.
func TestRateSpacesRows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const gap = 10 * time.Millisecond
	for i := range 60 {
		r.insert(row(i, keyed.Limited{Key: "a", Rate: 100, Burst: 1}))
	}
	var starts []time.Time
	r.eventually("all rows are through", func() bool {
		n := r.through()
		r.exec("SELECT pg_sleep(0.01); SELECT work_key_fold(1000)") // a slow one: its transaction began before it
		if n = r.through() - n; n == 0 {
			return false
		}
		first := ask[time.Time](r, "SELECT next_at FROM work_key_state").Add(-time.Duration(n) * gap)
		found, err := r.pool.Query(t.Context(), "SELECT greatest(due_at, $1) FROM work WHERE NOT waiting AND n >= $2 "+
			"ORDER BY n", first, len(starts))
		r.ok(err)
		more, err := pgx.CollectRows(found, pgx.RowTo[time.Time])
		r.ok(err)
		starts = append(starts, more...)
		return len(starts) == 60
	})
	for i, at := range starts[1:] {
		if between := at.Sub(starts[i]); between < gap {
			t.Errorf("rows %d and %d are %v apart, the rate allows %v", i, i+1, between, gap)
		}
	}
	// How late they are depends on the machine: TestRatesAreMet tells the folds what time it is.
}

func TestNeverMoreThanTheLimitRun(t *testing.T) {
	t.Parallel()
	const keys, limit, rows = 4, 3, 200
	r := newRig(t)
	var running [keys]atomic.Int32
	var most atomic.Int32
	for range 3 {
		r.work(workqueue.WorkerOptions{Concurrency: 16}, func(ctx context.Context, c *workqueue.Claim[body]) error {
			k := int((*c.Body.Key)[0] - '0')
			if n := running[k].Add(1); n > most.Load() {
				most.Store(n)
			}
			defer running[k].Add(-1)
			pgtest.Pass(time.Duration(rand.IntN(3)) * time.Millisecond)
			if rand.IntN(10) == 0 && c.Attempt < c.MaxAttempts {
				return errors.New("try again")
			}
			return nil
		})
	}
	for i := range rows {
		r.insert(row(i, keyed.Limited{Key: fmt.Sprint(i % keys), MaxRunning: limit}))
	}
	r.eventually("all rows", func() bool { return ask[int](r, "SELECT count(*) FROM work WHERE status = 2") == rows })
	if n := most.Load(); n > limit {
		t.Errorf("%d rows of a key ran at once, the limit is %d", n, limit)
	}
}

// What a bug, or somebody's own SQL, has stranded.
func TestSweepRepairs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 10 {
		r.insert(row(i, serial(fmt.Sprint(i))))
	}
	r.fold()
	r.exec("UPDATE work SET waiting = true")
	r.sweep()
	if n := r.fold(); n != 10 {
		t.Errorf("the sweep let %d rows through, want 10", n)
	}
	r.expect(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
}

// Many rows behind a blocked key in front of 1,000 free ones.
func TestBlockedRowsCostClaimsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	crowd := func(n int) {
		r.exec(`INSERT INTO work (n, concurrency_key, key_limit, key_policy) SELECT 1000000 + g, 'blocked', 0, 1 FROM generate_series(1, $1) AS g`, n)
	}
	free := func() int {
		r.exec("INSERT INTO work (n) SELECT g FROM generate_series(1, 1000) AS g")
		return r.claimBuffers()
	}
	r.exec("ANALYZE work")
	alone := free()
	r.insert(row(1, keyed.Ordered{Key: "blocked", OnFailure: keyed.Block}))
	token, _, ids := r.claim()
	failed["fail"](r, token, ids)
	crowd(pgtest.Size(20_000, 100_000))
	crowded := free()
	// Indexes of more rows may be deeper by a page for each row. A claim that saw the crowd would read 20,000 rows.
	if deeper := 3 * 100; crowded > alone+deeper {
		t.Errorf("a claim reads %d buffers in front of a crowd, %d without: more than %d more", crowded, alone, deeper)
	}
	t.Logf("buffers of a claim of 100: %d without, %d with blocked rows", alone, crowded)
}

// claimBuffers is what a claim of 100 reads. The claim is undone.
func (r *rig) claimBuffers() (buffers int) {
	r.Helper()
	tx := r.begin()
	defer tx.Rollback(context.Background())
	for _, setting := range []string{"enable_seqscan", "enable_bitmapscan", "enable_sort"} {
		_, err := tx.Exec(context.Background(), "SET LOCAL "+setting+" = off")
		r.ok(err)
	}
	var plan []byte
	r.ok(tx.QueryRow(context.Background(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
		UPDATE work AS t SET status = 1, attempts = t.attempts + 1, owner_token = gen_random_uuid(), locked_until = clock_timestamp() + interval '1 minute'
		WHERE t.ctid = ANY (ARRAY(
			SELECT r.ctid FROM work AS r WHERE r.completed_at IS NULL AND NOT r.waiting AND r.status = 0 AND r.due_at <= now()
			ORDER BY r.due_at, r.id LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED))`).Scan(&plan))
	var explained []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	r.ok(json.Unmarshal(plan, &explained))
	return explained[0].Plan.Hit + explained[0].Plan.Read
}

func TestRulesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	long := string(slices.Repeat([]byte{'k'}, 256))
	for name, g := range map[string]keyed.Rule{
		"no key":              keyed.Ordered{},
		"a long key":          keyed.Ordered{Key: long},
		"NUL":                 keyed.Ordered{Key: "a\x00"},
		"negative":            keyed.Limited{Key: "a", MaxRunning: -1},
		"policy unknown":      keyed.Ordered{Key: "a", OnFailure: 3},
		"no limit":            keyed.Limited{Key: "a"},
		"no key of a limit":   keyed.Limited{MaxRunning: 1},
		"a pointer":           &keyed.Ordered{Key: "a"},
		"a nil pointer":       (*keyed.Limited)(nil),
		"negative rate":       keyed.Limited{Key: "a", MaxRunning: 1, Rate: -1},
		"rate beyond floats":  keyed.Limited{Key: "a", MaxRunning: 1, Rate: 1e308},
		"rate of nothing":     keyed.Limited{Key: "a", MaxRunning: 1, Rate: 5e-324},
		"burst without rate":  keyed.Limited{Key: "a", MaxRunning: 1, Burst: 1},
		"burst that is large": keyed.Limited{Key: "a", MaxRunning: 1, Rate: 1, Burst: math.MaxInt32 + 1},
	} {
		if err := keyed.Validate(g); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, g := range []keyed.Rule{nil, keyed.None{}, serial("a"), keyed.Limited{Key: "a", Rate: 1e9}} {
		if err := keyed.Validate(g); err != nil {
			t.Error(err)
		}
	}
}

// The policies as they are stored: those of sql/keyed.up.sql. The one that nobody chose keeps the order.
func TestPolicies(t *testing.T) {
	t.Parallel()
	var zero keyed.Policy
	if zero != keyed.Block {
		t.Errorf("the zero policy is %v", zero)
	}
	r := newRig(t)
	for n, c := range []struct {
		rule   keyed.Rule
		stored int
	}{
		{keyed.Ordered{Key: "b"}, 1},
		{keyed.Ordered{Key: "p", OnFailure: keyed.Park}, 2},
		{keyed.Ordered{Key: "s", OnFailure: keyed.Skip}, 0},
		{keyed.Limited{Key: "l", MaxRunning: 1}, 0},
	} {
		r.insert(row(n, c.rule))
		if stored := ask[int](r, "SELECT key_policy FROM work WHERE n = $1", n); stored != c.stored {
			t.Errorf("%+v is stored as %d, want %d", c.rule, stored, c.stored)
		}
	}
	for p, name := range map[keyed.Policy]string{keyed.Block: "block", keyed.Park: "park", keyed.Skip: "skip"} {
		var read keyed.Policy
		text, err := p.MarshalText()
		if err = cmp.Or(err, read.UnmarshalText(text)); err != nil || read != p || string(text) != name ||
			read.String() != name {
			t.Errorf("%v is written %q and read as %v: %v", p, text, read, err)
		}
	}
	if _, err := (keyed.Skip + 1).MarshalText(); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("an unknown policy is written: %v", err)
	}
	if err := new(keyed.Policy).UnmarshalText([]byte("drop")); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("an unknown policy is read: %v", err)
	}
}

func TestDDLNeedsItsColumnsAndGoesBack(t *testing.T) {
	t.Parallel()
	if _, _, err := keyed.DDL(workqueue.Spec{Table: "work"}); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("without the columns: %v", err)
	}
	if _, _, err := keyed.DDL(workqueue.Spec{Table: "work", Columns: workqueue.ColumnsOf(keys)}); !errors.Is(err,
		workqueue.ErrInvalid) {
		t.Errorf("without the sweep: %v", err)
	}
	half := workqueue.Spec{Table: "work", Columns: workqueue.ColumnsOf(keys), KeyColumn: keyed.KeyColumn,
		Sweeps: []string{keyed.SweepSuffix}}
	if _, _, err := keyed.DDL(half); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("without the fold: %v", err)
	}
	r := newRig(t)
	_, down, err := keyed.DDL(r.table.Spec())
	r.ok(err)
	_, core, err := r.table.Spec().DDL()
	r.ok(err)
	r.exec(down + core)
	if n := ask[int](r, "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace"); n != 0 {
		t.Errorf("%d relations are left", n)
	}
	if n := ask[int](r, "SELECT count(*) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace"); n != 0 {
		t.Errorf("%d functions are left", n)
	}
}

func TestSweepsAndFoldsRefuseToDoNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, name := range []string{"work_key_sweep", "work_key_fold"} {
		for _, n := range []any{0, -1, nil} {
			if _, err := r.pool.Exec(t.Context(), "SELECT "+name+"($1)", n); err == nil {
				t.Errorf("%s(%v): no error", name, n)
			}
		}
	}
}
