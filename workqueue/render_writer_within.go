package workqueue

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Many is the part of the function <table>_enqueue_many that a function of another package has, too: it writes new rows
// from an array of objects. What is SQL here may name variables of that function.
type Many struct {
	Rows string // the array

	// Parameter is the parameter of the function that an element of the array is from, and Element how a message about
	// the element begins. %[1]s is the element's place.
	Parameter, Element string

	// Columns are the values of columns, by name: %s is what is written of the object, and s.ord is its place.
	Columns map[string]string
}

// InlineMany returns what such a function declares; the statements that check the objects; and those that write the
// rows then, and set ids, a variable of the function. Rows that are unique are refused, since another one may have
// their place. If all rows of the table are, there are no statements, and ids is empty.
func (s Spec) InlineMany(m Many) (declare, check, write, ids string) {
	v := newView(s)
	if s.Writer.None || s.Writer.Change != "" {
		return "", "", "", ""
	}
	many := manyView{writerView: v.writer(), fields: s.manyFields(), within: &m}
	if len(many.Unique) > 0 && many.Held == "" {
		return "", "", "", ""
	}
	many.takeParams()
	many.Alone = "false"
	if s.Writer.Alone != "" {
		many.Alone = many.in(s.Writer.Alone, "r")
	}
	many.Plain = many.insert(false)
	check = v.template("many_read", many)
	write = strings.TrimPrefix(v.template("many_locked", many)+"\n    "+v.template("many_written", many), "\n    ")
	return v.template("many_declared", many), check, write, many.IDs
}

// columns are the columns of a row with their values: those that the writer has, changed and completed.
func (m *Many) columns(fields []writerField) []writerField {
	if m == nil {
		return fields
	}
	more := maps.Clone(m.Columns)
	for i, f := range fields {
		for name, format := range m.Columns {
			if f.Quoted == name || f.Quoted == quote(name) {
				fields[i].Value = strings.ReplaceAll(format, "%s", f.Value)
				delete(more, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		fields = append(fields, writerField{quote(name), more[name]})
	}
	return fields
}

// Source is the array, Parameter the parameter that an element is from, and Element how a message about it begins.
func (m manyView) Source() string {
	if m.within != nil {
		return m.within.Rows
	}
	return "$1"
}

func (m manyView) Parameter(place string) string {
	if m.within != nil {
		return fmt.Sprintf(m.within.Parameter, place)
	}
	return "'rows'"
}

func (m manyView) Element(place string) string {
	if m.within != nil {
		return fmt.Sprintf(m.within.Element, place)
	}
	return fmt.Sprintf("'rows has a wrong element ' || %s", place)
}
