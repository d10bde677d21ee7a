package survey

import (
	"context"
	"slices"
	"time"
)

// A Key is an ordered key with rows that wait, and what the first of them waits for.
type Key struct {
	Key     string
	Waiting int64   // a lower bound if it reaches the limit
	Oldest  float64 // seconds since the first of them was written
	Next    string  // the id of the row whose turn is next
	Blocker *string // the id of the row that it waits for, if there is one
	Label   string  // what the blocker is about
	Error   *string // last error of the blocker
	Reason  string  // the blocker's state, or fold: the next fold will release the row
}

// Keys returns at most limit keys of the table after the given one, in the order of their names. At most behind rows
// are counted for each.
func Keys(ctx context.Context, r Reader, f *Facts, after string, limit, behind int) ([]Key, error) {
	if !f.Has("concurrency_key") {
		return nil, nil
	}
	return rows[Key](ctx, r, "keys", f, after, limit, behind)
}

// A Join is a fan-in, with one of the members that it waits for.
type Join struct {
	ID, Label                   string
	Status                      int16
	Expected, Succeeded, Failed int32
	CreatedAt                   time.Time
	Deadline, CompletedAt       *time.Time
	Continuation                *string // the id of the row that starts when the join ends
	Error                       string
	Member                      *string // the id of the first member that was not counted yet
	State                       string  // state of that member
}

// A JoinSearch bounds what [Joins] reads.
type JoinSearch struct {
	Joins   int // joins of any state that are read in all; 0: until the page is full
	Members int // members of each pending join, to find one that it waits for
	Open    int // of these, such as were not counted, to find one that does not wait itself
}

// WholeJoinSearch reads until a page is full.
var WholeJoinSearch = JoinSearch{Members: MaxMembers, Open: 200}

// Bounds of one statement of [Joins]. MaxMembers is how many members of a join are examined at most.
const (
	joinBatch   = 5000
	memberBatch = 50 // joins whose members are examined
	MaxMembers  = 10_000
)

// Joins returns at most limit joins in one state with ids smaller than before, the newest first. A label that is not
// empty selects the joins with this label. Each statement reads a bounded number of joins, however many there are in
// other states, and reports that number to looked. More is not empty if the search has ended before the page was full:
// the next goes on before it.
func Joins(ctx context.Context, r Reader, f *Facts, before string, status int16, label string, limit int, s JoinSearch,
	looked func(int)) (all []Join, more string, err error) {
	if !f.Has("joined") {
		return nil, "", nil
	}
	ids, more, err := joinIDs(ctx, r, f, before, status, label, limit, s.Joins, looked)
	if err != nil {
		return nil, "", err
	}
	for some := range slices.Chunk(ids, memberBatch) {
		found, err := rows[Join](ctx, r, "join_list", f, some, s.Members, s.Open)
		if err != nil {
			return nil, "", err
		}
		all = append(all, found...)
	}
	return all, more, nil
}

// A joinState is what decides whether a join belongs to the page.
type joinState struct {
	ID     string
	Status int16
}

func joinIDs(ctx context.Context, r Reader, f *Facts, before string, status int16, label string, limit, most int,
	looked func(int)) (ids []string, more string, err error) {
	of := struct {
		*Facts
		Labelled bool
	}{f, label != ""}
	for read := 0; ; {
		args := []any{before, joinBatch}
		if of.Labelled {
			args = append(args, label)
		}
		found, err := rows[joinState](ctx, r, "join_page", of, args...)
		if err != nil {
			return nil, "", err
		}
		for _, j := range found {
			if j.Status == status && len(ids) < limit {
				ids = append(ids, j.ID)
			}
		}
		read += len(found)
		looked(read)
		if len(found) < joinBatch || len(ids) == limit {
			return ids, "", nil
		}
		if before = found[len(found)-1].ID; most > 0 && read >= most {
			return ids, before, nil
		}
	}
}

// A Member is a row that a join waits for, or has counted.
type Member struct {
	ID, State, Counted, Label, Error string
}

// JoinMembers returns a join and at most limit of its members, those not counted yet first. The join is nil if it does
// not exist.
func JoinMembers(ctx context.Context, r Reader, f *Facts, id string, limit int) (*Join, []Member, error) {
	found, err := rows[Join](ctx, r, "join_list", f, []string{id}, MaxMembers, WholeJoinSearch.Open)
	if err != nil || len(found) == 0 {
		return nil, nil, err
	}
	members, err := rows[Member](ctx, r, "join_members", f, id, MaxMembers, limit)
	return &found[0], members, err
}
