package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

func newTableCommand(a *app) *cobra.Command {
	return newGroup("table", "Make queues of your own", newTableNewCommand(a))
}

func newTableNewCommand(a *app) *cobra.Command {
	var columns []string
	spec := workqueue.Spec{}
	cmd := newCommand("new NAME [--column NAME:TYPE[:not-null]]...", "Print a goose migration for a table of your own",
		cobra.ExactArgs(1))
	flags := cmd.Flags()
	flags.StringArrayVar(&columns, "column", nil, "a column, as `name:type[:not-null]`; repeat for more")
	flags.StringSliceVar(&spec.Lanes, "lane", nil, "a column whose value every claim names; repeat in order")
	flags.StringSliceVar(&spec.Unique, "unique", nil, "a column of the unique key; repeat for more")
	flags.StringSliceVar(&spec.Labels, "label-column", nil, "a column whose value metrics and logs carry; repeat for more")
	flags.BoolVar(&spec.DeleteDone, "delete-done", false, "delete a row when it is acknowledged")
	flags.IntVar(&spec.MaxAttempts, "max-attempts", workqueue.DefaultMaxAttempts, "attempts of a row that does not say")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		spec.Schema, spec.Table = a.schema, args[0]
		return a.printTableMigration(spec, columns, flags.Changed("max-attempts"))
	}
	return cmd
}

func (a *app) printTableMigration(spec workqueue.Spec, columns []string, attemptsGiven bool) (err error) {
	if attemptsGiven && spec.MaxAttempts < 1 { // a Spec takes 0 for the default, but the flag does not
		return usagef("--max-attempts is %d: a row needs at least one attempt", spec.MaxAttempts)
	}
	if spec.Columns, err = parseColumns(columns); err != nil {
		return err
	}
	text, err := migrations.DDL(spec)
	return a.printSQL(text, err)
}

// printSQL prints rendered SQL. If the rendering failed, the flags were invalid.
func (a *app) printSQL(text string, err error) error {
	if errors.Is(err, workqueue.ErrInvalid) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(a.stdout, text)
	return err
}

func parseColumns(texts []string) ([]workqueue.Column, error) {
	columns := make([]workqueue.Column, len(texts))
	for i, text := range texts {
		parts := strings.Split(text, ":")
		if len(parts) == 3 && parts[2] == "not-null" {
			columns[i].NotNull = true
		} else if len(parts) != 2 {
			return nil, usagef("--column %q: want NAME:TYPE or NAME:TYPE:not-null", text)
		}
		columns[i].Name, columns[i].Type = parts[0], parts[1]
	}
	return columns, nil
}
