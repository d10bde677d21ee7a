package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command shows how it is used, and what it shows is a command line that it takes.
func TestEveryCommandHasExamples(t *testing.T) {
	t.Parallel()
	known := 0
	each(newRootCommand(&app{}), func(c *cobra.Command) {
		if _, found := examples[c.CommandPath()]; found {
			known++
		}
		if c.HasSubCommands() || c.Hidden || c.Name() == "help" {
			return
		}
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for line := range strings.SplitSeq(c.Example, "\n") {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
			line, _, _ = strings.Cut(line, " > ")
			args := strings.Fields(line)
			if len(args) == 0 || args[0] != "txwork" || strings.ContainsAny(line, `'"\|$`) {
				continue // for a shell
			}
			root := newRootCommand(&app{})
			found, rest, err := root.Find(args[1:])
			if err != nil || found.CommandPath() != c.CommandPath() {
				t.Errorf("%s shows %q, which is of %v, %v", c.CommandPath(), line, found, err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%q: %v", line, err)
			} else if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
	})
	if known != len(examples) {
		t.Errorf("%d of %d examples are of commands that there are", known, len(examples))
	}
}

// each visits a command and all below it.
func each(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		each(sub, visit)
	}
}
