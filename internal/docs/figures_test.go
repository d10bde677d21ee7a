package docs

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/page"
)

// figures is the file that says what verifies each figure of the README and the guides.
const figures = "testdata/figures.txt"

// A witness says what verifies a figure. The page contains the words, and the figure is verified by one of
//
//	test NAME           a test that fails if it is wrong
//	code FILE TEXT      the source of the figure; if the value there changes, the page is wrong
//	measured COMMAND    the command that repeats a measurement
//	table PAGE          rows of tables on a page of measurements, in which each of its numbers stands as it is here
//	given WHY           no statement about txwork: an example, or a fact set by others
type witness struct {
	line              int
	page, words, kind string
	rest              string
}

// words are numbers in words, if a unit follows.
const words = `two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty`

var (
	// figure is a number, or a number in words before a unit. Names that contain digits are not figures: RFC 3339,
	// UTF-8, I11.
	figure = regexp.MustCompile(`(?i)(?:^|[^\w.#&/-])(\d[\d,.]*|\b(?:an?|one|` + words +
		`)\b (?:minute|hour|day|week|month|year|hundred|thousand|million)\b|` +
		`\b(?:` + words +
		`)\b (?:(?:hundred|thousand|million)\b ?)?(?:seconds|minutes|hours|days|weeks|months|years|bytes|[KM]iB|times|attempts|starts|per cent|hundred|thousand|million)\b|half a second|tenth of a second|half an hour)`)
	named  = regexp.MustCompile(`(?:PostgreSQL|PgBouncer|Go|Debian|OpenAPI|OpenTelemetry|RFC|ADR|goose|AES|release|seeds?|version|SQLSTATE) v?\d[\d.]*(?:(?:,| and| or| to) v?\d[\d.]*)*|\bI\d+(?: to I\d+)?\b|\b(?:40P01|2D000|127\.0\.0\.1)\b|https?://\S+`)
	inline = regexp.MustCompile("`[^`]*`")
	target = regexp.MustCompile(`\]\([^)]*\)`)
	blocks = regexp.MustCompile("(?ms)^```.*?^```$|^    .*?$")
	region = regexp.MustCompile(`(?s)<!-- (\w+):begin -->.*?<!-- \w+:end -->`)
	heads  = regexp.MustCompile(`(?m)^#.*$`)
	rows   = regexp.MustCompile(`(?m)^\|.*$`)
	points = regexp.MustCompile(`(?m)^(?:-|\d+\.) `)
	ending = regexp.MustCompile(`[.:;!?]\s+|\n\s*\n`)
)

// measuredPages consist of measurements. Each says how it was measured and how to repeat it.
var measuredPages = []string{"docs/performance.md"}

// generated are the headings of page ends that tests write and compare.
var generated = map[string]string{"docs/daylight-saving.md": "\n## A year of ten hard schedules\n"}

// Every sentence with a figure is verified by a test, taken from the code, measured by a command, or no statement of
// ours.
func TestEveryFigureIsTraced(t *testing.T) {
	t.Parallel()
	all, found := witnesses(t), 0
	for _, p := range pages(t) {
		if path.Dir(p.Path) != "docs" && p.Path != "README.md" || slices.Contains(measuredPages, p.Path) {
			continue
		}
		for _, sentence := range sentences(p) {
			if !figure.MatchString(sentence) {
				continue
			}
			found++
			left := sentence
			for _, w := range all {
				if w.page == p.Path {
					left = strings.ReplaceAll(left, w.words, " … ")
				}
			}
			if left := namedTest.FindString(sentence); left != "" {
				continue // TestNamedTestsExist checks the name
			}
			if m := figure.FindStringSubmatch(left); m != nil {
				t.Errorf("%s: nothing in testdata/figures.txt verifies %q in: %s", p.Path, m[1], sentence)
			}
		}
	}
	if found < 150 {
		t.Errorf("only %d sentences with figures were found", found)
	}
}

// The words of each witness are on the page, and its evidence exists.
func TestWitnessesShowTheirFigures(t *testing.T) {
	t.Parallel()
	all := tests(t)
	said := map[string]string{}
	for _, p := range pages(t) {
		said[p.Path] = strings.Join(sentences(p), "\n")
	}
	for _, w := range witnesses(t) {
		if !figure.MatchString(w.words) && !figure.MatchString(" "+w.words) {
			t.Errorf("%s:%d: %q has no figure", figures, w.line, w.words)
		}
		if !strings.Contains(said[w.page], w.words) {
			t.Errorf("%s:%d: %s does not say %q", figures, w.line, w.page, w.words)
		}
		if problem := w.problem(t, all); problem != "" {
			t.Errorf("%s:%d: %q: %s", figures, w.line, w.words, problem)
		}
	}
}

func (w witness) problem(t *testing.T, all map[string][]string) string {
	switch w.kind {
	case "test":
		m := namedTest.FindStringSubmatch(w.rest)
		if m == nil || m[0] != w.rest || !exists(all, m[1], m[2], page.Page{}) {
			return "there is no test " + w.rest
		}
	case "code":
		file, text, _ := strings.Cut(w.rest, " ")
		source, err := os.ReadFile(path.Join(root, file))
		has := regexp.MustCompile(regexp.QuoteMeta(text) + `(\W|$)`) // so that 10 is not found in 100
		if err != nil || text == "" || !has.MatchString(spaces.ReplaceAllString(string(source), " ")) {
			return file + " does not have: " + text
		}
	case "measured":
		if w.page == "docs/scale.md" {
			return "its figures are those of tables: table docs/performance.md"
		}
		if !slices.Contains(commands(t), w.rest) {
			return "no page shows the command " + w.rest
		}
	case "table":
		for _, number := range number.FindAllString(w.words, -1) {
			if !slices.Contains(inTables(t, w.rest), strings.TrimRight(number, ".,")) {
				return "no table of " + w.rest + " has " + number
			}
		}
	case "given":
		if w.rest == "" {
			return "why?"
		}
	default:
		return "shown by " + w.kind + "?"
	}
	return ""
}

var number = regexp.MustCompile(`\d[\d,.]*`)

// inTables returns the numbers in the rows of a page's tables.
func inTables(t *testing.T, path string) (numbers []string) {
	for _, row := range rows.FindAllString(pageAt(t, path).Text, -1) {
		for _, n := range number.FindAllString(row, -1) {
			numbers = append(numbers, strings.TrimRight(n, ".,"))
		}
	}
	return numbers
}

var spaces = regexp.MustCompile(`[ \t]+`)

// commands returns those of all pages, without comments. Other tests check that they exist.
func commands(t *testing.T) (all []string) {
	for _, p := range pages(t) {
		for _, line := range p.Commands() {
			line, _, _ = strings.Cut(line, " #")
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

func witnesses(t *testing.T) (all []witness) {
	t.Helper()
	text, err := os.ReadFile(figures)
	if err != nil {
		t.Fatal(err)
	}
	on := ""
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if name, is := strings.CutPrefix(line, "== "); is {
			on = name
			continue
		}
		words, shown, _ := strings.Cut(line, " <- ")
		kind, rest, _ := strings.Cut(strings.TrimSpace(shown), " ")
		all = append(all, witness{i + 1, on, strings.TrimSpace(words), kind, rest})
	}
	if len(all) < 100 {
		t.Errorf("only %d witnesses were found", len(all))
	}
	return all
}

// sentences returns a page's sentences and table rows, each in one line: without blocks, generated reports, code, and
// names that contain digits.
func sentences(p page.Page) (all []string) {
	text := blocks.ReplaceAllString(p.Text, "\n")
	if heading := generated[p.Path]; heading != "" {
		text, _, _ = strings.Cut(text, heading)
	}
	text = region.ReplaceAllString(text, "")
	text = target.ReplaceAllString(inline.ReplaceAllStringFunc(text, kept), "]")
	text = named.ReplaceAllString(text, "§")
	text = points.ReplaceAllString(heads.ReplaceAllString(text, "\n"), "\n\n")
	text = rows.ReplaceAllStringFunc(text, func(row string) string {
		all = append(all, strings.Join(strings.Fields(strings.Trim(row, "| ")), " "))
		return "\n"
	})
	for _, s := range ending.Split(text, -1) {
		all = append(all, strings.Join(strings.Fields(s), " "))
	}
	return all
}

// kept keeps inline code only if it names tests.
func kept(code string) string {
	if namedTest.MatchString(code) {
		return code
	}
	return "`…`"
}
