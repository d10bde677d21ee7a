package workqueue

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/fault"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// A settlement is one claim with the outcome it is to have. That of a delivery lies in it and is passed on by pointer,
// from the handler to the statement.
type settlement struct {
	claimRef
	row     *claimedRow // nil: only its id is known
	outcome *Outcome
	message string   // the cause as it is stored
	folds   bool     // it writes notes, and the worker that settles it folds them
	run     *runName // of an ordered key, with which it is settled; nil: none
	place   int      // in it

	at     standing
	became string // of the row, in the words of telemetry; empty: nothing

	// Of one that has failed, see bisector.
	waits int       // how often it was postponed
	due   time.Time // until when it is postponed
	mark  int       // when it first failed: the bisector's successful settles so far, plus 1; 0: not set
}

// isOfRun reports whether it is settled with others of its key.
func (s *settlement) isOfRun() bool { return s.run != nil }

// isNew reports whether it has never been tried.
func (s *settlement) isNew() bool { return s.waits == 0 && s.mark == 0 }

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
	begun []begunRest            // topics that rest since this settle
	back  []uuid.UUID            // rows of runs that went back

	id   uuid.UUID // of the row that is being read
	at   standing
	dest [3]any // these

	topic *string // whose rest the row has begun
}

// A settleResult is what a settle has done.
type settleResult struct {
	ids  []uuid.UUID   // the rows that it changed
	rows []*settlement // those of which is known what became
}

// A trial says whether a settle is repeated if it fails.
type trial uint8

const (
	triedOnce   trial = iota // the caller decides what follows a failure
	triedFirst               // the first try, which is repeated if it fails
	triedBefore              // a further try, after one that failed
)

// settleAll makes the settlements of one claim's rows, all with the same outcome.
func settleAll(owner uuid.UUID, ids []uuid.UUID, o *Outcome) []*settlement {
	all, batch := make([]settlement, len(ids)), make([]*settlement, len(ids))
	for i, id := range ids {
		all[i] = settlement{claimRef: claimRef{id, owner}, outcome: o, message: o.stored()}
		batch[i] = &all[i]
	}
	return batch
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
	ids, tokens, folds := make([]uuid.UUID, 0, n), make([]uuid.UUID, 0, n), false
	for _, s := range batch {
		if s.outcome.kind == kind {
			ids, tokens, folds = append(ids, s.id), append(tokens, s.token), folds || s.folds
		}
	}
	c := conn.Call{Statement: t.statements.settles[kind], Args: map[string]any{"ids": ids, "tokens": tokens},
		Reset: done.reset, Writes: true}
	if folds { // the promise then holds for the whole batch, because it is the transaction's
		c.Promise = t.spec.foldPromise()
	}
	if kind == outcomeAck {
		c.Row = done.acked
		if !slices.ContainsFunc(tokens, func(token uuid.UUID) bool { return token != tokens[0] }) {
			c.Statement, c.Args["owner_token"] = t.statements.ackOne, tokens[0] // of one claim
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

// describe adds what a statement is told of each row beside its claim. NULL leaves a delay to the table, and stands for
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

// reset forgets what a transaction has collected that runs again.
func (c *changes) reset() { c.ids, c.begun, c.back = c.ids[:0], nil, nil }

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

func (c *changes) note(id uuid.UUID, at standing) {
	if c.stand == nil {
		c.stand = map[uuid.UUID]standing{}
	}
	c.stand[id] = at
}

// anyFolds reports whether a settlement of the batch folds.
func anyFolds(batch []*settlement) bool {
	return slices.ContainsFunc(batch, func(s *settlement) bool { return s.folds })
}

// settle applies the batch and returns what it changed. Rows that it did not change are looked
// at once more: a repeated settle whose first reply was lost is a success, the others are a SettleError.
//
// The batch is sorted by id, so that all settles lock rows in the same order. A statement returns the ids that it
// changed but not their claims, so of two claims of one row the second is settled by itself.
func (q *Queue) settle(ctx context.Context, batch []*settlement, try trial) (settleResult, error) {
	if len(batch) == 0 {
		return settleResult{}, nil
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
	return settleResult{append(done.ids, more.ids...), append(done.rows, more.rows...)}, refused.merge(err)
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

func (q *Queue) settleOnce(ctx context.Context, batch []*settlement, try trial) (settleResult, error) {
	done := changes{ids: make([]uuid.UUID, 0, len(batch))}
	done.dest = [...]any{&done.id, &done.at.status, &done.at.cancelled}
	err := q.exec.run(ctx, q.table.settleCalls(batch, &done)...)
	if err != nil {
		return settleResult{}, err
	}
	q.logRests(ctx, done.begun, batch)
	done.takenBack(batch)
	if len(done.ids) < len(batch) {
		err = q.explainUnchanged(ctx, batch, &done, try)
	}
	if try != triedOnce && fault.IsUnsettled(err) { // the repeated settle finds what this try has changed
		return settleResult{ids: done.ids}, err
	}
	return settleResult{done.ids, done.tell(batch, err)}, err
}

// tell returns the settlements of which is known what became, with that.
func (c *changes) tell(batch []*settlement, err error) []*settlement {
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
		told = append(told, s)
	}
	return told
}

// end is what became of a settled row: its outcome, or exhausted if that was its last attempt, or cancel if a cancel of
// the row had been asked for.
func (s *settlement) end(at standing) string {
	switch kind := s.outcome.kind; {
	case kind == outcomeFail || at.status != Failed:
		return kind.String()
	case at.cancelled:
		return telemetry.OutcomeCancel
	}
	return telemetry.OutcomeExhausted
}

// reason is why an attempt follows, or why the row is a dead letter; empty if neither is so.
func (s *settlement) reason() string {
	switch {
	case s.became == telemetry.OutcomeAbandon:
		return telemetry.Failed
	case s.became == telemetry.OutcomeFail && !s.at.cancelled:
		return telemetry.Permanent
	case s.became == telemetry.OutcomeExhausted:
		return telemetry.Exhausted
	}
	return ""
}

// settlements implement [telemetry.Rows].
type settlements []*settlement

func (b settlements) Len() int { return len(b) }

func (b settlements) Row(i int) telemetry.Row {
	s := b[i]
	row := telemetry.Row{ID: s.id, Delay: -1}
	if s.row != nil {
		row = s.row.row()
	}
	row.State, row.Outcome, row.Reason, row.Error = int16(s.at.status), s.became, s.reason(), s.message
	if s.at.status == Ready && s.became != telemetry.OutcomeLost && s.became != telemetry.OutcomeGone {
		row.Delay = s.outcome.delay
	}
	return row
}

func (q *Queue) explainUnchanged(ctx context.Context, batch []*settlement, done *changes, try trial) error {
	refs := make([]claimRef, len(batch))
	for i, s := range batch {
		refs[i] = s.claimRef
	}
	return q.explainMissing(ctx, refs, done.ids, func(id uuid.UUID, at standing) bool {
		i, _ := slices.BinarySearchFunc(batch, id, func(s *settlement, id uuid.UUID) int {
			return bytes.Compare(s.id[:], id[:])
		})
		applied := batch[i].outcome.kind.leadsTo(at.status)
		if applied && try == triedBefore {
			done.found++
			done.note(id, at)
		}
		return applied
	})
}
