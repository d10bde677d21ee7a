package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/history"
	"github.com/txwork/txwork/internal/survey"
)

// Bounds of what is compared with the same hour of the week before.
const (
	comparedRows = 200                    // in each of the two hours, at least
	slowRun      = 100 * time.Millisecond // half of the handlers take at least so long
	slowWait     = 10 * time.Second       // half of the rows wait for at least so long
	deadOften    = 20                     // dead letters, at least
	deadShare    = 0.01                   // of the rows that ended, at least
	deadMore     = 4                      // times the share of the week before
)

// lastWeekChecks compare the table history with that of the week before. They find nothing where one of the two is not
// known.
var lastWeekChecks = []check{
	{
		code: "slower", severity: Warning,
		title: "handlers, or the waits for them, that take more than twice as long as in the same hour of the week before",
		from: fmt.Sprintf("half of at least %d rows in each hour; handlers from %v, waits from %v", comparedRows, slowRun,
			slowWait),
		meaning: "Work ends later than its users are used to, and the same workers do less of it.",
		remedy:  "find out what has changed since: a deployment, what the handlers call, how much arrives",
		look:    inHoursOfWeek(slower),
	},
	{
		code: "failing-more", severity: Warning,
		title: "a larger share of rows that become dead letters than in the same hour of the week before",
		from: fmt.Sprintf("%d dead letters, %.0f %% of at least %d rows in each hour, and %d times the share of then",
			deadOften, 100*deadShare, comparedRows, deadMore),
		meaning: "More work than usual is not done until somebody redrives it.",
		remedy:  "look at the dead letters, fix the cause, then `txwork redrive`",
		look:    inHoursOfWeek(failingMore),
	},
}

// inHoursOfWeek judges the hours of the lanes of each table, and of the whole table where no lane is a finding. Tables
// of which row-level security shows a part are left out: history is about all rows.
func inHoursOfWeek(judge func(*table, survey.HourOfWeek) (Finding, bool)) func(context.Context,
	*examination) ([]Finding, error) {
	return func(ctx context.Context, x *examination) (all []Finding, err error) {
		hours, err := x.readHoursOfWeek(ctx)
		for _, of := range byTable(hours) {
			t := x.tableOf(of[0].Table)
			if t.Filtered {
				x.skip(ctx, x.current.code, t.Name, x.filtered())
				continue
			}
			var found []Finding
			for _, h := range of { // the whole table is the last
				if f, is := judge(t, h); is && (h.Lane != "" || len(found) == 0) {
					f.Table = h.Table
					found = append(found, f)
				}
			}
			all = append(all, t.shown(found, int64(len(found)), false, "lane")...)
		}
		return all, err
	}
}

// readHoursOfWeek reads the hours, once.
func (x *examination) readHoursOfWeek(ctx context.Context) ([]survey.HourOfWeek, error) {
	if x.hours == nil {
		var names []string
		for _, t := range x.tables {
			names = append(names, t.Name)
			if log, is := strings.CutSuffix(t.Name, "_parked"); is {
				names = append(names, log)
			}
		}
		hours, err := survey.HoursOfWeek(ctx, x.reader(), x.Schema, names)
		if err != nil {
			return nil, err
		}
		x.hours = &hours
	}
	if len(*x.hours) >= survey.MaxHoursOfWeek {
		x.skip(ctx, x.current.code, "", upTo(survey.MaxHoursOfWeek, "queues, topics and consumers"))
	}
	return *x.hours, nil
}

// tableOf is the table that a history is of; that of parked messages, if it is of a log.
func (x *examination) tableOf(name string) *table {
	i := slices.IndexFunc(x.tables, func(t *table) bool { return t.Name == name })
	if i < 0 {
		i = slices.IndexFunc(x.tables, func(t *table) bool { return t.Name == name+"_parked" })
	}
	return x.tables[i]
}

// byTable groups hours, each with the whole table at the end.
func byTable(hours []survey.HourOfWeek) (all [][]survey.HourOfWeek) {
	for _, h := range hours {
		if n := len(all); n == 0 || all[n-1][0].Table != h.Table {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], h)
	}
	for _, of := range all {
		slices.SortStableFunc(of, func(a, b survey.HourOfWeek) int { return strings.Compare(b.Lane, a.Lane) })
	}
	return all
}

// laneOfHour describes the lane of an hour.
func (t *table) laneOfHour(h survey.HourOfWeek) string {
	of, name := h.Table, t.LabelName()
	if len(t.LaneNames) > 0 {
		name = t.LaneNames[0]
	}
	switch h.Lane {
	case "":
		return of
	case history.Other:
		return of + ", those beyond the first hundred"
	}
	return fmt.Sprintf("%s, %s %q", of, name, h.Lane)
}

func slower(t *table, h survey.HourOfWeek) (Finding, bool) {
	for _, of := range []struct {
		what, name  string
		now, before []int64
		from        time.Duration
	}{
		{"handlers take", "run", h.Runs, h.RunsBefore, slowRun},
		{"rows wait", "wait", h.Waits, h.WaitsBefore, slowWait},
	} {
		rows, before := history.Sum(of.now), history.Sum(of.before)
		half, _ := history.Percentile(of.now, 0.5)
		if min(rows, before) < comparedRows || half < of.from || !history.Doubled(of.now, of.before, 0.5) {
			continue
		}
		then, _ := history.Percentile(of.before, 0.5)
		return Finding{
			Title: fmt.Sprintf("%s: %s more than twice as long as a week ago: half of %d up to %v from %s, and up to %v then",
				t.laneOfHour(h), of.what, rows, roundly(half), h.At.UTC().Format("15:04 UTC"), roundly(then)),
			Evidence: []Evidence{evidence("lane", h.Lane, "hour",
				h.At.UTC().Format(time.RFC3339), "rows", rows, of.name+"_half_seconds", half,
				"rows_then", before, of.name+"_half_seconds_then", then)},
			Remedy: Remedy{Do: "Find out what has changed since: a deployment, what the handlers call, or how much arrives. " +
				"The history on the dashboard shows when it began, and so does `txwork stats --since`."},
		}, true
	}
	return Finding{}, false
}

// roundly rounds the end of a bucket.
func roundly(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

func failingMore(t *table, h survey.HourOfWeek) (Finding, bool) {
	rows, before := h.Done+h.Dead, h.DoneBefore+h.DeadBefore
	if min(rows, before) < comparedRows || h.Dead < deadOften {
		return Finding{}, false
	}
	share := float64(h.Dead) / float64(rows)
	then := float64(h.DeadBefore) / float64(before)
	if share < deadShare || share < deadMore*max(then, 1/float64(before)) {
		return Finding{}, false
	}
	return Finding{
		Title: fmt.Sprintf("%s: %.1f %% of the rows became dead letters from %s, and %.1f %% a week ago", t.laneOfHour(h),
			100*share, h.At.UTC().Format("15:04 UTC"), 100*then),
		Evidence: []Evidence{evidence("lane", h.Lane, "hour",
			h.At.UTC().Format(time.RFC3339), "rows", rows, "dead_letters", h.Dead, "rows_then",
			before, "dead_letters_then", h.DeadBefore)},
		Remedy: Remedy{Do: "Look at the dead letters by cause, as `txwork top` and the dashboard show them, fix the cause, " +
			"then redrive them."},
	}, true
}
