package workqueue

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/txwork/txwork/internal/sqltext"
)

// A manyView is what enqueue_many.sql sees. Its SQL is that of the function for one row, with columns of the objects
// (q, r), variables with an array for each parameter, or elements of these (s) in the place of the parameters. An array
// travels as text, since an array of arrays has only elements of one length.
type manyView struct {
	writerView
	fields   []manyField
	in       func(text, of string) string // of q, r, s, or empty for the arrays
	Params   []manyParam                  // in the order of the function for one row
	Returned []manyParam                  // beside place, id, duplicate and replaced
	IDs      string
	Alone    string // the condition that a row is written by the function for one
	Plain    string // the insert for rows without unique values; empty: all have them
	Guarded  string // the insert for others
	Changes  string // ChangeMany
	Find     string // what sets the holders of rows that were not written
	Missing  string // the places of rows without a holder, in the order in which they are written
	within   *Many  // the rows are those of another function
}

// A manyParam is a parameter: its column in a record, with its value, and its array.
type manyParam struct {
	Param
	Alias, Value, Variable, Bind string
	cast                         string // from what travels
}

// Element is the element of the array in the call of the function for one row.
func (p manyParam) Element() string { return p.Variable + "[i]" + p.cast }

// Result is a result as it is returned: of a row that the function for one row did not write, what is not so is false.
func (p manyParam) Result(value string) string {
	if p.Type == "boolean" {
		return "coalesce(" + value + ", false)"
	}
	return value
}

// ManyFunction is the name of the function that writes many rows; empty: there is none.
func (v view) ManyFunction() string {
	if v.spec.Writer.None {
		return ""
	}
	return v.Function(v.spec.writerName() + manySuffix)
}

func (v view) many() manyView {
	m := manyView{writerView: v.writer(), fields: v.spec.manyFields()}
	m.takeParams()
	writer := v.spec.Writer
	switch {
	case writer.ChangeMany != "":
		m.Changes = m.in(writer.ChangeMany, "")
		m.Alone = "false"
	case writer.Change != "":
		m.Alone = "true"
	case writer.Alone != "":
		m.Alone = m.in(writer.Alone, "r")
	default:
		m.Alone = "false"
	}
	for i, r := range writer.Results {
		if r.Name != "replaced" {
			m.Returned = append(m.Returned, manyParam{Param: r, Variable: fmt.Sprintf("r%d", i+1)})
		}
	}
	if len(m.Unique) > 0 {
		m.Guarded = m.insert(true)
	}
	if len(m.Unique) == 0 || m.Held != "" {
		m.Plain = m.insert(false)
	}
	m.Find, m.Missing = m.find()
	return m
}

func (m *manyView) takeParams() {
	names := map[string]map[string]string{"q": {}, "r": {}, "s": {}, "": {}}
	for i, p := range m.spec.writerParams() {
		mine := manyParam{Param: p, Alias: fmt.Sprintf("c%d", i+1), Variable: fmt.Sprintf("a%d", i+1), Bind: p.Type}
		mine.Value = m.valueOf(p)
		switch {
		case p.Name == writerID:
			mine.Alias, m.IDs = writerID, mine.Variable
		case strings.HasSuffix(p.Type, "[]"):
			mine.Value, mine.Bind, mine.cast = "("+mine.Value+")::text", "text", "::"+p.Type
		}
		m.Params = append(m.Params, mine)
		for of := range names {
			names[of][p.Name] = of + "." + mine.Alias + mine.cast
		}
		names[""][p.Name] = mine.Variable
	}
	for _, of := range names {
		maps.Copy(of, map[string]string{"table": m.Table, "table_name": m.spec.Name(), "announce": m.Announce(),
			"default_attempts": fmt.Sprint(m.MaxAttempts)})
	}
	m.in = func(text, of string) string { return m.replaced(text, "enqueue_many", names[of]) }
}

// valueOf is the value of a parameter, of its fields and its default.
func (m *manyView) valueOf(p Param) string {
	var values []string
	for i, f := range m.fields {
		if f.param == p.Name {
			values = append(values, fmt.Sprintf(f.value, fmt.Sprintf("f.f%d", i+1)))
		}
	}
	switch {
	case p.Name == writerID:
		values = append(values, "(began || '7' || lpad(to_hex(f.ord >> 2), 3, '0') || to_hex(8 + (f.ord & 3)) "+
			"|| substr(gen_random_uuid()::text, 21))::uuid")
	case p.Default != "" && p.Default != "NULL":
		values = append(values, p.Default)
	}
	if len(values) == 1 {
		return values[0]
	}
	return "coalesce(" + strings.Join(values, ", ") + ")"
}

// values are the columns of a row, with an expression for each.
func (m *manyView) values(of string) (fields []writerField) {
	for _, f := range m.spec.writerValues() {
		fields = append(fields, writerField{f.Quoted, m.in(f.Value, of)})
	}
	return fields
}

// uniqueValues are the unique columns with their values.
func (m *manyView) uniqueValues(of string) []writerField { return m.uniqueOf(m.values(of)) }

// inOrder are the unique values in an order that every writer has, whatever the database's collation is.
func (m *manyView) inOrder(of string) (list []string) {
	for i, f := range m.uniqueValues(of) {
		value := "(" + f.Value + ")"
		if m.Unique[i].Type == "text" {
			value += ` COLLATE "C"`
		}
		list = append(list, value)
	}
	return list
}

// Values are the unique values of the objects.
func (m manyView) Values() string { return strings.Join(m.inOrder("q"), ", ") }

// insert is insert.sql for the arrays.
func (m *manyView) insert(guarded bool) string {
	in := insertView{view: m.view, Guarded: guarded, Returns: true}
	if m.within == nil {
		in.Condition = "NOT s.alone"
	}
	for _, f := range m.within.columns(m.values("s")) {
		in.Fields = append(in.Fields, insertField{columnView: columnView{Quoted: f.Quoted}, fallback: f.Value,
			form: absent})
	}
	arrays := map[string]string{"ids": m.IDs, "alone": "alone", "held": "holders"}
	travels := func(alias, variable, bind string) {
		in.Varying = append(in.Varying, insertField{columnView: columnView{Alias: alias, Param: variable, Bind: bind}})
		arrays[variable] = variable
	}
	for _, p := range m.Params {
		if p.Name != writerID {
			travels(p.Alias, p.Variable, p.Bind)
		}
	}
	if m.within == nil {
		travels("alone", "alone", "boolean")
	}
	if m.Changes != "" {
		travels("held", "holders", "uuid")
		in.Condition = "s.held IS NULL"
	}
	if guarded {
		in.Order = m.order()
	}
	return sqltext.Indented(m.replaced(m.bodyOf("insert", in), "insert", arrays), 12)
}

// order is the order in which rows are written: that of their unique values, so that two writers of the same values
// meet at the first that they share, and cannot deadlock. Rows of keys keep their order.
func (m *manyView) order() (list []string) {
	for _, value := range m.inOrder("s") {
		if m.Key != "" {
			value = "CASE WHEN NOT keyed THEN " + value + " END"
		}
		list = append(list, value)
	}
	return list
}

// find is the statement that sets the holders: of a row that was not written, the row with its unique values, unless
// the function for one row has to look at it.
func (m *manyView) find() (find, missing string) {
	arrays, aliases := []string{m.IDs}, []string{"id"}
	for _, p := range m.Params {
		if p.Name != writerID {
			arrays, aliases = append(arrays, p.Variable), append(aliases, p.Alias)
		}
	}
	holder := "NULL"
	switch {
	case m.Changes != "":
		arrays, aliases, holder = append(arrays, "holders"), append(aliases, "held"), "s.held"
	case m.spec.Writer.Found == "" && m.spec.Writer.Change == "" && len(m.Unique) > 0:
		var same []string
		for _, f := range m.uniqueValues("s") {
			same = append(same, fmt.Sprintf("t.%s = (%s)", f.Quoted, f.Value))
		}
		holder = fmt.Sprintf("(SELECT t.id FROM %s AS t WHERE NOT s.alone AND %s)", m.Table,
			strings.Join(same, " AND "))
	}
	from := func(more ...string) string {
		return fmt.Sprintf("FROM unnest(%s) WITH ORDINALITY\n            AS s (%s, ord)",
			strings.Join(append(arrays, more...), ", "), strings.Join(append(aliases, more...), ", "))
	}
	find = fmt.Sprintf("        SELECT array_agg(CASE WHEN s.written THEN s.id ELSE %s END ORDER BY s.ord) INTO holders\n"+
		"        %s", holder, from("written", "alone"))
	missing = fmt.Sprintf("SELECT s.ord %s\n            WHERE s.holders IS NULL ORDER BY %s", from("holders"),
		strings.Join(append(m.order(), "s.ord"), ", "))
	return find, missing
}

// Record are the fields as the columns of a record.
func (m manyView) Record() string {
	list := make([]string, len(m.fields))
	for i, f := range m.fields {
		list[i] = quote(f.name) + " " + f.typ
	}
	return strings.Join(list, ", ")
}

// Objects selects the parameters of the objects of an array.
func (m manyView) Objects(array string) string {
	values, aliases := "f.ord", make([]string, len(m.fields))
	for _, p := range m.Params {
		values += fmt.Sprintf(",\n                %s AS %s", p.Value, p.Alias)
	}
	for i := range m.fields {
		aliases[i] = fmt.Sprintf("f%d", i+1)
	}
	return fmt.Sprintf("SELECT %s\n            FROM ROWS FROM (jsonb_to_recordset(%s) AS (%s))\n"+
		"                WITH ORDINALITY AS f (%s, ord)", values, array, m.Record(), strings.Join(aliases, ", "))
}

func (m manyView) fieldNames() []string {
	list := make([]string, len(m.fields))
	for i, f := range m.fields {
		list[i] = f.name
	}
	return list
}

// Known is the array of the names of fields.
func (m manyView) Known() string { return "ARRAY['" + strings.Join(m.fieldNames(), "', '") + "']" }

// Hint is what is told of an object that is refused.
func (m manyView) Hint() string {
	return "'Fields are " + strings.Join(m.fieldNames(), ", ") + "; a payload is in one of its fields.'"
}

// Twice is the condition that an object has two fields for one parameter.
func (m manyView) Twice() (conditions string) {
	for _, p := range m.Params {
		var given []string
		for _, f := range m.fields {
			if f.param == p.Name {
				given = append(given, fmt.Sprintf("(e.value ? '%s')::int", f.name))
			}
		}
		if len(given) > 1 {
			conditions += " OR " + strings.Join(given, " + ") + " > 1"
		}
	}
	return conditions
}

// RefuseArray and RefuseLength check the argument.
func (manyView) RefuseArray() string {
	return sqltext.RefuseUnless("jsonb_typeof($1) = 'array'", "rows", "must be an array of objects",
		"Give a JSON array with an object for each row.")
}

func (manyView) RefuseLength() string {
	return sqltext.RefuseUnless(fmt.Sprintf("jsonb_array_length($1) <= %d", MaxBatch), "rows",
		fmt.Sprintf("must have at most %d elements", MaxBatch), "Write them by several calls.")
}

// Refused is the number of the first check that an object fails, and Messages what they say.
func (m manyView) Refused() string {
	text := "CASE"
	checks := m.spec.writerChecks()
	for i, c := range checks {
		condition := "(" + m.in(c.Condition, "r") + ") IS NOT TRUE"
		if c.If != "" {
			condition = m.in(c.If, "r") + " AND " + condition
		}
		text += fmt.Sprintf("\n                WHEN %s THEN %d", condition, i+1)
	}
	if m.within != nil {
		text += fmt.Sprintf("\n                WHEN (%s) OR (%s) THEN %d", m.Alone, m.Holds(), len(checks)+1)
	}
	return text + " END"
}

func (m manyView) Messages() string {
	var list []string
	for _, c := range m.spec.writerChecks() {
		list = append(list, sqltext.Literal(c.Parameter+" "+c.Message))
	}
	if m.within != nil {
		list = append(list, "'it must not be unique, since it has to be a row of its own'")
	}
	return "ARRAY[\n                " + strings.Join(list, ",\n                ") + "]"
}

// Keyed is the condition that an object has a key, and Holds that it has unique values.
func (m manyView) Keyed() string {
	for _, f := range m.spec.writerValues() {
		if m.Key != "" && f.Quoted == quote(m.spec.KeyColumn) {
			return "(" + m.in(f.Value, "r") + ") IS NOT NULL"
		}
	}
	return "false"
}

func (m manyView) Holds() string {
	if len(m.Unique) == 0 || m.Held == "" {
		return fmt.Sprint(len(m.Unique) > 0)
	}
	values := map[string]string{}
	for i, f := range m.uniqueValues("r") {
		values[m.Unique[i].Name] = f.Value
	}
	return m.writerHolds(values)
}

// Lock is the advisory lock of an object, and MaxLocks how many of them are taken.
func (m manyView) Lock() string {
	for _, c := range m.Columns {
		if lock := c.written().Lock; lock != "" {
			return m.in(lock, "r")
		}
	}
	return ""
}

func (m manyView) MaxLocks() string {
	for _, c := range m.Columns {
		if w := c.written(); w.Lock != "" {
			return w.MaxLocks
		}
	}
	return ""
}

// Last selects the last of several objects with the same unique values, if it is the one that is set.
func (m manyView) Last() string {
	if m.Changes == "" {
		return ""
	}
	return " FILTER (WHERE r.last)"
}

// Replaced is the condition that the row of a place has become what was written.
func (m manyView) Replaced(place string) string {
	switch {
	case m.spec.Writer.Change != "":
		return "NOT written[" + place + "]"
	case slices.Contains(m.Results, quote("replaced")):
		return "coalesce(replaces[" + place + "], false)"
	}
	return "false"
}

// ResultOf is the array of a result of the function for one row.
func (m manyView) ResultOf(name string) string {
	for _, r := range m.Returned {
		if quote(r.Name) == name {
			return r.Variable
		}
	}
	return "replaces"
}
