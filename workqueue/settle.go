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
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// A settlement is one claim with the outcome it is to have.
type settlement struct {
	claimRef
	outcome *Outcome
	message string      // the cause as it is stored
	row     *claimedRow // nil: only its id is known
	folds   bool        // it writes notes, and the worker that settles it folds them

	at   standing
	told string // what became of it, as telemetry tells it; empty: nothing
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
	found int                    // how many of these an earlier try has changed, whose reply was lost
}

// A settled is what a settle has done.
type settled struct {
	ids  []uuid.UUID  // the rows that it changed
	rows []settlement // those of which is known what became
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

// settle applies the batch and returns what it changed. Rows that it did not change are looked
// at once more: a repeated settle whose first reply was lost is a success, the others are a SettleError.
//
// The batch is sorted by id, so that all settles lock rows in the same order. A statement returns the ids that it
// changed but not their claims, so of two claims of one row the second is settled by itself.
func (q *Queue) settle(ctx context.Context, batch []settlement) (settled, error) {
	if len(batch) == 0 {
		return settled{}, nil
	}
	slices.SortFunc(batch, func(a, b settlement) int {
		return cmp.Or(bytes.Compare(a.id[:], b.id[:]), bytes.Compare(a.token[:], b.token[:]))
	})
	batch, again := splitRepeated(batch)
	done, err := q.settleOnce(ctx, batch)
	var refused *SettleError
	if len(again) == 0 || err != nil && !errors.As(err, &refused) {
		return done, err
	}
	more, err := q.settle(ctx, again)
	return settled{append(done.ids, more.ids...), append(done.rows, more.rows...)}, refused.merge(err)
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

func (q *Queue) settleOnce(ctx context.Context, batch []settlement) (settled, error) {
	done := changes{ids: make([]uuid.UUID, 0, len(batch))}
	err := q.exec.run(ctx, q.table.settleCalls(batch, &done)...)
	if err != nil {
		return settled{}, err
	}
	if len(done.ids) < len(batch) {
		err = q.explainUnchanged(ctx, batch, &done)
	}
	if q.tried != triedOnce && fault.IsUnsettled(err) { // the repeated settle finds what this try has changed
		return settled{ids: done.ids}, err
	}
	return settled{done.ids, done.tell(batch, err)}, err
}

// tell returns the settlements of which is known what became, with that.
func (c *changes) tell(batch []settlement, err error) []settlement {
	all := len(c.ids)+c.found == len(batch)
	if !all {
		for _, id := range c.ids {
			if _, known := c.stand[id]; !known {
				c.note(id, standing{status: Done})
			}
		}
	}
	var lost, gone []uuid.UUID
	if err != nil {
		lost, gone = refusedRows(err)
	}
	told := batch[:0]
	for _, s := range batch {
		at, known := c.stand[s.id]
		switch {
		case known:
			s.at, s.told = at, s.end(at)
		case all:
			s.at, s.told = standing{status: Done}, telemetry.OutcomeAck
		case slices.Contains(lost, s.id):
			s.told = telemetry.OutcomeLost
		case slices.Contains(gone, s.id):
			s.told = telemetry.OutcomeGone
		default:
			continue
		}
		told = append(told, s)
	}
	return told
}

// end is what became of a settled row: its outcome, or exhausted if that was its last attempt, or cancel if a cancel of
// the row had been asked for.
func (s settlement) end(at standing) string {
	switch kind := s.outcome.kind; {
	case kind == outcomeFail || at.status != Failed:
		return kind.String()
	case at.cancelled:
		return telemetry.OutcomeCancel
	}
	return telemetry.OutcomeExhausted
}

// reason is why an attempt follows, or why the row is a dead letter; empty if neither is so.
func (s settlement) reason() string {
	switch {
	case s.told == telemetry.OutcomeAbandon:
		return telemetry.Failed
	case s.told == telemetry.OutcomeFail && !s.at.cancelled:
		return telemetry.Permanent
	case s.told == telemetry.OutcomeExhausted:
		return telemetry.Exhausted
	}
	return ""
}

// settlements implement [telemetry.Rows].
type settlements []settlement

func (b settlements) Len() int { return len(b) }

func (b settlements) Row(i int) telemetry.Row {
	s := &b[i]
	row := telemetry.Row{ID: s.id, Delay: -1}
	if s.row != nil {
		row = s.row.row()
	}
	row.State, row.Outcome, row.Reason, row.Error = int16(s.at.status), s.told, s.reason(), s.message
	if s.at.status == Ready && s.told != telemetry.OutcomeLost && s.told != telemetry.OutcomeGone {
		row.Delay = s.outcome.delay
	}
	return row
}

func (q *Queue) explainUnchanged(ctx context.Context, batch []settlement, done *changes) error {
	outcomes := make(map[uuid.UUID]*Outcome, len(batch))
	for _, s := range batch {
		outcomes[s.id] = s.outcome
	}
	return q.explainMissing(ctx, refsOf(batch), done.ids, func(id uuid.UUID, at standing) bool {
		applied := outcomes[id].leadsTo(at.status)
		if applied && q.tried == triedBefore {
			done.found++
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
