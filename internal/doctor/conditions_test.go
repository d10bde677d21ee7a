package doctor_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/internal/page"
)

// conditions is the page that says how each problem was made, found and fixed.
const conditions = "../../docs/doctor-conditions.md"

// A cure is a problem that a test has made, that one examination has found, and that its remedy has fixed.
type cure struct{ test, code, title, seconds, remedy, mended string }

// cures collects the cures of this run, for -update.
var cures = struct {
	sync.Mutex
	all map[string]cure
}{all: map[string]cure{}}

// How a finding was mended.
const (
	bySQL  = "the SQL, as printed"
	byFix  = "`--fix`"
	byWord = "what the remedy says"
)

// mended records that a finding is gone, and checks that the page has it. Names and figures that differ between runs,
// such as seconds, are ignored.
func (w *ward) mended(f doctor.Finding, how string) {
	w.Helper()
	remedy := printed(f.Remedy)
	if how == byWord {
		remedy = f.Remedy.Do
	}
	c := cure{test: w.Name(), code: f.Code, title: w.generic(f.Title), seconds: fmt.Sprintf("%.2f", w.took.Seconds()),
		remedy: w.generic(remedy), mended: how}
	cures.Lock()
	cures.all[c.form()] = c
	cures.Unlock()
	if *update {
		return
	}
	text, err := os.ReadFile(conditions)
	must(w, err)
	for line := range strings.Lines(string(text)) {
		if read, is := readCure(line); is && read.form() == c.form() {
			return
		}
	}
	w.Errorf("%s lacks this row: go test ./internal/doctor -update\n%s", conditions, c)
}

// printed formats the SQL of a remedy for a table cell.
func printed(r doctor.Remedy) string { return "`` " + strings.Join(r.SQL, " ``<br>`` ") + " ``" }

var (
	uuids   = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	pids    = regexp.MustCompile(`pg_terminate_backend\(\d+\)`)
	session = regexp.MustCompile(`\b(session|Session|pid) \d+`)
	numbers = regexp.MustCompile(`\d+`)
)

// generic replaces what differs between runs by fixed names.
func (w *ward) generic(text string) string {
	text = strings.NewReplacer("r_"+strings.ToLower(w.Schema[2:12]), "app", w.Schema, "queues", "\n", " ", "|",
		`\|`).Replace(text)
	text = uuids.ReplaceAllString(text, "ID")
	text = pids.ReplaceAllString(text, "pg_terminate_backend(PID)")
	return session.ReplaceAllString(text, "$1 PID")
}

func (c cure) String() string {
	return fmt.Sprintf("| %s | `%s` | %s | %s | %s | %s |\n", c.title, c.code, c.test, c.seconds, c.remedy, c.mended)
}

// form identifies a row of the page.
func (c cure) form() string {
	return strings.Join([]string{c.code, c.test, numbers.ReplaceAllString(c.remedy, "0"), c.mended}, " | ")
}

// cells separates cells at bars that are not escaped.
var cells = regexp.MustCompile(`[^\\]\| `)

func readCure(line string) (c cure, is bool) {
	part := cells.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |\n"), -1)
	if len(part) != 6 || !strings.HasPrefix(part[1], "`") {
		return cure{}, false
	}
	return cure{title: part[0], code: strings.Trim(part[1], "`"), test: part[2], seconds: part[3], remedy: part[4],
		mended: part[5]}, true
}

// A recorder writes the page after all tests have passed, if -update is given. If all tests were run, it fails if the
// page has a row that none of them made.
type recorder struct{ *testing.M }

func (r recorder) Run() int {
	code := r.M.Run()
	if code != 0 {
		return code
	}
	if !*update {
		return unmade()
	}
	var b strings.Builder
	b.WriteString("| found | code | made by | seconds | remedy as printed | mended by |\n|---|---|---|---|---|---|\n")
	order := map[string]int{}
	for i, k := range doctor.Kinds() {
		order[k.Code] = i
	}
	rows := slices.SortedFunc(maps.Values(cures.all), func(a, b cure) int {
		if d := order[a.code] - order[b.code]; d != 0 {
			return d
		}
		return strings.Compare(a.form(), b.form())
	})
	for _, c := range rows {
		b.WriteString(c.String())
	}
	if err := page.Write(conditions, "cures", b.String()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// unmade returns an exit code that says whether the page has rows that no test has made, if all tests were run.
func unmade() int {
	for _, narrow := range []string{"test.run", "test.skip", "test.list", "test.fuzz"} {
		if f := flag.Lookup(narrow); f != nil && f.Value.String() != "" {
			return 0
		}
	}
	if testing.Short() {
		return 0
	}
	text, err := os.ReadFile(conditions)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for line := range strings.Lines(section(string(text), "cures")) {
		if c, is := readCure(line); is && cures.all[c.form()].test == "" {
			fmt.Fprintf(os.Stderr, "%s: no test makes this row: go test ./internal/doctor -update\n%s", conditions, line)
			return 1
		}
	}
	return 0
}

// For each finding there is a test that makes the problem and fixes it, and a line that says what it is found for.
func TestEachFindingIsMended(t *testing.T) {
	t.Parallel()
	if *update {
		t.Skip("the page is being written")
	}
	text, err := os.ReadFile(conditions)
	must(t, err)
	mended := map[string]bool{}
	for line := range strings.Lines(section(string(text), "cures")) {
		if c, is := readCure(line); is {
			mended[c.code] = true
		}
	}
	_, troubles, _ := strings.Cut(string(text), "\n## What an operator looks for\n")
	troubles, _, _ = strings.Cut(troubles, "\n## ")
	for _, k := range doctor.Kinds() {
		if !mended[k.Code] {
			t.Errorf("%s has no row for %s", conditions, k.Code)
		}
		if !strings.Contains(troubles, "`"+k.Code+"`") {
			t.Errorf("%s does not say for what an operator finds %s", conditions, k.Code)
		}
	}
	for line := range strings.Lines(troubles) {
		if c, is := readCure(line); is {
			t.Errorf("%s has a row of a test in the table for operators: %s", conditions, c)
		}
	}
}
