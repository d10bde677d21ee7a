package jobs

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"

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
	// By says what makes the key. Default: [ByArgs].
	By UniqueBy
	// Key is the key, with [ByKey]: 1 to [MaxKey] bytes.
	Key string
	// While names the ended states in which the key stays taken. Default: none.
	While States
	// OnConflict says what happens to a job whose key is taken. Default: [Keep].
	OnConflict Conflict
}

// UniqueBy says which jobs have the same unique key.
type UniqueBy uint8

const (
	ByArgs UniqueBy = iota // jobs of one kind whose encoded args are the same, before encryption
	ByKind                 // jobs of one kind
	ByKey                  // jobs of one kind with the same [Unique].Key
)

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
	case u.By > ByKey:
		return validate.Errorf("unique", "has By %d, want ByArgs, ByKind or ByKey", u.By)
	case u.While&^(WhileDone|WhileFailed) != 0:
		return validate.Errorf("unique", "has While %d, want WhileDone, WhileFailed or both", u.While)
	case u.OnConflict > Reject:
		return validate.Errorf("unique", "has OnConflict %d, want Keep, Replace or Reject", u.OnConflict)
	case u.By != ByKey && u.Key != "":
		return validate.Errorf("unique", "has a Key, which only ByKey looks at")
	}
	return nil
}

// checkKey is check for a job, which needs a key with ByKey. A kind's Unique may leave the key to its jobs.
func (u *Unique) checkKey() error {
	if u == nil || u.By != ByKey {
		return u.check()
	}
	return cmp.Or(u.check(), input.Name("unique key", u.Key, MaxKey))
}

// text returns the unique key in its stored form. The first letter keeps the scopes apart.
func (u *Unique) text(kind string, args []byte) string {
	switch {
	case u == nil:
		return ""
	case u.By == ByKind:
		return "k:" + kind
	case u.By == ByKey:
		return "u:" + kind + "\x1f" + u.Key
	}
	hash := sha256.Sum256(args)
	return "a:" + kind + "\x1f" + base64.RawURLEncoding.EncodeToString(hash[:])
}

// occurrence returns the unique key of a schedule's occurrence.
func occurrence(key string) string { return "s:" + key }
