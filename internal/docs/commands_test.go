package docs

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/page"
)

func TestBlocksForAShellParse(t *testing.T) {
	t.Parallel()
	found := 0
	for _, p := range pages(t) {
		for _, b := range p.Blocks() {
			if b.Language != "sh" {
				continue
			}
			found++
			cmd := exec.CommandContext(t.Context(), "bash", "-n")
			cmd.Stdin = strings.NewReader(b.Text)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v: %s", p.Path, b.Line, err, out)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d blocks were found", found)
	}
}

// runners are the tests that run all command blocks of a page.
var runners = map[string]string{
	"docs/add-an-outbox.md": "cmd/txwork.TestTheGuideToAnOutbox",
	"docs/quickstart.md":    "cmd/txwork.TestTheQuickstart",
	"docs/operations.md":    "cmd/txwork.TestTheCommandsOfOperation",
	"docs/subscriptions.md": "cmd/txwork.TestTheFirstSessionWithSubscriptions",
	"docs/alarms.md":        "timers/alarms.TestTheDocumentsSession",
	"docs/domains.md":       "cmd/txwork.TestTheGuideToDomains",
	"docs/backup.md":        "proof/backup.TestEveryBlockIsRun",
	"docs/architecture.md":  "internal/docs.TestTheCommandsOfTheArchitecture",
}

// indentedBlocks are the blocks of commands that pages show indented, by page and first line: the test that runs them
// as they are printed, or why none does.
var indentedBlocks = map[string]string{
	"docs/alarms.md: " +
		"txwork redrive timers --topic alarm --newer-than 24h": "cmd/txwork.TestPrintedCommandsMend",
	"README.md: go run ./cmd/txwork demo":       "cmd/txwork.TestDemoEndsWithOneObject", // in small
	"README.md: go test ./... ./cmd/txwork/...": "not run: it is the gate itself",
	"docs/dashboard.md: txwork serve":           "cmd/txwork.TestServeShowsADashboard",
	"docs/security.md: txwork migrate up":       "cmd/txwork.TestTheCommandsOfSecurity",
	"docs/alarms.md: txwork migrate up":         "cmd/txwork.TestAlarmsServeDeliversWhatWasPosted",
	"docs/alarms.md: printf 'whsec_%s\\n' " +
		`"$(head -c 32 /dev/urandom | base64)" > secret`: "not run: it makes a secret for the next one",
}

// repeated matches commands that repeat measurements or long tests. They take minutes to hours; other tests check that
// what they name exists.
var repeated = regexp.MustCompile(`^(make|go test) `)

// Every indented block of commands is run by a test as it is printed, or it says here why it is not.
func TestEveryIndentedBlockIsRun(t *testing.T) {
	t.Parallel()
	all, left := tests(t), maps.Clone(indentedBlocks)
	for _, p := range pages(t) {
		if path.Dir(p.Path) != "docs" && p.Path != "README.md" {
			continue
		}
		for _, b := range p.Blocks() {
			if b.Language != "indented" {
				continue
			}
			first, _, _ := strings.Cut(b.Text, "\n")
			shown := p.Path + ": " + first
			by, known := indentedBlocks[shown]
			delete(left, shown)
			m := namedTest.FindStringSubmatch(by)
			switch {
			case known && m != nil && !exists(all, m[1], m[2], page.Page{}):
				t.Errorf("%s is no test", by)
			case known && m == nil && !strings.HasPrefix(by, "not run: "):
				t.Errorf("%s:%d: %q is neither a test nor a reason", p.Path, b.Line, by)
			case !known && !repeated.MatchString(first):
				t.Errorf("%s:%d: nothing runs %q", p.Path, b.Line, first)
			}
		}
	}
	for shown := range left {
		t.Errorf("%q is not shown", shown)
	}
}

// Only pages whose commands are run by a test contain command blocks. Guides of directories describe theirs in words.
func TestEveryBlockOfCommandsIsRun(t *testing.T) {
	t.Parallel()
	all := tests(t)
	for _, p := range pages(t) {
		blocks := slices.ContainsFunc(p.Blocks(), func(b page.Block) bool {
			return b.Language == "sh" ||
				b.Language == "console"
		})
		m := namedTest.FindStringSubmatch(runners[p.Path])
		if guide := path.Dir(p.Path) == "docs" || p.Path == "README.md"; guide && blocks != (m != nil) {
			t.Errorf("%s has command blocks: %v; the test that runs them: %q", p.Path, blocks, runners[p.Path])
		}
		if m != nil && !exists(all, m[1], m[2], page.Page{}) {
			t.Errorf("%s is no test", runners[p.Path])
		}
	}
}

// The commands on the architecture page find what the page says: its counts, within a tenth, and no hits but those that
// it explains.
func TestTheCommandsOfTheArchitecture(t *testing.T) {
	t.Parallel()
	p := pageAt(t, "docs/architecture.md")
	var out []string
	for _, b := range p.Blocks() {
		if b.Language != "sh" {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-ec", b.Text)
		cmd.Dir = root
		text, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", b.Text, err)
		}
		out = append(out, string(text))
	}
	if len(out) != 2 || strings.Count(out[0], "\n") < 15 || strings.Count(out[1], "\n") < 8 {
		t.Fatalf("the commands print %q", out)
	}
	_, hits, _ := strings.Cut(p.Text, "| hit |")
	for line := range strings.Lines(out[1]) {
		file, _, _ := strings.Cut(line, ":")
		if !strings.Contains(hits, "`"+file+"`") && !strings.Contains(hits, "`"+path.Dir(file)+"/*.sql`") {
			t.Errorf("no transition is said to be in %s", strings.TrimSpace(line))
		}
	}
}

var (
	madeBy   = regexp.MustCompile(`^make ([a-z-]+)((?: [A-Z]+=\S*)*)`)
	assigned = regexp.MustCompile(`([A-Z]+)=`)
)

// Every make target and variable that a page uses is in the Makefile.
func TestTargetsExist(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, p := range pages(t) {
		for _, line := range p.Commands() {
			m := madeBy.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			found++
			if !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("%s: %q: there is no such target", p.Path, line)
			}
			for _, v := range assigned.FindAllStringSubmatch(m[2], -1) {
				if !strings.Contains(string(makefile), "$("+v[1]+")") {
					t.Errorf("%s: %q: the Makefile knows no %s", p.Path, line, v[1])
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d commands were found", found)
	}
}

// The packages, tests and package flags in `go test` and `go run` commands exist.
func TestGoCommandsExist(t *testing.T) {
	t.Parallel()
	found := 0
	for _, p := range pages(t) {
		for _, line := range p.Commands() {
			words := strings.Fields(line)
			if len(words) < 3 || words[0] != "go" || !slices.Contains([]string{"test", "run", "build", "install"},
				words[1]) {
				continue
			}
			found++
			for _, problem := range wrongWith(t, p, words) {
				t.Errorf("%s: %q: %s", p.Path, line, problem)
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d commands were found", found)
	}
}

// ofGo are flags of go test itself.
var ofGo = []string{"bench", "benchtime", "count", "cpu", "fuzz", "fuzztime", "race", "run", "short", "timeout", "v"}

func wrongWith(t *testing.T, p page.Page, words []string) (problems []string) {
	t.Helper()
	var dirs []string
	for _, word := range words[2:] {
		dir, local := strings.CutPrefix(word, "./")
		if !local {
			continue
		}
		// a page's commands may refer to its own directory
		if besides := path.Join(path.Dir(p.Path), dir); isDir(besides) {
			dir = besides
		}
		dirs = append(dirs, dir)
		if dir != "..." && !isDir(strings.TrimSuffix(dir, "/...")) {
			problems = append(problems, "there is no "+word)
		}
	}
	if words[1] != "test" {
		return problems
	}
	for i, word := range words {
		flag, is := strings.CutPrefix(word, "-")
		switch {
		case !is || flag == "" || strings.HasPrefix(flag, "-"):
		case flag == "run" || flag == "bench":
			if i+1 < len(words) && !matches(t, strings.Trim(words[i+1], `'"`), flag, dirs) {
				problems = append(problems, "no test is named "+words[i+1])
			}
		case !slices.Contains(ofGo, flag) && !inSource(t, `"`+flag+`"`):
			problems = append(problems, "there is no flag "+word)
		}
	}
	return problems
}

func isDir(dir string) bool {
	info, err := os.Stat(filepath.Join(root, dir))
	return err == nil && info.IsDir()
}

// matches tells whether the pattern selects a test of the packages. The pattern ^$ selects none on purpose, and without
// packages any test will do.
func matches(t *testing.T, pattern, flag string, dirs []string) bool {
	t.Helper()
	first, _, _ := strings.Cut(pattern, "/")
	asked, err := regexp.Compile(first)
	if err != nil {
		return false
	}
	for dir, names := range tests(t) {
		if len(dirs) > 0 && !slices.ContainsFunc(dirs, func(d string) bool {
			return d == dir ||
				strings.HasSuffix(d, "...")
		}) {
			continue
		}
		for _, name := range names {
			if asked.MatchString(name) && strings.HasPrefix(name, "Benchmark") == (flag == "bench") {
				return true
			}
		}
	}
	return first == "^$"
}

func inSource(t *testing.T, text string) bool {
	t.Helper()
	for path, file := range code(t) {
		if !strings.HasPrefix(path, "internal/docs/") && strings.Contains(file.text, text) {
			return true
		}
	}
	return false
}
