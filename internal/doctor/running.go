package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/txwork/txwork/internal/survey"
)

// runningChecks look for rows that do harm while they run.
var runningChecks = []check{
	{
		code: "not-returning", severity: Warning,
		title: "rows whose handler runs for longer than it should",
		from:  "the worker's `RunsWithin`: twice its timeout, " + rough(defaultThresholds.Running) + " without one",
		meaning: "The handler probably hangs. Its lease is renewed, so no other worker takes the row, and it holds one of " +
			"the places of its worker.",
		remedy: "`txwork cancel`, which cancels the handler's context; restart the process if that does not end it; set a " +
			"timeout, or a longer `RunsWithin` for work that takes so long",
		look: inRowsOfEachTable(notReturning),
	},
	{
		code: "ends-process", severity: Critical,
		title: "rows that may end their process: it died repeatedly while they ran alone in it",
		from: fmt.Sprintf("the second lease that is lost alone, within %s; of dead letters, those of the last %s",
			rough(endsProcessOf), rough(deadLettersOf)),
		meaning: "Each attempt of such a row probably ends its process, such as by running out of memory, and with it the " +
			"work of everything else in that process.",
		remedy: "look at the row, and why its processes ended; `txwork cancel` keeps it from running again",
		look:   inRowsOfEachTable(endsProcess),
	},
}

func notReturning(ctx context.Context, x *examination, t *table) ([]Finding, error) {
	heads, err := x.readHeads(ctx, t)
	if err != nil {
		return nil, err
	}
	more := hides(heads)
	var list []survey.OverdueRow
	if slices.ContainsFunc(heads, func(h survey.Head) bool { return h.Overdue > 0 }) {
		list, err = survey.OverdueRows(ctx, x.reader(), &t.Facts, x.Thresholds.Running, maxShown)
	}
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0 && more:
		return nil, t.hiding()
	case len(list) == 0:
		return nil, nil
	}
	longest := list[0]
	f := Finding{Title: fmt.Sprintf("%s: %s for longer than %s should, the longest, %s, for %s", t.Name,
		running(longest.Rows, more), they(longest.Rows), t.named(longest.Label, longest.ID),
		rough(seconds(longest.Ran)))}
	var ids, tokens []string
	for _, r := range list {
		tokens = append(tokens, r.Owner)
	}
	holder := x.holders(ctx, tokens)
	for _, r := range list {
		if !r.Cancelled {
			ids = append(ids, r.ID)
		}
		e := evidence("id", r.ID, t.labelName(), r.Label)
		if len(r.Lane) > 0 {
			e = append(e, evidence(t.LaneNames[0], r.Lane[0])...)
		}
		f.Evidence = append(f.Evidence, append(e, evidence("running_seconds", seconds(r.Ran), "within_seconds",
			seconds(r.Within), "owner_token", r.Owner, "process", survey.ProcessOf(r.Owner), "attempts",
			r.Attempts, "cancelled", cancelled(r.Cancelled))...))
		f.Evidence[len(f.Evidence)-1] = append(f.Evidence[len(f.Evidence)-1], holder(r.Owner)...)
	}
	if longest.Rows > int64(len(list)) || more {
		f.total(longest.Rows, more)
	}
	f.Remedy = x.returning(t, ids)
	return []Finding{f}, nil
}

// returning is the remedy for rows that run for too long, of which these have not been cancelled yet.
func (x *examination) returning(t *table, ids []string) Remedy {
	const rest = "A handler that ignores its context keeps its place: restart its process, whose log names the row. " +
		"Maintenance then ends what was cancelled. So that no handler hangs, give it a timeout and pass on its context. If " +
		"the work does take so long, say so with RunsWithin."
	if len(ids) == 0 {
		return Remedy{Do: "The rows have been cancelled, but their handlers go on. " + rest}
	}
	return Remedy{
		Do: "Cancel the rows: their handlers' contexts are cancelled, and they end as cancelled unless they are done all " +
			"the same. `txwork redrive` makes them run again. " + rest,
		Commands: []string{x.command(append([]string{"cancel", t.Name}, ids...)...)},
	}
}

// hides reports whether rows in progress may lie behind the rows that were read.
func hides(heads []survey.Head) bool {
	return slices.ContainsFunc(heads, func(h survey.Head) bool { return h.More })
}

func running(n int64, more bool) string {
	if n == 1 && !more {
		return "1 row runs"
	}
	return counted(n, more, "row") + " run"
}

func they(n int64) string {
	if n == 1 {
		return "it"
	}
	return "they"
}

// named is a row with what it is about.
func (t *table) named(label, id string) string {
	if label == "" {
		return id
	}
	return fmt.Sprintf("%s of %s %q", id, t.LabelName(), bounded(label))
}

// holders returns, for an owner token, evidence of the process that made it, as far as the process says that it runs.
// What cannot be read is left out, since no finding depends on it.
func (x *examination) holders(ctx context.Context, tokens []string) func(token string) Evidence {
	processes, _ := survey.Processes(ctx, x.reader(), x.Schema, tokens...)
	return func(token string) Evidence {
		p := processes[survey.ProcessOf(token)]
		return evidence("host", p.Host, "language", p.Language, "version", p.Version, "serves", p.Serves)
	}
}

func cancelled(is bool) string {
	if is {
		return "yes"
	}
	return ""
}

// A deadly row has lost leases alone.
type deadly struct {
	ID, Label       string
	Status          int16
	Alone, Together int64
	Last            string // when it lost the last lease, as the reaper wrote it
	Attempts        int32
	MaxAttempts     int32 `json:"max_attempts"`
	Error           *string
}

const (
	// deadlyFrom is how many lost leases it takes: one may have another cause, such as a machine that is replaced.
	deadlyFrom = 2
	// endsProcessOf is how recent the last one is. A row that lives on, such as a schedule, keeps its counts for ever.
	endsProcessOf = 24 * time.Hour
)

func endsProcess(ctx context.Context, x *examination, t *table) (all []Finding, err error) {
	found, more, err := x.readSuspects(ctx, t, true)
	list := found.Deadly
	for _, d := range list {
		last, wrong := time.Parse(time.RFC3339, d.Last)
		ago := x.report.At.Sub(last)
		if wrong != nil || ago > endsProcessOf {
			continue
		}
		state, do := "it is tried again", "Cancel the row before it ends another process, find out why, such as in the log "+
			"of the machine that ran it (out of memory, a crash in C code), then redrive it."
		remedy := Remedy{Commands: []string{x.command("show", t.Name, d.ID), x.command("cancel", t.Name, d.ID)}}
		if d.Status == 3 {
			state = "now it is a dead letter"
			do = "Find out why, such as in the log of the machine that ran it (out of memory, a crash in C code), before " +
				"you redrive it: it would end the next process."
			remedy = Remedy{Commands: []string{x.command("show", t.Name, d.ID)}}
		}
		remedy.Do = do
		all = append(all, Finding{
			Title: fmt.Sprintf("%s: a row may end its process: %s lost its lease %s alone, the last %s ago; %s", t.Name,
				t.named(d.Label, d.ID), times(d.Alone), rough(max(ago, 0)), state),
			Evidence: []Evidence{evidence("id", d.ID, t.labelName(), d.Label, "lost_alone", d.Alone, "lost_together",
				d.Together, "last_lost_seconds", ago, "attempts", d.Attempts, "max_attempts", d.MaxAttempts,
				"last_error", d.Error)},
			Remedy: remedy,
		})
	}
	if err == nil && len(all) == 0 && len(list) >= maxSample {
		err = gap{"more rows have lost leases alone than are looked at", "start workers, or look when there are fewer"}
	}
	return t.shown(all, int64(len(all)), more || len(list) >= maxSample, "such row"), err
}

func times(n int64) string {
	if n == 2 {
		return "twice"
	}
	return plural(n, "time")
}
