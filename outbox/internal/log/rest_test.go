package log_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

// An outage is what outbox_log_unavailable returns.
type outage struct {
	result string
	since  *time.Time
	wait   float64
}

func (f *fixture) unavailable(subscription string, token uuid.UUID, cause string) (o outage) {
	f.Helper()
	f.ok(f.Pool.QueryRow(f.Context(), "SELECT result, since, seconds FROM "+f.name+"_unavailable($1, $2, $3)",
		subscription, token, cause).Scan(&o.result, &o.since, &o.wait))
	return o
}

// rested ends the rest of a subscription's destination, as time does.
func (f *fixture) rested(subscription string) {
	f.Helper()
	f.exec(f.Pool, "UPDATE "+f.name+"_position SET rest.until = now() - interval '1 second' "+
		"WHERE subscription = $1 AND (rest).since IS NOT NULL", subscription)
}

// held checks that a subscription hands out nothing because its destination is unavailable.
func (f *fixture) held(what, subscription string) page {
	f.Helper()
	p := f.fetch(subscription, 10)
	if p.held != "unavailable" || p.upto != 0 || len(p.messages) > 0 {
		f.Errorf("%s: %+v, want held as unavailable", what, p)
	}
	return p
}

// A subscription whose destination is unavailable rests in all its lanes, longer after each probe, and one message of
// one consumer probes it. No claim is counted.
func TestADestinationRests(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('s', lanes => 2)")
	f.append(f.Pool, numbered("m", 1, 20)...)
	f.tick()
	first, second := f.fetch("s", 20), f.fetch("s", 20)
	f.settles("settled", "s", first.token, first.messages[0].Seq)
	began := f.unavailable("s", first.token, "connection refused")
	if began.result != "began" || began.wait < 0.39 || began.wait > 0.5 || began.since == nil {
		t.Errorf("the first one: %+v", began)
	}
	if o := f.unavailable("s", first.token, "connection refused"); o.result != "lost" {
		t.Errorf("a repeated call: %+v", o)
	}
	if o := f.unavailable("s", second.token, "connection refused"); o.result != "resting" ||
		!o.since.Equal(*began.since) {
		t.Errorf("another lane: %+v", o)
	}
	f.held("during the rest", "s")
	var lengths []float64
	for range 7 {
		f.rested("s")
		probe := f.fetch("s", 10)
		f.want("the probe", probe.payloads(), first.messages[1].Payload)
		if probe.attempts != 1 {
			t.Errorf("a probe is attempt %d", probe.attempts)
		}
		f.held("beside a probe", "s")
		o := f.unavailable("s", probe.token, "connection refused")
		if o.result != "resting" || !o.since.Equal(*began.since) {
			t.Errorf("a probe: %+v", o)
		}
		lengths = append(lengths, o.wait)
	}
	for i, most := range []float64{1, 2, 4, 8, 10, 10, 10} {
		if lengths[i] > most || lengths[i] < 0.79*most {
			t.Errorf("after probe %d it rests for %.2f s, want up to a fifth less than %g", i+1, lengths[i], most)
		}
	}
	f.rested("s")
	probe := f.fetch("s", 10)
	f.settles("settled", "s", probe.token, probe.upto)
	next := f.fetchAgain("s", probe.token, 20)
	f.want("the next page", next.payloads(), payloadsOf(first.messages[2:])...)
	other := f.fetch("s", 20)
	f.want("the other lane", other.payloads(), second.payloads()...)
}

func payloadsOf(messages []message) []string { return page{messages: messages}.payloads() }

// A prober that dies is followed by the next one when its lease has ended. One that gives its lane back, or that has
// its message snoozed, has found out nothing: the first rest begins anew. A failure of the message ends the outage.
func TestAProbeThatSaysNothing(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "a", "b", "c")
	f.tick()
	p := f.fetch("s", 10)
	f.unavailable("s", p.token, "away")
	f.exec(f.Pool, "UPDATE "+f.name+"_position SET rest.until = now() + interval '1 hour'") // the clock went back
	dead := f.fetch("s", 10)
	f.held("beside the prober", "s")
	f.lapse("s")
	next := f.fetch("s", 10)
	f.want("after its death", next.payloads(), "a")
	f.settles("lost", "s", dead.token, dead.upto)
	f.exec(f.Pool, "SELECT "+f.name+"_release('s', $1)", next.token)
	f.held("after a release", "s")
	f.rested("s")
	p = f.fetch("s", 10)
	f.settles("settled", "s", p.token, p.upto, failure{Seq: p.upto, Outcome: "snooze", Delay: 100})
	if p = f.fetchAgain("s", p.token, 10); p.held != "unavailable" {
		t.Errorf("after a snooze: %+v", p)
	}
	f.rested("s")
	p = f.fetch("s", 10)
	f.want("the next probe", p.payloads(), "b")
	f.settles("settled", "s", p.token, p.upto, failure{Seq: p.upto, Error: "refused"})
	f.want("it is available", f.fetchAgain("s", p.token, 10).payloads(), "c")
}

// A probe that says nothing, and has no message behind it, ends the rest: the lane could not probe again, and while it
// rests no other lane may.
func TestAProbeThatIsTheLast(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "a")
	f.tick()
	f.unavailable("s", f.fetch("s", 10).token, "away")
	f.rested("s")
	p := f.fetch("s", 10)
	f.settles("ended", "s", p.token, p.upto, failure{Seq: p.upto, Outcome: "snooze", Delay: 100})
	if n := value[int](f, f.Pool, "SELECT count(*) FROM "+f.name+"_position WHERE (rest).since IS NOT NULL"); n > 0 {
		t.Error("a lane without messages rests")
	}
}

// Messages of a blocked key are no probes: they are parked, and the message behind them is the probe.
func TestAProbePassesWithheldMessages(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.appendKey(f.Pool, "k", "k1", "k2", "k3")
	f.append(f.Pool, "m1", "m2")
	f.tick()
	p := f.fetch("s", 1)
	f.settles("settled", "s", p.token, p.upto, failure{Seq: p.upto, Error: "failed", Delay: 1000})
	p = f.fetchAgain("s", p.token, 10)
	f.want("not withheld", p.payloads(), "m1", "m2")
	f.unavailable("s", p.token, "away")
	f.rested("s")
	p = f.fetch("s", 2)
	f.want("withheld ones only", p.payloads())
	f.settles("settled", "s", p.token, p.upto)
	p = f.fetchAgain("s", p.token, 2)
	f.want("the probe", p.payloads(), "m1")
	f.unavailable("s", p.token, "away")
	f.held("it still is", "s")
	f.exec(f.Pool, "SELECT "+f.name+"_resume('s')")
	f.want("an operator ends the rest", f.fetch("s", 10).payloads(), "m1", "m2")
}

// What is settled ahead of the position is not handed out again, and parked if it failed; the rest of its key follows.
func TestSettlingAheadOfThePosition(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "a", "b", "c")
	f.appendKey(f.Pool, "k", "k1", "k2")
	f.append(f.Pool, "d")
	f.tick()
	p := f.fetch("s", 10)
	m := p.messages
	ahead := func() (result string) {
		f.ok(f.Pool.QueryRow(f.Context(), "SELECT "+f.name+"_settle('s', $1, $2, $3, NULL, $4)", p.token, m[0].Seq,
			[]failure{{Seq: m[3].Seq, Error: "failed", Delay: 1000}}, []int64{m[2].Seq, m[3].Seq}).Scan(&result))
		return result
	}
	for _, want := range []string{"settled", "repeated"} {
		if got := ahead(); got != want {
			t.Errorf("settle: %s, want %s", got, want)
		}
	}
	if n := value[int](f, f.Pool, "SELECT count(*) FROM "+f.name+"_parked"); n != 1 {
		t.Errorf("%d messages were parked, want the one that failed", n)
	}
	f.unavailable("s", p.token, "away")
	if n := value[int](f, f.Pool, "SELECT messages FROM "+f.name+"_lag()"); n != 3 {
		t.Errorf("%d messages are not settled, want 3", n)
	}
	f.rested("s")
	p = f.fetch("s", 10)
	f.want("the probe", p.payloads(), "b")
	f.settles("settled", "s", p.token, p.upto)
	p = f.fetchAgain("s", p.token, 10)
	f.want("what is left", p.payloads(), "d")
	f.settles("ended", "s", p.token, p.upto)
	if n := value[int](f, f.Pool, "SELECT count(*) FROM "+f.name+"_parked"); n != 2 {
		t.Errorf("%d messages were parked, want the rest of the key, too", n)
	}
	if n := value[int](f, f.Pool, "SELECT cardinality(ahead) FROM "+f.name+"_position"); n != 0 {
		t.Errorf("%d numbers are kept behind the batch", n)
	}
}

// What was settled ahead of the position has ended: a later settle does not park it, neither with its key nor by name.
func TestWhatIsSettledAheadIsNotParked(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "probe")
	f.appendKey(f.Pool, "k", "k1", "k2")
	f.append(f.Pool, "last")
	f.tick()
	p := f.fetch("s", 10)
	m := p.messages
	f.exec(f.Pool, "SELECT "+f.name+"_settle('s', $1, 0, ahead => $2)", p.token, []int64{m[2].Seq})
	f.unavailable("s", p.token, "away")
	f.rested("s")
	p = f.fetch("s", 10)
	f.settles("settled", "s", p.token, p.upto)
	p = f.fetchAgain("s", p.token, 10)
	f.want("what is left", p.payloads(), "k1", "last")
	_, err := settle(f.Context(), f.Pool, f.name, "s", p.token, p.upto, failure{Seq: m[2].Seq, Error: "failed"})
	f.refused("a failure of what is settled", err, "22023")
	f.settles("ended", "s", p.token, p.upto, failure{Seq: m[1].Seq, Error: "failed", Delay: 1000})
	if parked := value[[]string](f, f.Pool, "SELECT array_agg(convert_from(payload, 'UTF8')) FROM "+f.name+"_parked"); len(
		parked) != 1 || parked[0] != "k1" {
		t.Errorf("parked are %q, want the one that failed", parked)
	}
}

// Verbs that move a subscription end its rest.
func TestVerbsEndARest(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"replay('s', '-infinity')", "change('s', NULL, NULL)", "resume('s')"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			f := newLog(t)
			f.subscribe("s")
			f.append(f.Pool, "a", "b")
			f.tick()
			f.unavailable("s", f.fetch("s", 10).token, "away")
			f.held("before", "s")
			f.exec(f.Pool, "SELECT "+f.name+"_"+verb)
			f.want("after", f.fetch("s", 10).payloads(), "a", "b")
		})
	}
}
