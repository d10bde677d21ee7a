package inbox

import "github.com/txwork/txwork/workqueue"

// stripSweep names the sweep that turns processed rows into tombstones, the function <table>_strip.
const stripSweep = "strip"

// Spec describes the inbox's table in a schema. Txwork's own migrations create this table. An empty schema is
// [workqueue.DefaultSchema].
//
// Its Retention is the longest that the core accepts, ten years: a program that knows only the Spec does not know the
// dedup window, so it must not delete keys, which may still be needed. Give a reaper [Inbox.Table] instead, whose
// Retention is the window.
func Spec(schema string) workqueue.Spec {
	return workqueue.Spec{
		Schema:    schema,
		Table:     "inbox",
		Columns:   workqueue.ColumnsOf((*Delivery).columns),
		Lanes:     []string{"consumer"},
		Topics:    workqueue.Topics{Columns: []string{"topic", "source"}, Lane: "consumer"},
		Labels:    []string{"consumer", "topic"},
		Unique:    []string{"consumer", "source", "message_id"},
		Retention: maxWindow,
		Sweeps:    []string{stripSweep},
		Writer:    writer,

		MaxHeaders:  MaxHeaders,
		MaxAttempts: DefaultMaxAttempts,
		MaxLost:     workqueue.DefaultMaxLost,
	}
}

// A record is what is written of a message. Its payload is nil only in a tombstone.
type record struct {
	consumer, source, messageID, topic string
	hash, payload                      []byte
}

// columns lists the columns of a message, which a claim stores in a delivery. Handlers do not need the hash.
func columns(c *workqueue.Columns, r *record, d *Delivery) {
	part := workqueue.Bound{Min: 1, Max: MaxKeyPart, Stored: true}
	c.Split(workqueue.Column{Name: "consumer", Type: "text", NotNull: true, Bound: part}, &r.consumer, &d.Consumer)
	c.Split(workqueue.Column{Name: "source", Type: "text", NotNull: true, Bound: part}, &r.source, &d.Source)
	c.Split(workqueue.Column{Name: "message_id", Type: "text", NotNull: true, Bound: part}, &r.messageID, &d.MessageID)
	c.Split(workqueue.Column{Name: "body_hash", Type: "bytea", Written: &writtenHash,
		Bound: workqueue.Bound{Min: hashSize, Max: hashSize, Stored: true}}, &r.hash, nil)
	c.Split(workqueue.Column{Name: "topic", Type: "text", Bound: workqueue.Bound{Max: MaxTopic},
		Written: &writtenTopic}, &r.topic, &d.Topic)
	c.Split(workqueue.Column{Name: "payload", Type: "bytea", Bound: workqueue.Bound{Max: DefaultMaxPayload},
		Written: &writtenPayload}, &r.payload, &d.Payload)
}

// What is not used when rows are written, and when they are read: only the addresses of its fields are taken.
var (
	noDelivery Delivery
	noRecord   record
)

func (r *record) columns(c *workqueue.Columns)   { columns(c, r, &noDelivery) }
func (d *Delivery) columns(c *workqueue.Columns) { columns(c, &noRecord, d) }

func (r record) values() []any { return workqueue.ValuesOf(&r, (*record).columns) }

func (m Message) values() []any {
	payload := m.Payload
	if payload == nil {
		payload = []byte{} // a nil slice would be NULL, as in a tombstone
	}
	return record{m.Consumer, m.Source, m.MessageID, m.topic(), m.hash(), payload}.values()
}
