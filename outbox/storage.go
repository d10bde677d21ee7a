package outbox

import (
	"fmt"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// Storage is how an [Outbox] keeps its messages.
type Storage uint8

const (
	// Rows keeps a message as a row, which is claimed, settled and retried by itself. A message has one destination.
	Rows Storage = iota

	// Log writes a message once and never updates it, and any number of subscriptions read it. A message costs its
	// producer the same however many there are, and a subscription that is slow or away costs the others nothing.
	//
	// Its tables are made by `txwork migrate up --domain log`, which is the domain migrations.Log: a schema has them
	// only where they are named. Enqueue is the same, with the order of a key. What a log cannot do is refused by name:
	// joins, dedup keys, and times, attempts and backoffs of single messages.
	//
	// Subscriptions are read through the SQL functions of the log; package outbox has no relay for them yet.
	Log
)

func (s Storage) String() string {
	switch s {
	case Rows:
		return "Rows"
	case Log:
		return "Log"
	}
	return fmt.Sprintf("Storage(%d)", uint8(s))
}

// checkStorage refuses options that a log does not have.
func (o Options) checkStorage() error {
	set := []struct {
		field string
		is    bool
	}{
		{"max attempts", o.MaxAttempts != 0}, {"retry", o.Retry != workqueue.Retry{}}, {"retention", o.Retention != 0},
		{"failed retention", o.FailedRetention != 0}, {"delete done", o.DeleteDone}, {"on failure", o.OnFailure != 0},
	}
	switch o.Storage {
	case Rows:
		return nil
	case Log:
		for _, option := range set {
			if option.is {
				return onLog(option.field)
			}
		}
		return nil
	}
	return validate.Errorf("storage", "is %d, want Rows or Log", uint8(o.Storage))
}

// onLog refuses what only rows have.
func onLog(what string) error {
	return validate.Errorf(what, "is not possible with Storage Log: Leave it out, or use Rows")
}

// refuses refuses what only rows have, if the outbox is a log.
func (o *Outbox) refuses(what string) error {
	if o.log == nil {
		return nil
	}
	return onLog(what)
}

// checkLogged refuses a message that asks for what a log does not have.
func (m *Message) checkLogged() error {
	switch {
	case !m.ScheduledAt.IsZero():
		return onLog("scheduled at")
	case m.MaxAttempts != 0:
		return onLog("max attempts")
	case m.Retry != workqueue.Retry{}:
		return onLog("retry")
	case m.DedupKey != "":
		return onLog("dedup key")
	}
	return nil
}
