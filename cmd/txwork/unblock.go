package main

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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
			unblock := func(ids []uuid.UUID) (all []decision, err error) {
				err = d.write(cmd.Context(), func(tx workqueue.Tx) error {
					all, err = unblock(cmd.Context(), tx, box, ids)
					return err
				})
				return all, err
			}
			r := repair{db: d, table: box.Table(), verb: verb{done: "unblocked", settled: []string{"failed"}},
				decide: unblock}
			return r.report(r.named(ids), *asJSON)
		})
	}
	return cmd
}

// unblock releases messages, and says what keeps the others.
func unblock(ctx context.Context, tx workqueue.Tx, box *outbox.Outbox, ids []uuid.UUID) ([]decision, error) {
	changed, err := box.Unblock(ctx, tx, ids...)
	if err != nil {
		return nil, err
	}
	all := make([]decision, len(ids))
	for i, id := range ids {
		all[i] = decision{id: id, changed: slices.Contains(changed, id), why: "there is no such row"}
	}
	spec := box.Table().Spec()
	return all, tx.Query(ctx, func(scan func(...any) error) error {
		var id uuid.UUID
		var status rowStatus
		err := scan(&id, &status)
		one := &all[slices.Index(ids, id)]
		one.result, one.why = status.String(), "it is "+status.String()
		return err
	}, "SELECT id, status FROM "+pgx.Identifier{spec.Schema, spec.Table}.Sanitize()+" WHERE id = ANY ($1::uuid[])", ids)
}
