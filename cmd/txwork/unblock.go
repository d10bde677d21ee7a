package main

import (
	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
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
			unblock := func(ids []uuid.UUID) (changed []uuid.UUID, err error) {
				err = d.write(cmd.Context(), func(tx workqueue.Tx) error {
					changed, err = box.Unblock(cmd.Context(), tx, ids...)
					return err
				})
				return changed, err
			}
			r := repair{db: d, table: box.Table(), verb: "unblocked", change: unblock,
				settled: func(f foundRow) bool { return workqueue.Status(f.Status) == workqueue.Failed }}
			return r.report(r.named(cmd.Context(), ids), *asJSON)
		})
	}
	return cmd
}
