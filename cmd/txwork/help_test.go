package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command has a description and examples, and each example is a command line that it accepts.
func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	unused := map[string]bool{}
	files, err := helpFiles.ReadDir("help")
	must(t, err)
	for _, f := range files {
		unused[f.Name()] = !strings.HasPrefix(f.Name(), "_") // files with an underscore are included by others
	}
	eachCommand(newRootCommand(&app{}), func(c *cobra.Command) {
		delete(unused, helpName(c))
		if c.HasSubCommands() || c.Hidden || c.Name() == "help" {
			return
		}
		if c.Long == "" || c.Example == "" {
			t.Errorf("help/%s lacks a text or examples", helpName(c))
		}
		for line := range strings.SplitSeq(c.Example, "\n") {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
			line, _, _ = strings.Cut(line, " > ")
			args := strings.Fields(line)
			if len(args) == 0 || args[0] != "txwork" || strings.ContainsAny(line, `'"\|$`) {
				continue // needs a shell
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
	for name, missing := range unused {
		if missing {
			t.Errorf("help/%s is of no command", name)
		}
	}
}
