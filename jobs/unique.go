package jobs

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
)

// Unique prevents a job from being enqueued while another job holds the same key. A unique index decides: of any number
// of concurrent transactions, one writes the job, and the others wait for it to commit or roll back.
//
// A key is taken while its holder is ready or in progress, and in the ended states that While names. It is free again
// when the holder enters any other state, or is deleted. A job that is redriven does not take its key again.
type Unique struct {
	// Key is what no two jobs of one kind may have in common: at most [MaxKey] bytes. A constant allows one job of the
	// kind. Default: what [KindOptions].UniqueKey returns or, if the kind has none, the encoded args, before
	// encryption.
	Key string
	// While names the ended states in which the key stays taken. Default: none.
	While States
	// OnConflict says what happens to a job whose key is taken. Default: [Keep].
	OnConflict Conflict
}

// States is a set of ended states.
type States int16

const (
	WhileDone   States = 1 << workqueue.Done   // for as long as the done job is kept, see [Options].Retention
	WhileFailed States = 1 << workqueue.Failed // until the failed job is redriven or deleted
)

// Conflict says what happens to a job whose unique key is taken.
type Conflict uint8

const (
	// Keep leaves the holder as it is: nothing is written, and the result is the holder's id.
	Keep Conflict = iota
	// Replace turns a holder that is ready into the new job: it gets the new args, headers (and with them tenant and
	// trace), priority, due time, MaxAttempts, Retry and While, and has no attempts, steps, progress or output. It
	// keeps its id, its queue, its key and its place there, the time at which it was enqueued, and the history of its
	// attempts. A holder that is in progress or has ended is not changed, as with Keep.
	Replace
	// Reject fails with a [*UniqueError]. Other jobs of the same call may have been written then: roll back.
	Reject
)

func (u *Unique) check() error {
	switch {
	case u == nil:
		return nil
	case u.While&^(WhileDone|WhileFailed) != 0:
		return validate.Errorf("Unique.While", "is %d, want WhileDone, WhileFailed or both", u.While)
	case u.OnConflict > Reject:
		return validate.Errorf("Unique.OnConflict", "is %d, want Keep, Replace or Reject", u.OnConflict)
	}
	return checkOptionalName("Unique.Key", u.Key, MaxKey)
}

// unique returns the job's Unique or, if it has none, its kind's, with the key that the kind derives from the args.
func (i Insert) unique(k *kind) (*Unique, error) {
	u := cmp.Or(i.Unique, k.unique)
	switch {
	case i.occurrence != "":
		return nil, nil // it is unique by its schedule
	case u == nil || u.Key != "" || k.uniqueKey == nil:
		return u, nil
	}
	key, err := k.uniqueKey(i.Args)
	if err == nil {
		err = input.Name(fmt.Sprintf("UniqueKey of kind %q", k.name), key, MaxKey)
	}
	return &Unique{Key: key, While: u.While, OnConflict: u.OnConflict}, err
}

// text returns the unique key in its stored form. The first letter keeps the scopes apart.
func (u *Unique) text(kind string, args []byte) string {
	switch {
	case u == nil:
		return ""
	case u.Key != "":
		return "u:" + kind + "\x1f" + u.Key
	}
	hash := sha256.Sum256(args)
	return "a:" + kind + "\x1f" + base64.RawURLEncoding.EncodeToString(hash[:])
}

// occurrence returns the unique key of a schedule's occurrence.
func occurrence(key string) string { return "s:" + key }
