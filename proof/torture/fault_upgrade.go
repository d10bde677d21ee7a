//go:build unix

package torture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// rollingUpgrade lets a worker of an older revision serve the current tables beside current workers. The harness is the
// current one in both; the library is not.
type rollingUpgrade struct {
	plain
	program  string
	revision string
}

const module = "github.com/txwork/txwork"

func (u *rollingUpgrade) configure(l *lab) error {
	root, err := checkout()
	if err != nil {
		return err
	}
	if u.revision = l.options.OldRevision; u.revision == "" {
		u.revision = oldRevision(root)
	}
	tree := filepath.Join(l.dir, "old")
	if err := extract(root, u.revision, tree); err != nil {
		return skip("revision %q is not available: %v", u.revision, err)
	}
	if err := transplant(root, tree); err != nil {
		return err
	}
	u.program = filepath.Join(tree, "member")
	// Without paths in the binary, the next run can use what this one has compiled and cached.
	if _, err := output(tree, "env", "GOWORK="+filepath.Join(tree, "go.work"), "go", "build", "-trimpath", "-o",
		u.program, "./"+memberDir); err != nil {
		return skip("revision %s does not build with the current harness: %v", u.revision, err)
	}
	return nil
}

// checkout returns the root of the source tree in which the run was started.
func checkout() (string, error) {
	for _, tool := range []string{"git", "go", "tar"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", skip("an older revision has to be built, and there is no %s", tool)
		}
	}
	root, err := output(".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return "", skip("an older revision has to be built, and this is no git checkout: start it in one of %s", module)
	}
	if name, err := output(root, "go", "list", "-m"); err != nil || !strings.Contains(name, module) {
		return "", skip("an older revision has to be built, and %s is no checkout of %s", root, module)
	}
	return root, nil
}

// oldRevision returns the newest tag or, if there is none, the revision that made the current migrations or introduced
// the names that the harness needs, see since.txt. Older revisions have other tables or do not build with the harness.
func oldRevision(root string) string {
	if tag, err := output(root, "git", "describe", "--tags", "--abbrev=0"); err == nil {
		return tag
	}
	revision, err := output(root, "git", "log", "-1", "--format=%H", "--", "migrations/sql", "proof/torture/since.txt")
	if err != nil {
		return "HEAD"
	}
	return revision
}

func extract(root, revision, tree string) error {
	if err := os.Mkdir(tree, 0o700); err != nil {
		return err
	}
	archive := tree + ".tar"
	if _, err := output(root, "git", "archive", "--output", archive, revision); err != nil {
		return err
	}
	_, err := output(tree, "tar", "-x", "-f", archive)
	return err
}

var memberMain = `package main

import (
	"context"
	"fmt"
	"os"

	"` + module + `/` + harness[0] + `"
)

func main() {
	if err := torture.RunMember(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
`

// harness lists the package of a run's members, first, and the packages it needs besides the library.
var harness = []string{"proof/torture", "internal/frontend", "internal/localpg", "internal/pgbouncer", "internal/spawn"}

// memberDir is the directory of the main package for members of the old revision.
const memberDir = "proof/member"

// workspace combines the harness with the old library.
const workspace = "go 1.26.0\n\nuse (\n\t.\n\t./proof\n)\n"

// transplant copies the current harness, and what it needs, into an old source tree.
func transplant(root, tree string) error {
	for _, dir := range harness {
		if err := os.RemoveAll(filepath.Join(tree, dir)); err != nil {
			return err
		}
		if err := os.CopyFS(filepath.Join(tree, dir), os.DirFS(filepath.Join(root, dir))); err != nil {
			return err
		}
	}
	for _, name := range []string{"go.mod", "go.sum", "proof/go.mod", "proof/go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(tree, name), text, 0o600); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(tree, "go.work.sum")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(filepath.Join(tree, "go.work"), []byte(workspace), 0o600); err != nil {
		return err
	}
	dir := filepath.Join(tree, memberDir)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "main.go"), []byte(memberMain), 0o600)
}

// output runs a program in a directory, outside of any workspace. On failure the error is the last line of its output.
func output(dir, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return "", fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	return strings.TrimSpace(string(out)), nil
}

func (u *rollingUpgrade) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	name, err := l.asOneOf(ctx, random, l.crew.of(roleWorker), nil, []string{u.program}, func() error {
		l.hit = time.Now()
		time.Sleep(episode)
		return nil
	})
	return fmt.Sprintf("%s of revision %.12s", name, u.revision), err
}
