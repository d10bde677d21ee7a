package workqueue

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/internal/conn"
)

// A runName tells runs from each other, by its address.
type runName struct{ _ byte }

// What the statement settle_run is told of a row.
const (
	runDone  = iota
	runOther // another outcome, whose statement follows
	runBack
)

// runCall settles the rows of runs in a batch, which is sorted by id, and returns those that are left: the rows of no
// run, and of each run the first one that is not done, whose outcome has a statement of its own. What only goes back
// has none.
func (t *Table) runCall(batch []*settlement, done *changes) (call conn.Call, left []*settlement) {
	var rows []*settlement
	number := map[*runName]int{}
	for _, s := range batch {
		if !s.isOfRun() {
			continue
		}
		if rows = append(rows, s); number[s.run] == 0 {
			number[s.run] = len(number) + 1
		}
	}
	slices.SortStableFunc(rows, func(a, b *settlement) int {
		return cmp.Or(number[a.run]-number[b.run], a.place-b.place)
	})
	whatOf, folds, stopped := map[*settlement]int{}, false, map[*runName]bool{}
	for _, s := range rows {
		what := runBack
		switch kind := s.outcome.kind; {
		case stopped[s.run]:
		case kind == outcomeAck:
			what = runDone
		case kind != outcomeInterrupt && kind != outcomeRelease:
			what = runOther
		}
		stopped[s.run] = stopped[s.run] || what != runDone
		whatOf[s], folds = what, folds || s.folds
	}
	var ids, tokens []uuid.UUID
	var runs, places, whats []int
	for _, s := range batch {
		if !s.isOfRun() || whatOf[s] == runOther {
			left = append(left, s)
		}
		if !s.isOfRun() {
			continue
		}
		ids, tokens, whats = append(ids, s.id), append(tokens, s.token), append(whats, whatOf[s])
		runs, places = append(runs, number[s.run]), append(places, s.place)
	}
	call = conn.Call{Statement: t.statements().settleRun,
		Args:  map[string]any{"ids": ids, "tokens": tokens, "runs": runs, "places": places, "whats": whats},
		Reset: done.reset, Writes: true, Row: done.ofRun}
	if folds {
		call.Promise = t.spec.foldPromise()
	}
	return call, left
}

// ofRun reads a row of a run that was changed.
func (c *changes) ofRun(scan func(...any) error) error {
	var back bool
	err := c.changed(func(dest ...any) error { return scan(append(dest, &back)...) })
	if err == nil && back {
		c.back = append(c.back, c.id)
	}
	return err
}

// takenBack gives the rows of a run their outcome that went back because of one before them.
func (c *changes) takenBack(batch []*settlement) {
	for _, s := range batch {
		if s.run != nil && slices.Contains(c.back, s.id) && s.outcome.kind != outcomeRelease {
			s.outcome, s.message = interrupted, ""
		}
	}
}
