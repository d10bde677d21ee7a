package workqueue

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/fault"
)

// A settlement is one claim with the outcome it is to have.
type settlement struct {
	claimRef
	outcome *Outcome
	message string // the cause as it is stored
	labels  labels
	folds   bool // it writes notes, and the worker that settles it folds them
}

// A standing is the state of a row.
type standing struct {
	status    Status
	cancelled bool
}

// changes are the rows that a settle changed.
type changes struct {
	ids   []uuid.UUID
	stand map[uuid.UUID]standing // their states since then, except of those that were acked
	found []uuid.UUID            // changed by an earlier try, whose reply was lost
}

// A trial says whether a settle is repeated if it fails.
type trial uint8

const (
	triedOnce   trial = iota // the caller decides what follows a failure
	triedFirst               // the first try, which is repeated if it fails
	triedBefore              // a further try, after one that failed
)

// settleAll makes the settlements of one claim's rows, all with the same outcome.
func settleAll(owner uuid.UUID, ids []uuid.UUID, o *Outcome) []settlement {
	batch := make([]settlement, len(ids))
	for i, id := range ids {
		batch[i] = settlement{claimRef: claimRef{id, owner}, outcome: o, message: o.stored()}
	}
	return batch
}

func (o *Outcome) stored() string {
	if o.cause == nil {
		return ""
	}
	if o.kind == outcomeCancel {
		return conn.Storable(o.Error())
	}
	return conn.Storable(text(o.cause))
}

// settleCalls makes at most one statement for each kind of transition.
func (t *Table) settleCalls(batch []settlement, done *changes) []conn.Call {
	acks := make([]settlement, 0, len(batch)) // as nearly all are
	var retries, snoozes, leaves, releases, fails []settlement
	for _, s := range batch {
		switch s.outcome.kind {
		case outcomeAck:
			acks = append(acks, s)
		case outcomeRetry:
			retries = append(retries, s)
		case outcomeSnooze, outcomeInterrupt:
			snoozes = append(snoozes, s)
		case outcomeLeave:
			leaves = append(leaves, s)
		case outcomeRelease:
			releases = append(releases, s)
		case outcomeFail, outcomeCancel:
			fails = append(fails, s)
		}
	}
	var calls []conn.Call
	add := func(stmt conn.Statement, group []settlement, args map[string]any) {
		if len(group) > 0 {
			calls = append(calls, settleCall(stmt, group, args, t.spec.foldPromise(), done))
		}
	}
	if ofOneClaim(acks) {
		add(t.statements.ackOne, acks, map[string]any{"owner_token": acks[0].token})
	} else {
		add(t.statements.ack, acks, nil)
	}
	add(t.statements.abandon, retries, map[string]any{"delays": delays(retries), "errors": notes(retries)})
	add(t.statements.snooze, snoozes, map[string]any{"delays": delays(snoozes), "errors": notes(snoozes)})
	add(t.statements.leave, leaves, map[string]any{"delays": delays(leaves), "errors": notes(leaves)})
	add(t.statements.release, releases, nil)
	add(t.statements.fail, fails, map[string]any{"errors": notes(fails), "cancelled": cancelled(fails)})
	return calls
}

func settleCall(stmt conn.Statement, group []settlement, args map[string]any, promise string, done *changes) conn.Call {
	all := refArgs(refsOf(group))
	maps.Copy(all, args)
	start := len(done.ids)
	c := collectIDs(stmt, all, &done.ids)
	c.Writes = true
	if group[0].outcome.kind != outcomeAck {
		c.Row = done.collect
	}
	if anyFolds(group) {
		c.Promise = promise
	}
	c.Reset = func() { done.ids = done.ids[:start] } // what an earlier statement changed stays
	return c
}

// collect reads a row that was changed and not acked.
func (c *changes) collect(scan func(...any) error) error {
	var id uuid.UUID
	var at standing
	if err := scan(&id, &at.status, &at.cancelled); err != nil {
		return err
	}
	c.ids = append(c.ids, id)
	c.note(id, at)
	return nil
}

func (c *changes) note(id uuid.UUID, at standing) {
	if c.stand == nil {
		c.stand = map[uuid.UUID]standing{}
	}
	c.stand[id] = at
}

// anyFolds reports whether a settlement of the batch folds. The promise then holds for the whole batch, because it is
// the transaction's.
func anyFolds(batch []settlement) bool {
	return slices.ContainsFunc(batch, func(s settlement) bool { return s.folds })
}

func ofOneClaim(batch []settlement) bool {
	for _, s := range batch {
		if s.token != batch[0].token {
			return false
		}
	}
	return len(batch) > 0
}

func refsOf(batch []settlement) []claimRef {
	refs := make([]claimRef, len(batch))
	for i, s := range batch {
		refs[i] = s.claimRef
	}
	return refs
}

func delays(group []settlement) []*int64 {
	out := make([]*int64, len(group))
	for i, s := range group {
		if d := s.outcome.delay; d >= 0 {
			us := min(d, maxDelay).Microseconds()
			out[i] = &us
		}
	}
	return out
}

func cancelled(group []settlement) []bool {
	out := make([]bool, len(group))
	for i, s := range group {
		out[i] = s.outcome.kind == outcomeCancel
	}
	return out
}

// settle applies the batch and returns the ids that it changed. Rows that it did not change are looked
// at once more: a repeated settle whose first reply was lost is a success, the others are a SettleError.
//
// The batch is sorted by id, so that all settles lock rows in the same order. A statement returns the ids that it
// changed but not their claims, so of two claims of one row the second is settled by itself.
func (q *Queue) settle(ctx context.Context, batch []settlement) ([]uuid.UUID, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	slices.SortFunc(batch, func(a, b settlement) int {
		return cmp.Or(bytes.Compare(a.id[:], b.id[:]), bytes.Compare(a.token[:], b.token[:]))
	})
	batch, again := splitRepeated(batch)
	changed, err := q.settleOnce(ctx, batch)
	var refused *SettleError
	if len(again) == 0 || err != nil && !errors.As(err, &refused) {
		return changed, err
	}
	more, err := q.settle(ctx, again)
	return append(changed, more...), refused.merge(err)
}

// splitRepeated takes the second claim of a row out of a sorted batch, and drops duplicates.
func splitRepeated(batch []settlement) (once, again []settlement) {
	once = batch[:0]
	for _, s := range batch {
		last := len(once) - 1
		switch {
		case last < 0 || once[last].id != s.id:
			once = append(once, s)
		case once[last].token != s.token:
			again = append(again, s)
		}
	}
	return once, again
}

func (q *Queue) settleOnce(ctx context.Context, batch []settlement) ([]uuid.UUID, error) {
	done := changes{ids: make([]uuid.UUID, 0, len(batch))}
	err := q.exec.run(ctx, q.table.settleCalls(batch, &done)...)
	if err != nil {
		return nil, err
	}
	if len(done.ids) < len(batch) {
		err = q.explainUnchanged(ctx, batch, &done)
	}
	// A settle that is repeated finds then what this try has changed.
	if q.tried == triedOnce || !fault.IsUnsettled(err) {
		q.count(ctx, batch, done)
	}
	return done.ids, err
}

func (q *Queue) count(ctx context.Context, batch []settlement, done changes) {
	if q.later != nil {
		*q.later = func() { q.table.telemetry.countSettled(ctx, batch, done) }
		return
	}
	q.table.telemetry.countSettled(ctx, batch, done)
}

func (q *Queue) explainUnchanged(ctx context.Context, batch []settlement, done *changes) error {
	outcomes := make(map[uuid.UUID]*Outcome, len(batch))
	for _, s := range batch {
		outcomes[s.id] = s.outcome
	}
	return q.explainMissing(ctx, refsOf(batch), done.ids, func(id uuid.UUID, at standing) bool {
		applied := outcomes[id].leadsTo(at.status)
		if applied && q.tried == triedBefore {
			done.found = append(done.found, id)
			done.note(id, at)
		}
		return applied
	})
}

// leadsTo reports whether a row that still carries the claim's token may be in this state because this
// very outcome was applied before.
func (o *Outcome) leadsTo(s Status) bool {
	switch o.kind {
	case outcomeAck:
		return s == Done
	case outcomeFail, outcomeCancel:
		return s == Failed
	default:
		return s == Ready || s == Failed
	}
}

// notes returns the texts as an argument, with NULL for those that are empty.
func notes(group []settlement) []*conn.Note {
	out := make([]*conn.Note, len(group))
	for i := range group {
		out[i] = conn.OptionalNote(group[i].message)
	}
	return out
}
