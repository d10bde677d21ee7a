package reaper

import (
	"embed"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/postgres"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// leaderTable is the table that stores the elections, in the schema of the Options.
const leaderTable = "leader"

// statement reads an SQL file and replaces {{placeholder}} with a quoted name. It leaves out the file's comments, which
// the server does not need.
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

// fixed reads an SQL file without a placeholder.
func fixed(file string) string { return statement(file, "none", nil) }

// Statements that name no table of txwork's.
var (
	limitsText  = fixed("limits") + "\nWHERE " + postgres.FitSession
	holdersText = fixed("holders")
	hiddenText  = fixed("hidden")
)
