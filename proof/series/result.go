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

// A result is what a run has left in the directory.
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

// A brokenBuild is what became of a build that is broken on purpose.
type brokenBuild struct {
	Name   string        `json:"name"`
	Found  bool          `json:"found"` // the violation
	Detail string        `json:"detail"`
	Took   time.Duration `json:"took"`
}

// readResults reads those of the plan that are there.
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

// write leaves a whole file or none.
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

// judge is everything that may not be.
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

// idle are faults that did not strike in any run that was to have all of them: what is skipped everywhere is not
// proved.
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

// revision is the last commit that changed code, and whether there is any beyond.
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

// same tells whether a result holds for a run of today's code.
func (r result) same(code string, p planned) bool {
	return r.Code == code && slices.Equal(r.Args, p.args)
}
