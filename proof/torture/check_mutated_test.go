//go:build unix

package torture

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// goodHistories are the histories that the mutations change.
func goodHistories() map[string]*story {
	claimed := func(table string) *story {
		return tell(table).asked(Committed).by("run producers").insert().claim(app1, "a")
	}
	return map[string]*story{
		"plain": claimed("jobs").run(app1, modePlain, resultOK).ack(app1, 0),
		"tx":    claimed("jobs").run(app1, modeTx, resultTx).ack(app1, 1),
		"renewed": claimed("jobs").write('U', app1, func(n *State) { n.Locked = s2(n.Locked) }).run(app1, modePlain,
			resultOK).ack(app1, 0),
		"retried": claimed("jobs").run(app1, modeFlaky, resultError).end(app1, ready).claim(app1, "b").run(app1,
			modePlain, resultOK).ack(app1, 0),
		"reaped": claimed("jobs").reap(2*time.Second).claim(app2, "b").run(app2, modeTx, resultTx).ack(app2,
			1).late(app1, 1, modeTx, resultError),
		"snoozed": claimed("jobs").run(app1, modeSnooze, resultError).write('U', app1, func(n *State) {
			n.Status,
				n.Attempts, n.Locked = ready, 0, time.Time{}
		}).claim(app1, "b").run(app1, modePlain, resultOK).ack(app1, 0),
		"released": claimed("jobs").write('U', app1, func(n *State) {
			n.Status, n.Attempts, n.Locked = ready, 0,
				time.Time{}
		}).claim(app2, "b").run(app2, modePlain, resultOK).ack(app2, 0),
		"failed": claimed("jobs").run(app1, modePermanent, resultError).end(app1, failed),
		"poison": tell("jobs").upTo(1).asked(Committed).by("run producers").insert().claim(app1, "a").died(app1,
			modeExit).reapTo(failed),
		"inbox": tell("inbox").asked(Committed).write('I', "run producers", func(n *State) {
			n.Status,
				n.Attempts = done, 1
		}).effect("run producers"),
		"received": claimed("inbox").run(app1, modeTx, resultOK).ack(app1, 1),
		"again": claimed("timers").asked(Committed, Committed).run(app1, modeTx, resultTx).ack(app1, 1).
			write('U', "run producers", func(n *State) {
				n.Status, n.Token, n.Attempts, n.Generation = ready, "", 0,
					1
			}).
			claim(app2, "b").run(app2, modePlain, resultOK).ack(app2, 0),
		"rearmed": claimed("timers").asked(Committed, Committed).
			write('U', "run producers", func(n *State) { n.Generation = 1 }).run(app1, modeTx, resultTx).
			write('U', app1, func(n *State) { n.Status, n.Attempts, n.Locked = ready, 0, time.Time{} }).effectOf(app1,
			1).
			claim(app1, "b").run(app1, modePlain, resultOK).ack(app1, 0),
		"cancelled": tell("timers").asked(Committed).by("run producers").insert().write('U',
			"run producers", func(n *State) { n.Status, n.Cancelled = failed, true }),
	}
}

// A mutation changes one event of a history. It reports whether there was anything to change.
type mutation struct {
	name string
	of   func(*History, int) bool
}

// mutations changes every event: it may be lost, repeated, reordered, or belong to another process, claim, or time.
func mutations() []mutation {
	list := []mutation{
		{"version lost", onChange(func(h *History, i int) { h.Changes = slices.Delete(h.Changes, i, i+1) })},
		{"version twice", onChange(func(h *History, i int) { h.Changes = slices.Insert(h.Changes, i, h.Changes[i]) })},
		{"versions swapped", func(h *History, i int) bool {
			if i+1 >= len(h.Changes) {
				return false
			}
			h.Changes[i], h.Changes[i+1] = h.Changes[i+1], h.Changes[i]
			return true
		}},
		{"run lost", onRun(func(h *History, i int) { h.Runs = slices.Delete(h.Runs, i, i+1) })},
		{"run twice", onRun(func(h *History, i int) { h.Runs = slices.Insert(h.Runs, i, h.Runs[i]) })},
		{"effect lost", onEffect(func(h *History, i int) { h.Effects = slices.Delete(h.Effects, i, i+1) })},
		{"effect twice", onEffect(func(h *History, i int) { h.Effects = slices.Insert(h.Effects, i, h.Effects[i]) })},
		{"transaction lost", onAsked(func(h *History, i int) { h.Asked = slices.Delete(h.Asked, i, i+1) })},
		{"transaction twice", onAsked(func(h *History, i int) { h.Asked = slices.Insert(h.Asked, i, h.Asked[i]) })},
		{"transaction rolled back", onAsked(func(h *History, i int) { h.Asked[i] = RolledBack })},
	}
	for name, change := range map[string]func(*Change){
		"app":                 func(c *Change) { c.App = other(c.App, app1, app2) },
		"token":               func(c *Change) { c.New.Token = "x" },
		"no token":            func(c *Change) { c.New.Token = "" },
		"attempt more":        func(c *Change) { c.New.Attempts++ },
		"attempt less":        func(c *Change) { c.New.Attempts-- },
		"ready":               func(c *Change) { c.New.Status = ready },
		"in progress":         func(c *Change) { c.New.Status = inProgress },
		"done":                func(c *Change) { c.New.Status = done },
		"failed":              func(c *Change) { c.New.Status = failed },
		"waiting":             func(c *Change) { c.New.Waiting = !c.New.Waiting },
		"cancelled":           func(c *Change) { c.New.Cancelled = !c.New.Cancelled },
		"due later":           func(c *Change) { c.New.Due = c.New.Due.Add(time.Hour) },
		"fires later":         func(c *Change) { c.New.Fire = c.TxnAt.Add(time.Hour) },
		"leased for longer":   func(c *Change) { c.New.Locked = c.TxnAt.Add(time.Hour) },
		"generation":          func(c *Change) { c.New.Generation++ },
		"fewer attempts":      func(c *Change) { c.New.Max = 0 },
		"other transaction":   func(c *Change) { c.XID += 1000 },
		"transaction earlier": func(c *Change) { c.TxnAt = c.TxnAt.Add(-time.Hour) },
		"earlier":             func(c *Change) { c.At = c.At.Add(-time.Hour) },
		"later":               func(c *Change) { c.At = c.At.Add(time.Hour) },
		"commits later":       func(c *Change) { c.Committed = c.Committed.Add(time.Hour) },
	} {
		list = append(list, mutation{name, onChange(func(h *History, i int) { change(&h.Changes[i]) })})
	}
	for name, change := range map[string]func(*Handling){
		"run by another":     func(r *Handling) { r.App = other(r.App, app1, app2) },
		"run of another":     func(r *Handling) { r.Attempt++ },
		"run too early":      func(r *Handling) { r.Start = r.Start.Add(-time.Hour) },
		"run too late":       func(r *Handling) { r.Start, r.End = r.Start.Add(time.Hour), r.End.Add(time.Hour) },
		"run ends too late":  func(r *Handling) { r.End = r.End.Add(time.Hour) },
		"run never ends":     func(r *Handling) { r.End, r.Result = time.Time{}, "" },
		"run fails":          func(r *Handling) { r.Result = resultError },
		"run panics":         func(r *Handling) { r.Result = resultPanic },
		"run succeeds":       func(r *Handling) { r.Result = resultOK },
		"run is told it has": func(r *Handling) { r.Result = resultTx },
		"run of other work":  func(r *Handling) { r.Told = "other" },
	} {
		list = append(list, mutation{name, onRun(func(h *History, i int) { change(&h.Runs[i]) })})
	}
	for name, change := range map[string]func(*Effect){
		"effect elsewhere":  func(e *Effect) { e.XID += 1000 },
		"effect by another": func(e *Effect) { e.App = "another" },
		"effect of another": func(e *Effect) { e.Attempt++ },
	} {
		list = append(list, mutation{name, onEffect(func(h *History, i int) { change(&h.Effects[i]) })})
	}
	return list
}

func other(is, a, b string) string {
	if is == a {
		return b
	}
	return a
}

func onChange(do func(*History, int)) func(*History, int) bool {
	return func(h *History, i int) bool { return i < len(h.Changes) && did(func() { do(h, i) }) }
}

func onRun(do func(*History, int)) func(*History, int) bool {
	return func(h *History, i int) bool { return i < len(h.Runs) && did(func() { do(h, i) }) }
}

func onEffect(do func(*History, int)) func(*History, int) bool {
	return func(h *History, i int) bool { return i < len(h.Effects) && did(func() { do(h, i) }) }
}

func onAsked(do func(*History, int)) func(*History, int) bool {
	return func(h *History, i int) bool { return i < len(h.Asked) && did(func() { do(h, i) }) }
}

func did(do func()) bool {
	do()
	return true
}

// chain connects the versions again and makes the table contain the last one, so that a mutation shows what the
// database did and not a hole in the records.
func chain(h *History) {
	for i := 1; i < len(h.Changes); i++ {
		if h.Changes[i].Op == 'U' {
			h.Changes[i].OldStatus, h.Changes[i].OldToken = h.Changes[i-1].New.Status, h.Changes[i-1].New.Token
		}
	}
}

// unnoticed are mutations that no check notices, as "history: mutation event", with the reason why they are harmless.
var unnoticed = []struct{ which, why string }{
	{`^\w+: (earlier|later|due later|fires later|transaction earlier|commits later) \d`,
		"the trigger's times are the server's, which no product can change; a due time counts where a claim follows"},
	{`^\w+: other transaction \d`, "a transaction only ties an effect to its settle, and these have none"},
	{`^\w+: app 0`, "an insert by a worker is that of a schedule"},
	{`^(poison|reaped): app 2`, "anybody may reap a lease that is over"},
	{`^(again: app 3|rearmed: app 2)`, "the number of settings is held against the number of transactions"},
	{`^(poison|reaped|cancelled|inbox|again): token \d`,
		"a token is compared with itself alone: a claim has a fresh one, and these are of no claim any more"},
	{`^\w+: waiting \d`, "the table's CHECK forbids it in progress; what has ended waits for nothing"},
	{`^\w+: leased for longer \d`, "one that is too long shows when its process dies: nothing moves"},
	{`^renewed: version lost [12]`, "a claim and its renewal say the same"},
	{`^(rearmed|again): (cancelled|fewer attempts) 2`, "whoever sets a timer anew may say so"},
	{`^inbox: (attempt (more|less)|effect of another|fewer attempts|generation) 0`,
		"a message that is processed at once has no claims to count"},
	{`^(poison|reaped|snoozed): run lost \d`, "a claim may end before its handler begins"},
	{`^(poison|reaped): run (too late|ends too late|fails|panics|succeeds|never ends) \d`,
		"a stale handler may do what it likes"},
	{`^retried: run panics 0`, "a handler that panics has failed"},
	{`^(again|rearmed|tx|reaped): run (ends too late|never ends|fails|panics|succeeds) \d`,
		"of a transaction of its own a handler hears afterwards, or never"},
}

func reasonFor(mutant string) int {
	for i, u := range unnoticed {
		if regexp.MustCompile(u.which).MatchString(mutant) {
			return i
		}
	}
	return -1
}

func copied(good *story) *story {
	s := *good
	s.Changes, s.Runs, s.Effects, s.Asked = slices.Clone(s.Changes), slices.Clone(s.Runs), slices.Clone(s.Effects),
		slices.Clone(s.Asked)
	return &s
}

// Every wrong event of a history is noticed, or is known to be harmless.
func TestMutatedHistories(t *testing.T) {
	t.Parallel()
	used := map[int]bool{}
	for name, good := range goodHistories() {
		if v := verdict(Facts{}, good); len(v.Violations) > 0 {
			t.Fatalf("%s: found %v\n%v", name, v.Violations[0], good.text())
		}
		for _, m := range mutations() {
			for i := range len(good.Changes) + len(good.Runs) {
				mutant, s := fmt.Sprintf("%s: %s %d", name, m.name, i), copied(good)
				if !m.of(&s.History, i) || same(&s.History, &good.History) {
					continue
				}
				chain(&s.History)
				if len(verdict(Facts{}, s).Violations) > 0 {
					continue
				}
				if reason := reasonFor(mutant); reason >= 0 {
					used[reason] = true
				} else {
					t.Errorf("nobody noticed %s\n%s", mutant, strings.Join(s.text(), "\n"))
				}
			}
		}
	}
	for i, u := range unnoticed {
		if !used[i] {
			t.Errorf("%s is noticed by now", u.which)
		}
	}
}

func same(a, b *History) bool {
	return slices.Equal(a.Changes, b.Changes) && slices.Equal(a.Runs, b.Runs) && slices.Equal(a.Effects, b.Effects) &&
		slices.Equal(a.Asked, b.Asked)
}
