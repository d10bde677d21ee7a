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

// coreFields are the core's columns that an insert sets, in the order of [insertion.set].
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

// Condition refuses a session in which a row with a key would be written without its triggers. It is empty for rows
// without a key: those are claimed all the same, after the next poll.
func (v insertView) Condition() string {
	if v.only != "" {
		return v.only
	}
	keyed := slices.ContainsFunc(v.Fields, func(f insertField) bool {
		return f.Name != "" && f.Name == v.spec.KeyColumn && f.form != absent
	})
	if !keyed {
		return ""
	}
	return postgres.RunsTriggers
}

// An insertView is what insert.sql sees.
type insertView struct {
	view
	Fields, Varying []insertField
	One, Guarded    bool
	Once            bool
	Returns         bool     // the ids that it has written
	only            string   // a condition for the rows that are written
	Order           []string // before the order of the rows
}

func (v view) insertStatement(s shape) conn.Statement {
	in := insertView{view: v, Fields: v.insertFields(), One: s.one, Guarded: s.guarded,
		Once: s.once}
	for i := range in.Fields {
		in.Fields[i].form = form(s.forms[i])
	}
	in.Fields = slices.DeleteFunc(in.Fields, func(f insertField) bool { return f.Name != "" && f.form == absent })
	for i := range in.Fields {
		if in.Fields[i].form == varying {
			in.Varying = append(in.Varying, in.Fields[i])
		}
	}
	return numbered("insert", v.bodyOf("insert", in))
}

// maxShapes bounds how many statements a table keeps, whatever its callers do.
const maxShapes = 256

// insertStatements are the rendered inserts of a table.
type insertStatements struct {
	view   view
	fields []insertField
	kept   sync.Map // shape to statement
	count  atomic.Int64
}

func (s *insertStatements) of(shape shape) conn.Statement {
	if stmt, ok := s.kept.Load(shape); ok {
		return stmt.(conn.Statement)
	}
	stmt := s.view.insertStatement(shape)
	if s.count.Add(1) <= maxShapes {
		s.kept.Store(shape, stmt)
	}
	return stmt
}
