package inbox

import (
	"cmp"
	"context"
	"crypto/subtle"
	"slices"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
)

// Receive stores messages in the application's transaction, for a [Worker] to process: they are if and only
// if it commits. It returns what became of each, in order: [Stored], [Duplicate] or [HashMismatch], the last
// two with the row that is there, of which nothing is changed, neither attempts nor payload nor its place.
// Acknowledge the messages once the transaction has committed.
//
// Check the error. Every message is validated before the first is written; a [*RefusedError] with a
// [*workqueue.ItemError] in it says which one was refused and why, and the transaction is as it was. After any other
// error roll the transaction back: PostgreSQL may have ended it, and some of many messages may have been written.
//
// Any number of messages may be passed. Where another transaction has written a message of the same key and
// not ended yet, Receive waits until it has: the message must be stored if that one is rolled back.
func (b *Inbox) Receive(ctx context.Context, tx workqueue.Tx, msgs ...Message) ([]Result, error) {
	msgs, err := b.encoded(ctx, msgs)
	if err != nil {
		return nil, err
	}
	r := &receipt{inbox: b, msgs: msgs, results: make([]Result, len(msgs))}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	for chunk := range input.Chunks(r.order(), func(i int) int { return r.msgs[i].size() }) {
		if err := r.insert(ctx, tx, chunk); err != nil {
			return nil, err
		}
	}
	return r.results, nil
}

// A receipt is one call of Receive.
type receipt struct {
	inbox   *Inbox
	msgs    []Message
	rows    []workqueue.NewRow
	results []Result
}

// prepare makes rows of the messages, with ids that grow in the order of the call and so keep their place in the queue.
// It refuses the first message that the table could not hold. The core would refuse it too, but it sees one chunk of a
// call at a time, and here nothing has been written yet.
func (r *receipt) prepare() error {
	r.rows = make([]workqueue.NewRow, len(r.msgs))
	for i, m := range r.msgs {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		r.rows[i] = row(id, m)
		if err := cmp.Or(r.inbox.checkMessage(m), r.inbox.table.Check(&r.rows[i])); err != nil {
			return refusedItem(i, len(r.msgs), err)
		}
	}
	return nil
}

// order is that of the messages' keys, in which they are written, so that two calls with the same messages wait for
// each other in one direction only.
func (r *receipt) order() []int {
	order := make([]int, len(r.msgs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return compareKeys(r.msgs[i], r.msgs[j]) })
	return order
}

func compareKeys(a, b Message) int {
	return cmp.Or(
		cmp.Compare(a.Consumer, b.Consumer),
		cmp.Compare(a.Source, b.Source),
		cmp.Compare(a.MessageID, b.MessageID),
	)
}

// insert writes one chunk and reads what holds the keys that were taken.
func (r *receipt) insert(ctx context.Context, tx workqueue.Tx, order []int) error {
	rows := make([]workqueue.NewRow, len(order))
	for n, i := range order {
		rows[n] = r.rows[i]
	}
	inserted, err := r.inbox.table.Insert(ctx, tx, rows...)
	if err != nil {
		return err
	}
	var taken []int
	for n, i := range order {
		r.results[i] = Result{Answer: Stored, ID: inserted[n].ID, Status: workqueue.Ready}
		if inserted[n].Duplicate {
			r.results[i].Answer = Duplicate
			taken = append(taken, i)
		}
	}
	return r.compare(ctx, tx, taken)
}

// A holder is the row that holds a key.
type holder struct {
	status workqueue.Status
	hash   []byte // empty for none
}

// compare says of each duplicate what it is one of.
func (r *receipt) compare(ctx context.Context, tx workqueue.Tx, taken []int) error {
	if len(taken) == 0 {
		return nil
	}
	ids := make([]uuid.UUID, len(taken))
	for n, i := range taken {
		ids[n] = r.results[i].ID
	}
	holders, err := r.inbox.holders(ctx, tx, ids)
	if err != nil {
		return err
	}
	for _, i := range taken {
		h, found := holders[r.results[i].ID]
		if !found { // purged this moment: it was Done
			h.status = workqueue.Done
		}
		r.results[i].Status = h.status
		if len(h.hash) > 0 && subtle.ConstantTimeCompare(h.hash, r.msgs[i].hash()) == 0 {
			r.results[i].Answer = HashMismatch
		}
	}
	return nil
}

func (b *Inbox) holders(ctx context.Context, tx workqueue.Tx, ids []uuid.UUID) (map[uuid.UUID]holder, error) {
	holders := make(map[uuid.UUID]holder, len(ids))
	read := func(scan func(...any) error) error {
		var id uuid.UUID
		var h holder
		if err := scan(&id, &h.status, &h.hash); err != nil {
			return err
		}
		holders[id] = h
		return nil
	}
	return holders, b.table.In(tx).Query(ctx, read, b.statements.holders, ids)
}

func row(id uuid.UUID, m Message) workqueue.NewRow {
	return workqueue.NewRow{
		ID:          id,
		DueAt:       m.ScheduledAt,
		MaxAttempts: m.MaxAttempts,
		Headers:     m.Headers,
		Values:      values(m),
	}
}
