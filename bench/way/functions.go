package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// sources are the directories of packages.
type sources map[string]string

// A function is a function, a method or a closure.
type function struct {
	Name string `json:"name"` // of a closure, the function that it is in, and its line
	File string `json:"file"` // with the path of its package
	Line int    `json:"line"`

	from, to token.Position
}

// A part is a package, with the number of its functions on the way. Those of a package with many files are counted by
// the first words of their files' names.
type part struct {
	Name      string `json:"name"`
	Functions int    `json:"functions"`
}

// functionsOf returns the functions that the blocks are in.
func (s sources) functionsOf(blocks map[block]bool) (r result, err error) {
	byFile := map[string][]block{}
	for b := range blocks {
		byFile[b.file] = append(byFile[b.file], b)
	}
	parts := map[string]int{}
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		all, err := s.functions(file)
		if err != nil {
			return r, err
		}
		on := map[int]bool{}
		for _, b := range byFile[file] {
			if i := innermost(all, b); i >= 0 {
				on[i] = true
			}
		}
		for _, i := range slices.Sorted(maps.Keys(on)) {
			r.Names = append(r.Names, all[i])
			parts[partOf(file)]++
		}
		if len(on) > 0 {
			r.Files++
		}
	}
	r.Functions = len(r.Names)
	for name, n := range parts {
		r.Parts = append(r.Parts, part{name, n})
	}
	slices.SortFunc(r.Parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(b.Functions, a.Functions), cmp.Compare(a.Name, b.Name))
	})
	return r, nil
}

// partOf names the part that a file belongs to.
func partOf(file string) string {
	dir := path.Dir(file)
	name := strings.TrimPrefix(strings.TrimPrefix(dir, "github.com/txwork/txwork/"), "github.com/riverqueue/")
	if name == "workqueue" {
		word, _, _ := strings.Cut(strings.TrimSuffix(path.Base(file), ".go"), "_")
		return name + "/" + word + "*"
	}
	return name
}

// functions returns the functions of a file, outer ones before those that they contain.
func (s sources) functions(file string) (all []function, err error) {
	dir, known := s[path.Dir(file)]
	if !known {
		return nil, fmt.Errorf("the source of %s is not known", file)
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, filepath.Join(dir, path.Base(file)), nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	add := func(name string, n ast.Node) {
		from := set.Position(n.Pos())
		all = append(all, function{name, file, from.Line, from, set.Position(n.End())})
	}
	for _, d := range parsed.Decls {
		name := "a variable"
		if f, is := d.(*ast.FuncDecl); is {
			name = nameOf(f)
			add(name, f)
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if f, is := n.(*ast.FuncLit); is {
				add(fmt.Sprintf("%s, closure of line %d", name, set.Position(f.Pos()).Line), f)
			}
			return true
		})
	}
	return all, nil
}

func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return t.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

// innermost returns the index of the last function that contains the start of a block, or -1.
func innermost(all []function, b block) int {
	found := -1
	for i, f := range all {
		if !before(b.StartLine, b.StartCol, f.from) && before(b.StartLine, b.StartCol, f.to) {
			found = i
		}
	}
	return found
}

func before(line, column int, p token.Position) bool {
	return line < p.Line || line == p.Line && column < p.Column
}
