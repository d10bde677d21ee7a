package outbox

import (
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/keyed"
)

// Spec describes the outbox's table in a schema, with every setting at its default. Txwork's own migrations create this
// table. An empty schema is [workqueue.DefaultSchema].
func Spec(schema string) workqueue.Spec {
	return workqueue.Spec{
		Schema:    schema,
		Table:     "outbox",
		Columns:   workqueue.ColumnsOf((*Delivery).columns),
		Topics:    workqueue.Topics{Columns: []string{"topic"}},
		Labels:    []string{"topic"},
		Unique:    []string{"topic", "dedup_key"},
		Sweeps:    []string{keyed.SweepSuffix, join.Sweep},
		Folds:     []workqueue.Fold{join.Fold, keyed.Fold},
		KeyColumn: keyed.KeyColumn,

		MaxHeaders:  MaxHeaders,
		MaxAttempts: DefaultMaxAttempts,
		MaxLost:     workqueue.DefaultMaxLost,
	}
}

// DDL renders the migration of the outbox in a schema: the statements that create its table, with everything that
// ordering and joins need, and those that drop it. Txwork's own migrations are this text.
func DDL(schema string) (up, down string, err error) { return ddl(Spec(schema)) }

func ddl(spec workqueue.Spec) (up, down string, err error) {
	for _, part := range []func(workqueue.Spec) (string, string, error){workqueue.Spec.DDL, keyed.DDL, join.DDL} {
		partUp, partDown, err := part(spec)
		if err != nil {
			return "", "", err
		}
		up, down = up+partUp+"\n", partDown+"\n"+down
	}
	return up, down, nil
}

// A record is what is written of a message.
type record struct {
	*Message
	joined any // true for a step of a join, or nil
	byKey  keyed.Rule
}

var (
	writtenKey      = optionalText("key")
	writtenDedupKey = optionalText("dedup_key")
	ordered         = keyed.OrderedBy("nullif(@key, '')")
)

// columns lists the columns of a message, which a claim stores in a delivery. A new one comes last, see
// docs/domains.md, and log.go has those that a log stores. [workqueue.Table.Check] holds a message to the bounds.
func columns(c *workqueue.Columns, r *record, d *Delivery) {
	c.Split(workqueue.Column{Name: "topic", Type: "text", NotNull: true,
		Bound: workqueue.Bound{Min: 1, Max: MaxTopic}}, &r.Topic, &d.Topic)
	c.Split(workqueue.Column{Name: "key", Type: "text", Bound: workqueue.Bound{Max: MaxKey}, Written: writtenKey},
		&r.Key, &d.Key)
	c.Split(workqueue.Column{Name: "payload", Type: "bytea", NotNull: true,
		Bound: workqueue.Bound{Max: DefaultMaxPayload}}, &r.Payload, &d.Payload)
	c.Split(workqueue.Column{Name: "dedup_key", Type: "text", Bound: workqueue.Bound{Max: MaxDedupKey},
		Written: writtenDedupKey}, &r.DedupKey, &d.DedupKey)
	c.Split(join.Column, r.joined, nil)
	ordered(c, r.byKey)
}

// What is not used when rows are written, and when they are read: only the addresses of its fields are taken.
var (
	noDelivery Delivery
	noRecord   = record{Message: new(Message)}
)

func (r *record) columns(c *workqueue.Columns)   { columns(c, r, &noDelivery) }
func (d *Delivery) columns(c *workqueue.Columns) { columns(c, &noRecord, d) }
