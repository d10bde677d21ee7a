package architecture_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// columns is how wide a line may be; a tab counts as four.
const columns = 120

// Two files fit on a screen side by side, comments included. A raw string keeps the lines in which it is printed or
// run, and a long string, such as a statement or a message, may stay in one piece. So may the output of an example. SQL
// that was written by hand has no exceptions.
func TestLinesAreNotTooLong(t *testing.T) {
	t.Parallel()
	for _, file := range goFiles(t) {
		checkColumns(t, file, exemptLines)
	}
	for _, file := range filesNamed(t, ".sql", 150) {
		if !rendered.MatchString(filepath.ToSlash(file)) {
			checkColumns(t, file, func([]byte) map[int]bool { return nil })
		}
	}
}

// rendered matches the SQL files that tests and commands write from templates.
var rendered = regexp.MustCompile(`/testdata/|/migrations/sql/|/examples/[^/]+/migrations/`)

// goFiles are the Go files of all modules, without generated code.
func goFiles(t *testing.T) []string {
	t.Helper()
	return filesNamed(t, ".go", 500)
}

// filesNamed returns the files of all modules whose extension is ending, without generated code. It fails
// if there are fewer than least.
func filesNamed(t *testing.T, ending string, least int) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch name := filepath.Base(file); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "ent" || name == ".git" || name == "node_modules"):
			return fs.SkipDir // the code in directories named ent is generated
		case filepath.Ext(name) == ending:
			files = append(files, file)
		}
		return nil
	})
	if err != nil || len(files) < least {
		t.Fatalf("found %d files that end in %s: %v", len(files), ending, err)
	}
	return files
}

// checkColumns reports the lines of a file that are too long, except the exempt ones.
func checkColumns(t *testing.T, file string, exemptions func(source []byte) map[int]bool) {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	exempt := exemptions(source)
	output := false
	for i, line := range strings.Split(string(source), "\n") {
		text := strings.TrimSpace(line)
		if output = strings.HasPrefix(text, "//") && (output || strings.HasSuffix(text, "utput:")); output {
			continue
		}
		if n := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")); n > columns && !exempt[i+1] {
			t.Errorf("%s:%d has %d columns", file, i+1, n)
		}
	}
}

// longText is a string that need not be cut.
const longText = 40

// exemptLines are the lines of a Go file that hold a part of a raw string, or a long string.
func exemptLines(source []byte) map[int]bool {
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	lines := map[int]bool{}
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			return lines
		}
		if kind == token.STRING && (text[0] == '`' || len(text) > longText) {
			first := set.Position(at).Line
			for n := range strings.Count(text, "\n") + 1 {
				lines[first+n] = true
			}
		}
	}
}
