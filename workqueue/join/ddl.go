package join

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/internal/announce"
	"github.com/txwork/txwork/workqueue/internal/aside"
	"github.com/txwork/txwork/workqueue/validate"
)

// Column is the domain column that tells the table's triggers that a row is a step of a join. A domain adds it to the
// Columns of its Spec. Rows that are inserted with true need no further write. False and NULL mean the same; then
// [Joins.Start] sets the column.
var Column = workqueue.Column{Name: "joined", Type: "boolean", Internal: true}

// Sweep belongs in the Spec.Sweeps of a domain with joins. It repairs joins and deletes old ones.
const Sweep = "join_sweep"

// Fold belongs in the Spec.Folds of a domain with joins. It counts settled steps, and ends joins.
var Fold = workqueue.Fold{Suffix: "join_fold", Notes: "join_note", Column: Column.Name}

//go:embed sql/*.sql sql/schema/*.sql
var sqlFiles embed.FS

// How much one fold or sweep does at a time.
const (
	maxPiece   = 100    // notes
	maxEnds    = 300    // joins that end
	maxMembers = 20_000 // members that are counted anew or deleted
	maxWaiting = 1000   // waiting rows that a sweep looks at
)

// soon is after which time a fold tries rows again that another session holds.
const soon = 500 * time.Millisecond

var (
	statementTemplates = sqltext.Parse(sqlFiles, "sql/*.sql")
	schemaTemplates    = sqltext.Parse(sqlFiles, "sql/schema/*.sql")
)

// schemaFiles are in an order in which each needs only those before it.
var schemaFiles = []string{"table", "note", "end", "finish", "recount", "apply", "fold", "purge", "strand", "sweep",
	"policies"}

// DDL renders the statements that create the tables, functions and triggers of a domain table's joins, and the
// statements that drop them. A domain appends up to the up of [workqueue.Spec.DDL], and puts down before the down of
// that.
func DDL(spec workqueue.Spec) (up, down string, err error) {
	return Starter{Name: "start_join", Steps: "steps", Step: "step"}.DDL(spec)
}

// DDL is like the function [DDL], with the domain's words for the function that starts joins.
func (s Starter) DDL(spec workqueue.Spec) (up, down string, err error) {
	v, err := newView(spec)
	if err != nil {
		return "", "", err
	}
	v.startedBy(s)
	parts := make([]string, len(schemaFiles))
	for i, file := range schemaFiles {
		parts[i] = sqltext.Execute(schemaTemplates, file, v)
	}
	if v.Rows.IDs != "" {
		parts = append(parts, sqltext.Execute(schemaTemplates, "start", v))
	}
	return strings.Join(parts, "\n\n") + "\n", sqltext.Execute(schemaTemplates, "down", v) + "\n", nil
}

// A view is the data of the templates.
type view struct {
	spec       workqueue.Spec
	DeleteDone bool
	Keyed      bool // the table has keyed rows, see package keyed
	Starter    Starter
	Rows       inlined
}

func newView(spec workqueue.Spec) (view, error) {
	if err := spec.Validate(); err != nil {
		return view{}, err
	}
	if !slices.Contains(spec.Columns, Column) {
		return view{}, validate.Errorf("columns", "of %s lack join.Column: its triggers could not tell the steps of "+
			"joins from other rows", spec.Name())
	}
	spec.Schema = cmp.Or(spec.Schema, workqueue.DefaultSchema)
	if !slices.Contains(spec.Folds, Fold) {
		return view{}, validate.Errorf("folds", "of %s lack join.Fold: nobody would count what its steps come to",
			spec.Name())
	}
	isKeyed := slices.ContainsFunc(spec.Columns, func(c workqueue.Column) bool { return c.Name == seqColumn })
	return view{spec: spec, DeleteDone: spec.DeleteDone, Keyed: isKeyed}, nil
}

// seqColumn is a row's place among the rows of its key. A waiting row that has a place waits for its key, not for a
// join.
const seqColumn = "key_seq"

// qualified is a quoted, qualified name. Spec.Validate has refused every name that would need escaping.
func (v view) qualified(suffix string) string {
	return fmt.Sprintf(`"%s"."%s%s"`, v.spec.Schema, v.spec.Table, suffix)
}

// Name is the domain table's name as messages show it.
func (v view) Name() string { return v.spec.Name() }

// Table is the domain table, quoted.
func (v view) Table() string { return v.qualified("") }

// Join is the table of joins, quoted.
func (v view) Join() string { return v.qualified("_join") }

// Member is the table of memberships, quoted.
func (v view) Member() string { return v.qualified("_join_member") }

// Note is the table of notes, quoted.
func (v view) Note() string { return v.qualified("_join_note") }

// Cursor is the table whose one row says where the next sweep continues, quoted.
func (v view) Cursor() string { return v.qualified("_join_cursor") }

// Time is the type of the domain table's times, quoted.
func (v view) Time() string { return v.qualified("_time") }

// Function is one of the functions, quoted.
func (v view) Function(name string) string { return v.qualified("_join_" + name) }

// Named is a name that derives from the domain table's, quoted.
func (v view) Named(suffix string) string { return fmt.Sprintf(`"%s_%s"`, v.spec.Table, suffix) }

// Announce is the SQL that tells workers of notes, and of the rows that a fold has released.
func (v view) Announce() announce.Table {
	return announce.Table{Name: v.spec.Name(), Lanes: v.spec.Lanes}
}

// FoldLock is the advisory lock that lets only one session fold at a time.
func (v view) FoldLock() string {
	return "hashtextextended('" + v.spec.Name() + " " + Fold.Suffix + "', 0)"
}

// Soon is the time at which a fold tries rows again that another session holds.
func (view) Soon() string {
	return fmt.Sprintf("clock_timestamp() + interval '%d milliseconds'", soon.Milliseconds())
}

// Counted is the condition that the counts of join j end it. Over also includes the deadline.
func (view) Counted(j string) string {
	return strings.ReplaceAll("(j.succeeded + j.failed >= j.expected OR j.failed > 0 AND j.policy = 1)", "j.", j+".")
}
func (v view) Over(j string) string {
	return fmt.Sprintf("(%s OR coalesce(%s.deadline <= clock_timestamp(), false))", v.Counted(j), j)
}

// Needed is the condition that join j has a continuation that may still run and read it: one that has not ended, or a
// dead letter or cancelled row, which can be redriven. A Done row never runs again.
func (v view) Needed(j string) string {
	return fmt.Sprintf("EXISTS (SELECT FROM %s AS t WHERE t.id IN (%s.on_complete, %[2]s.on_fail) AND t.status <> 2)",
		v.Table(), j)
}

// WaitsForJoin is the condition that a Ready row waits for neither its key nor its topic.
func (v view) WaitsForJoin(row string) string {
	condition := row + ".waiting"
	if v.Keyed {
		condition += " AND " + row + "." + seqColumn + " IS NULL"
	}
	return aside.Not(len(v.spec.Topics.Columns) > 0, row, condition)
}

// Stranded is the condition that row t waits for a join that is gone.
func (v view) Stranded() string {
	return "t.completed_at IS NULL AND " + v.WaitsForJoin("t") + " AND t.created_at < now() - interval '15 minutes'" +
		" AND NOT EXISTS (SELECT FROM " + v.Join() + " AS j WHERE j.on_complete = t.id)" +
		" AND NOT EXISTS (SELECT FROM " + v.Join() + " AS j WHERE j.on_fail = t.id)"
}

// SeesAll refuses roles that do not see all rows of the table and of the tables of joins, see [sqltext.SeesAll]. Hides
// and Refuse are its parts.
func (v view) SeesAll() string { return sqltext.SeesAll(v.tables()...) }
func (v view) Hides() string   { return sqltext.Hides(v.tables()...) }
func (v view) Refuse() string  { return sqltext.Refuse(v.Table()) }

func (v view) tables() []string {
	return []string{v.Table(), v.Join(), v.Member(), v.Note(), v.Cursor()}
}

func (view) MaxPiece() int   { return maxPiece }
func (view) MaxEnds() int    { return maxEnds }
func (view) MaxMembers() int { return maxMembers }
func (view) MaxWaiting() int { return maxWaiting }

// planSettings pin the plans of the functions. Each statement has one good plan, index scans in nested loops, but a
// worse plan that was made while the tables were empty would be kept. Unlike the core, this leaves sorting enabled,
// because these statements sort.
var planSettings = []string{
	"search_path = pg_catalog, pg_temp", "enable_seqscan = off", "enable_hashjoin = off", "enable_mergejoin = off",
	"enable_indexscan = on", "enable_nestloop = on", "enable_sort = on", "jit = off",
}

// Bounded refuses a number of rows that the Go API would refuse, see [sqltext.Bounded].
func (view) Bounded(param, name string) string {
	return sqltext.Bounded(param, name, workqueue.MaxBatch)
}

// Settings are the functions' settings.
func (v view) Settings() string { return "SET " + strings.Join(planSettings, "\nSET ") }
