package browser

import (
	"fmt"
	"testing"
)

// Every page is right in every look: it fits, and neither the browser nor axe-core has anything to say.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	for _, p := range Pages {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			path, err := p.Of(t.Context(), shop)
			must(t, err)
			s := shared
			if p.Schema != "" || p.Acts {
				s = serve(nil, p.configure)
				t.Cleanup(s.Close)
			}
			b := newTab(t, s)
			if p.Status != 0 {
				b.expects(fmt.Sprintf("status of %d", p.Status))
			}
			b.open(path, p.Shows).everyLook()
		})
	}
}

// everyLook fails the test unless the page is right in every look.
func (b *tab) everyLook() {
	b.Helper()
	for _, look := range Looks {
		must(b.T, look.set(b.ctx))
		if width := value[int64](b, "document.documentElement.scrollWidth"); width > look.Width {
			b.Errorf("%s: the page is %d pixels wide, by these:\n%v", look, width,
				value[[]string](b, fmt.Sprintf(tooWide, look.Width)))
		}
		b.accessible(look)
	}
	must(b.T, Looks[0].set(b.ctx))
}

// tooWide lists the elements that leave the window, and are not in one that can be scrolled.
const tooWide = `[...document.querySelectorAll("body *")].filter(e =>
	e.getBoundingClientRect().right > %d && !e.parentElement.closest(".scroll, pre")).map(e => e.outerHTML.slice(0, 200))`
