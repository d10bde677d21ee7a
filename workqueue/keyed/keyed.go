package keyed

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// MaxKey is the maximal length of a key in bytes. Keys are indexed.
const MaxKey = 255

// MinRate and MaxRate bound a Rate. Within them, the arithmetic of rates cannot overflow, however much time has passed.
const (
	MinRate = 1e-9
	MaxRate = 1e9
)

// A Rule says for what a row waits: [Ordered] or [Limited], or [None] where a default would otherwise apply.
type Rule interface {
	check() error
	stored() StoredRule
}

// Ordered lets one row of the key run at a time, in the order in which their transactions commit. A row that failed
// keeps its place while it waits for its next attempt.
type Ordered struct {
	// Key is what the rows have in common: 1 to [MaxKey] bytes. A key of Ordered and the same key of [Limited] are
	// two keys.
	Key string

	// OnFailure says what happens to the rows behind a dead letter. Default: [Block].
	OnFailure Policy
}

// Limited bounds how many rows of the key run at the same time, how many start in a second, or both. Rows that are due
// earlier go first. It needs MaxRunning or Rate.
type Limited struct {
	// Key is what the rows have in common: 1 to [MaxKey] bytes. A key of Limited and the same key of [Ordered] are
	// two keys.
	Key string

	// MaxRunning is how many rows of the key may run at the same time; 0 is any number. A row that waits for its next
	// attempt, or is snoozed, gives its place up.
	MaxRunning int

	// Rate is how many rows a second may start, on average; 0 is any number. Attempts after the first count, too. A row
	// that is claimed and put back before its handler begins has not started.
	Rate float64

	// Burst is how many rows may start at once after a quiet time. Default with a Rate: the Rate of a second,
	// at least 1.
	Burst int
}

// None lets the row run at once, also where a default, such as that of a job's kind, has another rule.
type None struct{}

// A Policy says what happens to the rows of a key behind a dead letter, where the key's rows run one at a time.
type Policy uint8

const (
	// Block keeps the key closed until the dead letter is redriven, deleted or unblocked, see [Unblock]. Other
	// keys go on.
	Block Policy = iota
	// Park sets the rows behind it aside as dead letters, too, those that come later included. Redriven, they
	// run in their order.
	Park
	// Skip goes on with the next row.
	Skip
)

var policyNames = [...]string{Block: "block", Park: "park", Skip: "skip"}

func (p Policy) String() string {
	if p > Skip {
		return fmt.Sprintf("Policy(%d)", uint8(p))
	}
	return policyNames[p]
}

// MarshalText writes the policy as its name.
func (p Policy) MarshalText() ([]byte, error) {
	if p > Skip {
		return nil, validate.Errorf("policy", "is %d, want Block, Park or Skip", uint8(p))
	}
	return []byte(policyNames[p]), nil
}

// UnmarshalText reads what [Policy.MarshalText] writes.
func (p *Policy) UnmarshalText(name []byte) error {
	i := slices.Index(policyNames[:], string(name))
	if i < 0 {
		return validate.Errorf("policy", "%q is unknown, want one of %s", name, strings.Join(policyNames[:], ", "))
	}
	*p = Policy(i)
	return nil
}

// A written says how the SQL function writes each of the columns; nil: it does not.
type written struct{ key, limit, policy, rate, burst, seq *workqueue.Written }

// Columns lists the columns of a table with keyed rows for a domain, after its own, with the rule of a new row: nil is
// [None]. Handlers do not get them.
func Columns(c *workqueue.Columns, r Rule) { list(c, r, &byRule) }

// noRule lists the columns alone.
type noRule struct{}

func (*noRule) columns(c *workqueue.Columns) { Columns(c, nil) }

func list(c *workqueue.Columns, r Rule, w *written) {
	s := Stored(r)
	c.Split(workqueue.Column{Name: KeyColumn, Type: "text", Written: w.key}, s.Key, nil)
	c.Split(workqueue.Column{Name: "key_limit", Type: "integer", Internal: true, Written: w.limit}, s.Limit, nil)
	c.Split(workqueue.Column{Name: "key_policy", Type: "smallint", Internal: true, Written: w.policy}, s.Policy, nil)
	c.Split(workqueue.Column{Name: "key_rate", Type: "double precision", Internal: true, Written: w.rate}, s.Rate, nil)
	c.Split(workqueue.Column{Name: "key_burst", Type: "integer", Internal: true, Written: w.burst}, s.Burst, nil)
	// given by the database
	c.Field(workqueue.Column{Name: "key_seq", Type: "bigint", Internal: true, Written: w.seq}, nil)
}

// A StoredRule is a rule as the columns of a row hold it. Nil is NULL; a Limit of 0 is that of an ordered key.
type StoredRule struct{ Key, Limit, Policy, Rate, Burst any }

// Stored is a rule as it is stored, for the statements of a domain that change rows. Nil is [None].
func Stored(r Rule) (s StoredRule) {
	if r == nil {
		return s
	}
	return r.stored()
}

// stored is the policy's value in the column key_policy, as sql/keyed.up.sql reads it.
func (p Policy) stored() int {
	switch p {
	case Skip:
		return 0
	case Park:
		return 2
	}
	return 1
}

// unlimited is the limit of a key that only has a rate.
const unlimited = math.MaxInt32

func (o Ordered) stored() (s StoredRule) {
	if o.Key != "" {
		s.Key, s.Limit, s.Policy = o.Key, 0, o.OnFailure.stored()
	}
	return s
}

func (l Limited) stored() (s StoredRule) {
	if l.Key != "" {
		s.Key, s.Limit, s.Policy = l.Key, cmp.Or(l.MaxRunning, unlimited), 0
	}
	if l.Rate > 0 {
		s.Rate, s.Burst = l.Rate, l.burst()
	}
	return s
}

func (None) stored() StoredRule { return StoredRule{} }

func (l Limited) burst() int {
	if l.Burst > 0 {
		return l.Burst
	}
	return int(max(1, math.Ceil(min(l.Rate, unlimited))))
}

// Validate reports the first invalid field of a Rule. Nil is [None].
func Validate(r Rule) error {
	switch r.(type) {
	case nil:
		return nil
	case Ordered, Limited, None:
		return r.check()
	}
	return validate.Errorf("rule", "is a %T, want a keyed.Ordered, keyed.Limited or keyed.None", r)
}

func (o Ordered) check() error {
	if o.OnFailure > Skip {
		return validate.Errorf("on failure", "is %d, want Block, Park or Skip", uint8(o.OnFailure))
	}
	return checkKey("ordered key", o.Key)
}

func (l Limited) check() error {
	switch {
	case l.MaxRunning < 0 || l.MaxRunning > unlimited:
		return validate.Errorf("max running", "is %d, it must be between 0 and %d", l.MaxRunning, unlimited)
	case l.Rate != 0 && !(l.Rate >= MinRate && l.Rate <= MaxRate):
		return validate.Errorf("rate", "is %v, it must be 0, or %v to %v a second", l.Rate, MinRate, MaxRate)
	case l.MaxRunning == 0 && l.Rate == 0:
		return validate.Errorf("limited key", "has no limit: set MaxRunning, Rate or both")
	case l.Burst < 0 || l.Burst > unlimited:
		return validate.Errorf("burst", "is %d, it must be between 0 and %d", l.Burst, unlimited)
	case l.Burst > 0 && l.Rate == 0:
		return validate.Errorf("burst", "needs a rate")
	}
	return checkKey("limited key", l.Key)
}

func (None) check() error { return nil }

func checkKey(field, key string) error {
	if key == "" {
		return validate.Errorf(field, "is empty")
	}
	return cmp.Or(validate.Size(field, len(key), MaxKey), validate.Text(field, key))
}

// Lock takes the locks of the ordered keys among rules before their rows are inserted, in the same order in every
// transaction. Two transactions that write rows of several keys then cannot deadlock on the keys of one call. For one
// key it does nothing: the insert takes the lock. Of more keys than a transaction may write it takes none: the insert
// then refuses them with a message.
func Lock(ctx context.Context, tx workqueue.Tx, table *workqueue.Table, rules ...Rule) error {
	var keys []string
	for _, r := range rules {
		if o, is := r.(Ordered); is && o.Key != "" && !slices.Contains(keys[max(0, len(keys)-1):], o.Key) {
			keys = append(keys, o.Key)
		}
	}
	if len(keys) < 2 {
		return nil
	}
	_, err := table.In(tx).Exec(ctx, sqltext.LockKeys(newView(table.Spec()).WriterLock("u.key")), keys)
	return err
}

// Unblock lets the rows behind dead letters continue, as if the policy of the dead letters had been [Skip], and returns
// the ids that it changed. Rows that were parked stay dead letters until they are redriven.
func Unblock(ctx context.Context, tx workqueue.Tx, table *workqueue.Table, ids ...uuid.UUID) ([]uuid.UUID, error) {
	var changed []uuid.UUID
	err := table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var id uuid.UUID
		err := scan(&id)
		changed = append(changed, id)
		return err
	}, "SELECT u.id FROM "+newView(table.Spec()).Named("unblock")+
		"($1::pg_catalog.uuid[]) AS u WHERE u.changed ORDER BY u.place", ids)
	return changed, err
}
