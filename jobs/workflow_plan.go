package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/validate"
)

// A plan is a workflow that has been checked.
type plan struct {
	*Workflow
	id    uuid.UUID
	index map[string]int // of tasks, by name
	deps  [][]int        // the dependencies of each task, as indexes
	edges int
}

// newPlan checks the structure of a workflow: names, dependencies and cycles. The jobs themselves are validated later.
func newPlan(w *Workflow) (*plan, error) {
	if w == nil {
		return nil, validate.Errorf("workflow", "is nil")
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	p := &plan{Workflow: w, id: id, index: make(map[string]int, len(w.tasks)), deps: make([][]int, len(w.tasks))}
	for _, check := range []func() error{p.checkSize, p.root().Validate, p.checkNames, p.resolve, p.checkCycles} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// root returns the join over all tasks. Its id sorts before those of the other joins, so every settle in the workflow
// locks it first, and cascades of failures take turns instead of deadlocking.
func (p *plan) root() join.Join {
	return join.Join{ID: p.id, Label: p.Name, Policy: p.Policy, Deadline: p.Deadline}
}

func (p *plan) checkSize() error {
	switch n := len(p.tasks); {
	case n == 0:
		return validate.Errorf("workflow", "has no tasks")
	case n > MaxTasks:
		return validate.Errorf("workflow", "has %d tasks, at most %d are allowed", n, MaxTasks)
	}
	return nil
}

func (p *plan) checkNames() error {
	for i, t := range p.tasks {
		if err := input.Name("task name", t.name, MaxTaskName); err != nil {
			return err
		}
		if _, taken := p.index[t.name]; taken {
			return validate.Errorf("task name", "%q is that of two tasks", t.name)
		}
		if err := (join.Join{Policy: p.policyOf(t)}).Validate(); err != nil {
			return &partError{fmt.Sprintf("task %q", t.name), err}
		}
		p.index[t.name] = i
	}
	return nil
}

// resolve finds the dependencies of each task, and drops duplicates.
func (p *plan) resolve() error {
	for i, t := range p.tasks {
		names := slices.Clone(t.named)
		for _, d := range t.after {
			if d == nil || d.workflow != p.Workflow {
				return validate.Errorf("After", "of task %q has a task that is none of the workflow's", t.name)
			}
			names = append(names, d.name)
		}
		for _, name := range names {
			d, known := p.index[name]
			if !known {
				return validate.Errorf("After", "of task %q has %q, which is no task of the workflow", t.name, name)
			}
			p.deps[i] = append(p.deps[i], d)
		}
		slices.Sort(p.deps[i])
		p.deps[i] = slices.Compact(p.deps[i])
		if p.edges += len(p.deps[i]); p.edges > MaxDependencies {
			return validate.Errorf("workflow", "has more than %d dependencies", MaxDependencies)
		}
	}
	return nil
}

// checkCycles is a topological sort: it removes tasks whose dependencies have all been removed. The tasks that remain
// are on a cycle or depend on one.
func (p *plan) checkCycles() error {
	behind, missing := make([][]int, len(p.tasks)), make([]int, len(p.tasks))
	var free []int
	for i, deps := range p.deps {
		for _, d := range deps {
			behind[d] = append(behind[d], i)
		}
		if missing[i] = len(deps); missing[i] == 0 {
			free = append(free, i)
		}
	}
	for n := 0; n < len(free); n++ {
		for _, i := range behind[free[n]] {
			if missing[i]--; missing[i] == 0 {
				free = append(free, i)
			}
		}
	}
	if len(free) == len(p.tasks) {
		return nil
	}
	left := func(i int) bool { return missing[i] > 0 }
	return validate.Errorf("workflow", "has a cycle: %s", p.show(p.cycle(left)))
}

// cycle follows dependencies among the tasks that are left, each of which has one there, until it meets a task again.
// It returns the cycle in the order in which the tasks would run.
func (p *plan) cycle(left func(int) bool) []int {
	var path []int
	at := make(map[int]int)
	i := slices.IndexFunc(p.deps, func(deps []int) bool { return slices.ContainsFunc(deps, left) })
	for !left(i) {
		i++
	}
	for {
		if start, seen := at[i]; seen {
			cycle := append(path[start:], i)
			slices.Reverse(cycle)
			return cycle
		}
		at[i] = len(path)
		path = append(path, i)
		i = p.deps[i][slices.IndexFunc(p.deps[i], left)]
	}
}

// maxShown is how many tasks of a cycle an error names.
const maxShown = 10

func (p *plan) show(tasks []int) string {
	var names []string
	for _, i := range tasks[:min(len(tasks), maxShown)] {
		names = append(names, fmt.Sprintf("%q", p.tasks[i].name))
	}
	if len(tasks) > maxShown {
		names = append(names, fmt.Sprintf("… (%d tasks)", len(tasks)-1))
	}
	return strings.Join(names, " → ")
}

// inserts returns the tasks in their order, followed by OnComplete and OnFail.
func (p *plan) inserts() []Insert {
	inserts := make([]Insert, len(p.tasks))
	for i, t := range p.tasks {
		insert := t.insert.withHeader(workflowHeader, p.id.String())
		insert.Headers[taskHeader] = t.name
		insert.joined, insert.waiting = true, len(p.deps[i]) > 0
		if insert.waiting {
			insert.Headers[afterHeader] = strconv.Itoa(len(p.deps[i]))
		}
		inserts[i] = insert
	}
	return append(inserts, continuations(workflowHeader, p.id, len(p.tasks), p.OnComplete, p.OnFail)...)
}

// name puts the task's name into an error about an item, instead of its index.
func (p *plan) name(err error) error {
	if refused, ok := errors.AsType[*workqueue.ItemError](err); ok && refused.Index < len(p.tasks) {
		return &partError{fmt.Sprintf("task %q", p.tasks[refused.Index].name), refused.Err}
	}
	return nameContinuation(err, len(p.tasks), p.OnComplete)
}

// joins returns the root and a join for each task with dependencies. The root comes first, see root.
func (p *plan) joins(s StartedWorkflow, ids []uuid.UUID) ([]join.Join, error) {
	root := p.root()
	root.Members, root.OnComplete, root.OnFail = ids, s.OnComplete, s.OnFail
	joins := []join.Join{root}
	for i, deps := range p.deps {
		if len(deps) == 0 {
			continue
		}
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		j := join.Join{ID: id, OnComplete: ids[i], Policy: p.policyOf(p.tasks[i])}
		for _, d := range deps {
			j.Members = append(j.Members, ids[d])
		}
		joins = append(joins, j)
	}
	return joins, nil
}
