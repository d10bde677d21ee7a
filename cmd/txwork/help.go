package main

import (
	"embed"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/periodic"
)

// helpFiles are the texts of the commands, one file for each, named after the words that call it. Below "Examples:" a
// file shows how the command is called.
//
//go:embed help/*.txt
var helpFiles embed.FS

// helpExamples is the line above a command's examples.
const helpExamples = "\nExamples:\n"

// A helpPage provides the values that the help files refer to.
type helpPage struct{}

func (helpPage) States() string      { return listingNames() }
func (helpPage) ColumnTypes() string { return strings.Join(postgres.ColumnTypes, ", ") }
func (helpPage) MaxBackfill() int    { return periodic.MaxBackfill }

// addHelp gives a command and all its subcommands the texts of their files. A command that only groups others may have
// none.
func addHelp(root *cobra.Command) {
	eachCommand(root, func(c *cobra.Command) {
		page, err := helpFiles.ReadFile("help/" + helpName(c))
		if err != nil {
			return
		}
		long, examples, _ := strings.Cut("\n"+helpText(string(page)), helpExamples)
		c.Long, c.Example = strings.TrimSpace(long), strings.TrimRight(examples, "\n")
	})
}

// helpText renders a file. Few refer to values, and every command reads all files when it starts.
func helpText(page string) string {
	if !strings.Contains(page, "{{") {
		return page
	}
	var text strings.Builder
	if err := template.Must(template.New("").Parse(page)).Execute(&text, helpPage{}); err != nil {
		panic(err) // a test renders all of them
	}
	return text.String()
}

// helpName returns the name of a command's help file.
func helpName(c *cobra.Command) string {
	words := strings.Fields(c.CommandPath())
	return strings.Join(words[min(1, len(words)-1):], "_") + ".txt"
}

// eachCommand visits a command and all its subcommands, however deep.
func eachCommand(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, visit)
	}
}
