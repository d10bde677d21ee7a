package mutation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/txwork/txwork/internal/spawn"
)

// originals are the unchanged test binaries of packages, each built once for all labs.
type originals struct {
	mu       sync.Mutex
	binaries map[string][]byte
}

func (o *originals) of(ctx context.Context, root, dir string) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if b := o.binaries[dir]; b != nil {
		return b, nil
	}
	file, err := os.CreateTemp("", "mutation-*.test")
	if err != nil {
		return nil, err
	}
	file.Close()
	defer os.Remove(file.Name())
	if err := compile(ctx, root, dir, file.Name()); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(file.Name())
	if err == nil {
		o.binaries[dir] = b
	}
	return b, err
}

// write writes the unchanged test binary of a package to a file.
func (o *originals) write(ctx context.Context, root, dir, file string) error {
	b, err := o.of(ctx, root, dir)
	if err != nil {
		return err
	}
	return spawn.WriteExecutable(file, b)
}

// compile builds the tests of a package. A mutant that does not compile is a mistake in the list of edits.
func compile(ctx context.Context, root, dir, binary string, flags ...string) error {
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+dir)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// binary is the path of a package's test binary.
func (l *lab) binary(dir string) string {
	return filepath.Join(l.dir, strings.ReplaceAll(dir, "/", "_")+".test")
}

// build builds the tests of a package with the change. An SQL file is embedded in the binary as it is, so a change that
// does not make it longer is made in the binary, which saves a compilation.
func (l *lab) build(ctx context.Context, m mutant, dir string) (string, error) {
	binary := l.binary(dir)
	if filepath.Ext(m.file) == ".sql" && len(m.new) <= len(m.old) {
		done, err := l.patch(ctx, m, dir, binary)
		if done || err != nil {
			return binary, err
		}
	}
	overlay, err := l.overlay(m)
	if err != nil {
		return "", err
	}
	return binary, compile(ctx, l.root, dir, binary, "-overlay", overlay)
}

// patch returns false if the binary does not contain the file exactly once.
func (l *lab) patch(ctx context.Context, m mutant, dir, binary string) (bool, error) {
	if _, err := m.source(l.root); err != nil { // the text is no longer at its offset
		return false, err
	}
	text, err := os.ReadFile(filepath.Join(l.root, m.file))
	if err != nil {
		return false, err
	}
	original, err := l.originals.of(ctx, l.root, dir)
	if err != nil || bytes.Count(original, text) != 1 {
		return false, err
	}
	changed := bytes.Clone(original)
	at := bytes.Index(changed, text) + m.offset
	copy(changed[at:], m.new+strings.Repeat(" ", len(m.old)-len(m.new)))
	return true, spawn.WriteExecutable(binary, changed)
}

// overlay writes the changed file and the overlay that tells the compiler to use it.
func (l *lab) overlay(m mutant) (string, error) {
	text, err := m.source(l.root)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(l.dir, "changed"+filepath.Ext(m.file))
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(l.root, m.file): changed}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(l.dir, "overlay.json")
	return overlay, errors.Join(os.WriteFile(changed, text, 0o644), os.WriteFile(overlay, replace, 0o644))
}
