package inbox

import "github.com/txwork/txwork/workqueue"

// stripSweep is the sweep that makes tombstones, the function <table>_strip.
const stripSweep = "strip"

// Spec is the inbox's table in a schema: what txwork's own migrations create. An empty schema is
// [workqueue.DefaultSchema].
//
// Its Retention is the longest there is, ten years, because a program that knows only the table does not
// know the dedup window, and must not delete a key that still guards one. Give a reaper [Inbox.Table], whose
// Retention is the window.
func Spec(schema string) workqueue.Spec {
	return workqueue.Spec{
		Schema: schema,
		Table:  "inbox",
		Columns: []workqueue.Column{
			{Name: "consumer", Type: "text", NotNull: true},
			{Name: "source", Type: "text", NotNull: true},
			{Name: "message_id", Type: "text", NotNull: true},
			{Name: "body_hash", Type: "bytea"},
			{Name: "topic", Type: "text"},
			{Name: "payload", Type: "bytea"},
		},
		Lanes:     []string{"consumer"},
		Labels:    []string{"consumer", "topic"},
		Unique:    []string{"consumer", "source", "message_id"},
		Retention: maxWindow,
		Sweeps:    []string{stripSweep},
	}
}

// values are a message's domain columns as the Spec orders them.
func values(m Message) []any {
	payload := m.Payload
	if payload == nil {
		payload = []byte{} // a nil slice would be NULL, a tombstone's
	}
	return []any{m.Consumer, m.Source, m.MessageID, m.hash(), m.topic(), payload}
}
