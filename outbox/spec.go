package outbox

import (
	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/keyed"
)

// Spec describes the outbox's table in a schema, with every setting at its default. Txwork's own migrations create this
// table. An empty schema is [workqueue.DefaultSchema].
func Spec(schema string) workqueue.Spec {
	return workqueue.Spec{
		Schema: schema,
		Table:  "outbox",
		Columns: append([]workqueue.Column{
			{Name: "topic", Type: "text", NotNull: true},
			{Name: "key", Type: "text", Written: optionalText("key")},
			{Name: "payload", Type: "bytea", NotNull: true},
			{Name: "dedup_key", Type: "text", Written: optionalText("dedup_key")},
			join.Column,
		}, keyed.OrderedBy("nullif(@key, '')")...),
		Writer:    writer,
		Topics:    workqueue.Topics{Columns: []string{"topic"}},
		Labels:    []string{"topic"},
		Unique:    []string{"topic", "dedup_key"},
		Sweeps:    []string{keyed.SweepSuffix, join.Sweep},
		Folds:     []workqueue.Fold{join.Fold, keyed.Fold},
		KeyColumn: keyed.KeyColumn,
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

// A role says how a message takes part in a join.
type role int

const (
	alone        role = iota
	step              // the join waits for its settle
	continuation      // it waits for the end of the join
)

// payloadColumn is the index of the payload among the columns of the Spec.
const payloadColumn = 2

func row(m Message, r role, g keyed.Rule) workqueue.NewRow {
	return workqueue.NewRow{
		ID: m.ID, DueAt: m.ScheduledAt, MaxAttempts: m.MaxAttempts, Headers: m.Headers, Retry: m.Retry,
		Waiting: r == continuation,
		Values:  values(m, r, g),
	}
}

// values returns a message's domain columns in the order of the Spec.
func values(m Message, r role, g keyed.Rule) []any {
	payload := m.Payload
	if payload == nil {
		payload = []byte{} // a nil slice would be NULL
	}
	var joined any
	if r == step {
		joined = true
	}
	own := [...]any{m.Topic, input.Optional(m.Key), payload, input.Optional(m.DedupKey), joined}
	return append(own[:], keyed.Values(g)...)
}

// byKey returns the rule that keeps messages of a key in order, or nil if the message is not ordered.
func (o *Outbox) byKey(m Message) keyed.Rule {
	if o.ordering != PerKey || m.Key == "" {
		return nil
	}
	return keyed.Ordered{Key: m.Key, OnFailure: o.onFailure}
}
