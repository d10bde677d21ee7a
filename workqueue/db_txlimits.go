package workqueue

import (
	"time"
)

// TxLimits bound the transactions of [Claim.Tx] at the server: the locks of a process that is stopped in the middle
// of one, or that vanished without a word, are released after a known time. Each is in whole milliseconds; zero leaves
// the session's own setting. A drain in a transaction of the application leaves that one's settings alone.
type TxLimits struct {
	Idle      time.Duration // idle_in_transaction_session_timeout: between two statements; the server ends the session
	Statement time.Duration // statement_timeout
	Lock      time.Duration // lock_timeout: a statement's wait for a lock
}

func (l TxLimits) validate() error {
	for _, d := range []time.Duration{l.Idle, l.Statement, l.Lock} {
		if d < 0 || d > MaxLease || d%time.Millisecond != 0 {
			return invalid("transaction limit", "is %v, it must be whole milliseconds, at most %v, or 0 for none", d,
				MaxLease)
		}
	}
	return nil
}
