package outbox

import "github.com/txwork/txwork/workqueue"

// Spec is the outbox's table in a schema, with every setting at its default: what txwork's own migrations
// create. An empty schema is [workqueue.DefaultSchema].
func Spec(schema string) workqueue.Spec {
	return workqueue.Spec{
		Schema: schema,
		Table:  "outbox",
		Columns: []workqueue.Column{
			{Name: "topic", Type: "text", NotNull: true},
			{Name: "key", Type: "text"},
			{Name: "payload", Type: "bytea", NotNull: true},
			{Name: "dedup_key", Type: "text"},
		},
		Unique: []string{"topic", "dedup_key"},
	}
}

// values are a message's domain columns as the Spec orders them.
func values(m Message) []any {
	payload := m.Payload
	if payload == nil {
		payload = []byte{} // a nil slice would be NULL
	}
	return []any{m.Topic, optional(m.Key), payload, optional(m.DedupKey)}
}

// optional stores an empty text as NULL.
func optional(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// columns receive the domain columns of a claimed row.
type columns struct {
	topic    string
	key      *string
	payload  []byte
	dedupKey *string
}

func (c *columns) fields() []any { return []any{&c.topic, &c.key, &c.payload, &c.dedupKey} }
