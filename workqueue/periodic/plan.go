package periodic

import (
	"context"
	"time"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// MaxLead bounds [Options].Lead.
const MaxLead = time.Hour

// Options configure a [Plan]. Table and Insert have to be set.
type Options struct {
	// Schema holds the table. Default: [workqueue.DefaultSchema].
	Schema string

	// Table is the table of schedules, which [DDL] creates.
	Table string

	// Insert writes occurrences in tx and returns how many it wrote. There is at least one, and all have the same
	// schedule and Template. It skips those that exist already, by their Key or ID. If another row keeps one from being
	// written, it sets that one's Duplicate and ID. An error undoes the decision, which is made again after a backoff.
	Insert func(ctx context.Context, tx workqueue.Tx, occurrences []Occurrence) (int, error)

	// MarkExisting sets Duplicate of those of the occurrences that have a row, for [Plan.PreviewBackfill]. Optional.
	MarkExisting func(ctx context.Context, tx workqueue.Tx, occurrences []Occurrence) error

	// Live counts the occurrences of a schedule that have not ended. It may stop at the first one. It returns -1 if
	// row-level security may hide some from the role: a scheduler then leaves the schedule to others. Without Live,
	// schedules whose occurrences must not overlap are refused.
	Live func(ctx context.Context, tx workqueue.Tx, schedule string) (int, error)

	// Lead is how long before their nominal time occurrences are written, so that they are late only by the latency of
	// the domain's workers. It has no effect on schedules whose occurrences must not overlap, because whether they
	// overlap is known only at the nominal time. Default 0; at most [MaxLead].
	//
	// Occurrences that were written ahead stay when a schedule is changed, paused or deleted.
	Lead time.Duration

	// Telemetry receives spans, metrics, logs and events.
	Telemetry workqueue.Telemetry
}

func (o Options) validate() error {
	switch {
	case o.Insert == nil:
		return validate.Errorf("insert", "is nil: a plan has to write its occurrences somewhere")
	case o.Lead < 0 || o.Lead > MaxLead:
		return validate.Errorf("lead", "is %v, it must be between 0 and %v", o.Lead, MaxLead)
	}
	return nil
}

// A Plan holds the schedules of one domain. It has no connection and is safe for concurrent use; open it once and keep
// it.
type Plan struct {
	table      *workqueue.Table
	statements statements
	options    Options
}

// Open validates the options. It does not touch the database.
func Open(o Options) (*Plan, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	table, err := workqueue.Open(Spec(o.Schema, o.Table), o.Telemetry)
	if err != nil {
		return nil, err
	}
	return &Plan{table: table, statements: render(table.Spec()), options: o}, nil
}

// Table is the plan's table, for the low-level operations, the reaper and statistics.
func (p *Plan) Table() *workqueue.Table { return p.table }
