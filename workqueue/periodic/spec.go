package periodic

import (
	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
)

// maxAttempts is more than any schedule reaches: a schedule whose occurrences cannot be written is retried, at last
// every minute, and never given up. Every success resets the count.
const maxAttempts = 1_000_000

// retry is the backoff of a schedule whose occurrences could not be written.
var retry = workqueue.Retry{Growth: workqueue.Exponential, Base: second, Cap: minute, Jitter: 0.5}

// Spec describes a table of schedules, such as timers_schedule. An empty schema is [workqueue.DefaultSchema].
func Spec(schema, table string) workqueue.Spec {
	return workqueue.Spec{
		Schema:      schema,
		Table:       table,
		Columns:     workqueue.ColumnsOf((*record).columns),
		Unique:      []string{"name"},
		Labels:      []string{"name"},
		MaxAttempts: maxAttempts,
		Retry:       retry,
		Writer:      workqueue.Writer{None: true}, // a schedule is validated before it is written
	}
}

// DDL renders the statements that create a table of schedules and those that drop it.
func DDL(schema, table string) (up, down string, err error) {
	spec := Spec(schema, table)
	if up, down, err = spec.DDL(); err != nil {
		return "", "", err
	}
	v := newView(spec)
	return up + "\n" + sqltext.Execute(schemaTemplates, "functions", v) + "\n",
		sqltext.Execute(schemaTemplates, "down", v) + "\n" + down, nil
}

// A record is what is written of a schedule, as it is stored. Times are nominal, durations in microseconds.
type record struct {
	name, expr, zone, misfire, overlap string
	cap, grace, jitter                 int64
	template                           []byte
	next, anchor                       any // NULL: unknown
	version                            int64
}

func recordOf(s Schedule, next, anchor any) *record {
	return &record{
		name: s.Name, expr: s.Expr, zone: s.Zone, misfire: s.Rule.Misfire.String(), overlap: s.Rule.Overlap.String(),
		cap: int64(s.Rule.Cap), grace: s.Rule.Grace.Microseconds(), jitter: s.Rule.Jitter.Microseconds(),
		template: append([]byte{}, s.Template...), next: next, anchor: anchor, version: s.Version,
	}
}

// columns lists the columns of a schedule. A scheduler reads them after the claim.
func (r *record) columns(c *workqueue.Columns) {
	c.Split(workqueue.Column{Name: "name", Type: "text", NotNull: true}, &r.name, &r.name) // the label
	c.Split(workqueue.Column{Name: "expr", Type: "text", NotNull: true}, &r.expr, nil)
	c.Split(workqueue.Column{Name: "zone", Type: "text", NotNull: true}, &r.zone, nil)
	c.Split(workqueue.Column{Name: "misfire", Type: "text", NotNull: true}, &r.misfire, nil)
	c.Split(workqueue.Column{Name: "cap", Type: "integer", NotNull: true}, &r.cap, nil)
	c.Split(workqueue.Column{Name: "grace", Type: "bigint", NotNull: true}, &r.grace, nil)
	c.Split(workqueue.Column{Name: "overlap", Type: "text", NotNull: true}, &r.overlap, nil)
	c.Split(workqueue.Column{Name: "jitter", Type: "bigint", NotNull: true}, &r.jitter, nil)
	c.Split(workqueue.Column{Name: "template", Type: "bytea", NotNull: true, Internal: true}, &r.template, nil)
	c.Split(workqueue.Column{Name: "paused", Type: "boolean", NotNull: true}, false, nil)
	c.Split(workqueue.Column{Name: "next_at", Type: "timestamptz"}, r.next, nil) // of a paused one, where it stopped
	c.Field(workqueue.Column{Name: "last_at", Type: "timestamptz"}, nil)
	c.Field(workqueue.Column{Name: "buffered_at", Type: "timestamptz"}, nil)
	c.Split(workqueue.Column{Name: "fired", Type: "bigint", NotNull: true}, 0, nil)
	c.Split(workqueue.Column{Name: "skipped", Type: "bigint", NotNull: true}, 0, nil)
	// what was due under earlier definitions, see debts
	c.Field(workqueue.Column{Name: "owed", Type: "jsonb", Internal: true}, nil)
	// a time of every interval
	c.Split(workqueue.Column{Name: "anchor", Type: "timestamptz", Internal: true}, r.anchor, nil)
	// of the definition; NULL is 0
	c.Split(workqueue.Column{Name: "version", Type: "bigint", Internal: true}, &r.version, nil)
	// when SQL ended its pause: a scheduler plans it from then on
	c.Field(workqueue.Column{Name: "resumed_at", Type: "timestamptz", Internal: true}, nil)
	// what SQL has triggered and no scheduler has written, see triggers
	c.Field(workqueue.Column{Name: "triggers", Type: "jsonb", Internal: true}, nil)
}
