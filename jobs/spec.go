package jobs

import (
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/keyed"
)

// Names of the tables and the sweep of jobs.
const (
	tableName     = "jobs"
	scheduleTable = "jobs_schedule"
	slotSweep     = "slot_sweep" // the function <table>_slot_sweep
)

// Spec returns the Spec of the jobs' table in a schema, with every setting at its default, as txwork's own migrations
// create it. An empty schema means [workqueue.DefaultSchema].
func Spec(schema string) workqueue.Spec {
	return workqueue.Spec{
		Schema:    schema,
		Table:     tableName,
		Columns:   workqueue.ColumnsOf((*Delivery).columns),
		Lanes:     []string{"queue", "priority"},
		Admission: "queue",
		Labels:    []string{"kind", "queue"},
		Unique:    []string{"unique_key"},
		Sweeps:    []string{slotSweep, join.Sweep, keyed.SweepSuffix},
		Folds:     []workqueue.Fold{join.Fold, keyed.Fold},
		KeyColumn: keyed.KeyColumn,

		FreedColumn: "freed_key",
		KeptColumn:  "unique_states",

		Writer: writer(),

		MaxHeaders:  MaxHeaders,
		MaxAttempts: DefaultMaxAttempts,
		MaxLost:     workqueue.DefaultMaxLost,

		PriorityColumn: "priority",
	}
}

// A record is what is written of a new job.
type record struct {
	kind, queue  string
	priority     Priority
	args         []byte
	uniqueKey    string
	uniqueStates States
	schedule     string
	joined       bool
	byKey        keyed.Rule
}

// columns lists the columns of a job, which a claim stores in a delivery.
func columns(c *workqueue.Columns, r *record, d *Delivery) {
	c.Split(workqueue.Column{Name: "kind", Type: "text", NotNull: true,
		Bound: workqueue.Bound{Min: 1, Max: MaxKind, Stored: true}}, &r.kind, &d.Kind)
	c.Split(workqueue.Column{Name: "queue", Type: "text", NotNull: true, Written: &writtenQueue,
		Bound: workqueue.Bound{Min: 1, Max: MaxQueue, Stored: true}}, &r.queue, &d.Queue)
	// a job with a priority that no worker serves would never be claimed
	c.Split(workqueue.Column{Name: "priority", Type: "smallint", NotNull: true, Written: &writtenPriority,
		Bound: workqueue.Bound{Min: int64(High), Max: int64(Low), Stored: true}}, int64(r.priority),
		(*int16)(&d.Priority))
	c.Split(workqueue.Column{Name: "args", Type: "bytea", NotNull: true,
		Bound: workqueue.Bound{Max: DefaultMaxArgs}}, &r.args, &d.args)
	// NULL once the job has entered a state that does not hold the key
	c.Split(workqueue.Column{Name: "unique_key", Type: "text", Internal: true, Written: &writtenUniqueKey},
		&r.uniqueKey, nil)
	// the key of a job that no longer holds it and has not succeeded: a redrive takes it again
	c.Field(workqueue.Column{Name: "freed_key", Type: "text", Internal: true}, nil)
	// the ended states that hold the key: a bit for each; 2 is a key that is free when the job starts
	c.Split(workqueue.Column{Name: "unique_states", Type: "smallint", Internal: true, Written: &writtenUniqueStates},
		postgres.OrNull(int64(r.uniqueStates)), nil)
	// the schedule that wrote the job
	c.Split(workqueue.Column{Name: "schedule", Type: "text", Written: &unwritten}, &r.schedule, &d.Schedule)
	// the job counts against its queue's limit, see table jobs_slot
	c.Field(workqueue.Column{Name: "slot", Type: "boolean", Internal: true}, nil)
	// true: steps are recorded; false: they are void; NULL: none
	c.Split(workqueue.Column{Name: "trail", Type: "boolean", Written: &unwritten}, nil, &d.trail)
	c.Field(workqueue.Column{Name: "progress", Type: "smallint", Internal: true,
		Bound: workqueue.Bound{Max: 100, Stored: true}}, nil) // per cent
	c.Field(workqueue.Column{Name: "progress_note", Type: "text", Internal: true}, nil)
	c.Field(workqueue.Column{Name: "output", Type: "bytea", Internal: true}, nil)
	c.Split(join.Column, postgres.OrNull(r.joined), nil)
	keyed.Columns(c, r.byKey)
}

// What is not used when rows are written, and when they are read: only the addresses of its fields are taken.
var (
	noDelivery Delivery
	noRecord   record
)

func (r *record) columns(c *workqueue.Columns)   { columns(c, r, &noDelivery) }
func (d *Delivery) columns(c *workqueue.Columns) { columns(c, &noRecord, d) }
