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

	// Log writes a message once and never updates it, and any number of subscriptions read it. What a message costs its
	// producer does not depend on how many there are. Each has a position of its own, so none waits for another, but
	// messages are kept until all have passed them.
	//
	// Its tables are made by `txwork migrate up --domain log`, which is the domain migrations.Log: a schema has them
	// only where they are named. Enqueue is the same, with dedup keys, times and the order of a key. What a log cannot
	// do is refused by name: joins, pauses of topics, and attempts and backoffs of single messages.
	//
	// Three things differ without an error. Ids are not unique: a message with the [Message].ID of an earlier one is
	// written, too. A dedup key is free again when all subscriptions have passed its message, a week after it was
	// committed at the earliest. And in each subscription, whatever the [Ordering], a message that failed holds up
	// those behind it with the same [Message].Key, and a dead letter blocks the key until it is redriven or deleted, or
	// [Outbox.Unblock] gives it up.
	//
	// A [Relay] reads one subscription, see [RelayOptions]. So do the SQL functions of the log.
	Log

	// MoveToLog is for an outbox of rows that moves to a log while it runs, see [Outbox.Move], or back, see
	// [Outbox.MoveBack]: messages are rows until the switch, and messages of the log from then on. Each call of Enqueue
	// asks in its transaction where they go, which is a statement more. Deploy it for all producers before the move,
	// and Log, or Rows, afterwards.
	//
	// It refuses what a log refuses, at once, but for Retention, FailedRetention and DeleteDone: they apply to rows,
	// also to those that stay because they have ended. A [Relay] without a Subscription delivers rows, and one with a
	// Subscription reads the log.
	MoveToLog
)

func (s Storage) String() string {
	switch s {
	case Rows:
		return "Rows"
	case Log:
		return "Log"
	case MoveToLog:
		return "MoveToLog"
	}
	return fmt.Sprintf("Storage(%d)", uint8(s))
}

// checkStorage refuses options that a log does not have.
func (o Options) checkStorage() error {
	set := []struct {
		field       string
		is, ofEnded bool
	}{
		{"max attempts", o.MaxAttempts != 0, false}, {"retry", o.Retry != workqueue.Retry{}, false},
		{"retention", o.Retention != 0, true}, {"failed retention", o.FailedRetention != 0, true},
		{"delete done", o.DeleteDone, true}, {"on failure", o.OnFailure != 0, false},
	}
	switch o.Storage {
	case Rows:
		return nil
	case Log, MoveToLog:
		for _, option := range set {
			if option.is && (o.Storage == Log || !option.ofEnded) {
				return onLog(option.field)
			}
		}
		return nil
	}
	return validate.Errorf("storage", "is %d, want Rows, Log or MoveToLog", uint8(o.Storage))
}

// onLog refuses what only rows have.
func onLog(what string) error { return onLogDo(what, "Leave it out") }

func onLogDo(what, instead string) error {
	return validate.Errorf(what, "is not possible with Storage Log: %s, or use Rows", instead)
}

// refuses refuses what only rows have, if the outbox is a log, and says what to do instead.
func (o *Outbox) refuses(what, instead string) error {
	if o.log == nil {
		return nil
	}
	return onLogDo(what, instead)
}

// refusesPause is for topics, which are paused in a table that has rows only.
func (o *Outbox) refusesPause() error {
	return o.refuses("pause of a topic", "Call PauseSubscription")
}

// checkLogged refuses a message that asks for what a log does not have.
func (m *Message) checkLogged() error {
	switch {
	case m.MaxAttempts != 0:
		return onLog("max attempts")
	case m.Retry != workqueue.Retry{}:
		return onLog("retry")
	}
	return nil
}
