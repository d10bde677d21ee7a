package architecture_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// floors are the groups of files of the core, the lowest first. A file belongs to the floor that names it, or the part
// of its name before the first underscore.
var floors = [][]string{
	{"doc", "errors", "state", "limits", "outcome"},
	{"spec"},
	{"render"},
	{"db"},
	{"table", "queue", "observe"},
	{"insert"},
	{"claim", "settle", "maintain"},
	{"announcer"},
	{"engine", "claimer", "handler", "settler"},
	{"wake", "upkeep", "worker", "workers", "runtime"},
}

// A file of the core uses what its own floor and the floors below declare, so that each floor can be understood without
// those above it. The floors cannot be packages, see docs/adr/0069-rooms-below-the-core.md.
func TestFloorsOfTheCore(t *testing.T) {
	t.Parallel()
	files, uses := usesBetweenFiles(t, module+"workqueue")
	found := map[string]bool{}
	for _, file := range files {
		found[nameOf(file)] = true
		if floorOf(file) < 0 {
			t.Errorf("workqueue/%s is on no floor: let its name begin with one of those in floors, in this test, or add its "+
				"own there and to docs/architecture.md", file)
		}
	}
	for _, name := range slices.Concat(floors...) {
		if !found[name] {
			t.Errorf("there is no file %s.go or %[1]s_….go in workqueue: remove it from floors in this test", name)
		}
	}
	for use, names := range uses {
		if from, to := floorOf(use.by), floorOf(use.of); from >= 0 && from < to {
			t.Errorf("workqueue/%s uses %s of workqueue/%s, which is a floor above: move what it uses to a file of its floor, "+
				"or of one below, or move its own code up", use.by, strings.Join(slices.Sorted(maps.Keys(names)), ", "), use.of)
		}
	}
}

func floorOf(file string) int {
	return slices.IndexFunc(floors, func(names []string) bool { return slices.Contains(names, nameOf(file)) })
}

func nameOf(file string) string {
	name, _, _ := strings.Cut(strings.TrimSuffix(file, ".go"), "_")
	return name
}

// A use is a file that names what another file of its package declares: at package level, or as a field or a method.
type use struct{ by, of string }

// usesBetweenFiles returns the files of a package and what they use of each other, tests aside.
func usesBetweenFiles(t *testing.T, pkg string) (files []string, uses map[use]map[string]bool) {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-export", "-f",
		"{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{join .GoFiles \" \"}}", pkg).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	set, exports, dir := token.NewFileSet(), map[string]string{}, ""
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(line, "\t")
		exports[fields[0]] = fields[1]
		if fields[0] == pkg {
			dir, files = fields[2], strings.Fields(fields[3])
		}
	}
	var parsed []*ast.File
	for _, name := range files {
		file, err := parser.ParseFile(set, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	checked, err := (&types.Config{Importer: importer.ForCompiler(set, "gc", open)}).Check(pkg, set, parsed, &info)
	if err != nil {
		t.Fatal(err)
	}
	uses = map[use]map[string]bool{}
	fileOf := func(at token.Pos) string { return filepath.Base(set.Position(at).Filename) }
	for name, object := range info.Uses {
		if u := (use{fileOf(name.Pos()), fileOf(object.Pos())}); object.Pkg() == checked && u.by != u.of {
			if uses[u] == nil {
				uses[u] = map[string]bool{}
			}
			uses[u][object.Name()] = true
		}
	}
	return files, uses
}
