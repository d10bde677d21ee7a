package periodic

import (
	"context"
	"time"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/txwork/txwork/workqueue"
)

// MaxLead bounds [Options].Lead.
const MaxLead = time.Hour

// Options configure a [Plan]. Table and Insert have to be set.
type Options struct {
	// Schema holds the table. Default: [workqueue.DefaultSchema].
	Schema string

	// Table is the table of schedules, made by [DDL].
	Table string

	// Insert writes occurrences, at least one and all of one schedule and Template, in tx and returns how many it
	// wrote. It leaves out those whose key is there already. An error undoes the decision; it is made again after a
	// backoff.
	Insert func(ctx context.Context, tx workqueue.Tx, occurrences []Occurrence) (int, error)

	// Live counts the occurrences of a schedule that have not ended; it may stop at the first. Default: none, and then
	// schedules whose occurrences must not overlap are refused.
	Live func(ctx context.Context, tx workqueue.Tx, schedule string) (int, error)

	// Lead is how long before their nominal time occurrences are written, so that they are late only by what
	// the domain's own workers need. It has no effect on schedules whose occurrences must not overlap: whether
	// they do is known at the nominal time. Default 0; at most [MaxLead].
	//
	// What was written ahead is not taken back when a schedule is changed, paused or deleted.
	Lead time.Duration

	// Telemetry says where spans, metrics, logs and events go.
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

// A Plan is the schedules of one domain. It holds no connection and is safe for concurrent use; open it once
// and keep it.
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
