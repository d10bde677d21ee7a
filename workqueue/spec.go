package workqueue

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/internal/announce"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// Defaults of a [Spec] and of what is built on it. Each is declared here once, with its reason.
const (
	// DefaultSchema is where txwork keeps its tables unless told otherwise.
	DefaultSchema = "txwork"

	// DefaultMaxAttempts bounds how often a row is started. With [DefaultRetry] the attempts take an hour at least, see
	// [Retry.Span]: longer than a failover, or a deployment that is rolled back. A domain that usually calls other
	// systems has a default of its own, which lasts longer.
	DefaultMaxAttempts = 15

	// DefaultMaxLost is the MaxLost of the domains whose attempts last for hours: their attempts are meant for calls
	// that fail, and each lost lease may have cost a process.
	DefaultMaxLost = 10

	// DefaultRetention is how long a Done or cancelled row is kept: a week answers most "did it run?" questions. Dead
	// letters are kept until an operator decides.
	DefaultRetention = 7 * 24 * time.Hour
)

// longestSuffix is the longest text that is appended to a table's name to derive another one.
const longestSuffix = "_attempts_check"

// A Spec describes one domain table: what the core needs to know in order to claim from it, settle in
// it and create it. It is plain data; [Open] validates it.
//
// The zero value of every field but Table is usable.
type Spec struct {
	// Schema holds the table and its functions. Default: [DefaultSchema].
	Schema string

	// Table is the table's name, at most 48 bytes, since the names of functions, indexes and
	// constraints derive from it.
	Table string

	// Columns are the domain's own columns. In the table those of a fixed width that are NotNull stand among the
	// core's, see ADR 0017; the others follow in this order.
	Columns []Column

	// Lanes names the columns on which every claim has an equality test, such as queue and priority.
	// They lead the claim index, so a claim of one lane never reads another's rows.
	Lanes []string

	// Admission names the lane whose values have rules of their own: pauses, limits, rates. Each claim asks them, by
	// every way in, with the functions that the domain's migration makes:
	//
	//	<table>_admit(value, want integer)
	//	    RETURNS TABLE (admitted integer, again double precision, bounded boolean, held text)
	//	<table>_starts(value, want integer) RETURNS bigint[]
	//	<table>_permit(value, want integer) RETURNS integer[]
	//	<table>_take(value, owner_token uuid, ids uuid[], permits integer[], starts bigint[]) RETURNS void
	//	<table>_give_start(value, owner_token uuid, ids uuid[]) RETURNS void
	//
	// admit is called before the claim, in its transaction: how many rows may be claimed; if they are fewer than
	// wanted, after how many seconds to ask again, where 0 leaves that to the poll interval; whether the value has a
	// rule at all; and what keeps rows back: paused, limit, rate, busy or NULL. Unless there is no rule, starts and
	// permit are called then: they lock so many starts of a rate and permits to run, which no claim has beside this one
	// until it commits, and of which a NULL counts as none. The claim takes at most as many rows as it has of both. A
	// result that is NULL bounds nothing. take is called in the same statement with the rows that were claimed, and
	// with permits and starts. give_start is called, rule or not, by the statement that puts rows back that were
	// claimed and have not started. None of them may wait, and an error of give_start would keep the rows from being
	// settled. Workers ask for a value that had no rule when they asked last only twice a second. Default: every due
	// row may be claimed.
	Admission string

	// Topics say to which topic a row belongs, so that a topic can be paused and has a share of each worker's places.
	// Default: rows have no topics.
	Topics Topics

	// Unique names columns of which at most one row may hold the same values, while none of them is
	// NULL. Enqueueing such a row again changes nothing and reports the row that is there.
	Unique []string

	// Labels names up to two columns of type text, such as kind and queue, whose values metrics, spans and logs of a
	// row carry. Metrics tell at most 100 combinations of them apart. Default: none.
	Labels []string

	// KeyColumn names a column: a row in which it is set waits again when it is redriven, until it is released like
	// before. Package keyed needs it. Default: none.
	KeyColumn string

	// FreedColumn names a column of type text in which a row keeps the value of its only Unique column when it gives
	// that up, as jobs do when they fail: the domain's triggers move it there. The Unique column is of that type, too,
	// and both may be NULL. A redrive gives the row its value back, and leaves it alone while another row holds the
	// value. Default: rows keep their unique values.
	FreedColumn string

	// KeptColumn names a column of type smallint in which 4 is set if a row keeps its unique value when it is done. An
	// ack then takes the value of every other row in its own UPDATE. A Spec with it has a FreedColumn, too: what else
	// ends a row leaves its value to the domain's triggers. Default: an ack leaves all values to them.
	KeptColumn string

	// PriorityColumn names a lane of type smallint whose values are 1, 2 and 3, which the domain's migration enforces:
	// rows of other values that wait for a limited key would wait for ever. Among the rows that wait for such a key,
	// those with the least value go first, see package keyed. Default: they go by due time.
	PriorityColumn string

	// Version is the version of the table that this Spec describes. Raise it with each migration that changes the
	// table. It is independent of the core's, [SchemaVersion], and of those of other tables. Default: 1.
	Version int

	// OldestTable is the oldest version of the table with which programs of this Spec work: one that lacks nothing that
	// they need. On such a table they start, and log that a migration is pending. Default: Version.
	OldestTable int

	// OldestProgram is the oldest Version of a Spec whose programs can use the table of this one: it has all that they
	// need, and accepts what they write. [Spec.DDL] writes it on the table. Default: Version.
	OldestProgram int

	// Companion is a table beside this one without which it cannot be used, and which programs of this Spec use, too.
	// What checks the version of the table checks that of its companion. Default: none.
	Companion Companion

	// MaxHeaders is how many bytes the names and values of a row's headers may have together. Default 0: any number.
	MaxHeaders int

	// MaxAttempts is the default of the table's max_attempts column. Default: [DefaultMaxAttempts].
	MaxAttempts int

	// MaxLost is how many leases a row may lose alone, with which it probably ended its process each time: then it is a
	// dead letter, whatever attempts are left. It concerns only rows with the table's own MaxAttempts, since who sets
	// another number sets it for such losses, too. Default 0: only the attempts count.
	MaxLost int

	// Retry is the backoff between attempts if neither the handler nor the row names another. Default: [DefaultRetry].
	// Its [Retry.Span] says how long MaxAttempts last.
	Retry Retry

	// Retention is how long the reaper keeps Done rows, and rows that were cancelled. Default: [DefaultRetention].
	// With DeleteDone there are only the latter.
	Retention time.Duration

	// FailedRetention is how long the reaper keeps dead letters: Failed rows that were not cancelled. Default 0: for
	// ever.
	FailedRetention time.Duration

	// Sweeps are the suffixes of SQL functions <schema>.<table>_<suffix>(max_rows integer) RETURNS integer, which the
	// domain's migration makes. They make the changes that only the passage of time brings about, and repair. They
	// return how many rows they changed. Workers call them beside their claims, about once a second and at a bounded
	// share of their time; so does every round of the reaper. One that has changed rows may leave what is to be logged
	// as a warning in the setting txwork.told_<suffix> of its transaction: a JSON array of objects with a message and
	// other facts.
	Sweeps []string

	// Folds are the functions of the domain that apply what its triggers have noted, in the order in which they are
	// called, see [Fold]. Default: none.
	Folds []Fold

	// Writer is the SQL function that writes rows, for programs that do not use this library.
	Writer Writer

	// DeleteDone makes ack delete the row: the fastest, at the price of the audit trail. A settle that
	// is repeated can then only say that the row is gone, see [ErrGone].
	DeleteDone bool
}

// A Column is a domain column of a [Spec].
type Column struct {
	Name string
	// bigint, boolean, bytea, date, double precision, integer, jsonb, numeric, smallint, text, timestamptz or uuid
	Type    string
	NotNull bool
	Bound   Bound // what its values may be; by default whatever the type holds

	// Internal keeps the column out of claims: it is bookkeeping of triggers, which no handler looks at. [Row].Values
	// is without it, and [Domain].Columns does not store it. A lane cannot be internal.
	Internal bool

	// Written says how the table's SQL function for new rows writes the column, see [Writer]. Default: by a parameter
	// with the column's name and type, which has to be given if the column is NotNull; an Internal column is not
	// written.
	Written *Written
}

// coreColumns are the columns that every domain table has.
var coreColumns = []string{
	"id", "due_at", "created_at", "max_attempts", "attempts", "status", "waiting", "locked_until", "owner_token",
	"completed_at", "failed_at", "cancelled_at", "last_error", "headers", "retry",
}

// fetchedColumns are the columns that the SQL function fetch returns beside those of the table.
var fetchedColumns = []string{"entry", "place", "lost", "again_in", "more", "held", "cursor"}

// systemColumns are those that PostgreSQL gives every table.
var systemColumns = []string{"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"}

// parameterNames are taken by the SQL functions, whose parameters include the lanes.
var parameterNames = []string{"lease", "n", "heard", "sweep", "lease_seconds", "batch_size", "ids", "delay_seconds",
	"error", "max_rows"}

// Validate reports the first thing that is wrong with the Spec, naming the field.
func (s Spec) Validate() error {
	s = s.withDefaults()
	checks := []func() error{
		s.validateNames, s.validateColumns, s.validateLanes, s.validateAdmission, s.validateTopics, s.validateUnique,
		s.validateLabels, s.validateKeyColumn,
		s.validateFreedColumn, s.validatePriorityColumn, s.validateSweeps, s.validateFolds,
		s.validateWriter, s.validateVersion, s.validateLimits,
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (s Spec) withDefaults() Spec {
	s.Schema = cmp.Or(s.Schema, DefaultSchema)
	s.Version = cmp.Or(s.Version, 1)
	s.OldestTable = cmp.Or(s.OldestTable, s.Version)
	s.OldestProgram = cmp.Or(s.OldestProgram, s.Version)
	s.MaxAttempts = cmp.Or(s.MaxAttempts, DefaultMaxAttempts)
	s.Retention = cmp.Or(s.Retention, DefaultRetention)
	if s.Retry == (Retry{}) {
		s.Retry = DefaultRetry
	}
	return s
}

func (s Spec) validateNames() error {
	if err := checkIdentifier("schema", s.Schema); err != nil {
		return err
	}
	if strings.HasPrefix(s.Schema, "pg_") || s.Schema == "information_schema" {
		return invalid("schema", "%q is reserved by PostgreSQL", s.Schema)
	}
	if err := checkIdentifier("table", s.Table); err != nil {
		return err
	}
	if n := len(s.Table) + len(longestSuffix); n > postgres.IdentifierLimit {
		return invalid("table", "%q is too long: %s%s has %d bytes, PostgreSQL cuts names at %d",
			s.Table, s.Table, longestSuffix, n, postgres.IdentifierLimit)
	}
	if n := len(s.channel()); n > postgres.IdentifierLimit {
		return invalid("table",
			"%q is too long for schema %q: the LISTEN channel %s has %d bytes, PostgreSQL allows %d",
			s.Table, s.Schema, s.channel(), n, postgres.IdentifierLimit)
	}
	return nil
}

func (s Spec) validateColumns() error {
	seen := map[string]bool{}
	for _, c := range s.Columns {
		if err := checkIdentifier("column", c.Name); err != nil {
			return err
		}
		if slices.Contains(coreColumns, c.Name) {
			return invalid("column", "%q is a column that the core has already", c.Name)
		}
		if slices.Contains(fetchedColumns, c.Name) {
			return invalid("column", "%q is a column that the SQL function fetch returns for every table", c.Name)
		}
		if slices.Contains(systemColumns, c.Name) {
			return invalid("column", "%q is a system column of PostgreSQL", c.Name)
		}
		if seen[c.Name] {
			return invalid("column", "%q is listed twice", c.Name)
		}
		if !slices.Contains(postgres.ColumnTypes, c.Type) {
			return invalid("column", "%q has type %q, it must be one of %v", c.Name, c.Type, postgres.ColumnTypes)
		}
		if err := s.validateBound(c); err != nil {
			return err
		}
		seen[c.Name] = true
	}
	return nil
}

func (s Spec) validateLanes() error {
	for i, name := range s.Lanes {
		c, ok := s.column(name)
		if !ok {
			return invalid("lanes", "%q is none of the columns", name)
		}
		if !c.NotNull {
			return invalid("lanes",
				"column %q must be NotNull: NULL equals nothing, so its rows could never be claimed", name)
		}
		if c.Internal {
			return invalid("lanes", "column %q must not be Internal: claims tell the lane of a row by it", name)
		}
		if slices.Contains(parameterNames, name) {
			return invalid("lanes", "%q is the name of a parameter of the table's SQL functions", name)
		}
		if slices.Contains(s.Lanes[:i], name) {
			return invalid("lanes", "%q is listed twice", name)
		}
	}
	return nil
}

func (s Spec) validateAdmission() error {
	if s.Admission != "" && !slices.Contains(s.Lanes, s.Admission) {
		return invalid("admission", "%q is none of the lanes %v", s.Admission, s.Lanes)
	}
	return nil
}

func (s Spec) validateUnique() error {
	for i, name := range s.Unique {
		if _, ok := s.column(name); !ok {
			return invalid("unique", "%q is none of the columns", name)
		}
		if slices.Contains(s.Unique[:i], name) {
			return invalid("unique", "%q is listed twice", name)
		}
	}
	return nil
}

func (s Spec) validateKeyColumn() error {
	if _, ok := s.column(s.KeyColumn); s.KeyColumn != "" && !ok {
		return invalid("key column", "%q is none of the columns", s.KeyColumn)
	}
	return nil
}

func (s Spec) validateFreedColumn() error {
	if c, _ := s.column(s.KeptColumn); s.KeptColumn != "" && (c.Type != "smallint" || s.FreedColumn == "") {
		return invalid("kept column", "%q is no column of type smallint, or there is no freed column", s.KeptColumn)
	}
	if s.FreedColumn == "" {
		return nil
	}
	if len(s.Unique) != 1 || s.Unique[0] == s.FreedColumn {
		return invalid("freed column", "%q needs one other column in Unique, whose value it keeps", s.FreedColumn)
	}
	for _, name := range []string{s.FreedColumn, s.Unique[0]} {
		if c, _ := s.column(name); c.Type != "text" || c.NotNull {
			return invalid("freed column", "%q and %q must be columns of type text that may be NULL", s.FreedColumn,
				s.Unique[0])
		}
	}
	return nil
}

func (s Spec) validatePriorityColumn() error {
	if s.PriorityColumn == "" {
		return nil
	}
	if c, _ := s.column(s.PriorityColumn); c.Type != "smallint" || !slices.Contains(s.Lanes, s.PriorityColumn) {
		return invalid("priority column", "%q is no lane of type smallint", s.PriorityColumn)
	}
	return nil
}

func (s Spec) validateFolds() error {
	for _, f := range s.Folds {
		if err := checkIdentifier("fold", s.Table+"_"+f.Suffix); err != nil {
			return err
		}
		if err := checkIdentifier("notes of a fold", s.Table+"_"+f.Notes); err != nil {
			return err
		}
		if _, ok := s.column(f.Column); !ok {
			return invalid("folds", "%s: %q is none of the columns", f.Suffix, f.Column)
		}
	}
	return nil
}

func (s Spec) validateSweeps() error {
	for _, suffix := range s.Sweeps {
		if err := checkIdentifier("sweep", s.Table+"_"+suffix); err != nil {
			return err
		}
	}
	return nil
}

func (s Spec) validateLimits() error {
	if s.MaxAttempts < 1 || s.MaxAttempts > maxAttemptsLimit {
		return invalid("max attempts", "is %d, it must be between 1 and %d", s.MaxAttempts, maxAttemptsLimit)
	}
	if s.MaxLost < 0 || s.MaxLost > maxLostLimit {
		return invalid("max lost", "is %d, it must be between 1 and %d, or 0 for no limit of its own", s.MaxLost,
			maxLostLimit)
	}
	if s.MaxHeaders < 0 {
		return invalid("max headers", "is %d, it cannot be negative", s.MaxHeaders)
	}
	if s.Retention < 0 {
		return invalid("retention", "is %v, it cannot be negative; to keep nothing set DeleteDone", s.Retention)
	}
	if s.FailedRetention < 0 {
		return invalid("failed retention", "is %v, it cannot be negative", s.FailedRetention)
	}
	if s.Retention > maxDelay || s.FailedRetention > maxDelay {
		return invalid("retention", "is %v, at most %v is allowed", max(s.Retention, s.FailedRetention), maxDelay)
	}
	return s.Retry.validate()
}

// claimed are the columns that a claim returns.
func (s Spec) claimed() []Column {
	return slices.DeleteFunc(slices.Clone(s.Columns), func(c Column) bool { return c.Internal })
}

func (s Spec) column(name string) (Column, bool) {
	i := slices.IndexFunc(s.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return Column{}, false
	}
	return s.Columns[i], true
}

// Name is the table's qualified name without quotes, as messages and telemetry show it.
func (s Spec) Name() string {
	s = s.withDefaults()
	return s.Schema + "." + s.Table
}

// channel is the LISTEN channel on which inserts into the table are announced.
func (s Spec) channel() string { return s.Name() }

// announcing is the table for the SQL of its announcements.
func (s Spec) announcing() announce.Table { return announce.Table{Name: s.Name(), Lanes: s.Lanes} }

// Announce is the SQL call that wakes the table's workers when its transaction commits, for the statements of a
// domain that make rows claimable, also for a fold that has released rows. Its payload is the transaction's start in
// microseconds: no row that the transaction makes claimable is due earlier, so a claim cursor that is past that time
// can move back to it. PostgreSQL folds equal notifications of a transaction into one.
func (s Spec) Announce() string { return s.announcing().Rows("pg_catalog.now()") }

// AnnounceNote is the statement in PL/pgSQL that ends a trigger which has written a note, see [Fold]: unless the
// transaction is that of a worker, which folds by itself, it has the workers fold when the transaction commits.
func (s Spec) AnnounceNote() string { return s.announcing().NoteStatement() }

// AnnounceExternal is the call, in SQL, that tells every [External] of the table's workers of messages when the
// transaction commits: [External.Listen] gets what the expression says. NOTIFY has all committing transactions of the
// server wait for one lock, so who calls it for each message has to bound the rate.
func (s Spec) AnnounceExternal(what string) string { return s.announcing().External(what) }

// foldPromise is the setting of a transaction whose owner folds this table's notes right after its commit.
func (s Spec) foldPromise() string { return conn.SetLocal(announce.FoldsSetting, s.Name()) }

// quote makes an identifier safe to stand in a statement. Validate has refused everything that would
// need escaping, so this keeps reserved words usable.
func quote(name string) string { return `"` + name + `"` }

func (s Spec) validateLabels() error {
	if len(s.Labels) > telemetry.MaxLabels {
		return invalid("labels", "has %d columns, at most %d are allowed", len(s.Labels), telemetry.MaxLabels)
	}
	for i, name := range s.Labels {
		c, ok := s.column(name)
		if !ok || c.Type != "text" || c.Internal {
			return invalid("labels", "%q must be one of the columns, of type text and not Internal", name)
		}
		if slices.Contains(s.Labels[:i], name) {
			return invalid("labels", "%q is listed twice", name)
		}
	}
	return nil
}

var namedParameter = regexp.MustCompile(`@([a-z_][a-z0-9_]*)`)
