package timers

import (
	"time"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

const (
	table         = "timers"
	scheduleTable = "timers_schedule"
)

// Spec describes the table of timers in a schema, with every setting at its default. Txwork's own migrations create
// this table. An empty schema is [workqueue.DefaultSchema].
func Spec(schema string) workqueue.Spec {
	return workqueue.Spec{
		Schema: schema,
		Table:  table,
		Columns: []workqueue.Column{
			{Name: "key", Type: "text", NotNull: true},
			{Name: "topic", Type: "text", NotNull: true},
			{Name: "payload", Type: "bytea", NotNull: true, Written: &writtenPayload},
			{Name: "fire_at", Type: "timestamptz", NotNull: true, Written: &writtenFireAt},
			{Name: "generation", Type: "integer", NotNull: true, Written: &workqueue.Written{As: "1"}},
			{Name: "schedule", Type: "text", Written: &workqueue.Written{}},
		},
		Labels: []string{"topic"},
		Unique: []string{"key"},
		Writer: writer,
	}
}

// DDL renders the statements that create the tables of timers and of their schedules, with everything that timers need
// in addition to the core, and those that drop them.
func DDL(schema string) (up, down string, err error) {
	coreUp, coreDown, err := Spec(schema).DDL()
	if err != nil {
		return "", "", err
	}
	scheduleUp, scheduleDown, err := periodic.DDL(schema, scheduleTable)
	if err != nil {
		return "", "", err
	}
	v := newView(Spec(schema))
	up = coreUp + "\n" + sqltext.Execute(sqlTemplates, "table", v) + "\n\n" + scheduleUp
	down = scheduleDown + "\n" + coreDown + "\n" + sqltext.Execute(sqlTemplates, "table_down", v) + "\n"
	return up, down, nil
}

// values returns a timer's domain columns in the order of the Spec. An occurrence names its schedule; others pass nil.
func values(t Timer, fireAt time.Time, schedule any) []any {
	return []any{t.Key, t.Topic, t.payload(), fireAt, 1, schedule}
}
