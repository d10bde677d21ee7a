package writers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// described is what the page says of each column of the domains. Its bound is its Column's, from which Go and the DDL
// have it. It is written here if a rule bounds several columns together, or something that is no enqueue writes it.
// What a direct INSERT may do is tested: what is required here, and what is refused in package security.
var described = []struct {
	tables         []string
	column, insert string
	bound, meaning string
}{
	{[]string{"outbox"}, "topic", "required", "",
		"selects the handler"},
	{[]string{"outbox"}, "key", "free, not checked", "",
		"what messages have in common, such as a customer"},
	{[]string{"outbox"}, "payload", "required, not checked", "",
		"the message"},
	{[]string{"outbox"}, "dedup_key", "free", "",
		"at most one message of a topic has it"},
	{[]string{"inbox"}, "consumer", "required", "",
		"who takes the message"},
	{[]string{"inbox"}, "source", "required", "",
		"who sent it"},
	{[]string{"inbox"}, "message_id", "required", "",
		"the message's id at its source"},
	{[]string{"inbox"}, "body_hash", "free", "",
		"tells another content under the same id"},
	{[]string{"inbox"}, "topic", "needed by a handler", "",
		"selects the handler"},
	{[]string{"inbox"}, "payload", "needed by a handler, not checked", "",
		"the message; NULL once it has been removed"},
	{[]string{"timers"}, "key", "required", "",
		"identifies the timer"},
	{[]string{"timers"}, "topic", "required", "",
		"selects the handler"},
	{[]string{"timers"}, "payload", "required, not checked", "",
		"what the handler gets"},
	{[]string{"timers"}, "fire_at", "required", "table: 1970 to 9999",
		"the time that was set"},
	{[]string{"timers"}, "generation", "required", "",
		"how often the timer was set"},
	{[]string{"timers"}, "schedule", "leave it out", "a schedule's name",
		"the schedule of which it is an occurrence"},
	{[]string{"jobs"}, "kind", "required", "",
		"selects the handler"},
	{[]string{"jobs"}, "queue", "required", "",
		"where the job waits"},
	{[]string{"jobs"}, "priority", "required", "",
		"1 is the most urgent"},
	{[]string{"jobs"}, "args", "required, not checked", "",
		"what the handler gets"},
	{[]string{"jobs"}, "unique_key", "free, checked", "table: its [form](#the-canonical-form-of-unique-fields)",
		"at most one job has it"},
	{[]string{"jobs"}, "freed_key", "refused", "as `unique_key`",
		"the key that a failed job gave up, for its redrive"},
	{[]string{"jobs"}, "unique_states", "free, checked", "table: beside a key 0, 2, 4, 8 or 12",
		"the ended states that hold the key"},
	{[]string{"jobs"}, "schedule", "leave it out", "a schedule's name",
		"the schedule that wrote the job"},
	{[]string{"jobs"}, "slot", "refused", "its type",
		"the job counts against its queue's limit"},
	{[]string{"jobs"}, "trail", "refused", "its type",
		"true if steps are recorded, false if they are void"},
	{[]string{"jobs"}, "progress", "refused", "",
		"per cent, as the handler reports it"},
	{[]string{"jobs"}, "progress_note", "refused", fmt.Sprintf("Go: %d bytes", jobs.MaxNote),
		"what the handler says of its progress"},
	{[]string{"jobs"}, "output", "refused", fmt.Sprintf("Go: %d MiB", jobs.DefaultMaxArgs>>20),
		"the job's result"},
	{[]string{"outbox", "jobs"}, "joined", "leave it out", "its type",
		"the row is a step of a join"},
	{[]string{"outbox", "jobs"}, "concurrency_key", "free, checked", fmt.Sprintf("table: 1 to %d bytes", keyed.MaxKey),
		"the key that orders or limits the row"},
	{[]string{"outbox", "jobs"}, "key_limit", "free, checked", "table: at least 0",
		"0: ordered; otherwise how many may run"},
	{[]string{"outbox", "jobs"}, "key_policy", "free, checked", fmt.Sprintf("table: 0 to %d", keyed.Skip),
		"what a dead letter of the key does"},
	{[]string{"outbox", "jobs"}, "key_rate", "free, checked", "table: 1e-9 to 1e9",
		"starts a second"},
	{[]string{"outbox", "jobs"}, "key_burst", "free, checked", "table: at least 1",
		"starts at once after a quiet time"},
	{[]string{"outbox", "jobs"}, "key_seq", "set by a trigger", "table: at most 2^62",
		"the row's place among those of its key"},
}

// The page lists the columns of every domain with their types, and each with its bound.
func TestTheColumnsOfThePage(t *testing.T) {
	t.Parallel()
	lines := []string{"| table | column | type | direct INSERT | bound | meaning |", "|---|---|---|---|---|---|"}
	listed := map[string]bool{}
	for _, d := range described {
		var column workqueue.Column
		for _, table := range d.tables {
			columns := specs[table].Columns
			i := slices.IndexFunc(columns, func(c workqueue.Column) bool { return c.Name == d.column })
			if i < 0 {
				t.Fatalf("described has the column %s, which %s has not", d.column, table)
			}
			listed[table+"."+d.column], column = true, columns[i]
		}
		if bounds := column.Bounds(); bounds != "" {
			if d.bound != "" {
				t.Errorf("%s has the Bound %s: leave it out of described", d.column, bounds)
			}
			d.bound = map[bool]string{true: "table: ", false: "functions: "}[column.Bound.Stored] +
				strings.Replace(bounds, "1048576 bytes", "1 MiB", 1)
		}
		lines = append(lines, fmt.Sprintf("| `%s` | `%s` | %s | %s | %s | %s |", strings.Join(d.tables,
			"`, `"), d.column, column.Type, d.insert, d.bound, d.meaning))
	}
	for table, spec := range specs {
		for _, c := range spec.Columns {
			if !listed[table+"."+c.Name] {
				t.Errorf("%s.%s is not described: add it to described, with its bound and its meaning", table, c.Name)
			}
		}
	}
	_, got, _ := strings.Cut(read(t, sqlPage).Text, "<!-- columns:begin -->\n")
	got, _, _ = strings.Cut(got, "\n<!-- columns:end -->")
	if want := strings.Join(lines, "\n"); got != want {
		t.Errorf("the columns of %s are not these:\n%s", sqlPage, want)
	}
}

// An INSERT needs the columns that are NOT NULL and have no default, and those that the page calls required are these.
func TestTheRequiredColumnsOfThePage(t *testing.T) {
	f := newFixture(t)
	for _, d := range described {
		for _, table := range d.tables {
			needed := ask[bool](f, "SELECT attnotnull AND NOT atthasdef FROM pg_attribute WHERE attrelid = $1::regclass "+
				"AND attname = $2", f.db.Schema+"."+table, d.column)
			if says := d.insert == "required" || d.insert == "required, not checked"; says != needed {
				t.Errorf("%s.%s is %q, and needed: %t", table, d.column, d.insert, needed)
			}
		}
	}
}
