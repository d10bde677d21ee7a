package workqueue

import (
	"testing"
	"time"
)

// An outage ends the sessions of a listener before anything else notices it. That is no second line of the log, and a
// listener that cannot listen although the database answers is one.
func TestWhenListeningIsSaidToFail(t *testing.T) {
	t.Parallel()
	type session struct {
		pause, lasts time.Duration // before it, and its own
		heard        bool
		outage       bool // goes on when it ends
		logs         bool
	}
	const s, ms = time.Second, time.Millisecond
	for name, sessions := range map[string][]session{
		"refused": {{0, ms, false, false, false}, {4 * s, ms, false, false, false}, {4 * s, ms, false, false, true},
			{4 * s, ms, false, false, false}},
		"no answer": {{0, 4 * s, false, false, false}, {0, 4 * s, false, false, true}},
		"again after it listened": {{6 * s, ms, false, false, true}, {s, 2 * s, true, false, false},
			{3 * s, ms, false, false, false}, {3 * s, ms, false, false, true}},
		"an outage": {{0, 3 * s, true, true, false}, {6 * s, ms, false, true, false}, {6 * s, ms, false, true, false}},
		"an outage soon after another": {{6 * s, ms, false, true, false}, {s, 900 * ms, true, false, false},
			{3 * s, ms, false, true, false}, {5 * s, 900 * ms, true, false, false}},
		"brief sessions": {{0, 900 * ms, true, false, false}, {3 * s, 900 * ms, true, false, false},
			{3 * s, 900 * ms, true, false, true}, {3 * s, 900 * ms, true, false, false}},
	} {
		now := time.Now()
		d := deafness{since: now}
		for i, session := range sessions {
			start := now.Add(session.pause)
			now = start.Add(session.lasts)
			if logs := d.isNew(start, now, session.heard, session.outage); logs != session.logs {
				t.Errorf("%s: session %d is logged: %t", name, i, logs)
			}
		}
	}
}
