package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// mainLines is the limit on the length of the README's service.
const mainLines = 20

// The README's service has a part of every kind, and the reaper, in a short main.
func TestTheReadmesServiceIsShort(t *testing.T) {
	t.Parallel()
	text := readmesMain(t)
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", "package main\n"+text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(strings.TrimSpace(text), "\n") - 1; lines > mainLines {
		t.Errorf("main has %d lines, want at most %d", lines, mainLines)
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				names = append(names, x.Name+"."+s.Sel.Name)
			}
		}
		return true
	})
	for _, name := range []string{"outbox.NewRelay", "inbox.NewWorker", "timers.NewWorker", "jobs.NewWorker",
		"service.New", "s.Handler", "s.Run"} {
		if !slices.Contains(names, name) {
			t.Errorf("main has no %s", name)
		}
	}
	if strings.Contains(text, "MaintainedElsewhere") || strings.Contains(text, "NoSchedules") {
		t.Error("main runs without the reaper or the schedules")
	}
}

// readmesMain returns the README's block with a main function.
func readmesMain(t *testing.T) string {
	t.Helper()
	for _, p := range pages(t) {
		for _, b := range p.Blocks() {
			if p.Path == "README.md" && strings.HasPrefix(b.Text, "func main() {\n") {
				return b.Text
			}
		}
	}
	t.Fatal("README.md has no main")
	return ""
}
