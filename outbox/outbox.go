package outbox

import (
	"cmp"
	"context"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/outbox/internal/log"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/keyed"
)

// An Outbox writes messages into one table, or into a log. It holds no connection and is safe for concurrent use. Open
// it once and keep it.
type Outbox struct {
	table     *workqueue.Table // of a log: its parked messages
	messages  *workqueue.Table // what is written is checked as a row of it; without a log, the table
	log       *log.Writer      // nil: messages are rows
	delivered *workqueue.Table // of a log: its messages as relays tell them
	rows      *Outbox          // of one that moves to a log: as it was before the switch; else nil
	joins     *join.Joins
	codec     codec.Codec
	ordering  Ordering
	onFailure keyed.Policy
}

// Open validates the options. It does not access the database.
func Open(o Options) (*Outbox, error) {
	spec := o.spec()
	err := cmp.Or(input.LimitPayload(spec, "payload", "max payload", o.MaxPayload), o.checkOrdering(), o.checkStorage())
	if err != nil {
		return nil, err
	}
	box := &Outbox{codec: o.Codec, ordering: o.Ordering, onFailure: o.OnFailure}
	if box.codec == nil {
		box.codec = codec.JSON{}
	}
	if o.Storage == MoveToLog {
		o.Storage = Rows
		if box.rows, err = Open(o); err != nil {
			return nil, err
		}
		o.Storage = Log
	}
	if o.Storage == Log {
		if err := box.openLog(o, spec); err != nil {
			return nil, err
		}
		return box, nil
	}
	if box.table, err = workqueue.Open(spec, o.Telemetry); err != nil {
		return nil, err
	}
	if box.joins, err = join.Open(box.table); err != nil {
		return nil, err
	}
	box.messages = box.table
	return box, nil
}

// DDL is like the function [DDL], with the options of this Outbox. For a log it is like [LogDDL], which depends on no
// option but the schema.
func (o *Outbox) DDL() (up, down string, err error) {
	if o.log != nil {
		return LogDDL(o.table.Spec().Schema)
	}
	return ddl(o.table.Spec())
}

// Table is the outbox's table, for low-level operations and statistics. That of a log has the messages that were parked
// because they, or messages before them in their key, failed, also with [MoveToLog]: the table of rows is then the
// first of [Outbox.Tables].
func (o *Outbox) Table() *workqueue.Table { return o.table }

// Tables returns all tables of the outbox, for the reaper: with [MoveToLog] that of rows and that of parked messages,
// else one.
func (o *Outbox) Tables() []*workqueue.Table {
	if o.rows != nil {
		return append(o.rows.Tables(), o.table)
	}
	return []*workqueue.Table{o.table}
}

// Unblock lets the keys of failed messages continue without them, as if OnFailure had been [keyed.Skip], if the
// ordering is [PerKey]. It returns the ids that it changed. The messages stay failed.
//
// With [MoveToLog] a failed message may be a row, or parked. A row that is parked keeps its id.
func (o *Outbox) Unblock(ctx context.Context, tx workqueue.Tx, ids ...uuid.UUID) (all []uuid.UUID, err error) {
	for _, table := range o.Tables() { // in the order in which they move
		changed, err := keyed.Unblock(ctx, tx, table, ids...)
		if err != nil {
			return nil, err
		}
		all = append(all, changed...)
	}
	return all, nil
}
