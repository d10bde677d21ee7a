package docs

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/page"
)

// promises is the page with the table of promises about not affecting others.
const promises = "docs/reliability.md"

var (
	promised = regexp.MustCompile(`(?m)^\| "(.+?)" \| (.+?) \| (.+) \|$`)
	// sweeping matches words that make a promise about all others.
	sweeping = regexp.MustCompile(`(?i)\bcosts?\b[^.|]{0,30}\bnothing|\bwaits? for (nobody|none|no one|no writer)|\bholds? (up nobody|nobody up)|` +
		`\bobstructs? nobody|\bnever holds? up|\bnobody stands still|\bat no cost|\bpays? nothing|\bstops? nobody|\bdoes not slow`)
	breaks = regexp.MustCompile(`\s*\n(?://)? *`)
)

// A promise is quoted from a page and verified by tests.
type promise struct{ said, where, tests string }

func table(t *testing.T) (table []promise) {
	t.Helper()
	for _, m := range promised.FindAllStringSubmatch(pageAt(t, promises).Text, -1) {
		where := promises
		if l := link.FindStringSubmatch(m[2]); l != nil {
			where = path.Join(path.Dir(promises), l[1])
		}
		table = append(table, promise{strings.ReplaceAll(m[1], `\|`, "|"), where, m[3]})
	}
	if len(table) < 10 {
		t.Fatalf("only %d promises were found", len(table))
	}
	return table
}

// The text that the table quotes is on the page that it names, and a test verifies it. TestNamedTestsExist checks the
// names.
func TestPromisesAreSaidAndShown(t *testing.T) {
	t.Parallel()
	for _, p := range table(t) {
		if !strings.Contains(flat(pageAt(t, p.where)), p.said) {
			t.Errorf("%s does not say %q", p.where, p.said)
		}
		if !namedTest.MatchString(p.tests) && p.tests != "the same" {
			t.Errorf("no test shows %q", p.said)
		}
	}
}

// Every promise about others is in the table.
func TestEveryPromiseIsInTheTable(t *testing.T) {
	t.Parallel()
	kept := table(t)
	for _, p := range guides(t) {
		text := flat(p)
		for _, k := range kept {
			if k.where == p.Path {
				text = strings.ReplaceAll(text, k.said, "")
			}
		}
		for _, m := range sweeping.FindAllStringIndex(text, -1) {
			t.Errorf("%s promises %q: add it with a test to the table in %s, or remove it", p.Path, text[max(0, m[0]-40):m[1]],
				promises)
		}
	}
}

// guides are what users read: the pages except decisions, figures and changes, and the packages' documentation.
func guides(t *testing.T) (all []page.Page) {
	t.Helper()
	for _, p := range pages(t) {
		if path.Dir(p.Path) == "docs" && p.Path != "docs/performance.md" && p.Path != "docs/seeds.md" ||
			p.Path == "README.md" {
			if p.Path == promises {
				p.Text = promised.ReplaceAllString(p.Text, "")
			}
			all = append(all, p)
		}
	}
	for file, source := range code(t) {
		if path.Base(file) == "doc.go" && !strings.HasPrefix(file, "internal/") {
			all = append(all, page.Page{Path: file, Text: source.text})
		}
	}
	return all
}

// flat returns a page's text in one line, without comment markers.
func flat(p page.Page) string { return breaks.ReplaceAllString(p.Text, " ") }
