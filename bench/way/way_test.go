package main

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/cover"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgtest"
)

// Every way's worker handles its item, and ends with the item's row done.
func TestEveryWayEnds(t *testing.T) {
	t.Parallel()
	server, err := localpg.Start(t.Context(), localpg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			url, err := prepare(t.Context(), server.URL(), "way_"+w.name, w)
			if err != nil {
				t.Fatal(err)
			}
			err = w.run(t.Context(), url, true, 0, func(done func() bool) { pgtest.Await(pgtest.Patience, done) })
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A block belongs to the innermost function around it, which may be a closure.
func TestFunctionsOfBlocks(t *testing.T) {
	t.Parallel()
	const source = `package p

func (l *list[T]) first() {
	a()
	run(func() {
		b()
	})
}

var v = func() { c() }

func other() { d() }
`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	const file = "example.org/p/f.go"
	at := func(line, column int) block {
		return block{file, cover.ProfileBlock{StartLine: line, StartCol: column}}
	}
	r, err := sources{path.Dir(file): dir}.functionsOf(map[block]bool{at(4, 2): true, at(6, 3): true, at(5, 2): true,
		at(10, 18): true})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range r.Names {
		names = append(names, f.Name)
	}
	want := []string{"list.first", "list.first, closure of line 5", "a variable, closure of line 10"}
	if !slices.Equal(names, want) || r.Functions != 3 || r.Files != 1 || len(r.Parts) != 1 ||
		r.Parts[0].Functions != 3 {
		t.Errorf("found %q in %+v, want %q", names, r.Parts, want)
	}
}
