package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/txwork/txwork/internal/page"
)

const root = "../.."

// pages returns all pages of the repository.
func pages(t *testing.T) []page.Page {
	t.Helper()
	all, err := page.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 40 {
		t.Fatalf("only %d pages were found", len(all))
	}
	return all
}

func pageAt(t *testing.T, path string) page.Page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return page.Page{Path: path, Text: string(text)}
}

// A source is a file of code.
type source struct{ dir, text string }

// sources are the files of code, by path.
var sources = sync.OnceValues(func() (files map[string]source, err error) {
	files = map[string]source{}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git") {
			return filepath.SkipDir
		}
		switch filepath.Ext(path) {
		case ".go", ".sh", ".sql", ".proto", ".pml":
		default:
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, path)
		below = filepath.ToSlash(below)
		files[below] = source{filepath.ToSlash(filepath.Dir(below)), string(text)}
		return err
	})
	return files, err
})

func code(t *testing.T) map[string]source {
	t.Helper()
	files, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var declared = regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz|Benchmark)\w*)\(`)

// tests returns the names of all tests, by directory.
func tests(t *testing.T) map[string][]string {
	t.Helper()
	named := map[string][]string{}
	for path, file := range code(t) {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, m := range declared.FindAllStringSubmatch(file.text, -1) {
			named[file.dir] = append(named[file.dir], m[1])
		}
	}
	return named
}
