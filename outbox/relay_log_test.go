package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/workqueue"
)

// subscribe makes a subscription of a log.
func (f *fixture) subscribe(name string, lanes int) {
	f.Helper()
	f.exec("CALL " + f.table + "_tick()")
	f.exec("SELECT "+f.table+"_subscribe($1, lanes => $2)", name, lanes)
}

// A running relay can be stopped before the test ends.
type running struct {
	*outbox.Relay
	end func() error
}

// subscriber runs a relay of a subscription until the test ends.
func (f *fixture) subscriber(name string, o workqueue.WorkerOptions, register func(*outbox.Relay)) running {
	f.Helper()
	r, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{WorkerOptions: o, Subscription: name})
	if err != nil {
		f.Fatal(err)
	}
	register(r)
	ctx, stop := context.WithCancel(f.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	end := sync.OnceValue(func() error { stop(); return <-ended })
	f.Cleanup(func() {
		if err := end(); err != nil {
			f.Errorf("Run: %v", err)
		}
	})
	return running{r, end}
}

// parked counts parked messages of a subscription.
func (f *fixture) parked(name, where string) int {
	f.Helper()
	return f.count("SELECT count(*) FROM "+f.table+"_parked WHERE subscription = $1 AND "+where, name)
}

// drained reports whether a subscription has nothing left, in the log or parked.
func (f *fixture) drained(name string) bool {
	f.Helper()
	f.exec("CALL " + f.table + "_tick()")
	behind := "SELECT count(*) FROM " + f.table + "_position WHERE subscription = $1 AND ((upto).n IS NOT NULL " +
		"OR (seen).n < (SELECT max(n) FROM " + f.table + "_tick))"
	// In this order: what is parked comes from a position.
	return f.count(behind, name) == 0 && f.parked(name, "status < 2") == 0
}

// A ledger records what handlers got.
type ledger struct {
	mu    sync.Mutex
	times map[string]int
	keys  map[string][]int
	out   int // of order
}

func newLedger() *ledger { return &ledger{times: map[string]int{}, keys: map[string][]int{}} }

// note records a delivery whose payload ends with its number in its key.
func (l *ledger) note(m *outbox.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times[m.ID.String()]++
	if m.Key == "" {
		return
	}
	n, _ := strconv.Atoi(string(m.Payload))
	if got := l.keys[m.Key]; len(got) > 0 && got[len(got)-1] >= n {
		l.out++
	}
	l.keys[m.Key] = append(l.keys[m.Key], n)
}

func (l *ledger) count() (distinct, calls int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.times {
		calls += n
	}
	return len(l.times), calls
}

// write has writers enqueue messages in transactions of which some roll back, and returns how many are committed. Each
// writer has keys of its own, and numbers the messages of a key.
func (f *fixture) write(writers, each int) int {
	f.Helper()
	var written atomic.Int64
	var g errgroup.Group
	for w := range writers {
		g.Go(func() error {
			numbers := map[string]int{}
			for done := 0; done < each; {
				n := min(1+rand.IntN(10), each-done)
				rollsBack := rand.IntN(5) == 0
				next := map[string]int{}
				err := pgx.BeginFunc(f.Context(), f.Pool, func(tx pgx.Tx) error {
					for range n {
						m := outbox.Message{Topic: "t"}
						if rand.IntN(10) > 0 {
							m.Key = fmt.Sprintf("w%d-%d", w, rand.IntN(5))
							next[m.Key]++
							m.Payload = []byte(strconv.Itoa(numbers[m.Key] + next[m.Key]))
						}
						if _, err := f.box.Enqueue(f.Context(), workqueue.Pgx(tx), m); err != nil {
							return err
						}
					}
					if rollsBack {
						return errRollBack
					}
					return nil
				})
				if errors.Is(err, errRollBack) {
					continue
				}
				if err != nil {
					return err
				}
				for k, v := range next {
					numbers[k] += v
				}
				done += n
				written.Add(int64(n))
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		f.Fatal(err)
	}
	return int(written.Load())
}

var errRollBack = errors.New("roll back")

// Every committed message is delivered once, in the order of its key, by relays that share the lanes of a subscription,
// while writers write and roll back.
func TestARelayDeliversALog(t *testing.T) {
	t.Parallel()
	f := newLog(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	f.subscribe("billing", 3)
	got := newLedger()
	for range 2 {
		f.subscriber("billing", workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond}, func(r *outbox.Relay) {
			r.HandleAll(func(_ context.Context, m *outbox.Delivery) error { got.note(m); return nil })
		})
	}
	want := f.write(8, 1250)
	f.until("all are delivered", func() bool { n, _ := got.count(); return n == want && f.drained("billing") })
	if n, calls := got.count(); n != want || calls != want || got.out > 0 {
		t.Errorf("%d messages in %d calls, %d out of order; want %d once, in order", n, calls, got.out, want)
	}
	if n := f.parked("billing", "true"); n > 0 {
		t.Errorf("%d messages were parked", n)
	}
}

// A message that fails is retried as a row, before those behind it in its key, and holds up no others.
func TestWhatFailsOnALogIsRetriedInOrder(t *testing.T) {
	t.Parallel()
	f := newLog(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	f.subscribe("billing", 2)
	got, attempts := newLedger(), atomic.Int64{}
	var failures sync.Map
	f.subscriber("billing", workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
			if _, failed := failures.Load(m.ID); !failed && m.ID[15]%32 == 0 {
				failures.Store(m.ID, true)
				if m.Attempt != 1 {
					t.Errorf("attempt %d of a message that was not handled before", m.Attempt)
				}
				return workqueue.RetryAfter(10*time.Millisecond, errors.New("refused"))
			} else if failed {
				attempts.Add(1)
				if m.Attempt != 2 || m.Topic != "t" || m.MaxAttempts == 0 || m.CreatedAt.IsZero() {
					t.Errorf("retried: %+v", m)
				}
			}
			got.note(m)
			return nil
		})
	})
	want := f.write(4, 300)
	f.until("all are delivered", func() bool { n, _ := got.count(); return n == want && f.drained("billing") })
	if n, calls := got.count(); calls != n || got.out > 0 || attempts.Load() == 0 {
		t.Errorf("%d messages in %d calls, %d out of order, %d retried", n, calls, got.out, attempts.Load())
	}
}

// What a handler says of a message means on a log what it means for rows.
func TestOutcomesOnALog(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	var mu sync.Mutex
	calls := map[string][]int{}
	f.subscriber("billing", workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
			mu.Lock()
			calls[m.Topic] = append(calls[m.Topic], m.Attempt)
			n := len(calls[m.Topic])
			mu.Unlock()
			switch {
			case m.Topic == "permanent" && n == 1:
				return workqueue.Permanent(errors.New("no such address"))
			case m.Topic == "cancelled":
				return workqueue.Cancelled("not wanted")
			case m.Topic == "snooze" && n < 3:
				return workqueue.Snooze(100 * time.Millisecond)
			case m.Topic == "panic" && n < 2:
				panic("oops")
			case m.Topic == "tx":
				return workqueue.Permanent(m.Tx(t.Context(), func(pgx.Tx) error { return nil }))
			}
			return nil
		})
	})
	ids := f.enqueue(outbox.Message{Topic: "permanent", Key: "k"}, outbox.Message{Topic: "behind", Key: "k"},
		outbox.Message{Topic: "cancelled", Key: "c"}, outbox.Message{Topic: "after", Key: "c"},
		outbox.Message{Topic: "snooze"}, outbox.Message{Topic: "panic"}, outbox.Message{Topic: "tx"})
	f.until("all have ended but what is blocked", func() bool {
		return f.parked("billing", "status < 2") == 1 && f.parked("billing", "status = 3") == 2 &&
			f.parked("billing", "status = 2") == 2
	})
	want := func(topic string, attempts ...int) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(calls[topic], attempts) {
			t.Errorf("%s: called in attempts %v, want %v", topic, calls[topic], attempts)
		}
	}
	want("permanent", 1)
	want("behind")
	want("cancelled", 1)
	want("after", 1)
	want("snooze", 1, 1, 1)
	want("panic", 1, 2)
	want("tx", 1)
	if n := f.parked("billing", "topic = 'permanent' AND attempts = 1 AND last_error = 'no such address'"); n != 1 {
		t.Error("the dead letter does not tell its error, or has another attempt")
	}
	if n := f.parked("billing", "topic = 'tx' AND last_error LIKE '%is not possible with Storage Log%'"); n != 1 {
		t.Error("Tx is not refused by name")
	}
	f.exec("SELECT "+f.table+"_parked_redrive(ARRAY(SELECT id FROM "+f.table+
		"_parked WHERE message_id = $1), 'somebody')", ids[0])
	f.until("the redriven one and the one behind it are delivered", func() bool {
		return f.parked("billing", "status = 2 AND topic IN ('permanent', 'behind')") == 2
	})
}

// A subscription that nobody serves, or that fails, costs another one nothing.
func TestSubscriptionsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	f.subscribe("search", 1)
	handlers := func(l *ledger) func(*outbox.Relay) {
		return func(r *outbox.Relay) {
			r.HandleAll(func(_ context.Context, m *outbox.Delivery) error { l.note(m); return nil })
		}
	}
	billing, search := newLedger(), newLedger()
	f.subscriber("billing", workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond}, handlers(billing))
	f.enqueue(messages("t", 100)...)
	f.until("billing is drained", func() bool { return f.drained("billing") })
	if f.drained("search") {
		t.Error("the other subscription has lost its messages")
	}
	f.subscriber("search", workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond}, handlers(search))
	f.until("search is drained", func() bool { return f.drained("search") })
	for name, l := range map[string]*ledger{"billing": billing, "search": search} {
		if n, calls := l.count(); n != 100 || calls != 100 {
			t.Errorf("%s: %d messages in %d calls", name, n, calls)
		}
	}
}

// A relay that stops in the middle of a page waits for its handlers, hands out only what closes gaps, and leaves the
// rest to the next relay at once: nothing is repeated.
func TestARelayStopsInTheMiddleOfAPage(t *testing.T) {
	t.Parallel()
	f := newLog(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	f.subscribe("billing", 1)
	var msgs []outbox.Message
	for i := range 60 {
		msgs = append(msgs, outbox.Message{Topic: "t", Key: fmt.Sprint(i % 3 % 2), Payload: fmt.Append(nil, i)})
	}
	f.enqueue(msgs...)
	got := newLedger()
	handle := func(pause time.Duration) func(*outbox.Relay) {
		return func(r *outbox.Relay) {
			r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
				rest(pause)
				got.note(m)
				return nil
			})
		}
	}
	first := f.subscriber("billing", workqueue.WorkerOptions{}, handle(10*time.Millisecond))
	f.until("some are delivered", func() bool { n, _ := got.count(); return n > 10 })
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	if n, _ := got.count(); n == 60 {
		t.Error("the relay did not stop in the middle of the page")
	}
	held := "SELECT count(*) FROM " + f.table + "_position WHERE locked_until IS NOT NULL OR attempts > 0"
	if f.count(held) > 0 {
		t.Error("the lane was not given back")
	}
	f.subscriber("billing", workqueue.WorkerOptions{}, handle(0))
	f.until("all are delivered", func() bool { n, _ := got.count(); return n == 60 && f.drained("billing") })
	if n, calls := got.count(); calls != n || got.out > 0 {
		t.Errorf("%d messages in %d calls, %d out of order", n, calls, got.out)
	}
}

// A handler that does not end in time is cancelled when the relay stops. Its message is delivered again, those behind
// it that have ended are not.
func TestARelayThatStopsBreaksOffHandlers(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	f.enqueue(messages("t", 10)...)
	got := newLedger()
	var cause atomic.Value
	first := f.subscriber("billing", workqueue.WorkerOptions{ShutdownTimeout: 50 * time.Millisecond},
		func(r *outbox.Relay) {
			r.HandleAll(func(ctx context.Context, m *outbox.Delivery) error {
				if string(m.Payload) == "t0" {
					<-ctx.Done()
					cause.Store(context.Cause(ctx))
					return ctx.Err()
				}
				got.note(m)
				return nil
			})
		})
	f.until("the others are delivered", func() bool { n, _ := got.count(); return n == 9 })
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	if err, _ := cause.Load().(error); !errors.Is(err, workqueue.ErrShutdown) {
		t.Errorf("cancelled with %v", err)
	}
	f.subscriber("billing", workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error { got.note(m); return nil })
	})
	f.until("all are delivered", func() bool { n, _ := got.count(); return n == 10 && f.drained("billing") })
	if n, calls := got.count(); calls != 10 {
		t.Errorf("%d messages in %d calls", n, calls)
	}
}

// A lease is renewed while handlers run. A relay that lost it cancels its handlers and changes nothing more.
func TestLeasesOfALog(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	f.enqueue(messages("t", 1)...)
	started, causes, release := make(chan bool, 10), make(chan error, 10), make(chan bool)
	f.subscriber("billing", workqueue.WorkerOptions{Lease: time.Second}, func(r *outbox.Relay) {
		r.HandleAll(func(ctx context.Context, _ *outbox.Delivery) error {
			started <- true
			select {
			case <-ctx.Done():
				causes <- context.Cause(ctx)
				return ctx.Err()
			case <-release:
				return nil
			}
		})
	})
	receive(t, started)
	token := func() (token string) {
		ask := "SELECT owner_token::text FROM " + f.table + "_position"
		if err := f.Pool.QueryRow(t.Context(), ask).Scan(&token); err != nil {
			t.Fatal(err)
		}
		return token
	}
	before := token()
	rest(2 * time.Second)
	if len(started) > 0 || token() != before {
		t.Error("the lease was not renewed")
	}
	f.exec("UPDATE " + f.table + "_position SET owner_token = gen_random_uuid(), locked_until = now()")
	if err := receive(t, causes); !errors.Is(err, workqueue.ErrLeaseLost) {
		t.Errorf("cancelled with %v", err)
	}
	receive(t, started) // again, with a new claim
	close(release)
	f.until("it is delivered", func() bool { return f.drained("billing") })
	if n := f.parked("billing", "true"); n > 0 {
		t.Errorf("the stale relay parked %d messages", n)
	}
}

// A relay waits for a subscription that does not exist, or not any more, as other parts of its process may be well.
func TestARelayOfAnUnknownSubscription(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	r := f.subscriber("billing", workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(context.Context, *outbox.Delivery) error { return nil })
	})
	waits := func() bool {
		err := r.Workers()[0].Ready()
		return err != nil && strings.Contains(err.Error(), `no subscription "billing"`)
	}
	f.until("the relay says that it waits for its subscription", waits)
	for range 2 {
		f.subscribe("billing", 1)
		f.enqueue(messages("t", 1)...)
		f.until("it is delivered", func() bool { return f.drained("billing") })
		f.until("the relay is ready", func() bool { return r.Workers()[0].Ready() == nil })
		f.exec("SELECT "+f.table+"_unsubscribe($1)", "billing")
		f.until("the relay says that its subscription was removed", waits)
	}
}

func TestWhatTheRelayOfALogRefuses(t *testing.T) {
	t.Parallel()
	rows, log := newOutbox(t), newLog(t)
	some := func(change func(*outbox.RelayOptions)) outbox.RelayOptions {
		o := outbox.RelayOptions{Subscription: "billing"}
		change(&o)
		return o
	}
	for field, c := range map[string]struct {
		f *fixture
		o outbox.RelayOptions
	}{
		"subscription is empty":        {log, outbox.RelayOptions{}},
		`subscription is "billing"`:    {rows, outbox.RelayOptions{Subscription: "billing"}},
		"topic concurrency is not":     {log, some(func(o *outbox.RelayOptions) { o.TopicConcurrency = 2 })},
		"tx limits is not":             {log, some(func(o *outbox.RelayOptions) { o.TxLimits.Statement = 1 })},
		"claim limit is 20000":         {log, some(func(o *outbox.RelayOptions) { o.ClaimLimit = 20_000 })},
		"handler timeout is -1s":       {log, some(func(o *outbox.RelayOptions) { o.HandlerTimeout = -time.Second })},
		"lease is 1ms, it must be bet": {log, some(func(o *outbox.RelayOptions) { o.Lease = time.Millisecond })},
	} {
		if _, err := outbox.NewRelay(c.f.Pool, c.f.box, c.o); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("want %q, got %v", field, err)
		}
	}
	r, err := outbox.NewRelay(log.Pool, log.box, outbox.RelayOptions{Subscription: "billing"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "has no handler") {
		t.Errorf("without handlers: %v", err)
	}
	if _, err := r.Drain(); err == nil || !strings.Contains(err.Error(), "drain of a relay is not possible") {
		t.Errorf("drain: %v", err)
	}
}

// A relay of a log is a part of a service as any other, and changes its concurrency while it runs.
func TestARelayOfALogInAService(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	r, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{Subscription: "billing",
		WorkerOptions: workqueue.WorkerOptions{Concurrency: 1}})
	if err != nil {
		t.Fatal(err)
	}
	var running, most atomic.Int64
	got, both := newLedger(), make(chan bool)
	r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
		defer running.Add(-1)
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		if string(m.Payload) != "t0" && string(m.Payload) != "t1" {
			both <- true
		}
		got.note(m)
		return nil
	})
	s, err := service.New(f.Pool, service.Options{MaintainedElsewhere: true}, r)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	f.enqueue(messages("t", 2)...)
	f.until("two are delivered", func() bool { n, _ := got.count(); return n == 2 })
	if most.Load() != 1 {
		t.Errorf("%d handlers ran at once, want 1", most.Load())
	}
	if err := r.SetConcurrency(2); err != nil {
		t.Fatal(err)
	}
	f.enqueue(messages("u", 2)...)
	r.Wake()
	f.until("two handlers run", func() bool { return running.Load() == 2 })
	receive(t, both)
	receive(t, both)
	f.until("all are delivered", func() bool { n, _ := got.count(); return n == 4 })
	stop()
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
}

// An empty key, which plain SQL can write, is a key: messages without one do not wait behind it.
func TestAnEmptyKeyIsAKeyOfALog(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	f.exec("INSERT INTO " + f.table + " (topic, key, payload) " +
		"VALUES ('bulk', '', ''), ('bulk', NULL, ''), ('bulk', NULL, ''), ('bulk', '', ''), ('bulk', NULL, '')")
	var handled atomic.Int32
	f.subscriber("billing", workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(context.Context, *outbox.Delivery) error { handled.Add(1); return nil })
	})
	f.until("all are delivered", func() bool { return handled.Load() == 5 && f.drained("billing") })
}
