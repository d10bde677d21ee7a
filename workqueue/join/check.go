package join

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// Bounds of a deadline. A value outside them is a unit mistake, such as milliseconds taken for seconds.
var (
	minDeadline = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	maxDeadline = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

// Validate reports the first invalid field of a join, as Start does, without reading its rows. Use it to check a join
// before you insert the rows.
func (join Join) Validate() error {
	if join.Policy < WaitAll || join.Policy > AnyOutcome {
		return validate.Errorf("policy", "is %d, want WaitAll, FailFast or AnyOutcome", int(join.Policy))
	}
	if d := join.Deadline; !d.IsZero() && (d.Before(minDeadline) || d.After(maxDeadline)) {
		return validate.Errorf("deadline", "is %s, it must be between %s and %s",
			d.Format(time.RFC3339), minDeadline.Format(time.DateOnly), maxDeadline.Format(time.DateOnly))
	}
	err := cmp.Or(validate.Text("label", join.Label), validate.Size("label", len(join.Label), MaxLabel),
		checkMembers(join.Members))
	if err != nil {
		return err
	}
	return checkNoneOf(join.Members, join.continuations())
}

func checkMembers(members []uuid.UUID) error {
	if len(members) > workqueue.MaxBatch {
		return validate.Errorf("members", "has %d of them, at most %d fit one call: Add the others", len(members),
			workqueue.MaxBatch)
	}
	seen := make(map[uuid.UUID]bool, len(members))
	for _, id := range members {
		switch {
		case id == uuid.Nil:
			return validate.Errorf("members", "has the zero UUID")
		case seen[id]:
			return validate.Errorf("members", "has %s twice", id)
		}
		seen[id] = true
	}
	return nil
}

// checkNoneOf refuses a join one of whose members is also its continuation.
func checkNoneOf(members, continuations []uuid.UUID) error {
	for _, id := range members {
		if slices.Contains(continuations, id) {
			return validate.Errorf("members", "has %s, which continues the join: it would wait for itself", id)
		}
	}
	return nil
}

// checkCall reports conflicts between the joins of one call.
func (s *start) checkCall() error {
	ids, continues, members := map[uuid.UUID]bool{}, map[uuid.UUID]bool{}, 0
	for i, join := range s.joins {
		if ids[join.ID] {
			return s.about(i, len(s.joins), validate.Errorf("id", "%s is that of two joins", join.ID))
		}
		ids[join.ID] = true
		for _, c := range join.continuations() {
			if continues[c] {
				return s.about(i, len(s.joins), continuesTwo(c))
			}
			continues[c] = true
		}
		members += len(join.Members)
	}
	if members > workqueue.MaxBatch {
		return validate.Errorf("members", "has %d of them, at most %d fit one call", members, workqueue.MaxBatch)
	}
	return nil
}

func continuesTwo(id uuid.UUID) error {
	return validate.Errorf("continuation", "%s continues another join: make one join of both", id)
}

// checkRows reports rows that do not exist or that a join cannot use.
func (s *start) checkRows() error {
	for i, join := range s.joins {
		err := cmp.Or(checkKnown(s.rows, join.Members),
			s.checkContinuation("on complete", join.OnComplete), s.checkContinuation("on fail", join.OnFail))
		if err != nil {
			return s.about(i, len(s.joins), err)
		}
	}
	return nil
}

func checkKnown(rows map[uuid.UUID]row, members []uuid.UUID) error {
	for _, id := range members {
		if _, ok := rows[id]; !ok {
			return validate.Errorf("members", "has %s, which is no row of the table: insert it first; one that its "+
				"ack deleted cannot be joined", id)
		}
	}
	return nil
}

func (s *start) checkContinuation(field string, id uuid.UUID) error {
	if id == uuid.Nil {
		return nil
	}
	r, ok := s.rows[id]
	switch {
	case !ok:
		return validate.Errorf(field, "is %s, which is no row of the table: insert it first, with Waiting", id)
	case r.status != workqueue.Ready || !r.waiting:
		return validate.Errorf(field, "is %s, which does not wait: insert it with Waiting, or it runs before the "+
			"join has ended", id)
	}
	return nil
}
