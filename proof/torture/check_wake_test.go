//go:build unix

package torture

import (
	"fmt"
	"testing"
	"time"
)

const longPoll = 10 * time.Second

// foundAfter returns a row that is claimed some time after its insert, and done at once.
func foundAfter(table, id string, wait time.Duration) *story {
	s := tell(table)
	s.ID, s.seq = id, int64(1000*len(id))
	s.insert()
	s.clock = s.clock.Add(wait)
	return handledNow(s)
}

func handledNow(s *story) *story {
	return s.claim(app1, "t"+s.ID).run(app1, modePlain, resultOK).ack(app1, 0)
}

// disturbed returns facts with a disturbance between two times after the dawn.
func disturbed(from, to time.Duration, announcers bool) Facts {
	return Facts{Poll: longPoll, Disturbed: []Disturbance{{Span{dawn.Add(from), dawn.Add(to)}, announcers}}}
}

var undisturbed = Facts{Poll: longPoll}

// A waiting is a row with further records that explain, or do not explain, how long it waited.
type waiting struct {
	name    string
	facts   Facts
	stories func() []*story
	broken  bool
	judged  int
}

func one(wait time.Duration) func() []*story {
	return func() []*story { return []*story{foundAfter("jobs", "row", wait)} }
}

// busy returns rows that are claimed at intervals under other tokens. They are due before the row, and stay in progress
// for long.
func busy(table string, n int, every, lasts time.Duration) (rows []*story) {
	for i := range n {
		s := tell(table)
		s.ID, s.seq = fmt.Sprint("busy", i), int64(100_000+100*i)
		s.state.Due = dawn.Add(-time.Hour)
		s.insert()
		s.clock = dawn.Add(time.Duration(i+1) * every)
		s.claim(app2, "t"+s.ID)
		s.clock = s.clock.Add(lasts)
		rows = append(rows, s.run(app2, modePlain, resultOK).ack(app2, 0))
	}
	return rows
}

func waitings() []waiting {
	const late = hearing + time.Second
	const tooLate = longPoll + hearing + time.Second
	ordered := func(key string) func() []*story {
		return func() []*story {
			s := tell("outbox")
			s.Key = key
			s.write('I', s.from, func(n *State) { n.Waiting = true })
			s.clock = s.clock.Add(late)
			s.write('U', app1, func(n *State) { n.Waiting = false })
			return []*story{handledNow(s)}
		}
	}
	return []waiting{
		{"found at once", undisturbed, one(time.Millisecond), false, 1},
		{"found in time", undisturbed, one(hearing - time.Second), false, 1},
		{"found late", undisturbed, one(late), true, 1},
		{"no poll is known", Facts{}, one(tooLate), false, 0},
		{"due later", undisturbed, func() []*story {
			s := tell("jobs").due(2 * late).insert()
			s.clock = dawn.Add(2*late + hearing/2)
			return []*story{handledNow(s)}
		}, false, 1},
		{"late after it was due", undisturbed, func() []*story {
			s := tell("jobs").due(late).insert()
			s.clock = dawn.Add(2 * late)
			return []*story{handledNow(s)}
		}, true, 1},
		{"committed late", undisturbed, func() []*story {
			s := foundAfter("jobs", "row", 2*late)
			s.Changes[0].Committed = dawn.Add(2*late - time.Second)
			return []*story{s}
		}, false, 1},
		{"nobody knows when it committed", undisturbed, func() []*story {
			s := foundAfter("jobs", "row", late)
			s.Changes[0].Committed = time.Time{}
			return []*story{s}
		}, false, 0},
		{"somebody changed it before", undisturbed, func() []*story {
			s := tell("timers").insert().write('U', "producers", func(n *State) { n.Generation = 1 })
			s.clock = s.clock.Add(late)
			return []*story{handledNow(s)}
		}, false, 0},

		{"the only one of its key", undisturbed, ordered(onlyKey + "a"), true, 1},
		{"one of a key that others have", undisturbed, ordered("key 1"), false, 0},
		{"the only one of its key, beside announcers that are struck", disturbed(0, tooLate, true),
			ordered(onlyKey + "a"), false, 0},

		{"announcers were struck", disturbed(0, time.Second, true), one(late), false, 1},
		{"announcers were struck and nobody polled", disturbed(0, time.Second, true), one(tooLate), true, 1},
		{"announcers were struck a poll ago", disturbed(-tooLate, -longPoll, true), one(late), false, 1},
		{"announcers were struck long ago", disturbed(-2*tooLate, -tooLate, true), one(late), true, 1},
		{"announcers were struck when it was late already", disturbed(hearing+time.Millisecond*500, tooLate, true),
			one(late), true, 1},
		{"others were struck", disturbed(0, time.Second, false), one(tooLate), false, 0},
		{"others were struck a poll ago", disturbed(-tooLate, -longPoll, false), one(tooLate), false, 0},
		{"others were struck long ago", disturbed(-2*tooLate, -tooLate, false), one(late), true, 1},
		{"others were struck when it was late already", disturbed(late, tooLate, false), one(tooLate), true, 1},

		{"it waited for its turn", undisturbed, func() []*story {
			return append(one(late)(), busy("jobs", 50, 100*time.Millisecond, time.Millisecond)...)
		}, false, 51},
		{"it waited for handlers", undisturbed, func() []*story {
			return append(one(late)(), busy("jobs", fewRows, time.Millisecond, late)...)
		}, false, fewRows + 1},
		{"there were handlers", undisturbed, func() []*story {
			return append(one(late)(), busy("jobs", fewRows-1, time.Millisecond, late)...)
		}, true, fewRows},
		{"those of another table were busy", undisturbed, func() []*story {
			return append(one(late)(), busy("timers", 50, 100*time.Millisecond, time.Millisecond)...)
		}, true, 51},
		{"workers rested in between", undisturbed, func() []*story {
			return append(one(2*late)(), busy("jobs", 5, 100*time.Millisecond, time.Millisecond)...)
		}, true, 6},
		{"they passed it over", undisturbed, func() []*story {
			rows := append(one(late)(), busy("jobs", 50, 100*time.Millisecond, time.Millisecond)...)
			for i := range rows[1].Changes { // due after it, but claimed first
				rows[1].Changes[i].New.Due = dawn.Add(time.Millisecond)
			}
			return rows
		}, true, 51},
	}
}

// A row that waits for long is noticed, unless a recorded event has held it up. Each case that is accepted has a
// counterpart that differs only in that record and is not accepted.
func TestCheckWakes(t *testing.T) {
	t.Parallel()
	for _, c := range waitings() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := verdict(c.facts, c.stories()...)
			if broken := v.Counts["wake"] > 0; broken != c.broken {
				t.Errorf("got %v, want found: %v", v.Violations, c.broken)
			}
			if v.Waits != c.judged {
				t.Errorf("%d waits were judged, want %d", v.Waits, c.judged)
			}
			if c.broken && (v.Violations[0].What == "" || len(v.Violations[0].History) == 0) {
				t.Errorf("%v does not show the history", v.Violations[0])
			}
		})
	}
}

// wakeMutations make a row be found too late.
var wakeMutations = map[string]func(h *History){
	"claimed later": func(h *History) {
		for i := range h.Changes {
			if h.Changes[i].OldStatus == ready && h.Changes[i].New.Status == inProgress {
				shift(h, i, 2*(longPoll+hearing))
			}
		}
	},
	"written earlier": func(h *History) {
		const by = -2 * (longPoll + hearing)
		c := &h.Changes[0]
		c.At, c.TxnAt, c.Committed = c.At.Add(by), c.TxnAt.Add(by), c.Committed.Add(by)
		for i := range h.Changes {
			h.Changes[i].New.Due = h.Changes[i].New.Due.Add(by)
		}
	},
}

// shift moves a version and all later ones.
func shift(h *History, from int, by time.Duration) {
	for i := from; i < len(h.Changes); i++ {
		c := &h.Changes[i]
		c.At, c.TxnAt, c.Committed = c.At.Add(by), c.TxnAt.Add(by), c.Committed.Add(by)
		if !c.New.Locked.IsZero() {
			c.New.Locked = c.New.Locked.Add(by)
		}
	}
	for i := range h.Runs {
		h.Runs[i].Start, h.Runs[i].End = h.Runs[i].Start.Add(by), h.Runs[i].End.Add(by)
	}
}

// In every good history, a first claim that comes too late is noticed, unless the row needs no wake.
func TestMutatedWakes(t *testing.T) {
	t.Parallel()
	unwoken := map[string]string{
		"inbox":     "it is done when it is inserted",
		"cancelled": "nobody claims it",
	}
	for name, good := range goodHistories() {
		if v := verdict(undisturbed, good); len(v.Violations) > 0 {
			t.Fatalf("%s: found %v\n%v", name, v.Violations[0], good.text())
		}
		for mutation, change := range wakeMutations {
			s := copied(good)
			change(&s.History)
			v := verdict(undisturbed, s)
			switch noticed := v.Counts["wake"] > 0; {
			case noticed && unwoken[name] != "":
				t.Errorf("%s, %s: found %v, and %s", name, mutation, v.Violations[0], unwoken[name])
			case !noticed && unwoken[name] == "":
				t.Errorf("nobody noticed %s: %s\n%v", name, mutation, s.text())
			}
			if v := verdict(disturbed(-time.Hour, time.Hour, false), s); v.Counts["wake"] > 0 {
				t.Errorf("%s, %s: reported although a fault excuses it: %v", name, mutation, v.Violations[0])
			}
		}
	}
}
