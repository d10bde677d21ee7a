package join

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
)

// Column is the domain column that tells the settle's triggers that a row is a step of some join. A domain
// adds it to the Columns of its Spec. Rows that are inserted with true are counted without another write;
// false and NULL are the same, and [Joins.Start] sets it where it has to.
var Column = workqueue.Column{Name: "joined", Type: "boolean", Internal: true}

// Sweep is what a domain adds to the Sweeps of its Spec: deadlines, repair and retention of its joins.
const Sweep = "join_sweep"

//go:embed sql/*.sql sql/schema/*.sql
var sqlFiles embed.FS

var (
	statementTemplates = template.Must(template.ParseFS(sqlFiles, "sql/*.sql"))
	schemaTemplates    = template.Must(template.ParseFS(sqlFiles, "sql/schema/*.sql"))
)

// schemaFiles are in an order in which each needs only those before it.
var schemaFiles = []string{"table", "end", "count", "collect", "flush", "purge", "sweep"}

// DDL renders the tables, functions and triggers of a domain table's joins, and what drops them. A domain
// appends up to the up of [workqueue.DDL], and puts down before the down of that.
func DDL(spec workqueue.Spec) (up, down string, err error) {
	v, err := newView(spec)
	if err != nil {
		return "", "", err
	}
	parts := make([]string, len(schemaFiles))
	for i, file := range schemaFiles {
		parts[i] = sqltext.Execute(schemaTemplates, file, v)
	}
	return strings.Join(parts, "\n\n") + "\n", sqltext.Execute(schemaTemplates, "down", v) + "\n", nil
}

// view is what the templates see of a Spec.
type view struct {
	spec       workqueue.Spec
	DeleteDone bool
	Gated      bool // the table has gates, see package gate
}

func newView(spec workqueue.Spec) (view, error) {
	if err := spec.Validate(); err != nil {
		return view{}, err
	}
	if !slices.Contains(spec.Columns, Column) {
		return view{}, workqueue.Invalid("columns", "of %s lack join.Column: its triggers could not tell the steps of joins from other rows", spec.Name())
	}
	if spec.Schema == "" {
		spec.Schema = workqueue.DefaultSchema
	}
	gated := slices.ContainsFunc(spec.Columns, func(c workqueue.Column) bool { return c.Name == gateColumn })
	return view{spec: spec, DeleteDone: spec.DeleteDone, Gated: gated}, nil
}

// gateColumn is what a gate gives a row that has come to it. One that waits with it waits for its gate and for no
// join, and only the gate lets it through.
const gateColumn = "gate_seq"

// Validate has refused every name that would need escaping.
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

// Function is one of the functions, quoted.
func (v view) Function(name string) string { return v.qualified("_join_" + name) }

// Named is a name that derives from the domain table's, quoted.
func (v view) Named(suffix string) string { return fmt.Sprintf(`"%s_%s"`, v.spec.Table, suffix) }

// Announce wakes the domain table's workers.
func (v view) Announce() string { return v.spec.Announce() }

// Notes is the setting in which a statement's settled members are noted, as a literal.
func (v view) Notes() string { return "'txwork_join_notes." + v.spec.Name() + "'" }

// Flushing is the setting that says that the notes are being counted, as a literal.
func (v view) Flushing() string { return "'txwork_join_flushing." + v.spec.Name() + "'" }

// planSettings pin the plans of the functions: each statement has one good plan, index scans in nested
// loops, and one that was made while the tables were empty would be kept. The core switches sorting off
// for its own statements, which have none.
var planSettings = []string{
	"search_path = pg_catalog, pg_temp", "enable_seqscan = off", "enable_hashjoin = off", "enable_mergejoin = off",
	"enable_indexscan = on", "enable_nestloop = on", "enable_sort = on", "jit = off",
}

// Settings are the functions' settings.
func (v view) Settings() string { return "SET " + strings.Join(planSettings, "\nSET ") }
