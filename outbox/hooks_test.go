package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/dispatch"
)

// Durable hooks are handlers by topic that a dispatcher calls in the process. These tests cover the cases of the
// specification from which the dispatchers originate, see docs/seeds.md.

// hooks are handlers that record the deliveries with which they were called.
type hooks struct {
	*fixture
	drain *workqueue.Drain

	mu    sync.Mutex
	calls []outbox.Delivery
	fail  error // what the next calls return
}

func newHooks(t *testing.T, topics ...string) *hooks {
	t.Helper()
	h := &hooks{fixture: newOutbox(t)}
	r, err := outbox.NewRelay(h.Pool, h.box, outbox.RelayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range topics {
		r.Handle(topic, h.call)
	}
	if h.drain, err = r.Drain(); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *hooks) call(_ context.Context, m *outbox.Delivery) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, *m)
	return h.fail
}

func (h *hooks) called() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.calls)
}

// process runs the drain once, and expects it to process this many messages.
func (h *hooks) process(want int) {
	h.Helper()
	if n, err := h.drain.Process(h.Context()); n != want || err != nil {
		h.Fatalf("processed %d, %v; want %d", n, err, want)
	}
}

// wakesIn expects the next wake after about this time.
func (h *hooks) wakesIn(want time.Duration) {
	h.Helper()
	w, err := h.drain.NextWakeAt(h.Context())
	if err != nil || w == nil || w.In > want || w.In < want-slack {
		h.Fatalf("the next wake is %+v, %v; want in %v", w, err, want)
	}
}

// pass makes all waiting messages due, as if time had passed.
func (h *hooks) pass() { h.exec("UPDATE " + h.table + " SET due_at = now() WHERE status = 0") }

func TestHookIsNotExecutedUntilItIsDue(t *testing.T) {
	t.Parallel()
	h := newHooks(t, "a")
	h.enqueue(outbox.Message{Topic: "a", ScheduledAt: time.Now().Add(time.Hour)})
	h.process(0)
	h.pass()
	h.process(1)
	if h.called() != 1 {
		t.Errorf("called %d times", h.called())
	}
}

func TestHookOfThePastIsExecutedAtOnce(t *testing.T) {
	t.Parallel()
	h := newHooks(t, "a")
	h.enqueue(outbox.Message{Topic: "a", ScheduledAt: time.Now().Add(-time.Hour)}, outbox.Message{Topic: "a"})
	h.wakesIn(0)
	h.process(2)
}

// The time at which a hook may first run does not affect its retries: they follow its retry policy.
func TestProcessAtConcernsTheFirstAttemptOnly(t *testing.T) {
	t.Parallel()
	h := newHooks(t, "a")
	h.fail = errors.New("not yet")
	id := h.enqueue(outbox.Message{
		Topic: "a", ScheduledAt: time.Now().Add(10 * time.Minute),
		Retry: workqueue.Retry{Growth: workqueue.Constant, Base: 2 * time.Hour, Cap: 2 * time.Hour},
	})[0]
	h.wakesIn(10 * time.Minute)
	h.pass()
	h.process(1)
	h.wakesIn(2 * time.Hour)
	if row := h.row(id); row.Status != workqueue.Ready || row.Attempts != 1 || row.LastError != "not yet" {
		t.Errorf("the hook is %+v", row)
	}
}

// Retries run without any new message.
func TestRetriesFireByThemselves(t *testing.T) {
	t.Parallel()
	h := newHooks(t, "a")
	h.fail = errors.New("not yet")
	h.enqueue(outbox.Message{Topic: "a", Retry: workqueue.Retry{Growth: workqueue.Constant, Base: 20 * time.Millisecond,
		Cap: time.Second}})
	poll := dispatch.NewPoll(h.drain, dispatch.PollOptions{Interval: time.Hour})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); poll.Run(ctx) }()
	h.until("three attempts", func() bool { return h.called() >= 3 })
	stop()
	<-done
}

func TestHookIsCalledWithTheSameIDOnEveryAttempt(t *testing.T) {
	t.Parallel()
	h := newHooks(t, "a")
	h.fail = errors.New("not yet")
	h.enqueue(outbox.Message{Topic: "a"})
	for range 3 {
		h.process(1)
		h.pass()
	}
	var ids []uuid.UUID
	for _, m := range h.calls {
		ids = append(ids, m.ID)
	}
	if len(ids) != 3 || len(slices.Compact(ids)) != 1 {
		t.Errorf("the idempotency keys were %v", ids)
	}
}

func TestHookThatNobodyRegisteredIsRetriedWithARecordedError(t *testing.T) {
	t.Parallel()
	h := newHooks(t, "a")
	id := h.enqueue(outbox.Message{Topic: "b"})[0]
	h.process(1)
	if row := h.row(id); row.Status != workqueue.Ready || row.LastError != `no handler is registered for topic "b"` {
		t.Errorf("the hook is %+v", row)
	}
}

// The end of a lease is a time to wake at, too: the process that holds it may have died.
func TestNextWakeAtIncludesLeases(t *testing.T) {
	t.Parallel()
	h := newHooks(t, "a")
	if w, err := h.drain.NextWakeAt(t.Context()); w != nil || err != nil {
		t.Errorf("an empty outbox wakes at %+v, %v", w, err)
	}
	h.enqueue(outbox.Message{Topic: "a"})
	if _, err := h.box.Table().On(h.Pool).Claim(t.Context(), workqueue.NewOwnerToken(), 5*time.Minute, 1); err != nil {
		t.Fatal(err)
	}
	h.enqueue(outbox.Message{Topic: "a", ScheduledAt: time.Now().Add(time.Hour)})
	h.wakesIn(5 * time.Minute)
}

// Any number of wakes during a run cause exactly one more run.
func TestOverlappingWakesMakeOneRunMore(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	entered, release := make(chan struct{}, 10), make(chan struct{})
	runs := 0
	p := processor{name: "hooks", process: func(context.Context) (int, error) {
		runs++
		entered <- struct{}{}
		<-release
		return 0, nil
	}}
	poll := dispatch.NewPoll(p, dispatch.PollOptions{Interval: time.Hour})
	ctx, stop := context.WithCancel(f.Context())
	done := make(chan struct{})
	go func() { defer close(done); poll.Run(ctx) }()
	receive(t, entered)
	for range 100 {
		poll.Wake()
	}
	close(release)
	receive(t, entered)
	select {
	case <-entered:
		t.Error("the wakes made more than one run")
	case <-time.After(50 * time.Millisecond):
	}
	stop()
	<-done
	if runs != 2 {
		t.Errorf("%d runs, want 2", runs)
	}
}

// clock is a platform's alarm. It records what is set, and the test fires it.
type clock struct {
	set []time.Duration
}

func (c *clock) SetAlarm(_ context.Context, in time.Duration) error {
	c.set = append(c.set, in)
	return nil
}
func (c *clock) ClearAlarm(context.Context) error { c.set = append(c.set, -1); return nil }
func (c *clock) last() time.Duration              { return c.set[len(c.set)-1] }

// On a platform that has alarms instead of processes, each run sets the next alarm, and the last one clears it.
func TestAlarmFollowsTheHooks(t *testing.T) {
	t.Parallel()
	h := newHooks(t, "a")
	c := &clock{}
	alarm := dispatch.NewAlarm(h.drain, c, nil)
	h.enqueue(outbox.Message{Topic: "a"}, outbox.Message{Topic: "a", ScheduledAt: time.Now().Add(time.Hour)})
	if err := alarm.Schedule(t.Context()); err != nil || c.last() > 0 {
		t.Fatalf("the alarm is set in %v, %v; want at once", c.last(), err)
	}
	if err := alarm.Fire(t.Context()); err != nil || h.called() != 1 || c.last() < time.Hour-slack {
		t.Fatalf("%d calls, the next alarm is in %v, %v", h.called(), c.last(), err)
	}
	before := c.last()
	h.enqueue(outbox.Message{Topic: "a", ScheduledAt: time.Now().Add(2 * time.Hour)})
	if err := alarm.Schedule(t.Context()); err != nil || c.last() > before {
		t.Fatalf("a later hook put the alarm off: %v, %v", c.set, err)
	}
	h.pass()
	if err := alarm.Fire(t.Context()); err != nil || h.called() != 3 || c.last() != -1 {
		t.Fatalf("%d calls, the alarm is %v, %v; want it cleared", h.called(), c.last(), err)
	}
}

type processor struct {
	name    string
	process func(context.Context) (int, error)
	next    *dispatch.Wake
}

func (p processor) Process(ctx context.Context) (int, error)           { return p.process(ctx) }
func (p processor) NextWakeAt(context.Context) (*dispatch.Wake, error) { return p.next, nil }
func (p processor) Namespace() string                                  { return p.name }

// If one processor of a group fails, or the OnError callback does, the other processors continue.
func TestFailuresAreIsolated(t *testing.T) {
	t.Parallel()
	h := newHooks(t, "a")
	h.enqueue(outbox.Message{Topic: "a"})
	told := make(chan error, 100)
	group := dispatch.Group("all",
		processor{name: "bad", process: func(context.Context) (int, error) { panic("bad processor") }},
		h.drain,
		processor{name: "worse", process: func(context.Context) (int, error) { return 0, errors.New("worse") }},
	)
	poll := dispatch.NewPoll(group, dispatch.PollOptions{Interval: time.Millisecond, OnError: func(err error) {
		told <- err
		panic("the callback, too")
	}})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); poll.Run(ctx) }()
	first := receive(t, told)
	receive(t, told) // the poll continues after the panic of the callback
	h.until("the hook is called", func() bool { return h.called() == 1 })
	stop()
	<-done
	for _, part := range []string{"bad processor", "worse"} {
		if !strings.Contains(first.Error(), part) {
			t.Errorf("the error lacks %q: %v", part, first)
		}
	}
}

// In a workflow that sleeps, each step enqueues the hook for the next step, for its time, in its own transaction.
func TestWorkflowThatSleeps(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.exec("CREATE TABLE steps (n int)")
	r, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Handle("workflow", func(ctx context.Context, m *outbox.Delivery) error {
		return m.Tx(ctx, func(tx pgx.Tx) error {
			n := int(m.Payload[0])
			if _, err := tx.Exec(ctx, "INSERT INTO steps VALUES ($1)", n); err != nil || n == 2 {
				return err
			}
			_, err := f.box.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{
				Topic: "workflow", Payload: []byte{m.Payload[0] + 1}, ScheduledAt: time.Now().Add(time.Hour),
			})
			return err
		})
	})
	drain, err := r.Drain()
	if err != nil {
		t.Fatal(err)
	}
	h := &hooks{fixture: f, drain: drain}
	f.enqueue(outbox.Message{Topic: "workflow", Payload: []byte{0}})
	for n := range 3 {
		h.process(1)
		h.process(0)
		if got := f.count("SELECT count(*) FROM steps"); got != n+1 {
			t.Fatalf("%d steps after %d hours", got, n)
		}
		h.pass()
	}
	h.process(0)
	if s := fmt.Sprint(f.count("SELECT count(*) FROM " + f.table + " WHERE status = 2")); s != "3" {
		t.Errorf("%s hooks are done, want 3", s)
	}
}

func TestDrainNeedsHandlers(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	r, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := r.Drain(); d != nil || err == nil {
		t.Errorf("a relay without handlers drains: %v", err)
	}
}

// Several dispatchers can run at once: claims keep them from handling the same hook.
func TestSeveralDispatchersShareTheHooks(t *testing.T) {
	t.Parallel()
	h := newHooks(t, "a")
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 4 {
		r, err := outbox.NewRelay(h.Pool, h.box, outbox.RelayOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.Handle("a", h.call)
		drain, err := r.Drain()
		if err != nil {
			t.Fatal(err)
		}
		poll := dispatch.NewPoll(drain, dispatch.PollOptions{Interval: 5 * time.Millisecond})
		all.Go(func() { poll.Run(ctx) })
	}
	const n = 200
	for range n / 10 {
		h.enqueue(slices.Repeat([]outbox.Message{{Topic: "a"}}, 10)...)
	}
	h.until("all are called", func() bool { return h.count("SELECT count(*) FROM "+h.table+" WHERE status = 2") == n })
	stop()
	all.Wait()
	if got := h.called(); got != n {
		t.Errorf("%d calls of %d hooks", got, n)
	}
}

// The first claim of a relay that could handle far more asks for a hundred messages.
func TestDefaultClaimLimit(t *testing.T) {
	t.Parallel()
	claims := make(chan int, 1)
	f := newOutbox(t, func(o *outbox.Options) {
		o.Telemetry.Observer = func(_ context.Context, e workqueue.Event) {
			if e.Operation == "claim" {
				select {
				case claims <- e.Requested:
				default:
				}
			}
		}
	})
	f.relay(workqueue.WorkerOptions{Concurrency: 1000}, func(r *outbox.Relay) {
		r.HandleAll(func(context.Context, *outbox.Delivery) error { return nil })
	})
	select {
	case n := <-claims:
		if n != 100 {
			t.Errorf("the first claim asks for %d messages, want 100", n)
		}
	case <-time.After(patience):
		t.Fatal("no claim")
	}
}

// A part of an application whose hooks are dispatched separately needs an outbox in a schema of its own, which is its
// namespace. Within one outbox, a drain claims all hooks that are due, and those without a handler are failed attempts.
func TestANamespaceIsAnOutboxOfItsOwn(t *testing.T) {
	t.Parallel()
	one, other := newHooks(t, "shared name"), newHooks(t, "shared name")
	one.enqueue(outbox.Message{Topic: "shared name"})
	id := other.enqueue(outbox.Message{Topic: "shared name"}, outbox.Message{Topic: "of nobody"})[1]
	if one.drain.Namespace() == other.drain.Namespace() {
		t.Errorf("both are %s", one.drain.Namespace())
	}
	one.process(1)
	if got := other.row(id); one.called() != 1 || got.Attempts != 0 || other.called() != 0 {
		t.Errorf("one has made %d calls, the other %d; a hook of the other: %+v", one.called(), other.called(), got)
	}
	other.process(2)
	if got := other.row(id); other.called() != 1 || got.Attempts != 1 || got.LastError == "" {
		t.Errorf("the other has made %d calls; its hook of nobody: %+v", other.called(), got)
	}
}
