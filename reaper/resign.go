package reaper

import (
	"context"
	"slices"
	"time"
)

// resignAfter is how many rounds in a row may fail for a reason of the leader's own before it resigns from a table.
// With the pauses after failures, the last of them begins about three seconds after the first.
const resignAfter = 3

// stands returns the tables for which it stands for election: all, except those from which it has resigned less than a
// lease ago. A reaper that stands by looks at least once in an interval, which is shorter, and so is elected first if
// there is one. If there is none, the first one returns; it resigns again after one round that fails.
func (r *reaper) stands(now time.Time) []string {
	return slices.DeleteFunc(slices.Clone(r.names), func(table string) bool { return now.Before(r.back[table]) })
}

// judge counts the rounds that failed for a reason of its own, and resigns from the tables that it cannot serve.
func (r *reaper) judge(ctx context.Context, report Report, round *round) {
	var resigns []string
	for _, t := range report.Tables {
		if !t.served || !round.complete && t.Error == "" || slices.Contains(round.lost, t.Table) {
			continue
		}
		if t.Skipped > 0 && t.problem() != r.candidate.problems[t.Table] {
			r.logger.WarnContext(ctx, "reaper skips rows that it cannot process", "table", t.Table, "skipped", t.Skipped,
				"rows", t.Rows)
		}
		r.candidate.problems[t.Table] = t.problem()
		switch err := round.unable[t.Table]; {
		case err != nil:
			if r.failures[t.Table]++; r.failures[t.Table] < resignAfter {
				break
			}
			resigns = append(resigns, t.Table)
			r.logger.ErrorContext(ctx, "reaper resigns from a table that it cannot serve, so that another one can",
				"table", t.Table, "error", err, "failed_rounds", r.failures[t.Table],
				"stands_again_in", r.options.Lease)
		case t.Error == "":
			delete(r.failures, t.Table)
		}
	}
	if len(resigns) == 0 {
		return
	}
	r.resign(ctx, resigns)
	until := time.Now().Add(r.options.Lease)
	for _, table := range resigns {
		r.back[table], r.ends[table] = until, until
	}
	r.lose(ctx, resigns)
}
