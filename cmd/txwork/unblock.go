package main

import (
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/outbox"
)

func newUnblockCommand(a *app) *cobra.Command {
	cmd := newCommand("unblock ID...", "Release the messages behind failed ones", cobra.MinimumNArgs(1))
	ofLog := cmd.Flags().Bool("log", false, "they are parked messages of an outbox that is a log")
	asJSON := jsonFlag(cmd, repairedRows{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := parseIDs(args)
		if err != nil {
			return err
		}
		var options outbox.Options
		if *ofLog {
			options.Storage = outbox.Log
		}
		return a.withOutbox(cmd.Context(), options, "pass --log", func(d *database, box *outbox.Outbox) error {
			r := repair{db: d, table: box.Table(), verb: unblocking}
			return r.report(r.named(cmd.Context(), ids), *asJSON)
		})
	}
	return cmd
}
