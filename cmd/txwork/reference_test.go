package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	documentation "github.com/txwork/txwork/internal/page"
)

// docs/commands.md lists every command with every flag, as its help has them.
func TestThePageOfCommands(t *testing.T) {
	t.Parallel()
	page := filepath.Join(root, "docs/commands.md")
	var b strings.Builder
	eachCommand(newRootCommand(&app{}), func(c *cobra.Command) {
		if c.Hidden || c.HasSubCommands() && !c.HasAvailableLocalFlags() || c.Name() == "help" {
			return
		}
		fmt.Fprintf(&b, "\n### `%s`\n\n", c.CommandPath())
		if !c.HasSubCommands() {
			fmt.Fprintf(&b, "%s: `%s`\n\n", c.Short, strings.TrimSuffix(c.UseLine(), " [flags]"))
		}
		b.WriteString("| flag | default | meaning |\n|---|---|---|\n")
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Hidden || f.Name == "version" {
				return
			}
			kind, usage := pflag.UnquoteUsage(f)
			value := ""
			if zero := f.DefValue == "0" || f.DefValue == "0s" || f.DefValue == "false" || f.DefValue == "[]"; !zero &&
				f.DefValue != "" {
				value = "`" + strings.Trim(f.DefValue, "[]") + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.TrimSpace("--"+f.Name+" "+kind), value,
				strings.ReplaceAll(usage, "|", `\|`))
		})
	})
	section := b.String() + "\n"
	if *update {
		must(t, documentation.Write(page, "commands", section))
	}
	if holds, err := documentation.Holds(page, "commands", section); err != nil || !holds {
		t.Errorf("%s is not what the commands have (%v): go test ./cmd/txwork -run TestThePageOfCommands -update",
			page, err)
	}
}
