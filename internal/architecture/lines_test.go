package architecture_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

var (
	counted = regexp.MustCompile("(?m)^\\| `([a-z/]+)` \\| ([\\d,]+) \\| ([\\d,]+) \\|")
	beside  = regexp.MustCompile("`([a-z/]+)` ([\\d,]*\\d)(?: and (\\d+) of SQL)?")
)

// docs/architecture.md lists every public package with its number of lines, correct to within a tenth.
func TestLinesOfPackages(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "<!-- lines:begin -->")
	section, rest, _ := strings.Cut(section, "<!-- lines:end -->")
	if rest == "" {
		t.Fatal("the page lacks its section of lines")
	}
	table, sentence, _ := strings.Cut(section, "\nBeside them: ")
	told := map[string]bool{}
	for _, m := range append(counted.FindAllStringSubmatch(table, -1), beside.FindAllStringSubmatch(sentence, -1)...) {
		told[m[1]] = true
		goes := lines(t, m[1]+"/*.go")
		sql := lines(t, m[1]+"/sql/*.sql") + lines(t, m[1]+"/sql/*/*.sql")
		if !near(m[2], goes) || !near(m[3], sql) {
			t.Errorf("the page says that %s has %s lines of Go and %s of SQL, but it has %d and %d", m[1], m[2], m[3], goes, sql)
		}
	}
	packages := slices.Concat(slices.Collect(maps.Keys(mayImport)), slices.Collect(maps.Keys(rooms)))
	for _, pkg := range packages {
		if !told[pkg] && pkg != "migrations" { // migrations is mostly generated
			t.Errorf("the page does not say how many lines %s has", pkg)
		}
	}
}

// near tells whether a stated number is correct to within a tenth and ten lines. An empty one means none.
func near(said string, n int) bool {
	number, _ := strconv.Atoi("0" + strings.ReplaceAll(said, ",", ""))
	return max(number-n, n-number) <= n/10+10
}

func lines(t *testing.T, pattern string) (n int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(text), "\n")
	}
	return n
}
