package keyed

import (
	"embed"
	"fmt"
	"slices"
	"text/template"
	"time"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

var templates = template.Must(template.ParseFS(sqlFiles, "sql/*.sql"))

// KeyColumn is the KeyColumn of the Spec of a table with keyed rows.
const KeyColumn = "concurrency_key"

// SweepSuffix is what a table with keyed rows adds to its Spec's Sweeps.
const SweepSuffix = "key_sweep"

// Fold is what a table with keyed rows adds to its Spec's Folds.
var Fold = workqueue.Fold{Suffix: "key_fold", Notes: "key_note", Column: KeyColumn, Fronts: true}

// sweepKeys bounds the keys that one sweep looks at: some tens of milliseconds.
const sweepKeys = 1000

// ahead is how far ahead of their time rows of a rate are let through. It is longer than the time between two folds,
// also on a busy machine, so that no part of the rate is lost.
const ahead = 250 * time.Millisecond

// DDL renders what keyed rows need beside the table of a Spec that has [Columns], [Fold] and [SweepSuffix], and
// the way back. Append it to [workqueue.Spec.DDL] of the Spec, and put its way back before that one's.
func DDL(spec workqueue.Spec) (up, down string, err error) {
	if err := spec.Validate(); err != nil {
		return "", "", err
	}
	for _, c := range Columns() {
		if !slices.Contains(spec.Columns, c) {
			return "", "", validate.Errorf("columns", "lack %s %s: a table with keys needs those of keyed.Columns",
				c.Name, c.Type)
		}
	}
	if !slices.Contains(spec.Sweeps, SweepSuffix) {
		return "", "", validate.Errorf("sweeps", "lack %q", SweepSuffix)
	}
	if !slices.Contains(spec.Folds, Fold) {
		return "", "", validate.Errorf("folds", "lack keyed.Fold")
	}
	if spec.KeyColumn != KeyColumn {
		return "", "", validate.Errorf("key column", "is %q: a table with keys needs keyed.KeyColumn there, %q", spec.KeyColumn, KeyColumn)
	}
	v := newView(spec)
	return sqltext.Execute(templates, "keyed.up", v) + "\n", sqltext.Execute(templates, "keyed.down", v) + "\n", nil
}

// view is what the templates see of a Spec.
type view struct {
	schema, table string
	spec          workqueue.Spec
}

func newView(spec workqueue.Spec) view {
	schema := spec.Schema
	if schema == "" {
		schema = workqueue.DefaultSchema
	}
	return view{schema, spec.Table, spec}
}

// Table is the qualified name of the table.
func (v view) Table() string { return fmt.Sprintf("%q.%q", v.schema, v.table) }

// Named is a qualified name that derives from the table's.
func (v view) Named(suffix string) string { return fmt.Sprintf("%q.%q", v.schema, v.table+"_"+suffix) }

// Constraint is the same without the schema, as constraints, triggers and new indexes are named.
func (v view) Constraint(suffix string) string { return fmt.Sprintf("%q", v.table+"_"+suffix) }

// AnnounceFolded wakes them for what a fold has let through.
func (v view) AnnounceFolded() string { return v.spec.AnnounceFolded() }

// AnnounceFronts leads claims back to where it has put them, Front is the earliest due time that it may give a row.
func (v view) AnnounceFronts() string  { return v.spec.AnnounceFronts() }
func (v view) Front(row string) string { return v.spec.Front(row) }

// AnnounceNote has them fold, MustAnnounceNote tells whether the writer of a note has not promised to.
func (v view) AnnounceNote() string     { return v.spec.AnnounceNote() }
func (v view) MustAnnounceNote() string { return v.spec.MustAnnounceNote() }

// WriterLock is the advisory lock that the writers of an ordered key hold until they commit.
func (v view) WriterLock(key string) string {
	return fmt.Sprintf("hashtextextended('%s.%s ' || %s, 1)", v.schema, v.table, key)
}

// FoldLock is the advisory lock of the one folder.
func (v view) FoldLock() string {
	return fmt.Sprintf("hashtextextended('%s.%s key_fold', 0)", v.schema, v.table)
}

// MaxTurns is how many ordered keys one transaction may write: a quarter of the locks that the whole server shares.
func (view) MaxTurns() string {
	return "current_setting('max_locks_per_transaction')::integer" +
		" * (current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer) / 4"
}

// Settings pin what these functions' plans depend on: each has one good plan, by index. They are few
// because a settle of a keyed row sets and resets them.
func (view) Settings() string {
	return "SET search_path = pg_catalog, pg_temp\nSET enable_seqscan = off\nSET enable_bitmapscan = off\nSET " +
		"enable_sort = off\nSET jit = off"
}

// FoldSettings are those of a fold, and of what it calls. Its plans are the same for all arguments, which the server
// finds out by making them again for each fold: that takes twice as long as to fold.
func (v view) FoldSettings() string {
	return v.Settings() + "\nSET plan_cache_mode = force_generic_plan"
}

// A condition that rows of the indexes by key meet. It is written so that it implies no other index's condition: by the
// statistics of a table that was last analysed while all rows waited, the claim index has one row and is as good as the
// index by key, and a plan that was made then reads all live rows for each key.
func condition(row, of, is string) string {
	if row != "" {
		row += "."
	}
	return fmt.Sprintf("CASE WHEN "+of+" THEN "+is+" END", row)
}

const (
	ordered = "%[1]scompleted_at IS NULL AND %[1]skey_seq IS NOT NULL AND %[1]skey_limit = 0"
	limited = "%[1]scompleted_at IS NULL AND %[1]skey_seq IS NOT NULL AND %[1]skey_limit > 0"
	waits   = "%[1]swaiting"
)

// OrderedWaits and LimitedWaits are the conditions of rows that wait for their key, Live is that of rows which are
// through. Obstacle is that of a dead letter that others wait for.
func (view) OrderedWaits(row string) string { return condition(row, ordered, waits) }
func (view) LimitedWaits(row string) string { return condition(row, limited, waits) }
func (view) Live(row string) string {
	return condition(row, "%[1]scompleted_at IS NULL AND %[1]skey_seq IS NOT NULL", "NOT %[1]swaiting")
}
func (view) Obstacle(row string) string {
	return condition(row, "%[1]sfailed_at IS NOT NULL AND %[1]scancelled_at IS NULL", "%[1]skey_policy > 0")
}

// SweepKeys is sweepKeys for the template.
func (view) SweepKeys() int { return sweepKeys }

// MaxReleased bounds the rows of a key that one fold lets through.
func (view) MaxReleased() int { return 1000 }

// MaxUpdates is how often a row of what is known of a key is updated before another takes its place: so many dead
// versions are in the way of who looks for it.
func (view) MaxUpdates() int { return 64 }

// Marked is true for one place in KnownEvery, a power of two: the row of that place makes its key known. Keys with few
// rows cost nothing so. The places are hashed because those of a key may be multiples of anything.
func (view) KnownEvery() int { return 8 }
func (v view) Marked(place string) string {
	return fmt.Sprintf("hashint8(%s) & %d = 0", place, v.KnownEvery()-1)
}

// Ahead is ahead for the comments, AheadInterval for the statements.
func (view) Ahead() string { return ahead.String() }
func (view) AheadInterval() string {
	return fmt.Sprintf("interval '%d milliseconds'", ahead.Milliseconds())
}

// Unlimited is the limit of keys that only have a rate.
func (view) Unlimited() int { return unlimited }

// MinRate and MaxRate are what a bucket can be filled by, whatever time has passed.
func (view) MinRate() float64 { return MinRate }
func (view) MaxRate() float64 { return MaxRate }

type function struct{ Name, Types string }

// Functions are those of the template, in the order in which they may be dropped.
func (view) Functions() []function {
	return []function{
		{"key_enter", ""}, {"key_come", ""}, {"key_back", ""}, {"key_note", ""}, {"key_forget", ""},
		{"key_place", "text"},
		{"key_fold", "integer, timestamptz, jsonb"}, {"key_next", "text[], boolean[], integer[], bigint[], jsonb"},
		{"key_fill", "text[], boolean[], integer[], timestamptz[], timestamptz, jsonb"},
		{"key_park", "text, uuid"},
		{"key_unblock", "uuid[]"}, {"key_sweep", "integer"}, {"key_look", "boolean, text, integer"},
	}
}
