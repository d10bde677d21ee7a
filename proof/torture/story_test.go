//go:build unix

package torture

import (
	"slices"
	"time"
)

// A story is a history that is built step by step: each step changes the row's last state.
type story struct {
	History
	state State
	seq   int64
	clock time.Time
	from  string // the inserting process
	gone  bool   // missing in its table, without a recorded delete
}

var dawn = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

const (
	app1 = "torture worker1.1"
	app2 = "torture worker2.1"

	bySQL = "torture sql1.1"
)

func tell(table string) *story {
	return &story{History: History{Table: table, ID: "row", Name: "name"}, state: State{Max: 3, Due: dawn}, clock: dawn,
		from: "producer"}
}

// write appends a version by a process, a millisecond after the previous one.
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

func (s *story) insert() *story { return s.write('I', s.from, func(*State) {}) }

func (s *story) by(app string) *story {
	s.from = app
	return s
}

func (s *story) asked(outcomes ...Outcome) *story {
	s.Asked = outcomes
	return s
}

// claim claims the row for a second.
func (s *story) claim(app, token string) *story {
	return s.write('U', app, func(n *State) {
		n.Status, n.Token, n.Attempts, n.Locked = inProgress, token, n.Attempts+1, s.clock.Add(time.Second)
	})
}

// claimBySQL claims the row in a transaction that has been open for a while.
func (s *story) claimBySQL(token string) *story {
	s.claim(bySQL, token)
	last := &s.Changes[len(s.Changes)-1]
	s.state.Locked, last.TxnAt = s.clock.Add(lease), s.clock.Add(-time.Minute)
	last.New = s.state
	return s
}

// claimBySQLBack claims the row in a transaction in which the clock steps back.
func (s *story) claimBySQLBack(token string) *story {
	s.claim(bySQL, token)
	s.state.Locked = s.clock.Add(lease - 8*time.Second)
	s.Changes[len(s.Changes)-1].New = s.state
	return s
}

// run adds a handler of the last claim that has ended by now.
func (s *story) run(app, mode, result string) *story {
	s.clock = s.clock.Add(2 * time.Millisecond)
	s.Runs = append(s.Runs, Handling{App: app, Attempt: s.state.Attempts, Mode: mode,
		Start: s.clock.Add(-time.Millisecond), End: s.clock, Result: result, Told: s.Name})
	return s
}

// runOfClaim is run by a handler that knows when the attempt became due.
func (s *story) runOfClaim(app, mode, result string) *story {
	return s.runDue(app, s.state.Due, mode, result)
}

func (s *story) runDue(app string, due time.Time, mode, result string) *story {
	s.run(app, mode, result)
	s.Runs[len(s.Runs)-1].Due = due
	return s
}

// lostRun is a row that lost its lease behind the head of a run, went back uncharged, and was claimed anew by the same
// process.
func lostRun(table string) *story {
	s := tell(table).asked(Committed).insert().claim(app1, "a")
	s.clock = s.clock.Add(2 * time.Second)
	return s.write('U', "torture reaper1.1", func(n *State) {
		n.Status, n.Token, n.Locked, n.Attempts, n.Due = ready, "", time.Time{}, 0, s.clock
	}).claim(app1, "b")
}

func (s *story) end(app string, status int16) *story {
	return s.write('U', app, func(n *State) { n.Status, n.Locked = status, time.Time{} })
}

// ack ends the row with the given number of effects in the transaction.
func (s *story) ack(app string, effects int) *story {
	s.end(app, done)
	for range effects {
		s.effect(app)
	}
	return s
}

// effect adds an effect in the transaction of the last change.
func (s *story) effect(app string) *story { return s.effectOf(app, s.state.Attempts) }

func (s *story) effectOf(app string, attempt int) *story {
	s.Effects = append(s.Effects, Effect{XID: 100 + s.seq, App: app, Attempt: attempt})
	return s
}

// died adds a handler of the last claim that never ended.
func (s *story) died(app, mode string) *story {
	s.run(app, mode, "")
	s.Runs[len(s.Runs)-1].End = time.Time{}
	return s
}

// reap requeues the row after the lease.
func (s *story) reap(after time.Duration) *story {
	s.clock = s.clock.Add(after)
	return s.reapTo(ready)
}

func (s *story) reapTo(status int16) *story {
	if lease := s.state.Locked.Add(time.Millisecond); s.clock.Before(lease) && status == failed {
		s.clock = lease
	}
	return s.write('U', "torture reaper1.1", func(n *State) { n.Status, n.Token, n.Locked = status, "", time.Time{} })
}

// fine returns the ordinary history of a row.
func fine(table string) *story {
	return tell(table).asked(Committed).insert().claim(app1, "a").run(app1, modeTx, resultTx).ack(app1, 1)
}

func s2(t time.Time) time.Time { return t.Add(time.Second) }

// late adds a handler of an earlier attempt that began right after its claim and ends only now.
func (s *story) late(app string, attempt int, mode, result string) *story {
	for _, c := range s.Changes {
		if c.New.Status == inProgress && c.App == app && c.New.Attempts == attempt {
			s.Runs = append(s.Runs, Handling{App: app, Attempt: attempt, Mode: mode, Start: c.At.Add(time.Microsecond),
				End: s.clock, Result: result, Told: s.Name})
			return s
		}
	}
	panic("there is no such claim")
}

func (s *story) commitLate() *story {
	s.Changes[1].Committed = s.Runs[0].Start.Add(time.Microsecond)
	return s
}

func (s *story) twice(i int) *story {
	s.Changes = slices.Insert(s.Changes, i, s.Changes[i])
	chain(&s.History)
	return s
}

// finally adds what the table contains at the end.
func (s *story) finally(op byte, change func(*State)) *story {
	s.write(op, "", change)
	return s
}

func (s *story) vanish() *story {
	s.gone = true
	return s
}

func (s *story) insertedBy(app string) *story {
	s.Changes[0].App = app
	return s
}

func (s *story) setAnew() *story {
	return s.write('U', "producers", func(n *State) {
		n.Status, n.Token, n.Attempts, n.Generation = ready, "", 0,
			n.Generation+1
	}).
		claim(app2, "anew").run(app2, modePlain, resultOK).ack(app2, 0)
}

func (s *story) setDuring() *story {
	s.Table = "timers"
	return s.write('U', "producers", func(n *State) { n.Generation++ })
}

func (s *story) given(work string) *story {
	s.Runs[len(s.Runs)-1].Told = work
	return s
}

// startLate makes the last handler begin after the last change.
func (s *story) startLate() *story {
	r := &s.Runs[len(s.Runs)-1]
	r.Start, r.End = s.clock.Add(time.Millisecond), s.clock.Add(time.Second)
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
