package webui

import (
	"strings"
	"testing"
	"time"
)

// A doctor that could not look has not found that there are no differences.
func TestDifferencesThatNobodyLookedFor(t *testing.T) {
	t.Parallel()
	for problem, want := range map[string]string{"": "found no differences", "no connection": "could not look"} {
		p := maintenancePage{All: true}
		p.differences(&reading{ExaminedAt: time.Now(), Problem: problem})
		var page strings.Builder
		if err := pages()["maintenance.html"].ExecuteTemplate(&page, "content", frame{Data: p}); err != nil {
			t.Fatal(err)
		}
		text := page.String()
		if !strings.Contains(text, want) || problem != "" && strings.Contains(text, "no differences") {
			t.Errorf("with the problem %q the page says:\n%s", problem, text)
		}
	}
}
