package survey

import (
	"context"
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
	if !f.Has("gate_key") {
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

// Joins are so many of the table's in one state with smaller ids, the newest first; of one label, unless that is empty.
func Joins(ctx context.Context, r Reader, f *Facts, before string, status int16, label string, limit int) ([]Join,
	error) {
	if !f.Has("joined") {
		return nil, nil
	}
	return rows[Join](ctx, r, "join_list", f, before, status, label, limit)
}
