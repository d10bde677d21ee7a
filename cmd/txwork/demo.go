package main

import (
	"encoding/json"
	"os"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/demo"
)

func newDemoCommand() *cobra.Command {
	var options demo.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Transfer money while workers freeze and die, and reconcile the accounts",
		Long: `demo makes transfers between accounts. Each is one transaction that moves the money and writes an outbox
message: a third each through pgx, database/sql and sqlx, and one in ten is rolled back on purpose. Three
worker processes apply the messages to a ledger. One of them is frozen past its lease and then continued,
another is killed. In the end the tables are reckoned up: what was lost, applied twice, or applied though it
was rolled back?

It starts a private PostgreSQL and leaves nothing behind. With --database-url or ` + databaseURLEnv + ` it uses
that server instead, in a schema of its own, which it drops.

--input makes the transfers of a CSV file, one a line: id,from,to,amount, with or without that line as a
header. An id occurs once. Accounts begin at 0 and may go below. The amount is a positive decimal number with
at most two digits after the point. The file is checked to its end before anything is written. Every tenth
transfer is rolled back on purpose at first and then made for real, so that the result is complete.

Exit code 1 if a message was lost, applied twice, or applied though rolled back, or if the books do not
balance; 130 if interrupted.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("schema") {
				return usagef("the demo creates a schema of its own: omit --schema")
			}
			return runDemo(cmd, options, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&options.Transfers, "transfers", demo.DefaultTransfers, "how many transfers to make up")
	flags.StringVar(&options.Input, "input", "", "CSV `file` of transfers to make instead: id,from,to,amount")
	flags.BoolVar(&asJSON, "json", false, "end with one JSON object on one line; what happens meanwhile goes to "+
		"standard error")
	cmd.MarkFlagsMutuallyExclusive("transfers", "input")
	cmd.AddCommand(newDemoWorkerCommand())
	return cmd
}

func runDemo(cmd *cobra.Command, o demo.Options, asJSON bool) error {
	if err := completeDemo(cmd, &o); err != nil {
		return err
	}
	report, err := demo.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	if err := printDemo(cmd, report, asJSON); err != nil {
		return err
	}
	return report.Err()
}

// completeDemo fills in what does not come from the demo's own flags.
func completeDemo(cmd *cobra.Command, o *demo.Options) error {
	if cmd.Flags().Changed("transfers") && (o.Transfers < 1 || o.Transfers > demo.MaxTransfers) {
		return usagef("--transfers is %d, it must be between 1 and %d", o.Transfers, demo.MaxTransfers)
	}
	if o.Input != "" {
		o.Transfers = 0
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Worker = []string{self, cmd.Name(), demoWorker}
	o.Progress = cmd.ErrOrStderr()
	o.DatabaseURL = os.Getenv(databaseURLEnv)
	if url := cmd.Flag("database-url").Value.String(); url != "" {
		o.DatabaseURL = url
	}
	return nil
}

// printDemo leaves standard output to the object where one is wanted.
func printDemo(cmd *cobra.Command, report demo.Report, asJSON bool) error {
	if !asJSON {
		return report.Write(cmd.OutOrStdout())
	}
	if err := report.Write(cmd.ErrOrStderr()); err != nil {
		return err
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(report.Result)
}
