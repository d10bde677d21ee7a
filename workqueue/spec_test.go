package workqueue_test

import (
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// longestTable is the longest that a table's name may be. The longest name that derives from it, that of the constraint
// _attempts_check, then has 63 bytes.
const longestTable = 63 - len("_attempts_check")

func text(name string) workqueue.Column {
	return workqueue.Column{Name: name, Type: "text", NotNull: true}
}

func columns(cs ...workqueue.Column) []workqueue.Column { return cs }

func TestSpecRefuses(t *testing.T) {
	t.Parallel()
	a := columns(text("a"))
	nullable := func(name, kind string) workqueue.Column { return workqueue.Column{Name: name, Type: kind} }
	freed := columns(nullable("u", "text"), nullable("o", "text"), nullable("f", "text"), nullable("n", "bigint"),
		text("a"))
	for name, c := range map[string]struct {
		spec  workqueue.Spec
		field string
	}{
		"no table":              {workqueue.Spec{}, "table"},
		"upper case":            {workqueue.Spec{Table: "Invoices"}, "table"},
		"a leading digit":       {workqueue.Spec{Table: "1st"}, "table"},
		"a dash":                {workqueue.Spec{Table: "in-voices"}, "table"},
		"a dot":                 {workqueue.Spec{Table: "a.b"}, "table"},
		"a space":               {workqueue.Spec{Table: "a b"}, "table"},
		"a quote":               {workqueue.Spec{Table: `a"b`}, "table"},
		"an injection":          {workqueue.Spec{Table: `a"; DROP TABLE b; --`}, "table"},
		"a NUL":                 {workqueue.Spec{Table: "a\x00"}, "table"},
		"a letter beyond ASCII": {workqueue.Spec{Table: "é"}, "table"},
		"a Kelvin sign":         {workqueue.Spec{Table: "\u212A"}, "table"},
		"a trailing newline":    {workqueue.Spec{Table: "a\n"}, "table"},
		"a table too long":      {workqueue.Spec{Schema: "s", Table: strings.Repeat("t", longestTable+1)}, "table"},
		"a channel too long": {workqueue.Spec{Schema: strings.Repeat("s", 33), Table: strings.Repeat("t", 30)},
			"table"},
		"an upper-case schema":    {workqueue.Spec{Schema: "S", Table: "t"}, "schema"},
		"a schema too long":       {workqueue.Spec{Schema: strings.Repeat("s", 64), Table: "t"}, "schema"},
		"a system schema":         {workqueue.Spec{Schema: "pg_catalog", Table: "t"}, "schema"},
		"a column without a name": {workqueue.Spec{Table: "t", Columns: columns(text(""))}, "column"},
		"an upper-case column":    {workqueue.Spec{Table: "t", Columns: columns(text("A"))}, "column"},
		"a column too long": {workqueue.Spec{Table: "t", Columns: columns(text(strings.Repeat("c", 64)))},
			"column"},
		"a column twice": {workqueue.Spec{Table: "t", Columns: columns(text("a"), text("a"))}, "column"},
		"an unknown type": {workqueue.Spec{Table: "t",
			Columns: columns(workqueue.Column{Name: "a", Type: "money"})}, "column"},
		"a type in upper case": {workqueue.Spec{Table: "t",
			Columns: columns(workqueue.Column{Name: "a", Type: "TEXT"})}, "column"},
		"an injected type": {workqueue.Spec{Table: "t",
			Columns: columns(workqueue.Column{Name: "a", Type: "text); DROP TABLE b; --"})}, "column"},
		"a bound of a UUID":   {workqueue.Spec{Table: "t", Columns: bounded("uuid", 1, 2)}, "column"},
		"a bound of nothing":  {workqueue.Spec{Table: "t", Columns: bounded("text", 0, 0)}, "column"},
		"a bound upside down": {workqueue.Spec{Table: "t", Columns: bounded("bigint", 2, 1)}, "column"},
		"fewer than no bytes": {workqueue.Spec{Table: "t", Columns: bounded("bytea", -1, 1)}, "column"},
		"a bound of a name that is too long": {workqueue.Spec{Table: strings.Repeat("t", 48), Columns: columns(
			workqueue.Column{Name: strings.Repeat("c", 15), Type: "text",
				Bound: workqueue.Bound{Min: 1, Stored: true}})},
			"type of a column"},
		"no type": {workqueue.Spec{Table: "t", Columns: columns(workqueue.Column{Name: "a"})},
			"column"},
		"an unknown lane": {workqueue.Spec{Table: "t", Columns: a, Lanes: []string{"b"}}, "lanes"},
		"a nullable lane": {workqueue.Spec{Table: "t",
			Columns: columns(workqueue.Column{Name: "a", Type: "text"}), Lanes: []string{"a"}}, "lanes"},
		"a lane twice": {workqueue.Spec{Table: "t", Columns: a, Lanes: []string{"a", "a"}}, "lanes"},
		"a lane named batch_size": {workqueue.Spec{Table: "t", Columns: columns(text("batch_size")),
			Lanes: []string{"batch_size"}}, "lanes"},
		"a core column as a lane":  {workqueue.Spec{Table: "t", Columns: a, Lanes: []string{"status"}}, "lanes"},
		"an unknown unique column": {workqueue.Spec{Table: "t", Columns: a, Unique: []string{"b"}}, "unique"},
		"a unique column twice":    {workqueue.Spec{Table: "t", Columns: a, Unique: []string{"a", "a"}}, "unique"},
		"a freed value without a unique one": {workqueue.Spec{Table: "t", Columns: freed, FreedColumn: "f"},
			"freed column"},
		"a freed value of two columns": {workqueue.Spec{Table: "t", Columns: freed, Unique: []string{"u", "o"},
			FreedColumn: "f"}, "freed column"},
		"a freed value in its own column": {workqueue.Spec{Table: "t", Columns: freed, Unique: []string{"u"},
			FreedColumn: "u"}, "freed column"},
		"an unknown freed column": {workqueue.Spec{Table: "t", Columns: freed, Unique: []string{"u"}, FreedColumn: "g"},
			"freed column"},
		"a freed column of another type": {workqueue.Spec{Table: "t", Columns: freed, Unique: []string{"u"},
			FreedColumn: "n"}, "freed column"},
		"a freed value of another type": {workqueue.Spec{Table: "t", Columns: freed, Unique: []string{"n"},
			FreedColumn: "f"}, "freed column"},
		"a freed column that is never empty": {workqueue.Spec{Table: "t", Columns: freed, Unique: []string{"u"},
			FreedColumn: "a"}, "freed column"},
		"a freed value that cannot be given up": {workqueue.Spec{Table: "t", Columns: freed, Unique: []string{"a"},
			FreedColumn: "f"}, "freed column"},
		"a kept column of another type": {workqueue.Spec{Table: "t", Columns: freed, Unique: []string{"u"},
			FreedColumn: "f", KeptColumn: "a"}, "kept column"},
		"a kept column without a freed one": {workqueue.Spec{Table: "t", Columns: freed, Unique: []string{"u"},
			KeptColumn: "k"}, "kept column"},
		"negative version":            {workqueue.Spec{Table: "t", Version: -1}, "version"},
		"older than the oldest table": {workqueue.Spec{Table: "t", Version: 2, OldestTable: 3}, "oldest table"},
		"negative oldest program":     {workqueue.Spec{Table: "t", OldestProgram: -1}, "oldest program"},
		"negative attempts":           {workqueue.Spec{Table: "t", MaxAttempts: -1}, "max attempts"},
		"more attempts than an int":   {workqueue.Spec{Table: "t", MaxAttempts: math.MaxInt32 + 1}, "max attempts"},
		"negative retention":          {workqueue.Spec{Table: "t", Retention: -1}, "retention"},
		"negative failed retention":   {workqueue.Spec{Table: "t", FailedRetention: -1}, "failed retention"},
		"no growth":                   {workqueue.Spec{Table: "t", Retry: workqueue.Retry{Base: 1, Cap: 1}}, "retry"},
		"an unknown growth": {workqueue.Spec{Table: "t", Retry: workqueue.Retry{Growth: 5, Base: 1, Cap: 1}},
			"retry"},
		"a negative base":      {retrySpec(workqueue.Retry{Growth: workqueue.Linear, Base: -1}), "retry"},
		"a cap below the base": {retrySpec(workqueue.Retry{Growth: workqueue.Linear, Base: 2, Cap: 1}), "retry"},
		"a cap of centuries": {retrySpec(workqueue.Retry{Growth: workqueue.Linear, Base: 1, Cap: math.MaxInt64}),
			"retry"},
		"negative jitter": {retrySpec(workqueue.Retry{Growth: workqueue.Linear, Base: 1, Cap: 1,
			Jitter: -0.1}), "retry"},
		"jitter above 1": {retrySpec(workqueue.Retry{Growth: workqueue.Linear, Base: 1, Cap: 1, Jitter: 1.1}),
			"retry"},
		"jitter next to nothing": {retrySpec(workqueue.Retry{Growth: workqueue.Linear, Base: 1, Cap: 1,
			Jitter: 1e-320}), "retry"},
		"jitter that is no number": {retrySpec(workqueue.Retry{Growth: workqueue.Linear, Base: 1, Cap: 1,
			Jitter: math.NaN()}), "retry"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantInvalid(t, c.spec.Validate(), c.field)
			_, openErr := workqueue.Open(c.spec, workqueue.Telemetry{})
			wantInvalid(t, openErr, c.field)
			_, _, ddlErr := c.spec.DDL()
			wantInvalid(t, ddlErr, c.field)
		})
	}
}

func retrySpec(r workqueue.Retry) workqueue.Spec { return workqueue.Spec{Table: "t", Retry: r} }

func wantInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *workqueue.InvalidError
	if !errors.As(err, &invalid) || !errors.Is(err, workqueue.ErrInvalid) {
		t.Fatalf("got the error %v, want an InvalidError", err)
	}
	if invalid.Field != field || invalid.Reason == "" {
		t.Fatalf("got the error %q about %q, want one about %q", invalid, invalid.Field, field)
	}
}

func TestSpecRefusesCoreAndSystemColumns(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"id", "due_at", "created_at", "max_attempts", "attempts", "status", "locked_until", "owner_token",
		"completed_at", "failed_at", "cancelled_at", "last_error", "headers",
		"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid",
	} {
		wantInvalid(t, workqueue.Spec{Table: "t", Columns: columns(text(name))}.Validate(), "column")
	}
}

func TestSpecAccepts(t *testing.T) {
	t.Parallel()
	all := make([]workqueue.Column, 0, len(postgres.ColumnTypes))
	for _, typ := range postgres.ColumnTypes {
		all = append(all, workqueue.Column{Name: "c_" + strings.ReplaceAll(typ, " ", "_"), Type: typ, NotNull: true})
	}
	for name, spec := range map[string]workqueue.Spec{
		"a table alone": {Table: "t"},
		"an underscore": {Table: "_"},
		"a reserved word": {Table: "select", Columns: columns(text("order"), text("user")),
			Lanes: []string{"order"}},
		"the longest table": {Schema: "s", Table: strings.Repeat("t", longestTable)},
		"the longest column": {Table: "t", Columns: columns(text(strings.Repeat("c", 63))),
			Lanes: []string{strings.Repeat("c", 63)}},
		"the longest channel":  {Schema: strings.Repeat("s", 31), Table: strings.Repeat("t", 31)},
		"a parameter's name":   {Table: "t", Columns: columns(text("batch_size"), text("ids"), text("error"))},
		"every type":           {Table: "t", Columns: all, Unique: []string{all[0].Name}},
		"every type as a lane": {Table: "t", Columns: all, Lanes: names(all)},
		"one attempt":          {Table: "t", MaxAttempts: 1},
		"a freed value": {Table: "t", Columns: columns(workqueue.Column{Name: "u", Type: "text"},
			workqueue.Column{Name: "f", Type: "text"}), Unique: []string{"u"}, FreedColumn: "f"},
		"a kept value": {Table: "t", Columns: columns(workqueue.Column{Name: "u", Type: "text"},
			workqueue.Column{Name: "f", Type: "text"}, workqueue.Column{Name: "k", Type: "smallint"}),
			Unique: []string{"u"}, FreedColumn: "f", KeptColumn: "k"},
		"no delay between tries": retrySpec(workqueue.Retry{Growth: workqueue.Constant}),
		"the longest delay": retrySpec(workqueue.Retry{Growth: workqueue.Quadratic, Base: 1,
			Cap: 10 * 365 * 24 * time.Hour, Jitter: 1}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := spec.Validate(); err != nil {
				t.Fatal(err)
			}
			createsCleanly(t, spec)
		})
	}
}

func names(cs []workqueue.Column) (list []string) {
	for _, c := range cs {
		list = append(list, c.Name)
	}
	return list
}

var quoted = regexp.MustCompile(`"([^"]*)"`)

// createsCleanly runs the DDL of a Spec, up and down, and checks that PostgreSQL cuts none of its names.
func createsCleanly(t *testing.T, spec workqueue.Spec) {
	t.Helper()
	db := pgtest.New(t)
	if spec.Schema == "" {
		spec.Schema = db.Schema
	} else { // the length of the name matters
		if _, err := db.Pool.Exec(t.Context(), "CREATE SCHEMA "+spec.Schema); err != nil {
			t.Fatal(err)
		}
		defer db.Pool.Exec(t.Context(), "DROP SCHEMA "+spec.Schema+" CASCADE")
	}
	up, down, err := spec.DDL()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range quoted.FindAllStringSubmatch(up+down, -1) {
		if len(name[1]) > 63 {
			t.Errorf("PostgreSQL cuts the name %s", name[1])
		}
	}
	for _, statements := range []string{up, down} {
		if _, err := db.Pool.Exec(t.Context(), statements); err != nil {
			t.Fatalf("%v\n%s", err, statements)
		}
	}
}

func TestStateNames(t *testing.T) {
	t.Parallel()
	for _, s := range workqueue.States() {
		if got, err := workqueue.ParseState(string(s)); err != nil || got != s {
			t.Errorf("ParseState(%q): got %v, %v", s, got, err)
		}
	}
	_, err := workqueue.ParseState("claimed")
	wantInvalid(t, err, "state")
}

func TestStatusNames(t *testing.T) {
	t.Parallel()
	for _, s := range []workqueue.Status{workqueue.Ready, workqueue.InProgress, workqueue.Done, workqueue.Failed} {
		if got, err := workqueue.ParseStatus(s.String()); err != nil || got != s {
			t.Errorf("ParseStatus(%q): got %v, %v", s, got, err)
		}
	}
	_, err := workqueue.ParseStatus("READY")
	wantInvalid(t, err, "status")
	if got := workqueue.Status(9).String(); got != "status(9)" {
		t.Errorf("an unknown status is called %q", got)
	}
}

func bounded(typ string, least, most int64) []workqueue.Column {
	return []workqueue.Column{{Name: "a", Type: typ, Bound: workqueue.Bound{Min: least, Max: most, Stored: true}}}
}
