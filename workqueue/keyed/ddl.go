package keyed

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"time"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/internal/announce"
	"github.com/txwork/txwork/workqueue/internal/aside"
	"github.com/txwork/txwork/workqueue/internal/keys"
	"github.com/txwork/txwork/workqueue/validate"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

var templates = sqltext.Parse(sqlFiles, "sql/*.sql")

// KeyColumn is the Spec.KeyColumn of a table with keyed rows.
const KeyColumn = "concurrency_key"

// SweepSuffix belongs in the Spec.Sweeps of a table with keyed rows.
const SweepSuffix = "key_sweep"

// Fold belongs in the Spec.Folds of a table with keyed rows.
var Fold = workqueue.Fold{Suffix: "key_fold", Notes: "key_note", Column: KeyColumn, Fronts: true}

// sweepKeys bounds the keys of each sort that one sweep looks at, which takes some tens of milliseconds.
const sweepKeys = 1000

// ahead is how long before their time rows of a key with a rate are released. It is longer than the time between two
// folds, even on a busy machine, so that no part of the rate is lost.
const ahead = 250 * time.Millisecond

// DDL renders the statements that create what keyed rows need in addition to the table of a Spec that has [Columns],
// [Fold] and [SweepSuffix], and the statements that drop it. Append up to the up of [workqueue.Spec.DDL], and put down
// before the down of that.
func DDL(spec workqueue.Spec) (up, down string, err error) {
	if err := spec.Validate(); err != nil {
		return "", "", err
	}
	for _, c := range workqueue.ColumnsOf((*noRule).columns) {
		is := func(own workqueue.Column) bool { own.Written = c.Written; return own == c }
		if !slices.ContainsFunc(spec.Columns, is) {
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

// A view is the data of the templates.
type view struct {
	schema, table string
	spec          workqueue.Spec
}

func newView(spec workqueue.Spec) view {
	schema := spec.Schema
	schema = cmp.Or(schema, workqueue.DefaultSchema)
	return view{schema, spec.Table, spec}
}

// Table is the qualified name of the table.
func (v view) Table() string { return fmt.Sprintf("%q.%q", v.schema, v.table) }

// Named is a qualified name that derives from the table's name.
func (v view) Named(suffix string) string { return fmt.Sprintf("%q.%q", v.schema, v.table+"_"+suffix) }

// Constraint is Named without the schema, as in the definition of a constraint, a trigger or an index.
func (v view) Constraint(suffix string) string { return fmt.Sprintf("%q", v.table+"_"+suffix) }

// Announce is the SQL that tells workers of notes, and of the rows that a fold has released.
func (v view) Announce() announce.Table {
	return announce.Table{Name: v.spec.Name(), Lanes: v.spec.Lanes}
}

// WriterLock is the advisory lock that the writers of an ordered key hold until they commit.
func (v view) WriterLock(key string) string { return writerLock(v.schema+"."+v.table, key) }

func writerLock(table, key string) string {
	return fmt.Sprintf("hashtextextended('%s ' || %s, 1)", table, key)
}

// FoldLock is the advisory lock that lets only one session fold at a time.
func (v view) FoldLock() string {
	return fmt.Sprintf("hashtextextended('%s.%s key_fold', 0)", v.schema, v.table)
}

// MaxTurns is how many ordered keys one transaction may write.
func (view) MaxTurns() string { return sqltext.MaxTurns }

// maxPlace is the greatest place that a row may be written with. As many again are left for the rows behind it.
const maxPlace = 1 << 62

func (view) MaxPlace() int64 { return maxPlace }

// Bounded refuses a number of rows that the Go API would refuse, see [sqltext.Bounded].
func (view) Bounded(param, name string) string {
	return sqltext.Bounded(param, name, workqueue.MaxBatch)
}

// Settings pin the planner settings of the functions, whose statements each have one good plan, by index. There are few
// of them because every settle of a keyed row sets and resets them.
func (view) Settings() string {
	return "SET search_path = pg_catalog, pg_temp\nSET enable_seqscan = off\nSET enable_bitmapscan = off\nSET " +
		"enable_sort = off\nSET jit = off"
}

// FoldSettings are the settings of a fold, and of the functions that it calls. The plans are the same for all
// arguments. Without force_generic_plan the server would plan each fold anew, which takes twice as long as the fold
// itself.
func (v view) FoldSettings() string {
	return v.Settings() + "\nSET plan_cache_mode = force_generic_plan"
}

// OrderedWaits and the others are the conditions of package keys.
func (v view) OrderedWaits(row string) string { return v.rows().OrderedWaits(row) }
func (v view) LimitedWaits(row string) string { return v.rows().LimitedWaits(row) }
func (v view) Live(row string) string         { return v.rows().Live(row) }
func (v view) Obstacle(row string) string     { return v.rows().Obstacle(row) }
func (v view) WaitsForKey(row string) string  { return v.rows().Wait(row) }
func (v view) Released(row string) string     { return v.rows().Released(row) }

func (v view) rows() keys.Rows { return keys.Rows{HasTopics: v.hasTopics()} }
func (v view) hasTopics() bool { return len(v.spec.Topics.Columns) > 0 }

// SweepKeys is sweepKeys for the templates.
func (view) SweepKeys() int { return sweepKeys }

// MaxReleased bounds the rows of a key that one fold releases.
func (view) MaxReleased() int { return 1000 }

// MaxUpdates is how often a row of <table>_key_state is updated before a new row replaces it. It bounds the dead
// versions that a fold passes to find the row.
func (view) MaxUpdates() int { return 64 }

// Marked is true for one place in KnownEvery, a power of two: when the row of that place is released, the key gets a
// row in <table>_key_state. So keys with few rows cost nothing. The places are hashed because the places of a key may
// all be multiples of some number.
func (view) KnownEvery() int { return 8 }
func (v view) Marked(place string) string {
	return fmt.Sprintf("hashint8(%s) & %d = 0", place, v.KnownEvery()-1)
}

// Ahead is the constant ahead for the comments, and AheadInterval for the statements.
func (view) Ahead() string { return ahead.String() }
func (view) AheadInterval() string {
	return fmt.Sprintf("interval '%d milliseconds'", ahead.Milliseconds())
}

// After is the time a number of microseconds after another time, as far as it can be stored: a burst may be worth more
// years than an interval has. A gap of NULL, of a key without a rate, makes it NULL.
func (view) After(at, micros string) string {
	const most = "1e17" // 3,000 years
	return fmt.Sprintf("CASE WHEN %[2]s IS NOT NULL THEN greatest(least("+
		"%[1]s + greatest(least(%[2]s, %[3]s), -%[3]s) * interval '1 microsecond', "+
		"'9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00') END", at, micros, most)
}

// Gap is how many microseconds lie between two starts at a rate. It does not depend on the search_path.
func (view) Gap(rate string) string {
	const each = "1e6 OPERATOR(pg_catalog./) %[1]s"
	return fmt.Sprintf("CASE WHEN %[1]s OPERATOR(pg_catalog.<) 10000 THEN pg_catalog.ceil("+each+") ELSE "+each+" END",
		rate)
}

// NeverStarts is how many microseconds of its key's rate the former version of a row has that does not use them: it was
// released, and no worker had begun it. What is put back where it was is released, too; what has started waits again.
func (v view) NeverStarts() string {
	return fmt.Sprintf("CASE WHEN OLD.status OPERATOR(pg_catalog.=) 0 AND OLD.key_limit OPERATOR(pg_catalog.>) 0 "+
		"AND %s THEN %s END", v.Released("OLD"), v.Gap("OLD.key_rate"))
}

// NextAt is until when the burst of a key is used up after a fold; NULL: as before. Starts that were not used count
// even if no row waits, whose rate would be the key's.
func (v view) NextAt(key string) string {
	return fmt.Sprintf("CASE WHEN %[1]s.gap IS NOT NULL THEN %[2]s WHEN %[1]s.unused > 0 AND %[1]s.next_at IS NOT NULL "+
		"THEN %[3]s END", key, v.After(key+".first", fmt.Sprintf("%[1]s.released * %[1]s.gap - %[1]s.unused", key)),
		v.After(key+".next_at", "-"+key+".unused"))
}

// A level is a value of the priority by which the rows of a limited key go. A table without priorities has one level.
type level struct {
	N      int
	column string // empty: the table has no priorities
}

// Levels are the levels, the most urgent first.
func (v view) Levels() []level {
	if v.spec.PriorityColumn == "" {
		return []level{{N: 1}}
	}
	return []level{{1, v.spec.PriorityColumn}, {2, v.spec.PriorityColumn}, {3, v.spec.PriorityColumn}}
}

// At is the condition that a row has the level.
func (l level) At(row string) string { return l.condition(row, fmt.Sprint(l.N)) }

func (l level) condition(row, is string) string {
	if l.column == "" {
		return ""
	}
	return fmt.Sprintf(" AND %s.%q = %s::smallint", row, l.column, is)
}

// Since is the earliest due time of a waiting row of the level, by what is known of the key and what is noted.
func (l level) Since(key string) string {
	return fmt.Sprintf("CASE WHEN %[1]s.due[%[2]d] IS NOT NULL THEN least(%[1]s.due[%[2]d], %[1]s.noted)"+
		" ELSE '-infinity' END", key, l.N)
}

// AtLevel is the condition that a row has the level that an expression gives.
func (v view) AtLevel(row, is string) string { return v.Levels()[0].condition(row, is) }

// ByLevel is the beginning of the order of a limited key's rows: the level, if the table has any.
func (v view) ByLevel(row string) string {
	if v.spec.PriorityColumn == "" {
		return ""
	}
	if row != "" {
		row += "."
	}
	return fmt.Sprintf("%s%q, ", row, v.spec.PriorityColumn)
}

// By is by what the rows of a limited key go, for the comments.
func (v view) By() string {
	if v.spec.PriorityColumn == "" {
		return "due time"
	}
	return v.spec.PriorityColumn + " and due time"
}

// Priority is the column of the levels.
func (v view) Priority() string { return fmt.Sprintf("%q", v.spec.PriorityColumn) }

// NotAside is a further condition that does not hold for a row that has been set aside.
func (v view) NotAside() string { return aside.Not(v.hasTopics(), "NEW", "") }

// ChangesKey is the condition of an update by which a Ready row leaves its key for another. A row that its topic has
// set aside is none of these.
func (v view) ChangesKey() string {
	return aside.Not(v.hasTopics(), "NEW", "OLD.status = 0 AND NEW.status = 0") +
		" AND (NEW.concurrency_key IS DISTINCT FROM OLD.concurrency_key" +
		" OR (NEW.key_limit = 0) IS DISTINCT FROM (OLD.key_limit = 0))"
}

// LevelOrder is the order in which a fold takes the levels of a key. Every eighth time it begins with one that is less
// urgent, as claims do, so that none of them starves. By chance: a turn would have to be stored with each key.
func (v view) LevelOrder() string {
	if len(v.Levels()) == 1 {
		return "'{1}'::smallint[]"
	}
	return "CASE floor(random() * 16) WHEN 0 THEN '{2,1,3}' WHEN 1 THEN '{3,1,2}' ELSE '{1,2,3}' END::smallint[]"
}

// Unlimited is the limit of keys that only have a rate.
func (view) Unlimited() int { return unlimited }

// MaxKey, MinRate and MaxRate are the package's constants for the templates.
func (view) MaxKey() int      { return MaxKey }
func (view) MinRate() float64 { return MinRate }
func (view) MaxRate() float64 { return MaxRate }

// SeesAll refuses roles that do not see all rows of the table, its notes and its state, see [sqltext.SeesAll].
func (v view) SeesAll() string {
	return sqltext.SeesAll(v.Table(), v.Named("key_note"), v.Named("key_state"), v.Named("key_cursor"))
}

// SeesKeys is SeesAll for what reads only the table.
func (v view) SeesKeys() string { return sqltext.SeesAll(v.Table()) }

type function struct{ Name, Types string }

// Functions are the functions that the migration creates, in an order in which they can be dropped.
func (view) Functions() []function {
	return []function{
		{"key_enter", ""}, {"key_come", ""}, {"key_back", ""}, {"key_wait", ""}, {"key_note", ""}, {"key_move", ""},
		{"key_forget", ""},
		{"key_place", "text"},
		{"key_fold", "integer, timestamptz, jsonb"}, {"key_next", "text[], boolean[], integer[], bigint[], jsonb"},
		{"key_fill", "text[], boolean[], integer[], timestamptz[], double precision[], timestamptz, jsonb"},
		{"key_park", "text, uuid"},
		{"key_sweep", "integer"}, {"key_look", "boolean, text, integer"},
		{"key_policies", ""},
	}
}
