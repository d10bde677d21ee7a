package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/page"
)

var (
	namedTest = regexp.MustCompile(`(?:\b([a-z][a-z/]*)\.)?\b((?:Test|Example|Fuzz|Benchmark)[A-Z]\w*)`)
	namedCase = regexp.MustCompile("`((?:claim|settle|lease|operator|table|insert|input|transaction)/[a-z ]+)`")
	variable  = regexp.MustCompile(`\bTXWORK_[A-Z_]*[A-Z]\b`)
)

// packageOf is where tests are looked up that a page names without a package. Other pages may name tests of any
// package.
var packageOf = map[string]string{"docs/seeds.md": "timers/alarms"}

func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	all, found := tests(t), 0
	for _, p := range pages(t) {
		for _, m := range namedTest.FindAllStringSubmatch(p.Text, -1) {
			found++
			if !exists(all, m[1], m[2], p) {
				t.Errorf("%s names %s, which is not a test", p.Path, m[0])
			}
		}
	}
	if found < 200 {
		t.Errorf("only %d names of tests were found", found)
	}
}

// exists tells whether a test exists in the package that a page refers to, or on the page itself.
func exists(all map[string][]string, dir, name string, p page.Page) bool {
	if dir == "" {
		dir = packageOf[p.Path]
	}
	for in, names := range all {
		if (dir == "" || in == dir || strings.HasSuffix(in, "/"+dir)) && slices.Contains(names, name) {
			return true
		}
	}
	return strings.Contains(p.Text, "func "+name+"(")
}

// docs/seeds.md also names cases of the conformance suite.
func TestNamedCasesExist(t *testing.T) {
	t.Parallel()
	var suite strings.Builder
	for _, file := range code(t) {
		if file.dir == "internal/conformance" {
			suite.WriteString(file.text)
		}
	}
	cases := namedCase.FindAllStringSubmatch(pageAt(t, "docs/seeds.md").Text, -1)
	for _, m := range cases {
		if !strings.Contains(suite.String(), `{"`+m[1]+`",`) {
			t.Errorf("docs/seeds.md names %s, which is no case of the conformance suite", m[0])
		}
	}
	if len(cases) < 10 {
		t.Errorf("only %d cases were found", len(cases))
	}
}

// Every named environment variable is read somewhere. Those of `txwork alarms serve` are its flags, which its own test
// compares.
func TestNamedVariablesExist(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		for _, name := range variable.FindAllString(p.Text, -1) {
			if !strings.HasPrefix(name, "TXWORK_ALARMS_") && name != checkedVariable && !inSource(t, `"`+name+`"`) {
				t.Errorf("%s names %s, which nothing reads", p.Path, name)
			}
		}
	}
}
