package topics

import (
	"context"
	"fmt"
	"time"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// A Key names a topic of a table, see [workqueue.Topics].
type Key struct {
	// Lane is the value of the lane that has topics of its own, such as the consumer of an inbox. It is empty if the
	// table has no such lane.
	Lane string

	Topic string
}

func (k Key) check(table *workqueue.Table) error {
	t := table.Spec().Topics
	switch {
	case len(t.Columns) == 0:
		return validate.Errorf("table", "%s has no topics", table.Name())
	case (t.Lane == "") != (k.Lane == ""):
		return validate.Errorf("lane", "is %q: the topics of %s belong to a %q", k.Lane, table.Name(), t.Lane)
	}
	return Check(k.Topic)
}

func (k Key) args() []any {
	if k.Lane == "" {
		return []any{k.Topic}
	}
	return []any{k.Lane, k.Topic}
}

// Pause stops claims of a topic's rows: at once for claims that begin after tx has committed and know of it, and about
// half a second later for all others. Rows in progress go on, and rows can be enqueued. Every claim obeys, also those
// of [workqueue.Queue] and of SQL functions. It reports whether the topic was not paused before.
//
// Claims set the rows of a paused topic aside: they wait where claims of other topics do not read them.
func Pause(ctx context.Context, tx workqueue.Tx, table *workqueue.Table, k Key) (changed bool, err error) {
	return change(ctx, tx, table, "pause", k)
}

// Resume ends a pause. Workers go on as soon as tx has committed, with the rows of the topic in the order in which they
// are due. It reports whether the topic was paused.
func Resume(ctx context.Context, tx workqueue.Tx, table *workqueue.Table, k Key) (changed bool, err error) {
	return change(ctx, tx, table, "resume", k)
}

func change(ctx context.Context, tx workqueue.Tx, table *workqueue.Table, verb string, k Key) (changed bool,
	err error) {
	if err := k.check(table); err != nil {
		return false, err
	}
	params := "$1::text"
	if k.Lane != "" {
		params += ", $2::text"
	}
	err = table.In(tx).Query(ctx, func(scan func(...any) error) error { return scan(&changed) },
		"SELECT "+function(table, verb)+"("+params+")", k.args()...)
	return changed, err
}

// MaxCounted bounds the rows that [List] counts, of all topics together: of each an equal part, and one at least. It
// also bounds how many topics that are paused or rest, and how many with rows aside, it returns.
const MaxCounted = 10_000

// An Info is the state of a topic.
type Info struct {
	Key
	Paused    bool
	ChangedAt time.Time // when it was paused or resumed last; zero if it never was

	// Aside is how many rows are set aside, because the topic is or was paused, or workers have no room for more of its
	// rows. If More is set, there may be more of them, see [MaxCounted].
	Aside int64
	More  bool

	// Oldest is how long the first of them has been due.
	Oldest time.Duration

	// UnavailableSince is when a handler said that the destination of the topic is unavailable, see
	// [workqueue.Unavailable], and Cause what it said last. A message probes the destination after RestsUntil; if that
	// has passed, it may be doing so now. Both times are zero if the destination is not known to be unavailable.
	UnavailableSince, RestsUntil time.Time
	Cause                        string
}

// List reads the topics that are paused, rest or have rows aside, in the byte order of their lanes and names. Its cost
// grows with the number of such topics.
func List(ctx context.Context, tx workqueue.Tx, table *workqueue.Table) ([]Info, error) {
	if len(table.Spec().Topics.Columns) == 0 {
		return nil, validate.Errorf("table", "%s has no topics", table.Name())
	}
	var list []Info
	err := table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var i Info
		var changed, since, until *time.Time
		var cause *string
		var seconds float64
		err := scan(&i.Lane, &i.Topic, &i.Paused, &changed, &i.Aside, &i.More, &seconds, &since, &until, &cause)
		if changed != nil {
			i.ChangedAt = *changed
		}
		if since != nil && until != nil && cause != nil {
			i.UnavailableSince, i.RestsUntil, i.Cause = *since, *until, *cause
		}
		i.Oldest = postgres.Seconds(seconds)
		list = append(list, i)
		return err
	}, "SELECT * FROM "+function(table, "topics")+"($1::integer)", MaxCounted)
	return list, err
}

// function is the qualified name of one of the table's functions.
func function(table *workqueue.Table, suffix string) string {
	s := table.Spec()
	return fmt.Sprintf("%q.%q", s.Schema, s.Table+"_"+suffix)
}
