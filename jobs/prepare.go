package jobs

import (
	"cmp"
	"context"
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

// size is roughly how many bytes the job adds to a statement.
func (p prepared) size() int { return len(p.record.args) + input.HeaderSize(p.row.Headers) }

// prepare validates all jobs of a call before any is written. The core refuses invalid rows, too, but it sees one chunk
// of the call at a time, when others may have been written.
func (c *Client) prepare(ctx context.Context, inserts []Insert) ([]prepared, error) {
	list := make([]prepared, len(inserts))
	seen := make(map[uuid.UUID]int, len(inserts))
	for i, insert := range inserts {
		p := &list[i]
		err := c.prepareOne(ctx, insert, p)
		if err == nil {
			err = checkID(seen, i, p.row.ID)
		}
		if err != nil {
			return nil, &workqueue.ItemError{Item: "job", Index: i, Count: len(inserts), Err: err}
		}
		p.index = i
	}
	return list, nil
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
	*p = prepared{args: i.Args, delay: i.Delay, unique: i.Unique}
	if p.record, err = c.record(ctx, name, i); err != nil {
		return err
	}
	p.row = workqueue.NewRow{
		ID: i.ID, DueAt: i.ScheduledAt, MaxAttempts: i.MaxAttempts, Retry: i.Retry, Headers: i.Headers,
		Waiting: i.waiting, Once: i.once, Values: workqueue.ValuesOf(&p.record, (*record).columns),
	}
	return cmp.Or(i.checkWhen(), i.Unique.check(), i.Unique.checkKind(name),
		validate.Size("Headers", input.HeaderSize(i.Headers), MaxHeaders), c.table.Check(&p.row))
}

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
	if i.Unique, err = i.unique(k); err != nil {
		return i, err
	}
	if i.ByKey, err = i.byKey(k); err != nil {
		return i, err
	}
	return i, cmp.Or(i.Unique.checkInTurn(i.ByKey != nil), keyed.Validate(i.ByKey)) // before it is made into columns
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

// checkID refuses an id that an earlier job of the same call has.
func checkID(seen map[uuid.UUID]int, i int, id uuid.UUID) error {
	if first, taken := seen[id]; taken {
		return validate.Errorf("ID", "%s is that of job %d, too", id, first+1)
	}
	seen[id] = i
	return nil
}
