package outbox

import (
	"context"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
)

// Pause stops relays from claiming messages of a topic, about half a second after tx commits at the latest. Messages in
// progress go on, and so does Enqueue. Pausing a paused topic does nothing.
//
// Every claim obeys, also those of the SQL function outbox_fetch. The messages of the topic are
// set aside, so claims of other topics do not read them. In SQL it is outbox_pause(topic).
func (o *Outbox) Pause(ctx context.Context, tx workqueue.Tx, topic string) error {
	if err := o.refusesPause(); err != nil {
		return err
	}
	_, err := topics.Pause(ctx, tx, o.table, topics.Key{Topic: topic})
	return err
}

// Resume ends a pause. Relays go on as soon as tx has committed, with the messages of the topic in the order in which
// they are due. In SQL it is outbox_resume(topic).
func (o *Outbox) Resume(ctx context.Context, tx workqueue.Tx, topic string) error {
	if err := o.refusesPause(); err != nil {
		return err
	}
	_, err := topics.Resume(ctx, tx, o.table, topics.Key{Topic: topic})
	return err
}

// Topics returns the topics that are paused or have messages aside, see [topics.List].
func (o *Outbox) Topics(ctx context.Context, tx workqueue.Tx) ([]topics.Info, error) {
	if err := o.refusesPause(); err != nil {
		return nil, err
	}
	return topics.List(ctx, tx, o.table)
}
