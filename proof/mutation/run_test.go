package mutation

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
)

// scripted makes a package with an SQL file whose test binary is a script that contains the file.
func scripted(t *testing.T, script string) (*lab, mutant) {
	t.Helper()
	root := t.TempDir()
	const text = "SELECT WHERE guarded"
	file := filepath.Join("pkg", "a.sql")
	if err := os.Mkdir(filepath.Join(root, "pkg"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := &originals{binaries: map[string][]byte{"pkg": []byte("#!/bin/sh\n# " + text + "\n" + script)}}
	l := &lab{root: root, dir: t.TempDir(), url: pgtest.URL(t), originals: tests}
	return l, newMutant("without guarded", file, []byte(text), strings.Index(text, "guarded"), "guarded", "true",
		[]suite{{dir: "pkg"}})
}

const (
	isMutant = `grep -q 'WHERE [t]rue' "$0"`
	fails    = "echo '--- FAIL: TestA (0.00s)'; exit 1\n"
)

func TestAMutantIsKilledBySomebody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		want   result
	}{
		"a test": {isMutant + " && { " + fails + "}\nexit 0", result{Dir: "pkg", Killer: "TestA"}},
		"nobody": {"exit 0", result{}},
		"a test, not alone": {isMutant + ` && case "$*" in *test.run*) exit 0;; esac && { ` + fails +
			"}\nexit 0", result{Dir: "pkg", Killer: "TestA", Once: true}},
		"a run that ends otherwise": {isMutant + " && exit 3\nexit 0",
			result{Dir: "pkg", Killer: "the run: exit status 3"}},
		"a test that does not end": {isMutant + " && printf 'panic: test timed out after 1s\\n\\t\\tTestA (1s)\\n' " +
			"&& sleep 60\nexit 0",
			result{Dir: "pkg", Killer: "TestA", TimedOut: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, m := scripted(t, c.script)
			if _, err := l.baseline(t.Context(), []mutant{m}, func(string) {}); err != nil {
				t.Fatal(err)
			}
			got, err := l.try(t.Context(), m, m.suites)
			if err != nil {
				t.Fatal(err)
			}
			c.want.Mutant, c.want.Print, c.want.Seconds = m.Name, m.print, got.Seconds
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// A test that fails without a mutant would kill every mutant.
func TestNothingIsTriedWithTestsThatFailAnyway(t *testing.T) {
	t.Parallel()
	l, m := scripted(t, fails)
	_, err := l.baseline(t.Context(), []mutant{m}, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "TestA") {
		t.Errorf("got %v, want an error about TestA", err)
	}
}

// A failure of a test that is killed is not a finding.
func TestAnInterruptedRunSaysNothingAboutItsMutant(t *testing.T) {
	t.Parallel()
	l, m := scripted(t, isMutant+" && sleep 60\nexit 0")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if r, err := l.try(ctx, m, m.suites); err == nil {
		t.Errorf("got %v, want an error", r)
	}
}

func TestKilledMutantsAreNotTriedAgain(t *testing.T) {
	t.Parallel()
	l, m := scripted(t, "exit 0") // no test notices
	j, err := openJournal("")
	if err != nil {
		t.Fatal(err)
	}
	known := result{Mutant: m.Name, Print: m.print, Dir: "pkg", Killer: "TestA"}
	for name, want := range map[string]result{"killed": known, "killed before a change": {Mutant: m.Name,
		Print: m.print}} {
		if want == known {
			j.last[m.Name] = known
		} else {
			j.last[m.Name] = result{Mutant: m.Name, Print: "another", Dir: "pkg", Killer: "TestA"}
		}
		c := newCheck(l.root, options{parallel: 1}, []mutant{m}, j, io.Discard)
		c.originals = l.originals
		results, err := c.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want.Seconds = results[0].Seconds; len(results) != 1 || results[0] != want {
			t.Errorf("%s: got %+v, want %+v", name, results, want)
		}
	}
}

func TestSurvivorsAreCounted(t *testing.T) {
	t.Parallel()
	results := []result{{Mutant: "a", Killer: "TestA"}, {Mutant: "b"}, {Mutant: "c", Killer: "TestC", TimedOut: true},
		{Mutant: "d", Killer: "TestD", Once: true}}
	if got, want := count(results), (tally{mutants: 4, survived: 1, timedOut: 1, once: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	var out strings.Builder
	if err := report(&out, results, 3, time.Minute, false); err != nil {
		t.Fatal(err)
	}
	if want := "No test notices:\n  b\n\n4 mutants, 3 killed (1 by a test that did not end, 1 by one that passes " +
		"when it is repeated alone), 1 survived; 3 equivalent ones left out; 1m0s\n"; !strings.HasSuffix(out.String(),
		want) {
		t.Errorf("got:\n%s", out.String())
	}
}
