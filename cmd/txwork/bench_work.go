package main

import (
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/cmd/txwork/internal/bench"
)

// benchWork is the hidden subcommand that the benchmark starts as its worker processes.
const benchWork = "work"

func newBenchWorkCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    benchWork,
		Short:  "Run a worker process of a drain (started by the drain)",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.RunWorkers(cmd.Context(), a.stdin, a.stdout, a.benchLogger())
		},
	}
}

// benchWorkers makes the command of a worker process.
func benchWorkers() (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "bench", benchWork)
	ownGroup(cmd)
	return cmd, nil
}
