package workqueue

import (
	"testing"
	"time"
)

var shapes = Spec{
	Table: "shapes",
	Columns: []Column{{Name: "topic", Type: "text", NotNull: true}, {Name: "body", Type: "bytea"},
		{Name: "key", Type: "text"}},
	Unique: []string{"key"},
}

// An insert sends only the values that rows have: nothing for a column that no row sets, one value if all rows have the
// same, and an array only if they differ. It checks for conflicts only if a row holds a unique value.
func TestShapesOfInserts(t *testing.T) {
	t.Parallel()
	table, err := Open(shapes, Telemetry{})
	if err != nil {
		t.Fatal(err)
	}
	row := func(topic string, body []byte, key any) NewRow { return NewRow{Values: []any{topic, body, key}} }
	late := NewRow{DueAt: time.Now().Add(time.Hour), MaxAttempts: 3, Waiting: true, Retry: DefaultRetry,
		Values: []any{"a", nil, nil}}
	body := []byte("x")
	for name, c := range map[string]struct {
		rows []NewRow
		want shape
	}{
		"one row":            {[]NewRow{row("a", body, nil)}, shape{forms: "aaaaacca", one: true}},
		"one row with a key": {[]NewRow{row("a", body, "k")}, shape{forms: "aaaaaccc", one: true, guarded: true}},
		"all the same":       {[]NewRow{row("a", nil, nil), row("a", nil, nil)}, shape{forms: "aaaaacaa"}},
		"equal bytes":        {[]NewRow{row("a", body, nil), row("a", body, nil)}, shape{forms: "aaaaacva"}},
		"one differs": {[]NewRow{row("a", nil, nil), row("a", nil, nil), row("b", nil, nil)},
			shape{forms: "aaaaavaa"}},
		"one of them has one": {[]NewRow{row("a", nil, nil), row("a", nil, "k")}, shape{forms: "aaaaacav",
			guarded: true}},
		"the core's columns":  {[]NewRow{row("a", nil, nil), late}, shape{forms: "vvvavcaa"}},
		"a column set by all": {[]NewRow{late, late}, shape{forms: "cccaccaa"}},
	} {
		rows, err := table.checked(c.rows)
		if err != nil {
			t.Fatal(err)
		}
		in, err := table.newInsertion(t.Context(), rows)
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := in.statement(); text != table.view.insertStatement(c.want).Text {
			t.Errorf("%s: got %s, want that of %+v", name, text, c.want)
		}
	}
}

// Whatever shapes the callers use, a table keeps a bounded number of statements. It renders others anew each time.
func TestStatementsOfInsertsAreBounded(t *testing.T) {
	t.Parallel()
	table, err := Open(shapes, Telemetry{})
	if err != nil {
		t.Fatal(err)
	}
	forms := []byte("aaaaaaaa")
	for n := range 2 * maxShapes {
		for i := range forms {
			forms[i] = "acv"[n%3]
			if n /= 3; n == 0 {
				break
			}
		}
		s := shape{forms: string(forms)}
		if got, want := table.inserts.of(s).text, table.view.insertStatement(s).Text; got != want {
			t.Fatalf("%+v: got %s, want %s", s, got, want)
		}
	}
	kept := 0
	table.inserts.kept.Range(func(any, any) bool { kept++; return true })
	if kept != maxShapes {
		t.Errorf("%d statements are kept, want %d", kept, maxShapes)
	}
}
