package docs

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/page"
)

var update = flag.Bool("update", false, "write docs/api.md anew")

const apiPage = root + "/docs/api.md"

// publicMethods is how many methods the exported types of all public packages have. A surface grows by one method at a
// time, so whoever adds one raises this number, and who removes one lowers it. It was 352 before the core was divided
// into rooms (ADR 0069). Since then 19 have gone: 7 of alarms, and 12 that nobody used or that stood twice. 50 have
// come, of which outboxes that are a log have 33: 22 of package outbox, and 11 of [workqueue.External].
const publicMethods = 386

// docs/api.md is what go doc prints for every public package. With -v the test also prints counts of the code.
func TestAPI(t *testing.T) {
	var section strings.Builder
	section.WriteString("| package | entries | names | methods |\n|---|---|---|---|\n")
	listings, sum := "", 0
	for _, dir := range publicPackages(t) {
		listing := goDoc(t, dir)
		names, methods, undocumented := exportedBy(t, dir)
		sum += methods
		for _, name := range undocumented {
			t.Errorf("%s: %s has no comment", dir, name)
		}
		fmt.Fprintf(&section, "| [`%s`](#%s) | %d | %d | %d |\n", dir, strings.ReplaceAll(dir, "/", ""),
			strings.Count(listing, "\n"), names, methods)
		listings += "\n## " + dir + "\n\n```text\n" + listing + "```\n"
	}
	if sum != publicMethods {
		t.Errorf("exported types have %d methods, publicMethods says %d", sum, publicMethods)
	}
	want := section.String() + listings
	if *update {
		if err := page.Write(apiPage, "api", want); err != nil {
			t.Fatal(err)
		}
	}
	if current, err := page.Holds(apiPage, "api", want); err != nil || !current {
		t.Errorf("docs/api.md is not what the packages export (%v): TXWORK_DOCS=1 go test ./internal/docs -run TestAPI -update", err)
	}
	t.Log(counts(t))
}

// publicPackages returns the folders of the packages that others can import.
func publicPackages(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", "{{if ne .Name \"main\"}}{{.ImportPath}}{{end}}",
		"github.com/txwork/txwork/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for path := range strings.FieldsSeq(string(out)) {
		dir := strings.TrimPrefix(path, "github.com/txwork/txwork/")
		module := strings.SplitN(dir, "/", 2)[0]
		if !strings.Contains("/"+dir+"/", "/internal/") && !slices.Contains([]string{"bench", "examples", "proof"},
			module) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func goDoc(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command("go", "doc", "-short", "./"+dir)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go doc %s: %v", dir, err)
	}
	return string(out)
}

// exportedBy counts a package's exported names, each constant separately, and the methods of its exported types, and
// lists those without a comment.
func exportedBy(t *testing.T, dir string) (names, methods int, undocumented []string) {
	t.Helper()
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range goFiles(t, filepath.Join(root, dir), false) {
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	pkg, err := doc.NewFromFiles(set, files, "github.com/txwork/txwork/"+dir)
	if err != nil {
		t.Fatal(err)
	}
	note := func(comment, name string) {
		if comment == "" {
			undocumented = append(undocumented, name)
		}
	}
	values := func(all []*doc.Value) {
		for _, v := range all {
			for _, spec := range v.Decl.Specs {
				s := spec.(*ast.ValueSpec)
				for _, name := range s.Names {
					if name.IsExported() {
						names++
						note(v.Doc+s.Doc.Text()+s.Comment.Text(), name.Name)
					}
				}
			}
		}
	}
	funcs := func(all []*doc.Func) {
		for _, f := range all {
			names++
			note(f.Doc, f.Name)
		}
	}
	values(pkg.Consts)
	values(pkg.Vars)
	funcs(pkg.Funcs)
	for _, typ := range pkg.Types {
		names++
		note(typ.Doc, typ.Name)
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
		methods += len(typ.Methods)
		for _, m := range typ.Methods {
			if !slices.Contains([]string{"Error", "Is", "Unwrap", "String"}, m.Name) { // their names say it all
				note(m.Doc, typ.Name+"."+m.Name)
			}
		}
	}
	return names, methods, undocumented
}

// goFiles returns the Go files in a folder, or also below it, without tests.
func goFiles(t *testing.T, dir string, below bool) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != dir && (!below || entry.Name() == "testdata" ||
			strings.HasPrefix(entry.Name(), ".")):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// counts reports the lengths of functions and lines, over all modules, without tests and generated code.
func counts(t *testing.T) string {
	t.Helper()
	var lengths []int
	longest, where := 0, ""
	for _, path := range goFiles(t, root, true) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(file) {
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			if n := len([]rune(line)); n > longest {
				longest, where = n, fmt.Sprintf("%s:%d", strings.TrimPrefix(path, root+"/"), i+1)
			}
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				lengths = append(lengths, set.Position(f.End()).Line-set.Position(f.Pos()).Line+1)
			}
		}
	}
	slices.SortFunc(lengths, cmp.Compare[int])
	at := func(share float64) int { return lengths[int(share*float64(len(lengths)-1))] }
	return fmt.Sprintf("%d functions: median %d lines, p90 %d; the longest line has %d characters (%s)", len(lengths),
		at(0.5), at(0.9), longest, where)
}
