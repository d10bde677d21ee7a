package architecture_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fileName matches a file that a comment names, with or without directories.
var fileName = regexp.MustCompile(`(^|[\s('"` + "`" + `])((?:[\w-]+/)*[\w-]+\.(?:go|sql|md|pml))([\s)'".,:;` + "`" + `]|$)`)

// comment matches the comment of a line of Go or SQL.
var comment = regexp.MustCompile(`(?:^|\s)(?://|--) (.*)`)

// placeholders are names in comments that stand for many files.
var placeholders = []string{"NNN_name.sql"}

// A comment that sends its reader to a file must name one that exists: by its path in the repository, by a path that
// ends it, or by its name.
func TestCommentsNameFilesThatExist(t *testing.T) {
	t.Parallel()
	sources := append(goFiles(t), filesNamed(t, ".sql", 150)...)
	all := slices.Concat(sources, filesNamed(t, ".md", 50), filesNamed(t, ".pml", 1))
	known := map[string]bool{}
	for _, file := range all {
		for name := filepath.ToSlash(file); name != ""; {
			known[name] = true
			_, name, _ = strings.Cut(name, "/")
		}
		known[path.Base(filepath.ToSlash(file))] = true
	}
	named := 0
	for _, file := range sources {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(source), "\n") {
			text := comment.FindStringSubmatch(line)
			if text == nil {
				continue
			}
			for _, found := range fileName.FindAllStringSubmatch(text[1], -1) {
				if named++; !known[found[2]] && !slices.Contains(placeholders, found[2]) {
					t.Errorf("%s:%d names %s, which does not exist", file, i+1, found[2])
				}
			}
		}
	}
	if named < 50 {
		t.Errorf("only %d names of files were found in comments", named)
	}
}
