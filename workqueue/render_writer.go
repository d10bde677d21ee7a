package workqueue

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/sqltext"
)

// payloadTypes are the types of payloads beside bytea, with the expression that makes bytes of a parameter.
var payloadTypes = []struct{ typ, bytes string }{
	{"text", "convert_to(%s, 'UTF8')"},
	{"json", "convert_to(%s::text, 'UTF8')"},
	{"jsonb", "convert_to(%s::text, 'UTF8')"},
}

// A writerView is what enqueue.sql and enqueue_as.sql see.
type writerView struct {
	view
	Function   string
	Parameters string // with their defaults, and what the function returns
	Types      string // those of its signature
	Fields     []writerField
	Checks     []string
	Begin      string
	Held       string // the condition that the row has unique values; empty if it always has, or the table has none
	Key        string // the value of the key column, if there is one
	ID         string // the parameter of the id
	Found      string
	Change     string
	Results    []string // names
	Call       string   // the arguments with which a function for another type calls the one for bytea
}

// A writerField is a column and its value.
type writerField struct{ Quoted, Value string }

// never is a condition that no row has.
const never = "false"

// writers are the functions that write rows: first the one that does, and then those for other types of payloads.
func (v view) writers() []writerView {
	if v.spec.Writer.None {
		return nil
	}
	first := v.writer()
	all := []writerView{first}
	payload := v.spec.writerPayload(v.spec.writerParams())
	if payload == "" {
		return all
	}
	for _, p := range payloadTypes {
		as := first
		as.Parameters, as.Types, as.Call = v.writerSignature(payload, p.typ, p.bytes)
		all = append(all, as)
	}
	return all
}

func (v view) writer() writerView {
	w := writerView{view: v, Function: v.Function(v.spec.writerName())}
	w.Parameters, w.Types, _ = v.writerSignature("", "", "")
	positions := map[string]string{}
	for i, p := range v.spec.writerParams() {
		positions[p.Name] = fmt.Sprintf("$%d", i+1)
	}
	for _, name := range v.spec.Writer.Calls {
		positions[name] = v.Function(name)
	}
	in := func(text string) string { return v.replaced(text, "enqueue", positions) }
	values := map[string]string{}
	for i, f := range v.spec.writerValues() {
		w.Fields = append(w.Fields, writerField{f.Quoted, in(f.Value)})
		if i < len(coreFields) {
			values[f.Quoted] = in(f.Value)
		}
	}
	for _, c := range v.Columns {
		if as := c.written().As; as != "" {
			values[c.Name] = in(as)
		}
	}
	for _, c := range v.spec.writerChecks() {
		check := sqltext.RefuseUnless(in(c.Condition), c.Parameter, c.Message, c.Hint)
		if c.If != "" {
			check = "IF " + in(c.If) + " THEN\n    " + check + "\n    END IF;"
		}
		w.Checks = append(w.Checks, check)
	}
	if w.Held = v.writerHolds(values); w.Held == never {
		w.Unique, w.Held = nil, ""
	}
	w.Key, w.ID = values[v.spec.KeyColumn], positions[writerID]
	w.Begin = in(v.spec.Writer.Begin)
	for name, value := range values {
		positions[newPrefix+name] = "(" + value + ")"
	}
	maps.Copy(positions, map[string]string{
		"id":               v.Named(v.spec.writerName()) + ".id",
		"table":            v.Table,
		"announce":         v.Announce(),
		"default_attempts": fmt.Sprint(v.MaxAttempts),
	})
	w.Found, w.Change = in(v.spec.Writer.Found), in(v.spec.Writer.Change)
	for _, r := range v.spec.Writer.Results {
		w.Results = append(w.Results, quote(r.Name))
	}
	return w
}

// writerValues are the columns that a writer writes, with its SQL.
func (s Spec) writerValues() []writerField {
	v := newView(s)
	fields := []writerField{
		{"due_at", "greatest(@scheduled_at, now())"},
		{"max_attempts", fmt.Sprintf("coalesce(@max_attempts, %d)", v.MaxAttempts)},
		{"headers", "nullif(@headers - " + v.History() + ", '{}')"},
	}
	for _, c := range v.Columns {
		if as := c.written().As; as != "" {
			fields = append(fields, writerField{c.Quoted, as})
		}
	}
	return fields
}

// writerHolds is the condition that none of the unique values is NULL.
func (v view) writerHolds(values map[string]string) string {
	var conditions []string
	for _, c := range v.Unique {
		value, ok := values[c.Name]
		if !ok {
			return never // nothing writes the column
		}
		if !c.NotNull {
			conditions = append(conditions, "("+value+") IS NOT NULL")
		}
	}
	return strings.Join(conditions, " AND ")
}

// UniqueValues are the columns of Unique with their values.
func (w writerView) UniqueValues() []writerField { return w.uniqueOf(w.Fields) }

// uniqueOf are the unique ones of a row's columns.
func (w writerView) uniqueOf(all []writerField) (fields []writerField) {
	for _, c := range w.Unique {
		i := slices.IndexFunc(all, func(f writerField) bool { return f.Quoted == c.Quoted })
		fields = append(fields, all[i])
	}
	return fields
}

// writerSignature renders the parameters, with one of another type, the types, and the arguments of a call by the
// function of that type. Only the function for text has a default of the payload: a call without one would otherwise
// fit several.
func (v view) writerSignature(payload, typ, bytes string) (parameters, types, call string) {
	var all, args, signature []string
	name := v.spec.writerPayload(v.spec.writerParams())
	for i, p := range v.spec.writerParams() {
		arg := fmt.Sprintf("$%d", i+1)
		if p.Name == name && typ != "text" {
			p.Default = ""
		}
		if p.Name == payload {
			p.Type, arg = typ, fmt.Sprintf(bytes, arg)
		}
		text := quote(p.Name) + " " + p.Type
		if p.Name == writerID {
			text = "INOUT " + text
		}
		if p.Default != "" {
			text += " DEFAULT " + p.Default
		}
		all, args, signature = append(all, text), append(args, arg), append(signature, p.Type)
	}
	all = append(all, "OUT duplicate boolean")
	for _, r := range v.spec.Writer.Results {
		all = append(all, "OUT "+quote(r.Name)+" "+r.Type)
	}
	return "\n    " + strings.Join(all, ",\n    ") + "\n", strings.Join(signature, ", "), strings.Join(args, ", ")
}

// writersUp renders the functions.
func (v view) writersUp() (parts []string) {
	for i, w := range v.writers() {
		file := "enqueue"
		if i > 0 {
			file = "enqueue_as"
		}
		parts = append(parts, v.execute(file, w))
	}
	if len(parts) > 0 {
		parts = append(parts, v.execute("enqueue_many", v.many()))
	}
	return parts
}

// Writers are the functions for table_down.sql.
func (v view) Writers() []writerView { return v.writers() }

// MaxVanished is maxVanished for the templates.
func (view) MaxVanished() int { return maxVanished }

// RunsTriggers refuses a session whose triggers do not run, for rows with a key.
func (writerView) RunsTriggers() string { return postgres.RunsTriggers }
