package outbox

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// An Outbox writes messages into one table. It holds no connection and is safe for concurrent use; open
// it once and keep it.
type Outbox struct {
	table      *workqueue.Table
	maxPayload int
}

// Open validates the options. It does not touch the database.
func Open(o Options) (*Outbox, error) {
	maxPayload, err := o.maxPayload()
	if err != nil {
		return nil, err
	}
	table, err := workqueue.Open(o.spec(), o.Telemetry)
	if err != nil {
		return nil, err
	}
	return &Outbox{table: table, maxPayload: maxPayload}, nil
}

// Table is the outbox's table, for the low-level operations, the reaper and statistics.
func (o *Outbox) Table() *workqueue.Table { return o.table }

// defaultOutbox is what the package's own Enqueue writes to and what a [Relay] of no Outbox delivers from.
var defaultOutbox = sync.OnceValue(func() *Outbox {
	o, err := Open(Options{})
	if err != nil {
		panic(err) // the zero Options are valid
	}
	return o
})

// Enqueue writes messages to the default outbox, that of the zero [Options], see [Outbox.Enqueue].
func Enqueue(ctx context.Context, tx workqueue.Tx, msgs ...Message) ([]uuid.UUID, error) {
	return defaultOutbox().Enqueue(ctx, tx, msgs...)
}
