package workqueue

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/internal/conn"
)

// A form is how the values of one column travel in an insert.
type form byte

const (
	absent  form = 'a' // no row has one
	common  form = 'c' // all rows have the same
	varying form = 'v' // each row has its own, or none
)

// A shape is what an insert statement depends on. Most calls of an application have one of a few shapes.
type shape struct {
	forms   string // one [form] for each of the table's insert fields
	one     bool   // for a single row
	guarded bool   // against unique values that are taken
	once    bool   // against ids that are taken, too
}

// An insertField is a column as an insert sees it.
type insertField struct {
	columnView
	wrap     string // a format that makes the column's value from what is sent
	fallback string // the value where no row has one
	form     form
}

// coreFields are the core's columns that an insert sets, in the order of [NewRow.coreValues].
func (v view) coreFields() []insertField {
	field := func(name, typ, wrap, fallback string) insertField {
		return insertField{columnView: columnView{Quoted: name, Alias: name, Param: name, Bind: typ}, wrap: wrap,
			fallback: fallback}
	}
	return []insertField{
		field("due_at", "timestamptz", "greatest(%s, now())", "now()"),
		field("max_attempts", "int", fmt.Sprintf("coalesce(%%s, %d)", v.MaxAttempts), fmt.Sprint(v.MaxAttempts)),
		field("waiting", "boolean", "coalesce(%s, false)", "false"),
		field("headers", "text", "%s::jsonb", "NULL"),
		field("retry", "text", "%s::jsonb", "NULL"),
	}
}

// insertFields are all columns that an insert sets, beside the id.
func (v view) insertFields() []insertField {
	fields := v.coreFields()
	for _, c := range v.Columns {
		wrap := "%s"
		if c.Cast {
			wrap = "%s::" + c.Type
		}
		fields = append(fields, insertField{columnView: c, wrap: wrap, fallback: "NULL"})
	}
	return fields
}

// Value is the column's expression in the statement.
func (f insertField) Value() string {
	switch f.form {
	case absent:
		return f.fallback
	case common:
		return fmt.Sprintf(f.wrap, "@"+f.Param+"::"+f.Bind)
	}
	return fmt.Sprintf(f.wrap, "s."+f.Alias)
}

// An insertView is what insert.sql sees.
type insertView struct {
	view
	Fields, Varying []insertField
	One, Guarded    bool
	Once            bool
	Returns         bool     // the ids that it has written
	Condition       string   // for the rows that are written; empty: none
	Order           []string // before the order of the rows
}

// insertStatement leaves out the columns of the domain that no row has. A row with a key is not written in a session
// without the table's triggers. Rows without a key are: they are claimed all the same, after the next poll.
func (v view) insertStatement(s shape) conn.Statement {
	in := insertView{view: v, One: s.one, Guarded: s.guarded, Once: s.once}
	for i, f := range v.insertFields() {
		f.form = form(s.forms[i])
		if f.form == absent && f.Name != "" {
			continue
		}
		if f.Name != "" && f.Name == v.spec.KeyColumn {
			in.Condition = postgres.RunsTriggers
		}
		if f.form == varying {
			in.Varying = append(in.Varying, f)
		}
		in.Fields = append(in.Fields, f)
	}
	return numbered("insert", v.bodyOf("insert", in))
}

// maxShapes bounds how many statements a table keeps, whatever its callers do.
const maxShapes = 256

// A preparedInsert is a rendered insert, and where its arguments are among the fields.
type preparedInsert struct {
	text string
	args []int // for $1, $2, …: the index of a field, or idArg
}

// idArg is the argument with the id of the row, or those of all.
const idArg = -1

// insertStatements are the rendered inserts of a table.
type insertStatements struct {
	view   view
	fields []insertField
	kept   sync.Map // shape to preparedInsert
	count  atomic.Int64
}

func (s *insertStatements) of(shape shape) preparedInsert {
	if kept, ok := s.kept.Load(shape); ok {
		return kept.(preparedInsert)
	}
	rendered := s.view.insertStatement(shape)
	p := preparedInsert{rendered.Text, slices.Repeat([]int{idArg}, len(rendered.Params))}
	for i, f := range s.fields {
		if n := slices.Index(rendered.Params, f.Param); n >= 0 {
			p.args[n] = i
		}
	}
	if s.count.Add(1) <= maxShapes {
		s.kept.Store(shape, p)
	}
	return p
}
