package main

import (
	"embed"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/periodic"
)

// helpFiles say what each command does, in a file by the words that call it, and below "Examples:" how it is called.
//
//go:embed help/*.txt
var helpFiles embed.FS

// helpExamples is the line above a command's examples.
const helpExamples = "\nExamples:\n"

// A helpPage is what the files may ask for.
type helpPage struct{}

func (helpPage) States() string      { return listingNames() }
func (helpPage) ColumnTypes() string { return strings.Join(postgres.ColumnTypes, ", ") }
func (helpPage) MaxBackfill() int    { return periodic.MaxBackfill }

// addHelp gives a command and all below it what its file says. A command that only holds others need not have one.
func addHelp(root *cobra.Command) {
	pages := template.Must(template.ParseFS(helpFiles, "help/*.txt"))
	eachCommand(root, func(c *cobra.Command) {
		page := pages.Lookup(helpName(c))
		if page == nil {
			return
		}
		var text strings.Builder
		if err := page.Execute(&text, helpPage{}); err != nil {
			panic(err) // a test has them all
		}
		long, examples, _ := strings.Cut("\n"+text.String(), helpExamples)
		c.Long, c.Example = strings.TrimSpace(long), strings.TrimRight(examples, "\n")
	})
}

// helpName is the file of a command.
func helpName(c *cobra.Command) string {
	words := strings.Fields(c.CommandPath())
	return strings.Join(words[min(1, len(words)-1):], "_") + ".txt"
}

// eachCommand visits a command and all below it.
func eachCommand(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, visit)
	}
}
