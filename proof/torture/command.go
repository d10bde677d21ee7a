//go:build unix

package torture

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// MemberCommand is the hidden command with which a run starts its processes.
const MemberCommand = "torture-member"

const help = `torture has producers commit, roll back and dawdle, worker processes, reapers, schedulers and duplicate
deliverers on all four domains at once, and lets faults strike them. Some of the workers and every second producer use
the SQL functions only, as a program in another language does; the others use the library. It kills and stops
processes, crashes PostgreSQL, cuts connections, fills the disk and more. Other faults hold locks or freeze sessions,
and whoever wants nothing of them has to go on meanwhile. Others strike announcers; with --poll 10s every wake that is
lost shows. In the end everything has to drain, and what an audit trigger and the handlers' journals have recorded is checked against every
invariant.

Without --database-url a private PostgreSQL is started, and removed at the end. With it that server is used, in a schema of
its own, which is dropped at the end; the role has to be allowed to end its own sessions. Faults that stop a server or
change its settings are skipped there. So are those that need what this machine has not: --install lets apt-get
install it, as root.

Faults: %s.

The exit code is 1 if an invariant was broken, with the seed, the row's whole history and the command that repeats the
run; 2 if the run could not be done; 130 if it was interrupted.

`

// Command runs all domains under faults, as the arguments say, and tells whether an invariant was broken.
func Command(ctx context.Context, args []string, out, progress io.Writer) (violated bool, err error) {
	o, asJSON, err := parse(args, progress)
	if err != nil {
		return false, err
	}
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	o.Program = []string{self, MemberCommand}
	report, err := Run(ctx, o)
	if report == nil {
		return false, err
	}
	if err := printReport(report, asJSON, out, progress); err != nil {
		return false, err
	}
	if errors.Is(err, ErrViolated) {
		fmt.Fprintln(progress, err)
		return true, nil
	}
	return false, err
}

func printReport(report *Report, asJSON bool, out, progress io.Writer) error {
	if !asJSON {
		return report.Write(out)
	}
	if err := report.Write(progress); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(report)
}

// CommandOfMember runs a process of a run. The run starts it.
func CommandOfMember(ctx context.Context, _ []string, out, _ io.Writer) (bool, error) {
	return false, RunMember(ctx, os.Stdin, out)
}

func parse(args []string, progress io.Writer) (o Options, asJSON bool, err error) {
	o.Progress = progress
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.Usage = func() {
		fmt.Fprintf(progress, help, strings.Join(Faults(), ", "))
		flags.PrintDefaults()
	}
	flags.Uint64Var(&o.Seed, "seed", 1, "where every choice of the run comes from")
	flags.DurationVar(&o.Duration, "duration", time.Minute,
		"how long faults strike, and up to half as long again until each has struck; setting up, draining and "+
			"checking come on top")
	faults := flags.String("faults", "", "`names` of the faults that strike, separated by commas (default all)")
	flags.IntVar(&o.Rows, "rows", 0, "go on until so many rows are committed, and stop producing then")
	flags.DurationVar(&o.Pause, "pause", DefaultPause,
		"between two strikes, on average; give a run of very many rows more")
	flags.DurationVar(&o.Poll, "poll", DefaultPoll,
		"how often workers look for rows of which nobody tells them; 10s shows wakes that are lost")
	flags.IntVar(&o.Workers, "workers", defaultWorkers, "worker processes")
	flags.IntVar(&o.SQLWorkers, "sql-workers", defaultSQLWorkers,
		"worker processes beside them that use the SQL functions only")
	flags.BoolVar(&o.GoOnly, "go-only", false, "no worker and no producer uses the SQL functions")
	flags.BoolVar(&o.Install, "install", false, "install what faults need with apt-get; needs root")
	flags.StringVar(&o.OldRevision, "old", "", "git `revision` whose workers serve today's tables in rolling-upgrade")
	flags.StringVar(&o.DatabaseURL, "database-url", "", "use this server (default a private one)")
	flags.BoolVar(&asJSON, "json", false, "end with one JSON object on one line; what happens meanwhile goes to "+
		"standard error")
	if err = flags.Parse(args); err != nil {
		return o, false, err
	}
	if *faults != "" {
		o.Faults = strings.Split(*faults, ",")
	}
	return o, asJSON, check(flags, o)
}

func check(flags *flag.FlagSet, o Options) error {
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	// In the Options, zero means the default.
	for _, name := range []string{"duration", "pause", "poll", "workers", "sql-workers"} {
		if v := flags.Lookup(name).Value.String(); v == "0" || v == "0s" {
			return fmt.Errorf("--%s is %s: leave it out for the default", name, v)
		}
	}
	if _, err := pgx.ParseConfig(o.DatabaseURL); o.DatabaseURL != "" && err != nil {
		return fmt.Errorf("the database URL is wrong: %w", err)
	}
	return o.Validate()
}
