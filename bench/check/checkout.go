package check

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/txwork/txwork/bench/lab"
)

// checkouts are the two sides: the base in a temporary worktree, and the working tree as it is.
type checkouts struct {
	repository repository
	dir        string // temporary
	worktree   string // of the base; "" until it is made
	top        string // of the working tree
	base, tree string // commits, each described in one line
}

func checkOut(ctx context.Context, dir, given string) (*checkouts, error) {
	c := &checkouts{repository: repository{dir}}
	if err := c.make(ctx, given); err != nil {
		return nil, errors.Join(err, c.remove())
	}
	return c, nil
}

func (c *checkouts) make(ctx context.Context, given string) (err error) {
	if c.top, err = c.repository.git(ctx, "rev-parse", "--show-toplevel"); err != nil {
		return err
	}
	commit, err := c.repository.base(ctx, given)
	if err != nil {
		return err
	}
	if c.base, err = c.repository.describe(ctx, commit); err != nil {
		return err
	}
	if c.tree, err = c.repository.describe(ctx, "HEAD"); err != nil {
		return err
	}
	if c.dir, err = os.MkdirTemp("", "txwork-bench-check-"); err != nil {
		return err
	}
	worktree := filepath.Join(c.dir, "base")
	if _, err := c.repository.git(ctx, "worktree", "add", "--quiet", "--detach", worktree, commit); err != nil {
		return err
	}
	c.worktree = worktree
	return nil
}

func (c *checkouts) checkouts() []lab.Checkout {
	return []lab.Checkout{{Name: base, Dir: filepath.Join(c.worktree, "bench")},
		{Name: tree, Dir: filepath.Join(c.top, "bench")}}
}

// removeLimit bounds the cleanup after an interruption.
const removeLimit = 20 * time.Second

// remove deletes the directory and removes the worktree from the repository.
func (c *checkouts) remove() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
	defer cancel()
	if c.worktree != "" {
		_, err = c.repository.git(ctx, "worktree", "remove", "--force", c.worktree)
	}
	if c.dir == "" {
		return err
	}
	err = errors.Join(err, os.RemoveAll(c.dir))
	_, pruneErr := c.repository.git(ctx, "worktree", "prune") // removes a worktree that an interruption left half made
	return errors.Join(err, pruneErr)
}
