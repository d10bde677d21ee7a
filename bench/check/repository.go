package check

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// A repository is the directory in which git runs.
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

// mainlines are the branches that work is merged into. The first one that exists is used.
var mainlines = []string{"main", "origin/main"}

// base returns the commit to compare with: the given one, else the point at which HEAD left the main line, else the
// commit before HEAD.
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

// describe returns a commit in one line.
func (r repository) describe(ctx context.Context, commit string) (string, error) {
	return r.git(ctx, "log", "-1", "--format=%h %s", commit)
}
