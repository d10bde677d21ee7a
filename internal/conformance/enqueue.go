package conformance

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// A parameter is an argument of the functions that write rows.
type parameter struct {
	name, typ string
	value     any
}

// A call is a row as the arguments of the functions that write rows.
type call struct {
	params []parameter
	lost   []workqueue.Column // their values have no parameter
	unfit  bool               // the functions would not write such a row, but another one
}

// direct reports whether a row has to be written by an INSERT. What only triggers, schedulers and joins write, such as
// that the row is a step of a join, is left out of a call instead.
func (c call) direct() bool {
	return c.unfit || slices.ContainsFunc(c.lost, func(c workqueue.Column) bool { return c.Type == "text" })
}

// exact reports whether the row of the call is the same in all columns.
func (c call) exact() bool { return !c.unfit && len(c.lost) == 0 }

// takes reports whether the call has the value of a column.
func (c call) takes(column workqueue.Column) bool {
	return !c.direct() && !slices.ContainsFunc(c.lost, func(c workqueue.Column) bool { return c.Name == column.Name })
}

// isParameter reports whether the value of a column is a parameter of its name, as it stands.
func isParameter(c workqueue.Column) bool {
	if c.Written == nil {
		return !c.Internal
	}
	return len(c.Written.Params) == 1 && c.Written.Params[0].Name == c.Name && c.Name != "unique_key"
}

// hasParam reports whether a column is written from a parameter.
func hasParam(c workqueue.Column, name string) bool {
	return c.Written != nil &&
		slices.ContainsFunc(c.Written.Params, func(p workqueue.Param) bool { return p.Name == name })
}

// called turns a row into arguments.
func (o functionOps) called(row workqueue.NewRow) (c call) {
	c.unfit = row.Waiting || row.Retry != (workqueue.Retry{}) || o.spec.Writer.None
	add := func(name, typ string, value any) {
		if typ == "smallint" {
			typ = "integer"
		}
		c.params = append(c.params, parameter{name, typ, value})
	}
	values := map[string]any{}
	for i, column := range o.spec.Columns {
		values[column.Name] = pointed(row.Values[i])
	}
	due := row.DueAt
	keyed := true // the call has the rule of the row's key
	for _, column := range o.spec.Columns {
		value := values[column.Name]
		ok := value == nil && !column.NotNull
		switch {
		case column.Name == "unique_key" && !ok: // which the functions begin with the form and the kind
			var own string
			if own, ok = strings.CutPrefix(value.(string), fmt.Sprintf("u:%v\x1f", values["kind"])); ok {
				add(column.Name, column.Type, own)
			}
		case column.Name == "unique_states" && !ok:
			var while []string
			while, ok = map[any][]string{4: {"done"}, 8: {"failed"}, 12: {"done", "failed"}}[value]
			if ok = ok && values["unique_key"] != nil; ok {
				add("unique_while", "text[]", while)
			}
		case column.Name == keyColumn:
			ok = key(column, values, add)
			keyed = ok && value != nil
		case strings.HasPrefix(column.Name, "key_"):
			ok = value == nil || keyed
		case isParameter(column):
			if ok = value != nil || !column.NotNull || hasNoDefault(column); ok {
				add(column.Name, column.Type, value)
			}
		case hasParam(column, "scheduled_at") && due.IsZero():
			due = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // a time in the past means now
		}
		if !ok {
			c.lost = append(c.lost, column)
			c.unfit = c.unfit || value == nil
		}
	}
	if row.ID != uuid.Nil {
		add("id", "uuid", row.ID)
	}
	if !due.IsZero() {
		add("scheduled_at", "timestamptz", due)
	}
	if row.MaxAttempts != 0 {
		add("max_attempts", "integer", row.MaxAttempts)
	}
	if row.Headers != nil {
		add("headers", "jsonb", row.Headers)
	}
	return c
}

// hasNoDefault reports whether the parameter of a column has to be given.
func hasNoDefault(c workqueue.Column) bool {
	return c.Written == nil || c.Written.Params[0].Default == ""
}

// keyColumn is that of a table with keyed rows.
const keyColumn = "concurrency_key"

// key adds the arguments for the rule of a row's key, and reports whether there are any.
func key(column workqueue.Column, values map[string]any, add func(name, typ string, value any)) bool {
	policy, known := map[any]string{1: "block", 2: "park", 0: "skip"}[values["key_policy"]]
	ordered := values[keyColumn] != nil && values["key_limit"] == any(0) && known && values["key_rate"] == nil &&
		values["key_burst"] == nil && values["key_seq"] == nil
	if hasParam(column, "ordered") { // by a column of its own
		ordered = ordered && values[keyColumn] == values["key"]
		add("ordered", "boolean", ordered)
		if ordered {
			add("on_failure", "text", policy)
		}
		return ordered || values[keyColumn] == nil
	}
	switch {
	case ordered:
		add("ordered_key", "text", values[keyColumn])
		add("on_failure", "text", policy)
		return true
	case values[keyColumn] == nil || values["key_seq"] != nil || values["key_limit"] == any(0):
		return values[keyColumn] == nil
	}
	add("limited_key", "text", values[keyColumn])
	add("max_running", "integer", values["key_limit"])
	add("rate", "double precision", values["key_rate"])
	add("burst", "integer", values["key_burst"])
	return values["key_policy"] == any(0)
}

// pointed is what a value points to.
func pointed(v any) any {
	if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer {
		if r.IsNil() {
			return nil
		}
		return r.Elem().Interface()
	}
	return v
}

// function is the name of the function that writes one row.
func (o functionOps) function() string {
	return o.spec.Name() + "_" + cmp.Or(o.spec.Writer.Name, "enqueue")
}

// one is the call of the function for one row.
func (o functionOps) one(c call) (query string, args []any) {
	params := make([]string, len(c.params))
	for i, p := range c.params {
		switch v := p.value.(type) {
		case map[string]string:
			p.value = written(v)
		case time.Time:
			p.value, p.typ = timeText(v), "text::"+p.typ
		}
		args = append(args, p.value)
		params[i] = fmt.Sprintf("%q => $%d::%s", p.name, i+1, p.typ)
	}
	return fmt.Sprintf("SELECT id, duplicate FROM %s(%s)", o.function(), strings.Join(params, ", ")), args
}

// insert calls the function for one row for each row that it can write as it is given, and inserts others.
func (o functionOps) insert(ctx context.Context, rows ...workqueue.NewRow) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	for _, row := range rows {
		write := o.inserted
		if c := o.called(row); c.exact() && o.spec.Writer.Change == "" { // a function that changes rows is no insert
			write = o.calledOne
		}
		e, err := write(ctx, row)
		if err != nil {
			return nil, err
		}
		ids = append(ids, e.ID)
	}
	return ids, nil
}

func (o functionOps) calledOne(ctx context.Context, row workqueue.NewRow) (e workqueue.Enqueued, err error) {
	query, args := o.one(o.called(row))
	return e, o.tx.QueryRow(ctx, query, described(args)...).Scan(&e.ID, &e.Duplicate)
}

// enqueue calls the function for many rows, and inserts those that it cannot write.
func (o functionOps) enqueue(ctx context.Context, rows ...workqueue.NewRow) ([]workqueue.Enqueued, error) {
	results := make([]workqueue.Enqueued, len(rows))
	var objects []string
	var places []int
	for i, row := range rows {
		c := o.called(row)
		if c.direct() {
			var err error
			if results[i], err = o.inserted(ctx, row); err != nil {
				return nil, err
			}
			continue
		}
		objects, places = append(objects, c.object()), append(places, i)
	}
	if o.spec.Writer.None {
		return results, nil
	}
	list, err := o.tx.Query(ctx, "SELECT id, duplicate, replaced FROM "+o.function()+"_many($1::jsonb) ORDER BY place",
		described([]any{"[" + strings.Join(objects, ", ") + "]"})...)
	if err != nil {
		return nil, err
	}
	called, err := pgx.CollectRows(list, pgx.RowToStructByPos[workqueue.Enqueued])
	for i, e := range called {
		results[places[i]] = e
	}
	return results, err
}

// once inserts rows where the function for many would change the row that is there.
func (o functionOps) once(ctx context.Context, rows ...workqueue.NewRow) (results []workqueue.Enqueued, err error) {
	if o.spec.Writer.Change == "" {
		return o.enqueue(ctx, rows...)
	}
	for _, row := range rows {
		e, err := o.inserted(ctx, row)
		if err != nil {
			return nil, err
		}
		results = append(results, e)
	}
	return results, nil
}

// object is the call as an object for the function for many rows.
func (c call) object() string {
	var fields []string
	for _, p := range c.params {
		if p.value == nil {
			continue
		}
		if p.typ == "bytea" {
			p.name += "_base64"
		}
		fields = append(fields, written(p.name)+": "+written(p.value))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// written is a value in JSON. Texts are sent as they are, also if they are not valid UTF-8.
func written(v any) string {
	switch v := v.(type) {
	case string:
		return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", `\n`, "\x00", `\u0000`).Replace(v) + `"`
	case []byte:
		return written(base64.StdEncoding.EncodeToString(v))
	case time.Time:
		return written(timeText(v))
	case map[string]string:
		var fields []string
		for name, value := range v {
			fields = append(fields, written(name)+": "+written(value))
		}
		return "{" + strings.Join(fields, ", ") + "}"
	}
	encoded, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(encoded)
}

// timeText is a time in the server's form, also one that no client's type for it can have.
func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999Z") }

// inserted inserts a row as it is given, and returns the row with its unique values if there is one.
func (o functionOps) inserted(ctx context.Context, row workqueue.NewRow) (e workqueue.Enqueued, err error) {
	insert, args := o.insertion(row)
	var columns, given, same []string
	var held []any
	for _, name := range o.spec.Unique {
		i := slices.IndexFunc(o.spec.Columns, func(c workqueue.Column) bool { return c.Name == name })
		held = append(held, row.Values[i])
		quoted := pgx.Identifier{name}.Sanitize()
		columns, given = append(columns, quoted), append(given, quoted+" IS NOT NULL")
		same = append(same, fmt.Sprintf("%s = $%d::%s", quoted, len(held), o.spec.Columns[i].Type))
	}
	if len(columns) > 0 {
		insert += fmt.Sprintf(" ON CONFLICT (%s) WHERE %s DO NOTHING", strings.Join(columns, ", "),
			strings.Join(given, " AND "))
	}
	for range 10 { // the row that holds the values may go
		err := o.tx.QueryRow(ctx, insert+" RETURNING id", described(args)...).Scan(&e.ID)
		if !errors.Is(err, pgx.ErrNoRows) {
			return e, err
		}
		find := fmt.Sprintf("SELECT id FROM %s WHERE %s", o.spec.Name(), strings.Join(same, " AND "))
		err = o.tx.QueryRow(ctx, find, described(held)...).Scan(&e.ID)
		if !errors.Is(err, pgx.ErrNoRows) {
			e.Duplicate = err == nil
			return e, err
		}
	}
	return e, errors.New("the row was not stored")
}

// insertion names only the columns that the row sets, so that the table's defaults apply to the others.
func (o functionOps) insertion(row workqueue.NewRow) (query string, args []any) {
	var columns, params []string
	add := func(column, typ string, value any) {
		args = append(args, value)
		columns = append(columns, column)
		params = append(params, fmt.Sprintf("$%d::%s", len(args), typ))
	}
	if row.ID != uuid.Nil {
		add("id", "uuid", row.ID)
	}
	if !row.DueAt.IsZero() {
		add("due_at", "text::timestamptz", timeText(row.DueAt))
	}
	if row.MaxAttempts != 0 {
		add("max_attempts", "bigint::integer", row.MaxAttempts)
	}
	if row.Waiting {
		add("waiting", "boolean", true)
	}
	if row.Headers != nil {
		add("headers", "jsonb", written(row.Headers))
	}
	if retry := storedRetry(row.Retry); retry != nil {
		add("retry", "jsonb", written(retry))
	}
	for i, c := range o.spec.Columns {
		add(pgx.Identifier{c.Name}.Sanitize(), c.Type, row.Values[i])
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", o.spec.Name(), strings.Join(columns, ", "),
		strings.Join(params, ", ")), args
}
