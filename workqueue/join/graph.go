package join

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// checkTaken refuses ids of joins that exist and rows that continue other joins.
func (s *start) checkTaken(ctx context.Context, tx workqueue.Tx, j *Joins) error {
	ids, continuations := s.ids(), s.continuations()
	var refused error
	err := j.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var id, onComplete, onFail uuid.UUID
		err := scan(&id, &onComplete, &onFail)
		switch {
		case slices.Contains(ids, id):
			refused = validate.Errorf("id", "%s is that of a join which exists", id)
		case slices.Contains(continuations, onComplete):
			refused = continuesTwo(onComplete)
		default:
			refused = continuesTwo(onFail)
		}
		return err
	}, j.statements["taken"], ids, continuations)
	return cmp.Or(err, refused)
}

// checkCycles refuses joins that would wait for each other. Every row on a cycle is both a step and a continuation that
// was not released. So if no step is a waiting row, there is no cycle.
func (s *start) checkCycles(ctx context.Context, tx workqueue.Tx, j *Joins) error {
	g := graph{edges: map[uuid.UUID][]uuid.UUID{}}
	for _, join := range s.joins {
		g.join(s.rows, join.Members, join.continuations())
	}
	return g.check(ctx, tx, j)
}

// A graph has an edge from each step to the continuations that wait for it.
type graph struct {
	edges map[uuid.UUID][]uuid.UUID
	roots []uuid.UUID // where the new edges start
}

// join adds the edges of a join that is not written yet.
func (g *graph) join(rows map[uuid.UUID]row, members, continuations []uuid.UUID) {
	for _, m := range members {
		if rows[m].waiting && len(continuations) > 0 {
			g.edges[m] = append(g.edges[m], continuations...)
			g.roots = append(g.roots, m)
		}
	}
}

// check loads the part of the graph that the new edges lead to, and looks for a cycle in all of it.
func (g *graph) check(ctx context.Context, tx workqueue.Tx, j *Joins) error {
	if len(g.roots) == 0 {
		return nil
	}
	if err := g.load(ctx, tx, j); err != nil {
		return err
	}
	if id, found := g.cycle(); found {
		return validate.Errorf("members", "has %s, which would wait for itself: the joins make a cycle", id)
	}
	return nil
}

// load follows the edges, one level of unknown rows after the other.
func (g *graph) load(ctx context.Context, tx workqueue.Tx, j *Joins) error {
	known := map[uuid.UUID]bool{}
	level := slices.Clone(g.roots)
	for _, next := range g.edges {
		level = append(level, next...)
	}
	for len(level) > 0 {
		level = slices.DeleteFunc(level, func(id uuid.UUID) bool {
			seen := known[id]
			known[id] = true
			return seen
		})
		var found []uuid.UUID
		err := j.table.In(tx).Query(ctx, func(scan func(...any) error) error {
			var from, to uuid.UUID
			err := scan(&from, &to)
			g.edges[from] = append(g.edges[from], to)
			found = append(found, to)
			return err
		}, j.statements["edges"], level)
		if err != nil {
			return err
		}
		level = found
	}
	return nil
}

// cycle finds a row that leads to itself. It keeps its own stack instead of recursing, because a chain may be very
// long.
func (g *graph) cycle() (uuid.UUID, bool) {
	const open, done = 1, 2
	state := map[uuid.UUID]int{}
	for _, root := range g.roots {
		stack := []uuid.UUID{root}
		for len(stack) > 0 {
			id := stack[len(stack)-1]
			if state[id] != 0 { // its successors are done, or it was reached twice
				state[id] = done
				stack = stack[:len(stack)-1]
				continue
			}
			state[id] = open
			for _, next := range g.edges[id] {
				switch state[next] {
				case open:
					return next, true
				case 0:
					stack = append(stack, next)
				}
			}
		}
	}
	return uuid.Nil, false
}
