package jobs

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/validate"
)

// Unique prevents a job from being enqueued while another job holds the same key. A unique index decides: of any number
// of concurrent transactions, one writes the job, and the others wait for it to commit or roll back.
//
// By default a key is taken while its holder is ready or in progress, and in the ended states that While names. It is
// free again when the holder enters any other state, or is deleted. A dead letter that is redriven takes its key again,
// and is not redriven while another job holds it.
//
// So what changes while the holder runs, after it has read what it works on, is dropped with Keep and Replace alike;
// see Until for jobs that must run once more then.
//
// In [Delivery.Tx] the job's own key is free for the jobs that the function enqueues, by whatever way: a job may
// enqueue its successor. If the transaction does not commit, the job still holds its key.
type Unique struct {
	// Key is what no two jobs of one kind may have in common: at most [MaxKey] bytes. A constant allows one job of the
	// kind. Default: Fields, or what [KindOptions].UniqueKey or UniqueFields returns or, if the kind has neither, the
	// encoded args, before encryption. The kind of a unique job may not have the character U+001F.
	//
	// Jobs that programs in other languages enqueue, too, need a Key or Fields: encoded args are Go's own.
	Key string
	// Fields are what no two jobs of one kind may have in common: 1 to [MaxFields] values by name, in place of a Key.
	// Names have 1 to [MaxFieldName] bytes. A value is a text of at most [MaxFieldText] bytes, a number with at most
	// [MaxFieldDigits] digits on each side of its point, true, false or nil. Numbers are compared by their decimal
	// value, a float by the shortest decimal that stands for it, so 1.50 is 1.5; the number 7 and the text "7" differ,
	// and so do nil and a field that is missing. The same fields are the same key in every language, see docs/sql.md.
	Fields map[string]any
	// While names the ended states in which the key stays taken. Default: none.
	While States
	// Until says whether the key is free already when the job starts. Default: [UntilEnd].
	Until Until
	// OnConflict says what happens to a job whose key is taken. Default: [Keep].
	OnConflict Conflict
}

// States is a set of ended states.
type States int16

const (
	WhileDone   States = 1 << workqueue.Done   // for as long as the done job is kept, see [Options].Retention
	WhileFailed States = 1 << workqueue.Failed // until the failed job is redriven or deleted
)

// heldUntilStart in the column unique_states says that the key is free when the job starts.
const heldUntilStart States = 1 << workqueue.InProgress

// Until says for how long a job holds its unique key.
type Until uint8

const (
	// UntilEnd holds the key until the job has ended.
	UntilEnd Until = iota
	// UntilStart holds the key until the job is claimed for the first time: at most one job of the key waits to start.
	// What is enqueued later is a job of its own, and may run beside it. While must be empty.
	UntilStart
	// UntilStartInTurn is UntilStart for jobs of which only one may run at a time: it sets ByKey to an Ordered key made
	// from the unique key, with [keyed.Skip], so the job must have no other ByKey. However many jobs are enqueued while
	// one runs, or waits for its next attempt, exactly one more runs after it: the first of them with Keep, the last
	// with Replace.
	UntilStartInTurn
)

// Conflict says what happens to a job whose unique key is taken.
type Conflict uint8

const (
	// Keep leaves the holder as it is: nothing is written, and the result is the holder's id.
	Keep Conflict = iota
	// Replace turns a holder that is ready into the new job: it gets the new args, headers (and with them tenant and
	// trace), queue, priority, due time, ByKey, MaxAttempts, Retry and While, and has no attempts, steps, progress or
	// output. It keeps its id, the time at which it was enqueued, and the history of its attempts. If ByKey names the
	// same key, it keeps its place there; if it names another, it goes to the end of that. A holder that is in progress
	// or has ended is not changed, as with Keep.
	Replace
	// Reject fails with a [*UniqueError]. Other jobs of the same call may have been written then: roll back.
	Reject
)

// check refuses what cannot be, also what cannot be for a kind, or beside a ByKey.
func (u *Unique) check(kind string, hasByKey bool) error {
	switch {
	case u == nil:
		return nil
	case u.Until == UntilStartInTurn && hasByKey:
		return validate.Errorf("ByKey", "is set, and so is Unique.Until with UntilStartInTurn, which sets ByKey: for "+
			"jobs with a key of their own use UntilStart")
	case strings.Contains(kind, kindEnd):
		return validate.Errorf("kind", "has the character U+001F, which ends the kind in the key of a unique job: name "+
			"the kind without it")
	case u.While&^(WhileDone|WhileFailed) != 0:
		return validate.Errorf("Unique.While", "is %d, want WhileDone, WhileFailed or both", u.While)
	case u.Until > UntilStartInTurn:
		return validate.Errorf("Unique.Until", "is %d, want UntilEnd, UntilStart or UntilStartInTurn", u.Until)
	case u.Until != UntilEnd && u.While != 0:
		return validate.Errorf("Unique.While", "is set, and so is Until: the key is free before the job ends")
	case u.OnConflict > Reject:
		return validate.Errorf("Unique.OnConflict", "is %d, want Keep, Replace or Reject", u.OnConflict)
	}
	return cmp.Or(checkOptionalName("Unique.Key", u.Key, MaxKey), u.checkFields())
}

func (u *Unique) checkFields() error {
	if u.Fields == nil {
		return nil
	}
	if u.Key != "" {
		return validate.Errorf("Unique.Fields", "are set, and so is Unique.Key: set one of them")
	}
	_, err := canonical(u.Fields)
	return err
}

// unique returns the job's Unique, with the key that the kind derives from the args if it has none of its own.
func (i Insert) unique(k *kind) (*Unique, error) {
	if i.Unique.Key != "" || i.Unique.Fields != nil {
		return i.Unique, nil
	}
	derived, err := *i.Unique, error(nil)
	switch {
	case k.uniqueKey != nil:
		if derived.Key, err = k.uniqueKey(i.Args); err == nil {
			err = input.Name(fmt.Sprintf("UniqueKey of kind %q", k.name), derived.Key, MaxKey)
		}
	case k.uniqueFields != nil:
		if derived.Fields, err = k.uniqueFields(i.Args); err == nil {
			_, err = canonical(derived.Fields) // also if there are none
		}
	}
	return &derived, err
}

// kindEnd ends the kind in the stored form of a key. A key may have it, a kind that has unique jobs may not: the kind
// "a" with the key "b\x1fc" would be the kind "a\x1fb" with the key "c".
const (
	kindEnd    = "\x1f"
	sqlKindEnd = "chr(31)"
)

// text returns the unique key in its stored form. The first letter keeps the scopes apart.
func (u *Unique) text(kind string, args []byte) (string, error) {
	switch {
	case u.Key != "":
		return "u:" + kind + kindEnd + u.Key, nil
	case u.Fields != nil:
		form, err := canonical(u.Fields)
		return "f:" + kind + kindEnd + hash(form), err
	}
	return "a:" + kind + kindEnd + hash(args), nil
}

// states are how the row stores While and Until.
func (u *Unique) states() States {
	if u.Until != UntilEnd {
		return heldUntilStart
	}
	return u.While
}

const inTurnPrefix = "unique/"

// inTurn is the rule of jobs that run one at a time, by their stored unique key. It is hashed because a concurrency key
// is shorter.
func inTurn(uniqueKey string) keyed.Rule {
	return keyed.Ordered{Key: inTurnPrefix + hash([]byte(uniqueKey)), OnFailure: keyed.Skip}
}
