package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/txwork/txwork/internal/postgres"
)

// A jsonValue is the flag --json: whether it is set, and which types the command then prints.
type jsonValue struct {
	set   *bool
	forms []any // a value of each type
}

func (v *jsonValue) String() string   { return strconv.FormatBool(*v.set) }
func (v *jsonValue) Type() string     { return "bool" }
func (v *jsonValue) IsBoolFlag() bool { return true }

func (v *jsonValue) Set(text string) (err error) {
	*v.set, err = strconv.ParseBool(text)
	return err
}

// jsonUsage describes --json for almost all commands.
const jsonUsage = "print one JSON object on one line"

// jsonFlag adds the flag --json to a command, which then prints one value of the given types. docs/json.md documents
// them.
func jsonFlag(cmd *cobra.Command, forms ...any) *bool {
	set := new(bool)
	jsonVar(cmd.Flags(), set, jsonUsage, forms...)
	return set
}

// jsonVar is jsonFlag for a variable that already exists.
func jsonVar(flags *pflag.FlagSet, set *bool, usage string, forms ...any) {
	flags.VarPF(&jsonValue{set, forms}, "json", "", usage).NoOptDefVal = "true"
}

// printJSON writes one value on one line.
func (a *app) printJSON(v any) error {
	a.answered = true
	to := a.answers
	if to == nil {
		to = a.stdout
	}
	enc := json.NewEncoder(to)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// A grid is text in aligned columns.
type grid struct {
	out *tabwriter.Writer
}

func newGrid(w io.Writer, header ...string) *grid {
	g := &grid{tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	if len(header) > 0 {
		g.add(header...)
	}
	return g
}

func (g *grid) add(cells ...string) { fmt.Fprintln(g.out, strings.Join(cells, "\t")) }

func (g *grid) flush() error { return g.out.Flush() }

// stamp formats a time in UTC and relative to now, which is the time of the database.
func stamp(t, now time.Time) string {
	return fmt.Sprintf("%s (%s)", t.UTC().Format("2006-01-02 15:04:05Z"), relative(t.Sub(now)))
}

func stampOrDash(t *time.Time, now time.Time) string {
	if t == nil {
		return "-"
	}
	return stamp(*t, now)
}

func relative(d time.Duration) string {
	if d > 0 {
		return "in " + rough(d)
	}
	return rough(-d) + " ago"
}

// rough formats a duration in its largest unit, for people.
func rough(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 2*day:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d/day))
}

// cell makes a text from the table fit for one cell on a terminal: one line, of bounded width, and without control
// characters, which could rewrite what the operator sees.
func cell(s string, width int) string {
	s, _, more := strings.Cut(s, "\n")
	if utf8.RuneCountInString(s) > width {
		s, more = string([]rune(s)[:width-1]), true
	}
	if more {
		s += "…"
	}
	return harmless(s)
}

// harmless escapes characters that are not printable.
func harmless(s string) string { return postgres.Visible(s) }

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// named prints a name in full, and two different names differently.
func named(name string) string { return postgres.Name(name) }

// names prints several names that belong together, such as a consumer and a topic. Of several, one that contains a
// space is quoted, so that it is not taken for two.
func names(all ...string) string {
	texts := make([]string, len(all))
	for i, name := range all {
		if texts[i] = named(name); len(all) > 1 && strings.Contains(name, " ") {
			texts[i] = strconv.Quote(name)
		}
	}
	return strings.Join(texts, " ")
}

// given leaves out names that are empty.
func given(all ...string) []string {
	return slices.DeleteFunc(all, func(name string) bool { return name == "" })
}

// namedOrDash returns a name, or a dash if there is none.
func namedOrDash(name string) string {
	if name == "" {
		return "-"
	}
	return named(name)
}

// plural formats a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// dashed returns a text for a cell, or a dash if it is empty.
func dashed(text string) string {
	if text == "" {
		return "-"
	}
	return cell(text, cellWidth)
}

// hintMore says how to read the next page. The position may contain any text, so it is quoted for a shell.
func (a *app) hintMore(position string) error {
	_, err := fmt.Fprintf(a.stderr, "txwork: there is more: --after %s\n", postgres.Shell(position))
	return err
}
