package docs

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// measuredAt is the commit that a page of measurements names.
var measuredAt = regexp.MustCompile(`\bcommit ([0-9a-f]{12})\b`)

// measured are the directories whose code the measurements run.
var measured = []string{"workqueue", "jobs", "migrations", "internal/sqltext", "internal/postgres",
	":(exclude)*_test.go", ":(exclude)*.md"}

// staleAfter is how many commits may change what was measured before it has to be measured again.
const staleAfter = 200

// Figures are of the program that a reader has, not of one that was there hundreds of changes ago.
func TestMeasurementsAreOfRecentCommits(t *testing.T) {
	t.Parallel()
	if os.Getenv("TXWORK_DOCS") == "" {
		t.Skip("set TXWORK_DOCS=1: it needs the history")
	}
	if shallow, err := git("rev-parse", "--is-shallow-repository"); err != nil || shallow == "true" {
		t.Skipf("the history is not here (%v): fetch it with git fetch --unshallow", err)
	}
	for _, path := range measuredPages {
		var commits []string
		for _, m := range measuredAt.FindAllStringSubmatch(pageAt(t, path).Text, -1) {
			commits = append(commits, m[1])
		}
		if len(commits) == 0 {
			t.Errorf("%s names no commit: say of which one its figures are", path)
		}
		slices.Sort(commits)
		for _, commit := range slices.Compact(commits) {
			switch n, err := changesSince(commit); {
			case err != nil:
				t.Errorf("%s names commit %s: %v", path, commit, err)
			case n > staleAfter:
				t.Errorf("%s has figures of commit %s, since which %d commits have changed what was measured: measure "+
					"again, with make bench-peers, or remove them", path, commit, n)
			}
		}
	}
}

// changesSince counts the commits after one that changed what is measured.
func changesSince(commit string) (int, error) {
	out, err := git(append([]string{"rev-list", "--count", "--no-merges", commit + "..HEAD", "--"}, measured...)...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

func git(args ...string) (string, error) {
	command := exec.Command("git", append([]string{"-C", root}, args...)...)
	out, err := command.Output()
	return strings.TrimSpace(string(out)), err
}
