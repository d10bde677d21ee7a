package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/migrations"
)

func newMigrateCommand(a *app) *cobra.Command {
	return newGroup("migrate", "Create and change the tables of txwork",
		newMigrateUpCommand(a),
		newMigrateDownCommand(a),
		newMigrateStatusCommand(a),
		newMigrateValidateCommand(a),
		newMigrateSQLCommand(a),
		newMigrateExportCommand(a),
	)
}

// domainFlag adds a flag that restricts a command to some domains.
func domainFlag(cmd *cobra.Command, domains *[]migrations.Domain, meaning string) {
	cmd.Flags().Func("domain", meaning+"; one of "+domainNames+", repeat for more", func(name string) error {
		if !slices.Contains(migrations.Domains(), migrations.Domain(name)) {
			return fmt.Errorf("there are %s", domainNames)
		}
		*domains = append(*domains, migrations.Domain(name))
		return nil
	})
	_ = cmd.RegisterFlagCompletionFunc("domain", cobra.FixedCompletions(strings.Split(domainNames, ", "),
		cobra.ShellCompDirectiveNoFileComp))
}

var domainNames = func() string {
	var names []string
	for _, d := range migrations.Domains() {
		names = append(names, string(d))
	}
	return strings.Join(names, ", ")
}()

func (a *app) withMigrator(ctx context.Context, o migrations.Options, do func(*migrations.Migrator) error) error {
	return a.withAnySession(ctx, func(d *database) error {
		o.Schema, o.Logger = a.schema, slog.New(waitTeller{a.logger().Handler(), a.stderr})
		m, err := migrations.New(d.Pool, o)
		if err != nil {
			return conclude(err)
		}
		return do(m)
	})
}

// A waitTeller passes on the warnings of a migrator, and tells the user if it waits for another one.
type waitTeller struct {
	slog.Handler
	to io.Writer
}

func (w waitTeller) Enabled(context.Context, slog.Level) bool { return true }

func (w waitTeller) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "waiting for another migrator" {
		_, err := fmt.Fprintf(w.to, "txwork: %s\n", r.Message)
		return err
	}
	if !w.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return w.Handler.Handle(ctx, r)
}

func (w waitTeller) WithAttrs(attrs []slog.Attr) slog.Handler {
	return waitTeller{w.Handler.WithAttrs(attrs), w.to}
}

// lockTimeoutFlag adds the lock timeout to a command that changes tables in use.
func lockTimeoutFlag(cmd *cobra.Command, o *migrations.Options) {
	cmd.Flags().DurationVar(&o.LockTimeout, "lock-timeout", migrations.DefaultLockTimeout,
		"give up if a table is in use for longer than this; later transactions wait meanwhile")
}

// toVersion describes --to-version.
const toVersion = "go to this version"

func newMigrateUpCommand(a *app) *cobra.Command {
	cmd := newCommand("up", "Apply pending migrations", noArguments)
	var o migrations.Options
	domainFlag(cmd, &o.Domains, "create or upgrade the tables of this `domain`")
	to := cmd.Flags().Int64("to-version", 0, toVersion+" (default: the newest)")
	lockTimeoutFlag(cmd, &o)
	asJSON := jsonFlag(cmd, migrated{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withMigrator(cmd.Context(), o, func(m *migrations.Migrator) error {
			all, err := m.Status(cmd.Context())
			if err != nil {
				return err
			}
			up := m.Up
			if cmd.Flags().Changed("to-version") {
				up = func(ctx context.Context) ([]migrations.Applied, error) { return m.UpTo(ctx, *to) }
				all = upTo(all, *to)
			}
			err = a.migrate(cmd.Context(), m, migrating{doing: "applying", verb: "applied", json: *asJSON,
				steps: stepsUp(m, all, up)})
			if err == nil && !cmd.Flags().Changed("to-version") {
				a.warnOfDifferences(cmd.Context(), m)
			}
			return err
		})
	}
	return cmd
}

// warnOfDifferences says that a schema at its newest version still differs from what the migrations make: what was
// dropped or changed since, migrating does not make again.
func (a *app) warnOfDifferences(ctx context.Context, m *migrations.Migrator) {
	differences, err := m.Differences(ctx)
	if err != nil || differences.Err() == nil {
		return
	}
	fmt.Fprintf(a.stderr, "txwork: the schema is not as this version of txwork needs it: run the SQL that %s prints\n",
		a.command("migrate", "validate"))
}

// command returns a command line for the same schema, in backticks.
func (a *app) command(args ...string) string { return postgres.Command(a.schema, args...) }

// upTo returns the migrations up to a version. It returns none if the version is not among them: the migrator reports
// that.
func upTo(all []migrations.Status, version int64) []migrations.Status {
	is := func(s migrations.Status) bool { return s.Version == version }
	return all[:slices.IndexFunc(all, is)+1]
}

// stepsUp returns one step for each pending migration, so that each is reported when it is done. The last step applies
// everything that is left, even if that is nothing.
func stepsUp(m *migrations.Migrator, all []migrations.Status, rest migrateFunc) (steps []step) {
	for _, s := range all {
		if !s.Applied {
			steps = append(steps, step{s.Name, func(ctx context.Context) ([]migrations.Applied, error) {
				return m.UpTo(ctx, s.Version)
			}})
		}
	}
	if len(steps) == 0 {
		return []step{{run: rest}}
	}
	steps[len(steps)-1].run = rest
	return steps
}

type migrateFunc func(context.Context) ([]migrations.Applied, error)

// A step is one migration that is to be applied or taken back.
type step struct {
	name string // empty if no migration is left
	run  migrateFunc
}

// migrating is a run of migrations in one direction.
type migrating struct {
	doing, verb string
	json        bool
	rows        []migrations.TableRows // rows and values that are dropped
	steps       []step
}

// migrated is what up and down print.
type migrated struct {
	Schema      string                 `json:"schema"`
	Version     int64                  `json:"version"`                // version of the schema at the end
	Migrations  []appliedMigration     `json:"migrations"`             // migrations applied or taken back, in this order
	DroppedRows []migrations.TableRows `json:"dropped_rows,omitempty"` // rows of the dropped tables, and values of the dropped columns
}

type appliedMigration struct {
	Version int64             `json:"version"`
	Domain  migrations.Domain `json:"domain"`  // domain to which it belongs
	Name    string            `json:"name"`    // such as 001_outbox
	Seconds float64           `json:"seconds"` // how long it took
}

// migrate runs the steps of one direction and reports each migration when it is done.
func (a *app) migrate(ctx context.Context, m *migrations.Migrator, what migrating) (err error) {
	result := migrated{Schema: a.schema, Migrations: []appliedMigration{}, DroppedRows: what.rows}
	for i, step := range what.steps {
		progress := a.newWait(fmt.Sprintf("%s %s (%d of %d)", what.doing, step.name, i+1, len(what.steps)))
		applied, err := step.run(ctx)
		progress.end()
		for _, one := range applied {
			result.Migrations = append(result.Migrations, appliedMigration{one.Version, one.Domain, one.Name,
				one.Duration.Seconds()})
			if !what.json {
				fmt.Fprintf(a.stdout, "%s %s (%v)\n", what.verb, one.Name, one.Duration.Round(time.Millisecond))
			}
		}
		if err != nil {
			return err
		}
	}
	if result.Version, err = m.Version(ctx); err != nil {
		return err
	}
	if what.json {
		return a.printJSON(result)
	}
	if len(what.rows) > 0 {
		fmt.Fprintf(a.stdout, "dropped %s\n", countRows(what.rows))
	}
	_, err = fmt.Fprintf(a.stdout, "schema %s is at version %d\n", result.Schema, result.Version)
	return err
}

func newMigrateStatusCommand(a *app) *cobra.Command {
	cmd := newCommand("status", "List the migrations, and show which are applied", noArguments)
	asJSON := jsonFlag(cmd, migrationsList{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withMigrator(cmd.Context(), migrations.Options{}, func(m *migrations.Migrator) error {
			all, err := m.Status(cmd.Context())
			if err != nil {
				return err
			}
			if *asJSON {
				err = a.printJSON(migrationsList{a.schema, all})
			} else {
				err = a.printMigrations(all)
			}
			pending := 0
			for _, m := range all {
				if !m.Applied {
					pending++
				}
			}
			if err == nil && pending > 0 {
				return a.pending(cmd.Context(), m, pending)
			}
			return err
		})
	}
	return cmd
}

// pending says what to do about migrations that are not recorded as applied: those whose tables are there are to be
// recorded first.
func (a *app) pending(ctx context.Context, m *migrations.Migrator, n int) error {
	differences, err := m.Differences(ctx)
	if err == nil && slices.ContainsFunc(differences, migrations.Difference.Unrecorded) {
		return fmt.Errorf("migrations are not recorded, although their tables are there: run the SQL that %s prints",
			a.command("migrate", "validate"))
	}
	return fmt.Errorf("%s pending: run %s", plural(n, "migration"), a.command("migrate", "up"))
}

// A migrationsList is what status prints.
type migrationsList struct {
	Schema     string              `json:"schema"`
	Migrations []migrations.Status `json:"migrations"` // those of this version of txwork, and others that are applied
}

func (a *app) printMigrations(all []migrations.Status) error {
	g := newGrid(a.stdout, "VERSION", "DOMAIN", "NAME", "APPLIED")
	for _, s := range all {
		name, applied := s.Name, "pending"
		name = cmp.Or(name, "(unknown to this version of txwork)")
		if s.Applied {
			applied = stamp(s.AppliedAt, time.Now())
		}
		g.add(fmt.Sprint(s.Version), string(s.Domain), name, applied)
	}
	return g.flush()
}

func newMigrateSQLCommand(a *app) *cobra.Command {
	var o migrations.FileOptions
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Print all migrations as plain SQL, for psql, Atlas and reviewers",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkSchema(); err != nil {
				return err
			}
			o.Schema = a.schema
			text, err := migrations.SQL(o)
			if err != nil {
				return err
			}
			if _, err = fmt.Fprint(a.stdout, text); err == nil {
				a.warnOfNeeds("this is", o.Needs())
			}
			return err
		},
	}
	domainFlag(cmd, &o.Domains, "print the migrations of this `domain` alone, name reaper once in each schema")
	return cmd
}

// exported is what export prints.
type exported struct {
	Directory string   `json:"directory"`
	Written   []string `json:"written"` // names of the new files
}

func (a *app) printExported(e exported, asJSON bool) error {
	if asJSON {
		return a.printJSON(e)
	}
	for _, name := range e.Written {
		fmt.Fprintf(a.stdout, "wrote %s\n", filepath.Join(e.Directory, name))
	}
	if len(e.Written) == 0 {
		fmt.Fprintf(a.stdout, "%s has all migrations already\n", e.Directory)
	}
	return nil
}

func newMigrateExportCommand(a *app) *cobra.Command {
	var o migrations.FileOptions
	format := migrations.GolangMigrate.String()
	var asJSON *bool
	cmd := &cobra.Command{
		Use:   "export DIR",
		Short: "Write the migrations as files for goose or golang-migrate",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := a.checkSchema(); err != nil {
				return err
			}
			o.Schema = a.schema
			if o.Format, err = migrations.ParseFormat(format); err != nil {
				return usagef("--format %s: want golang-migrate or goose", format)
			}
			written, err := migrations.Export(args[0], o)
			if err != nil {
				return conclude(err)
			}
			err = a.printExported(exported{Directory: args[0], Written: append([]string{}, written...)}, *asJSON)
			if needs, failed := migrations.Needs(args[0]); err == nil && failed == nil {
				a.warnOfNeeds(args[0]+" is", needs)
			}
			return err
		},
	}
	asJSON = jsonFlag(cmd, exported{})
	flags := cmd.Flags()
	flags.StringVar(&format, "format", format, "tool that reads the files: golang-migrate or goose")
	flags.Int64Var(&o.First, "first", 0,
		"number of the first new file (default: after the files of the directory; in an "+
			"empty one, their versions)")
	domainFlag(cmd, &o.Domains, "write the migrations of this `domain` alone, name reaper once in each schema")
	return cmd
}
