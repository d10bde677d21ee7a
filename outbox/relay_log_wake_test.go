package outbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// hourly are the options of a relay that finds nothing by polling.
var hourly = workqueue.WorkerOptions{PollInterval: time.Hour}

// A receiver is a relay of a subscription of one topic, which counts what it delivers.
type receiver struct {
	running
	*ledger
}

func (f *fixture) receiver(name, topic string, o workqueue.WorkerOptions) receiver {
	f.Helper()
	f.exec("CALL " + f.table + "_tick()")
	f.exec("SELECT "+f.table+"_subscribe($1, ARRAY[$2])", name, topic)
	l := newLedger()
	return receiver{f.subscriber(name, o, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error { l.note(m); return nil })
	}), l}
}

// areIdle has relays look so often that their pauses, which double whenever there is nothing, are an hour long.
func areIdle(relays ...receiver) {
	for range 100 {
		for _, r := range relays {
			r.Wake()
		}
		rest(20 * time.Millisecond)
	}
}

func (f *fixture) delivers(what string, l receiver, n int) {
	f.Helper()
	f.until(what, func() bool { d, _ := l.count(); return d == n })
}

// Producers wake the relays of a log, and so do ticks: nothing waits for the poll. Transactions write at all rates,
// and some of them commit long after they have written.
func TestTheRelaysOfALogAreWoken(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	often, seldom := f.receiver("often", "often", hourly), f.receiver("seldom", "seldom", hourly)
	areIdle(often, seldom)
	f.enqueue(outbox.Message{Topic: "often"})
	f.delivers("an idle relay", often, 1)
	n, rare := 1, 0
	for range 20 {
		burst := 1 + rand.IntN(20)
		for range burst {
			f.enqueue(outbox.Message{Topic: "often"})
		}
		tx, err := f.Pool.Begin(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		if _, err := f.box.Enqueue(f.Context(), workqueue.Pgx(tx), outbox.Message{Topic: "seldom"}); err != nil {
			f.Fatal(err)
		}
		n, rare = n+burst, rare+1
		f.delivers("a burst", often, n)
		rest(time.Duration(rand.IntN(400)) * time.Millisecond)
		if err := tx.Commit(f.Context()); err != nil {
			f.Fatal(err)
		}
		f.delivers("a transaction that was silent", seldom, rare)
	}
}

// A relay whose process stops while producers rely on its ticks leaves none of their messages to the polls of others.
func TestARelayThatStopsLeavesItsTicksToOthers(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("stops", 1)
	stays := f.receiver("stays", "t", hourly)
	areIdle(stays)
	for n := 1; n <= 5; n++ {
		got := newLedger()
		stops := f.subscriber("stops", hourly, func(r *outbox.Relay) {
			r.HandleAll(func(_ context.Context, m *outbox.Delivery) error { got.note(m); return nil })
		})
		f.enqueue(outbox.Message{Topic: "u"})
		f.until("the relay delivers", func() bool { d, _ := got.count(); return d > 0 })
		tx, err := f.Pool.Begin(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		if _, err := f.box.Enqueue(f.Context(), workqueue.Pgx(tx), outbox.Message{Topic: "t"}); err != nil {
			f.Fatal(err)
		}
		ended := make(chan error, 1)
		began := time.Now()
		go func() { ended <- stops.end() }()
		rest(time.Duration(rand.IntN(150)) * time.Millisecond)
		if err := tx.Commit(f.Context()); err != nil {
			f.Fatal(err)
		}
		if err := <-ended; err != nil {
			f.Fatal(err)
		}
		if time.Since(began) > 400*time.Millisecond { // a slow machine: it may have given up, as it does after 0.5 s
			stays.Wake()
		}
		f.delivers("a message that was silent", stays, n)
	}
}

// A relay that stops waits for nobody who ticks, however long that takes.
func TestARelayThatStopsDoesNotWaitForTicks(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.exec("ALTER FUNCTION " + f.table + "_tick_step(interval) SET lock_timeout = 0")
	l := f.receiver("s", "t", hourly)
	tx, err := f.Pool.Begin(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(f.Context(), "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))",
		f.table+" tick"); err != nil {
		f.Fatal(err)
	}
	f.enqueue(outbox.Message{Topic: "t"})
	f.until("it waits for the lock of the tickers", func() bool {
		return f.count(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND (classid::bigint << 32 | objid::bigint) = hashtextextended($1, 0)`, f.table+" tick") > 0
	})
	ended := make(chan error, 1)
	go func() { ended <- l.end() }()
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
}

// A subscription that wants none of the messages is not woken by them.
func TestIdleSubscriptionsOfALogAreLeftAlone(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	busy := f.receiver("busy", "t", hourly)
	rest(time.Second) // it is the first of its process, which ticks
	idle := f.receiver("idle", "nothing", hourly)
	areIdle(busy, idle)
	looks, last := 0, 0
	for n := range 100 {
		f.enqueue(outbox.Message{Topic: "t"})
		f.delivers(fmt.Sprint("message ", n), busy, n+1)
		seen := f.count("SELECT (seen).n FROM " + f.table + "_position WHERE subscription = 'idle'")
		if seen != last {
			looks, last = looks+1, seen
		}
	}
	if looks > 20 { // its pauses grow to an hour
		t.Errorf("a subscription of another topic has looked %d times at 100 messages", looks)
	}
	if d, _ := idle.count(); d != 0 {
		t.Errorf("%d messages were delivered to a subscription of another topic", d)
	}
}

// What was announced while the listener was disconnected is found when it is back, also if somebody else has ticked.
func TestARelayLooksForWhatItHasNotHeard(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	s := f.receiver("s", "t", hourly)
	const listener = "FROM pg_stat_activity WHERE query LIKE $1"
	query := `LISTEN "` + f.table + `_parked"%`
	f.until("it listens", func() bool { return f.count("SELECT count(*) "+listener, query) == 1 })
	areIdle(s)
	conn, err := f.Pool.Acquire(f.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, statement := range []string{ // of which nothing is announced
		"SET session_replication_role = replica",
		"INSERT INTO " + f.table + " (topic, payload) VALUES ('t', '')",
		"RESET session_replication_role",
		"UPDATE " + f.table + "_subscription SET paused = true",
		"CALL " + f.table + "_tick()",
		"UPDATE " + f.table + "_subscription SET paused = false",
	} {
		if _, err := conn.Exec(f.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.count("SELECT count(pg_terminate_backend(pid)) "+listener, query); n != 1 {
		t.Fatalf("%d listeners", n)
	}
	f.delivers("a message that somebody has ticked", s, 1)
}

// While a relay cannot tick, it pauses longer and longer, whatever producers announce.
func TestARelayThatCannotTickIsNotWoken(t *testing.T) {
	t.Parallel()
	var log lines
	f := newLog(t, func(o *outbox.Options) { o.Telemetry.Logger = slog.New(&log) })
	s := f.receiver("s", "t", hourly)
	areIdle(s)
	f.exec("ALTER FUNCTION " + f.table + "_tick_step(interval) RENAME TO outbox_log_away")
	began := time.Now()
	for range 100 {
		f.enqueue(outbox.Message{Topic: "t"})
		rest(10 * time.Millisecond)
	}
	if n, most := log.count("the log cannot be read"), 8+int(time.Since(began)/outage.MaxPause); n > most {
		t.Errorf("it has failed %d times, want at most %d", n, most)
	}
	f.exec("ALTER FUNCTION " + f.table + "_away(interval) RENAME TO outbox_log_tick_step")
	f.delivers("all", s, 100)
}
