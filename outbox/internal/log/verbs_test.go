package log_test

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
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox/internal/log"
	"github.com/txwork/txwork/workqueue"
)

// A moved is what a verb says of a lane.
type moved struct {
	Lane  int
	Tick  int64
	Done  int64
	Taken bool
	Lost  int64
}

// verb calls a function that moves or changes a subscription, such as "cut('s', '1 hour')".
func (f *fixture) verb(q querier, call string, args ...any) []moved {
	f.Helper()
	rows, err := q.Query(f.Context(), "SELECT lane, tick, done, taken, lost FROM "+f.name+"_"+call+" ORDER BY lane",
		args...)
	f.ok(err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[moved])
	f.ok(err)
	return all
}

func (f *fixture) losses(subscription string) int64 {
	f.Helper()
	return value[int64](f, f.Pool, "SELECT coalesce(sum(messages), 0)::bigint FROM "+f.name+"_loss "+
		"WHERE subscription = $1", subscription)
}

// refusedOf checks the SQLSTATE of an error, the parameter that it is about, and that it says what to do.
func (f *fixture) refusedOf(what string, err error, code, column, hint string) {
	f.Helper()
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != code || e.ColumnName != column || !strings.Contains(e.Hint, hint) ||
		e.Hint == "" {
		f.Errorf("%s: %+v, want SQLSTATE %s about %q with %q in the hint", what, err, code, column, hint)
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "a", "b")
	f.tick()
	p := f.fetch("s", 1)
	for _, c := range []struct {
		verb string
		want bool
	}{{"pause", true}, {"pause", false}, {"resume", true}, {"resume", false}, {"pause", true}} {
		if got := value[bool](f, f.Pool, "SELECT "+f.name+"_"+c.verb+"('s')"); got != c.want {
			t.Errorf("%s says %t, want %t", c.verb, got, c.want)
		}
	}
	f.settles("settled", "s", p.token, p.upto)
	if p := f.fetch("s", 1); p.held != "paused" || p.upto != 0 {
		t.Errorf("paused: %+v", p)
	}
	f.exec(f.Pool, "SELECT "+f.name+"_resume('s')")
	f.lapse("s")
	f.want("resumed", f.drain("s", 10), "b")
}

// Whoever has a page in hand loses it. Parked messages are not removed unless that is said.
func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.subscribe("other")
	f.appendKey(f.Pool, "k", "k1", "k2")
	f.append(f.Pool, "a", "b")
	f.tick()
	p := f.fetch("s", 10)
	f.settle("s", p.token, p.messages[2].Seq, failing(p, "k1"), failing(p, "a"))
	f.run("s", func(p *log.Parked) error {
		if string(p.Payload) == "a" {
			return workqueue.Permanent(errUndo)
		}
		return workqueue.RetryAfter(time.Hour, errUndo)
	})
	other := f.fetch("other", 1)
	f.settle("other", other.token, other.upto, failing(other, "k1"))

	_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_unsubscribe('s')")
	f.refusedOf("parked messages", err, "55000", "parked", "parked => true")
	if !strings.Contains(fmt.Sprint(err), "2 parked messages that have not ended, and 1 dead letters") {
		t.Errorf("the refusal does not count: %v", err)
	}
	if got := f.settle("s", p.token, p.messages[2].Seq); got != "repeated" {
		t.Errorf("after a refusal, settle: %s", got)
	}
	var lanes, live, dead int
	var lost int64
	f.ok(f.Pool.QueryRow(f.Context(), "SELECT * FROM "+f.name+"_unsubscribe('s', parked => true)").Scan(&lanes, &live,
		&dead, &lost))
	if lanes != 1 || live != 2 || dead != 1 || lost != int64(len(p.messages)-3) || lost != f.losses("s") {
		t.Errorf("removed %d lanes, %d parked messages, %d dead letters, %d lost of which %d are recorded", lanes, live,
			dead, lost, f.losses("s"))
	}
	if got := f.settle("s", p.token, p.upto, failing(p, "b")); got != "lost" {
		t.Errorf("settle of a subscription that is gone: %s", got)
	}
	if value[bool](f, f.Pool, "SELECT "+f.name+"_extend('s', $1, '1 minute')", p.token) {
		t.Error("a subscription that is gone was extended")
	}
	_, err = fetch(f.Context(), f.Pool, f.name, "s", p.token, lease, 1)
	f.refused("fetch of a subscription that is gone", err, "22023")
	f.want("parked", f.parked("s"))
	f.want("parked by the other", f.parked("other"), "k1")
	f.subscribe("s")
	f.append(f.Pool, "c")
	f.want("subscribed once more", f.drain("s", 10), "c")
	f.lapse("other")
	f.want("the other", f.drain("other", 10), "a", "b", "c") // k2 is behind k1
}

// A removal does not read all that a subscription is behind.
func TestUnsubscribeCountsAtLeast(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	open := f.begin()
	f.append(open, "a", "b", "c")
	f.append(f.Pool, "d", "e", "f")
	f.drain("s", 10)
	f.ok(open.Commit(f.Context()))
	f.append(f.Pool, "g", "h", "i", "j")
	f.tick()
	tx := f.begin()
	for most, want := range map[int]int{1: 4, 100: 7} {
		f.exec(tx, "SAVEPOINT s")
		if n := value[int](f, tx, "SELECT lost FROM "+f.name+"_unsubscribe('s', most => $1)", most); n != want {
			t.Errorf("among %d messages for each lane and kind, %d are lost, want %d", most, n, want)
		}
		f.exec(tx, "ROLLBACK TO s")
	}
}

// What a subscription keeps is kept until its removal has committed.
func TestUnsubscribeBesideTrim(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.in(f.Pool, 0, "a")
	f.tick()
	tx := f.begin()
	f.exec(tx, "SELECT "+f.name+"_unsubscribe('s')")
	if f.trim("0"); f.slot(0) != 1 {
		t.Error("a slot was emptied beside a removal that has not committed")
	}
	f.ok(tx.Rollback(f.Context()))
	if f.trim("0"); f.slot(0) != 1 {
		t.Error("a slot was emptied after a removal that was undone")
	}
	f.exec(f.Pool, "SELECT "+f.name+"_unsubscribe('s')")
	if f.trim("0"); f.slot(0) != 0 {
		t.Error("a slot is kept that nobody reads")
	}
}

// A change holds from what was settled: the page in hand is taken.
func TestChange(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	for _, topic := range []string{"a.1", "b.1", "a.2", "b.2"} {
		f.exec(f.Pool, "SELECT "+f.name+"_append($1, $1::text::bytea)", topic)
	}
	f.exec(f.Pool, "SELECT "+f.name+`_append('a.3', 'a.3', headers => '{"region": "eu"}')`)
	f.tick()
	p := f.fetch("s", 3)
	f.settle("s", p.token, p.messages[0].Seq)
	got := f.verb(f.Pool, "change('s', '{b.*,a.3}', NULL)")
	if len(got) != 1 || got[0].Done != p.messages[0].Seq || !got[0].Taken || got[0].Lost != 0 {
		t.Errorf("change says %+v, want that it holds behind %d and took a page", got, p.messages[0].Seq)
	}
	if got := f.settle("s", p.token, p.upto, failing(p, "b.1")); got != "lost" {
		t.Errorf("settle of a page that was taken: %s", got)
	}
	f.want("by the new pattern", f.drain("s", 2), "b.1", "b.2", "a.3")
	f.exec(f.Pool, "SELECT "+f.name+"_append('b.4', 'b.4')")
	f.exec(f.Pool, "SELECT "+f.name+`_append('a.4', 'a.4', headers => '{"region": "eu"}')`)
	if got := f.verb(f.Pool, `change('s', '{*}', '{"region": "eu"}')`); got[0].Taken {
		t.Error("change took a page, and there was none")
	}
	f.want("by the new headers", f.drain("s", 2), "a.4")
}

// Topics that no message can have, or that nobody can have meant, are refused.
func TestTopicsThatMatchNothing(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	for _, topics := range []string{"or*er", "a,*.new", "**", "o*r*", `""`, ""} {
		for _, call := range []string{"subscribe('t', $1::text[])", "change('s', $1::text[])"} {
			_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_"+call, "{"+topics+"}")
			f.refusedOf(call+" with "+topics, err, "22023", "topics", "a * at its end")
		}
	}
}

// A change keeps what it does not name. All topics are *, and any headers an empty object.
func TestAChangeKeepsWhatItDoesNotName(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+`_subscribe('s', '{t,o.*}', '{"region": "eu"}')`)
	for _, c := range []struct{ call, topics, headers string }{
		{"lanes => 2", "{t} {o.}", `{"region": "eu"}`},
		{"topics => '{u}'", "{u} {}", `{"region": "eu"}`},
		{`headers => '{"region": "us"}'`, "{u} {}", `{"region": "us"}`},
		{"topics => '{*}'", "all", `{"region": "us"}`},
		{"topics => '{u,v*}'", "{u} {v}", `{"region": "us"}`},
		{"headers => '{}'", "{u} {v}", "any"},
	} {
		f.exec(f.Pool, "SELECT "+f.name+"_change('s', "+c.call+")")
		topics := value[string](f, f.Pool, "SELECT coalesce(topics::text || ' ' || prefixes::text, 'all') FROM "+f.name+
			"_subscription")
		headers := value[string](f, f.Pool, "SELECT coalesce(headers::text, 'any') FROM "+f.name+"_subscription")
		if topics != c.topics || headers != c.headers {
			t.Errorf("after %s: topics %s, headers %s, want %s and %s", c.call, topics, headers, c.topics, c.headers)
		}
	}
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('all', '{*}', '{}')")
	f.append(f.Pool, "a")
	f.want("all topics, without headers", f.drain("all", 10), "a")
}

// A fetch that waits for a change, or comes in between, sees the subscription as it was changed.
func TestAFetchBesideAChange(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.exec(f.Pool, "SELECT "+f.name+"_append('a', 'a1')")
	f.exec(f.Pool, "SELECT "+f.name+"_append('b', 'b1')")
	f.tick()
	p := f.fetch("s", 1)
	tx := f.begin()
	f.verb(tx, "change('s', '{b}', NULL)")
	if other := f.fetch("s", 10); other.held != "busy" {
		t.Errorf("beside a change: %+v, want busy", other)
	}
	done := make(chan page)
	go func() {
		p, err := fetch(f.Context(), f.Pool, f.name, "s", p.token, lease, 10)
		if err != nil {
			t.Error(err)
		}
		done <- p
	}()
	f.waits("outbox_log_fetch")
	f.ok(tx.Commit(f.Context()))
	p = <-done
	f.want("the page of who waited", p.payloads(), "b1")
	f.settles("ended", "s", p.token, p.upto, failing(p, "b1"))
}

func TestLanesAreChangedAtOnePlace(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	keys := []string{"a", "b", "c", "d", "e", "f"}
	send := func(n int) (want []string) {
		for _, k := range keys {
			payload := fmt.Sprint(k, n)
			f.appendKey(f.Pool, k, payload)
			want = append(want, payload)
		}
		f.tick()
		return want
	}
	change := func(lanes int) error {
		_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_change('s', NULL, NULL, $1)", lanes)
		return err
	}
	send(1)
	p := f.fetch("s", 2)
	f.refusedOf("lanes of a batch in hand", change(3), "55000", "lanes", "settle")
	f.settle("s", p.token, p.messages[0].Seq, failing(p, "a1"))
	f.lapse("s")
	f.want("the rest", f.drain("s", 10), "b1", "c1", "d1", "e1", "f1")
	f.ok(change(3))
	want := send(2)[1:] // a2 is behind a1, in whichever lane it is
	f.sameSet("three lanes", f.drain("s", 10), want...)
	f.want("parked", f.parked("s"), "a1", "a2")
	send(3)
	p = f.fetch("s", 10)
	f.settle("s", p.token, p.upto)
	f.refusedOf("lanes at two places", change(2), "55000", "lanes", "settle")
	tx := f.begin()
	f.verb(tx, "replay('s', '-infinity')")
	f.verb(tx, "change('s', NULL, NULL, 1)")
	f.ok(tx.Commit(f.Context()))
	all := f.drain("s", 100)
	f.want("one lane, from the beginning", all, "b1", "c1", "d1", "e1", "f1", "b2", "c2", "d2", "e2", "f2", "b3", "c3",
		"d3", "e3", "f3")
	f.want("in their order", f.run("s", nil)[:2], "a1", "a2")
}

// All lanes go to a start, consumers lose what they have in hand, and all since is delivered again, and nothing else.
func TestReplay(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('s', lanes => 2)")
	f.append(f.Pool, "a", "b")
	f.tick()
	between := value[time.Time](f, f.Pool, "SELECT clock_timestamp()")
	f.append(f.Pool, "c", "d", "e", "f")
	f.sameSet("at first", f.drain("s", 10), "a", "b", "c", "d", "e", "f")
	f.append(f.Pool, numbered("g", 1, 20)...)
	f.tick()
	p := f.fetch("s", 2)
	got := f.verb(f.Pool, "replay('s', $1)", between)
	if len(got) != 2 || got[0].Taken == got[1].Taken || got[0].Lost+got[1].Lost != 0 || got[0].Tick != got[1].Tick {
		t.Errorf("replay says %+v, want one tick, and that one page was taken", got)
	}
	if got := f.settle("s", p.token, p.upto); got != "lost" {
		t.Errorf("settle of a page that was taken: %s", got)
	}
	f.sameSet("from a time", f.drain("s", 3), append(numbered("g", 1, 20), "c", "d", "e", "f")...)
	f.verb(f.Pool, "replay('s', '-infinity')")
	if n := len(f.drain("s", 100)); n != 26 {
		t.Errorf("from the beginning %d messages, want 26", n)
	}
	if n := f.losses("s"); n != 0 {
		t.Errorf("going back lost %d messages", n)
	}
	_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_replay('s', NULL)")
	f.refusedOf("no start", err, "22023", "start", "infinity")
	_, err = f.Pool.Exec(f.Context(), "SELECT "+f.name+"_replay('t', 'infinity')")
	f.refusedOf("an unknown subscription", err, "22023", "name", "Subscribe")
	for _, call := range []string{"replay('s', now() + interval '1 hour')",
		"subscribe('u', start => now() + interval '1 hour')"} {
		_, err = f.Pool.Exec(f.Context(), "SELECT "+f.name+"_"+call)
		f.refusedOf("a start in the future", err, "22023", "start", "The latest start is infinity")
	}
	f.exec(f.Pool, "SELECT "+f.name+"_replay('s', now() + interval '30 seconds')") // of a clock that is ahead
}

// A replay counts what was settled and is delivered again, of the lane's messages and not of others, to the message
// unless there are many.
func TestReplayCountsWhatComesAgain(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('s', '{topic}')")
	again := func(q querier, start string) (n int, more bool) {
		t.Helper()
		f.ok(q.QueryRow(f.Context(), "SELECT sum(again), bool_or(more) FROM "+f.name+
			"_replay('s', $1::text::timestamptz)", start).Scan(&n, &more))
		return n, more
	}
	open := f.begin()
	f.append(open, "late")
	f.append(f.Pool, numbered("m", 1, 5)...)
	f.exec(f.Pool, "SELECT "+f.name+"_append('another', '')")
	f.tick()
	p := f.fetch("s", 10)
	f.settle("s", p.token, p.messages[1].Seq)
	f.ok(open.Commit(f.Context()))
	tx := f.begin()
	if n, more := again(tx, "infinity"); n != 0 || more {
		t.Errorf("to go forward repeats %d messages, more %t", n, more)
	}
	f.ok(tx.Rollback(f.Context()))
	tx = f.begin()
	if n, more := again(tx, "-infinity"); n != 2 || more { // of the batch in hand, two are settled
		t.Errorf("%d messages are repeated, more %t, want 2", n, more)
	}
	f.ok(tx.Rollback(f.Context()))
	f.lapse("s")
	f.drain("s", 10)
	tx = f.begin()
	if n, more := again(tx, "-infinity"); n != 6 || more {
		t.Errorf("%d messages are repeated, more %t, want 6", n, more)
	}
	if n, more := again(tx, "-infinity"); n != 0 || more {
		t.Errorf("once more, %d messages are repeated, more %t, want none", n, more)
	}
	f.ok(tx.Rollback(f.Context()))
	f.exec(f.Pool, "INSERT INTO "+f.name+" (topic, payload) SELECT 'topic', '' FROM generate_series(1, 100010)")
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+"_replay('s', 'infinity')")
	if n, more := again(f.Pool, "-infinity"); n < 100_000 || n > 100_001 || !more {
		t.Errorf("%d messages are repeated, more %t, want that there are at least 100000", n, more)
	}
}

// Going forward passes over messages. How many, is recorded.
func TestReplayForward(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, numbered("m", 1, 5)...)
	f.tick()
	p := f.fetch("s", 3)
	f.settle("s", p.token, p.messages[1].Seq)
	f.append(f.Pool, "n")
	f.tick()
	f.append(f.Pool, "later") // no tick has seen it
	if got := f.verb(f.Pool, "replay('s', 'infinity')"); len(got) != 1 || got[0].Lost != 4 || !got[0].Taken {
		t.Errorf("replay says %+v, want that it passed over 4 messages", got)
	}
	if n := f.losses("s"); n != 4 {
		t.Errorf("%d messages are recorded as lost, want 4", n)
	}
	f.want("from now", f.drain("s", 10), "later")
}

// What was removed cannot be replayed. The refusal says from where on it can.
func TestReplayBeforeWhatIsKept(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.in(f.Pool, 0, "a")
	f.pass("s")
	f.trim("0")
	if f.slot(0) != 0 {
		t.Fatal("the slot was not emptied")
	}
	_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_replay('s', now() - interval '1 hour')")
	f.refusedOf("replay before what is kept", err, "22023", "start", "or later, or at -infinity")
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	at, _, _ := strings.Cut(strings.TrimPrefix(e.Hint, "Start at "), " or later")
	if _, err := time.Parse(time.RFC3339, at); err != nil {
		t.Errorf("the hint has a time that only PostgreSQL takes: %v", err)
	}
	f.exec(f.Pool, "SELECT "+f.name+"_replay('s', $1::text::timestamptz)", at)
	f.in(f.Pool, 1, "b")
	f.want("from what the hint says", f.drain("s", 10), "b")
	f.verb(f.Pool, "replay('s', '-infinity')")
	f.want("from the beginning", f.drain("s", 10), "b")
}

// A replay keeps what it goes back to from being removed, before it has committed, too.
func TestReplayBesideTrim(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.in(f.Pool, 0, "a")
	f.pass("s")
	tx := f.begin()
	f.verb(tx, "replay('s', '-infinity')")
	if f.trim("0"); f.slot(0) != 1 {
		t.Error("a slot was emptied beside a replay of it")
	}
	f.ok(tx.Commit(f.Context()))
	if f.trim("0"); f.slot(0) != 1 {
		t.Error("a slot was emptied that is to be replayed")
	}
	f.want("replayed", f.drain("s", 10), "a")
}

// Parked messages stay, and what is replayed of their keys is parked behind them.
func TestReplayBesideParkedMessages(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.appendKey(f.Pool, "k", "k1", "k2")
	f.append(f.Pool, "a")
	f.tick()
	p := f.fetch("s", 10)
	f.settle("s", p.token, p.upto, failing(p, "k2"))
	f.verb(f.Pool, "replay('s', '-infinity')")
	f.want("replayed", f.drain("s", 10), "a")
	if got := f.run("s", nil); strings.Join(got, " ") != "k2 k1 k2" {
		t.Errorf("parked messages ran as %q, want what failed first, and what was replayed behind it", got)
	}
}

// What a cut loses is counted to the message: what the lane has not settled, of its topics, and not younger than told.
func TestCut(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('s', '{t}')")
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('other')")
	write := func(q querier, payloads ...string) {
		for _, p := range payloads {
			f.exec(q, "SELECT "+f.name+"_append('t', $1)", []byte(p))
			f.append(q, "another topic")
		}
	}
	open := f.begin()
	write(open, "late")
	write(f.Pool, numbered("m", 1, 6)...)
	f.tick()
	p := f.fetch("s", 4)
	f.settle("s", p.token, p.messages[1].Seq)
	write(f.Pool, "n1", "n2")
	f.tick()
	f.ok(open.Commit(f.Context()))
	f.tick()
	write(f.Pool, "young")
	f.age()
	f.tick() // it has seen the young one, and is not old

	if got := f.verb(f.Pool, "cut('s', '2 hours')"); len(got) != 0 {
		t.Errorf("a cut behind all says %+v", got)
	}
	hourAgo := value[time.Time](f, f.Pool, "SELECT clock_timestamp() - interval '1 hour'")
	tx := f.begin()
	if got := f.verb(tx, "cut('s', before => $1)", hourAgo); len(got) != 1 || got[0].Lost != 7 {
		t.Errorf("a cut by a time says %+v, want that 7 messages are lost", got)
	}
	f.ok(tx.Rollback(f.Context()))
	got := f.verb(f.Pool, "cut('s', '1 hour')")
	if len(got) != 1 || got[0].Lost != 7 || !got[0].Taken || got[0].Done != 0 { // m3 to m6, n1, n2, late
		t.Errorf("cut says %+v, want that 7 messages are lost", got)
	}
	if n := f.losses("s"); n != 7 {
		t.Errorf("%d messages are recorded as lost, want 7", n)
	}
	if got := f.settle("s", p.token, p.upto); got != "lost" {
		t.Errorf("settle of a page that was cut: %s", got)
	}
	if got := f.verb(f.Pool, "cut('s', '1 hour')"); len(got) != 0 {
		t.Errorf("a second cut says %+v", got)
	}
	f.want("what is left", f.drain("s", 10), "young")
	if n := len(f.drain("other", 10)); n != 20 {
		t.Errorf("the other subscription got %d messages, want all 20", n)
	}
}

// A cut within the batch in hand keeps what was settled of it.
func TestACutWithinABatch(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, numbered("m", 1, 3)...)
	f.tick()
	f.age()
	f.append(f.Pool, numbered("m", 4, 6)...)
	f.tick()
	p := f.fetch("s", 10)
	f.want("one batch", p.payloads(), numbered("m", 1, 6)...)
	f.settle("s", p.token, p.messages[1].Seq)
	if got := f.verb(f.Pool, "cut('s', '1 hour')"); len(got) != 1 || got[0].Lost != 1 ||
		got[0].Done != p.messages[1].Seq {
		t.Errorf("cut says %+v, want that m3 is lost", got)
	}
	f.want("what is left", f.drain("s", 10), "m4", "m5", "m6")

	f.append(f.Pool, numbered("n", 1, 3)...)
	f.tick()
	f.age()
	f.append(f.Pool, "n4")
	f.tick()
	p = f.fetch("s", 10)
	f.settle("s", p.token, p.messages[2].Seq)
	if got := f.verb(f.Pool, "cut('s', '1 hour')"); len(got) != 1 || got[0].Lost != 0 {
		t.Errorf("cut says %+v, want that nothing is lost", got)
	}
	f.want("what was settled is not repeated", f.drain("s", 10), "n4")
	if n := f.losses("s"); n != 1 {
		t.Errorf("%d messages are recorded as lost, want 1", n)
	}
}

// A cut frees what only its subscription kept.
func TestACutFreesItsSlots(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("dead")
	f.in(f.Pool, 0, "a")
	f.tick()
	if f.trim("0"); f.slot(0) != 1 {
		t.Fatal("the slot is not kept")
	}
	f.verb(f.Pool, "cut('dead', '0')")
	if f.trim("0"); f.slot(0) != 0 {
		t.Error("the slot is still kept")
	}
}

func TestWhatVerbsRefuse(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	for call, column := range map[string]string{
		"pause('unknown')": "name", "resume(NULL)": "name", "unsubscribe('unknown')": "name",
		"change('unknown', NULL, NULL)": "name", "change('s', '{}', NULL)": "topics",
		"change('s', NULL, '[]')":    "headers",
		"change('s', NULL, NULL, 0)": "lanes", "change('s', NULL, NULL, 65)": "lanes",
		"cut('unknown', '1 hour')": "name", "cut('s', NULL)": "older_than", "cut('s', '-1 hour')": "older_than",
		"cut('s')": "older_than", "cut('s', '1 hour', now())": "before",
		"cut('s', before => now() + interval '1 hour')": "before", "cut('s', before => 'infinity')": "before",
		"lag(0)": "most",
	} {
		_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_"+call)
		f.refusedOf(call, err, "22023", column, "")
	}
	for _, call := range []string{"replay('s', 'infinity')", "cut('s', '0')", "change('s', NULL, NULL)",
		"unsubscribe('s')"} {
		fixed, err := f.Pool.BeginTx(f.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		f.ok(err)
		_, err = fixed.Exec(f.Context(), "SELECT "+f.name+"_"+call)
		f.refused(call+" in REPEATABLE READ", err, "55000")
		f.ok(fixed.Rollback(f.Context()))
		tx := f.begin()
		f.exec(tx, "SELECT "+f.name+"_"+call)
		if got := value[string](f, tx, "SELECT current_setting('idle_in_transaction_session_timeout')"); got != "1min" {
			t.Errorf("after %s, a session may be idle for %s", call, got)
		}
		f.ok(tx.Rollback(f.Context()))
	}
}

// A client dies before its commit, and nothing has happened: the page is still in hand. It dies after it, does not
// know, and calls again: nothing more happens.
func TestTheClientOfAVerbDies(t *testing.T) {
	t.Parallel()
	for call, again := range map[string]string{
		"pause('s')": "", "change('s', '{topic}', NULL)": "", "replay('s', '-infinity')": "", "cut('s', '0')": "",
		"unsubscribe('s')": "22023",
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			f := newLog(t)
			f.subscribe("s")
			f.append(f.Pool, "a", "b", "c")
			f.tick()
			p := f.fetch("s", 2)
			state := func() string {
				return value[string](f, f.Pool, `SELECT
					coalesce((SELECT json_agg(p)::text FROM `+f.name+`_position AS p), '') ||
					coalesce((SELECT json_agg(s)::text FROM `+f.name+`_subscription AS s), '') ||
					(SELECT count(*) FROM `+f.name+`_loss)`)
			}
			before := state()
			conn, err := pgx.ConnectConfig(f.Context(), f.Pool.Config().ConnConfig.Copy())
			f.ok(err)
			defer conn.Close(context.Background())
			tx, err := conn.Begin(f.Context())
			f.ok(err)
			f.exec(tx, "SELECT "+f.name+"_"+call)
			f.exec(f.Pool, "SELECT pg_terminate_backend($1, 60000)", conn.PgConn().PID())
			if after := state(); after != before {
				t.Errorf("a client died before its commit: the state is\n%s\nand was\n%s", after, before)
			}
			f.settles("settled", "s", p.token, p.messages[0].Seq)
			f.exec(f.Pool, "SELECT "+f.name+"_"+call)
			after := state()
			_, err = f.Pool.Exec(f.Context(), "SELECT "+f.name+"_"+call)
			if again != "" {
				f.refused("once more", err, again)
			} else {
				f.ok(err)
			}
			if now := state(); now != after {
				t.Errorf("called once more, the state is\n%s\nand was\n%s", now, after)
			}
			want := map[bool]string{true: "settled", false: "lost"}[call == "pause('s')"]
			if got := f.settle("s", p.token, p.upto); got != want {
				t.Errorf("settle of the page in hand: %s, want %s", got, want)
			}
			if got := f.settle("s", uuid.New(), p.upto); got != "lost" {
				t.Errorf("settle with another token: %s, want lost", got)
			}
		})
	}
}

func TestLagOfSubscriptions(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('s', '{t}', lanes => 1)")
	f.appendKey(f.Pool, "k", "not of this topic")
	for range 3 {
		f.exec(f.Pool, "SELECT "+f.name+"_append('t', '')")
	}
	f.tick()
	p := f.fetch("s", 10)
	f.settle("s", p.token, p.messages[0].Seq, failure{Seq: p.messages[0].Seq})
	type lag struct {
		Messages           int64
		More, InHand       bool
		Attempts           int
		Live, Dead         int64
		Retained           int64
		Tick               int64
		Paused             bool
		Seconds, OfTheTick float64
	}
	ask := func(most int) (l lag) {
		t.Helper()
		rows, err := f.Pool.Query(f.Context(), `SELECT messages, more, in_hand, attempts, live, dead, retained, tick, paused,
			seconds, tick_seconds FROM `+f.name+`_lag($1)`, most)
		f.ok(err)
		l, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[lag])
		f.ok(err)
		return l
	}
	newest, _ := f.tick()
	l := ask(100)
	if l.Messages != 2 || l.More || !l.InHand || l.Attempts != 1 || l.Live != 1 || l.Dead != 0 || l.Retained == 0 ||
		l.Tick != newest || l.Paused || l.Seconds <= 0 || l.OfTheTick <= 0 {
		t.Errorf("in hand: %+v", l)
	}
	if l := ask(1); !l.More {
		t.Errorf("of a part of the log: %+v", l)
	}
	f.settle("s", p.token, p.upto)
	if l := ask(100); l.Messages != 0 || l.InHand || l.Retained != 0 || l.Seconds != 0 {
		t.Errorf("settled: %+v", l)
	}
}

// age makes all ticks older by an hour and a half.
func (f *fixture) age() {
	f.Helper()
	f.exec(f.Pool, "UPDATE "+f.name+"_tick SET at = at - interval '90 minutes'")
}

// waits returns when a statement waits for a lock.
func (f *fixture) waits(statement string) {
	f.Helper()
	if !pgtest.Await(pgtest.Patience, func() bool {
		return value[bool](f, f.Pool, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'
			AND query LIKE '%' || $1 || '%' AND query LIKE '%' || $2 || '%')`, f.DB.Schema, statement)
	}) {
		f.Fatalf("not within %v: %s waits", pgtest.Patience, statement)
	}
}

func (f *fixture) sameSet(what string, got []string, want ...string) {
	f.Helper()
	slices.Sort(got)
	slices.Sort(want)
	f.want(what, got, want...)
}

// Consumers run while their subscription is replayed, again and again. Behind the last replay each message is handled,
// from the first one on and in the order of its key: what was in hand before has no effect any more.
func TestReplaysBesideRunningConsumers(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.DB.Define(t, "CREATE TABLE effect (n bigserial PRIMARY KEY, payload text NOT NULL)")
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('s', lanes => 2)")
	keys := []string{"a", "b", "c", "d", "e"}
	for i := 1; i <= 30; i++ {
		for _, k := range keys {
			f.appendKey(f.Pool, k, fmt.Sprint(k, i))
		}
	}
	f.tick()
	ctx, stop := context.WithCancel(f.Context())
	defer stop()
	var consumers sync.WaitGroup
	for range 3 {
		consumers.Go(func() { f.consumeUntil(ctx, "s") })
	}
	var mark int64
	for range 6 {
		pgtest.Pass(50 * time.Millisecond)
		tx := f.begin()
		f.verb(tx, "replay('s', '-infinity')")
		mark = value[int64](f, tx, "SELECT coalesce(max(n), 0) FROM effect")
		f.ok(tx.Commit(f.Context()))
	}
	handled := func() int {
		return value[int](f, f.Pool, "SELECT count(DISTINCT payload) FROM effect WHERE n > $1", mark)
	}
	for n := handled(); n < 150; n = handled() {
		if !pgtest.Await(pgtest.Patience, func() bool { return handled() > n }) {
			t.Fatalf("not within %v: another message after %d of 150", pgtest.Patience, n)
		}
	}
	stop()
	consumers.Wait()
	for _, k := range keys {
		f.want("key "+k, value[[]string](f, f.Pool, `SELECT array_agg(payload ORDER BY n) FROM (SELECT payload, min(n) AS n
			FROM effect WHERE n > $1 AND starts_with(payload, $2) GROUP BY payload) AS first`, mark, k), numbered(k, 1, 30)...)
	}
}

// consumeUntil handles pages in parts, with an effect only where its token is still that of the lane.
func (f *fixture) consumeUntil(ctx context.Context, subscription string) {
	token := uuid.New()
	for ctx.Err() == nil {
		p, err := fetch(ctx, f.Pool, f.name, subscription, token, lease, 7)
		if err != nil {
			if ctx.Err() == nil {
				f.Error(err)
			}
			return
		}
		if p.upto == 0 {
			pgtest.Pass(5 * time.Millisecond)
			continue
		}
		for i, m := range p.messages {
			if _, err := f.Pool.Exec(ctx, "INSERT INTO effect (payload) SELECT $1 WHERE EXISTS (SELECT FROM "+f.name+
				"_position WHERE owner_token = $2 AND locked_until IS NOT NULL FOR SHARE)", m.Payload, token); err != nil {
				break
			}
			if i == 3 {
				_, _ = settle(ctx, f.Pool, f.name, subscription, token, m.Seq)
			}
		}
		if result, err := settle(ctx, f.Pool, f.name, subscription, token, p.upto); err != nil || result != "settled" {
			token = uuid.New()
		}
	}
}

// A claim that ends because of a verb is not counted as one whose consumer died; one whose lease has ended is.
func TestVerbsKillNobody(t *testing.T) {
	t.Parallel()
	for name, verb := range map[string]string{"pause": "SELECT {log}_pause('s')",
		"change": "SELECT {log}_change('s', NULL, NULL)"} {
		for _, dies := range []bool{false, true} {
			t.Run(fmt.Sprint(name, dies), func(t *testing.T) {
				t.Parallel()
				f := newLog(t)
				f.subscribe("s")
				f.append(f.Pool, "1", "2", "3")
				f.tick()
				p := f.fetch("s", 1)
				if name == "pause" {
					f.settle("s", p.token, p.upto)
				}
				if dies {
					f.lapse("s")
				}
				f.exec(f.Pool, strings.ReplaceAll(verb, "{log}", f.name))
				if name == "pause" {
					f.fetchAgain("s", p.token, 1)
					f.exec(f.Pool, "SELECT "+f.name+"_resume('s')")
				}
				f.fetch("s", 1)
				n := value[int](f, f.Pool, "SELECT attempts FROM "+f.name+"_position")
				if want := map[bool]int{false: 1, true: 2}[dies]; n != want {
					t.Errorf("%d attempts, want %d", n, want)
				}
			})
		}
	}
}
