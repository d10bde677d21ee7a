package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/migrations"
)

func newMigrateValidateCommand(a *app) *cobra.Command {
	cmd := newCommand("validate", "Compare the schema with the migrations, and print the DDL that repairs it",
		noArguments)
	var o migrations.Options
	domainFlag(cmd, &o.Domains, "compare this `domain` (default: those that the schema has)")
	asJSON := jsonFlag(cmd, validated{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withMigrator(cmd.Context(), o, func(m *migrations.Migrator) error {
			return a.validateSchema(cmd.Context(), m, len(o.Domains) > 0, *asJSON)
		})
	}
	return cmd
}

// validated is what validate prints.
type validated struct {
	Schema      string                 `json:"schema"`
	Version     int64                  `json:"version"`     // version of the schema
	Valid       bool                   `json:"valid"`       // this version of txwork can use it
	Absent      []migrations.Domain    `json:"absent"`      // without --domain, the domains that the schema does not have
	Differences migrations.Differences `json:"differences"` // differences from what the migrations create, including harmless ones
}

func (a *app) validateSchema(ctx context.Context, m *migrations.Migrator, named, asJSON bool) error {
	differences, err := m.Differences(ctx)
	if err != nil {
		return err
	}
	problem := differences.Err()
	v := validated{Schema: a.schema, Valid: problem == nil, Absent: []migrations.Domain{},
		Differences: append(migrations.Differences{}, differences...)}
	if !named {
		_, absent, err := m.Domains(ctx)
		if err != nil {
			return err
		}
		v.Absent = append(v.Absent, absent...)
	}
	if v.Version, err = m.Version(ctx); err != nil && v.Valid {
		return err
	}
	if err := a.printValidated(v, asJSON); err != nil {
		return err
	}
	if problem != nil {
		return fmt.Errorf("schema %s is not as this version of txwork needs it", a.schema)
	}
	return nil
}

func (a *app) printValidated(v validated, asJSON bool) error {
	if asJSON {
		return a.printJSON(v)
	}
	var b strings.Builder
	if len(v.Absent) == len(migrations.DefaultDomains()) && v.Version == 0 {
		_, err := fmt.Fprintf(a.stdout, "-- schema %s has none of the domains %s: run %s, with --domain for some of them\n",
			v.Schema, listDomains(v.Absent), a.command("migrate", "up"))
		return err
	}
	if v.Valid {
		fmt.Fprintf(&b, "schema %s is at version %d, as this version of txwork needs it\n", v.Schema, v.Version)
	} else {
		fmt.Fprintf(&b,
			`-- Schema %s is not as this version of txwork needs it. What follows mends it: run it in this order and not in
-- one transaction. What is made anew has no rights: run the SQL of txwork roles after it, where you use those.
`, v.Schema)
	}
	if len(v.Absent) > 0 && v.Valid {
		fmt.Fprintf(&b, "note: it does not have the domains %s\n", listDomains(v.Absent))
	} else if len(v.Absent) > 0 {
		fmt.Fprintf(&b, "-- It does not have the domains %s.\n", listDomains(v.Absent))
	}
	for _, d := range v.Differences {
		printDifference(&b, d, v.Valid)
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}

// printDifference prints a description, and for an invalid schema also the SQL that repairs it.
func printDifference(b *strings.Builder, d migrations.Difference, valid bool) {
	what := harmless(d.String()) // a single line, so that no part of it runs if it is pasted
	switch {
	case valid:
		fmt.Fprintf(b, "note: %s\n", what)
	case d.Harmless:
		fmt.Fprintf(b, "\n-- note: %s\n", what)
	default:
		fmt.Fprintf(b, "\n-- %s\n", what)
		for _, statement := range d.DDL {
			fmt.Fprintln(b, statement)
		}
	}
}
