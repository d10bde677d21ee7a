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
		Schema: schema,
		Table:  "inbox",
		Columns: []workqueue.Column{
			{Name: "consumer", Type: "text", NotNull: true},
			{Name: "source", Type: "text", NotNull: true},
			{Name: "message_id", Type: "text", NotNull: true},
			{Name: "body_hash", Type: "bytea", Written: &writtenHash},
			{Name: "topic", Type: "text", Written: &writtenTopic},
			{Name: "payload", Type: "bytea", Written: &writtenPayload},
		},
		Lanes:     []string{"consumer"},
		Topics:    workqueue.Topics{Columns: []string{"topic", "source"}, Lane: "consumer"},
		Labels:    []string{"consumer", "topic"},
		Unique:    []string{"consumer", "source", "message_id"},
		Retention: maxWindow,
		Sweeps:    []string{stripSweep},
		Writer:    writer,
	}
}

// values returns a message's domain columns in the order of the Spec.
func values(m Message) []any {
	payload := m.Payload
	if payload == nil {
		payload = []byte{} // a nil slice would be NULL, as in a tombstone
	}
	return []any{m.Consumer, m.Source, m.MessageID, m.hash(), m.topic(), payload}
}
