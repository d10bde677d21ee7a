package pgtest

import "time"

// Patience is how long a test waits for something that takes milliseconds on an idle machine. It is never what a test
// measures: it only has to be long enough for an overloaded machine.
const Patience = 2 * time.Minute

// Slack is how far a time may be from the expected one, if that is relative to now.
const Slack = 30 * time.Second

// Await waits until a condition holds, and tells whether it did within the limit. The longer it waits, the less often
// it checks: most conditions are queries, and other tests need the CPU.
func Await(limit time.Duration, condition func() bool) bool {
	begun := time.Now()
	for !condition() {
		waited := time.Since(begun)
		if waited > limit {
			return false
		}
		Pass(min(max(waited/often, soonest), seldomest))
	}
	return true
}

const (
	often     = 10 // polling delays the result by at most a tenth of the time waited
	soonest   = 2 * time.Millisecond
	seldomest = 100 * time.Millisecond
)

// Pass lets time pass: to simulate a handler or an application at work, or to show that nothing happens meanwhile. A
// test that waits for something to happen uses Await.
func Pass(d time.Duration) { time.Sleep(d) }
