package inbox

import (
	"context"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
)

// Pause stops workers from claiming a consumer's messages of a topic, about half a second after tx commits at the
// latest. Messages in progress go on, and so do Receive and Process. Pausing a paused topic does nothing. The topic of
// a message that was stored by SQL without one is its source.
//
// Every claim obeys, also those of the SQL function inbox_fetch. The messages of the topic are
// set aside, so claims of other topics do not read them. In SQL it is inbox_pause(consumer, topic).
func (b *Inbox) Pause(ctx context.Context, tx workqueue.Tx, consumer, topic string) error {
	_, err := topics.Pause(ctx, tx, b.table, topics.Key{Lane: consumer, Topic: topic})
	return err
}

// Resume ends a pause. Workers go on as soon as tx has committed, with the messages of the topic in the order in which
// they are due. In SQL it is inbox_resume(consumer, topic).
func (b *Inbox) Resume(ctx context.Context, tx workqueue.Tx, consumer, topic string) error {
	_, err := topics.Resume(ctx, tx, b.table, topics.Key{Lane: consumer, Topic: topic})
	return err
}

// Topics returns the topics of consumers that are paused or have messages aside, see [topics.List]. The consumer is
// their Lane.
func (b *Inbox) Topics(ctx context.Context, tx workqueue.Tx) ([]topics.Info, error) {
	return topics.List(ctx, tx, b.table)
}
