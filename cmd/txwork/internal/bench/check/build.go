package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// A side is one of the two programs.
type side struct {
	name   string // as shown in the report
	commit string // described in one line
	binary string
}

// builds are the two programs, in a temporary directory.
type builds struct {
	repository repository
	dir        string
	worktree   string // worktree of the base; empty until it is made
	sides      [2]side
}

// build builds the base in a temporary worktree, and the working tree as it is.
func build(ctx context.Context, dir, base string, progress io.Writer) (*builds, error) {
	b := &builds{repository: repository{dir}}
	if err := b.build(ctx, base, progress); err != nil {
		return nil, errors.Join(err, b.remove())
	}
	return b, nil
}

func (b *builds) build(ctx context.Context, base string, progress io.Writer) (err error) {
	top, err := b.repository.git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if base, err = b.repository.base(ctx, base); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "txwork-bench-check-"); err != nil {
		return err
	}
	worktree := filepath.Join(b.dir, "base")
	if _, err := b.repository.git(ctx, "worktree", "add", "--quiet", "--detach", worktree, base); err != nil {
		return err
	}
	b.worktree = worktree
	for i, from := range []struct{ name, commit, dir string }{{"base", base, worktree}, {"working tree", "HEAD", top}} {
		s := side{name: from.name, binary: filepath.Join(b.dir, fmt.Sprintf("txwork-%d", i))}
		if s.commit, err = b.repository.describe(ctx, from.commit); err != nil {
			return err
		}
		fmt.Fprintf(progress, "building the %s: %s\n", s.name, s.commit)
		if err := compile(ctx, from.dir, s.binary); err != nil {
			return fmt.Errorf("the %s cannot be built: %w", s.name, err)
		}
		b.sides[i] = s
	}
	return nil
}

// compile trims paths from the binary, so that the build cache of another directory can be used.
func compile(ctx context.Context, dir, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "./cmd/txwork")
	cmd.Dir = dir
	ownGroup(cmd)
	cmd.WaitDelay = stopLimit
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// removeLimit bounds the cleanup after an interruption.
const removeLimit = 20 * time.Second

// remove deletes the directory and removes the worktree from the repository.
func (b *builds) remove() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
	defer cancel()
	if b.worktree != "" {
		_, err = b.repository.git(ctx, "worktree", "remove", "--force", b.worktree)
	}
	if b.dir == "" {
		return err
	}
	err = errors.Join(err, os.RemoveAll(b.dir))
	_, pruneErr := b.repository.git(ctx, "worktree", "prune") // removes a worktree that an interruption left half made
	return errors.Join(err, pruneErr)
}
