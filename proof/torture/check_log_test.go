//go:build unix

package torture

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// A logStory is the record of a log with one subscription of one lane, built step by step.
type logStory struct {
	LogRecord
	of    *SubscriptionRecord
	state Move
	clock time.Time
}

// tellLog begins with four messages, of which all but the third have one key.
func tellLog() *logStory {
	of := &SubscriptionRecord{Name: "s", Lanes: 1, Runs: map[string][]Handling{}, Parked: map[string][]ParkedChange{}}
	s := &logStory{LogRecord{Asked: map[string][]Outcome{}, Subscriptions: []*SubscriptionRecord{of}}, of, Move{}, dawn}
	for i := range int64(4) {
		m := LogMessage{Seq: i + 1, ID: fmt.Sprint("m", i+1), Key: "k", Topic: topicKeyed, Created: s.tick()}
		if i == 2 {
			m.Key, m.Topic = "", topicFree
		}
		s.Messages = append(s.Messages, m)
		s.Asked[m.ID] = []Outcome{Committed}
	}
	return s.move("run install", func(*Move) {})
}

func (s *logStory) tick() time.Time {
	s.clock = s.clock.Add(time.Millisecond)
	return s.clock
}

func (s *logStory) move(app string, change func(*Move)) *logStory {
	s.state.App, s.state.At = app, s.tick()
	change(&s.state)
	s.of.Moves = append(s.of.Moves, s.state)
	return s
}

// fetch claims the lane, with a page that ends with a message.
func (s *logStory) fetch(app, token string, page int64) *logStory {
	return s.move(app, func(m *Move) { m.Token, m.Until, m.Page, m.Upto = token, m.At.Add(lease), page, 1 })
}

// settle settles a part of the page, or all of the batch.
func (s *logStory) settle(app string, upto int64) *logStory {
	return s.move(app, func(m *Move) {
		if m.Done = upto; upto == m.Page {
			m.Done, m.Page, m.Upto, m.Until, m.Tick = 0, 0, 0, time.Time{}, m.Tick+1
		}
	})
}

func (s *logStory) run(app, id, mode, result string) *logStory {
	r := Handling{App: app, Attempt: 1, Mode: mode, Start: s.tick(), Told: id}
	if result != "" {
		r.End, r.Result = s.tick(), result
	}
	s.of.Runs[id] = append(s.of.Runs[id], r)
	return s
}

func (s *logStory) ok(app string, ids ...string) *logStory {
	for _, id := range ids {
		s.run(app, id, modePlain, resultOK)
	}
	return s
}

func (s *logStory) parked(app, id string, op byte, from, to int16) *logStory {
	s.of.Parked[id] = append(s.of.Parked[id], ParkedChange{App: app, Op: op, OldStatus: from, Status: to})
	return s
}

// lapse lets the lease end.
func (s *logStory) lapse() *logStory {
	s.clock = s.clock.Add(lease)
	return s
}

// lose says that some of the messages were lost.
func (s *logStory) lose(first, last, n int64) *logStory {
	s.of.Losses = append(s.of.Losses, Loss{Messages: n, Oldest: s.Messages[first-1].Created,
		Newest: s.Messages[last-1].Created})
	return s
}

func (s *logStory) verdict() (found []Violation, v LogVerdict) {
	v = CheckLog(s.LogRecord, func(all ...Violation) { found = append(found, all...) })
	return found, v
}

// The stories that a log may tell.
func goodLogs() map[string]*logStory {
	begun := func() *logStory { return tellLog().fetch(app1, "a", 4) }
	return map[string]*logStory{
		"plain": begun().ok(app1, "m1", "m2").settle(app1, 2).ok(app1, "m3", "m4").settle(app1, 4),
		"a death": begun().ok(app1, "m1", "m2").settle(app1, 1).run(app1, "m3", modePlain, "").lapse().
			fetch(app2, "b", 4).ok(app2, "m2", "m3", "m4").settle(app2, 4),
		"a zombie": begun().ok(app1, "m1").lapse().fetch(app2, "b", 4).ok(app2, "m1", "m2").ok(app1, "m2", "m3").
			ok(app2, "m3", "m4").settle(app2, 4),
		"a page that is given back": begun().ok(app1, "m1").settle(app1, 1).move(app1, func(m *Move) {
			m.Token, m.Until, m.Page = "", time.Time{}, 0
		}).fetch(app2, "b", 4).ok(app2, "m2", "m3", "m4").settle(app2, 4),
		"a failure": begun().run(app1, "m1", modeFlaky, resultError).ok(app1, "m3").
			parked(app1, "m1", 'I', -1, ready).parked(app1, "m2", 'I', -1, ready).parked(app1, "m4", 'I', -1, ready).
			settle(app1, 4).parked(app2, "m1", 'U', ready, inProgress).ok(app2, "m1").
			parked(app2, "m1", 'U', inProgress, done).
			parked(app2, "m2", 'U', ready, inProgress).ok(app2, "m2").parked(app2, "m2", 'U', inProgress, done).
			parked(app2, "m4", 'U', ready, inProgress).ok(app2, "m4").parked(app2, "m4", 'U', inProgress, done),
		"a dead letter": begun().ok(app1, "m1", "m2").run(app1, "m3", modePermanent, resultError).ok(app1, "m4").
			parked(app1, "m3", 'I', -1, ready).settle(app1, 4).parked(app1, "m3", 'U', ready, inProgress).
			parked(app1, "m3", 'U', inProgress, failed),
		"a cut": begun().ok(app1, "m1").settle(app1, 1).move("run verbs", func(m *Move) {
			m.Token, m.Until, m.Page, m.Done, m.Upto, m.Tick = "", time.Time{}, 0, 0, 0, 1
		}).lose(2, 3, 2).fetch(app1, "b", 4).ok(app1, "m4").settle(app1, 4),
		"a replay": begun().ok(app1, "m1", "m2", "m3", "m4").settle(app1, 4).move("run verbs", func(m *Move) {
			m.Token, m.Tick = "", 0
		}).fetch(app1, "b", 4).ok(app1, "m1", "m2", "m3", "m4").settle(app1, 4),
		"a cut, and a replay behind it": begun().ok(app1, "m1").settle(app1, 1).move("run verbs", func(m *Move) {
			m.Token, m.Until, m.Page, m.Done, m.Upto, m.Tick = "", time.Time{}, 0, 0, 0, 1
		}).lose(2, 3, 2).fetch(app1, "b", 4).ok(app1, "m4").settle(app1, 4).move("run verbs", func(m *Move) {
			m.Token, m.Tick = "", 0
		}).fetch(app1, "c", 4).ok(app1, "m1", "m2", "m3", "m4").settle(app1, 4),
	}
}

func TestCheckLogAccepts(t *testing.T) {
	t.Parallel()
	for name, s := range goodLogs() {
		found, v := s.verdict()
		if len(found) > 0 {
			t.Errorf("%s: found %v\n%v", name, found[0], found[0].History)
		}
		if of := v.Subscriptions["s"]; of.Handled+of.Dead+of.Lost != 4 {
			t.Errorf("%s: the verdict is %+v", name, of)
		}
	}
}

// A defect of each kind is planted in a log that is right otherwise, and is noticed.
func TestCheckLogRejects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		invariant, of string
		plant         func(s *logStory)
	}{
		"a message is skipped": {logSkipped, "plain", func(s *logStory) { delete(s.of.Runs, "m3") }},
		"a message is skipped after a death": {logSkipped, "a death",
			func(s *logStory) { delete(s.of.Runs, "m3") }},
		"a message is handed out and never done": {logSkipped, "plain", func(s *logStory) {
			s.of.Runs["m4"][0].End, s.of.Runs["m4"][0].Result = time.Time{}, ""
		}},
		"a failure is not parked": {logSkipped, "a failure", func(s *logStory) {
			delete(s.of.Parked, "m1")
			s.of.Runs["m1"] = s.of.Runs["m1"][:1]
		}},
		"a message is left": {logLost, "plain", func(s *logStory) {
			s.Stalled = true
			delete(s.of.Runs, "m4")
		}},
		"a message is gone": {logLost, "plain", func(s *logStory) { s.Messages = s.Messages[:3] }},
		"a parked message is gone": {logSkipped, "a failure", func(s *logStory) {
			s.parked(app2, "m2", 'D', ready, ready)
			delete(s.of.Runs, "m2")
		}},
		"more is lost than was said": {logSkipped, "a cut", func(s *logStory) { s.of.Losses[0].Messages = 1 }},
		"other messages are lost":    {logSkipped, "a cut", func(s *logStory) { s.of.Losses[0].Newest = dawn }},
		"another lane's are lost":    {logSkipped, "a cut", func(s *logStory) { s.of.Losses[0].Lane = 1 }},
		"a cut says nothing":         {logSkipped, "a cut", func(s *logStory) { s.of.Losses = nil }},
		"two of a key at once": {logOrder, "plain", func(s *logStory) {
			s.of.Runs["m2"][0].Start = s.of.Runs["m1"][0].Start
		}},
		"a key's messages the other way": {logOrder, "plain", func(s *logStory) {
			s.of.Runs["m1"], s.of.Runs["m2"] = retold("m1", s.of.Runs["m2"]), retold("m2", s.of.Runs["m1"])
		}},
		"a message passes a failed one": {logOrder, "a failure", func(s *logStory) {
			s.of.Runs["m4"][0].Start = s.of.Runs["m1"][0].End
		}},
		"a repeat without a cause": {logRepeat, "plain", func(s *logStory) { s.ok(app2, "m3") }},
		"a repeat of what was settled before the death": {logRepeat, "a death",
			func(s *logStory) { s.ok(app2, "m1") }},
		"a repeat of more than a death explains": {logRepeat, "a death",
			func(s *logStory) { s.ok(app2, "m2") }},
		"a repeat of more than a replay explains": {logRepeat, "a replay",
			func(s *logStory) { s.ok(app2, "m2") }},
		"a repeat of a parked message without a claim": {logRepeat, "a failure",
			func(s *logStory) { s.ok(app2, "m1") }},
		"a lane is taken before its lease ends": {logLease, "a death",
			func(s *logStory) { s.of.Moves[2].Until = s.of.Moves[2].Until.Add(time.Hour) }},
		"a lane is given back by another": {logLease, "a page that is given back",
			func(s *logStory) { s.of.Moves[3].App = app2 }},
		"a stale owner settles": {logLease, "a death",
			func(s *logStory) { s.of.Moves[len(s.of.Moves)-1].App = app1 }},
		"a message of a rollback": {logMade, "plain",
			func(s *logStory) { s.Asked["m3"] = []Outcome{RolledBack} }},
		"a message that nobody wrote":           {logMade, "plain", func(s *logStory) { delete(s.Asked, "m3") }},
		"a handler of what was never committed": {logMade, "plain", func(s *logStory) { s.ok(app1, "m5") }},
		"a handler that is given another's": {logMade, "plain", func(s *logStory) {
			s.of.Runs["m3"][0].Told = "m4"
		}},
		"a dead letter without a reason": {logDead, "a dead letter",
			func(s *logStory) { s.of.Runs["m3"][0].Mode = modeFlaky }},
	} {
		s := goodLogs()[c.of]
		c.plant(s)
		found, _ := s.verdict()
		kinds := map[string]bool{}
		for _, f := range found {
			kinds[f.Invariant] = true
			if len(f.History) == 0 {
				t.Errorf("%s: %v does not show what is known", name, f)
			}
		}
		if !kinds[c.invariant] {
			t.Errorf("%s: found %v, want %s", name, slices.Sorted(maps.Keys(kinds)), c.invariant)
		}
	}
}

// retold are the handlers of another message.
func retold(id string, of []Handling) []Handling {
	of = slices.Clone(of)
	for i := range of {
		of[i].Told = id
	}
	return of
}

// A subscription with a filter has to have what it selects only.
func TestCheckLogKnowsFilters(t *testing.T) {
	t.Parallel()
	s := goodLogs()["plain"]
	s.of.Topics = []string{topicKeyed}
	delete(s.of.Runs, "m3")
	if found, v := s.verdict(); len(found) > 0 || v.Subscriptions["s"].Messages != 3 {
		t.Errorf("found %v, verdict %+v", found, v)
	}
}
