package mutation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A mutant is a file of the repository with one change.
type mutant struct {
	Name   string
	file   string // relative to the module's root
	offset int
	old    string
	new    string
	suites []suite // tried in order until one notices the mutant
	print  string  // changes when the file does, even if the name stays the same
}

// newMutant replaces old by new at an offset of a file's text.
func newMutant(name, file string, text []byte, offset int, old, new string, suites []suite) mutant {
	h := sha256.New()
	fmt.Fprintf(h, "%d %d %q ", offset, len(old), new)
	h.Write(text)
	return mutant{Name: file + ": " + name, file: file, offset: offset, old: old, new: new, suites: suites,
		print: hex.EncodeToString(h.Sum(nil)[:8])}
}

// source returns the text of the file with the change.
func (m mutant) source(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, err
	}
	end := m.offset + len(m.old)
	if end > len(text) || string(text[m.offset:end]) != m.old {
		return nil, fmt.Errorf("%s: the text of mutant %q has moved", m.file, m.Name)
	}
	return bytes.Join([][]byte{text[:m.offset], []byte(m.new), text[end:]}, nil), nil
}

// A suite is a selection of tests of one package.
type suite struct {
	dir  string // relative to the module's root
	run  string // as with go test -run; empty: all
	skip string // as with go test -skip
}

func (s suite) String() string {
	words := s.dir
	if s.run != "" {
		words += " -run " + s.run
	}
	if s.skip != "" {
		words += " -skip " + s.skip
	}
	return words
}

// An edit is a mutant that no rule finds: a text that occurs in the file exactly once, and its replacement.
type edit struct {
	name     string
	file     string
	old, new string
	suites   []suite
}

func (e edit) mutant(root string) (mutant, error) {
	text, err := os.ReadFile(filepath.Join(root, e.file))
	if err != nil {
		return mutant{}, err
	}
	if n := strings.Count(string(text), e.old); n != 1 {
		return mutant{}, fmt.Errorf("%s: %q occurs %d times, want once", e.file, e.old, n)
	}
	return newMutant(e.name, e.file, text, strings.Index(string(text), e.old), e.old, e.new, e.suites), nil
}

// collect returns every mutant of the repository, and the guards that are left out.
func collect(root string) (mutants []mutant, left []equivalent, err error) {
	for _, s := range sources {
		found, skipped, err := s.mutants(root)
		if err != nil {
			return nil, nil, err
		}
		mutants, left = append(mutants, found...), append(left, skipped...)
	}
	if err := allUsed(left); err != nil {
		return nil, nil, err
	}
	for _, e := range allEdits() {
		m, err := e.mutant(root)
		if err != nil {
			return nil, nil, err
		}
		mutants = append(mutants, m)
	}
	return mutants, left, nil
}

// allUsed refuses an entry in the list of equivalents whose guard no longer exists.
func allUsed(left []equivalent) error {
	used := map[equivalent]bool{}
	for _, e := range left {
		used[e] = true
	}
	for _, e := range equivalents {
		if !used[e] {
			return fmt.Errorf("%s: the guard %q, listed as equivalent, does not exist", e.file, e.guard)
		}
	}
	return nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/txwork/txwork").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
