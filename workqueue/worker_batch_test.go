package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// A batchHandler records the sizes of its calls.
type batchHandler struct {
	mu    sync.Mutex
	calls [][]string // the topics of their rows
}

func (h *batchHandler) note(batch []*noteClaim) (call int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	topics := make([]string, len(batch))
	for i, c := range batch {
		topics[i] = c.Body.Topic
	}
	h.calls = append(h.calls, topics)
	return len(h.calls)
}

// sizes are how many rows the calls had.
func (h *batchHandler) sizes() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	sizes := make([]int, len(h.calls))
	for i, topics := range h.calls {
		sizes[i] = len(topics)
	}
	return sizes
}

func (r *rig) batchWorker(b workqueue.BatchOptions, o workqueue.WorkerOptions,
	handler workqueue.BatchHandler[note]) *workqueue.Worker {
	r.Helper()
	batch, err := workqueue.NewBatch(b, func(n *note) int { return len(n.Payload) }, handler)
	if err != nil {
		r.Fatal(err)
	}
	w, err := workqueue.NewBatchWorker(r.Pool, r.Domain, batch, o)
	if err != nil {
		r.Fatal(err)
	}
	return w
}

// startBatches runs a worker with a batch handler until the test ends or stops it.
func (r *rig) startBatches(b workqueue.BatchOptions, o workqueue.WorkerOptions,
	handler workqueue.BatchHandler[note]) *running {
	r.Helper()
	return r.run(r.batchWorker(b, o, handler))
}

// drainBatches handles what is due, one batch after the other.
func (r *rig) drainBatches(b workqueue.BatchOptions, handler workqueue.BatchHandler[note]) int {
	r.Helper()
	d := r.drain(r.batchWorker(b, workqueue.WorkerOptions{Concurrency: 1}, handler).Drain())
	n, err := d.Process(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	return n
}

// A result settles its own row as the same result of a handler of one row does.
func TestABatchHasAResultForEachRow(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Retry = never }})
	ids := r.insert("done", "error", "now", "permanent", "snooze", "cancelled", "left")
	cause := errors.New("refused")
	results := map[string]error{"error": cause, "now": workqueue.RetryAfter(time.Minute, cause),
		"permanent": workqueue.Permanent(cause), "snooze": workqueue.Snooze(time.Minute),
		"cancelled": workqueue.Cancelled("no need"), "left": workqueue.LeaveFor(time.Minute, cause)}
	h := &batchHandler{}
	if n := r.drainBatches(workqueue.BatchOptions{}, func(_ context.Context, b []*noteClaim) ([]error, error) {
		h.note(b)
		each := make([]error, len(b))
		for i, c := range b {
			each[i] = results[c.Body.Topic]
		}
		return each, nil
	}); n != len(ids) || !slices.Equal(h.sizes(), []int{len(ids)}) {
		t.Fatalf("handled %d rows in calls of %d", n, h.sizes())
	}
	type end struct {
		status    workqueue.Status
		attempts  int
		cancelled bool
	}
	for i, want := range []end{{workqueue.Done, 1, false}, {workqueue.Ready, 1, false}, {workqueue.Ready, 1, false},
		{workqueue.Failed, 1, false}, {workqueue.Ready, 0, false}, {workqueue.Failed, 1, true},
		{workqueue.Ready, 0, false}} {
		if row := r.row(ids[i]); (end{row.Status, row.Attempts, row.Cancelled}) != want {
			t.Errorf("%s is %+v, want %+v", row.Topic, row, want)
		}
	}
	outcomes := map[uuid.UUID]workqueue.RowOutcome{}
	r.Events.count(func(e workqueue.Event) bool {
		for _, row := range e.Rows {
			if row.Outcome != "" {
				outcomes[row.ID] = row.Outcome
			}
		}
		return false
	})
	for i, want := range []workqueue.RowOutcome{workqueue.RowAcked, workqueue.RowAbandoned, workqueue.RowAbandoned,
		workqueue.RowFailed, workqueue.RowSnoozed, workqueue.RowCancelled, workqueue.RowLeft} {
		if outcomes[ids[i]] != want {
			t.Errorf("%s: told %q, want %q", r.row(ids[i]).Topic, outcomes[ids[i]], want)
		}
	}
}

// However a call fails, only the poisons are charged an attempt.
func TestAPoisonIsFoundByHalving(t *testing.T) {
	t.Parallel()
	refuse := errors.New("there is a poison")
	for name, fail := range map[string]func(context.Context, []*noteClaim) ([]error, error){
		"error": func(context.Context, []*noteClaim) ([]error, error) { return nil, refuse },
		"outcome": func(context.Context, []*noteClaim) ([]error, error) {
			return nil, workqueue.RetryAfter(time.Hour, refuse)
		},
		"permanent": func(context.Context, []*noteClaim) ([]error, error) { return nil, workqueue.Permanent(refuse) },
		"panic":     func(context.Context, []*noteClaim) ([]error, error) { panic(refuse) },
		"exit":      func(context.Context, []*noteClaim) ([]error, error) { runtime.Goexit(); return nil, nil },
		"too few results": func(_ context.Context, b []*noteClaim) ([]error, error) {
			return make([]error, len(b)+1), nil
		},
		"timeout": func(ctx context.Context, _ []*noteClaim) ([]error, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
	} {
		for _, poisons := range [][]int{{0}, {49}, {99}, {7, 8, 70}} {
			t.Run(fmt.Sprint(name, poisons), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Retry = never }})
				topics := slices.Repeat([]string{"good"}, 100)
				for _, at := range poisons {
					topics[at] = "poison"
				}
				r.insert(topics...)
				h := &batchHandler{}
				handler := func(ctx context.Context, b []*noteClaim) ([]error, error) {
					h.note(b)
					if slices.ContainsFunc(b, func(c *noteClaim) bool { return c.Body.Topic == "poison" }) {
						return fail(ctx, b)
					}
					return nil, nil
				}
				w := r.batchWorker(workqueue.BatchOptions{}, workqueue.WorkerOptions{Concurrency: 1,
					HandlerTimeout: time.Second / 5}, handler)
				r.process(r.drain(w.Drain()), 100)
				if n := r.count("topic = 'good' AND status = 2 AND attempts = 1"); n != 100-len(poisons) {
					t.Errorf("%d good rows are done: %s", n, r.summary())
				}
				charged := "status = 0 AND attempts = 1 AND last_error IS NOT NULL"
				if name == "permanent" {
					charged = "status = 3"
				}
				if n := r.count("topic = 'poison' AND " + charged); n != len(poisons) {
					t.Errorf("%d poisons are charged, want %d: %s", n, len(poisons), r.summary())
				}
				if n := len(h.sizes()); n > 1+len(poisons)*14 {
					t.Errorf("%d calls: %d", n, h.sizes())
				}
			})
		}
	}
}

// While nothing succeeds there is no poison to be found: few rows are charged, and few calls are made.
func TestAnOutageUsesUpFewAttempts(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Retry = never }})
	r.insertMany("a", 100)
	h := &batchHandler{}
	var up atomic.Bool
	w := r.batchWorker(workqueue.BatchOptions{}, workqueue.WorkerOptions{Concurrency: 1}, func(_ context.Context,
		b []*noteClaim) ([]error, error) {
		if h.note(b); up.Load() {
			return nil, nil
		}
		return nil, errors.New("nobody answers")
	})
	d := r.drain(w.Drain())
	r.process(d, 100)
	if sizes := h.sizes(); !slices.Equal(sizes, []int{100, 50, 25, 12, 6, 3, 1, 2, 1, 1, 3, 1, 2, 1}) {
		t.Errorf("calls of %d rows", sizes)
	}
	if n := r.count("attempts = 1 AND last_error = 'nobody answers'"); n != 5 {
		t.Errorf("%d rows failed alone, want 5", n)
	}
	rest := "attempts = 0 AND status = 0 AND due_at > now() + interval '50 min' AND last_error LIKE " +
		"'%all calls of its batch failed, the last with: nobody answers%'"
	if n := r.count(rest); n != 95 {
		t.Errorf("%d rows are put back, want 95: %s", n, ask[string](r, "SELECT max(last_error) FROM notes"))
	}
	logs := r.Logs.String()
	if strings.Count(logs, "batch failed, its") != 1 || strings.Count(logs, "all calls of") != 1 {
		t.Errorf("logged: %s", logs)
	}
	up.Store(true)
	r.exec("UPDATE notes SET due_at = now()")
	r.process(d, 100)
	if n := r.count("status = 2"); n != 100 {
		t.Error(r.summary())
	}
}

// A handler that finds its receiver away says so for all: no attempt is used up, and it is not asked again.
func TestAWholeBatchIsSnoozed(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.insertMany("a", 10)
	h := &batchHandler{}
	r.drainBatches(workqueue.BatchOptions{}, func(_ context.Context, b []*noteClaim) ([]error, error) {
		if h.note(b) == 2 { // the first half of a batch that failed
			return nil, workqueue.SnoozeFor(time.Hour, errors.New("away"))
		}
		return nil, errors.New("broken")
	})
	if n := r.count("status = 0 AND attempts = 0 AND last_error LIKE '%away%'"); n != 10 ||
		!slices.Equal(h.sizes(), []int{10, 5}) {
		t.Errorf("%d rows are put back after calls of %d", n, h.sizes())
	}
}

func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    workqueue.BatchOptions
		want []int
		full bool // all of them
	}{
		"rows":            {workqueue.BatchOptions{Limit: 4}, []int{4, 4, 4}, true},
		"rows, a rest":    {workqueue.BatchOptions{Limit: 5}, []int{5, 5, 2}, false},
		"bytes":           {workqueue.BatchOptions{Bytes: 40}, []int{4, 4, 4}, true},
		"too many bytes":  {workqueue.BatchOptions{Bytes: 39}, []int{3, 3, 3, 3}, false},
		"more than bytes": {workqueue.BatchOptions{Bytes: 5}, slices.Repeat([]int{1}, 12), true},
		"any bytes":       {workqueue.BatchOptions{Limit: 12, Bytes: -1}, []int{12}, true},
		"one":             {workqueue.BatchOptions{Limit: 1}, slices.Repeat([]int{1}, 12), true},
	} {
		handled := func(t *testing.T, run func(r *rig, h workqueue.BatchHandler[note], ids []uuid.UUID)) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			rows := make([]workqueue.NewRow, 12)
			for i := range rows {
				rows[i].Values = []any{"a", "ten bytes."}
			}
			h := &batchHandler{}
			run(r, func(_ context.Context, b []*noteClaim) ([]error, error) { h.note(b); return nil, nil },
				r.insertRows(rows...))
			if got := h.sizes(); !slices.Equal(got, c.want) {
				t.Errorf("calls of %d rows, want %d", got, c.want)
			}
		}
		t.Run(name+" drained", func(t *testing.T) {
			handled(t, func(r *rig, h workqueue.BatchHandler[note], _ []uuid.UUID) { r.drainBatches(c.o, h) })
		})
		if !c.full {
			continue
		}
		t.Run(name, func(t *testing.T) { // a batch that is not full would wait
			handled(t, func(r *rig, h workqueue.BatchHandler[note], ids []uuid.UUID) {
				c.o.Linger = time.Hour
				r.startBatches(c.o, workqueue.WorkerOptions{Concurrency: 1}, h)
				r.awaitStatus(workqueue.Done, ids...)
			})
		})
	}
}

// A batch that lingers takes the rows of later claims, and does not wait when it is full.
func TestABatchLingers(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	h := &batchHandler{}
	r.startBatches(workqueue.BatchOptions{Limit: 3, Linger: time.Hour}, workqueue.WorkerOptions{Concurrency: 2},
		func(_ context.Context, b []*noteClaim) ([]error, error) { h.note(b); return nil, nil })
	var ids []uuid.UUID
	for n := range 6 {
		ids = append(ids, r.insert("a")...)
		r.eventually("its claim", func() bool { return r.count("status > 0") == n+1 })
	}
	r.awaitStatus(workqueue.Done, ids...)
	if !slices.Equal(h.sizes(), []int{3, 3}) {
		t.Errorf("calls of %d rows", h.sizes())
	}
}

// A batch that is not full begins when the time of its first row is over.
func TestABatchDoesNotLingerForEver(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.startBatches(workqueue.BatchOptions{Linger: 20 * time.Millisecond}, workqueue.WorkerOptions{},
		func(context.Context, []*noteClaim) ([]error, error) { return nil, nil })
	r.awaitStatus(workqueue.Done, r.insert("a")...)
}

// A worker that stops puts back what its batch has gathered.
func TestAShutdownPutsAGatheringBatchBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	w := r.startBatches(workqueue.BatchOptions{Linger: time.Hour}, workqueue.WorkerOptions{},
		func(context.Context, []*noteClaim) ([]error, error) { t.Error("called"); return nil, nil })
	r.insertMany("a", 3)
	r.eventually("the claim", func() bool { return r.count("status = 1") == 3 })
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	if n := r.count("status = 0 AND attempts = 0 AND due_at <= now() AND last_error IS NULL"); n != 3 {
		t.Error(r.summary())
	}
}

// At the end of the grace period the call is cancelled, and what it had is put back.
func TestAShutdownInTheMiddleOfABatch(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Retry = never }})
	started, calls := make(chan struct{}, 1), atomic.Int32{}
	w := r.startBatches(workqueue.BatchOptions{Limit: 3, Linger: time.Hour}, workqueue.WorkerOptions{
		ShutdownTimeout: time.Millisecond}, func(ctx context.Context, b []*noteClaim) ([]error, error) {
		calls.Add(1)
		started <- struct{}{}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), workqueue.ErrShutdown) {
			t.Errorf("cancelled for %v", context.Cause(ctx))
		}
		return nil, ctx.Err()
	})
	r.insertMany("a", 3)
	receive(t, started, "the batch")
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	if n := r.count("status = 0 AND attempts = 0 AND due_at <= now()"); n != 3 || calls.Load() != 1 {
		t.Errorf("%d rows are put back after %d calls: %s", n, calls.Load(), r.summary())
	}
}

// The leases of a batch are renewed while it runs, whichever half it is in.
func TestTheLeasesOfALongBatchAreRenewed(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	started, release := make(chan struct{}), make(chan struct{})
	r.startBatches(workqueue.BatchOptions{Limit: 4, Linger: time.Hour}, workqueue.WorkerOptions{Lease: pgtest.Lease},
		func(ctx context.Context, b []*noteClaim) ([]error, error) {
			if len(b) == 4 {
				return nil, errors.New("too many")
			}
			if b[0].Body.Topic == "first" {
				close(started)
				<-release
			}
			return nil, ctx.Err()
		})
	ids := r.insert("first", "second", "third", "fourth")
	receive(t, started, "the first half")
	r.awaitRenewals(ids[0], 3)
	r.awaitRenewals(ids[3], 1)
	if reaped, err := r.Queue.ReapExpired(t.Context(), 100); err != nil || reaped != (workqueue.Reaped{}) {
		t.Errorf("reaped %+v, %v", reaped, err)
	}
	close(release)
	r.awaitStatus(workqueue.Done, ids...)
}

// What a call has decided is settled while the other half still runs.
func TestAHalfIsSettledAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	release := make(chan struct{})
	r.startBatches(workqueue.BatchOptions{Limit: 4, Linger: time.Hour}, workqueue.WorkerOptions{},
		func(ctx context.Context, b []*noteClaim) ([]error, error) {
			if b[len(b)-1].Body.Topic != "hangs" {
				return nil, nil
			}
			if len(b) == 4 {
				return nil, errors.New("slow")
			}
			<-release
			return nil, nil
		})
	ids := r.insert("a", "b", "c", "hangs")
	r.awaitStatus(workqueue.Done, ids[:2]...)
	if n := r.count("status = 1"); n != 2 {
		t.Error(r.summary())
	}
	close(release)
	r.awaitStatus(workqueue.Done, ids...)
}

// The call goes on if a row of it is cancelled, or its lease is lost, and is cancelled if all are.
func TestRowsOfABatchAreCancelled(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Retry = never }})
	started, rest := make(chan context.Context, 1), make(chan struct{})
	r.startBatches(workqueue.BatchOptions{Limit: 3, Linger: time.Hour}, workqueue.WorkerOptions{Lease: pgtest.Lease},
		func(ctx context.Context, b []*noteClaim) ([]error, error) {
			started <- ctx
			<-rest
			<-ctx.Done()
			return nil, ctx.Err()
		})
	ids := r.insert("a", "b", "c")
	ctx := receive(t, started, "the batch")
	cancel := func(id uuid.UUID) {
		if _, err := r.Queue.Cancel(t.Context(), []uuid.UUID{id}, "no need"); err != nil {
			t.Fatal(err)
		}
	}
	cancel(ids[0])
	r.exec("UPDATE notes SET owner_token = gen_random_uuid() WHERE id = $1", ids[1])
	r.eventually("the lease to be found lost", func() bool {
		return r.Events.count(refused("extend",
			workqueue.ErrLeaseLost)) > 0
	})
	if ctx.Err() != nil {
		t.Error("the call is cancelled though a row of it is not")
	}
	close(rest)
	cancel(ids[2])
	receive(t, ctx.Done(), "the cancel of the call")
	r.eventually("the settles", func() bool { return r.count("cancelled_at IS NOT NULL AND status = 3") == 2 })
	if row := r.row(ids[1]); row.Status != workqueue.InProgress {
		t.Errorf("the lost row is %+v", row)
	}
}

// A row that may be attempted once only is called alone, and once.
func TestARowOfOneAttemptIsNoPartOfABatch(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.exec("INSERT INTO notes (id, topic, payload, max_attempts) SELECT gen_random_uuid(), CASE n % 2 WHEN 0 THEN " +
		"'once' ELSE 'often' END, '', CASE n % 2 WHEN 0 THEN 1 ELSE 2 END FROM generate_series(1, 20) AS n")
	h := &batchHandler{}
	r.drainBatches(workqueue.BatchOptions{}, func(_ context.Context, b []*noteClaim) ([]error, error) {
		if h.note(b); len(b) == 10 {
			return nil, errors.New("halve it")
		}
		return nil, nil
	})
	once, often := 0, 0
	for _, topics := range h.calls {
		if i := slices.Index(topics, "once"); i >= 0 {
			once++
			if len(topics) != 1 {
				t.Errorf("called with %q", topics)
			}
		} else {
			often += len(topics)
		}
	}
	if once != 10 || often != 20 {
		t.Errorf("%d calls of rows of one attempt, %d rows in others: %d", once, often, h.sizes())
	}
}

// A claim that its handler settles in a transaction of its own is settled, whatever becomes of the call.
func TestTxInABatch(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Retry = never }})
	r.exec("CREATE TABLE effects (topic text)")
	ids := r.insert("tx", "b", "c")
	calls := 0
	r.drainBatches(workqueue.BatchOptions{}, func(ctx context.Context, b []*noteClaim) ([]error, error) {
		calls++
		for _, c := range b {
			if c.Body.Topic != "tx" {
				continue
			}
			if err := c.Tx(ctx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", c.Body.Topic)
				return err
			}); err != nil {
				t.Error(err)
			}
		}
		if calls == 1 {
			return nil, errors.New("then it failed")
		}
		return nil, nil
	})
	if n := ask[int](r, "SELECT count(*)::int FROM effects"); n != 1 || r.count("status = 2") != len(ids) {
		t.Errorf("%d effects, %s", n, r.summary())
	}
}

// In a transaction of the application a batch is halved in the same way.
func TestABatchIsDrainedInATransaction(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Retry = never }})
	r.insert("a", "b", "poison", "d")
	h := &batchHandler{}
	w := r.batchWorker(workqueue.BatchOptions{}, workqueue.WorkerOptions{}, func(_ context.Context,
		b []*noteClaim) ([]error, error) {
		if h.note(b); slices.ContainsFunc(b, func(c *noteClaim) bool { return c.Body.Topic == "poison" }) {
			return nil, errors.New("poison")
		}
		return nil, nil
	})
	if err := pgx.BeginFunc(t.Context(), r.Pool, func(tx pgx.Tx) error {
		r.process(r.drain(w.DrainIn(tx)), 4)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := r.count("status = 2 AND attempts = 1"); n != 3 || !slices.Equal(h.sizes(), []int{4, 2, 2, 1, 1}) {
		t.Errorf("calls of %d rows, %s", h.sizes(), r.summary())
	}
}

// Several batches run at once, and none of them has a row of another.
func TestBatchesRunSideBySide(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	const rows = 5000
	var seen sync.Map
	r.startBatches(workqueue.BatchOptions{Limit: 50, Linger: time.Millisecond}, workqueue.WorkerOptions{Concurrency: 4},
		func(_ context.Context, b []*noteClaim) ([]error, error) {
			if len(b) > 50 {
				t.Errorf("a batch of %d", len(b))
			}
			for _, c := range b {
				if _, twice := seen.LoadOrStore(c.ID, true); twice {
					t.Errorf("%v is in two batches", c.ID)
				}
			}
			return nil, nil
		})
	r.insertMany("a", rows)
	r.eventually("all rows", func() bool { return r.count("status = 2 AND attempts = 1") == rows })
}

// Functions of the application that say how rows are handled together may panic: then a row is handled alone.
func TestFunctionsOfABatchMayPanic(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	ids := r.insert("together", "alone", "together")
	batch, err := workqueue.NewBatch(workqueue.BatchOptions{Limit: 2, Linger: time.Hour}, func(*note) int {
		panic("no size")
	}, func(_ context.Context, b []*noteClaim) ([]error, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	alone := make(chan string, 3)
	w := r.worker(workqueue.WorkerOptions{}, func(_ context.Context, c *noteClaim) error {
		alone <- c.Body.Topic
		return nil
	})
	if err := workqueue.SetBatches(w, func(n *note) *workqueue.Batch[note] {
		if n.Topic == "alone" {
			panic("no batch")
		}
		return batch
	}, 1); err != nil {
		t.Fatal(err)
	}
	r.run(w)
	r.awaitStatus(workqueue.Done, ids...)
	if len(alone) != 1 || receive(t, alone, "a row") != "alone" {
		t.Error("other rows were handled alone")
	}
}

// A process that dies in the middle of a batch takes no attempt from its rows, and the one that ends it is found.
func TestABatchIsLostWithItsProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	const innocents, attempts = 60, 3
	r.exec("INSERT INTO notes (id, topic, payload, max_attempts) SELECT gen_random_uuid(), CASE n WHEN 30 THEN "+
		"'poison' ELSE 'innocent' END, '', $1 FROM generate_series(0, $2::int) AS n", attempts, innocents)
	for deaths := 0; r.count("topic = 'poison' AND status <> 3") > 0; deaths++ {
		if deaths == attempts+4 {
			t.Fatalf("the poison is not dead after %d deaths: %s", deaths, r.summary())
		}
		child, _ := r.spawnChild(childBatchEnv + "=1")
		var exit *exec.ExitError
		if err := r.awaitChild(child); !errors.As(err, &exit) || exit.ExitCode() != poisoned {
			t.Fatalf("the process ended with %v", err)
		}
		r.eventually("the connections of the process to end", func() bool {
			return ask[int](r, "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = $1",
				childName(r.Schema)) == 0
		})
		if n := r.count("topic = 'innocent' AND status = 3"); n != 0 {
			t.Fatalf("%d innocent rows are dead letters", n)
		}
		r.exec("UPDATE notes SET locked_until = now() - interval '1 s' WHERE status = 1")
		reap(r, 1000)
		r.exec("UPDATE notes SET due_at = CASE topic WHEN 'innocent' THEN now() ELSE now() - interval '1 s' END " +
			"WHERE status = 0")
	}
	r.startBatches(workqueue.BatchOptions{}, workqueue.WorkerOptions{}, func(context.Context, []*noteClaim) ([]error,
		error) {
		return nil, nil
	})
	r.eventually("the innocent", func() bool { return r.count("topic = 'innocent' AND status = 2") == innocents })
}

func TestBatchesAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	none := func(context.Context, []*noteClaim) ([]error, error) { return nil, nil }
	for want, o := range map[string]workqueue.BatchOptions{"batch limit": {Limit: -1},
		"it must be between 1 and 1000": {Limit: 1001}, "batch linger": {Linger: -1}} {
		if _, err := workqueue.NewBatch(o, nil, none); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := workqueue.NewBatch[note](workqueue.BatchOptions{}, nil, nil); err == nil {
		t.Error("a nil handler is taken")
	}
	if _, err := workqueue.NewBatchWorker[note](r.Pool, r.Domain, nil, workqueue.WorkerOptions{}); err == nil {
		t.Error("a nil batch is taken")
	}
	w := r.batchWorker(workqueue.BatchOptions{}, workqueue.WorkerOptions{}, none)
	of := func(*note) *workqueue.Batch[note] { return nil }
	if workqueue.SetBatches(w, of, 0) == nil || workqueue.SetBatches[note](w, nil, 1) == nil {
		t.Error("bad arguments are taken")
	}
	r.run(w)
	r.eventually("its start", func() bool { return w.Ready() == nil })
	if workqueue.SetBatches(w, of, 1) == nil {
		t.Error("a running worker takes batches")
	}
}

// A hook that ends its goroutine is a failed attempt of the rows that it leaves, and costs the worker no handler.
func TestAHookThatEndsTheGoroutineOfABatch(t *testing.T) {
	t.Parallel()
	exit := func() { runtime.Goexit() }
	for name, hook := range map[string]func(*rig, *workqueue.WorkerOptions){
		"leaves": func(r *rig, _ *workqueue.WorkerOptions) {
			r.Domain.Leaves = func(_ context.Context, c *noteClaim) error {
				if c.Body.Topic == "poison" {
					exit()
				}
				return nil
			}
		},
		"redact": func(_ *rig, o *workqueue.WorkerOptions) {
			o.Redact = func(context.Context, string) string { exit(); return "" }
		},
	} {
		for _, place := range []string{"worker", "drain"} {
			t.Run(name+" in a "+place, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.MaxAttempts = 2 }})
				o := workqueue.WorkerOptions{Concurrency: 1}
				hook(r, &o)
				w := r.batchWorker(workqueue.BatchOptions{Limit: 4}, o, func(_ context.Context,
					b []*noteClaim) ([]error, error) {
					if slices.ContainsFunc(b, func(c *noteClaim) bool { return c.Body.Topic == "poison" }) {
						return nil, errors.New("poison")
					}
					return nil, nil
				})
				poisons := r.insertMany("poison", 4)
				if place == "drain" {
					r.process(r.drain(w.Drain()), 8) // each twice
				} else {
					r.run(w)
				}
				r.awaitStatus(workqueue.Failed, poisons...)
				if e := r.row(poisons[3]).Error; !strings.Contains(e, "goroutine") {
					t.Errorf("the row says %q", e)
				}
				if place == "worker" {
					r.awaitStatus(workqueue.Done, r.insertMany("good", 4)...)
				}
			})
		}
	}
}

// What a call has started may read its claims while another call has them.
func TestAHandlerKeepsTheClaimsOfABatch(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.insertMany("a", 8)
	var kept sync.WaitGroup
	var attempts atomic.Int32
	r.drainBatches(workqueue.BatchOptions{}, func(_ context.Context, b []*noteClaim) ([]error, error) {
		kept.Go(func() {
			for range 1000 {
				for _, c := range b {
					attempts.Add(int32(c.Attempt))
					c.RunsWithin(time.Minute)
				}
			}
		})
		if len(b) == 8 {
			return nil, errors.New("once")
		}
		return nil, nil
	})
	kept.Wait()
	if n := attempts.Load(); n != 2*8*1000 {
		t.Errorf("calls saw %d attempts", n)
	}
}
