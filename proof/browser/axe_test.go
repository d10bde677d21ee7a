package browser

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// axeVersion is the directory of axe-core that .ci/browser installs.
const axeVersion = "axe-core@4.14.1"

// axe reads axe-core.
var axe = sync.OnceValues(func() (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(home, ".cache", "txwork", axeVersion, "axe.min.js"))
	return string(text), err
})

// A finding is what axe-core says of a page.
type finding struct {
	Rule, Impact, Help string
	Nodes              []string
}

// check runs axe-core, and returns what is serious. It cannot load anything.
const check = `axe.run(document, {preload: false, resultTypes: ["violations"]}).then(result => result.violations
	.filter(v => v.impact === "serious" || v.impact === "critical")
	.map(v => ({Rule: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.map(n => n.html + " " + n.failureSummary)})))`

// accessible fails the test if axe-core has a serious finding on the page.
func (b *tab) accessible(look Look) {
	b.Helper()
	text, err := axe()
	if errors.Is(err, fs.ErrNotExist) {
		return // see TestAxeIsInstalled
	}
	must(b.T, err)
	value[any](b, text+"; null")
	for _, f := range value[[]finding](b, check) {
		b.Errorf("%s: %s, %s: %s", look, f.Impact, f.Rule, f.Help)
		for _, node := range f.Nodes {
			b.Log(node)
		}
	}
}

func TestAxeIsInstalled(t *testing.T) {
	if _, err := axe(); err != nil {
		t.Skipf("nothing was checked by axe-core, run .ci/browser install: %v", err)
	}
}
