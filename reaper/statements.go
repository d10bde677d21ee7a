package reaper

import (
	"embed"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// leaderTable is where elections are kept, in the schema of the Options.
const leaderTable = "leader"

// statement reads an operation, and puts a quoted name where the file has {{placeholder}}. The comment is
// for the reader of the file and not sent to the server.
func statement(file, placeholder string, name pgx.Identifier) string {
	text, err := sqlFiles.ReadFile("sql/" + file + ".sql")
	if err != nil {
		panic(err) // the files are embedded
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "--") {
			lines = append(lines, line)
		}
	}
	return strings.ReplaceAll(strings.Join(lines, ""), "{{"+placeholder+"}}", name.Sanitize())
}

// fixed reads an operation without a placeholder.
func fixed(file string) string { return statement(file, "none", nil) }

// The statements that name no table of ours.
var (
	limitsText  = fixed("limits")
	holdersText = fixed("holders")
	hiddenText  = fixed("hidden")
)
