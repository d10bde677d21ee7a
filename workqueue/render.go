package workqueue

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/txwork/txwork/internal/header"
	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue/internal/conn"
)

// The statements live in sql/, one operation a file. They are rendered once per Spec, into constant
// text, both for the Go worker and as the SQL functions that ship with the table: one definition.
//
//go:embed sql/*.sql
var sqlFiles embed.FS

var sqlTemplates = sync.OnceValue(func() *template.Template {
	return template.Must(template.Must(template.New("lanes").Parse(sqltext.Lanes)).Funcs(template.FuncMap{
		"newID": func() string { return sqltext.NewID },
		"retry": func(spent, due string) retryBranch { return retryBranch{spent, due} },
		// A row that was cancelled keeps the reason, whatever its handler returns.
		"reason": func(otherwise string) string {
			return "CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE " + otherwise + " END"
		},
	}).ParseFS(sqlFiles, "sql/*.sql"))
})

// retryBranch has the arguments of retry_or_fail.sql: the condition under which a row's attempts are used up, and when
// it is due otherwise; empty: when it was.
type retryBranch struct{ Spent, Due string }

// statements are all of a table's operations.
type statements struct {
	findUnique, findIDs                    conn.Statement
	claim, admitted, byTopic               conn.Statement
	look, nextDue, nextWake, stats         conn.Statement
	settles                                [outcomeKinds]conn.Statement
	ackOne, extend                         conn.Statement
	run, settleRun                         conn.Statement
	classify, cancel, redrive, reapExpired conn.Statement
	unlocked, fold                         conn.Statement
	announceLook, announceLanes            conn.Statement
	announceNotes                          conn.Statement
	purgeDone, purgeFailed                 conn.Statement
}

func renderStatements(spec Spec) *statements {
	v := newView(spec)
	s := &statements{
		claim:       v.statement("claim"),
		look:        v.statement("look"),
		nextDue:     v.statement("next_due"),
		nextWake:    v.statement("next_wake"),
		stats:       v.statement("stats"),
		ackOne:      v.statement(v.settleFile(outcomeAck) + "_one"),
		extend:      v.statement("extend"),
		classify:    v.statement("classify"),
		unlocked:    v.statement("unlocked"),
		cancel:      v.statement("cancel"),
		redrive:     v.statement("redrive"),
		reapExpired: v.statement("reap_expired"),
		purgeDone:   v.statement("purge_done"),
		purgeFailed: v.statement("purge_failed"),
		findIDs:     v.statement("find_ids"),
	}
	for kind := range outcomeKinds {
		s.settles[kind] = v.statement(v.settleFile(kind))
	}
	s.redrive.Retakes = v.spec.FreedColumn != ""
	s.announceLook = v.statement("announce_look")
	if len(v.Lanes) > 0 {
		s.announceLanes = v.statement("announce_lanes")
	}
	if v.Admission != "" {
		s.admitted = v.statement("admitted")
	}
	if v.HasTopics() {
		s.byTopic = v.statement("by_topic")
	}
	if len(v.spec.Folds) > 0 {
		s.fold = v.foldStatement()
		s.announceNotes = v.announceNotes()
	}
	if v.hasRuns() {
		s.run, s.settleRun = v.statement("run"), v.statement("settle_run")
	}
	if len(v.Unique) > 0 {
		s.findUnique = v.statement("find_unique")
	}
	return s
}

// view is what the templates see of a Spec.
type view struct {
	spec                   Spec
	Table                  string
	Columns, Lanes, Unique []columnView
	MaxAttempts, MaxLost   int
	DeleteDone             bool
	Admission              string
	WholeRows              bool   // a claim returns whole rows, in one column
	Fetches                bool   // it returns all columns, and is inside of the function fetch
	Lists                  bool   // maintenance selects the ids of its rows and changes none
	Among                  string // a condition that restricts the rows of maintenance
	ByTopic                bool   // a claim sorts out rows whose topics may not start them
	Places                 bool   // it is told where the rows that it may take are
	Now                    string // the time at which rows are due
	Taken, AlsoSet         string // it claims rows whose ctids it has, and changes more of them
	IsLeaving, IsReleasing bool   // it puts rows back that have not started: after a delay, or where they were
	IsWaiting              bool   // it puts rows back until a time, not for a delay
	IsUnavailable          bool   // it puts rows back whose destination is unavailable
	InFunction             bool   // it is a part of a query in a function that settles
	uniqueColumns          []int  // where Unique is among the Columns
}

// columnView is a domain column as the templates see it.
type columnView struct {
	Column
	Quoted string
	Alias  string // its name inside unnest, where it cannot collide
	Param  string // its name as a parameter
	Bind   string // the element type it is sent as
	Cast   bool   // whether Bind differs from Type
}

// boundAsText are the types that not every driver can send in an array of their own.
var boundAsText = []string{"date", "jsonb", "numeric"}

func newView(spec Spec) view {
	spec = spec.withDefaults()
	v := view{
		spec:        spec,
		Table:       quote(spec.Schema) + "." + quote(spec.Table),
		MaxAttempts: spec.MaxAttempts,
		MaxLost:     spec.MaxLost,
		DeleteDone:  spec.DeleteDone,
		Admission:   spec.Admission,
		Now:         "now()",
	}
	for i, c := range spec.Columns {
		cv := columnView{Column: c, Quoted: quote(c.Name), Alias: fmt.Sprintf("c%d", i+1), Param: "column_" + c.Name,
			Bind: c.Type}
		if slices.Contains(boundAsText, c.Type) {
			cv.Bind, cv.Cast = "text", true
		}
		v.Columns = append(v.Columns, cv)
	}
	v.Lanes = v.pick(spec.Lanes)
	v.Unique = v.pick(spec.Unique)
	for _, c := range v.Unique {
		v.uniqueColumns = append(v.uniqueColumns, slices.Index(v.Columns, c))
	}
	return v
}

// alignments are the alignments of the types of fixed width. Next to max_attempts, whose alignment is 4, columns in
// this order have no gap between them.
var alignments = map[string]int{
	"bigint": 8, "timestamptz": 8, "double precision": 8, "integer": 4, "date": 4, "smallint": 2, "boolean": 1,
	"uuid": 1,
}

func fixed(c columnView) bool { return c.NotNull && alignments[c.Type] > 0 }

// FixedColumns stand before the columns that a claim and an ack change, and all others after those. The log of an
// update has the bytes from the first to the last that differ. So the columns that change stand together, and nothing
// between them moves.
func (v view) FixedColumns() []columnView {
	columns := slices.DeleteFunc(slices.Clone(v.Columns), func(c columnView) bool { return !fixed(c) })
	slices.SortStableFunc(columns, func(a, b columnView) int { return alignments[b.Type] - alignments[a.Type] })
	return columns
}

// OtherColumns are the rest, in the Spec's order.
func (v view) OtherColumns() []columnView { return slices.DeleteFunc(slices.Clone(v.Columns), fixed) }

func (v view) pick(names []string) []columnView {
	var picked []columnView
	for _, name := range names {
		i := slices.IndexFunc(v.Columns, func(c columnView) bool { return c.Name == name })
		picked = append(picked, v.Columns[i])
	}
	return picked
}

// Named is a name derived from the table's, such as that of an index.
func (v view) Named(suffix string) string { return quote(v.spec.Table + "_" + suffix) }

// Function is the qualified name of one of the table's functions.
func (v view) Function(name string) string { return quote(v.spec.Schema) + "." + v.Named(name) }

// Notify is the call that tells the table's workers of something else than rows, see [announce.Table.Notify].
func (v view) Notify(payload string) string { return v.spec.announcing().Notify("'" + payload + "'") }

// Stored is the type with which the table stores a column.
func (v view) Stored(c columnView) string {
	switch {
	case c.Bound.Stored:
		return quote(v.spec.Schema) + "." + quote(v.spec.valueType(c.Column))
	case c.Type == "timestamptz":
		return v.Function("time")
	}
	return c.Type
}

// StoredBounds are the columns with types of their own.
func (v view) StoredBounds() []columnView {
	return slices.DeleteFunc(slices.Clone(v.Columns), func(c columnView) bool { return !c.Bound.Stored })
}

// MaxDelayMicros is the longest delay, in microseconds.
func (v view) MaxDelayMicros() int64 { return maxDelay.Microseconds() }

// MinJitter is the smallest jitter besides 0.
func (v view) MinJitter() float64 { return minJitter }

// SeesAll refuses roles that do not see all rows of the table, see [sqltext.SeesAll].
func (v view) SeesAll() string { return sqltext.SeesAll(v.Table) }

// Announce is the call that wakes the table's workers, see [Spec.Announce].
func (v view) Announce() string { return v.spec.Announce() }

// AnnounceFrom is that call for rows that are due no earlier than a time.
func (v view) AnnounceFrom(due string) string { return v.spec.announcing().Rows(due) }

// MustAnnounce is its condition, see [announce.Table.Must].
func (v view) MustAnnounce() string { return v.spec.announcing().Must() }

// RedriveWaits is the condition under which a redriven row waits.
func (v view) RedriveWaits() string {
	if v.spec.KeyColumn == "" {
		return "false"
	}
	return "t." + quote(v.spec.KeyColumn) + " IS NOT NULL"
}

// Freed is the column with the unique value that a row has given up; empty: rows keep theirs.
func (v view) Freed() string {
	if v.spec.FreedColumn == "" {
		return ""
	}
	return quote(v.spec.FreedColumn)
}

// Kept is the column that says in which states a row keeps its unique value; empty: in all.
func (v view) Kept() string {
	if v.spec.KeptColumn == "" {
		return ""
	}
	return quote(v.spec.KeptColumn)
}

// Held is the column from which such a value comes.
func (v view) Held() string { return v.Unique[0].Quoted }

// MayRetake is the condition under which a row that is redriven gets its unique value back.
func (v view) MayRetake() string { return v.body("may_retake") }

// AbandonDue is the due time after a reported failure.
func (v view) AbandonDue() string {
	return fmt.Sprintf("clock_timestamp() + coalesce(s.delay * interval '1 microsecond', %s)",
		v.spec.Retry.sqlOrRow("t.attempts", "t.retry"))
}

// Leaving and Releasing are the view for putting rows back that have not started.
func (v view) Leaving() view {
	v.IsLeaving = true
	return v
}

func (v view) Releasing() view {
	v.IsReleasing = true
	return v
}

// Waiting is the view for putting rows back until a time.
func (v view) Waiting() view {
	v.IsWaiting = true
	return v
}

// DelayType is the type of what says when a row is due that is put back.
func (v view) DelayType() string {
	if v.IsWaiting {
		return "timestamptz"
	}
	return "bigint"
}

// PutBackDue is the due time of a row that is put back; empty: it keeps its own.
func (v view) PutBackDue() string {
	switch {
	case v.IsReleasing:
		return ""
	case v.Rests():
		return "CASE WHEN " + v.MayRest("t") + " THEN t.due_at ELSE " + v.RestEnd(v.LongestRest()) + " END"
	case v.IsUnavailable:
		return v.RestEnd(v.LongestRest())
	case v.IsWaiting:
		return "greatest(clock_timestamp(), s.delay)"
	}
	return "coalesce(clock_timestamp() + s.delay * interval '1 microsecond', t.due_at)"
}

// TellsBack reports that other workers are told of rows that are put back where they were.
func (v view) TellsBack() bool { return !v.IsLeaving && !v.IsUnavailable }

// PutBackRule returns the lane whose rule has counted a start that did not happen, and whose claim that was; empty:
// none has.
func (v view) PutBackRule() string {
	if v.Admission == "" || !v.IsLeaving && !v.IsReleasing {
		return ""
	}
	return ", t." + quote(v.Admission) + " AS rule, s.token AS owner"
}

// History is the array of the headers in which the database keeps what happened to a row.
func (view) History() string { return "ARRAY['" + strings.Join(header.History(), "', '") + "']" }

// Labels are the Spec's labels.
func (v view) Labels() (quoted []string) {
	for _, name := range v.spec.Labels {
		quoted = append(quoted, quote(name))
	}
	return quoted
}

// MaxReturns bounds how often a lease that was lost together with others does not count.
func (view) MaxReturns() int { return MaxReturns }

// ReapSpent is the condition under which a row whose lease has expired is not tried again.
func (v view) ReapSpent() string {
	used := "t.attempts >= t.max_attempts"
	if v.MaxLost > 0 {
		used = fmt.Sprintf("(%s OR NOT l.shared AND 1 + l.alone >= %d AND t.max_attempts = %d)", used, v.MaxLost,
			v.MaxAttempts)
	}
	return "NOT l.returned AND " + used + " OR t.cancelled_at IS NOT NULL"
}

// ReapDue is the due time after an expired lease.
func (v view) ReapDue() string {
	return fmt.Sprintf("greatest(clock_timestamp(), t.locked_until + %s)", v.spec.Retry.sqlOrRow("t.attempts",
		"t.retry"))
}

// settleFile is the file that settles rows with an outcome of a kind.
func (v view) settleFile(k outcomeKind) string {
	if v.spec.DeleteDone && outcomes[k].ends == Done {
		return outcomes[k].deletes
	}
	return outcomes[k].statement
}

// execute renders a template file. The files are embedded and every Spec is validated, so a failure is
// a defect of this package.
func (v view) execute(file string, data any) string { return v.template(file+".sql", data) }

func (view) template(name string, data any) string {
	var b strings.Builder
	if err := sqlTemplates().ExecuteTemplate(&b, name, data); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}

// statement renders an operation for a driver: named parameters become $1, $2, … and the comment, which
// is for the reader of the file, is not sent to the server.
func (v view) statement(file string) conn.Statement { return numbered(file, v.body(file)) }

func numbered(name, body string) conn.Statement {
	s := conn.Statement{Name: name}
	s.Text = namedParameter.ReplaceAllStringFunc(sqltext.Qualified(body), func(p string) string {
		i := slices.Index(s.Params, p[1:])
		if i < 0 {
			s.Params = append(s.Params, p[1:])
			i = len(s.Params) - 1
		}
		return fmt.Sprintf("$%d", i+1)
	})
	return s
}

// inline renders an operation with an expression in the place of every parameter, as a function body.
func (v view) inline(file string, expressions map[string]string) string {
	return v.replaced(v.body(file), file, expressions)
}

func (view) replaced(body, file string, expressions map[string]string) string {
	return namedParameter.ReplaceAllStringFunc(body, func(p string) string {
		expr, ok := expressions[p[1:]]
		if !ok {
			panic("sql/" + file + ".sql: no expression for parameter " + p)
		}
		return expr
	})
}

func (v view) body(file string) string { return v.bodyOf(file, v) }

// bodyOf is a rendered file without its comment.
func (v view) bodyOf(file string, data any) string {
	lines := strings.Split(v.execute(file, data), "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "--") }), "\n")
}
