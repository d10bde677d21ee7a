package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/workqueue"
)

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "txwork",
		Short:         "Transactional queues on PostgreSQL: outbox, inbox, timers, jobs, migrations and maintenance",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	flags := root.PersistentFlags()
	flags.StringVar(&a.databaseURL, "database-url", "", "PostgreSQL URL or keywords (default: $"+databaseURLEnv+")")
	flags.StringVar(&a.schema, "schema", workqueue.DefaultSchema, "schema of the tables")
	flags.StringVar(&a.actor, "as", "", "who acts, for the audit (default: the user of this machine)")
	root.AddCommand(
		newDemoCommand(a),
		newPostgresCommand(a),
		newMigrateCommand(a),
		newTableCommand(a),
		newRolesCommand(a),
		newOutboxCommand(a),
		newSubscriptionsCommand(a),
		newInboxCommand(a),
		newTimersCommand(a),
		newSchedulesCommand(a),
		newJobsCommand(a),
		newAlarmsCommand(a),
		newWorkerCommand(a),
		newTopCommand(a),
		newDoctorCommand(a),
		newServeCommand(a),
		newMetricsCommand(a),
		newStatsCommand(a),
		newListCommand(a),
		newShowCommand(a),
		newAuditCommand(a),
		newKeysCommand(a),
		newJoinsCommand(a),
		newRedriveCommand(a),
		newCancelCommand(a),
		newRunNowCommand(a),
		newRescheduleCommand(a),
		newDiscardCommand(a),
		newDeleteCommand(a),
		newReapCommand(a),
		newPurgeCommand(a),
		newBenchCommand(a),
	)
	a.completeNames(root)
	addHelp(root)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return explainFlag("", err) })
	a.markBegun(root)
	return root
}

// newCommand makes a command whose flags and action are still to be added. Its help is in help/, see addHelp.
func newCommand(use, short string, args cobra.PositionalArgs) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: args}
}

// newGroup makes a command that only groups others.
func newGroup(use, short string, subcommands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:                        use,
		Short:                      short,
		Args:                       refuseUnknown,
		SuggestionsMinimumDistance: 2, // the default that cobra gives the root command
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(subcommands...)
	return cmd
}

// refuseUnknown refuses unknown subcommands of a group, which cobra does only for the root command.
func refuseUnknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("unknown command %q for %q: did you mean %s?", args[0], cmd.CommandPath(),
			strings.Join(near, " or "))
	}
	return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
}

func version() string {
	v := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
	}
	return fmt.Sprintf("%s (core %d, %s)", v, workqueue.SchemaVersion, runtime.Version())
}
