package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

func newOutboxCommand(a *app) *cobra.Command {
	return newGroup("outbox", "Send messages and relay them", newSendCommand(a), newRelayCommand(a))
}

// withOutbox connects and makes sure that the outbox is there, before any input is read.
func (a *app) withOutbox(ctx context.Context, maxPayload int, do func(*database, *outbox.Outbox) error) error {
	return a.withDatabase(ctx, func(d *database) error {
		o, err := outbox.Open(outbox.Options{
			Schema:     d.schema,
			MaxPayload: maxPayload,
			Telemetry:  workqueue.Telemetry{Logger: a.logger()},
		})
		if err != nil {
			return usageError{err}
		}
		if err := o.Table().CheckVersion(ctx, d.pool); err != nil {
			return err
		}
		return do(d, o)
	})
}
