package survey

import (
	"context"
	"time"
)

// A Blocker is a dead letter with rows of its ordered key behind it.
type Blocker struct {
	Key, ID, Error, Label string
	Failed                float64
	Behind                int64
	Oldest                float64
	Keys                  int64 // how many keys are blocked in all
	More                  bool  // more may be
}

// BlockedKeys is how many keys with a dead letter are looked at.
const BlockedKeys = 1000

// Blockers returns at most limit blockers of the table, the one that has kept rows waiting longest first. At most
// behind rows are counted for each.
func Blockers(ctx context.Context, r Reader, f *Facts, behind, limit int) ([]Blocker, error) {
	if !f.Has("concurrency_key") {
		return nil, nil
	}
	return rows[Blocker](ctx, r, "blocked", f, BlockedKeys, behind, limit)
}

// A Note is the oldest note of a table of notes that waits to be folded.
type Note struct {
	Notes string
	Age   *float64
}

// OldestNote returns the oldest of the table's notes that wait to be folded, or nil if there is none.
func OldestNote(ctx context.Context, r Reader, f *Facts) (worst *Note, err error) {
	for _, notes := range []struct{ column, suffix string }{
		{"concurrency_key", "_key_note"}, {"joined", "_join_note"},
	} {
		if !f.Has(notes.column) {
			continue
		}
		list, err := rows[Note](ctx, r, "notes", f.Q(notes.suffix))
		if err != nil {
			return nil, err
		}
		for _, n := range list {
			if n.Age != nil && (worst == nil || *n.Age > *worst.Age) {
				worst = &n
			}
		}
	}
	return worst, nil
}

// A StuckJoin is a join that should have ended, and the reason why it has not.
type StuckJoin struct {
	ID, Label, Reason string
	Age               float64
	Expected, Counted int32
	Member            *string
}

// UnseenJoins says what was not looked at to find stuck joins.
type UnseenJoins struct {
	More bool  // joins, of which there may be more
	Part int64 // how many joins have more members than were looked at
}

// StuckJoins returns at most limit joins that should have ended longer ago than than, the oldest first. It examines
// sample of the joins that the sweep examines first, and says what it did not look at.
func StuckJoins(ctx context.Context, r Reader, f *Facts, than time.Duration, sample, limit int) (list []StuckJoin,
	unseen UnseenJoins, err error) {
	if !f.Has("joined") {
		return nil, unseen, nil
	}
	type row struct {
		ID, Label, Reason string
		Age               float64
		Expected, Counted int32
		Member            *string
		More              bool
		Part              int64
	}
	found, err := rows[row](ctx, r, "joins", f, than.Seconds(), sample, limit)
	for _, j := range found {
		unseen = UnseenJoins{j.More, j.Part}
		if j.ID != "" {
			list = append(list, StuckJoin{j.ID, j.Label, j.Reason, j.Age, j.Expected, j.Counted, j.Member})
		}
	}
	return list, unseen, err
}
