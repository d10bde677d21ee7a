package log

import (
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/topics"
)

// Limits of a message, which are those of a row of the outbox.
const (
	MaxTopic    = topics.MaxLength
	MaxKey      = 255
	MaxDedupKey = 255
	MaxPayload  = 1 << 20
)

// version is that of the log's tables and functions, see the comment of its table.
const version = 1

// MaxAttempts is how often a message is attempted, in the log and as a parked row together: as often as an outbox
// attempts a row.
const MaxAttempts = 130

// A Parked is a message that failed, or that is behind such a message in its key, as a row of the core.
type Parked struct {
	Subscription string
	MessageID    uuid.UUID
	Seq          int64
	AppendedAt   time.Time
	Topic        string
	Key          string
	Payload      []byte
}

var ordered = keyed.OrderedBy("nullif(@key, '')")

// List lists the columns of a parked message. Only the function settle writes them.
func (p *Parked) List(c *workqueue.Columns) {
	c.Field(workqueue.Column{Name: "subscription", Type: "text", NotNull: true,
		Bound: workqueue.Bound{Min: 1, Max: maxName}}, &p.Subscription)
	c.Field(workqueue.Column{Name: "message_id", Type: "uuid", NotNull: true}, &p.MessageID)
	c.Field(workqueue.Column{Name: "seq", Type: "bigint", NotNull: true}, &p.Seq)
	c.Field(workqueue.Column{Name: "appended_at", Type: "timestamptz", NotNull: true}, &p.AppendedAt)
	c.Field(workqueue.Column{Name: "topic", Type: "text", NotNull: true,
		Bound: workqueue.Bound{Min: 1, Max: MaxTopic}}, &p.Topic)
	c.Field(workqueue.Column{Name: "key", Type: "text", Bound: workqueue.Bound{Max: MaxKey}}, &p.Key)
	c.Field(workqueue.Column{Name: "payload", Type: "bytea", NotNull: true,
		Bound: workqueue.Bound{Max: MaxPayload}}, &p.Payload)
	ordered(c, nil)
}

// trimSuffix is the sweep that trims the log and ticks: its parked messages are maintained, so the log is, too. It is
// the first, since it does not tick in a transaction that has done something.
const trimSuffix = "trim"

// retainSuffix is the sweep that cuts subscriptions which are behind their retention, and thins out ticks.
const retainSuffix = "retain"

// MessagesSpec describes messages before they are parked, for telemetry: it has the labels of [ParkedSpec].
func MessagesSpec(schema string) workqueue.Spec {
	spec := ParkedSpec(schema)
	spec.Table = name
	return spec
}

// ParkedSpec describes the table of parked messages of the log in a schema. An empty schema is
// [workqueue.DefaultSchema].
func ParkedSpec(schema string) workqueue.Spec {
	return workqueue.Spec{
		Schema:    schema,
		Table:     name + "_parked",
		Columns:   workqueue.ColumnsOf((*Parked).List),
		Lanes:     []string{"subscription"},
		Labels:    []string{"subscription", "topic"},
		Sweeps:    []string{trimSuffix, retainSuffix, keyed.SweepSuffix}, // see trimSuffix
		Folds:     []workqueue.Fold{keyed.Fold},
		KeyColumn: keyed.KeyColumn,
		Writer:    workqueue.Writer{None: true}, // settle writes them
		Companion: workqueue.Companion{Table: name, Version: version, Oldest: version},

		MaxAttempts: MaxAttempts,
		MaxLost:     workqueue.DefaultMaxLost,
	}
}
