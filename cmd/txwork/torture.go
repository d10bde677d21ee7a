//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/torture"
)

// tortureMember is the subcommand that a run starts itself with.
const tortureMember = "member"

// newTortureCommands is the command torture, where the system has what it needs.
func newTortureCommands(a *app) []*cobra.Command {
	var o torture.Options
	var faults string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "torture",
		Short: "Run all domains under faults and prove that nothing was lost or done twice",
		Long: `torture has producers commit, roll back and dawdle, worker processes, reapers, schedulers and duplicate
deliverers on all four domains at once, and lets faults strike them: it kills and stops processes, crashes
PostgreSQL, cuts connections, fills the disk and more. Other faults hold locks or freeze sessions, and whoever wants
nothing of them has to go on meanwhile. Others strike announcers; with --poll 10s every wake that is lost shows. In the end
everything has to drain, and what an audit trigger and the handlers' journals have recorded is checked against every
invariant.

Without --database-url and ` + databaseURLEnv + ` a private PostgreSQL is started, and removed at the end. With one of
them that server is used, in a schema of its own, which is dropped at the end; the role has to be allowed to end its
own sessions. Faults that stop a server or change its settings are skipped there. So are those that need what this
machine has not: --install lets apt-get install it, as root.

Faults: ` + strings.Join(torture.Faults(), ", ") + `.

Exit code 1 if an invariant was broken, with the seed, the row's whole history and the command that repeats the
run; 130 if interrupted.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("schema") {
				return usagef("torture makes a schema of its own: leave out --schema")
			}
			for _, name := range []string{"duration", "pause", "poll", "workers"} { // to the library nothing is the default
				if v := cmd.Flags().Lookup(name).Value.String(); v == "0" || v == "0s" {
					return usagef("--%s is %s: leave it out for the default", name, v)
				}
			}
			if faults != "" {
				o.Faults = strings.Split(faults, ",")
			}
			return a.runTorture(cmd, o, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&o.Seed, "seed", 1, "where every choice of the run comes from")
	flags.DurationVar(&o.Duration, "duration", time.Minute, "how long faults strike; setting up, draining and checking come on top")
	flags.StringVar(&faults, "faults", "", "comma-separated `names` of the faults that strike (default: all)")
	flags.IntVar(&o.Rows, "rows", 0, "go on until so many rows are committed, and stop producing then")
	flags.DurationVar(&o.Pause, "pause", torture.DefaultPause, "between two strikes, on average; give a run of very many rows more")
	flags.DurationVar(&o.Poll, "poll", torture.DefaultPoll, "how often workers look for rows of which nobody tells them; 10s shows wakes that are lost")
	flags.IntVar(&o.Workers, "workers", 3, "worker processes")
	flags.BoolVar(&o.Install, "install", false, "install what faults need with apt-get; needs root")
	flags.StringVar(&o.OldRevision, "old", "", "git `revision` whose workers serve today's tables in rolling-upgrade")
	flags.BoolVar(&asJSON, "json", false, "end with one JSON object on one line; what happens meanwhile goes to standard error")
	cmd.AddCommand(newTortureMemberCommand())
	return []*cobra.Command{cmd}
}

func newTortureMemberCommand() *cobra.Command {
	return &cobra.Command{
		Use:    tortureMember,
		Short:  "A process of a torture run, which starts it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return torture.RunMember(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func (a *app) runTorture(cmd *cobra.Command, o torture.Options, asJSON bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Program = []string{self, cmd.Name(), tortureMember}
	o.Progress = a.stderr
	if o.DatabaseURL = a.databaseURL; o.DatabaseURL == "" {
		o.DatabaseURL = a.getenv(databaseURLEnv)
	}
	if _, err := parseURL(o.DatabaseURL); o.DatabaseURL != "" && err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return usageError{err}
	}
	report, err := torture.Run(cmd.Context(), o)
	if report == nil && cmd.Context().Err() != nil {
		cmd.PrintErrln("txwork:", err)
		os.Exit(interruptedCode) // everything is cleaned up
	}
	if report == nil {
		return err
	}
	return errors.Join(err, a.printTorture(report, asJSON))
}

func (a *app) printTorture(report *torture.Report, asJSON bool) error {
	if !asJSON {
		return report.Write(a.stdout)
	}
	if err := report.Write(a.stderr); err != nil {
		return err
	}
	return json.NewEncoder(a.stdout).Encode(report)
}
