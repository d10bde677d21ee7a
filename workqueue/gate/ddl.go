package gate

import (
	"embed"
	"fmt"
	"slices"
	"text/template"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

var templates = template.Must(template.ParseFS(sqlFiles, "sql/*.sql"))

// KeyColumn is what a table with gates has as its Spec's Gate.
const KeyColumn = "gate_key"

// SweepSuffix is what a table with gates adds to its Spec's Sweeps.
const SweepSuffix = "gate_sweep"

// sweepKeys bounds the keys that one sweep looks at: some tens of milliseconds.
const sweepKeys = 5000

// DDL renders what gates need beside the table of a Spec that has [Columns] and [SweepSuffix], and the way
// back. Append it to [workqueue.DDL] of the Spec, and put its way back before that one's.
func DDL(spec workqueue.Spec) (up, down string, err error) {
	if err := spec.Validate(); err != nil {
		return "", "", err
	}
	for _, c := range Columns() {
		if !slices.Contains(spec.Columns, c) {
			return "", "", workqueue.Invalid("columns", "lack %s %s: a table with gates has those of gate.Columns", c.Name, c.Type)
		}
	}
	if !slices.Contains(spec.Sweeps, SweepSuffix) {
		return "", "", workqueue.Invalid("sweeps", "lack %q", SweepSuffix)
	}
	if spec.Gate != KeyColumn {
		return "", "", workqueue.Invalid("gate", "is %q: a table with gates has %q there", spec.Gate, KeyColumn)
	}
	v := newView(spec)
	return sqltext.Execute(templates, "gate.up", v) + "\n", sqltext.Execute(templates, "gate.down", v) + "\n", nil
}

// view is what the templates see of a Spec.
type view struct{ schema, table, announce string }

func newView(spec workqueue.Spec) view {
	schema := spec.Schema
	if schema == "" {
		schema = workqueue.DefaultSchema
	}
	return view{schema, spec.Table, spec.Announce()}
}

// Table is the qualified name of the table.
func (v view) Table() string { return fmt.Sprintf("%q.%q", v.schema, v.table) }

// Named is a qualified name that derives from the table's.
func (v view) Named(suffix string) string { return fmt.Sprintf("%q.%q", v.schema, v.table+"_"+suffix) }

// Constraint is the same without the schema, as constraints, triggers and new indexes are named.
func (v view) Constraint(suffix string) string { return fmt.Sprintf("%q", v.table+"_"+suffix) }

// Announce wakes the table's workers.
func (v view) Announce() string { return v.announce }

// WriterLock is the advisory lock that the writers of a serial key hold until they commit.
func (v view) WriterLock(key string) string { return v.lock(key, 1) }

// PromoterLock is the one under which rows of a key are let through.
func (v view) PromoterLock(key string) string { return v.lock(key, 2) }

func (v view) lock(key string, seed int) string {
	return fmt.Sprintf("hashtextextended('%s.%s ' || %s, %d)", v.schema, v.table, key, seed)
}

// Settings pin what these functions' plans depend on: each has one good plan, by index. They are few
// because a settle of a gated row sets and resets them.
func (view) Settings() string {
	return "SET search_path = pg_catalog, pg_temp\nSET enable_seqscan = off\nSET enable_bitmapscan = off\nSET enable_sort = off"
}

// SweepKeys is sweepKeys for the template.
func (view) SweepKeys() int { return sweepKeys }

// MaxPromoted bounds the rows of a key that one settle or sweep lets through.
func (view) MaxPromoted() int { return 1000 }

// Unlimited is the limit of gates that only have a rate.
func (view) Unlimited() int { return Unlimited }

// MinRate and MaxRate are what a bucket can be filled by, whatever time has passed.
func (view) MinRate() float64 { return MinRate }
func (view) MaxRate() float64 { return MaxRate }

type function struct{ Name, Types string }

// Functions are those of the template, in the order in which they may be dropped.
func (view) Functions() []function {
	return []function{
		{"gate_enter", ""}, {"gate_come", ""}, {"gate_back", ""}, {"gate_leave", ""}, {"gate_sweep", "integer"}, {"gate_skip", "uuid[]"},
		{"gate_promote", "text, boolean, boolean"}, {"gate_room", "text, integer"}, {"gate_refill", "text, double precision, integer"}, {"gate_park", "text, uuid"},
	}
}
