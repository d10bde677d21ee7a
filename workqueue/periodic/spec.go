package periodic

import "github.com/txwork/txwork/workqueue"

// maxAttempts is more than any schedule reaches: a schedule whose occurrences cannot be written is retried, at last
// every minute, and never given up. Every success resets the count.
const maxAttempts = 1_000_000

// retry is the backoff of a schedule whose occurrences could not be written.
var retry = workqueue.Retry{Growth: workqueue.Exponential, Base: second, Cap: minute, Jitter: 0.5}

// Spec describes a table of schedules, such as timers_schedule. An empty schema is [workqueue.DefaultSchema].
func Spec(schema, table string) workqueue.Spec {
	return workqueue.Spec{
		Schema: schema,
		Table:  table,
		Columns: []workqueue.Column{
			{Name: "name", Type: "text", NotNull: true},
			{Name: "expr", Type: "text", NotNull: true},
			{Name: "zone", Type: "text", NotNull: true},
			{Name: "misfire", Type: "text", NotNull: true},
			{Name: "cap", Type: "integer", NotNull: true},
			{Name: "grace", Type: "bigint", NotNull: true}, // microseconds
			{Name: "overlap", Type: "text", NotNull: true},
			{Name: "jitter", Type: "bigint", NotNull: true},                  // microseconds
			{Name: "template", Type: "bytea", NotNull: true, Internal: true}, // large, and read after the claim
			{Name: "paused", Type: "boolean", NotNull: true},
			{Name: "next_at", Type: "timestamptz"},     // nominal; of a paused one, where it stopped
			{Name: "last_at", Type: "timestamptz"},     // nominal
			{Name: "buffered_at", Type: "timestamptz"}, // nominal
			{Name: "fired", Type: "bigint", NotNull: true},
			{Name: "skipped", Type: "bigint", NotNull: true},
		},
		Unique:      []string{"name"},
		Labels:      []string{"name"},
		MaxAttempts: maxAttempts,
		Retry:       retry,
		Writer:      workqueue.Writer{None: true}, // a schedule is validated before it is written
	}
}

// DDL renders the statements that create a table of schedules and those that drop it.
func DDL(schema, table string) (up, down string, err error) {
	return Spec(schema, table).DDL()
}

// values are a new schedule's columns as the Spec orders them.
func values(s Schedule, next any) []any {
	template := s.Template
	if template == nil {
		template = []byte{} // because a nil slice is NULL
	}
	return []any{
		s.Name, s.Expr, s.Zone, s.Rule.Misfire.String(), s.Rule.Cap, s.Rule.Grace.Microseconds(),
		s.Rule.Overlap.String(), s.Rule.Jitter.Microseconds(), template, false, next, nil, nil, 0, 0,
	}
}
