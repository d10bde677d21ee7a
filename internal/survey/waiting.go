package survey

import (
	"context"
	"slices"
	"time"
)

// A Key is an ordered key with rows that wait, and what the first of them waits for.
type Key struct {
	Key     string
	Waiting int64   // at least so many
	Oldest  float64 // seconds since the first was written
	Next    string  // the id of the row whose turn is next
	Blocker *string // the id of the row that it waits for, if there is one
	Label   string  // what the blocker is about
	Error   *string // its last one
	Reason  string  // what the blocker is, or fold: a worker is about to let the row through
}

// Keys are so many of the table's behind one in the order of their names. Of each up to behind rows are counted.
func Keys(ctx context.Context, r Reader, f *Facts, after string, limit, behind int) ([]Key, error) {
	if !f.Has("concurrency_key") {
		return nil, nil
	}
	return rows[Key](ctx, r, "keys", f, after, limit, behind)
}

// A Join is a fan-in, and one of the members that it waits for.
type Join struct {
	ID, Label                   string
	Status                      int16
	Expected, Succeeded, Failed int32
	CreatedAt                   time.Time
	Deadline, CompletedAt       *time.Time
	Continuation                *string // the id of the row that goes on then
	Error                       string
	Member                      *string // the id of the first that has not been counted
	State                       string  // of that one
}

// Bounds of one statement of [Joins]. MaxMembers is how many members of a join are looked at for one that it waits for,
// and openMembers how many of those that have not been counted, to find one that waits for nothing itself.
const (
	joinBatch   = 5000
	memberBatch = 50 // joins whose members are looked at
	MaxMembers  = 10_000
	openMembers = 200
)

// Joins are so many of the table's in one state with smaller ids, the newest first; of one label, unless that is empty.
// However many joins there are in other states, each statement reads a bounded number; looked is told of it.
func Joins(ctx context.Context, r Reader, f *Facts, before string, status int16, label string, limit int,
	looked func(int)) (all []Join, err error) {
	if !f.Has("joined") {
		return nil, nil
	}
	ids, err := joinIDs(ctx, r, f, before, status, label, limit, looked)
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(ids, memberBatch) {
		found, err := rows[Join](ctx, r, "join_list", f, some, MaxMembers, openMembers)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// A joinState is what the page of a listing is made of.
type joinState struct {
	ID     string
	Status int16
}

func joinIDs(ctx context.Context, r Reader, f *Facts, before string, status int16, label string, limit int,
	looked func(int)) (ids []string, err error) {
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
			return nil, err
		}
		for _, j := range found {
			if j.Status == status && len(ids) < limit {
				ids = append(ids, j.ID)
			}
		}
		read += len(found)
		looked(read)
		if len(found) < joinBatch || len(ids) == limit {
			return ids, nil
		}
		before = found[len(found)-1].ID
	}
}

// A Member is a row that a join waits for, or has counted.
type Member struct {
	ID, State, Counted, Label, Error string
}

// JoinMembers are a join, and so many of its members: those first that have not been counted. Nil is a join that there
// is not.
func JoinMembers(ctx context.Context, r Reader, f *Facts, id string, limit int) (*Join, []Member, error) {
	found, err := rows[Join](ctx, r, "join_list", f, []string{id}, MaxMembers, openMembers)
	if err != nil || len(found) == 0 {
		return nil, nil, err
	}
	members, err := rows[Member](ctx, r, "join_members", f, id, MaxMembers, limit)
	return &found[0], members, err
}
