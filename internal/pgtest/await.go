package pgtest

import "time"

// Patience is how long a test waits for what takes milliseconds on a machine that does nothing else. It is never what a
// test measures: a machine with one test too many may need a while.
const Patience = 2 * time.Minute

// Slack is how far a time may be from what is wanted where it is counted from about now.
const Slack = 30 * time.Second

// Await waits until a condition holds, and tells whether it did within the limit. The longer it waits the seldomer it
// looks: most conditions are queries, and other tests need the processor.
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
	often     = 10 // looks lose at most this part of the time that is waited anyway
	soonest   = 2 * time.Millisecond
	seldomest = 100 * time.Millisecond
)

// Pass lets time pass: for a handler or an application at work, or where it is shown that nothing happens meanwhile.
// What is to happen is awaited.
func Pass(d time.Duration) { time.Sleep(d) }
