package architecture_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// modules are the directories of other modules, whose tests may sleep.
var modules = []string{"bench", "deploy", "examples", "proof"}

// Tests wait for conditions with pgtest.Await. A package may sleep in one place only; under synctest sleeping is free.
func TestAPackageSleepsInOnePlace(t *testing.T) {
	t.Parallel()
	sleeps := map[string][]string{}
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") && !ofOtherModule(file) {
			dir := filepath.Dir(file)
			sleeps[dir] = append(sleeps[dir], sleepsIn(t, file)...)
		}
	}
	for dir, places := range sleeps {
		if len(places) > 1 {
			t.Errorf("the tests of %s sleep in %d places, want one: %s", dir, len(places), strings.Join(places, ", "))
		}
	}
}

func ofOtherModule(file string) bool {
	for _, module := range modules {
		if strings.HasPrefix(file, filepath.Join(root, module)+"/") {
			return true
		}
	}
	return false
}

// sleepsIn returns the calls of time.Sleep in a file that does not use synctest.
func sleepsIn(t *testing.T, name string) (places []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range file.Imports {
		if i.Path.Value == `"testing/synctest"` {
			return nil
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
			if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "time" {
				places = append(places, set.Position(s.Pos()).String())
			}
		}
		return true
	})
	return places
}
