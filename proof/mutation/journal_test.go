package mutation

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAJournalKnowsWhoWasKilled(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "journal")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	open := func() *journal {
		t.Helper()
		j, err := openJournal(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.close() })
		return j
	}
	killed := result{Mutant: "a", Print: "1", Dir: "jobs", Killer: "TestA/b", Seconds: 1}
	write(`{"mutant":"cut off`)
	for _, r := range []result{killed, {Mutant: "b", Print: "1"}, {Mutant: "c", Print: "1", Dir: "jobs",
		Killer: "TestC", Once: true}} {
		if err := open().add(r); err != nil {
			t.Fatal(err)
		}
	}

	j := open()
	if r, ok := j.killed(mutant{Name: "a", print: "1"}); !ok || r != killed {
		t.Errorf("got %v, %v, want %v", r, ok, killed)
	}
	for name, m := range map[string]mutant{
		"its file has changed":                     {Name: "a", print: "2"},
		"it survived":                              {Name: "b", print: "1"},
		"its killer passed when it was repeated":   {Name: "c", print: "1"},
		"it was interrupted before it was written": {Name: "cut off", print: ""},
	} {
		if _, ok := j.killed(m); ok {
			t.Errorf("%s: it is not retried", name)
		}
	}
	if s, ok := j.hint(mutant{Name: "a", print: "2"}); !ok || s != (suite{dir: "jobs", run: "^TestA$/^b$"}) {
		t.Errorf("the hint about the previous killer is %v, %v", s, ok)
	}
	if s, ok := j.hint(mutant{Name: "b"}); ok {
		t.Errorf("a survivor was killed by %v", s)
	}
}
