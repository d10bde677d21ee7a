package pgtest

import "time"

// Await waits until a condition holds, and tells whether it did within the limit.
func Await(limit time.Duration, condition func() bool) bool {
	const often = 5 * time.Millisecond
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(often) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// Pass lets time pass: for a handler or an application at work, or where it is shown that nothing happens meanwhile.
// What is to happen is awaited.
func Pass(d time.Duration) { time.Sleep(d) }
