package timers

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// ErrNotFound says that there is no timer of that key.
var ErrNotFound = errors.New("no such timer")

// Timers are the timers of one table, and the schedules that make them. They hold no connection and are safe
// for concurrent use; open them once and keep them.
type Timers struct {
	table      *workqueue.Table
	statements statements
	codec      codec.Codec
	maxPayload int
	schedules  *Schedules
}

// Open validates the options. It does not touch the database.
func Open(o Options) (*Timers, error) {
	maxPayload, err := o.maxPayload()
	if err != nil {
		return nil, err
	}
	table, err := workqueue.Open(o.spec(), o.Telemetry)
	if err != nil {
		return nil, err
	}
	t := &Timers{table: table, statements: render(table.Spec()), codec: o.Codec, maxPayload: maxPayload}
	if t.codec == nil {
		t.codec = codec.JSON{}
	}
	if t.schedules, err = openSchedules(t, o); err != nil {
		return nil, err
	}
	return t, nil
}

// Table is the timers' table, for the low-level operations and statistics. That of the schedules
// is [Schedules.Table].
func (t *Timers) Table() *workqueue.Table { return t.table }

// Tables are all tables of the timers, that of the schedules among them, for the reaper.
func (t *Timers) Tables() []*workqueue.Table { return []*workqueue.Table{t.table, t.schedules.Table()} }

// Schedules are the schedules whose occurrences are these timers.
func (t *Timers) Schedules() *Schedules { return t.schedules }

// defaultTimers are those of the package's own functions and of a [Worker] of no Timers.
var defaultTimers = sync.OnceValue(func() *Timers {
	t, err := Open(Options{})
	if err != nil {
		panic(err) // the zero Options are valid
	}
	return t
})

// Set sets timers in the default tables, those of the zero [Options], see [Timers.Set].
func Set(ctx context.Context, tx workqueue.Tx, timers ...Timer) ([]uuid.UUID, error) {
	return defaultTimers().Set(ctx, tx, timers...)
}

// Cancel cancels timers of the default table, see [Timers.Cancel].
func Cancel(ctx context.Context, tx workqueue.Tx, keys ...string) ([]string, error) {
	return defaultTimers().Cancel(ctx, tx, keys...)
}

// Get reads a timer of the default table, see [Timers.Get].
func Get(ctx context.Context, tx workqueue.Tx, key string) (Info, error) {
	return defaultTimers().Get(ctx, tx, key)
}

// List reads timers of the default table, see [Timers.List].
func List(ctx context.Context, tx workqueue.Tx, f Filter) ([]Info, error) {
	return defaultTimers().List(ctx, tx, f)
}

// Put creates and changes schedules in the default tables, see [Schedules.Put].
func Put(ctx context.Context, tx workqueue.Tx, schedules ...Schedule) error {
	return defaultTimers().Schedules().Put(ctx, tx, schedules...)
}
