package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/migrations"
)

func newMigrateCommand(a *app) *cobra.Command {
	return newGroup("migrate", "Create and change the tables of txwork",
		newMigrateUpCommand(a),
		newMigrateDownCommand(a),
		newMigrateStatusCommand(a),
		newMigrateValidateCommand(a),
		newMigrateSQLCommand(a),
	)
}

func (a *app) withMigrator(ctx context.Context, do func(*migrations.Migrator) error) error {
	return a.withDatabase(ctx, func(d *database) error {
		m, err := migrations.New(d.pool, migrations.Options{Schema: a.schema, Logger: a.logger()})
		if err != nil {
			return err
		}
		return do(m)
	})
}

func newMigrateUpCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Apply the migrations that are pending",
		Long: `Apply the migrations that are pending, each in a transaction of its own. The schema is made where it is
missing. Any number of processes may run this at once: one works, the others wait for it.`,
		Args: cobra.NoArgs,
	}
	to := cmd.Flags().Int64("to", 0, "stop at this version (default: the newest)")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withMigrator(cmd.Context(), func(m *migrations.Migrator) error {
			up := m.Up
			if cmd.Flags().Changed("to") {
				up = func(ctx context.Context) ([]migrations.Applied, error) { return m.UpTo(ctx, *to) }
			}
			return a.migrate(cmd.Context(), m, "applied", *asJSON, up)
		})
	}
	return cmd
}

func newMigrateDownCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "down --yes [--to VERSION]",
		Short: "Take migrations back, with the tables they made and all that is in them",
		Args:  cobra.NoArgs,
	}
	yes := cmd.Flags().Bool("yes", false, "yes, drop them")
	to := cmd.Flags().Int64("to", 0, "take all migrations above this version back instead of the last one; 0 leaves nothing")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		toVersion := cmd.Flags().Changed("to")
		if !*yes {
			return usagef("migrate down drops tables with all that is in them: pass --yes, and --to VERSION to take back more than the last migration")
		}
		return a.withMigrator(cmd.Context(), func(m *migrations.Migrator) error {
			down := m.Down
			if toVersion {
				down = func(ctx context.Context) ([]migrations.Applied, error) { return m.DownTo(ctx, *to) }
			}
			return a.migrate(cmd.Context(), m, "took back", *asJSON, down)
		})
	}
	return cmd
}

// migrated is what up and down print.
type migrated struct {
	Schema     string             `json:"schema"`
	Version    int64              `json:"version"`
	Migrations []appliedMigration `json:"migrations"`
}

type appliedMigration struct {
	Version int64   `json:"version"`
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// migrate runs one direction and prints what was done, also beside an error.
func (a *app) migrate(ctx context.Context, m *migrations.Migrator, verb string, asJSON bool, run func(context.Context) ([]migrations.Applied, error)) error {
	applied, err := run(ctx)
	result := migrated{Schema: a.schema, Migrations: []appliedMigration{}}
	for _, one := range applied {
		result.Migrations = append(result.Migrations, appliedMigration{one.Version, one.Name, one.Duration.Seconds()})
		if !asJSON {
			fmt.Fprintf(a.stdout, "%s %s (%v)\n", verb, one.Name, one.Duration.Round(time.Millisecond))
		}
	}
	if err != nil {
		return err
	}
	if result.Version, err = m.Version(ctx); err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(result)
	}
	_, err = fmt.Fprintf(a.stdout, "schema %s is at version %d\n", result.Schema, result.Version)
	return err
}

func newMigrateStatusCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List the migrations and which of them are applied",
		Args:  cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withMigrator(cmd.Context(), func(m *migrations.Migrator) error {
			all, err := m.Status(cmd.Context())
			if err != nil {
				return err
			}
			if *asJSON {
				return a.printJSON(map[string]any{"schema": a.schema, "migrations": all})
			}
			return a.printMigrations(all)
		})
	}
	return cmd
}

func (a *app) printMigrations(all []migrations.Status) error {
	g := newGrid(a.stdout, "VERSION", "NAME", "APPLIED")
	for _, s := range all {
		name, applied := s.Name, "pending"
		if name == "" {
			name = "(unknown to this version of txwork)"
		}
		if s.Applied {
			applied = stamp(s.AppliedAt, time.Now())
		}
		g.add(fmt.Sprint(s.Version), name, applied)
	}
	return g.flush()
}

func newMigrateValidateCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check that the schema is what this version of txwork works with",
		Args:  cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withMigrator(cmd.Context(), func(m *migrations.Migrator) error {
			if err := m.Validate(cmd.Context()); err != nil {
				return err
			}
			version, err := m.Version(cmd.Context())
			if err != nil {
				return err
			}
			if *asJSON {
				return a.printJSON(map[string]any{"schema": a.schema, "version": version, "valid": true})
			}
			_, err = fmt.Fprintf(a.stdout, "schema %s is at version %d, as this version of txwork needs it\n", a.schema, version)
			return err
		})
	}
	return cmd
}

func newMigrateSQLCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "sql",
		Short: "Print all migrations as plain SQL, for psql, Atlas and reviewers",
		Long: `Print all migrations as plain SQL. It needs no database. It records the versions, so 'txwork migrate up'
can take over later:

    txwork migrate sql | psql -v ON_ERROR_STOP=1 --single-transaction "$TXWORK_DATABASE_URL"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkSchema(); err != nil {
				return err
			}
			text, err := migrations.SQL(a.schema)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(a.stdout, text)
			return err
		},
	}
}
