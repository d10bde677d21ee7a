package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"
)

// Bounds of what the Tab key may cost.
const (
	completeTimeout = 2 * time.Second
	completeSample  = 1000 // rows of a state that values are taken from
	completeValues  = 100
)

// A completer lists what may stand somewhere on a command line.
type completer = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

// completeNames gives the commands what the Tab key offers: tables, queues and the values of filters are asked of the
// database.
func (a *app) completeNames(cmd *cobra.Command) {
	words := strings.Fields(cmd.Use)
	if len(words) > 1 && cmd.ValidArgsFunction == nil {
		switch strings.Trim(words[1], "[]().") {
		case "TABLE":
			many := strings.HasSuffix(words[1], "...")
			cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string,
				cobra.ShellCompDirective) {
				if len(args) > 0 && !many {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return a.complete(cmd, begun, func(ctx context.Context, d *database) ([]string,
					error) {
					return d.tableNames(ctx)
				})
			}
		case "QUEUE":
			cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string,
				cobra.ShellCompDirective) {
				if len(args) > 0 {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return a.complete(cmd, begun, func(ctx context.Context, d *database) ([]string,
					error) {
					return d.values(ctx, jobsTable, "queue")
				})
			}
		}
	}
	for _, name := range []string{"kind", "queue", "topic", "consumer"} {
		if cmd.Flags().Lookup(name) != nil {
			cmd.RegisterFlagCompletionFunc(name, a.completeValues(name))
		}
	}
	if cmd.Flags().Lookup("status") != nil {
		cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(statesOf(cmd),
			cobra.ShellCompDirectiveNoFileComp))
	}
	for _, sub := range cmd.Commands() {
		a.completeNames(sub)
	}
}

// statesOf are those that a command's --status takes.
func statesOf(cmd *cobra.Command) []string {
	switch cmd.Name() {
	case "joins":
		return joinStates
	case "cancel":
		return append(slices.Clone(liveStates), "scheduled", "expired")
	}
	if cmd.Parent() != nil && cmd.Parent().Parent() != nil { // of jobs and timers
		return []string{"ready", "in_progress", "done", "failed"}
	}
	return slices.Sorted(maps.Keys(listings))
}

// completeValues are those that a column of the command's table has lately had.
func (a *app) completeValues(column string) completer {
	tables := map[string]string{"kind": jobsTable, "queue": jobsTable, "topic": "outbox", "consumer": "inbox"}
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		table := tables[column]
		if cmd.Parent() != nil && cmd.Parent().Name() != "jobs" && len(args) > 0 {
			table = args[0]
		}
		return a.complete(cmd, begun, func(ctx context.Context, d *database) ([]string, error) {
			return d.values(ctx, table, column)
		})
	}
}

// complete asks the database, and offers nothing where that does not answer soon.
func (a *app) complete(cmd *cobra.Command, begun string, ask func(context.Context, *database) ([]string,
	error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	var found []string
	err := a.withDatabase(ctx, func(d *database) (err error) {
		found, err = ask(ctx, d)
		return err
	})
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(found, func(s string) bool { return !strings.HasPrefix(s, begun) || harmless(s) != s }),
		cobra.ShellCompDirectiveNoFileComp
}

// values are those of a column among the rows that are claimed next and those that failed last.
func (d *database) values(ctx context.Context, table, name string) (found []string, err error) {
	known, err := d.tableNames(ctx)
	if err != nil || !slices.Contains(known, table) {
		return nil, err
	}
	value := "r." + column{Name: name}.quoted()
	text := fmt.Sprintf(`
		SELECT DISTINCT s.value::text
		FROM (
			(SELECT %[1]s AS value FROM %[2]s AS r WHERE r.completed_at IS NULL AND NOT r.waiting LIMIT %[3]d)
			UNION ALL
			(SELECT %[1]s FROM %[2]s AS r WHERE r.failed_at IS NOT NULL ORDER BY r.failed_at DESC, r.id DESC LIMIT %[3]d)) AS s
		WHERE s.value IS NOT NULL
		ORDER BY 1
		LIMIT %[4]d`, value, pgx.Identifier{d.schema, table}.Sanitize(), completeSample, completeValues)
	err = d.read(ctx, func(tx *sqlx.Tx) error { return tx.SelectContext(ctx, &found, text) })
	return found, err
}
