package inbox

import (
	"cmp"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
	"github.com/txwork/txwork/workqueue/validate"
)

// A RefusedError says why the inbox cannot accept a message, for example because it has no id or its payload is too
// large. Nothing was written, and the same message would be refused again. It wraps [workqueue.ErrInvalid], the
// [*workqueue.InvalidError] that names the field and, if it comes from [Inbox.Receive], the [*workqueue.ItemError] that
// names the message.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

// refusedItem returns the error for one message of a call.
func refusedItem(i, n int, err error) error {
	return &RefusedError{&workqueue.ItemError{Item: "message", Index: i, Count: n, Err: err}}
}

func (b *Inbox) checkMessage(m Message) error {
	return cmp.Or(
		checkIdentity(m.Consumer, m.Source, m.MessageID),
		topics.Check(m.topic()),
		checkHash(m.BodyHash),
		validate.Size("payload", len(m.Payload), b.maxPayload),
		validate.Size("headers", input.HeaderSize(m.Headers), MaxHeaders),
	)
}

func (b *Inbox) checkKey(k Key) error {
	err := cmp.Or(
		checkIdentity(k.Consumer, k.Source, k.MessageID),
		checkHash(k.BodyHash),
		validate.Size("body", len(k.payload()), b.maxPayload),
	)
	if err != nil {
		return &RefusedError{err}
	}
	return nil
}

func checkIdentity(consumer, source, messageID string) error {
	return cmp.Or(
		input.Name("consumer", consumer, MaxKeyPart),
		input.Name("source", source, MaxKeyPart),
		input.Name("message id", messageID, MaxKeyPart),
	)
}

func checkHash(hash []byte) error {
	if len(hash) != 0 && len(hash) != hashSize {
		return validate.Errorf("body hash", "has %d bytes, a SHA-256 has %d", len(hash), hashSize)
	}
	return nil
}
