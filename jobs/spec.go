package jobs

import (
	"slices"

	"github.com/txwork/txwork/internal/input"
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

// ownColumns are the columns of jobs, in the order of [record].values and, except for the internal ones, of
// [Delivery].fields.
var ownColumns = []workqueue.Column{
	{Name: "kind", Type: "text", NotNull: true},
	{Name: "queue", Type: "text", NotNull: true, Written: &writtenQueue},
	{Name: "priority", Type: "smallint", NotNull: true, Written: &writtenPriority},
	{Name: "args", Type: "bytea", NotNull: true},
	// NULL once the job has entered a state that does not hold the key
	{Name: "unique_key", Type: "text", Internal: true, Written: &writtenUniqueKey},
	// the key of a job that no longer holds it and has not succeeded: a redrive takes it again
	{Name: "freed_key", Type: "text", Internal: true},
	// the ended states that hold the key: a bit for each; 2 is a key that is free when the job starts
	{Name: "unique_states", Type: "smallint", Internal: true, Written: &writtenUniqueStates},
	{Name: "schedule", Type: "text", Written: &workqueue.Written{}}, // the schedule that wrote the job
	// the job counts against its queue's limit, see table jobs_slot
	{Name: "slot", Type: "boolean", Internal: true},
	// true: steps are recorded; false: they are void; NULL: none
	{Name: "trail", Type: "boolean", Written: &workqueue.Written{}},
	{Name: "progress", Type: "smallint", Internal: true}, // per cent
	{Name: "progress_note", Type: "text", Internal: true},
	{Name: "output", Type: "bytea", Internal: true},
	join.Column,
}

// Spec returns the Spec of the jobs' table in a schema, with every setting at its default, as txwork's own migrations
// create it. An empty schema means [workqueue.DefaultSchema].
func Spec(schema string) workqueue.Spec {
	return workqueue.Spec{
		Schema:    schema,
		Table:     tableName,
		Columns:   slices.Concat(ownColumns, keyed.Columns()),
		Lanes:     []string{"queue", "priority"},
		Admission: "queue",
		Labels:    []string{"kind", "queue"},
		Unique:    []string{"unique_key"},
		Sweeps:    []string{slotSweep, join.Sweep, keyed.SweepSuffix},
		Folds:     []workqueue.Fold{join.Fold, keyed.Fold},
		KeyColumn: keyed.KeyColumn,

		FreedColumn: "freed_key",

		Writer: writer,

		MaxAttempts: DefaultMaxAttempts,
		MaxLost:     workqueue.DefaultMaxLost,

		PriorityColumn: "priority",
	}
}

// A record is the domain columns of a new job.
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

// values returns the columns in the order of the Spec.
func (r record) values() []any {
	args := r.args
	if args == nil {
		args = []byte{} // a nil slice would be NULL
	}
	values := make([]any, len(ownColumns)+len(keyColumns))
	copy(values, []any{
		r.kind, r.queue, int64(r.priority), args, input.Optional(r.uniqueKey), nil,
		input.Optional(int64(r.uniqueStates)), input.Optional(r.schedule),
		nil, nil, nil, nil, nil, input.Optional(r.joined),
	})
	if r.byKey != nil {
		copy(values[len(ownColumns):], keyed.Values(r.byKey))
	}
	return values
}

var keyColumns = keyed.Columns()
