//go:build unix

package torture

import (
	"fmt"
	"testing"
	"time"
)

// ordered returns rows of one key whose transactions commit one after another. All are inserted before the first is
// claimed.
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

// aRun returns rows of one key that are claimed as a run and settled in one transaction.
func aRun(n int) []*story {
	rows := ordered(n)
	at := dawn.Add(time.Minute)
	for i, s := range rows {
		s.seq, s.clock = int64(100+i), at.Add(time.Duration(i)*time.Millisecond)
		if i > 0 {
			s.state.Waiting, s.Changes[0].New.Waiting = true, true
		}
		s.claim(app1, "run")
		s.state.Waiting, s.Changes[1].New.Waiting = false, false
	}
	for i, s := range rows {
		s.clock = at.Add(time.Second)
		s.run(app1, modePlain, resultOK)
		s.seq = int64(200 + n - i) // a statement may update them in any order
		s.ack(app1, 0)
		s.Changes[len(s.Changes)-1].XID = 300
	}
	return rows
}

// The rows of an ordered key that are in progress have one token and are a prefix, and they end as one.
func TestCheckRunOfAKey(t *testing.T) {
	t.Parallel()
	heads := Facts{Calls: []ClaimCall{{Table: "outbox", App: app1, Limit: 1, Delivered: 1}}}
	if v := verdict(heads, aRun(3)...); len(v.Violations) > 0 {
		t.Errorf("a run: %v\n%v", v.Violations[0], v.Violations[0].History)
	}
	for name, c := range map[string]struct {
		rows  int
		plant func(rows []*story)
	}{
		"another token": {3, func(rows []*story) { retoken(rows[1], "other") }},
		"without the head": {3, func(rows []*story) {
			rows[0].Changes[0].New.Waiting = true
		}},
		"a row is left out":  {3, func(rows []*story) { retoken(rows[1], "later"); resequence(rows[1], 500) }},
		"the head had ended": {2, func(rows []*story) { resequence(rows[1], 500) }},
		"the last ends before the first": {2, func(rows []*story) {
			rows[1].Changes[2].XID, rows[1].Changes[2].Seq = 150, 150
		}},
	} {
		rows := aRun(c.rows)
		c.plant(rows)
		if v := verdict(Facts{}, rows...); v.Counts["I8"] == 0 {
			t.Errorf("%s: found %v, want I8", name, v.Counts)
		}
	}
}

// retoken gives the claim of a row another token.
func retoken(s *story, token string) {
	for i := range s.Changes[1:] {
		c := &s.Changes[1+i]
		c.New.Token = token
		if c.OldToken != "" {
			c.OldToken = token
		}
	}
}

// resequence lets all after the insert happen later.
func resequence(s *story, from int64) {
	for i := range s.Changes[1:] {
		s.Changes[1+i].Seq = from + int64(i)
	}
}

// ranTooEarly makes the second row fail an attempt before the first has begun. They still end in order.
func ranTooEarly(rows []*story) {
	rows[1].seq = 10
	rows[1].claim(app2, "early").run(app2, modeFlaky, resultError).end(app2, ready)
	rows[1].seq = 200
}

func TestCheckOrderOfAttempts(t *testing.T) {
	t.Parallel()
	rows := ordered(2)
	ranTooEarly(rows)
	rejects(t, "I8", verdict(Facts{}, handled(rows[0]), handled(rows[1])))

	// Neither a row in between with an unknown commit time, nor one that has not ended, hides it.
	rows = ordered(3)
	rows[1], rows[2] = rows[2], rows[1]
	rows[2].Changes[0].Committed = time.Time{}
	ranTooEarly(rows)
	rejects(t, "I8", verdict(Facts{}, handled(rows[0]), handled(rows[1]), handled(rows[2])))
	rows = ordered(2)
	rejects(t, "I8", verdict(Facts{}, rows[0], handled(rows[1])))

	unknown := ordered(2)
	ranTooEarly(unknown)
	unknown[0].Changes[0].Committed = time.Time{}
	if v := verdict(Facts{}, handled(unknown[0]), handled(unknown[1])); len(v.Violations) > 0 {
		t.Errorf("rows with an unknown commit time are reported: %v", v.Violations[0])
	}
}

func TestCheckKey(t *testing.T) {
	t.Parallel()
	row := handled(ordered(1)[0])
	if row.AskedBy = row.Key; len(verdict(Facts{}, row).Violations) > 0 {
		t.Error("its own key is wrong")
	}
	row.Key = ""
	rejects(t, "I8", verdict(Facts{}, row))
}

func TestCheckLimit(t *testing.T) {
	t.Parallel()
	two := func() []*story { // two rows in one claim, and another in a later one
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

	// One large limit allows only one claim of that size.
	calls := Facts{Calls: []ClaimCall{{"jobs", app1, 1, 1}, {"jobs", app1, 2, 2}}}
	again := func() []*story {
		rows := append(two(), two()[:2]...)
		for i, s := range rows {
			s.ID = fmt.Sprint("row", i)
			if i > 2 {
				s.Changes[1].New.Token, s.Changes[2].New.Token = "b", "b"
				chain(&s.History)
			}
		}
		return rows
	}
	rejects(t, "I7", verdict(calls, again()...))
	calls.Calls[0].Limit = 2
	if v := verdict(calls, again()...); len(v.Violations) > 0 {
		t.Errorf("each as many as asked for: %v", v.Violations[0])
	}
	calls.Calls = calls.Calls[:1]
	rejects(t, "I7", verdict(calls, again()...))
}

func TestCheckRecovery(t *testing.T) {
	t.Parallel()
	s := tell("jobs").insert().claim(app1, "a").reap(2*time.Second).claim(app2, "b").run(app2, modePlain,
		resultOK).ack(app2, 0)
	strikes := []Strike{{At: dawn.Add(time.Second)}, {At: dawn.Add(time.Minute)}}
	v := verdict(Facts{Strikes: strikes}, s)
	if want := s.Changes[2].At.Sub(strikes[0].At); v.Recovered[0] != want || v.Recovered[1] != 0 {
		t.Errorf("recovered in %v, want %v and nothing", v.Recovered, want)
	}
	if v.Redeliveries != 1 || v.Reaped != 1 {
		t.Errorf("%d redeliveries, %d reaped, want one each", v.Redeliveries, v.Reaped)
	}
}
