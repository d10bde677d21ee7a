package workqueue

import (
	"fmt"
	"slices"
	"time"
)

// A Writer is the SQL function <table>_<Name>, through which programs that do not use this library write rows. It does
// for one row what [Table.Insert] does, with the rights of its caller, and returns the row's id and whether the row is
// a duplicate. Its parameters are those of the columns, see [Column].Written; then scheduled_at, headers, max_attempts
// and id. Those that need not be given have defaults. The zero value suits any table.
//
// The function <table>_<Name>_many does so for an array of JSON objects, whose fields are the parameters, in one
// statement as far as Found, Change and Alone allow.
//
// The parameter of the payload may be text, json, jsonb or bytea: there is a function for each. A literal without a
// type, and a parameter of a driver that names no type, is text, whose bytes are stored as UTF-8.
//
// SQL in a Writer and in [Written] names a parameter as @name, and runs with search_path = pg_catalog. In Found and
// Change @id is the id that the function returns, @table the table, @announce the call that wakes its workers,
// @default_attempts the table's MaxAttempts, and @new_<column> the value that a new row has in a column. @name of a
// function in Calls is that function.
type Writer struct {
	// Name is the end of the function's name. Default: enqueue. `txwork roles` gives rights on the functions of tables
	// of your own if they have the default.
	Name string

	// None makes no function.
	None bool

	// Payload names the parameter of the payload, of type bytea. Default: the first parameter of that type, if there is
	// one.
	Payload string

	// Params are further parameters, with defaults, after all others.
	Params []Param

	// Checks refuse rows, after the first one that is violated.
	Checks []Check

	// Calls are the functions <table>_<name> that its SQL calls.
	Calls []string

	// Begin are statements in PL/pgSQL that run after the checks, before anything is written. They may set parameters.
	Begin string

	// Results are parameters that are returned beside id and duplicate. They are set by Found.
	Results []Param

	// Found are statements for a duplicate, in PL/pgSQL, with the id of the row that is there.
	Found string

	// Change are statements in PL/pgSQL that change the row with the same unique values, if there is one, and return.
	// They run before each attempt to insert. Default: such a row stays as it is.
	Change string

	// ChangeMany is a statement that does so for many rows, of which no two have the same unique values. @name is the
	// array of a parameter, and it returns ord, the place in the arrays, and id, which is NULL if there is no such row.
	// Default: many rows are written one at a time.
	ChangeMany string

	// Alone is a condition for rows that are not written by the statement for many, but one at a time. Default: none.
	Alone string
}

// A Check is a condition in SQL that has to be true. Otherwise the call is refused with SQLSTATE 22023. The error's
// field for a column has the parameter, its text the parameter and the message, such as "topic must have 1 to 255
// bytes", and the hint says what to do. If is a condition under which it is checked; empty: always. It spares callers
// a Condition with a subquery, for which PL/pgSQL starts an executor at each call.
type Check struct{ Parameter, If, Condition, Message, Hint string }

// A Param is a parameter of a SQL function. An empty Default means that it has to be given. One that is Added to a
// function that has callers stands behind all others, so that calls which do not name it mean what they meant.
type Param struct {
	Name, Type, Default string
	Added               bool
}

// Written is how a [Writer] writes a column: an expression in SQL, with the parameters that it adds and their checks.
// Without an expression the column is not written.
type Written struct {
	As     string
	Params []Param
	Checks []Check

	// Lock is an expression for the advisory lock that the insert takes for this column, or NULL: a writer of many rows
	// takes these locks first, in their order, if there are no more of them than MaxLocks. @table_name is the table's
	// name in a literal.
	Lock, MaxLocks string
}

// defaultWriter is the end of the name of the function that writes rows.
const defaultWriter = "enqueue"

// written is how the column is written by the SQL function.
func (c Column) written() Written {
	switch {
	case c.Written != nil:
		return *c.Written
	case c.Internal:
		return Written{}
	}
	p := Param{Name: c.Name, Type: c.Type, Default: "NULL"}
	if c.NotNull {
		p.Default = ""
	}
	if c.Type == "smallint" { // a literal is an integer, and would not be taken for one
		p.Type = "integer"
		return Written{Params: []Param{p}, As: "@" + p.Name + "::smallint"}
	}
	return Written{Params: []Param{p}, As: "@" + p.Name}
}

// writerCore are the parameters of every writer, after its own.
var writerCore = []Param{{Name: "scheduled_at", Type: "timestamptz", Default: "NULL"},
	{Name: "headers", Type: "jsonb", Default: "NULL"}, {Name: "max_attempts", Type: "integer", Default: "NULL"},
	{Name: writerID, Type: "uuid", Default: "NULL"}}

// writerID is the parameter with the id of the new row, which also returns it.
const writerID = "id"

// writerParams are the parameters in their order: those that have to be given, the payload, the others, and those that
// are Added.
func (s Spec) writerParams() []Param {
	var params []Param
	for _, c := range s.Columns {
		params = append(params, c.written().Params...)
	}
	for _, p := range writerCore {
		if !slices.ContainsFunc(params, func(own Param) bool { return own.Name == p.Name }) {
			params = append(params, p)
		}
	}
	params = append(params, s.Writer.Params...)
	payload := s.writerPayload(params)
	rank := func(p Param) int {
		switch {
		case p.Added:
			return 3
		case p.Name == payload:
			return 1
		case p.Default == "":
			return 0
		}
		return 2
	}
	slices.SortStableFunc(params, func(a, b Param) int { return rank(a) - rank(b) })
	return params
}

func (s Spec) writerPayload(params []Param) string {
	if s.Writer.Payload != "" {
		return s.Writer.Payload
	}
	for _, p := range params {
		if p.Type == "bytea" {
			return p.Name
		}
	}
	return ""
}

// coreFields are the columns of the core that every writer writes. newPrefix is before the name of a column whose new
// value is meant.
var coreFields = []string{"due_at", "max_attempts", "headers"}

const newPrefix = "new_"

// maxParams is how many parameters a function of PostgreSQL may have, with what it returns.
const maxParams = 100

func (s Spec) validateWriter() error {
	if s.Writer.None {
		return nil
	}
	if err := checkIdentifier("writer", s.Table+"_"+s.writerName()+manySuffix); err != nil {
		return err
	}
	params := slices.Concat(s.writerParams(), s.Writer.Results)
	if n := len(params) + 1; n > maxParams {
		return invalid("writer", "has %d parameters, a function may have %d: set Writer.None, or Column.Written", n,
			maxParams)
	}
	names := []string{"duplicate"}
	for _, p := range params {
		if slices.Contains(names, p.Name) {
			return invalid("writer", "of table %q has two parameters named %q, one of which may be its own: set "+
				"Writer.None, or Column.Written", s.Table, p.Name)
		}
		names = append(names, p.Name)
	}
	if err := s.validateMany(); err != nil {
		return err
	}
	names = append(names, s.Writer.Calls...)
	for _, name := range coreFields {
		names = append(names, newPrefix+name)
	}
	for _, c := range s.Columns {
		if c.written().As != "" {
			names = append(names, newPrefix+c.Name)
		}
	}
	return s.validateWriterSQL(append(names, "table", "table_name", "announce", "default_attempts"))
}

// validateWriterSQL refuses SQL that names a parameter which the function does not have.
func (s Spec) validateWriterSQL(names []string) error {
	texts := []string{s.Writer.Begin, s.Writer.Found, s.Writer.Change, s.Writer.ChangeMany, s.Writer.Alone}
	for _, c := range s.writerChecks() {
		if !slices.Contains(names, c.Parameter) || c.Message == "" || c.Hint == "" {
			return invalid("writer", "of table %q has a check of %q without a parameter, a message or a hint", s.Table,
				c.Condition)
		}
		texts = append(texts, c.If, c.Condition)
	}
	for _, c := range s.Columns {
		texts = append(texts, c.written().As, c.written().Lock)
	}
	for _, text := range texts {
		for _, m := range namedParameter.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(names, m[1]) {
				return invalid("writer", "of table %q has no parameter %q", s.Table, m[1])
			}
		}
	}
	return nil
}

func (s Spec) writerName() string {
	if s.Writer.Name != "" {
		return s.Writer.Name
	}
	return defaultWriter
}

// dueText is a time in a literal.
func dueText(t time.Time) string { return t.Format(time.DateTime) + "+00" }

// writerChecks are those of every writer, of the columns, and of this one.
func (s Spec) writerChecks() []Check {
	checks := []Check{
		{Parameter: "headers", Condition: "@headers IS NULL OR jsonb_typeof(@headers) = 'object'",
			Message: "must be a JSON object", Hint: "Give an object of texts, or NULL for none."},
		{Parameter: "scheduled_at",
			Condition: fmt.Sprintf("@scheduled_at IS NULL OR @scheduled_at BETWEEN '%s' AND '%s'", dueText(minDue),
				dueText(maxDue)),
			Message: "must be between 1970 and 9999", Hint: "NULL and a time in the past mean now."},
		{Parameter: "max_attempts",
			Condition: fmt.Sprintf("@max_attempts IS NULL OR @max_attempts BETWEEN 1 AND %d", maxAttemptsLimit),
			Message:   fmt.Sprintf("must be between 1 and %d", maxAttemptsLimit), Hint: "NULL is the table's own."},
	}
	for _, c := range s.Columns {
		checks = append(checks, c.written().Checks...)
	}
	params := s.writerParams()
	for _, c := range s.Columns {
		is := func(p Param) bool { return p.Name == c.Name }
		if (c.NotNull || c.Bound != (Bound{})) && slices.ContainsFunc(params, is) {
			checks = append(checks, c.writerCheck())
		}
	}
	checks = append(checks, s.Writer.Checks...)
	if s.MaxHeaders > 0 {
		checks = append(checks, Check{
			Parameter: "headers",
			If:        "@headers IS NOT NULL",
			Condition: fmt.Sprintf("(SELECT coalesce(sum(octet_length(h.name) + coalesce(octet_length(h.value), 0)), 0) "+
				"FROM jsonb_each_text(@headers) AS h (name, value)) <= %d", s.MaxHeaders),
			Message: fmt.Sprintf("must have at most %d bytes", s.MaxHeaders),
			Hint:    "Put what is larger into the payload.",
		})
	}
	return checks
}
