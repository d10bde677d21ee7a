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

// Spec is the table of timers in a schema, with every setting at its default: what txwork's own migrations
// create. An empty schema is [workqueue.DefaultSchema].
func Spec(schema string) workqueue.Spec {
	return workqueue.Spec{
		Schema: schema,
		Table:  table,
		Columns: []workqueue.Column{
			{Name: "key", Type: "text", NotNull: true},
			{Name: "topic", Type: "text", NotNull: true},
			{Name: "payload", Type: "bytea", NotNull: true},
			{Name: "fire_at", Type: "timestamptz", NotNull: true},
			{Name: "generation", Type: "integer", NotNull: true},
			{Name: "schedule", Type: "text"},
		},
		Labels: []string{"topic"},
		Unique: []string{"key"},
	}
}

// DDL renders the statements that create the tables of timers and of their schedules, with what a timer needs
// beside the core, and those that drop them.
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

// values are a timer's columns as the Spec orders them. An occurrence names its schedule.
func values(t Timer, fireAt time.Time, schedule any) []any {
	return []any{t.Key, t.Topic, t.payload(), fireAt, 1, schedule}
}
