package survey

import (
	"context"
	"time"
)

// Bounds of what is read of one join. A workflow of more tasks or dependencies is shown in part.
const (
	MaxTasks = 2000
	MaxEdges = 10_000
	maxOfOne = 20 // joins of one row
)

// A Task is a member of a join, with its name if the join is a workflow.
type Task struct {
	ID, State, Counted, Label, Error, Name string
}

// An Edge says that a task starts after another.
type Edge struct{ Task, After string }

// Tasks returns at most [MaxTasks] members of a join, and at most [MaxEdges] of what they wait for.
func Tasks(ctx context.Context, r Reader, f *Facts, id string) (tasks []Task, edges []Edge, err error) {
	if tasks, err = rows[Task](ctx, r, "join_graph", f, id, MaxTasks); err != nil || len(tasks) == 0 {
		return nil, nil, err
	}
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	edges, err = rows[Edge](ctx, r, "join_edges", f, ids, id, MaxEdges)
	return tasks, edges, err
}

// A Membership is a join that a row belongs to.
type Membership struct {
	ID, Label string
	Status    int16
	Starts    bool // the row starts when the join ends; otherwise it is a member
	EndedAt   *time.Time
}

// An Attempt is one of a row that did not succeed, or a step that is done.
type Attempt struct {
	Attempt int // 0: a step
	EndedAt time.Time
	Outcome string
	Error   string // of a step: its name
}

// Records tells whether the table's attempts and steps are recorded, as those of jobs are.
func (f *Facts) Records() bool { return f.Name == "jobs" }

// Attempts returns the latest attempts of a row that did not succeed, and its steps; none of tables that do not record
// them.
func Attempts(ctx context.Context, r Reader, f *Facts, row string, limit int) ([]Attempt, error) {
	if !f.Records() {
		return nil, nil
	}
	return rows[Attempt](ctx, r, "attempts", f, row, limit)
}

// Memberships returns the joins of a row.
func Memberships(ctx context.Context, r Reader, f *Facts, row string) ([]Membership, error) {
	if !f.Has("joined") {
		return nil, nil
	}
	return rows[Membership](ctx, r, "join_memberships", f, row, maxOfOne)
}

// A Neighbour is a row of the ordered key of another.
type Neighbour struct {
	ID     string
	Behind bool // its turn comes later
	How    string
	Label  string
}

// KeyNeighbours returns the rows next to a row of an ordered key, in the order of their turns; none for other rows.
func KeyNeighbours(ctx context.Context, r Reader, f *Facts, row string) ([]Neighbour, error) {
	if !f.Has("concurrency_key") {
		return nil, nil
	}
	return rows[Neighbour](ctx, r, "key_neighbours", f, row, 2)
}
