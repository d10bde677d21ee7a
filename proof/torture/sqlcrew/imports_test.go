package sqlcrew

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// A program in another language has the SQL functions and a driver, and nothing of the library.
func TestNothingOfTheLibraryIsImported(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files, error %v", len(files), err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range file.Imports {
			if path := strings.Trim(imported.Path.Value, `"`); strings.Contains(path, "txwork") {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}
