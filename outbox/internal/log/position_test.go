package log_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// A reply that was lost is asked for again: the same page, and a settle that has happened.
func TestAFetchAndASettleCanBeRepeated(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, numbered("m", 1, 5)...)
	f.tick()
	p := f.fetch("s", 3)
	f.want("first page", p.payloads(), "m1", "m2", "m3")
	again := f.fetchAgain("s", p.token, 1)
	f.want("the same page", again.payloads(), "m1", "m2", "m3")
	if again.upto != p.upto || again.attempts != 1 {
		t.Errorf("repeated: up to %d in attempt %d, want %d in 1", again.upto, again.attempts, p.upto)
	}
	for _, want := range []string{"settled", "repeated"} {
		if got := f.settle("s", p.token, p.upto); got != want {
			t.Errorf("settle: %s, want %s", got, want)
		}
	}
	rest := f.fetchAgain("s", p.token, 3)
	f.want("second page", rest.payloads(), "m4", "m5")
	for _, want := range []string{"ended", "repeated"} {
		if got := f.settle("s", p.token, rest.upto); got != want {
			t.Errorf("settle: %s, want %s", got, want)
		}
	}
	_, err := fetch(f.Context(), f.Pool, f.name, "s", p.token, lease, 3)
	f.refused("fetch with the token of a batch that has ended", err, "22023")
}

// A page ends before its payloads exceed what the consumer can hold, but has one message at least. Messages that share
// a number stay together.
func TestThePayloadsOfAPageAreBounded(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	tx := f.begin()
	f.append(tx, "123", "456", "a large one, larger than the bound", "78", "9", "same1")
	f.exec(tx, "INSERT INTO "+f.name+" (seq, topic, payload) VALUES (currval('"+f.name+"_seq'), 'topic', 'same2')")
	f.append(tx, "end")
	f.ok(tx.Commit(f.Context()))
	f.tick()
	token := uuid.New()
	for _, want := range [][]string{{"123", "456"}, {"a large one, larger than the bound"}, {"78", "9"},
		{"same1", "same2"}, {"end"}} {
		var got []string
		var upto int64
		for range 2 { // the second time, the page is in hand
			f.ok(f.Pool.QueryRow(f.Context(), "SELECT array_agg(convert_from(payload, 'UTF8') ORDER BY seq, payload) FILTER "+
				"(WHERE entry = 'row'), max(upto) FROM "+f.name+"_fetch('s', $1, $2, 10, bytes => 8)", token, lease).
				Scan(&got, &upto))
			f.want("page", got, want...)
		}
		f.settle("s", token, upto)
	}
}

// What a transaction of a consumer has not committed has not happened.
func TestAConsumerRollsBack(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "a", "b")
	f.tick()
	tx := f.begin()
	p, err := fetch(f.Context(), tx, f.name, "s", uuid.New(), lease, 10)
	f.ok(err)
	f.want("uncommitted", p.payloads(), "a", "b")
	f.ok(tx.Rollback(f.Context()))
	p = f.fetch("s", 10)
	if p.attempts != 1 {
		t.Errorf("attempt %d after a rollback, want 1", p.attempts)
	}
	tx = f.begin()
	_, err = settle(f.Context(), tx, f.name, "s", p.token, p.upto)
	f.ok(err)
	f.ok(tx.Rollback(f.Context()))
	f.want("still in hand", f.fetchAgain("s", p.token, 10).payloads(), "a", "b")
	f.settles("ended", "s", p.token, p.upto)
}

// The owner of a lease that has ended changes nothing more once another has the lane, which begins where it was
// settled.
func TestAStaleConsumerChangesNothing(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, numbered("m", 1, 6)...)
	f.tick()
	stale := f.fetch("s", 10)
	if got := f.settle("s", stale.token, stale.messages[1].Seq); got != "settled" {
		t.Fatalf("settle: %s", got)
	}
	if p := f.fetch("s", 10); p.held != "busy" || p.upto != 0 {
		t.Errorf("another consumer: %+v, want busy", p)
	}
	f.lapse("s")
	p := f.fetch("s", 2)
	f.want("the next consumer", p.payloads(), "m3", "m4")
	if p.attempts != 2 {
		t.Errorf("attempt %d, want 2", p.attempts)
	}
	if got := f.settle("s", stale.token, stale.upto); got != "lost" {
		t.Errorf("a stale settle: %s, want lost", got)
	}
	if got := f.settle("s", stale.token, stale.messages[3].Seq, failure{Seq: stale.messages[3].Seq}); got != "lost" {
		t.Errorf("a stale settle that parks: %s, want lost", got)
	}
	if value[bool](f, f.Pool, "SELECT "+f.name+"_extend('s', $1, '1 minute')", stale.token) {
		t.Error("a stale consumer extended its lease")
	}
	if n := value[int](f, f.Pool, "SELECT count(*) FROM "+f.name+"_parked"); n != 0 {
		t.Errorf("a stale consumer parked %d messages", n)
	}
	f.settle("s", p.token, p.upto)
	rest := f.fetchAgain("s", p.token, 10)
	f.want("the rest", rest.payloads(), "m5", "m6")
	f.settle("s", p.token, rest.upto)
	f.want("at last", f.drain("s", 10))
}

// Nobody has taken the lane, so its late owner still has it.
func TestALateConsumerWhoseLaneIsFree(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "m")
	f.tick()
	p := f.fetch("s", 10)
	f.lapse("s")
	if !value[bool](f, f.Pool, "SELECT "+f.name+"_extend('s', $1, '1 minute')", p.token) {
		t.Error("the lease was not extended")
	}
	if other := f.fetch("s", 10); other.held != "busy" {
		t.Errorf("another consumer: %+v, want busy", other)
	}
	f.settles("ended", "s", p.token, p.upto)
}

func TestABatchEndsWithItsLastMessage(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, numbered("m", 1, 4)...)
	f.tick()
	p := f.fetch("s", 2)
	_, err := settle(f.Context(), f.Pool, f.name, "s", p.token, p.upto+1)
	f.refused("settle behind the page", err, "22023")
	if got := f.settle("s", p.token, p.upto); got != "settled" {
		t.Errorf("a full page that may not be the last: %s, want settled", got)
	}
	_, err = settle(f.Context(), f.Pool, f.name, "s", p.token, p.upto+1)
	f.refused("settle without a page", err, "22023")
	p = f.fetchAgain("s", p.token, 2)
	f.want("second page", p.payloads(), "m3", "m4")
	if got := f.settle("s", p.token, p.upto); got != "settled" {
		t.Errorf("a full page that is the last: %s, want settled", got)
	}
	if p = f.fetchAgain("s", p.token, 2); p.upto != 0 || len(p.messages) > 0 {
		t.Errorf("behind the last page: %+v", p)
	}
	if n := value[int](f, f.Pool, "SELECT count(*) FROM "+f.name+"_position WHERE locked_until IS NOT NULL"); n != 0 {
		t.Error("the lane is still leased")
	}
}

// A page never ends between two messages with the same number, which a producer can make.
func TestMessagesWithTheSameNumber(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	tx := f.begin()
	f.append(tx, "a", "b")
	f.exec(tx, "INSERT INTO "+f.name+" (seq, topic, payload) VALUES (currval('"+f.name+"_seq'), 'topic', 'c')")
	f.append(tx, "d")
	f.ok(tx.Commit(f.Context()))
	got := f.drain("s", 1)
	slices.Sort(got)
	f.want("one by one", got, "a", "b", "c", "d")
}

func TestLanes(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('s', lanes => 4)")
	var want []string
	for i, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		for _, p := range numbered(key, 1, 3) {
			f.appendKey(f.Pool, key, p)
			want = append(want, p)
		}
		f.append(f.Pool, numbered("none", 10*i, 10*i+2)...)
		want = append(want, numbered("none", 10*i, 10*i+2)...)
	}
	f.tick()
	laneOf, order := map[string]int{}, map[string][]string{}
	var got []string
	var pages []page
	for range 4 {
		p := f.fetch("s", 100)
		if p.upto == 0 {
			t.Fatal("a lane has no messages: choose other keys")
		}
		pages = append(pages, p)
	}
	if p := f.fetch("s", 100); p.held != "busy" {
		t.Errorf("a fifth consumer: %+v, want busy", p)
	}
	for _, p := range pages {
		for _, m := range p.messages {
			got = append(got, m.Payload)
			if m.Key == "" {
				continue
			}
			if lane, known := laneOf[m.Key]; known && lane != p.lane {
				t.Errorf("key %s is in lanes %d and %d", m.Key, lane, p.lane)
			}
			laneOf[m.Key] = p.lane
			order[m.Key] = append(order[m.Key], m.Payload)
		}
		if got := f.settle("s", p.token, p.upto); got != "ended" {
			t.Errorf("settle of lane %d: %s", p.lane, got)
		}
	}
	for key, payloads := range order {
		f.want("key "+key, payloads, numbered(key, 1, 3)...)
	}
	slices.Sort(got)
	slices.Sort(want)
	f.want("all lanes", got, want...)
	f.want("at last", f.drain("s", 100))
}

// A lane without messages moves on, and says that others may have some.
func TestLanesWithoutMessages(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('s', lanes => 16)")
	for _, p := range numbered("m", 1, 4) {
		f.appendKey(f.Pool, "k", p)
		f.want("s", f.drain("s", 10), p)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('topics', ARRAY['order_placed', 'mail.*'])")
	f.exec(f.Pool, "SELECT "+f.name+`_subscribe('headers', headers => '{"region": "eu"}')`)
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('none', ARRAY['nothing'])")
	for _, topic := range []string{"order_placed", "orderXplaced", "mail.sent", "mail", "order_placed.late"} {
		f.exec(f.Pool, "SELECT "+f.name+"_append($1, $1::text::bytea)", topic)
	}
	f.exec(f.Pool, "SELECT "+f.name+`_append('t', 'eu', headers => '{"region": "eu", "n": "1"}')`)
	f.want("topics", f.drain("topics", 2), "order_placed", "mail.sent")
	f.want("headers", f.drain("headers", 2), "eu")
	f.want("a filter that fits nothing", f.drain("none", 2))
	if n := value[int](f, f.Pool, "SELECT count(DISTINCT (seen).n) FROM "+f.name+"_position"); n != 1 {
		t.Errorf("positions are at %d ticks, want the same: nothing is left for any of them", n)
	}
}

func TestAPausedSubscriptionSettlesWhatItHas(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, numbered("m", 1, 4)...)
	f.tick()
	p := f.fetch("s", 2)
	f.exec(f.Pool, "UPDATE "+f.name+"_subscription SET paused = true")
	f.want("in hand", f.fetchAgain("s", p.token, 2).payloads(), "m1", "m2")
	f.settles("settled", "s", p.token, p.upto)
	for _, token := range []uuid.UUID{p.token, uuid.New()} {
		if p := f.fetchAgain("s", token, 2); p.held != "paused" || p.upto != 0 {
			t.Errorf("paused: %+v", p)
		}
	}
	f.exec(f.Pool, "UPDATE "+f.name+"_subscription SET paused = false")
	f.want("resumed", f.drain("s", 2), "m3", "m4")
}

func TestWhereASubscriptionStarts(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.append(f.Pool, "a")
	f.tick()
	f.append(f.Pool, "b")
	f.tick()
	between := value[time.Time](f, f.Pool, "SELECT clock_timestamp()")
	open := f.begin()
	f.append(open, "late")
	f.append(f.Pool, "c")
	f.tick()
	for name, start := range map[string]any{"now": "infinity", "between": between, "beginning": "-infinity",
		"early": between.Add(-time.Hour)} {
		f.exec(f.Pool, "SELECT "+f.name+"_subscribe($1, start => $2)", name, start)
	}
	f.ok(open.Commit(f.Context()))
	f.append(f.Pool, "d")
	f.want("now", f.drain("now", 10), "late", "d")
	f.want("between", f.drain("between", 10), "late", "c", "d")
	f.want("beginning", f.drain("beginning", 10), "a", "b", "late", "c", "d")
	f.want("early", f.drain("early", 10), "a", "b", "late", "c", "d")
}

// A subscription and the first message for it are in one transaction.
func TestASubscriptionInATransactionThatWrites(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.append(f.Pool, "before")
	f.tick()
	tx := f.begin()
	f.append(tx, "first")
	f.exec(tx, "SELECT "+f.name+"_subscribe('s')")
	f.append(f.Pool, "meanwhile")
	f.tick()
	f.append(tx, "second")
	f.ok(tx.Commit(f.Context()))
	f.want("s", f.drain("s", 10), "first", "meanwhile", "second")
}

func TestWhatAFetchRefuses(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "m")
	f.tick()
	ask := "SELECT " + f.name + "_fetch($1, $2, $3, $4)"
	for _, args := range [][]any{
		{"unknown", uuid.New(), lease, 10}, {nil, uuid.New(), lease, 10}, {"s", nil, lease, 10},
		{"s", uuid.New(), nil, 10}, {"s", uuid.New(), time.Millisecond, 10}, {"s", uuid.New(), lease, nil},
		{"s", uuid.New(), lease, 0}, {"s", uuid.New(), lease, 10_001},
	} {
		_, err := f.Pool.Exec(f.Context(), ask, args...)
		f.refused("fetch", err, "22023")
	}
	_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_fetch('s', $1, $2, 10, bytes => 0)", uuid.New(), lease)
	f.refused("a page without bytes", err, "22023")
	fixed, err := f.Pool.BeginTx(f.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	f.ok(err)
	_, err = fixed.Exec(f.Context(), ask, "s", uuid.New(), lease, 10)
	f.refused("fetch in REPEATABLE READ", err, "55000")
	f.ok(fixed.Rollback(f.Context()))
}

func TestWhatASubscriptionRefuses(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_subscribe('s')")
	f.refused("a name that is taken", err, "23505")
	for _, args := range []string{"''", "NULL", "'UPPER'", "'a:b'", "'s2', '{}'", "'s2', '{NULL}'", "'s2', ARRAY['']",
		"'s2', headers => '[]'", "'s2', start => NULL", "'s2', lanes => 0", "'s2', lanes => 65"} {
		_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_subscribe("+args+")")
		f.refused("subscribe "+args, err, "22023")
	}
}

func TestLagIsSeenWithoutATick(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	lag := func() (numbers int64, seconds float64) {
		t.Helper()
		f.ok(f.Pool.QueryRow(f.Context(), "SELECT numbers, seconds FROM "+f.name+"_lag()").Scan(&numbers, &seconds))
		return numbers, seconds
	}
	if n, s := lag(); n != 0 || s != 0 {
		t.Errorf("at first: %d numbers, %v s", n, s)
	}
	open := f.begin()
	f.append(open, "late")
	f.append(f.Pool, numbered("m", 1, 5)...)
	if n, s := lag(); n != 6 || s <= 0 {
		t.Errorf("nobody has ticked: %d numbers, %v s, want 6 and more than 0", n, s)
	}
	f.drain("s", 10)
	if n, s := lag(); n != 0 || s != 0 {
		t.Errorf("drained: %d numbers, %v s", n, s)
	}
	f.ok(open.Commit(f.Context()))
	if n, s := lag(); n < 1 || s <= 0 {
		t.Errorf("a message with an earlier number: %d numbers, %v s", n, s)
	}
}

// A lane that was given back is free at once, as if it had not been claimed.
func TestALaneIsGivenBack(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, numbered("m", 1, 3)...)
	f.tick()
	p := f.fetch("s", 10)
	f.settle("s", p.token, p.messages[0].Seq)
	release := func() bool {
		return value[bool](f, f.Pool, "SELECT "+f.name+"_release('s', $1)", p.token)
	}
	if !release() || release() {
		t.Error("a lane is given back once")
	}
	if got := f.settle("s", p.token, p.upto); got != "lost" {
		t.Errorf("settle of a lane that was given back: %s", got)
	}
	next := f.fetch("s", 10)
	f.want("the rest", next.payloads(), "m2", "m3")
	if next.attempts != 1 {
		t.Errorf("attempt %d, want 1", next.attempts)
	}
	f.settles("ended", "s", next.token, next.upto)
}

// Each death of a consumer is an attempt, and what is settled since says that the batch does not kill.
func TestAttemptsFallWithProgress(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, numbered("m", 1, 3)...)
	f.tick()
	for range 3 {
		f.fetch("s", 10)
		f.lapse("s")
	}
	p := f.fetch("s", 10)
	f.settle("s", p.token, p.messages[0].Seq)
	f.lapse("s")
	if again := f.fetch("s", 10); p.attempts != 4 || again.attempts != 4 {
		t.Errorf("attempts %d, and %d after a settle and a death, want 4 and 4", p.attempts, again.attempts)
	}
}
