package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// mail is a topic that was paused for a tenant. Everybody sees the names of topics that were paused, and nobody the
// messages of another tenant.
func mail(tenant string) string { return tenant + ":mail" }

// send writes messages: those of globex belong to a paused topic, and acme has a scheduled one.
func send(ctx context.Context, box *outbox.Outbox, logins *logins) error {
	list := make([]outbox.Message, messages)
	for i := range list {
		list[i] = outbox.Message{Topic: mail(globex), Payload: []byte("the secret of globex")}
	}
	for tenant, list := range map[string][]outbox.Message{globex: list, acme: {{Topic: mail(acme),
		ScheduledAt: time.Now().Add(time.Hour)}}} {
		if err := inTx(ctx, logins.as("producer", tenant), func(tx workqueue.Tx) error {
			_, err := box.EnqueueMany(ctx, tx, list...)
			return err
		}); err != nil {
			return err
		}
	}
	worker := box.Table().On(logins.as("worker", globex))
	rows, err := worker.Claim(ctx, workqueue.NewOwnerToken(), time.Minute, 1) // sets them aside
	if err == nil && len(rows) > 0 {
		err = errors.New("a message of a paused topic was claimed")
	}
	return err
}

// resume ends the pause, which only a role can that sees the messages of all, and tells how many messages it held.
func resume(ctx context.Context, box *outbox.Outbox, owner *pgxpool.Pool) (held int64, err error) {
	err = inTx(ctx, owner, func(tx workqueue.Tx) error {
		list, err := box.Topics(ctx, tx)
		if err != nil {
			return err
		}
		if len(list) != 1 || !list[0].Paused {
			return fmt.Errorf("after the attacks the topics are %+v", list)
		}
		held = list[0].Aside
		return box.Resume(ctx, tx, mail(globex))
	})
	return held, err
}

// newRelay makes the relay of globex.
func newRelay(box *outbox.Outbox, logins *logins) (*outbox.Relay, error) {
	relay, err := outbox.NewRelay(logins.as("worker", globex), box, outbox.RelayOptions{})
	if err == nil {
		relay.Handle(mail(globex), func(context.Context, *outbox.Delivery) error { return nil })
	}
	return relay, err
}
