package mark_test

import (
	"testing"

	"github.com/txwork/txwork/internal/mark"
)

// A released program reads these, whatever later ones write: change no line.
func TestTheGrammarIsFrozen(t *testing.T) {
	t.Parallel()
	one := mark.Version{Is: 1, Since: 1}
	for text, want := range map[string]mark.Mark{
		"txwork core 1":                              {Core: one, Table: one},
		"txwork core 2 since 1":                      {Core: mark.Version{Is: 2, Since: 1}, Table: one},
		"txwork core 1, version 3":                   {Core: one, Table: mark.Version{Is: 3, Since: 3}},
		"txwork core 12 since 9, version 40 since 7": {Core: mark.Version{Is: 12, Since: 9}, Table: mark.Version{Is: 40, Since: 7}},
	} {
		for _, suffix := range []string{"", "; and what a later version adds"} {
			if got, ok := mark.Parse(text + suffix); !ok || got != want {
				t.Errorf("%q is read as %+v, %v", text+suffix, got, ok)
			}
		}
		if want.String() != text {
			t.Errorf("%+v is written as %q, not %q", want, want, text)
		}
	}
	for _, text := range []string{"", "mine", "txwork core", "txwork core x", "txwork core -1", "txwork core 1 until 3",
		"txwork core 12345678901234567890", "txwork it is not"} {
		if got, ok := mark.Parse(text); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	if got, ok := mark.Parse("txwork outbox_log 3 since 2"); !ok || got.Core != (mark.Version{Is: 3, Since: 2}) {
		t.Errorf("a table whose name has several words: %+v, %v", got, ok)
	}
	if got, ok := mark.Parse("txwork leader 2 since 1"); !ok || got.Core != (mark.Version{Is: 2, Since: 1}) {
		t.Errorf("a table without a core: %+v, %v", got, ok)
	}
}

func TestWhichSideIsBehind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		table   mark.Version
		program mark.Program
		want    mark.Fit
	}{
		{mark.Version{Is: 1, Since: 1}, mark.Program{Is: 1, Oldest: 1}, mark.Fits},
		{mark.Version{Is: 2, Since: 1}, mark.Program{Is: 1, Oldest: 1}, mark.Fits},
		{mark.Version{Is: 3, Since: 2}, mark.Program{Is: 1, Oldest: 1}, mark.TooNew},
		{mark.Version{Is: 1, Since: 1}, mark.Program{Is: 2, Oldest: 1}, mark.Pending},
		{mark.Version{Is: 1, Since: 1}, mark.Program{Is: 2, Oldest: 2}, mark.TooOld},
		{mark.Version{Is: 9, Since: 3}, mark.Program{Is: 3, Oldest: 2}, mark.Fits},
	} {
		if got := c.table.For(c.program); got != c.want {
			t.Errorf("a table of %+v and a program of %+v: %v, want %v", c.table, c.program, got, c.want)
		}
	}
}
