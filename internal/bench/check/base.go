package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// A repository is where git runs.
type repository struct{ dir string }

func (r repository) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = r.dir
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// mainlines are the branches that work is merged into, the first that exists counts.
var mainlines = []string{"main", "origin/main"}

// base is the commit to compare with: the given one, or where HEAD has left the main line, or the one before HEAD
// where it has not.
func (r repository) base(ctx context.Context, given string) (string, error) {
	if given != "" {
		return r.commit(ctx, given)
	}
	head, err := r.commit(ctx, "HEAD")
	if err != nil {
		return "", err
	}
	for _, mainline := range mainlines {
		fork, err := r.git(ctx, "merge-base", "HEAD", mainline)
		if err != nil {
			continue
		}
		if fork != head {
			return fork, nil
		}
		break
	}
	base, err := r.commit(ctx, "HEAD~1")
	if err != nil {
		return "", fmt.Errorf("there is nothing to compare with, name a commit by BASE: %w", err)
	}
	return base, nil
}

func (r repository) commit(ctx context.Context, name string) (string, error) {
	return r.git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
}

// describe is a commit in a line.
func (r repository) describe(ctx context.Context, commit string) (string, error) {
	return r.git(ctx, "log", "-1", "--format=%h %s", commit)
}
