//go:build unix

package torture

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// A story is a history that is told step by step: each step changes the row's last state.
type story struct {
	History
	state State
	seq   int64
	clock time.Time
}

var dawn = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

const (
	app1 = "torture worker1.1"
	app2 = "torture worker2.1"
)

func tell(table string) *story {
	return &story{History: History{Table: table, ID: "row", Name: "name"}, state: State{Max: 3, Due: dawn}, clock: dawn}
}

// write appends a version, a millisecond after the one before, by a process.
func (s *story) write(op byte, app string, change func(*State)) *story {
	old, oldToken := s.state.Status, s.state.Token
	if op == 'I' {
		old = -1
	}
	s.seq++
	s.clock = s.clock.Add(time.Millisecond)
	change(&s.state)
	s.Changes = append(s.Changes, Change{
		Seq: s.seq, Op: op, OldStatus: old, OldToken: oldToken, New: s.state, App: app, XID: 100 + s.seq,
		TxnAt: s.clock, At: s.clock, Committed: s.clock,
	})
	return s
}

func (s *story) insert() *story { return s.write('I', "producer", func(*State) {}) }

func (s *story) asked(outcomes ...Outcome) *story {
	s.Asked = outcomes
	return s
}

// claim takes the row for a second.
func (s *story) claim(app, token string) *story {
	return s.write('U', app, func(n *State) {
		n.Status, n.Token, n.Attempts, n.Locked = inProgress, token, n.Attempts+1, s.clock.Add(time.Second)
	})
}

// run is a handler of the last claim, which has ended by now.
func (s *story) run(app, mode, result string) *story {
	s.clock = s.clock.Add(2 * time.Millisecond)
	s.Runs = append(s.Runs, Handling{App: app, Attempt: s.state.Attempts, Mode: mode, Start: s.clock.Add(-time.Millisecond), End: s.clock, Result: result})
	return s
}

func (s *story) end(app string, status int16) *story {
	return s.write('U', app, func(n *State) { n.Status, n.Locked = status, time.Time{} })
}

// ack with so many effects in its transaction.
func (s *story) ack(app string, effects int) *story {
	s.end(app, done)
	for range effects {
		s.effect(app)
	}
	return s
}

// effect is one in the transaction of the last change.
func (s *story) effect(app string) *story { return s.effectOf(app, s.state.Attempts) }

func (s *story) effectOf(app string, attempt int) *story {
	s.Effects = append(s.Effects, Effect{XID: 100 + s.seq, App: app, Attempt: attempt})
	return s
}

// reap takes the row back after the lease.
func (s *story) reap(after time.Duration) *story {
	s.clock = s.clock.Add(after)
	return s.write('U', "torture reaper1.1", func(n *State) { n.Status, n.Token, n.Locked = ready, "", time.Time{} })
}

// fine is a row's ordinary way.
func fine(table string) *story {
	return tell(table).asked(Committed).insert().claim(app1, "a").run(app1, modeTx, resultTx).ack(app1, 1)
}

func verdict(f Facts, stories ...*story) Verdict {
	histories := make([]*History, len(stories))
	for i, s := range stories {
		histories[i] = &s.History
	}
	return Check(slices.Values(histories), f)
}

func TestCheckAccepts(t *testing.T) {
	t.Parallel()
	plain := func() *story { return tell("jobs").asked(Committed).insert().claim(app1, "a") }
	for name, s := range map[string]*story{
		"the ordinary way":                        fine("jobs"),
		"a maybe that is there":                   fine("jobs").asked(Maybe),
		"a maybe that is not":                     tell("jobs").asked(Maybe),
		"a rollback":                              tell("jobs").asked(RolledBack),
		"a key that was rolled back and then not": fine("timers").asked(RolledBack, Committed),
		"a crash, a reap and another worker":      plain().reap(2*time.Second).claim(app2, "b").run(app2, modeTx, resultTx).ack(app2, 1),
		"a failed attempt":                        plain().run(app1, modeFlaky, resultError).end(app1, ready).claim(app1, "b").run(app1, modePlain, resultOK).ack(app1, 0),
		"a snooze": plain().write('U', app1, func(n *State) { n.Status, n.Attempts = ready, n.Attempts-1 }).
			claim(app1, "b").run(app1, modePlain, resultOK).ack(app1, 0),
		"a stale handler that is refused": plain().reap(2*time.Second).claim(app2, "b").run(app2, modeTx, resultTx).ack(app2, 1).
			late(app1, 1, modeTx, resultError),
		"a cancel":       tell("jobs").asked(Committed).insert().write('U', "producer", func(n *State) { n.Status, n.Cancelled = failed, true }),
		"a renewal":      plain().write('U', app1, func(n *State) { n.Locked = s2(n.Locked) }).run(app1, modePlain, resultOK).ack(app1, 0),
		"an inbox's key": tell("inbox").asked(Committed).write('I', "producers", func(n *State) { n.Status, n.Attempts = done, 1 }).effect("producers"),
		"a timer that is set anew": fine("timers").write('U', "producers", func(n *State) { n.Status, n.Token, n.Attempts, n.Generation = ready, "", 0, 1 }).
			claim(app2, "b").run(app2, modePlain, resultOK).ack(app2, 0),
		"a timer that is set during its firing": tell("timers").insert().claim(app1, "a").
			write('U', "producers", func(n *State) { n.Generation = 1 }).run(app1, modeTx, resultTx).
			write('U', app1, func(n *State) { n.Status, n.Attempts = ready, 0 }).effectOf(app1, 1).
			claim(app1, "b").run(app1, modePlain, resultOK).ack(app1, 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if v := verdict(Facts{}, s); len(v.Violations) > 0 {
				t.Errorf("found %v\n%v", v.Violations[0], s.text())
			}
		})
	}
}

func s2(t time.Time) time.Time { return t.Add(time.Second) }

// late is a handler of an earlier attempt that ends only now; it began right after its claim.
func (s *story) late(app string, attempt int, mode, result string) *story {
	for _, c := range s.Changes {
		if c.New.Status == inProgress && c.App == app && c.New.Attempts == attempt {
			s.Runs = append(s.Runs, Handling{App: app, Attempt: attempt, Mode: mode, Start: c.At.Add(time.Microsecond), End: s.clock, Result: result})
			return s
		}
	}
	panic("there is no such claim")
}

func TestCheckRejects(t *testing.T) {
	t.Parallel()
	claimed := func() *story { return tell("jobs").asked(Committed).insert().claim(app1, "a") }
	stale := func() *story { return claimed().reap(2*time.Second).claim(app2, "b") }
	for name, c := range map[string]struct {
		invariant string
		story     *story
	}{
		"a commit without a row":                    {"I1", tell("jobs").asked(Committed)},
		"a row that is left ready":                  {"I1", tell("jobs").asked(Committed).insert()},
		"a row that is left in progress":            {"I1", claimed()},
		"a row that is deleted":                     {"I1", fine("jobs").write('D', app1, func(*State) {})},
		"a row inserted twice":                      {"I1", fine("jobs").write('I', app1, func(*State) {})},
		"a row of a rollback":                       {"I2", fine("jobs").asked(RolledBack)},
		"a handler of a rollback":                   {"I2", tell("jobs").asked(RolledBack).run(app1, modePlain, resultOK)},
		"a token that is used twice":                {"I3", claimed().run(app1, modePlain, resultError).end(app1, ready).claim(app1, "a").run(app1, modePlain, resultOK).ack(app1, 0)},
		"a token that changes in progress":          {"I3", claimed().write('U', app2, func(n *State) { n.Token = "b" }).run(app1, modePlain, resultOK).ack(app1, 0)},
		"a lease that is taken too early":           {"I3", claimed().reap(time.Millisecond).claim(app2, "b").run(app2, modePlain, resultOK).ack(app2, 0)},
		"a handler without a claim":                 {"I3", fine("jobs").run(app2, modePlain, resultOK)},
		"a handler before its claim commits":        {"I3", fine("jobs").commitLate()},
		"an ack with a stale token":                 {"I4", stale().late(app1, 1, modePlain, resultOK).ack(app1, 0)},
		"an ack that nobody claimed":                {"I4", tell("jobs").insert().end(app1, done)},
		"an ack without a handler":                  {"I4", claimed().ack(app1, 0)},
		"a failure that nobody claimed":             {"I4", tell("jobs").insert().end(app1, failed)},
		"a settle that changes the token":           {"I4", claimed().run(app1, modePlain, resultOK).write('U', app1, func(n *State) { n.Status, n.Token = done, "x" })},
		"a token that changes afterwards":           {"I4", fine("jobs").write('U', app1, func(n *State) { n.Token = "x" })},
		"a stale handler that is told it committed": {"I4", stale().run(app2, modePlain, resultOK).ack(app2, 0).late(app1, 1, modeTx, resultTx)},
		"a second end":                              {"I5", fine("jobs").write('U', app2, func(n *State) { n.Status = failed })},
		"an end that is taken back":                 {"I5", fine("jobs").reap(2*time.Second).claim(app2, "b").run(app2, modePlain, resultOK).ack(app2, 0)},
		"a claim that does not count":               {"I6", tell("jobs").insert().write('U', app1, func(n *State) { n.Status, n.Token, n.Locked = inProgress, "a", s2(dawn) }).run(app1, modePlain, resultOK).ack(app1, 0)},
		"a failure that counts":                     {"I6", claimed().run(app1, modePlain, resultError).write('U', app1, func(n *State) { n.Status, n.Attempts = failed, 2 })},
		"a claim beyond the attempts":               {"I6", tell("jobs").upTo(0).insert().claim(app1, "a").run(app1, modePlain, resultOK).ack(app1, 0)},
		"a waiting row that is claimed":             {"I8", tell("outbox").write('I', "producer", func(n *State) { n.Waiting = true }).claim(app1, "a").run(app1, modePlain, resultOK).ack(app1, 0)},
		"a claim before the due time":               {"I9", tell("jobs").due(time.Hour).insert().claim(app1, "a").run(app1, modePlain, resultOK).ack(app1, 0)},
		"a timer before its time":                   {"I9", tell("timers").fire(time.Hour).insert().claim(app1, "a").run(app1, modePlain, resultOK).ack(app1, 0)},
		"an ack without its effect":                 {"I11", claimed().run(app1, modeTx, resultError).ack(app1, 0)},
		"an ack with two effects":                   {"I11", claimed().run(app1, modeTx, resultTx).ack(app1, 2)},
		"an effect without its ack":                 {"I11", claimed().effect(app1).run(app1, modeFlaky, resultError).end(app1, ready).claim(app1, "b").run(app1, modePlain, resultOK).ack(app1, 0)},
		"an effect of every attempt":                {"I11", fine("jobs").effect(app2)},
		"a version that is missing":                 {"audit", fine("jobs").without(1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rejects(t, c.invariant, verdict(Facts{}, c.story))
		})
	}
}

func rejects(t *testing.T, invariant string, v Verdict) {
	t.Helper()
	if v.Counts[invariant] == 0 {
		t.Fatalf("found %v, want %s", slices.Sorted(maps.Keys(v.Counts)), invariant)
	}
	for _, found := range v.Violations {
		if found.What == "" || found.Invariant != "I7" && len(found.History) == 0 {
			t.Errorf("%v does not show the history", found)
		}
	}
}

func (s *story) commitLate() *story {
	s.Changes[1].Committed = s.Runs[0].Start.Add(time.Microsecond)
	return s
}

func (s *story) upTo(attempts int) *story {
	s.state.Max = attempts
	return s
}

func (s *story) due(in time.Duration) *story {
	s.state.Due = s.clock.Add(in)
	return s
}

func (s *story) fire(in time.Duration) *story {
	s.state.Fire = s.clock.Add(in)
	return s
}

func (s *story) without(i int) *story {
	s.Changes = slices.Delete(s.Changes, i, i+1)
	return s
}

func TestCheckAllowsForCrashes(t *testing.T) {
	t.Parallel()
	s := fine("jobs").run(app2, modePlain, resultOK)
	at := s.Runs[1].Start
	if v := verdict(Facts{Outages: []Span{{at.Add(time.Second), at.Add(2 * time.Second)}}}, s); len(v.Violations) > 0 {
		t.Errorf("a claim that a crash has forgotten: %v", v.Violations[0])
	}
	rejects(t, "I3", verdict(Facts{Outages: []Span{{at.Add(time.Minute), at.Add(2 * time.Minute)}}}, s))
}

func TestCheckStall(t *testing.T) {
	t.Parallel()
	rejects(t, "I10", verdict(Facts{Stalled: true}, tell("jobs").insert()))
}

// ordered are rows of one key, whose transactions commit one after another: all are inserted before the first is claimed.
func ordered(n int) []*story {
	stories := make([]*story, n)
	for i := range stories {
		s := tell("outbox")
		s.Key, s.ID, s.seq, s.clock = "key", fmt.Sprint("row", i), int64(i), dawn.Add(time.Duration(i)*time.Millisecond)
		stories[i] = s.insert()
		s.seq, s.clock = int64(100*(i+1)), dawn.Add(time.Duration(i+1)*time.Second)
	}
	return stories
}

func handled(s *story) *story {
	return s.claim(app1, "t"+s.ID).run(app1, modePlain, resultOK).ack(app1, 0)
}

func TestCheckOrder(t *testing.T) {
	t.Parallel()
	in := ordered(2)
	if v := verdict(Facts{}, handled(in[0]), handled(in[1])); len(v.Violations) > 0 {
		t.Errorf("rows in order: %v", v.Violations[0])
	}
	turned := ordered(2)
	turned[0].seq, turned[1].seq = turned[1].seq, turned[0].seq
	rejects(t, "I8", verdict(Facts{}, handled(turned[0]), handled(turned[1])))

	both := ordered(2)
	both[0].claim(app1, "a").run(app1, modePlain, resultOK)
	both[1].seq = both[0].seq + 1
	both[1].claim(app2, "b").run(app2, modePlain, resultOK)
	both[0].seq, both[1].seq = both[1].seq+1, both[1].seq+2
	both[0].ack(app1, 0)
	both[1].ack(app2, 0)
	rejects(t, "I8", verdict(Facts{}, both[0], both[1]))
}

func TestCheckLimit(t *testing.T) {
	t.Parallel()
	two := func() []*story { // in one claim, and a later one
		a, b, last := fine("jobs"), fine("jobs"), tell("jobs")
		b.ID, last.ID, last.seq = "other", "last", 100
		return []*story{a, b, last.insert().claim(app1, "z").run(app1, modePlain, resultOK).ack(app1, 0)}
	}
	call := func(limit, delivered int) Facts {
		return Facts{Calls: []ClaimCall{{Table: "jobs", App: app1, Limit: limit, Delivered: delivered}}}
	}
	if v := verdict(call(2, 2), two()...); len(v.Violations) > 0 {
		t.Errorf("as many as asked for: %v", v.Violations[0])
	}
	rejects(t, "I7", verdict(call(1, 2), two()...))
	rejects(t, "I7", verdict(call(1, 1), two()...))
}

func TestCheckRecovery(t *testing.T) {
	t.Parallel()
	s := tell("jobs").insert().claim(app1, "a").reap(2*time.Second).claim(app2, "b").run(app2, modePlain, resultOK).ack(app2, 0)
	strikes := []Strike{{At: dawn.Add(time.Second)}, {At: dawn.Add(time.Minute)}}
	v := verdict(Facts{Strikes: strikes}, s)
	if want := s.Changes[2].At.Sub(strikes[0].At); v.Recovered[0] != want || v.Recovered[1] != 0 {
		t.Errorf("recovered in %v, want %v and nothing", v.Recovered, want)
	}
	if v.Redeliveries != 1 || v.Reaped != 1 {
		t.Errorf("%d redeliveries, %d reaped, want one each", v.Redeliveries, v.Reaped)
	}
}
