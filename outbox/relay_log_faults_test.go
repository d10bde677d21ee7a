package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// Environment of a child process, which is a relay.
const (
	relayURL    = "TXWORK_TEST_RELAY_URL"
	relaySchema = "TXWORK_TEST_RELAY_SCHEMA"
	relayPage   = 8
)

// runRelay is a process with a relay that records what it delivers. A message with the payload poison ends it.
func runRelay() int {
	go func() { // it ends no later than its parent
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	run := relayUntilKilled
	if part := os.Getenv(movePart); part != "" {
		run = func(ctx context.Context) error { return takePart(ctx, part) }
	}
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func relayUntilKilled(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv(relayURL))
	if err != nil {
		return err
	}
	schema := os.Getenv(relaySchema)
	box, err := outbox.Open(outbox.Options{Schema: schema, Storage: outbox.Log, Ordering: outbox.PerKey,
		Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}})
	if err != nil {
		return err
	}
	r, err := outbox.NewRelay(pool, box, outbox.RelayOptions{Subscription: "billing",
		WorkerOptions: workqueue.WorkerOptions{Lease: time.Second, ClaimLimit: relayPage, Concurrency: relayPage,
			PollInterval: 50 * time.Millisecond}})
	if err != nil {
		return err
	}
	r.HandleAll(func(ctx context.Context, m *outbox.Delivery) error {
		if string(m.Payload) == "poison" {
			os.Exit(9)
		}
		_, err := pool.Exec(ctx, "INSERT INTO "+schema+".delivered (id) VALUES ($1)", m.ID)
		return err
	})
	return r.Run(ctx)
}

// child starts such a process. kill kills it, ended is closed when it has ended.
func (f *fixture) child() (kill func(), ended <-chan struct{}) {
	f.Helper()
	c := exec.Command(os.Args[0], "-test.run=^$")
	c.Env = append(os.Environ(), relayURL+"="+f.URL, relaySchema+"="+f.DB.Schema)
	stdin, err := c.StdinPipe()
	if err != nil {
		f.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		f.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Wait()
		_ = stdin.Close()
	}()
	kill = sync.OnceFunc(func() { _ = c.Process.Kill(); <-done })
	f.Cleanup(kill)
	return kill, done
}

func (f *fixture) delivered() (distinct, all int) {
	f.Helper()
	return f.count("SELECT count(DISTINCT id) FROM " + f.DB.Schema + ".delivered"),
		f.count("SELECT count(*) FROM " + f.DB.Schema + ".delivered")
}

// A relay that is killed repeats what it had in hand and nothing else.
func TestARelayOfALogIsKilled(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	f.exec("CREATE TABLE " + f.DB.Schema + ".delivered (id uuid)")
	const n, kills = 2000, 3
	f.enqueue(messages("t", n)...)
	for i := range kills {
		kill, _ := f.child()
		f.until("it delivers", func() bool { all, _ := f.delivered(); return all > 300*(i+1) })
		kill()
	}
	f.child()
	f.until("all are delivered", func() bool { all, _ := f.delivered(); return all == n && f.drained("billing") })
	if distinct, all := f.delivered(); all-distinct > kills*relayPage {
		t.Errorf("%d of %d messages were repeated, want at most a page of %d for each of %d kills", all-distinct, n,
			relayPage, kills)
	}
}

// A message that ends each process that handles it is found among the others, and becomes a dead letter. All others are
// delivered.
func TestAPoisonOfALogIsFound(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	f.exec("CREATE TABLE " + f.DB.Schema + ".delivered (id uuid)")
	msgs := messages("t", 40)
	msgs[13].Payload, msgs[13].Key = []byte("poison"), "k"
	msgs[30].Key = "k"
	f.enqueue(msgs...)
	found := func() bool { return f.parked("billing", "payload = 'poison'") == 1 }
	for deaths := 0; !found(); deaths++ {
		if deaths > 20 {
			t.Fatalf("the poison was not found in %d deaths", deaths)
		}
		kill, ended := f.child()
		f.until("it dies, or parks the poison", func() bool {
			select {
			case <-ended:
				return true
			default:
				return found()
			}
		})
		kill()
	}
	if n := f.parked("billing", "last_error LIKE '%consumers of the batch have died%'"); n != 1 {
		t.Errorf("%d messages were parked because of the deaths, want the poison alone", n)
	}
	got := newLedger()
	f.subscriber("billing", workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
			got.note(m)
			f.exec("INSERT INTO "+f.DB.Schema+".delivered VALUES ($1)", m.ID)
			return nil
		})
	})
	f.exec("UPDATE " + f.table + "_parked SET due_at = now() WHERE status = 0")
	f.until("all are delivered", func() bool { n, _ := f.delivered(); return n == len(msgs) && f.drained("billing") })
}

// A handler that does not return, although its context has ended, does not hold up the subscription. That it ends later
// changes nothing.
func TestAHandlerOfALogHangs(t *testing.T) {
	t.Parallel()
	f := newLog(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	f.subscribe("billing", 1)
	got := newLedger()
	hangs, release := make(chan bool), make(chan bool)
	f.subscriber("billing", workqueue.WorkerOptions{HandlerTimeout: 100 * time.Millisecond,
		PollInterval: 50 * time.Millisecond}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
			if m.Topic == "hung" && m.Attempt == 1 {
				close(hangs)
				<-release
				return nil
			}
			got.note(m)
			return nil
		})
	})
	f.enqueue(append(messages("t", 5), outbox.Message{Topic: "hung", Key: "k", Payload: []byte("1")},
		outbox.Message{Topic: "t", Key: "k", Payload: []byte("2")})...)
	receive(t, hangs)
	f.enqueue(messages("t", 5)...)
	f.until("the subscription goes on", func() bool { n, _ := got.count(); return n >= 10 })
	f.until("it is parked with its key", func() bool { return f.parked("billing", "true") == 2 })
	if n := f.parked("billing", "topic = 'hung' AND last_error LIKE 'handler did not return%'"); n != 1 {
		t.Error("the error does not say so")
	}
	close(release)
	f.until("all are delivered", func() bool { n, _ := got.count(); return n == 12 && f.drained("billing") })
	if n, calls := got.count(); n != calls || got.out > 0 {
		t.Errorf("%d messages in %d calls, %d out of order", n, calls, got.out)
	}
}

// While the destination is unavailable, one message probes it, and no attempt is used up.
func TestTheDestinationOfALogIsUnavailable(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 2)
	var away atomic.Bool
	var calls atomic.Int64
	away.Store(true)
	got := newLedger()
	f.subscriber("billing", workqueue.WorkerOptions{Concurrency: 4}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
			if m.Attempt != 1 {
				t.Errorf("attempt %d", m.Attempt)
			}
			if away.Load() {
				calls.Add(1)
				return workqueue.Unavailable(errors.New("connection refused"))
			}
			got.note(m)
			return nil
		})
	})
	f.enqueue(messages("t", 500)...)
	f.until("it is tried", func() bool { return calls.Load() > 0 })
	rest(2 * time.Second)
	if n := calls.Load(); n > 2*4+3 { // those at once, of each lane, and probes after 0.5, 1 and 2 s, less a fifth
		t.Errorf("%d calls in 2 s", n)
	}
	away.Store(false)
	f.until("all are delivered", func() bool { n, _ := got.count(); return n == 500 && f.drained("billing") })
	if n, calls := got.count(); n != calls || f.parked("billing", "true") > 0 {
		t.Errorf("%d messages in %d calls, %d parked", n, calls, f.parked("billing", "true"))
	}
}

// Messages of a log are delivered together, with a result each; a call that fails is halved.
func TestMessagesOfALogAreDeliveredTogether(t *testing.T) {
	t.Parallel()
	f := newLog(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	f.subscribe("billing", 1)
	msgs := messages("bulk", 100)
	for i := range 20 {
		msgs[i].Key = "k"
	}
	f.enqueue(append(msgs, messages("single", 3)...)...)
	var mu sync.Mutex
	var sizes []int
	order, alone, run := []string{}, 0, 0
	delivered := map[string]int{}
	f.subscriber("billing", workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond}, func(r *outbox.Relay) {
		r.HandleBatch("bulk", workqueue.BatchOptions{Limit: 10}, func(_ context.Context, b []*outbox.Delivery) ([]error,
			error) {
			mu.Lock()
			defer mu.Unlock()
			sizes = append(sizes, len(b))
			each, keys := make([]error, len(b)), 0
			for i, m := range b {
				switch p := string(m.Payload); {
				case m.Key == "k":
					keys++
				case p == "bulk50" && m.Attempt == 1:
					return nil, errors.New("the call fails")
				case p == "bulk60" && m.Attempt == 1:
					each[i] = workqueue.RetryNow(errors.New("this one fails"))
				}
			}
			run = max(run, keys)
			for i, m := range b {
				if each[i] == nil {
					delivered[string(m.Payload)]++
				}
				if m.Key == "k" {
					order = append(order, string(m.Payload))
				}
			}
			return each, nil
		})
		r.HandleAll(func(context.Context, *outbox.Delivery) error { mu.Lock(); alone++; mu.Unlock(); return nil })
	})
	f.until("all are delivered", func() bool { return f.drained("billing") })
	mu.Lock()
	defer mu.Unlock()
	if len(delivered) != 100 || alone != 3 || run < 2 {
		t.Errorf("%d were delivered together, %d alone, at most %d of a key at once", len(delivered), alone, run)
	}
	for i, p := range order {
		if p != fmt.Sprint("bulk", i) {
			t.Errorf("the key is delivered as %s", strings.Join(order, " "))
			break
		}
	}
	n, all := f.parked("billing", "status = 2 AND payload IN ('bulk50', 'bulk60')"), f.parked("billing", "true")
	if n != 2 || all != 2 {
		t.Errorf("%d of %d parked messages are those that failed", n, all)
	}
	if len(sizes) > 60 {
		t.Errorf("%d calls", len(sizes))
	}
}
