package architecture_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// columns is how wide a line may be; a tab counts as four.
const columns = 120

// Lines fit on a screen beside another, comments too. Texts between backquotes stand as they are printed or run, a long
// text between quotes, such as a statement or a message, may stay in one piece, and so does the output of an example.
func TestLinesAreNotTooLong(t *testing.T) {
	t.Parallel()
	for _, file := range goFiles(t) {
		checkColumns(t, file)
	}
}

// goFiles are those of all modules that nothing generates.
func goFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch name := filepath.Base(file); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "ent" || name == ".git" || name == "node_modules"):
			return fs.SkipDir // ent's code is generated
		case filepath.Ext(name) == ".go":
			files = append(files, file)
		}
		return nil
	})
	if err != nil || len(files) < 500 {
		t.Fatalf("found %d files: %v", len(files), err)
	}
	return files
}

func checkColumns(t *testing.T, file string) {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	exempt := exemptLines(source)
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

// exemptLines are those that hold a part of a raw string, or a long string.
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
