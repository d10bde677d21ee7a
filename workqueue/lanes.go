package workqueue

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// An Admission bounds a worker's claims by rules that the rows do not know of: pauses, limits, rates.
// Claims through [Queue] and the SQL functions do not ask it.
type Admission interface {
	// Bounded tells, without asking the database, whether claims of a lane need Admit. It may lag behind
	// the rules by as long as those may take to come into force.
	Bounded(lane []any) bool

	// Admit is called in the claim's transaction, before it. It returns how many of want rows may be
	// claimed and, if that is less, after how long to ask again; 0 leaves that to the poll interval.
	Admit(ctx context.Context, tx pgx.Tx, lane []any, want int) (n int, again time.Duration, err error)

	// Claimed is called in the same transaction with the ids of the rows that were claimed.
	Claimed(ctx context.Context, tx pgx.Tx, lane []any, ids []uuid.UUID) error
}

// fairEvery is how often a claim begins with another lane than the most urgent one, each of them in its turn:
// under a load of urgent rows that never ends, the others share one claim in eight.
const fairEvery = 8

// laneSet is the claimers of the lanes that a worker serves, the most urgent first. Claims and nextDue
// are called by one goroutine only.
type laneSet struct {
	claimers []*claimer
	turn     int
}

func newLaneSet(lanes [][]any, claimerOf func(lane []any) *claimer) *laneSet {
	if len(lanes) == 0 {
		lanes = [][]any{nil} // a table without lanes is one
	}
	s := &laneSet{}
	for _, lane := range lanes {
		s.claimers = append(s.claimers, claimerOf(lane))
	}
	return s
}

// claim takes up to limit rows, lane by lane. The error of one lane does not keep the others from theirs: what
// they gave is returned with it.
func (s *laneSet) claim(limit int, one func(c *claimer, limit int) ([]claimedRow, error)) ([]claimedRow, error) {
	var all []claimedRow
	var errs []error
	for _, c := range s.order() {
		rows, err := one(c, limit-len(all))
		errs = append(errs, err)
		if len(all) == 0 {
			all = rows
		} else {
			all = append(all, rows...)
		}
		if len(all) >= limit {
			break
		}
	}
	return all, errors.Join(errs...)
}

func (s *laneSet) order() []*claimer {
	s.turn++
	others := len(s.claimers) - 1
	if others == 0 || s.turn%fairEvery != 0 {
		return s.claimers
	}
	first := others - s.turn/fairEvery%others // from the least urgent one up
	return append([]*claimer{s.claimers[first]}, slices.Delete(slices.Clone(s.claimers), first, first+1)...)
}

func (s *laneSet) rewind(due time.Time) {
	for _, c := range s.claimers {
		c.rewind(due)
	}
}

func (s *laneSet) sweepNow() {
	for _, c := range s.claimers {
		c.sweepNow()
	}
}

// nextWake tells when the next row of any lane is due, when a sweep may find what a cursor has passed
// over, or when an admission is to be asked again, whichever is first.
func (s *laneSet) nextWake(ctx context.Context) (*Wake, error) {
	var first *Wake
	for _, c := range s.claimers {
		next, err := c.nextDue(ctx)
		if err != nil {
			return nil, err
		}
		first = earlier(first, next)
		for _, in := range []time.Duration{c.sweepDue(), c.admissionDue()} {
			if in >= 0 {
				first = earlier(first, &Wake{In: in})
			}
		}
	}
	return first, nil
}

// earlier is the first of two wakes, of which either may be missing.
func earlier(a, b *Wake) *Wake {
	if a == nil || b != nil && b.In < a.In {
		return b
	}
	return a
}
