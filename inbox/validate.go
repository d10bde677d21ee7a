package inbox

import "github.com/txwork/txwork/workqueue"

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

// checkKey refuses what the table could not hold, by the columns of its Spec.
func (b *Inbox) checkKey(k Key) error {
	hash := k.BodyHash
	if len(hash) == 0 {
		hash = nil
	}
	row := workqueue.NewRow{Values: record{k.Consumer, k.Source, k.MessageID, k.Source, hash, k.payload()}.values()}
	if err := b.table.Check(&row); err != nil {
		return &RefusedError{err}
	}
	return nil
}
