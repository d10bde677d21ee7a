package inbox

import (
	"cmp"
	"context"
	"crypto/subtle"
	"slices"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// Receive stores a message in the application's transaction, for a [Worker] to process: it is stored if and only if the
// transaction commits. The answer is [Stored], [Duplicate] or [HashMismatch]. The last two name the row that already
// exists, of which nothing is changed: neither its attempts nor its payload nor its place in the queue. Acknowledge the
// message once the transaction has committed.
//
// Check the error. A message that is refused is a [*RefusedError]; the transaction is unchanged then. After any other
// error, roll the transaction back: PostgreSQL may have aborted it.
//
// If another open transaction has written a message with the same key, Receive waits until it ends, because the message
// must be stored if that transaction is rolled back.
func (b *Inbox) Receive(ctx context.Context, tx workqueue.Tx, m Message) (Result, error) {
	results, err := b.ReceiveMany(ctx, tx, m)
	if err != nil {
		return Result{}, err
	}
	return results[0], nil
}

// ReceiveMany is [Inbox.Receive] for any number of messages, in as few statements as possible. The results are in the
// order of the messages; without messages it does nothing. Every message is validated before the first is written; a
// [*RefusedError] that wraps a [*workqueue.ItemError] says which one was refused and why. After any other error, some
// of them may have been written: roll the transaction back.
func (b *Inbox) ReceiveMany(ctx context.Context, tx workqueue.Tx, msgs ...Message) ([]Result, error) {
	msgs, err := b.encoded(ctx, msgs)
	if err != nil {
		return nil, err
	}
	r := &receipt{inbox: b, msgs: msgs, results: make([]Result, len(msgs))}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	if err := r.insert(ctx, tx, r.order()); err != nil {
		return nil, err
	}
	return r.results, nil
}

// A receipt is one call of ReceiveMany.
type receipt struct {
	inbox   *Inbox
	msgs    []Message
	rows    []workqueue.NewRow
	results []Result
}

// prepare turns the messages into rows. Their ids grow in the order of the call, so the messages keep that order in the
// queue although they are inserted in the order of their keys. It refuses the first message that the table could not
// hold.
func (r *receipt) prepare() error {
	r.rows = make([]workqueue.NewRow, len(r.msgs))
	for i, m := range r.msgs {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		r.rows[i] = row(id, m)
		if err := r.inbox.table.Check(&r.rows[i]); err != nil {
			return refusedItem(i, len(r.msgs), err)
		}
	}
	return nil
}

// order returns the indexes of the messages in the order of their keys. Every call writes in this order, so that two
// calls with the same messages do not deadlock.
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

// insert writes the rows in this order, and reads the rows that hold the keys of duplicates.
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

// compare sets the status of each duplicate, and turns it into a HashMismatch if the row that holds its key has another
// hash.
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
		if !found { // purged since the insert, so it was Done
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
		Values:      m.values(),
	}
}
