package versions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A binary is the tests of one package.
type binary struct {
	pack string // import path
	dir  string // where its tests run
	file string
}

// A builder makes the binaries of a suite once, however many environments run them.
type builder struct {
	dir      string
	packages []string // words of those that are chosen; none: all
	built    map[suite][]binary
}

func newBuilder(packages []string) (*builder, error) {
	dir, err := os.MkdirTemp("", "versions-")
	return &builder{dir: dir, packages: packages, built: map[suite][]binary{}}, err
}

func (b *builder) remove() { _ = os.RemoveAll(b.dir) }

func (b *builder) build(ctx context.Context, s suite) ([]binary, error) {
	if built, done := b.built[s]; done {
		return built, nil
	}
	binaries, err := list(ctx, s, b.packages)
	if err != nil {
		return nil, err
	}
	for i := range binaries {
		binaries[i].file = filepath.Join(b.dir, fmt.Sprintf("%d-%d.test", len(b.built), i))
		args := []string{"test", "-c", "-o", binaries[i].file, binaries[i].pack}
		if out, err := goCommand(ctx, s.env(), args...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	b.built[s] = binaries
	return binaries, nil
}

func (s suite) env() []string {
	if s.toolchain == "" {
		return nil
	}
	return []string{"GOTOOLCHAIN=" + s.toolchain}
}

// list finds the packages of all modules of the workspace whose tests are in the suite.
func list(ctx context.Context, s suite, words []string) (found []binary, err error) {
	out, err := goCommand(ctx, s.env(), "list", "-test", "-json=ImportPath,Dir,Deps,ForTest,Name", "work").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir, Name string
			Deps                  []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		pack, isTest := strings.CutSuffix(p.ImportPath, ".test")
		if isTest && p.Name == "main" && s.has(p.Deps) && containsAny(pack, words) {
			found = append(found, binary{pack: pack, dir: p.Dir})
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no package has such tests")
	}
	return found, nil
}

func (s suite) has(deps []string) bool {
	return s.dependsOn == "" || slices.ContainsFunc(deps, func(dep string) bool {
		dep, _, _ = strings.Cut(dep, " ") // one that is compiled anew for a test carries the test's name
		return dep == s.dependsOn
	})
}

// goCommand runs at the root of the repository, which is where go run was called.
func goCommand(ctx context.Context, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), env...)
	return cmd
}
