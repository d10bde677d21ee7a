package main

import (
	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/outbox"
)

func newUnblockCommand(a *app) *cobra.Command {
	cmd := newCommand("unblock ID...", "Release the messages behind failed ones", cobra.MinimumNArgs(1))
	asJSON := jsonFlag(cmd, repairedRows{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := parseIDs(args)
		if err != nil {
			return err
		}
		return a.withOutbox(cmd.Context(), outbox.Options{}, func(d *database, box *outbox.Outbox) error {
			v := verb{function: "unblock", done: "unblocked", settled: []string{"failed"}}
			r := repair{db: d, table: box.Table(), verb: v, decide: func(ids []uuid.UUID) ([]decision, error) {
				return d.decide(cmd.Context(), box.Table(), v, ids)
			}}
			return r.report(r.named(ids), *asJSON)
		})
	}
	return cmd
}
