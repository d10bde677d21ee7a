package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/migrations"
)

// downOptions are the flags of down.
type downOptions struct {
	migrations.Options
	to                  int64
	last                bool   // --to was not given
	steps               []step // the newest first
	yes, dropRows, json bool
}

func newMigrateDownCommand(a *app) *cobra.Command {
	var o downOptions
	cmd := newCommand("down [--to-version VERSION] --yes [--drop-rows]",
		"Roll migrations back, which drops their tables and all rows",
		noArguments)
	flags := cmd.Flags()
	flags.BoolVar(&o.yes, "yes", false, "yes, drop the tables and columns")
	flags.BoolVar(&o.dropRows, "drop-rows", false, "also drop tables that have rows, and columns that have values")
	flags.Int64Var(&o.to, "to-version", 0, toVersion+", 0 leaves nothing (default: take the last migration back)")
	lockTimeoutFlag(cmd, &o.Options)
	domainFlag(cmd, &o.Domains, "take back migrations of this `domain` alone")
	jsonVar(flags, &o.json, jsonUsage, migrated{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.last = !flags.Changed("to-version")
		return a.withMigrator(cmd.Context(), o.Options, func(m *migrations.Migrator) error {
			return a.migrateDown(cmd.Context(), m, o)
		})
	}
	return cmd
}

func (a *app) migrateDown(ctx context.Context, m *migrations.Migrator, o downOptions) error {
	names, err := o.takesBack(ctx, m)
	if err != nil {
		return err
	}
	rows, err := m.RowsAbove(ctx, o.to)
	if err != nil {
		return err
	}
	if err := o.refuse(names, rows); err != nil {
		return err
	}
	return a.migrate(ctx, m, migrating{doing: "taking back", verb: "took back", json: o.json, rows: rows,
		steps: o.steps})
}

// takesBack returns the names of the migrations that are taken back, and plans the steps. Without --to it takes back
// the last migration and sets the version that remains.
func (o *downOptions) takesBack(ctx context.Context, m *migrations.Migrator) (names []string, err error) {
	all, err := m.Status(ctx)
	if err != nil {
		return nil, err
	}
	var applied []migrations.Status
	for _, s := range all {
		if s.Applied && (len(o.Domains) == 0 || slices.Contains(o.Domains, s.Domain)) {
			applied = append(applied, s)
		}
	}
	if n := len(applied); o.last && n > 1 {
		o.to = applied[n-2].Version
	}
	rest := func(ctx context.Context) ([]migrations.Applied, error) { return m.DownTo(ctx, o.to) }
	for i, s := range applied {
		if s.Version <= o.to {
			continue
		}
		one := step{s.Name, rest}
		if len(names) > 0 {
			one.run = func(ctx context.Context) ([]migrations.Applied, error) {
				return m.DownTo(ctx, applied[i-1].Version)
			}
		}
		names, o.steps = append(names, s.Name), append([]step{one}, o.steps...)
	}
	if len(names) == 0 {
		o.steps = []step{{run: rest}}
	}
	return names, nil
}

// refuse says what would be dropped, unless the flags allow it.
func (o *downOptions) refuse(names []string, rows []migrations.TableRows) error {
	switch what := strings.Join(names, ", "); {
	case len(names) == 0 || o.yes && (o.dropRows || len(rows) == 0):
		return nil
	case len(rows) > 0:
		return usagef("migrate down would take back %s and drop %s: pass --yes and --drop-rows to do so", what,
			countRows(rows))
	default:
		return usagef("migrate down would take back %s and drop its tables, which hold no rows: pass --yes to do so",
			what)
	}
}

// countRows says how many rows and values of columns there are, in total and by table.
func countRows(all []migrations.TableRows) string {
	sums := map[string]int{}
	parts := map[string][]string{}
	for _, r := range all {
		what, name := "row", r.Table
		if r.Column != "" {
			what, name = "value", r.Table+"."+r.Column
		}
		sums[what] += int(r.Rows)
		parts[what] = append(parts[what], fmt.Sprintf("%s %d", name, r.Rows))
	}
	var texts []string
	for _, what := range []string{"row", "value"} {
		if len(parts[what]) > 0 {
			texts = append(texts, fmt.Sprintf("%s (%s)", plural(sums[what], what), strings.Join(parts[what], ", ")))
		}
	}
	return strings.Join(texts, " and ")
}
