package outbox_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// receivers are handlers of which those of sick topics hang until they are healed.
type receivers struct {
	healed  chan struct{}
	hanging atomic.Int64
	most    atomic.Int64
	well    atomic.Int64
	sick    atomic.Int64
}

func (r *receivers) handle(ctx context.Context, m *outbox.Delivery) error {
	if !strings.HasPrefix(m.Topic, "sick") {
		r.well.Add(1)
		return nil
	}
	select {
	case <-r.healed:
		r.sick.Add(1)
		return nil
	default:
	}
	defer r.hanging.Add(-1)
	for n := r.hanging.Add(1); ; {
		most := r.most.Load()
		if n <= most || r.most.CompareAndSwap(most, n) {
			break
		}
	}
	select {
	case <-r.healed:
		r.sick.Add(1)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Receivers that hang hold a part of a relay's places. Other topics go on, and of the topics that hang nothing is
// claimed that cannot start. When they have recovered, everything is delivered.
func TestReceiversThatHangLeavePlacesForOthers(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	const sick, each = 3, 200
	for i := range sick {
		f.sendMany(fmt.Sprintf("sick%d", i), each)
	}
	r := &receivers{healed: make(chan struct{})}
	f.relay(workqueue.WorkerOptions{Concurrency: 20}, func(relay *outbox.Relay) { relay.HandleAll(r.handle) })
	f.until("the receivers hang", func() bool { return r.hanging.Load() >= sick })
	for range 10 {
		before := int(r.well.Load())
		f.sendMany("well", 20)
		f.until("a topic beside those that hang", func() bool { return int(r.well.Load()) == before+20 })
	}
	f.until("nothing is claimed that cannot start", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+" WHERE status = 1") == int(r.hanging.Load())
	})
	if most := r.most.Load(); most > 15 {
		t.Errorf("%d handlers of three topics hung at once", most)
	}
	close(r.healed)
	f.until("the topics that hung", func() bool { return r.sick.Load() == sick*each })
	f.until("nothing is left", func() bool { return f.count("SELECT count(*) FROM "+f.table+" WHERE status < 2") == 0 })
}

// A topic with slow handlers gets nearly all places of a relay, as long as they succeed.
func TestATopicWhoseHandlersSucceedGetsNearlyAllPlaces(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sendMany("other", 1)
	f.sendMany("slow", 400)
	var running, most, ended atomic.Int64
	f.relay(workqueue.WorkerOptions{Concurrency: 16}, func(relay *outbox.Relay) {
		relay.HandleAll(func(context.Context, *outbox.Delivery) error {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			rest(20 * time.Millisecond)
			running.Add(-1)
			ended.Add(1)
			return nil
		})
	})
	f.until("everything is delivered", func() bool { return ended.Load() == 401 })
	if n := most.Load(); n < 13 || n > 16 {
		t.Errorf("at most %d handlers ran at once, want 14 or nearly so", n)
	}
}

// A limit of handlers for each topic holds, and the rest of its rows is delivered in turn.
func TestAConcurrencyOfTopics(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sendMany("a", 60)
	var running, most, ended atomic.Int64
	f.relay(workqueue.WorkerOptions{Concurrency: 10, TopicConcurrency: 2}, func(relay *outbox.Relay) {
		relay.HandleAll(func(context.Context, *outbox.Delivery) error {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			rest(10 * time.Millisecond)
			running.Add(-1)
			ended.Add(1)
			return nil
		})
	})
	f.until("everything is delivered", func() bool { return ended.Load() == 60 })
	if n := most.Load(); n != 2 {
		t.Errorf("%d handlers of a topic ran at once, want 2", n)
	}
}

// A topic with 1,000 arrivals a second keeps its rate beside receivers that hang. The rates depend on the machine, so
// they are reported, and what must hold is that everything arrives.
func TestTheRateBesideHungReceivers(t *testing.T) {
	t.Parallel()
	for hung := range 4 {
		f := newOutbox(t)
		for i := range hung {
			f.sendMany(fmt.Sprintf("sick%d", i), 2000)
		}
		r := &receivers{healed: make(chan struct{})}
		f.relay(workqueue.WorkerOptions{Concurrency: 20}, func(relay *outbox.Relay) { relay.HandleAll(r.handle) })
		f.until("the receivers hang", func() bool { return r.hanging.Load() >= int64(hung) })
		rounds := pgtest.Size(20, 100)
		start := time.Now()
		for i := range rounds {
			for j := range 5 { // the receivers that hang have arrivals, too
				f.sendMany("well", 10)
				if hung > 0 {
					f.sendMany(fmt.Sprintf("sick%d", j%hung), 2)
				}
			}
			rest(time.Until(start.Add(time.Duration(i+1) * 50 * time.Millisecond)))
		}
		f.until("all arrivals", func() bool { return r.well.Load() == int64(50*rounds) })
		t.Logf("beside %d receivers that hang, %.1f of 1,000 arrivals a second", hung,
			float64(50*rounds)/time.Since(start).Seconds())
		close(r.healed)
	}
}

// Topics that had nearly all places when they worked do not keep the last of them when they hang, and have lost them
// when they were idle in between.
func TestTopicsThatWorkedBeforeTheyHang(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		idle time.Duration
		most int64 // of 16 places
	}{
		"at once":              {0, 15}, // seven eighths, and the first place of a topic
		"after they were idle": {1200 * time.Millisecond, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newOutbox(t)
			var sick atomic.Bool
			var worked atomic.Int64
			r := &receivers{healed: make(chan struct{})}
			defer close(r.healed)
			f.relay(workqueue.WorkerOptions{Concurrency: 16}, func(relay *outbox.Relay) {
				relay.HandleAll(func(ctx context.Context, m *outbox.Delivery) error {
					if strings.HasPrefix(m.Topic, "sick") && !sick.Load() {
						rest(5 * time.Millisecond)
						worked.Add(1)
						return nil
					}
					return r.handle(ctx, m)
				})
			})
			const each = 200
			send := func() {
				for i := range 2 {
					f.sendMany(fmt.Sprintf("sick%d", i), each)
				}
			}
			send()
			f.sendMany("well", 1)
			f.until("all have worked", func() bool { return worked.Load() == 2*each && r.well.Load() == 1 })
			pgtest.Pass(c.idle)
			sick.Store(true)
			send()
			f.until("they hang", func() bool { return r.hanging.Load() > 1 })
			for range 10 {
				before := int(r.well.Load())
				f.sendMany("well", 20)
				f.until("a topic beside those that hang", func() bool { return int(r.well.Load()) == before+20 })
			}
			if most := r.most.Load(); most > c.most {
				t.Errorf("%d handlers hung at once, want at most %d of 16", most, c.most)
			}
		})
	}
}
