package jobs

import (
	"cmp"
	"embed"
	"fmt"
	"strings"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/periodic"
)

// The statements and functions live in sql/, one operation a file.
//
//go:embed sql/*.sql sql/schema/*.sql
var sqlFiles embed.FS

var (
	statementTemplates = sqltext.Parse(sqlFiles, "sql/*.sql")
	schemaTemplates    = sqltext.Parse(sqlFiles, "sql/schema/*.sql")
)

// schemaFiles are ordered so that each depends only on those before it.
var schemaFiles = []string{"table", "queue", "unique", "unique_hash", "record", "forget", "spans", "admit",
	"permit", "take", "give_start", "slot", "slot_sweep", "policies", "work", "rules"}

// DDL renders the statements that create the jobs' tables in a schema with all defaults, and those that drop them.
// These are the statements that txwork's own migrations run. The schema has to exist.
func DDL(schema string) (up, down string, err error) { return render(Spec(schema)) }

func render(spec workqueue.Spec) (up, down string, err error) {
	var ups, downs []string
	add := func(u, d string, e error) {
		ups, downs = append(ups, strings.TrimSpace(u)), append([]string{strings.TrimSpace(d)}, downs...)
		err = cmp.Or(err, e)
	}
	add(spec.DDL())
	add(newView(spec).schemaDDL())
	add(batchStarter.DDL(spec))
	add(keyed.DDL(spec))
	add(periodic.DDL(spec.Schema, scheduleTable))
	if err != nil {
		return "", "", err
	}
	return strings.Join(ups, "\n\n") + "\n", strings.Join(downs, "\n\n") + "\n", nil
}

// view is what the templates see of a Spec.
type view struct {
	spec workqueue.Spec
	One  bool // for the function that writes one job
}

func newView(spec workqueue.Spec) view {
	spec.Schema = cmp.Or(spec.Schema, workqueue.DefaultSchema)
	return view{spec: spec}
}

func (v view) schemaDDL() (up, down string, err error) {
	parts := make([]string, len(schemaFiles))
	for i, file := range schemaFiles {
		parts[i] = v.file(file)
	}
	return strings.Join(parts, "\n\n"), v.file("down"), nil
}

func (v view) file(name string) string { return sqltext.Execute(schemaTemplates, name, v) }

// qualified returns the quoted name of an object that is named after the table. Spec.Validate admits only names in
// which nothing has to be escaped.
func (v view) qualified(suffix string) string {
	return quote(v.spec.Schema) + "." + quote(v.spec.Table+suffix)
}

// Table is the table of jobs.
func (v view) Table() string { return v.qualified("") }

// Queue is the table of the queues' rules, Start the table of the starts that count against a rate, and Slot the table
// of the running jobs that count against a limit.
func (v view) Queue() string { return v.qualified("_queue") }
func (v view) Start() string { return v.qualified("_start") }
func (v view) Slot() string  { return v.qualified("_slot") }

// Attempt and Step are the tables of recorded attempts and steps.
func (v view) Attempt() string { return v.qualified("_attempt") }
func (v view) Step() string    { return v.qualified("_step") }

// Function is the qualified name of one of the table's functions.
func (v view) Function(name string) string { return v.qualified("_" + name) }

// Named is a name derived from the table's, such as that of an index or a trigger.
func (v view) Named(suffix string) string { return quote(v.spec.Table + "_" + suffix) }

// SeesSlots refuses roles that do not see all jobs, rules and slots of queues, and SeesTrail those that do
// not see all attempts and steps; see [sqltext.SeesAll]. SeesRules is for claims, which need only the rules and slots:
// policies.sql shows these to all.
func (v view) SeesSlots() string { return sqltext.SeesAll(v.Table(), v.Queue(), v.Start(), v.Slot()) }
func (v view) SeesRules() string {
	return sqltext.SeesShared(v.Queue(), v.Start(), v.Slot())
}
func (v view) SeesTrail() string { return sqltext.SeesAll(v.Attempt(), v.Step()) }

// Hides is the condition that row-level security hides jobs from the role.
func (v view) Hides() string { return sqltext.Hides(v.Table()) }

// MaxAttempts is the default number of attempts.
func (v view) MaxAttempts() int { return v.spec.MaxAttempts }

// HeldUntilStart is the value of unique_states for a key that is free when the job starts.
func (v view) HeldUntilStart() int { return int(heldUntilStart) }

// KindEnd is the character that ends the kind in a unique key, and MaxKey what a key has at most.
func (view) KindEnd() string { return sqlKindEnd }
func (view) MaxKey() int     { return MaxKey }

// UniqueStates are the values that unique_states has beside a key.
func (view) UniqueStates() string {
	return fmt.Sprintf("0, %d, %d, %d, %d", heldUntilStart, WhileDone, WhileFailed, WhileDone|WhileFailed)
}

// Name is the table's name, for locks.
func (v view) Name() string { return v.spec.Name() }

// Announce is the SQL expression that wakes the workers.
func (v view) Announce() string { return v.spec.Announce() }

// MaxQueue is the constant for the template of the queues' table.
func (v view) MaxQueue() int { return MaxQueue }

// MaxPermits is how many permits or starts a claim takes at most.
func (view) MaxPermits() int { return 64 }

// MinRate and MaxRate bound the rate of a queue. They are the bounds for a key's rate, too.
func (v view) MinRate() float64 { return keyed.MinRate }
func (v view) MaxRate() float64 { return keyed.MaxRate }

// The limits of unique fields.
func (view) MaxFields() int      { return MaxFields }
func (view) MaxFieldName() int   { return MaxFieldName }
func (view) MaxFieldText() int   { return MaxFieldText }
func (view) MaxFieldDigits() int { return MaxFieldDigits }

// RefuseFields refuses unique fields unless a condition is true.
func (view) RefuseFields(condition, message string) string {
	return sqltext.RefuseUnless(condition, "unique_fields", message, "Give 1 to 16 texts, numbers, true, false or null "+
		"by name, such as {\"customer\": 7}; docs/sql.md has the rules.")
}

// Bounded refuses a number of rows that the Go API would refuse, see [sqltext.Bounded].
func (view) Bounded(param, name string) string {
	return sqltext.Bounded(param, name, workqueue.MaxBatch)
}

// Settings pin the planner's choices in functions: a session caches their plans, and may make them while the tables are
// empty.
func (v view) Settings() string {
	return strings.Join([]string{
		"SET search_path = pg_catalog, pg_temp", "SET enable_seqscan = off", "SET enable_bitmapscan = off",
		"SET enable_hashjoin = off", "SET enable_mergejoin = off", "SET jit = off",
	}, "\n")
}

func quote(name string) string { return `"` + name + `"` }
