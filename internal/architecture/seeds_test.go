package architecture_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/seeds.md names the test that holds each statement of the documents the project started from. A name
// without a package is of timers/alarms.
var (
	namedTest = regexp.MustCompile(`(?:([a-z][a-z/]*)\.)?((?:Test|Example|Fuzz)[A-Z][A-Za-z0-9_]*)`)
	namedCase = regexp.MustCompile("`((?:claim|settle|lease|operator|table|insert|input|transaction)/[a-z ]+)`")
)

func TestSeedsNameTestsThatExist(t *testing.T) {
	root := filepath.Join("..", "..")
	seeds, err := os.ReadFile(filepath.Join(root, "docs", "seeds.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range namedTest.FindAllStringSubmatch(string(seeds), -1) {
		dir := m[1]
		if dir == "" {
			dir = "timers/alarms"
		}
		if !mentions(t, filepath.Join(root, dir, "*_test.go"), "func "+m[2]+"(") {
			t.Errorf("docs/seeds.md names %s, which is no test", m[0])
		}
	}
	for _, m := range namedCase.FindAllStringSubmatch(string(seeds), -1) {
		if !mentions(t, filepath.Join(root, "internal", "conformance", "*.go"), `{"`+m[1]+`",`) {
			t.Errorf("docs/seeds.md names %s, which is no case of the conformance suite", m[0])
		}
	}
}

// mentions tells whether one of the files has the text.
func mentions(t *testing.T, pattern, text string) bool {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), text) {
			return true
		}
	}
	return false
}
