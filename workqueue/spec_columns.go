package workqueue

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

var _ telemetry.Labelled = (*orEmpty)(nil)

// Columns is what a domain lists its columns to, in a function that names each once, with the field that holds it:
//
//	func (v *Invoice) columns(c *workqueue.Columns) {
//		c.Field(workqueue.Column{Name: "number", Type: "text", NotNull: true}, &v.Number)
//		c.Field(workqueue.Column{Name: "cents", Type: "bigint", NotNull: true}, &v.Cents)
//	}
//
// [ColumnsOf] makes the columns of a [Spec] from the list, [ValuesOf] the values of a [NewRow], and [Domain].Columns
// has a claim stored in the fields. So the function is called for each row: it lists the same columns in the same order
// each time, and does nothing else.
type Columns struct {
	purpose purpose
	list    []Column
	values  []any // to be written, or where a claim is stored
	texts   []any // what the row before had in the columns of type text that are NotNull, such as its topic
	last    int   // how many values the row before had
	problem error
}

type purpose byte

const (
	reading purpose = iota
	writing
	listing
)

// Field lists a column with a pointer to the field that is written to it, and in which a claim stores it. An empty
// string is NULL in a column that may be NULL; a nil slice of bytes is empty in one that may not. Nil: the column is
// written as NULL, and claims skip it. An Internal column is never read.
func (c *Columns) Field(column Column, field any) { c.Split(column, field, field) }

// Split lists a column that is written from one place, and stored by a claim in another: a pointer to a field. What is
// written may be a pointer to a field as well, or the value itself.
func (c *Columns) Split(column Column, from, into any) {
	switch c.purpose {
	case writing:
		if from != nil {
			from = c.from(&column, from)
		}
		c.values = append(c.values, from)
	case listing:
		c.list = append(c.list, column)
		c.problem = cmp.Or(c.problem, c.checkField(column.Name, into))
	default:
		if !column.Internal {
			c.values = append(c.values, column.into(into))
		}
	}
}

// checkField reports why a claim cannot store a column in a field.
func (c *Columns) checkField(column string, field any) error {
	switch {
	case field == nil:
		return nil
	case reflect.TypeOf(field).Kind() != reflect.Pointer:
		return invalid(column, "is listed with a %T, where a claim cannot store it: give a pointer to a field", field)
	case slices.Contains(c.values, field):
		return invalid(column, "is listed with the field of another column: give it one of its own, or nil for none")
	}
	c.values = append(c.values, field)
	return nil
}

// from is a value to write. Only what needs a rule is looked through here: the rest is left to the column's converter.
func (c *Columns) from(column *Column, v any) any {
	switch v := v.(type) {
	case *string:
		switch {
		case column.NotNull:
			return c.text(*v)
		case *v == "":
			return nil
		}
		return *v
	case *[]byte:
		switch {
		case *v != nil:
			return *v
		case column.NotNull:
			return []byte{}
		}
		return nil
	case *int64:
		return *v
	case *bool:
		return *v
	case *time.Time:
		return *v
	case *uuid.UUID:
		return *v
	}
	return v
}

// text is a text as a value. Most rows have the topic of the row before, and share its value with it.
func (c *Columns) text(s string) any {
	i := len(c.values)
	for len(c.texts) <= i {
		c.texts = append(c.texts, "")
	}
	if c.texts[i] != s {
		c.texts[i] = s
	}
	return c.texts[i]
}

// into is where a claim stores the column, nil for nowhere.
func (c *Column) into(field any) any {
	if text, ok := field.(*string); ok && !c.NotNull && c.Type == "text" {
		return (*orEmpty)(text)
	}
	return field
}

// orEmpty is a text that is empty for NULL.
type orEmpty string

// LabelText implements [telemetry.Labelled].
func (o *orEmpty) LabelText() string { return string(*o) }

// ScanText implements [pgtype.TextScanner].
func (o *orEmpty) ScanText(v pgtype.Text) error {
	*o = orEmpty(v.String)
	return nil
}

// ColumnsOf are the columns that a function lists, for a [Spec].
func ColumnsOf[T any](list func(*T, *Columns)) []Column {
	c := Columns{purpose: listing}
	list(new(T), &c)
	return c.list
}

// lists are reused, so that a row costs nothing beside its values.
var lists sync.Pool

// ValuesOf are the values of the columns that a function lists for row, for a [NewRow].
func ValuesOf[T any](row *T, list func(*T, *Columns)) []any {
	c, kept := lists.Get().(*Columns)
	if !kept {
		c = &Columns{purpose: writing}
	}
	c.values = make([]any, 0, c.last)
	list(row, c)
	values := c.values
	c.values, c.last = nil, len(values) // a payload is not kept
	lists.Put(c)
	return values
}

func names(columns []Column) string {
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = c.Name
	}
	return strings.Join(all, ", ")
}

// historyLane is which of a Spec's labels tells the lane of history: the first lane, or the first label.
func (s Spec) historyLane() int {
	for i, label := range s.Labels {
		if len(s.Lanes) > 0 && s.Lanes[0] == label {
			return i
		}
	}
	return 0
}

// A Bound is what the values of a [Column] may be: how many bytes a text or a bytea has, or what a whole number is.
// [Table.Check] and [Table.Insert] refuse other values before anything is sent, and so does the SQL function that
// writes rows, of a parameter with the column's name. The zero value is no bound.
type Bound struct {
	Min, Max int64 // Max is 0 for no maximum

	// Stored has the table refuse other values, too, whoever writes them. The column then has a type of its own, the
	// domain <table>_<column>_value.
	Stored bool
}

func (c *Column) sized() bool { return c.Type == "text" || c.Type == "bytea" }

// Bounds says what the values of the column may be, such as "1 to 255 bytes"; empty: it has no [Bound].
func (c *Column) Bounds() string {
	text := c.bounds("%[1]d", "at least %[1]d", "at most %[2]d", "%[1]d to %[2]d")
	if c.sized() && text != "" {
		text += " bytes"
	}
	return text
}

func (c *Column) must() string {
	if c.sized() {
		return "must have " + c.Bounds()
	}
	return "must be " + c.Bounds()
}

// Within is the condition in SQL that a value is within the bound.
func (c *Column) Within(value string) string {
	if c.sized() {
		value = "octet_length(" + value + ")"
	}
	return value + c.bounds(" = %[1]d", " >= %[1]d", " <= %[2]d", " BETWEEN %[1]d AND %[2]d")
}

// bounds fills in the form that the bound has.
func (c *Column) bounds(one, least, most, both string) string {
	switch b := c.Bound; {
	case b == Bound{}:
		return ""
	case b.Max == 0:
		both = least
	case b.Min == b.Max:
		both = one
	case b.Min == 0 && c.sized():
		both = most
	}
	return fmt.Sprintf(both, c.Bound.Min, c.Bound.Max)
}

// check refuses a value, in the form in which it is sent, that is not within the bound.
func (c *Column) check(v any) error {
	n := int64(0)
	switch v := v.(type) {
	case string:
		n = int64(len(v))
	case []byte:
		n = int64(len(v))
	case int64:
		n = v
	}
	b := c.Bound
	if b == (Bound{}) || n >= b.Min && (b.Max == 0 || n <= b.Max) {
		return nil
	}
	is := "is %d"
	if c.sized() {
		is = "has %d bytes"
	}
	return invalid(c.Name, is+", it %s", n, c.must())
}

func (s Spec) validateBound(c Column) error {
	switch b := c.Bound; {
	case b == Bound{}:
		return nil
	case !c.sized() && c.Type != "bigint" && c.Type != "integer" && c.Type != "smallint":
		return invalid("column", "%q has a Bound: only texts, bytea and whole numbers may have one", c.Name)
	case b.Max == 0 && b.Min == 0, b.Max != 0 && b.Max < b.Min, c.sized() && b.Min < 0:
		return invalid("column", "%q has the Bound %d to %d: Min cannot be above Max, nor both 0", c.Name, b.Min, b.Max)
	case b.Stored:
		return checkIdentifier("type of a column", s.valueType(c))
	}
	return nil
}

// valueType is the name of the type of a column whose bound is Stored.
func (s Spec) valueType(c Column) string { return s.Table + "_" + c.Name + "_value" }

// writerCheck refuses a value of a parameter of the SQL function that the column cannot have.
func (c *Column) writerCheck() Check {
	switch param := "@" + c.Name; {
	case c.Bound == Bound{}:
		return Check{Parameter: c.Name, Condition: param + " IS NOT NULL", Message: "must not be NULL",
			Hint: "The table has no row without one."}
	case c.NotNull:
		return Check{Parameter: c.Name, Condition: c.Within(param), Message: c.must() + ", and must not be NULL",
			Hint: "Such a row could not be stored."}
	default:
		return Check{Parameter: c.Name, Condition: param + " IS NULL OR " + c.Within(param), Message: c.must(),
			Hint: "NULL is none."}
	}
}
