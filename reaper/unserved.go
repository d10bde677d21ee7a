package reaper

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/postgres"
)

// An unservedTable is a table that no reaper maintains. Used is false if it has never had a row. Nothing can be lost
// then: an application that uses some of the domains has the tables of the others, too.
type unservedTable struct {
	Name string
	Used bool
}

// unserved returns the tables, in the schemas of the reaper's own tables, that it was not given and that no other
// reaper serves. The claims of a dead worker on them stay for ever, and nothing else would report it. Tables that have
// never had a row are left out.
func (r *reaper) unserved(ctx context.Context) []string {
	schemas := []string{r.options.Schema}
	for _, table := range r.tables {
		schemas = append(schemas, table.Spec().Schema)
	}
	text := statement("unserved", "leader", pgx.Identifier{r.options.Schema, leaderTable})
	var found []unservedTable
	err := transaction(ctx, r.pool, r.options.Lease, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, text, schemas)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[unservedTable])
		return err
	})
	if ctx.Err() != nil {
		return nil
	}
	if r.noteOutage(err) {
		return nil
	}
	if err != nil {
		r.logger.WarnContext(ctx, "reaper could not look for tables that nobody maintains", "error", err)
		return nil
	}
	var names []string
	for _, t := range found {
		switch {
		case slices.Contains(r.names, t.Name):
		case t.Used:
			names = append(names, t.Name)
		default:
			r.looksAgain()
		}
	}
	news := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(r.warned, name) })
	if len(news) > 0 {
		r.warned = append(r.warned, news...)
		r.logger.WarnContext(ctx, "no reaper maintains some tables of txwork: their expired leases are never requeued "+
			"and their old rows never deleted; name them in service.Options.Tables or pass them to reaper.Run, or run the "+
			"commands from cron", "unserved", news, "commands", reapCommands(news))
	}
	return names
}

// reapCommands returns the command line that maintains each of the tables.
func reapCommands(tables []string) (commands []string) {
	for _, name := range tables {
		schema, table, _ := strings.Cut(name, ".")
		commands = append(commands, postgres.Command(schema, "reap", table))
	}
	return commands
}
