package main

import (
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/cmd/txwork/internal/demo"
)

// demoWorker is the hidden subcommand that the demo starts as its worker processes.
const demoWorker = "worker"

func newDemoWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    demoWorker,
		Short:  "Run a worker process of the demo (started by the demo)",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.RunWorker(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
