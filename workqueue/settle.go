package workqueue

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/fault"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// A trial says whether a settle is repeated if it fails.
type trial uint8

const (
	onlyTry    trial = iota // the caller decides what follows a failure
	firstTry                // it is repeated if it fails
	furtherTry              // after one that failed, which may have settled the rows: its reply was lost
)

// settle applies the batch and returns what it changed. Rows that it did not change are looked
// at once more: a repeated settle whose first reply was lost is a success, the others are a SettleError.
//
// The batch is sorted by id, so that all settles lock rows in the same order. A statement returns the ids that it
// changed but not their claims, so of two claims of one row the second is settled by itself.
func (q *Queue) settle(ctx context.Context, batch []*settlement, try trial) (*changes, error) {
	if len(batch) == 0 {
		return new(changes), nil
	}
	batch = slices.Clone(batch)
	slices.SortFunc(batch, func(a, b *settlement) int {
		return cmp.Or(bytes.Compare(a.id[:], b.id[:]), bytes.Compare(a.token[:], b.token[:]))
	})
	batch, again := splitRepeated(batch)
	done, err := q.settleOnce(ctx, batch, try)
	var refused *SettleError
	if len(again) == 0 || err != nil && !errors.As(err, &refused) {
		return done, err
	}
	more, err := q.settle(ctx, again, try)
	done.ids, done.rows = append(done.ids, more.ids...), append(done.rows, more.rows...)
	return done, refused.merge(err)
}

// splitRepeated takes the second claim of a row out of a sorted batch, and drops duplicates.
func splitRepeated(batch []*settlement) (once, again []*settlement) {
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

func (q *Queue) settleOnce(ctx context.Context, batch []*settlement, try trial) (*changes, error) {
	done := &changes{ids: make([]uuid.UUID, 0, len(batch))}
	done.dest = [...]any{&done.id, &done.at.status, &done.at.cancelled}
	err := q.exec.run(ctx, q.table.settleCalls(batch, done)...)
	if err != nil {
		return new(changes), err
	}
	if len(done.begun) > 0 {
		q.logRests(ctx, done.begun, batch)
	}
	if len(done.back) > 0 {
		done.takenBack(batch)
	}
	if len(done.ids) < len(batch) {
		err = q.lookAtUnchanged(ctx, batch, done, try)
	}
	if try == onlyTry || !fault.IsUnsettled(err) { // the repeated settle finds what this try has changed
		done.tell(batch, err)
	}
	return done, err
}

// settleCalls makes one statement for each kind of outcome in the batch.
func (t *Table) settleCalls(batch []*settlement, done *changes) (calls []conn.Call) {
	var counts [outcomeKinds]int
	if slices.ContainsFunc(batch, (*settlement).isOfRun) {
		var call conn.Call
		call, batch = t.runCall(batch, done)
		calls = append(calls, call)
	}
	for _, s := range batch {
		counts[s.outcome.kind]++
	}
	for kind, n := range counts {
		if n > 0 {
			calls = append(calls, t.settleCall(outcomeKind(kind), n, batch, done))
		}
	}
	return calls
}

// settleCall settles the n rows of the batch whose outcomes are of the kind.
func (t *Table) settleCall(kind outcomeKind, n int, batch []*settlement, done *changes) conn.Call {
	ids, tokens := make([]uuid.UUID, 0, n), make([]uuid.UUID, 0, n)
	folds, ofOneClaim := false, true
	for _, s := range batch {
		if s.outcome.kind == kind {
			ids, tokens, folds = append(ids, s.id), append(tokens, s.token), folds || s.folds
			ofOneClaim = ofOneClaim && s.token == tokens[0]
		}
	}
	c := conn.Call{Statement: t.statements().settles[kind], Args: map[string]any{"ids": ids, "tokens": tokens},
		Reset: done.reset, Writes: true}
	if folds { // the promise then holds for the whole batch, because it is the transaction's
		c.Promise = t.spec.foldPromise()
	}
	if kind == outcomeAck {
		c.Row = done.acked
		if ofOneClaim {
			c.Statement, c.Args["owner_token"] = t.statements().ackOne, tokens[0]
		}
		return c
	}
	c.Row = done.changed
	if kind == outcomeUnavailable {
		c.Row = done.putBack
	}
	if kind != outcomeRelease {
		describe(c.Args, kind, n, batch)
	}
	return c
}

// describe adds what a statement needs of each row beside its claim. NULL leaves a delay to the table, and stands for
// an empty text.
func describe(args map[string]any, kind outcomeKind, n int, batch []*settlement) {
	delays, texts := make([]*int64, 0, n), make([]*conn.Note, 0, n)
	for _, s := range batch {
		if s.outcome.kind != kind {
			continue
		}
		var delay *int64
		if s.outcome.delay >= 0 {
			us := min(s.outcome.delay, maxDelay).Microseconds()
			delay = &us
		}
		delays, texts = append(delays, delay), append(texts, conn.OptionalNote(s.message))
	}
	args["delays"], args["errors"] = delays, texts
	args["cancelled"] = slices.Repeat([]bool{kind == outcomeCancel}, n)
}

// changes are what a settle has done.
type changes struct {
	ids   []uuid.UUID            // the rows that it changed
	rows  []*settlement          // those of which is known what became
	stand map[uuid.UUID]standing // their states since then, except of those that were acked
	found int                    // how many of these an earlier try has changed, whose reply was lost
	begun []begunRest            // topics that rest since this settle
	back  []uuid.UUID            // rows of runs that went back

	id   uuid.UUID // of the row that is being read
	at   standing
	dest [3]any // these

	topic *string // whose rest the row has begun
}

// reset forgets what a transaction has collected that runs again.
func (c *changes) reset() { c.ids, c.stand, c.begun, c.back = c.ids[:0], nil, nil, nil }

// acked reads a row that was acked.
func (c *changes) acked(scan func(...any) error) error {
	if err := scan(c.dest[:1]...); err != nil {
		return err
	}
	c.ids = append(c.ids, c.id)
	return nil
}

// changed reads a row that was changed and not acked.
func (c *changes) changed(scan func(...any) error) error {
	if err := scan(c.dest[:]...); err != nil {
		return err
	}
	c.ids = append(c.ids, c.id)
	c.note(c.id, c.at)
	return nil
}

// putBack reads a row whose destination is unavailable.
func (c *changes) putBack(scan func(...any) error) error {
	err := c.changed(func(dest ...any) error { return scan(append(dest, &c.topic)...) })
	if err == nil && c.topic != nil {
		c.begun = append(c.begun, begunRest{*c.topic, c.id})
	}
	return err
}

func (c *changes) note(id uuid.UUID, at standing) {
	if c.stand == nil {
		c.stand = map[uuid.UUID]standing{}
	}
	c.stand[id] = at
}

// A begunRest is the topic of a row whose destination was unavailable.
type begunRest struct {
	topic string
	id    uuid.UUID
}

// logRests logs each topic once, with the first line of an error.
func (q *Queue) logRests(ctx context.Context, begun []begunRest, batch []*settlement) {
	logged := map[string]bool{}
	for _, b := range begun {
		if logged[b.topic] {
			continue
		}
		logged[b.topic] = true
		i := slices.IndexFunc(batch, func(s *settlement) bool { return s.id == b.id })
		first, _, _ := strings.Cut(batch[i].message, "\n")
		q.table.telemetry.Log(ctx, slog.LevelWarn, "destination is unavailable, its topic rests",
			slog.String("topic", b.topic), slog.String("error", first))
	}
}

// lookAtUnchanged looks at the rows of a sorted batch that its statements did not change. It adds those to done that
// were settled before, by a try or a handler's transaction whose reply was lost. The claims of the others are void,
// which is a [SettleError].
func (q *Queue) lookAtUnchanged(ctx context.Context, batch []*settlement, done *changes, try trial) error {
	refs := make([]claimRef, len(batch))
	for i, s := range batch {
		refs[i] = s.claimRef
	}
	of := func(id uuid.UUID) *settlement {
		i, _ := slices.BinarySearchFunc(batch, id, func(s *settlement, id uuid.UUID) int {
			return bytes.Compare(s.id[:], id[:])
		})
		return batch[i]
	}
	fine, err := q.explainMissing(ctx, refs, done.ids, func(id uuid.UUID, at standing) bool {
		return of(id).leadsTo(at.status) || of(id).committed(at.status)
	})
	for _, row := range fine {
		switch s := of(row.id); {
		case s.leadsTo(row.at.status) && try == furtherTry:
		case s.committed(row.at.status):
			s.outcome, s.message = s.unconfirmed.outcome, s.unconfirmed.message
		default: // another transaction has the row, and settles it so
			continue
		}
		done.found++
		done.note(row.id, row.at)
	}
	return err
}

// tell notes in the settlements of a batch what became of their rows, as far as that is known.
func (c *changes) tell(batch []*settlement, err error) {
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
	c.rows = batch[:0]
	for _, s := range batch {
		at, stands := c.stand[s.id]
		switch {
		case stands:
			s.at, s.became = at, s.end(at)
		case all:
			s.at, s.became = standing{status: Done}, telemetry.OutcomeAck
		case slices.Contains(lost, s.id):
			s.became = telemetry.OutcomeLost
		case slices.Contains(gone, s.id):
			s.became = telemetry.OutcomeGone
		default:
			continue
		}
		c.rows = append(c.rows, s)
	}
}
