package jobs

import (
	"cmp"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// prepare validates the jobs of a call. The core would refuse the same, but it sees one chunk of a call at a
// time, and here nothing has been written yet.
func (c *Client) prepare(inserts []Insert) ([]prepared, error) {
	list := make([]prepared, len(inserts))
	seen := make(map[uuid.UUID]int, len(inserts))
	for i, insert := range inserts {
		p, err := c.prepareOne(insert)
		if err == nil {
			err = checkID(seen, i, p.row.ID)
		}
		if err != nil {
			return nil, &JobError{Index: i, Count: len(inserts), Err: err}
		}
		list[i] = p
	}
	return list, nil
}

func (c *Client) prepareOne(i Insert) (prepared, error) {
	if isNil(i.Args) {
		return prepared{}, workqueue.Invalid("args", "are nil")
	}
	name := i.Args.Kind()
	if err := checkName("kind", name, MaxKind); err != nil {
		return prepared{}, err
	}
	i, err := i.withDefaults(c.registry.find(name))
	if err != nil {
		return prepared{}, err
	}
	p := prepared{kind: name, delay: i.Delay, unique: i.Unique, gate: i.Gate}
	if p.plain, err = marshal(i.Args); err != nil {
		return prepared{}, workqueue.Invalid("args", "of kind %q cannot be encoded: %v", name, err)
	}
	p.record = i.record(name, p.plain)
	if p.record.args, err = c.seal(Binding{ID: i.ID, Kind: name, Field: "args"}, p.plain); err != nil {
		return prepared{}, workqueue.Invalid("args", "of kind %q cannot be sealed: %v", name, err)
	}
	p.row = i.row(p.record)
	return p, c.check(i, p)
}

// withDefaults fills in what the kind says.
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
	i.Unique = cmp.Or(i.Unique, k.unique)
	if i.occurrence != "" {
		i.Unique = nil // it is unique by its schedule
	}
	i.Gate, err = i.gate(k)
	return i, err
}

func (c *Client) check(i Insert, p prepared) error {
	return workqueue.FirstError(
		checkName("queue", i.Queue, MaxQueue),
		checkPriority(i.Priority),
		i.checkWhen(),
		i.Unique.checkKey(),
		i.Gate.Validate(),
		workqueue.CheckSize("args", len(p.record.args), c.maxArgs),
		workqueue.CheckSize("headers", headerSize(i.Headers), MaxHeaders),
		c.table.Check(p.row),
	)
}

func (i Insert) record(kind string, plain []byte) record {
	r := record{kind: kind, queue: i.Queue, priority: i.Priority, schedule: i.schedule, joined: i.joined, gate: i.Gate}
	switch {
	case i.occurrence != "":
		r.uniqueKey, r.uniqueStates = occurrence(i.occurrence), WhileDone|WhileFailed
	case i.Unique != nil:
		r.uniqueKey, r.uniqueStates = i.Unique.text(kind, plain), i.Unique.While
	}
	return r
}

func (i Insert) row(r record) workqueue.NewRow {
	row := workqueue.NewRow{
		ID: i.ID, DueAt: i.RunAt, MaxAttempts: i.MaxAttempts, Headers: i.Headers, Waiting: i.waiting, Values: r.values(),
	}
	if i.Retry != (workqueue.Retry{}) {
		row.Retry = &i.Retry
	}
	return row
}
