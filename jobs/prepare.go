package jobs

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/internal/payload"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/validate"
)

// prepared is a job that has been validated.
type prepared struct {
	index  int // of the job in the call
	row    workqueue.NewRow
	args   Args
	delay  time.Duration
	unique *Unique
	record record
}

// A batch is the jobs of a call that have been validated.
type batch struct {
	list            []prepared
	ids             map[uuid.UUID]int // the indexes of the jobs
	rules           []keyed.Rule
	delayed, unique bool // some job is
}

// prepare validates all jobs of a call before any is written.
func (c *Client) prepare(ctx context.Context, inserts []Insert) (batch, error) {
	b := batch{list: make([]prepared, len(inserts)), ids: make(map[uuid.UUID]int, len(inserts))}
	for i, insert := range inserts {
		err := c.prepareOne(ctx, insert, &b.list[i])
		if err == nil {
			err = b.add(i)
		}
		if err != nil {
			return batch{}, &workqueue.ItemError{Item: "job", Index: i, Count: len(inserts), Err: err}
		}
	}
	return b, nil
}

// add notes what a job, which has been validated, means for the call. It refuses an id that an earlier job has.
func (b *batch) add(i int) error {
	p := &b.list[i]
	if first, taken := b.ids[p.row.ID]; taken {
		return validate.Errorf("ID", "%s is that of job %d, too", p.row.ID, first+1)
	}
	b.ids[p.row.ID], p.index = i, i
	if p.record.byKey != nil {
		b.rules = append(b.rules, p.record.byKey)
	}
	b.delayed, b.unique = b.delayed || p.delay > 0, b.unique || p.unique != nil
	return nil
}

// prepareOne prepares into p, which is a part of the list, so that no job is allocated by itself.
func (c *Client) prepareOne(ctx context.Context, i Insert, p *prepared) error {
	if contain.IsNil(i.Args) {
		return validate.Errorf("args", "are nil")
	}
	name := i.Args.Kind()
	k, err := c.kind(name, i.Args)
	if err != nil {
		return err
	}
	if i, err = i.withDefaults(k); err != nil {
		return err
	}
	if err := cmp.Or(i.Unique.check(name, i.ByKey != nil), i.checkWhen()); err != nil {
		return err
	}
	*p = prepared{args: i.Args, delay: i.Delay, unique: i.Unique}
	if p.record, err = c.record(ctx, name, i); err != nil {
		return err
	}
	p.row = workqueue.NewRow{
		ID: i.ID, DueAt: i.ScheduledAt, MaxAttempts: i.MaxAttempts, Retry: i.Retry, Headers: i.Headers,
		Waiting: i.waiting, Once: i.once, Values: workqueue.ValuesOf(&p.record, (*record).columns),
	}
	return c.table.Check(&p.row)
}

// kind returns the settings of a job's kind. A client with a registry refuses kinds that it does not hold. A job of a
// schedule has the settings with which the schedule was put, which another program may have done: there is nothing to
// add to them here.
func (c *Client) kind(name string, args Args) (*kind, error) {
	if _, ok := args.(*scheduledArgs); ok {
		return unregistered, nil
	}
	k := c.registry.find(name)
	if k != unregistered || c.options.Registry == nil {
		return k, nil
	}
	return nil, &unknownKindError{&workqueue.InvalidError{
		Field:  fmt.Sprintf("kind %q", name),
		Reason: "is not in the client's Registry: Register it, or Declare it if another program handles it",
	}}
}

// An unknownKindError is a [workqueue.InvalidError] that matches [ErrUnknownKind], too.
type unknownKindError struct{ *workqueue.InvalidError }

func (e *unknownKindError) Is(target error) bool { return target == ErrUnknownKind }
func (e *unknownKindError) Unwrap() error        { return e.InvalidError }

// record returns a job's domain columns, with its args encoded.
func (c *Client) record(ctx context.Context, kind string, i Insert) (record, error) {
	r := record{kind: kind, queue: i.Queue, priority: i.Priority, schedule: i.schedule, joined: i.joined,
		byKey: i.ByKey}
	o := owner{i.ID, kind, i.schedule, i.Headers}
	if i.Unique != nil {
		r.uniqueStates = i.Unique.states()
	}
	if fixed, ok := i.Args.(*scheduledArgs); ok {
		r.args, r.uniqueKey = fixed.stored, fixed.uniqueKey
		return r, nil
	}
	var err error
	if r.args, err = c.encode(ctx, o, argsField, i.Args); err != nil || i.Unique == nil {
		return r, err
	}
	plain, err := payload.Plain(c.codec, c.envelope(o, argsField), r.args)
	if err != nil {
		return r, err
	}
	r.uniqueKey, err = i.Unique.text(kind, plain)
	if i.Unique.Until == UntilStartInTurn {
		r.byKey = inTurn(r.uniqueKey)
	}
	return r, err
}

// withDefaults fills in the settings of the kind and the defaults.
func (i Insert) withDefaults(k *kind) (_ Insert, err error) {
	if i.ID == uuid.Nil {
		if i.ID, err = uuid.NewV7(); err != nil {
			return i, err
		}
	}
	i.Queue = cmp.Or(i.Queue, k.queue, DefaultQueue)
	i.Priority = cmp.Or(i.Priority, k.priority, Normal)
	i.MaxAttempts = cmp.Or(i.MaxAttempts, k.maxAttempts)
	i.Retry = cmp.Or(i.Retry, k.retry)
	if i.Unique = cmp.Or(i.Unique, k.unique); i.Unique != nil {
		if i.Unique, err = i.unique(k); err != nil {
			return i, err
		}
	}
	switch {
	case i.ByKey == keyed.Rule(keyed.None{}):
		i.ByKey = nil
	case i.ByKey == nil && k.byKey != nil:
		if i.ByKey, err = k.byKey(i.Args); err != nil {
			return i, err
		}
	}
	return i, keyed.Validate(i.ByKey) // before it is made into columns
}

func checkOptionalName(field, name string, limit int) error {
	if name == "" {
		return nil
	}
	return input.Name(field, name, limit)
}

func checkPriority(p Priority) error {
	if p < 0 || p > Low {
		return validate.Errorf("Priority", "is %d, want High, Normal or Low", p)
	}
	return nil
}

// checkWhen refuses delays out of bounds, and a delay together with ScheduledAt.
func (i Insert) checkWhen() error {
	switch {
	case i.Delay < 0 || i.Delay > MaxDelay:
		return validate.Errorf("Delay", "is %v, it must be between 0 and %v", i.Delay, MaxDelay)
	case i.Delay > 0 && !i.ScheduledAt.IsZero():
		return validate.Errorf("Delay", "is set, and so is ScheduledAt: set one of them")
	}
	return nil
}
