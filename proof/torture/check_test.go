//go:build unix

package torture

import (
	"maps"
	"slices"
	"testing"
	"time"
)

func verdict(f Facts, stories ...*story) Verdict {
	histories := make([]*History, len(stories))
	for i, s := range stories {
		histories[i] = s.told()
	}
	if f.Calls == nil {
		f.Calls = calls(histories)
	}
	return Check(slices.Values(histories), f)
}

// calls returns the claims as their processes saw them.
func calls(histories []*History) (calls []ClaimCall) {
	for _, h := range histories {
		for _, c := range h.Changes {
			if c.OldStatus == ready && c.New.Status == inProgress {
				calls = append(calls, ClaimCall{Table: h.Table, App: c.App, Limit: 1, Delivered: 1})
			}
		}
	}
	return calls
}

// told returns the history, with the last version as what the table contains at the end.
func (s *story) told() *History {
	h := s.History
	if n := len(h.Changes); n > 0 && !s.gone && h.Changes[n-1].Op != 'F' && h.Changes[n-1].Op != 'D' {
		h.Changes = append(slices.Clone(h.Changes), Change{Op: 'F', New: h.Changes[n-1].New})
	}
	return &h
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
		"a crash, a reap and another worker": plain().reap(2*time.Second).claim(app2, "b").run(app2, modeTx,
			resultTx).ack(app2, 1),
		"a claim by SQL in a transaction that began before the due time": tell("jobs").asked(Committed).insert().
			claimBySQL("a").run(bySQL, modePlain, resultOK).ack(bySQL, 0),
		"a claim by SQL that began before the due time, and the clock stepped back": tell("jobs").asked(Committed).
			due(10*time.Millisecond).insert().claimBySQLBack("a").run(bySQL, modePlain, resultOK).ack(bySQL, 0),
		"a failed attempt": plain().run(app1, modeFlaky, resultError).end(app1, ready).claim(app1, "b").run(app1,
			modePlain, resultOK).ack(app1, 0),
		"a snooze": plain().run(app1, modeSnooze, resultError).write('U', app1, func(n *State) {
			n.Status,
				n.Attempts = ready, n.Attempts-1
		}).
			claim(app1, "b").run(app1, modePlain, resultOK).ack(app1, 0),
		"a stale handler that is refused": plain().reap(2*time.Second).claim(app2, "b").run(app2, modeTx,
			resultTx).ack(app2, 1).
			late(app1, 1, modeTx, resultError),
		"a handler of a lost run that begins while its process has the row again": lostRun("outbox").
			runDue(app1, dawn, modePanic, resultPanic).runOfClaim(app1, modePlain, resultOK).ack(app1, 0),
		"a handler of a lost run that begins when its process has settled the row": lostRun("outbox").
			runOfClaim(app1, modePlain, resultOK).ack(app1, 0).runDue(app1, dawn, modePanic, resultPanic),
		"a handler of an inbox that does not know which of two claims it has": lostRun("inbox").
			run(app1, modeTx, resultOK).ack(app1, 1),
		"a cancel": tell("timers").asked(Committed).insert().write('U', "producer", func(n *State) {
			n.Status,
				n.Cancelled = failed, true
		}),
		"a renewal": plain().write('U', app1, func(n *State) { n.Locked = s2(n.Locked) }).run(app1, modePlain,
			resultOK).ack(app1, 0),
		"an inbox's key": tell("inbox").asked(Committed).write('I', "producers", func(n *State) {
			n.Status,
				n.Attempts = done, 1
		}).effect("producers"),
		"a timer that is set anew": fine("timers").asked(Committed, Committed).write('U',
			"producers", func(n *State) { n.Status, n.Token, n.Attempts, n.Generation = ready, "", 0, 1 }).
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

func TestCheckRejects(t *testing.T) {
	t.Parallel()
	claimed := func() *story { return tell("jobs").asked(Committed).insert().claim(app1, "a") }
	stale := func() *story { return claimed().reap(2*time.Second).claim(app2, "b") }
	for name, c := range map[string]struct {
		invariant string
		story     *story
	}{
		"a commit without a row":         {"I1", tell("jobs").asked(Committed)},
		"a row that is left ready":       {"I1", tell("jobs").asked(Committed).insert()},
		"a row that is left in progress": {"I1", claimed()},
		"a row that is deleted":          {"I1", fine("jobs").write('D', app1, func(*State) {})},
		"a row inserted twice":           {"I1", fine("jobs").write('I', app1, func(*State) {})},
		"a row of a rollback":            {"I2", fine("jobs").asked(RolledBack)},
		"a handler of a rollback": {"I2", tell("jobs").asked(RolledBack).run(app1, modePlain,
			resultOK)},
		"a token that is used twice": {"I3", claimed().run(app1, modePlain, resultError).end(app1,
			ready).claim(app1, "a").run(app1, modePlain, resultOK).ack(app1, 0)},
		"a token that changes in progress": {"I3",
			claimed().write('U', app2, func(n *State) { n.Token = "b" }).run(app1, modePlain, resultOK).ack(app1, 0)},
		"a lease that is taken too early": {"I3", claimed().reap(time.Millisecond).claim(app2, "b").run(app2,
			modePlain, resultOK).ack(app2, 0)},
		"a handler without a claim":          {"I3", fine("jobs").run(app2, modePlain, resultOK)},
		"a handler before its claim commits": {"I3", fine("jobs").commitLate()},
		"an ack with a stale token":          {"I4", stale().late(app1, 1, modePlain, resultOK).ack(app1, 0)},
		"an ack that nobody claimed":         {"I4", tell("jobs").insert().end(app1, done)},
		"an ack without a handler":           {"I4", claimed().ack(app1, 0)},
		"a failure that nobody claimed":      {"I4", tell("jobs").insert().end(app1, failed)},
		"a settle that changes the token": {"I4", claimed().run(app1, modePlain, resultOK).write('U',
			app1, func(n *State) { n.Status, n.Token = done, "x" })},
		"a token that changes afterwards": {"I4",
			fine("jobs").write('U', app1, func(n *State) { n.Token = "x" })},
		"a stale handler that is told it committed": {"I4", stale().run(app2, modePlain, resultOK).ack(app2,
			0).late(app1, 1, modeTx, resultTx)},
		"a second end": {"I5",
			fine("jobs").write('U', app2, func(n *State) { n.Status = failed })},
		"an end that is taken back": {"I5", fine("jobs").reap(2*time.Second).claim(app2, "b").run(app2,
			modePlain, resultOK).ack(app2, 0)},
		"a claim that does not count": {"I6", tell("jobs").insert().write('U',
			app1, func(n *State) { n.Status, n.Token, n.Locked = inProgress, "a", s2(dawn) }).run(app1, modePlain,
			resultOK).ack(app1, 0)},
		"a failure that counts": {"I6", claimed().run(app1, modePlain, resultError).write('U',
			app1, func(n *State) { n.Status, n.Attempts = failed, 2 })},
		"a claim beyond the attempts": {"I6", tell("jobs").upTo(0).insert().claim(app1, "a").run(app1,
			modePlain, resultOK).ack(app1, 0)},
		"a waiting row that is claimed": {"I8", tell("outbox").write('I',
			"producer", func(n *State) { n.Waiting = true }).claim(app1, "a").run(app1, modePlain, resultOK).ack(app1,
			0)},
		"a claim before the due time": {"I9", tell("jobs").due(time.Hour).insert().claim(app1,
			"a").run(app1, modePlain, resultOK).ack(app1, 0)},
		"a claim by SQL before the due time": {"I9", tell("jobs").due(time.Hour).insert().claimBySQL("a").run(bySQL,
			modePlain, resultOK).ack(bySQL, 0)},
		"a claim by SQL before the due time, and the clock stepped back": {"I9", tell("jobs").due(time.Hour).insert().
			claimBySQLBack("a").run(bySQL, modePlain, resultOK).ack(bySQL, 0)},
		"a timer before its time": {"I9", tell("timers").fire(time.Hour).insert().claim(app1,
			"a").run(app1, modePlain, resultOK).ack(app1, 0)},
		"an ack without its effect": {"I11", claimed().run(app1, modeTx, resultError).ack(app1, 0)},
		"an ack with two effects":   {"I11", claimed().run(app1, modeTx, resultTx).ack(app1, 2)},
		"an effect without its ack": {"I11", claimed().effect(app1).run(app1, modeFlaky,
			resultError).end(app1, ready).claim(app1, "b").run(app1, modePlain, resultOK).ack(app1, 0)},
		"an effect of every attempt":     {"I11", fine("jobs").effect(app2)},
		"a version that is missing":      {"audit", fine("jobs").without(1)},
		"a version that is said twice":   {"audit", fine("jobs").twice(1)},
		"a row that is not in its table": {"audit", fine("jobs").vanish()},
		"a row that passed the trigger by": {"audit",
			fine("jobs").finally('F', func(n *State) { n.Status = failed })},
		"a table that says something else":      {"audit", tell("jobs").finally('F', func(*State) {})},
		"a row that nobody was about to commit": {"I2", fine("jobs").asked().insertedBy("run producers")},
		"a timer set more often than committed": {"I2", fine("timers").asked(Committed, RolledBack).setAnew()},
		"a timer whose setting is lost":         {"I1", fine("timers").asked(Committed, Committed)},
		"a timer set in its firing that ends": {"I1", claimed().setDuring().run(app1, modePlain, resultOK).ack(app1,
			0)},
		"a handler that is given another's work": {"I1", fine("jobs").given("other")},
		"two handlers of a claim": {"I3", claimed().run(app1, modePlain, resultError).run(app1,
			modePlain, resultOK).ack(app1, 0)},
		"a handler after its claim was settled": {"I3", claimed().run(app1, modePlain, resultOK).ack(app1,
			0).startLate()},
		"an ack of our own older claim": {"I4", claimed().reap(2*time.Second).claim(app1, "b").late(app1, 1,
			modePlain, resultOK).died(app1, modePlain).ack(app1, 0)},
		"an ack before the handler is done": {"I4", claimed().died(app1, modePlain).ack(app1, 0)},
		"an ack of what failed":             {"I4", claimed().run(app1, modePlain, resultError).ack(app1, 0)},
		"an effect of our own older claim": {"I4", claimed().reap(2*time.Second).claim(app1, "b").run(app1,
			modeTx, resultError).end(app1, done).effectOf(app1, 1)},
		"a lease renewed by another": {"I4",
			claimed().write('U', app2, func(n *State) { n.Locked = s2(n.Locked) }).run(app1, modePlain,
				resultOK).ack(app1, 0)},
		"a success that goes back": {"I4", claimed().run(app1, modePlain, resultOK).end(app1,
			ready).claim(app1, "b").run(app1, modePlain, resultOK).ack(app1, 0)},
		"a cancel by a worker": {"I5", tell("timers").insert().write('U',
			app1, func(n *State) { n.Status, n.Cancelled = failed, true })},
		"a dead letter with attempts left": {"I6", claimed().run(app1, modeFlaky, resultError).end(app1,
			failed)},
		"a reaped dead letter with attempts left": {"I6", claimed().died(app1, modeExit).reapTo(failed)},
		"a failure that is given back": {"I6", claimed().run(app1, modeFlaky, resultError).write('U',
			app1, func(n *State) { n.Status, n.Attempts, n.Locked = ready, 0, time.Time{} }).claim(app1, "b").run(app1,
			modePlain, resultOK).ack(app1, 0)},
		"a waiting row that fails": {"I4", tell("outbox").write('I',
			"producer", func(n *State) { n.Waiting = true }).end(app1, failed)},
		"an effect that goes back": {"I11", claimed().run(app1, modeTx, resultError).end(app1,
			ready).effect(app1).claim(app1, "b").run(app1, modePlain, resultOK).ack(app1, 0)},
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

func TestCheckAllowsForCrashes(t *testing.T) {
	t.Parallel()
	stranger := fine("jobs").run(app2, modePlain, resultOK)
	at := stranger.Runs[1].Start
	crash := Facts{Outages: []Span{{at.Add(-time.Hour), at.Add(-time.Minute)},
		{at.Add(time.Second), at.Add(2 * time.Second)}}}
	if v := verdict(crash, stranger); len(v.Violations) > 0 {
		t.Errorf("a claim that a crash has lost is reported: %v", v.Violations[0])
	}
	rejects(t, "I3", verdict(Facts{}, stranger))
	rejects(t, "I3", verdict(Facts{Outages: crash.Outages[:1]}, stranger))
}

// Something that was written later has survived the crash, so the claim of this handler would have survived too.
func TestCheckForgetsTheEndOnly(t *testing.T) {
	t.Parallel()
	stranger := fine("jobs").run(app2, modePlain, resultOK)
	at := stranger.Runs[1].Start
	other := tell("jobs").insert()
	other.Changes[0].At = at.Add(time.Millisecond)
	rejects(t, "I3", verdict(Facts{Outages: []Span{{at.Add(time.Second), at.Add(2 * time.Second)}}}, stranger, other))
}

func TestCheckStall(t *testing.T) {
	t.Parallel()
	rejects(t, "I10", verdict(Facts{Stalled: true}, tell("jobs").insert()))
}

// When no fault strikes any more, an expired lease must be reaped soon.
func TestCheckLateReaper(t *testing.T) {
	t.Parallel()
	late := func() *story {
		return tell("jobs").insert().claim(app1, "a").reap(overdue+2*time.Second).claim(app2, "b").run(app2, modePlain,
			resultOK).ack(app2, 0)
	}
	rejects(t, "I10", verdict(Facts{Calm: dawn}, late()))
	for _, calm := range []time.Time{{}, dawn.Add(3 * time.Second)} {
		if v := verdict(Facts{Calm: calm}, late()); len(v.Violations) > 0 {
			t.Errorf("with faults until %v: %v", calm, v.Violations[0])
		}
	}
}
