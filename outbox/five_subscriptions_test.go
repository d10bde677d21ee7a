package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// arrivals are how many messages a second are written, and everyArrival how often.
const (
	arrivals     = 1000
	everyArrival = 10 * time.Millisecond
)

// A fifth is one of five readers, and what it delivered.
type fifth struct {
	*ledger
	last atomic.Int64 // when it delivered the last message, in nanoseconds
}

// Five subscriptions of the same messages, of which one's destination is away, one is slow, one is added in the middle
// and reads from the beginning, and one refuses three in a hundred: each gets all, in order. How fast the fifth is
// beside them, and alone, is logged. It is measured over a longer time by
//
//	TXWORK_FIVE_FOR=60s go test -count=1 -v -run TestFiveSubscriptions ./outbox
func TestFiveSubscriptions(t *testing.T) {
	during := 2 * time.Second
	if text := os.Getenv("TXWORK_FIVE_FOR"); text != "" {
		var err error
		if during, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	var rates []float64
	for _, names := range [][]string{{"healthy"}, {"healthy", "dead", "slow", "late", "refuses"}} {
		t.Run(fmt.Sprint(len(names)), func(t *testing.T) { rates = append(rates, readBy(t, during, names)) })
	}
	if len(rates) == 2 {
		t.Logf("the healthy one delivers %.0f a second alone and %.0f beside the others: %.3f", rates[0], rates[1],
			rates[1]/rates[0])
	}
}

// readBy has subscriptions read what is written, and returns how many messages a second the first of them delivered.
func readBy(t *testing.T, during time.Duration, names []string) (rate float64) {
	f := newLog(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	var away atomic.Bool
	away.Store(true)
	readers := map[string]*fifth{}
	begin := func(name, from string) {
		f.exec("CALL " + f.table + "_tick()")
		f.exec("SELECT "+f.table+"_subscribe($1, start => $2::text::timestamptz)", name, from)
		reader := &fifth{ledger: newLedger()}
		readers[name] = reader
		f.subscriber(name, workqueue.WorkerOptions{Concurrency: 20}, func(r *outbox.Relay) {
			r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
				switch {
				case name == "dead" && away.Load():
					return workqueue.Unavailable(errors.New("connection refused"))
				case name == "slow":
					rest(10 * time.Millisecond)
				case name == "refuses" && m.Attempt == 1 && rand.IntN(100) < 3:
					return workqueue.RetryAfter(50*time.Millisecond, errors.New("refused"))
				}
				reader.note(m)
				reader.last.Store(time.Now().UnixNano())
				return nil
			})
		})
	}
	for _, name := range names {
		if name != "late" {
			begin(name, "infinity")
		}
	}
	const keys, each = 50, int(arrivals * everyArrival / time.Second)
	n, numbers := 0, [keys]int{}
	start := time.Now()
	for turn := 1; n < int(arrivals*during/time.Second); turn++ {
		var batch []outbox.Message
		for range each {
			k := n % keys
			batch = append(batch, outbox.Message{Topic: "t", Key: strconv.Itoa(k),
				Payload: []byte(strconv.Itoa(numbers[k]))})
			numbers[k]++
			n++
		}
		f.enqueue(batch...)
		if len(names) > 1 && readers["late"] == nil && time.Since(start) > during/2 {
			begin("late", "-infinity")
		}
		rest(time.Until(start.Add(time.Duration(turn) * everyArrival)))
	}
	t.Logf("%d messages were written, %.0f a second", n, float64(n)/time.Since(start).Seconds())
	away.Store(false)
	for _, name := range names {
		f.until(name+" has delivered all", func() bool {
			d, _ := readers[name].count()
			return d == n && f.drained(name)
		})
		if d, calls := readers[name].count(); d != calls || readers[name].out > 0 {
			t.Errorf("%s: %d of %d messages in %d calls, %d out of order", name, d, n, calls, readers[name].out)
		}
	}
	return float64(n) / time.Unix(0, readers[names[0]].last.Load()).Sub(start).Seconds()
}
