package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/tools/cover"
)

// A series is the processes of one way.
type series struct {
	binary  string
	dir     string
	url     string
	way     way
	options options
}

// A block is a block of code that is covered as a whole.
type block struct {
	file string // with the path of its package
	cover.ProfileBlock
}

// run runs the processes by turns, and returns the blocks that were run by each with an item and by none without.
func (s series) run(ctx context.Context) (map[block]bool, error) {
	with := map[block]int{}
	without := map[block]int{}
	for i := range 2 * s.options.runs {
		counts := without
		if i%2 == 1 {
			counts = with
		}
		if err := s.process(ctx, i, i%2 == 1, counts); err != nil {
			return nil, err
		}
	}
	on := map[block]bool{}
	for b, n := range with {
		if n == s.options.runs && without[b] == 0 {
			on[b] = true
		}
	}
	return on, nil
}

// process runs one process on a database of its own, and counts the blocks that it ran.
func (s series) process(ctx context.Context, n int, item bool, counts map[block]int) error {
	dir := filepath.Join(s.dir, fmt.Sprint(n))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	url, err := prepare(ctx, s.url, fmt.Sprintf("way_%s_%d", filepath.Base(s.dir), n), s.way)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, s.binary, probeCommand, s.way.name, url, s.options.stay.String(),
		fmt.Sprint(item))
	command.Env = append(os.Environ(), "GOCOVERDIR="+dir)
	var said bytes.Buffer
	command.Stderr = &said
	if err := command.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, &said)
	}
	text := filepath.Join(dir, "profile")
	if said, err := exec.CommandContext(ctx, "go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+text).
		CombinedOutput(); err != nil {
		return fmt.Errorf("go tool covdata: %w: %s", err, said)
	}
	profiles, err := cover.ParseProfiles(text)
	for _, p := range profiles {
		if path.Dir(p.FileName) == self {
			continue
		}
		for _, b := range p.Blocks {
			if b.Count > 0 {
				b.Count = 0 // it is the block that counts, not how often it was run
				counts[block{p.FileName, b}]++
			}
		}
	}
	return err
}

// build builds this program with coverage of all packages whose ways are measured, and returns their sources.
func build(ctx context.Context, binary string) (sources, error) {
	list := exec.CommandContext(ctx, "go", "list", "-deps", "-f", "{{.ImportPath}} {{.Dir}}", "./bench/way")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list, at the root of the repository: %w", err)
	}
	found := sources{}
	for line := range strings.Lines(string(out)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if measured(path) {
			found[path] = dir
		}
	}
	paths := make([]string, 0, len(found))
	for p := range found {
		paths = append(paths, p)
	}
	// Without the package of the command itself nothing would be written. Its blocks are left out.
	command := exec.CommandContext(ctx, "go", "build", "-cover", "-covermode=atomic", "-coverpkg="+
		strings.Join(append(paths, self), ","), "-o", binary, "./bench/way")
	if said, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w: %s", err, said)
	}
	return found, nil
}

// self is the path of this package.
const self = "github.com/txwork/txwork/bench/way"

// measured says whether a package belongs to one of the libraries.
func measured(path string) bool {
	const own = "github.com/txwork/txwork/"
	if rest, is := strings.CutPrefix(path, own); is {
		return !strings.HasPrefix(rest, "bench/") && rest != "internal/localpg"
	}
	return strings.HasPrefix(path, "github.com/riverqueue/")
}
