package conn

import (
	"strconv"
	"time"
)

// Limits bound a transaction at the server. Zero leaves the session's own setting.
type Limits struct {
	Idle      time.Duration // idle_in_transaction_session_timeout
	Statement time.Duration // statement_timeout
	Lock      time.Duration // lock_timeout
}

// Settings are the calls that set them, in the SELECT that begins a transaction.
func (l Limits) Settings() (sets []string) {
	set := func(name string, d time.Duration) {
		if d > 0 {
			sets = append(sets, SetLocal(name, strconv.FormatInt(d.Milliseconds(), 10)))
		}
	}
	set("idle_in_transaction_session_timeout", l.Idle)
	set("statement_timeout", l.Statement)
	set("lock_timeout", l.Lock)
	return sets
}
