package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/outbox"
)

func newOutboxCommand(a *app) *cobra.Command {
	return newGroup("outbox", "Send messages and relay them, pause and resume topics, move to a log",
		append([]*cobra.Command{newSendCommand(a), newRelayCommand(a), newUnblockCommand(a),
			newMoveCommand(a)},
			newTopicsCommands(a, "outbox", "TOPIC")...)...)
}

// withOutbox connects and makes sure that the outbox exists before any input is read. What reads rows, and finds a log
// in their place, is told by ofLog which flag or command is about that.
func (a *app) withOutbox(ctx context.Context, o outbox.Options, ofLog string,
	do func(*database, *outbox.Outbox) error) error {
	return a.withDatabase(ctx, func(d *database) error {
		o.Schema, o.Telemetry.Logger = d.Schema, a.logger()
		box, err := outbox.Open(o)
		if err != nil {
			return usageError{err}
		}
		if err := box.Table().CheckVersion(ctx, d.Pool); err != nil {
			if o.Storage == outbox.Rows {
				return d.hasLogOnly(ctx, err, ofLog)
			}
			return err
		}
		return do(d, box)
	})
}
