package workqueue

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// An Outcome says how a claim is to be settled. A handler returns it instead of nil or a plain error. It is an error,
// so that handlers have one result, and may be wrapped.
type Outcome struct {
	kind  outcomeKind
	delay time.Duration // negative: the table's backoff
	cause error

	errorType string // of the cause, for telemetry
}

// unnamedDelay leaves the delay to the table.
const unnamedDelay time.Duration = -1

// RetryNow is a failed attempt that is retried at once. The row is Failed if its attempts are used up.
func RetryNow(cause error) error { return RetryAfter(0, cause) }

// RetryAfter is a failed attempt that is retried after d instead of the table's backoff.
func RetryAfter(d time.Duration, cause error) error {
	return &Outcome{kind: outcomeRetry, delay: max(d, 0), cause: cause}
}

// RetryByPolicy is a failed attempt with the table's backoff. A plain error means the same, except that
// inside [Claim.Tx] it rolls back the handler's writes, where RetryByPolicy commits them.
func RetryByPolicy(cause error) error {
	return &Outcome{kind: outcomeRetry, delay: unnamedDelay, cause: cause}
}

// Permanent settles the claim as Failed now: another attempt would fail the same way.
func Permanent(cause error) error { return &Outcome{kind: outcomeFail, cause: cause} }

// MinSnooze is the shortest pause of [Snooze]. Snoozes use up no attempts, so a handler that always snoozes would
// otherwise run as often as the database allows.
const MinSnooze = 100 * time.Millisecond

// Snooze makes the row due again after d, or after [MinSnooze] if d is shorter. The attempt does not count. Use it if
// it is too early to process the row.
func Snooze(d time.Duration) error { return &Outcome{kind: outcomeSnooze, delay: max(d, MinSnooze)} }

// SnoozeFor is [Snooze] with a cause. The row's last error is then the cause, and since when the row has been snoozed
// for it, so that everybody can see what the row waits for, and for how long.
func SnoozeFor(d time.Duration, cause error) error {
	return &Outcome{kind: outcomeSnooze, delay: max(d, MinSnooze), cause: cause}
}

// LeaveFor leaves the row to other workers: it is due again after d, or after [MinSnooze] if d is shorter, the attempt
// does not count, and the row has not started. Limits, rates and metrics of starts do not count it. Use it if this
// worker cannot process the row at all, and nothing of it has been done. As with [SnoozeFor] the last error is the
// cause, and since when the row has been put back for it.
func LeaveFor(d time.Duration, cause error) error {
	return &Outcome{kind: outcomeLeave, delay: max(d, MinSnooze), cause: cause}
}

// Unavailable says that the destination of the message cannot be reached at all: not this message has failed, and any
// other one of its topic would fare the same. The attempt does not count, and the row keeps its place. Its topic rests,
// in all processes, for half a second at first; then one message probes the destination. If the probe is Unavailable,
// too, the rest doubles, up to ten seconds, each less up to a fifth. Any other end of the probe that its handler
// decides on, except a snooze, [LeaveFor] and a cancel, opens the topic. The error of the row is the cause, and since
// when it has been put back for it. Of an outbox that is a log, the subscription rests in place of the topic, whatever
// topics it has.
//
// In a table without topics the row is due again after 8 to 10 seconds, as by [SnoozeFor]. So it is where row-level
// security binds the worker, who cannot decide for the rows of others.
func Unavailable(cause error) error {
	return &Outcome{kind: outcomeUnavailable, delay: unnamedDelay, cause: cause}
}

// Again is [Snooze] without a minimum, for domains that process a row in several steps, or at an exact time. A handler
// that always returns it runs as often as the database allows.
func Again(d time.Duration) error { return &Outcome{kind: outcomeSnooze, delay: max(d, 0)} }

// Cancelled ends the row as cancelled: Failed with cancelled_at set.
func Cancelled(reason string) error { return &Outcome{kind: outcomeCancel, cause: errors.New(reason)} }

func (o *Outcome) Error() string {
	switch o.kind {
	case outcomeSnooze:
		if o.cause != nil {
			return fmt.Sprintf("snoozed for %v: %s", o.delay, text(o.cause))
		}
		return fmt.Sprintf("snoozed for %v", o.delay)
	case outcomeLeave:
		return fmt.Sprintf("left for %v: %s", o.delay, text(o.cause))
	case outcomeUnavailable:
		return "unavailable: " + text(o.cause)
	case outcomeCancel:
		return "cancelled: " + text(o.cause)
	case outcomeFail:
		return "permanent: " + text(o.cause)
	}
	return text(o.cause)
}

func (o *Outcome) Unwrap() error { return o.cause }

// IsUnavailable reports whether the outcome is an [Unavailable].
func (o *Outcome) IsUnavailable() bool { return o.kind == outcomeUnavailable }

// IsPermanent reports whether the outcome is a [Permanent], for domains that settle rows themselves.
func (o *Outcome) IsPermanent() bool { return o.kind == outcomeFail }

// RetryDelay is the delay of a [RetryAfter] or [RetryNow]; false for other outcomes.
func (o *Outcome) RetryDelay() (time.Duration, bool) {
	return max(o.delay, 0), o.kind == outcomeRetry && o.delay >= 0
}

// acked is the outcome of every handler that returns nil, released that of rows that no handler has begun, and
// interrupted that of handlers that end because of a shutdown. An Outcome does not change once it is made.
var (
	acked       = &Outcome{kind: outcomeAck}
	released    = &Outcome{kind: outcomeRelease, delay: unnamedDelay}
	interrupted = &Outcome{kind: outcomeInterrupt, delay: unnamedDelay}
)

// outcomeOf reads a handler's result. The error is the application's. If its methods panic, for instance because it is
// a nil pointer, the claim still gets an outcome.
func outcomeOf(err error) *Outcome {
	if err == nil {
		return acked
	}
	if o := chosen(err); o != nil {
		return o.read()
	}
	return retried(err).read()
}

// retried is the outcome of a plain error.
func retried(cause error) *Outcome {
	return &Outcome{kind: outcomeRetry, delay: unnamedDelay, cause: cause}
}

// chosen is the Outcome in an error; nil in any other.
func chosen(err error) *Outcome {
	o, _ := contain.As[*Outcome](err)
	return o
}

// read replaces the cause by its text, so that the methods of the application's error are not called again.
func (o *Outcome) read() *Outcome {
	if o.cause == nil {
		return o
	}
	return &Outcome{kind: o.kind, delay: o.delay, cause: errors.New(text(o.cause)), errorType: errorTypeOf(o.cause)}
}

// A Redactor rewrites an error's text before it is stored, to keep secrets out of the table.
type Redactor func(ctx context.Context, message string) string

// errorTypeOf is the error of a handler as metrics and spans report it: its Go type.
func errorTypeOf(err error) string {
	if err == errGoexit { // errors.Is would call the application's error
		return "goexit"
	}
	return fmt.Sprintf("%T", err)
}

// text is an error's message. It goes through fmt because the error is the application's: a panic in its Error
// method becomes a part of the message.
func text(err error) string {
	if err == nil {
		return "no reason given"
	}
	if v := reflect.ValueOf(err); v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Sprintf("the error is a nil pointer of type %T, which is not a nil error: return nil itself", err)
	}
	return fmt.Sprint(err)
}

// message is a cause as an error; none for an empty one.
func message(cause string) error {
	if cause == "" {
		return nil
	}
	return errors.New(cause)
}

// errGoexit is the error of a handler, or a hook, that ended its goroutine without returning. exited is its outcome.
var (
	errGoexit = errors.New("handler ended its goroutine (runtime.Goexit)")
	exited    = retried(errGoexit)
)

// stored is the cause as it goes into the table; redact may be nil.
func (o *Outcome) stored(ctx context.Context, redact Redactor) string {
	if o.cause == nil && o.kind == outcomeUnavailable {
		return text(nil)
	}
	if o.cause == nil {
		return ""
	}
	message := text(o.cause)
	if o.kind == outcomeCancel {
		message = o.Error()
	}
	if message = conn.Storable(message); redact != nil {
		message = conn.Storable(redact.rewrite(ctx, message))
	}
	return message
}

// rewrite calls the application's function. Should that panic, the text is withheld: it may hold a secret.
func (r Redactor) rewrite(ctx context.Context, message string) (redacted string) {
	defer func() {
		if recover() != nil {
			redacted = "withheld: the Redact hook panicked"
		}
	}()
	return r(ctx, message)
}

// An outcomeKind is a way in which a claim can end.
type outcomeKind uint8

const (
	outcomeAck outcomeKind = iota
	outcomeRetry
	outcomeSnooze
	outcomeInterrupt // put back where it was, after its handler had begun
	outcomeLeave     // put back later, before its handler began
	outcomeRelease   // put back where it was, before its handler began
	outcomeFail
	outcomeCancel
	outcomeUnavailable // put back where it was, and its topic rests. The last: it locks topics behind all rows
	outcomeKinds       // how many there are
)

// outcomes say of each kind how it is settled, and what follows.
var outcomes = [outcomeKinds]struct {
	name      string // in messages and telemetry
	statement string // the file of sql that settles such rows
	deletes   string // … in tables that delete done rows, if they end as Done
	again     bool   // the row can be due again while this worker runs
	ends      Status // the state of the row afterwards; Ready also stands for a row whose attempts were used up
}{

	outcomeAck:       {name: telemetry.OutcomeAck, statement: "ack", deletes: "ack_delete", ends: Done},
	outcomeRetry:     {name: telemetry.OutcomeAbandon, statement: "abandon", again: true},
	outcomeSnooze:    {name: telemetry.OutcomeSnooze, statement: "snooze", again: true},
	outcomeInterrupt: {name: telemetry.OutcomeRelease, statement: "snooze"},
	outcomeLeave:     {name: telemetry.OutcomeLeave, statement: "leave", again: true},
	outcomeRelease:   {name: telemetry.OutcomeRelease, statement: "release"},
	outcomeFail:      {name: telemetry.OutcomeFail, statement: "fail", ends: Failed},
	outcomeCancel:    {name: telemetry.OutcomeCancel, statement: "fail", ends: Failed},
	// It is due again with its topic, but a worker has to learn when that ends its rest.
	outcomeUnavailable: {name: telemetry.OutcomeUnavailable, statement: "unavailable", again: true},
}

func (k outcomeKind) String() string { return outcomes[k].name }

// leadsTo reports whether a row that still carries the claim's token may be in this state because this very outcome was
// applied before.
func (k outcomeKind) leadsTo(s Status) bool {
	return s == outcomes[k].ends || s == Failed && outcomes[k].ends == Ready
}
