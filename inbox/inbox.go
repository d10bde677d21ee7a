package inbox

import (
	"time"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// An Inbox receives messages into one table. It holds no connection and is safe for concurrent use. Open it once and
// keep it.
type Inbox struct {
	table      *workqueue.Table
	statements statements
	covers     func(lease time.Duration) error // whether the dedup window covers the retries of workers with this lease
	retention  time.Duration
	codec      codec.Codec
}

// Open validates the options. It does not access the database.
func Open(o Options) (*Inbox, error) {
	if err := o.checkGiven(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	spec := o.spec()
	if err := input.LimitPayload(spec, "payload", "max payload", o.MaxPayload); err != nil {
		return nil, err
	}
	table, err := workqueue.Open(spec, o.Telemetry)
	if err != nil {
		return nil, err
	}
	if err := o.validate(table.Spec()); err != nil {
		return nil, err
	}
	return &Inbox{
		table:      table,
		statements: renderStatements(table.Spec()),
		covers:     func(lease time.Duration) error { return o.checkWindow(table.Spec(), lease) },
		retention:  o.Retention,
		codec:      o.Codec,
	}, nil
}

// Table is the inbox's table, for low-level operations, the reaper and statistics. Its Retention is the dedup window,
// so a reaper deletes tombstones when the window ends.
func (b *Inbox) Table() *workqueue.Table { return b.table }

// Tables returns all tables of the inbox, for the reaper.
func (b *Inbox) Tables() []*workqueue.Table { return []*workqueue.Table{b.table} }

// DDL renders the statements that create this inbox's table, with its options as the defaults of its SQL
// functions, and those that drop it, for a migration of your own. The schema has to exist.
func (b *Inbox) DDL() (up, down string, err error) { return render(b.table.Spec(), b.retention) }
