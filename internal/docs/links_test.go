package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/txwork/txwork/internal/page"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

// Links within the repository lead to existing files and headings.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	found := 0
	for _, p := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(p.Prose(), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			found++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := p.Path
			if file != "" {
				target = path.Join(path.Dir(p.Path), file)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", p.Path, m[1])
			} else if anchor != "" && !anchors(pageAt(t, target))[anchor] {
				t.Errorf("%s links to the heading %s, which does not exist", p.Path, m[1])
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d links were found", found)
	}
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(p page.Page) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(p.Text, -1) {
		found[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])] = true
	}
	return found
}
