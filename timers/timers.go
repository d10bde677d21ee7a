package timers

import (
	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// Timers are the timers of one table, with the schedules that create them. They hold no connection and are safe for
// concurrent use. Open them once and keep them.
type Timers struct {
	table      *workqueue.Table
	statements statements
	codec      codec.Codec
	schedules  *Schedules
}

// Open validates the options. It does not access the database.
func Open(o Options) (*Timers, error) {
	spec := o.spec()
	if err := input.LimitPayload(spec, "payload", "max payload", o.MaxPayload); err != nil {
		return nil, err
	}
	table, err := workqueue.Open(spec, o.Telemetry)
	if err != nil {
		return nil, err
	}
	t := &Timers{table: table, statements: render(table.Spec()), codec: o.Codec}
	if t.codec == nil {
		t.codec = codec.JSON{}
	}
	if t.schedules, err = openSchedules(t, o); err != nil {
		return nil, err
	}
	return t, nil
}

// Table is the timers' table, for low-level operations and statistics. That of the schedules is [Schedules.Table].
func (t *Timers) Table() *workqueue.Table { return t.table }

// Tables returns all tables of the timers, including that of the schedules, for the reaper.
func (t *Timers) Tables() []*workqueue.Table { return []*workqueue.Table{t.table, t.schedules.Table()} }

// Schedules returns the schedules whose occurrences are these timers.
func (t *Timers) Schedules() *Schedules { return t.schedules }
