package operate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/survey"
)

// JoinStates are the states of joins, indexed by their number in the database.
var JoinStates = []string{"pending", "completed", "failed", "cancelled"}

// A Join is a fan-in of rows: a batch, a workflow's step, or one of messages.
type Join struct {
	ID           string     `json:"id"`
	Label        string     `json:"label,omitempty"` // label given by the application
	Status       string     `json:"status"`          // pending, completed, failed or cancelled
	Expected     int32      `json:"expected"`        // number of members
	Succeeded    int32      `json:"succeeded"`       // members that have been counted as done
	Failed       int32      `json:"failed"`          // members that have been counted as failed
	CreatedAt    time.Time  `json:"created_at"`
	Deadline     *time.Time `json:"deadline,omitempty"`        // by which it ends in any case
	CompletedAt  *time.Time `json:"completed_at,omitempty"`    // when it ended
	Continuation *string    `json:"continuation,omitempty"`    // the row that starts when it ends
	WaitsFor     *string    `json:"waits_for,omitempty"`       // one of the members that have not ended
	State        string     `json:"waits_for_state,omitempty"` // state of that member
	Error        string     `json:"last_error,omitempty"`      // error of that member
}

// Counted is how many members have been counted.
func (j Join) Counted() int32 { return j.Succeeded + j.Failed }

// Joins are a page of the joins of a table.
type Joins struct {
	Table   string `json:"table"`             // with its schema
	Joins   []Join `json:"joins"`             // the newest first
	Next    string `json:"next,omitempty"`    // for --after; missing on the last page
	Partial bool   `json:"partial,omitempty"` // row-level security hides rows from the role, so there may be more

	Searched int `json:"-"` // how many joins were searched, if the page ended there before it was full
}

// A JoinMembers is a join with its members.
type JoinMembers struct {
	Table string `json:"table"` // with its schema
	Join
	Members []Member `json:"members"`           // those that have not been counted first, then those that failed
	Partial bool     `json:"partial,omitempty"` // row-level security hides rows from the role, so there may be more
}

// A Member is a row that a join waits for, or has counted.
type Member struct {
	ID      string `json:"id"`
	State   string `json:"state"`                // state of its row: ready, in_progress, done, gone and so on
	Counted string `json:"counted,omitempty"`    // succeeded or failed; missing while the join waits for it
	About   string `json:"about,omitempty"`      // topic or kind
	Error   string `json:"last_error,omitempty"` // error of its last failed attempt
}

// JoinOptions say which joins of a table are on a page, and how many are searched for them.
type JoinOptions struct {
	Status string // one of JoinStates
	Label  string // only joins with this label; empty for all
	After  string // Next of the page before
	Limit  int
	Search survey.JoinSearch
}

// Check refuses what no join has.
func (o JoinOptions) Check() error {
	if !slices.Contains(JoinStates, o.Status) {
		return Refusal{"status", " is unknown, want pending, completed, failed or cancelled"}
	}
	if _, err := uuid.Parse(o.After); o.After != "" && err != nil {
		return Refusal{"after", " is no id: take it from the page before"}
	}
	return nil
}

// ReadJoins returns a page of the joins of a table. It calls looked with the number of joins that it has searched.
func ReadJoins(ctx context.Context, r survey.Reader, f *survey.Facts, o JoinOptions, looked func(int)) (Joins, error) {
	p := Joins{Table: f.Schema + "." + f.Name, Joins: []Join{}, Partial: f.Filtered}
	found, more, err := survey.Joins(ctx, r, f, cmp.Or(o.After, uuid.Max.String()),
		int16(slices.Index(JoinStates, o.Status)), o.Label, o.Limit+1, o.Search, func(n int) {
			p.Searched = n
			looked(n)
		})
	for _, j := range found[:min(len(found), o.Limit)] {
		p.Joins = append(p.Joins, newJoin(j))
	}
	if p.Next = more; more == "" {
		p.Searched = 0
	}
	if len(found) > o.Limit {
		p.Next, p.Searched = p.Joins[o.Limit-1].ID, 0
	}
	return p, err
}

// ReadJoin returns a join and at most limit of its members; nil if there is no such join.
func ReadJoin(ctx context.Context, r survey.Reader, f *survey.Facts, id string, limit int) (*JoinMembers, error) {
	found, members, err := survey.JoinMembers(ctx, r, f, id, limit)
	if err != nil || found == nil {
		return nil, err
	}
	j := &JoinMembers{Table: f.Schema + "." + f.Name, Join: newJoin(*found), Members: []Member{}, Partial: f.Filtered}
	for _, m := range members {
		j.Members = append(j.Members, Member{m.ID, m.State, m.Counted, m.Label, m.Error})
	}
	return j, nil
}

func newJoin(j survey.Join) Join {
	return Join{j.ID, j.Label, JoinStates[j.Status], j.Expected, j.Succeeded, j.Failed, j.CreatedAt.UTC(),
		UTC(j.Deadline), UTC(j.CompletedAt), j.Continuation, j.Member, j.State, j.Error}
}
