package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	documentation "github.com/txwork/txwork/internal/page"
)

var update = flag.Bool("update", false, "write what is recorded in docs anew")

// The sessions shown in the documentation are what the commands print, except for figures, times and ids.
func TestRecordedSessions(t *testing.T) {
	c := newShop(t)
	c.trouble()
	c.connect("shop-api", 3)
	c.connect("shop-worker", 4)
	c.db.Pool.Reset() // so that no other session is connected
	sections := map[string]map[string]string{"docs/top.md": {}, "docs/doctor.md": {}}
	for _, width := range []int{80, 200} {
		at := fmt.Sprint(width)
		sections["docs/top.md"]["top-"+at] = console(fmt.Sprintf("txwork top --once --width %d", width),
			c.top("--once", "--width", at).ok().stdout)
		sections["docs/doctor.md"]["doctor-"+at] = console(fmt.Sprintf("txwork doctor --width %d", width),
			c.doctor("--width", at).exits(exitCritical).stdout)
	}
	c.withSteps(func(s steps) {
		var b strings.Builder
		show := func(keys ...string) {
			s.press(keys...)
			b.WriteString("[" + strings.Join(keys, " ") + "]\n")
			for _, l := range s.screen(80, 9) {
				b.WriteString(l.text + "\n")
			}
		}
		s.on("error jobs")
		show("enter")
		show("esc", "r")
		show("y")
		sections["docs/top.md"]["keys-80"] = "```text\n" + b.String() + "```\n"
	})
	for page, all := range sections {
		file := filepath.Join(root, page)
		for name, section := range all {
			if *update {
				must(t, documentation.Write(file, name, section))
			}
			text, err := os.ReadFile(file)
			must(t, err)
			begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->"
			_, rest, _ := strings.Cut(string(text), begin)
			recorded, _, _ := strings.Cut(rest, end)
			if got, want := form(section), form(recorded); got != want {
				t.Errorf("%s: the recorded session %s is not what the commands print; go test ./cmd/txwork -run "+
					"Recorded -update\n%s\nwant the form of\n%s", page, name, got, want)
			}
		}
	}
}

func console(command, output string) string {
	return "```text\n$ " + command + "\n" + output + "```\n"
}

var (
	anID       = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{4,}[0-9a-f-]*…`)
	aFigure    = regexp.MustCompile(`[0-9]+([.:][0-9]+)*`)
	aUnit      = regexp.MustCompile(`#(ms|s|m|h)\b|# (s|min)\b`)
	aCut       = regexp.MustCompile(`\S*…`)
	whiteSpace = regexp.MustCompile(`\s+`)
)

// form returns a text without the parts that differ between runs.
func form(text string) string {
	text = anID.ReplaceAllString(text, "id")
	text = aFigure.ReplaceAllString(text, "#")
	text = aUnit.ReplaceAllString(text, "#")
	text = aCut.ReplaceAllString(text, "")
	return whiteSpace.ReplaceAllString(text, " ")
}
