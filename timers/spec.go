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
		Schema:  schema,
		Table:   table,
		Columns: workqueue.ColumnsOf((*Delivery).columns),
		Labels:  []string{"topic"},
		Unique:  []string{"key"},
		Writer:  writer(),

		MaxHeaders: MaxHeaders,
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
	up = coreUp + "\n" + sqltext.Execute(sqlTemplates, "table", v) + "\n\n" +
		sqltext.Execute(sqlTemplates, "functions", v) + "\n\n" + scheduleUp
	down = scheduleDown + "\n" + coreDown + "\n" + sqltext.Execute(sqlTemplates, "table_down", v) + "\n"
	return up, down, nil
}

// A record is what is written of a new timer.
type record struct {
	*Timer
	fireAt     time.Time
	generation int64
	schedule   string // of an occurrence; empty for others
}

// columns lists the columns of a timer, which a claim stores in a delivery.
func columns(c *workqueue.Columns, r *record, d *Delivery) {
	c.Split(workqueue.Column{Name: "key", Type: "text", NotNull: true,
		Bound: workqueue.Bound{Min: 1, Max: MaxKey, Stored: true}}, &r.Key, &d.Key)
	c.Split(workqueue.Column{Name: "topic", Type: "text", NotNull: true,
		Bound: workqueue.Bound{Min: 1, Max: MaxTopic}}, &r.Topic, &d.Topic)
	c.Split(workqueue.Column{Name: "payload", Type: "bytea", NotNull: true, Written: &writtenPayload,
		Bound: workqueue.Bound{Max: DefaultMaxPayload}}, &r.Payload, &d.Payload)
	c.Split(workqueue.Column{Name: "fire_at", Type: "timestamptz", NotNull: true, Written: &writtenFireAt}, &r.fireAt,
		&d.ScheduledAt)
	c.Split(workqueue.Column{Name: "generation", Type: "integer", NotNull: true, Written: &writtenGeneration,
		Bound: workqueue.Bound{Min: 1, Stored: true}}, &r.generation, &d.Generation)
	c.Split(workqueue.Column{Name: "schedule", Type: "text", Written: &unwritten}, &r.schedule, &d.Schedule)
}

// What is not used when rows are written, and when they are read: only the addresses of its fields are taken.
var (
	noDelivery Delivery
	noRecord   = record{Timer: new(Timer)}
)

func (r *record) columns(c *workqueue.Columns)   { columns(c, r, &noDelivery) }
func (d *Delivery) columns(c *workqueue.Columns) { columns(c, &noRecord, d) }

// newRow is the row of a timer or, if a schedule is named, of its occurrence.
func newRow(t *Timer, fireAt, dueAt time.Time, schedule string) workqueue.NewRow {
	return workqueue.NewRow{
		DueAt:       dueAt,
		MaxAttempts: t.MaxAttempts,
		Headers:     t.Headers,
		Values:      workqueue.ValuesOf(&record{t, fireAt, 1, schedule}, (*record).columns),
	}
}
