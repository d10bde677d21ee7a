package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
)

// A worker of several lanes, such as the priorities of a queue, begins every eighth claim with one of the less urgent,
// in turn. After so many claims of other lanes a worker that serves a lane with ready rows would have claimed some.
const telling = 16

// settled are the rows of a lane that workers have settled lately, and of how many claims they are.
type settled struct {
	Lane   []string
	Claims int64
}

// works tells whether a worker serves a lane. An expired lease does not count, because its worker is gone.
func works(h survey.Head, lately []settled) bool {
	return h.Running > h.Expired ||
		slices.ContainsFunc(lately, func(s settled) bool { return slices.Equal(s.Lane, h.Lane) })
}

// judged divides the lanes with rows into those that nobody serves and the others, which are added up by their first
// column. Nobody serves a queue if none of its rows runs, and none has ended within the Unserved threshold; in a table
// whose rows are deleted when they are done, none has. The same is asked of each priority of a queue that is served. If
// its workers have no place left, and do not claim often enough to tell, the priority counts as served, but as idle.
// Queues that are paused or at their limit are left out, since their rows wait for something else.
func (x *examination) judged(ctx context.Context, t *table) (nobody, served []waiting, err error) {
	heads, rules, err := x.laneHeads(ctx, t)
	if err != nil || !slices.ContainsFunc(heads, func(h survey.Head) bool {
		return over(h, min(x.Thresholds.Unserved, x.Thresholds.Backlog))
	}) {
		return nil, nil, err
	}
	lately, err := readRows[settled](ctx, x, "served", t, x.Thresholds.Unserved.Seconds(), maxSample)
	if err != nil {
		return nil, nil, err
	}
	for _, all := range survey.ByFirst(heads) {
		w := waiting{Head: all, rule: rules[all.Name()]}
		if w.rule.Paused || w.rule.Saturated() {
			continue
		}
		ended := slices.DeleteFunc(slices.Clone(lately), func(s settled) bool { return !within(s.Lane, all) })
		if all.Running <= all.Expired && len(ended) == 0 {
			nobody = append(nobody, w)
			continue
		}
		var claims int64
		for _, s := range ended {
			claims += s.Claims
		}
		tells := all.Running <= all.Expired || claims >= telling
		var others []survey.Head
		for _, h := range heads {
			switch {
			case !within(h.Lane, all):
			case works(h, ended) || !over(h, x.Thresholds.Unserved):
				others = append(others, h)
			case tells:
				nobody = append(nobody, waiting{Head: h, rule: w.rule})
			default:
				others = append(others, h)
				w.idle = append(w.idle, t.lane(h.Lane, 1))
			}
		}
		for _, rest := range survey.ByFirst(others) {
			w.Head = rest
			served = append(served, w)
		}
	}
	return nobody, served, nil
}

// within tells whether a lane is one of those that were added up.
func within(lane []string, all survey.Head) bool {
	return slices.Equal(lane[:min(len(lane), 1)], all.Lane)
}

// lane describes a lane by its columns from one on.
func (t *table) lane(values []string, from int) string {
	var parts []string
	for i := from; i < min(len(values), len(t.LaneNames)); i++ {
		parts = append(parts, t.LaneNames[i]+" "+postgres.Name(values[i]))
	}
	return strings.Join(parts, ", ")
}
