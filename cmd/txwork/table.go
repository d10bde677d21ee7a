package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

func newTableCommand(a *app) *cobra.Command {
	return newGroup("table", "Make queues of your own", newTableNewCommand(a))
}

// columnForm is how a column is written.
const columnForm = "NAME:TYPE[:not-null][:min=N][:max=N]"

func newTableNewCommand(a *app) *cobra.Command {
	var columns []string
	spec := workqueue.Spec{}
	cmd := newCommand("new NAME [--column "+columnForm+"]...", "Print a goose migration for a table of your own",
		cobra.ExactArgs(1))
	flags := cmd.Flags()
	flags.StringArrayVar(&columns, "column", nil, "a column, as `"+strings.ToLower(columnForm)+
		"`; min and max bound numbers, and the bytes of texts; repeat for more")
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
		c := &columns[i]
		for k, part := range strings.Split(text, ":") {
			name, number, _ := strings.Cut(part, "=")
			n, err := strconv.ParseInt(number, 10, 64)
			switch {
			case k == 0:
				c.Name = part
			case k == 1:
				c.Type = part
			case part == "not-null":
				c.NotNull = true
			case name == "min" && err == nil:
				c.Bound.Min, c.Bound.Stored = n, true
			case name == "max" && err == nil:
				c.Bound.Max, c.Bound.Stored = n, true
			default:
				return nil, usagef("--column %q: want %s", text, columnForm)
			}
		}
	}
	return columns, nil
}
