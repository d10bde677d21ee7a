package architecture_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// Imports stand in three groups: those of the standard library, of others, and our own. gofmt sorts each of them.
func TestImportsAreInOneOrder(t *testing.T) {
	t.Parallel()
	for _, file := range goFiles(t) {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if problem := orderOf(set, d.(*ast.GenDecl)); problem != "" {
				t.Errorf("%s: %s", file, problem)
			}
		}
	}
}

// orderOf says what is wrong with the order of a block of imports.
func orderOf(set *token.FileSet, block *ast.GenDecl) string {
	kind, line := -1, 0
	for _, spec := range block.Specs {
		name, err := strconv.Unquote(spec.(*ast.ImportSpec).Path.Value)
		if err != nil {
			return err.Error()
		}
		is, begin := kindOfImport(name), set.Position(spec.Pos()).Line
		switch apart := begin > line+1; {
		case is < kind:
			return name + " belongs to the group above"
		case line > 0 && is == kind && apart:
			return name + " is apart from its group"
		case line > 0 && is > kind && !apart:
			return name + " needs an empty line before it: another group begins"
		}
		kind, line = is, set.Position(spec.End()).Line
	}
	return ""
}

// kindOfImport tells packages of the standard library (0), of others (1) and of this repository (2) apart.
func kindOfImport(name string) int {
	first, _, _ := strings.Cut(name, "/")
	switch {
	case strings.HasPrefix(name, module):
		return 2
	case strings.Contains(first, "."):
		return 1
	}
	return 0
}
