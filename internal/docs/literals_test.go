package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// direct matches an INSERT of literals into a table whose payload is bytes: a literal is read in the input format of
// bytea, in which a backslash begins an escape. docs/sql.md has the functions to be used instead.
var direct = regexp.MustCompile(`(?is)INSERT\s+INTO\s+(?:\w+\.)?"?(?:outbox|inbox|timers|jobs)"?\s*\([^)]*\b(?:payload|args)\b[^)]*\)\s*VALUES`)

// No page, help or example shows how to corrupt a payload.
func TestNobodyIsShownToInsertAPayloadAsALiteral(t *testing.T) {
	t.Parallel()
	texts := map[string]string{}
	for _, p := range pages(t) {
		texts[p.Path] = p.Text
	}
	for _, pattern := range []string{"cmd/txwork/help/*.txt", "examples/*/*.go", "examples/*/*.sql", "*/doc.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[strings.TrimPrefix(file, root)] = string(text)
		}
	}
	for path, text := range texts {
		if found := direct.FindString(text); found != "" {
			t.Errorf("%s shows %q", path, found)
		}
	}
	if !direct.MatchString("insert into txwork.outbox (topic, payload)\nvalues ('t', '{}')") {
		t.Error("nothing would be found")
	}
}
