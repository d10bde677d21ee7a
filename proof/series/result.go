//go:build unix

package series

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/txwork/txwork/proof/torture"
)

// A result is what a run leaves in the directory.
type result struct {
	Code    string          `json:"code"` // revision of it
	Args    []string        `json:"args"`
	When    time.Time       `json:"when"`
	Machine string          `json:"machine"`
	Beside  int             `json:"beside"` // runs that went on side by side with it
	Report  *torture.Report `json:"report,omitempty"`
	Builds  []brokenBuild   `json:"builds,omitempty"`

	planned planned
}

// A brokenBuild is the result of a deliberately broken build.
type brokenBuild struct {
	Name   string        `json:"name"`
	Found  bool          `json:"found"` // the violation
	Detail string        `json:"detail"`
	Took   time.Duration `json:"took"`
}

// readResults reads the existing results of the plan.
func readResults(dir string, plan []planned) (results []result, err error) {
	for _, p := range plan {
		r, err := readResult(dir, p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

func readResult(dir string, p planned) (r result, err error) {
	text, err := os.ReadFile(filepath.Join(dir, p.name+".json"))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s.json: %w", p.name, err)
	}
	r.planned = p
	return r, nil
}

// write writes the file atomically.
func (r result) write(dir string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, r.planned.name+".json")
	if err := os.WriteFile(file+".part", text, 0o644); err != nil {
		return err
	}
	return os.Rename(file+".part", file)
}

// judge returns everything that is wrong with the results.
func judge(results []result) (wrong []error) {
	say := func(r result, format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("%s: "+format, append([]any{r.planned.name}, args...)...))
	}
	for _, r := range results {
		for _, b := range r.Builds {
			if !b.Found {
				say(r, "%s: not found: %s", b.Name, b.Detail)
			}
		}
		if r.Report == nil {
			continue
		}
		if err := r.Report.Err(); err != nil {
			say(r, "%w", err)
		}
		if n := r.Report.Rows; n < r.planned.need.rows {
			say(r, "%d rows, want %d", n, r.planned.need.rows)
		}
		if n := r.Report.Faults[crashedFault].Strikes; n < r.planned.need.crashes {
			say(r, "%d crashes, want %d", n, r.planned.need.crashes)
		}
	}
	return append(wrong, idle(results)...)
}

// idle returns errors for faults that struck in none of the runs that should have all of them, because a fault that is
// skipped everywhere proves nothing.
func idle(results []result) (wrong []error) {
	struck, planned := map[string]bool{}, false
	for _, r := range results {
		if r.Report == nil {
			continue
		}
		planned = planned || r.planned.kind == allFaults
		for name, f := range r.Report.Faults {
			struck[name] = struck[name] || f.Strikes > 0
		}
	}
	for _, name := range torture.Faults() {
		if planned && !struck[name] {
			wrong = append(wrong, fmt.Errorf("%s struck in no run", name))
		}
	}
	return wrong
}

// revision returns the last commit that changed code, and marks uncommitted changes.
func revision(ctx context.Context) (string, error) {
	code := []string{"*.go", "*.sql", "go.mod"}
	commit, err := git(ctx, append([]string{"log", "-1", "--format=%h", "--"}, code...)...)
	if err != nil {
		return "", err
	}
	changed, err := git(ctx, append([]string{"status", "--porcelain", "--"}, code...)...)
	if changed != "" {
		commit += " with changes"
	}
	return commit, err
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	return strings.TrimSpace(string(out)), err
}

// same tells whether a result is valid for a run of the current code.
func (r result) same(code string, p planned) bool {
	return r.Code == code && slices.Equal(r.Args, p.args)
}
