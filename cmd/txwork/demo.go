package main

import (
	"encoding/json"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/cmd/txwork/internal/demo"
)

func newDemoCommand(a *app) *cobra.Command {
	var options demo.Options
	var asJSON bool
	var web string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Transfer money while workers freeze and die, and reconcile the accounts",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("schema") {
				return usagef("the demo creates a schema of its own: omit --schema")
			}
			return a.runDemo(cmd, options, web, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&options.Transfers, "transfers", demo.DefaultTransfers, "how many transfers to make up")
	flags.StringVar(&options.Input, "input", "", "CSV `file` of transfers to make instead: id,from,to,amount")
	flags.StringVar(&web, "web", "", "serve a dashboard of the demo at this `address`, begin when a browser opens it, and "+
		"stay until interrupted")
	flags.Lookup("web").NoOptDefVal = freeLoopbackPort
	jsonVar(flags, &asJSON, "end with one JSON object on one line; what happens meanwhile goes to standard error",
		demo.Result{})
	cmd.MarkFlagsMutuallyExclusive("transfers", "input")
	cmd.AddCommand(newDemoWorkerCommand())
	return cmd
}

func (a *app) runDemo(cmd *cobra.Command, o demo.Options, web string, asJSON bool) error {
	if err := completeDemo(cmd, &o); err != nil {
		return err
	}
	if web != "" {
		w := &demoWeb{app: a, print: func(r demo.Report) error { return printDemo(cmd, r, asJSON) }}
		if err := w.listen(web); err != nil {
			return err
		}
		defer w.listener.Close()
		o.Audience = w
	}
	report, err := demo.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	if o.Audience == nil {
		err = printDemo(cmd, report, asJSON)
	}
	return errors.Join(err, report.Err())
}

// completeDemo fills in the options that do not come from the demo's own flags.
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

// printDemo leaves standard output to the JSON object if one was asked for.
func printDemo(cmd *cobra.Command, report demo.Report, asJSON bool) error {
	if !asJSON {
		return report.Write(cmd.OutOrStdout())
	}
	if err := report.Write(cmd.ErrOrStderr()); err != nil {
		return err
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(report.Result)
}
