package log_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/outbox/internal/log"
	"github.com/txwork/txwork/workqueue"
)

// parking is how a worker handles the parked messages of a subscription.
func (f *fixture) parking(subscription string) workqueue.Domain[log.Parked] {
	f.Helper()
	table, err := workqueue.Open(log.ParkedSpec(f.DB.Schema),
		workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)})
	f.ok(err)
	return workqueue.Domain[log.Parked]{Table: table, Columns: (*log.Parked).List, Lanes: [][]any{{subscription}}}
}

// run handles the parked messages of a subscription until none is due, and returns their payloads.
func (f *fixture) run(subscription string, handle func(p *log.Parked) error) (payloads []string) {
	f.Helper()
	var mu sync.Mutex
	w, err := workqueue.NewWorker(f.Pool, f.parking(subscription),
		func(_ context.Context, c *workqueue.Claim[log.Parked]) error {
			mu.Lock()
			defer mu.Unlock()
			payloads = append(payloads, string(c.Body.Payload))
			if handle != nil {
				return handle(&c.Body)
			}
			return nil
		}, workqueue.WorkerOptions{})
	f.ok(err)
	d, err := w.Drain()
	f.ok(err)
	for {
		before := len(payloads)
		_, err := d.Process(f.Context())
		f.ok(err)
		if len(payloads) == before {
			return payloads
		}
	}
}

// parked are the payloads of a subscription that have not ended, in their order.
func (f *fixture) parked(subscription string) []string {
	f.Helper()
	return value[[]string](f, f.Pool, "SELECT coalesce(array_agg(convert_from(payload, 'UTF8') ORDER BY seq), '{}') "+
		"FROM "+f.name+"_parked WHERE subscription = $1 AND completed_at IS NULL", subscription)
}

// failing is the failure of a message of a page.
func failing(p page, payload string) failure {
	for _, m := range p.messages {
		if m.Payload == payload {
			return failure{Seq: m.Seq, Error: "no " + payload}
		}
	}
	panic("the page has no " + payload)
}

func TestParkingAndMovingOnAreOne(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "a", "b", "c")
	f.tick()
	p := f.fetch("s", 10)
	tx := f.begin()
	_, err := settle(f.Context(), tx, f.name, "s", p.token, p.upto, failing(p, "b"))
	f.ok(err)
	f.ok(tx.Rollback(f.Context()))
	f.want("parked after a rollback", f.parked("s"))
	f.want("in hand after a rollback", f.fetchAgain("s", p.token, 1).payloads(), "a", "b", "c")

	for _, want := range []string{"ended", "repeated"} {
		if got := f.settle("s", p.token, p.upto, failing(p, "b")); got != want {
			t.Errorf("settle: %s, want %s", got, want)
		}
	}
	f.want("parked", f.parked("s"), "b")
	var row struct {
		attempts int
		message  uuid.UUID
		topic    string
		reason   string
	}
	f.ok(f.Pool.QueryRow(f.Context(), "SELECT attempts, message_id, topic, last_error FROM "+f.name+"_parked").Scan(
		&row.attempts, &row.message, &row.topic, &row.reason))
	if row.attempts != 1 || row.message != p.messages[1].ID || row.topic != "topic" || row.reason != "no b" {
		t.Errorf("the parked row is %+v", row)
	}
	f.want("run again", f.run("s", nil), "b")
	f.want("at last", f.parked("s"))
}

func TestTheRestOfAKeyIsParkedBehindAFailure(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.appendKey(f.Pool, "k", "k1")
	f.appendKey(f.Pool, "other", "o1")
	f.appendKey(f.Pool, "k", "k2")
	f.append(f.Pool, "none")
	f.appendKey(f.Pool, "k", "k3")
	f.appendKey(f.Pool, "other", "o2")
	f.tick()
	p := f.fetch("s", 10)
	f.settle("s", p.token, p.upto, failing(p, "k2"))
	f.want("parked", f.parked("s"), "k2", "k3")
	f.want("in their order", f.run("s", nil), "k2", "k3")
}

// The failure is settled before the rest of the page is. What the page has of its key is parked when it is settled.
func TestAFailureInTheMiddleOfAPage(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.appendKey(f.Pool, "k", "k1")
	f.append(f.Pool, "a")
	f.appendKey(f.Pool, "k", "k2")
	f.append(f.Pool, "b")
	f.appendKey(f.Pool, "k", "k3")
	f.tick()
	p := f.fetch("s", 10)
	f.settle("s", p.token, p.messages[1].Seq, failing(p, "k1"))
	f.want("parked at once", f.parked("s"), "k1")
	f.want("the page without the rest of the key", f.fetchAgain("s", p.token, 10).payloads(), "b")
	f.want("the first is handled meanwhile", f.run("s", nil), "k1")
	f.settle("s", p.token, p.messages[3].Seq)
	f.want("parked with the next part", f.parked("s"), "k2")
	f.settles("ended", "s", p.token, p.upto)
	f.want("in their order", f.run("s", nil), "k2", "k3")
}

func TestAKeyIsWithheldWhileItIsParked(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.subscribe("other")
	f.appendKey(f.Pool, "k", "k1")
	f.tick()
	p := f.fetch("s", 10)
	f.settle("s", p.token, p.upto, failing(p, "k1"))
	f.appendKey(f.Pool, "k", "k2")
	f.appendKey(f.Pool, "l", "l1")
	f.want("blocked", f.drain("s", 10), "l1")
	f.want("the other subscription", f.drain("other", 10), "k1", "k2", "l1")
	f.want("parked", f.parked("s"), "k1", "k2")
	f.want("in their order", f.run("s", nil), "k1", "k2")
	f.appendKey(f.Pool, "k", "k3")
	f.want("released", f.drain("s", 10), "k3")
}

// All of a page may be withheld: it is settled all the same.
func TestAPageThatIsWithheld(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.appendKey(f.Pool, "k", numbered("k", 1, 3)...)
	f.tick()
	p := f.fetch("s", 1)
	f.settle("s", p.token, p.upto, failing(p, "k1"))
	p = f.fetchAgain("s", p.token, 1)
	if len(p.messages) != 0 || p.upto == 0 || !p.more {
		t.Errorf("a page that is withheld: %+v", p)
	}
	f.lapse("s") // its consumer dies
	f.want("by another consumer", f.drain("s", 1))
	f.want("in their order", f.run("s", nil), numbered("k", 1, 3)...)
}

// Whether a key was blocked is decided when its page is fetched. It is parked, or handed out, never both or neither,
// although the key is released or blocked before the page is settled.
func TestAKeyIsReleasedBetweenFetchAndSettle(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.appendKey(f.Pool, "k", "k1")
	f.tick()
	p := f.fetch("s", 10)
	f.settle("s", p.token, p.upto, failing(p, "k1"))
	f.appendKey(f.Pool, "k", "k2")
	f.append(f.Pool, "a")
	f.tick()
	p = f.fetch("s", 10)
	f.want("withheld", p.payloads(), "a")
	f.want("released meanwhile", f.run("s", nil), "k1")
	f.want("the same page again", f.fetchAgain("s", p.token, 10).payloads(), "a")
	f.settle("s", p.token, p.upto)
	f.want("parked, since it was not handed out", f.parked("s"), "k2")
	f.want("handled", f.run("s", nil), "k2")

	f.appendKey(f.Pool, "k", "k3")
	f.tick()
	p = f.fetch("s", 10)
	f.want("handed out", p.payloads(), "k3")
	f.exec(f.Pool, "UPDATE "+f.name+"_parked SET status = 0, completed_at = NULL, owner_token = NULL, attempts = 0 "+
		"WHERE convert_from(payload, 'UTF8') = 'k1'")
	f.settle("s", p.token, p.upto)
	f.want("not parked, since it was handed out", f.parked("s"), "k1")
}

func TestADeadLetterBlocksItsKey(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.appendKey(f.Pool, "k", "k1")
	f.append(f.Pool, "a")
	f.tick()
	p := f.fetch("s", 10)
	f.settle("s", p.token, p.upto, failing(p, "k1"), failing(p, "a"))
	f.run("s", func(p *log.Parked) error { return workqueue.Permanent(context.Canceled) })
	f.appendKey(f.Pool, "k", "k2")
	f.append(f.Pool, "b")
	f.want("behind a dead letter", f.drain("s", 10), "b")
	f.want("behind a dead letter, parked", f.run("s", nil))
	var dead uuid.UUID
	f.ok(f.Pool.QueryRow(f.Context(), "SELECT id FROM "+f.name+"_parked WHERE key = 'k' AND failed_at IS NOT NULL").
		Scan(&dead))
	f.exec(f.Pool, "SELECT "+f.name+"_parked_redrive($1, 'somebody')", []uuid.UUID{dead})
	f.want("redriven", f.run("s", nil), "k1", "k2")
	f.appendKey(f.Pool, "k", "k3")
	f.want("released", f.drain("s", 10), "k3")
}

func TestKeysThatTheCoreWouldRefuse(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	long := strings.Repeat("k", 255)
	name := strings.Repeat("s", 48)
	f.subscribe(name)
	f.appendKey(f.Pool, long, "1", "2")
	f.appendKey(f.Pool, long[1:], "other")
	f.appendKey(f.Pool, "", "none")
	f.tick()
	p := f.fetch(name, 10)
	f.settle(name, p.token, p.messages[0].Seq, failing(p, "1"))
	f.settle(name, p.token, p.upto)
	f.want("parked", f.parked(name), "1", "2")
	f.appendKey(f.Pool, long, "3")
	f.want("blocked", f.drain(name, 10))
	f.want("in their order", f.run(name, nil), "1", "2", "3")
}

func TestWhatASettleRefuses(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "a", "b", "c")
	f.tick()
	p := f.fetch("s", 10)
	a, c := p.messages[0].Seq, p.messages[2].Seq
	for what, failed := range map[string][]failure{
		"a stranger":                    {{Seq: c + 1}},
		"a message twice":               {{Seq: a}, {Seq: a}},
		"one behind what is settled":    {{Seq: c}},
		"one that was settled already":  {{Seq: 0}},
		"a negative delay":              {{Seq: a, Delay: -1}},
		"a delay of thousands of years": {{Seq: a, Delay: 1e11}},
	} {
		_, err := settle(f.Context(), f.Pool, f.name, "s", p.token, p.messages[1].Seq, failed...)
		f.refused(what, err, "22023")
	}
	for _, failed := range []string{`{}`, `[1]`, `[{}]`, `[{"seq": "x"}]`, `[{"seq": 1, "more": 2}]`, `[null]`,
		`[{"seq": 1, "delay": "soon"}]`} {
		_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_settle('s', $1, $2, $3)", p.token, c, failed)
		f.refused(failed, err, "22023")
	}
	_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_settle('s', $1, NULL)", p.token)
	f.refused("no number", err, "22023")
	f.want("parked", f.parked("s"))
	f.want("still in hand", f.fetchAgain("s", p.token, 10).payloads(), "a", "b", "c")
}

// A failure may be no attempt, or the last one. A producer cannot pretend the latter.
func TestOutcomesOfFailures(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	for _, payload := range []string{"a", "b", "c", "d"} {
		f.exec(f.Pool, "SELECT "+f.name+`_append('topic', $1, NULL, '{"txwork-permanent": "mine", "own": "1"}')`,
			[]byte(payload))
	}
	f.tick()
	p := f.fetch("s", 10)
	failed := []failure{failing(p, "a"), failing(p, "b"), failing(p, "c")}
	failed[0].Outcome, failed[1].Outcome, failed[2].Outcome = "retry", "snooze", "fail"
	f.settle("s", p.token, p.upto, failed...)
	got := value[[]string](f, f.Pool, "SELECT array_agg(concat_ws(' ', convert_from(payload, 'UTF8'), attempts, "+
		"last_error, headers) ORDER BY seq) FROM "+f.name+"_parked")
	f.want("parked", got, `a 1 no a {"own": "1"}`, `b 0 no b {"own": "1"}`,
		`c 0 no c {"own": "1", "txwork-permanent": "no c"}`)
	f.append(f.Pool, "e")
	f.tick()
	p = f.fetch("s", 10)
	_, err := settle(f.Context(), f.Pool, f.name, "s", p.token, p.upto, failure{Seq: p.upto, Outcome: "done"})
	f.refused("an unknown outcome", err, "22023")
}
