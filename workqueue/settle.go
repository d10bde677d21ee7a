package workqueue

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/google/uuid"
)

// A settlement is one claim with the outcome it is to have.
type settlement struct {
	claimRef
	outcome *Outcome
	message string // the cause as it is stored
}

// settlements of one claim's rows, all with the same outcome.
func settleAll(owner uuid.UUID, ids []uuid.UUID, o *Outcome) []settlement {
	batch := make([]settlement, len(ids))
	for i, id := range ids {
		batch[i] = settlement{claimRef{id, owner}, o, o.stored()}
	}
	return batch
}

func (o *Outcome) stored() string {
	if o.cause == nil {
		return ""
	}
	if o.kind == outcomeCancel {
		return storable(o.Error())
	}
	return storable(text(o.cause))
}

// settleCalls makes at most one statement for each kind of transition.
func (t *Table) settleCalls(batch []settlement, changed *[]uuid.UUID) []call {
	var acks, retries, snoozes, fails []settlement
	for _, s := range batch {
		switch s.outcome.kind {
		case outcomeAck:
			acks = append(acks, s)
		case outcomeRetry:
			retries = append(retries, s)
		case outcomeSnooze, outcomeRelease:
			snoozes = append(snoozes, s)
		case outcomeFail, outcomeCancel:
			fails = append(fails, s)
		}
	}
	var calls []call
	add := func(stmt statement, group []settlement, args map[string]any) {
		if len(group) > 0 {
			calls = append(calls, settleCall(stmt, group, args, changed))
		}
	}
	add(t.statements.ack, acks, nil)
	add(t.statements.abandon, retries, map[string]any{"delays": delays(retries), "errors": messages(retries)})
	add(t.statements.snooze, snoozes, map[string]any{"delays": delays(snoozes)})
	add(t.statements.fail, fails, map[string]any{"errors": messages(fails), "cancelled": cancelled(fails)})
	return calls
}

func settleCall(stmt statement, group []settlement, args map[string]any, changed *[]uuid.UUID) call {
	all := refArgs(refsOf(group))
	maps.Copy(all, args)
	start := len(*changed)
	c := collectIDs(stmt, all, changed)
	c.reset = func() { *changed = (*changed)[:start] } // what an earlier statement changed stays
	return c
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
		if d := s.outcome.delay; d >= 0 && s.outcome.kind != outcomeRelease {
			us := min(d, maxDelay).Microseconds()
			out[i] = &us
		}
	}
	return out
}

func messages(group []settlement) []*string {
	out := make([]*string, len(group))
	for i := range group {
		out[i] = optionalText(group[i].message)
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
// The batch is sorted by id, so that any two lock in one order. A statement tells which ids it changed and
// not by which claim, so of two claims of one row the second is settled by itself.
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

// splitRepeated takes the second claim of a row out of a sorted batch, and drops what is named twice.
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
	changed := make([]uuid.UUID, 0, len(batch))
	err := q.exec.run(ctx, q.table.settleCalls(batch, &changed)...)
	if err != nil {
		return nil, err
	}
	if len(changed) == len(batch) {
		return changed, nil
	}
	return changed, q.explainUnchanged(ctx, batch, changed)
}

func (q *Queue) explainUnchanged(ctx context.Context, batch []settlement, changed []uuid.UUID) error {
	outcomes := make(map[uuid.UUID]*Outcome, len(batch))
	for _, s := range batch {
		outcomes[s.id] = s.outcome
	}
	return q.explainMissing(ctx, refsOf(batch), changed, func(id uuid.UUID, s Status) bool { return outcomes[id].leadsTo(s) })
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
