package webui

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/workqueue"
)

// An overviewPage is what overview.html shows.
type overviewPage struct {
	Reading  bool          // there are no figures yet
	Age      time.Duration // of the figures
	Old      bool          // an action has changed something since
	Looking  bool          // the doctor has not looked yet
	Examined time.Duration // how long ago it has
	Problem  string        // why the doctor found nothing
	Findings []finding
	Skipped  []doctor.Skipped
	Server   bool // findings about the server as a whole are left out
	Whole    bool // the user sees tables as a whole
	Running  int  // processes
	Tables   []tableFigures
	Lines    []historyLine // of the last hour
	NoLines  string        // why it could not be read
}

// seen reads which tables a page may show as a whole, and the figures of all, which may be missing.
func (r *request) seen(ctx context.Context) (tables []string, figures *reading, err error) {
	if tables, err = r.tables(ctx); err != nil {
		return nil, nil, err
	}
	figures, err = r.handler.figures.now(ctx)
	return tables, figures, err
}

// seenByQueue is seen for a page that shows tables by queue, too: shown are their figures, as far as the user sees
// them.
func (r *request) seenByQueue(ctx context.Context) (whole []string, shown []tableFigures, figures *reading,
	err error) {
	v, err := r.seenTables(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	figures, err = r.handler.figures.now(ctx)
	if figures == nil || err != nil {
		return v.whole, nil, nil, err
	}
	for _, f := range figures.Tables {
		if has(v.all(), f.Name) {
			f, _ = r.shown(f)
			shown = append(shown, f)
		}
	}
	return v.whole, shown, figures, nil
}

// overview shows what is wrong, and how much there is to do.
func overview(ctx context.Context, r *request) (view, error) {
	tables, shown, figures, err := r.seenByQueue(ctx)
	if err != nil {
		return view{}, err
	}
	v := view{title: "Overview", page: "overview.html", tables: tables}
	if figures == nil {
		v.data = overviewPage{Reading: true}
		return v, nil
	}
	p := overviewPage{Age: time.Since(figures.At), Old: figures.Old, Looking: figures.ExaminedAt.IsZero(),
		Examined: time.Since(figures.ExaminedAt), Problem: figures.Problem, Server: !r.user.seesAll(),
		Whole: len(tables) > 0 || r.visible.otherWay, Running: len(r.processes(figures, tables)),
		NoLines: figures.NoHour}
	for _, f := range figures.Report.Findings {
		if r.concerns(f.Table) {
			p.Findings = append(p.Findings, finding{r.handler.evidence(f),
				r.handler.remedies(f, r.acts() && !figures.hides(f.Table))})
		}
	}
	for _, s := range figures.Report.Skipped {
		if r.concerns(s.Table) {
			p.Skipped = append(p.Skipped, s)
		}
	}
	for _, f := range shown {
		if f.Filtered {
			v.partial = append(v.partial, f.Name)
		}
		p.Tables = append(p.Tables, f)
	}
	for _, l := range figures.Hour {
		if has(tables, l.Table) {
			p.Lines = append(p.Lines, l)
		}
	}
	v.data = p
	return v, nil
}

// concerns tells whether the user sees what is about a table, or about the server if it is empty.
func (r *request) concerns(table string) bool {
	return r.user.seesAll() || table != "" && r.user.sees(table)
}

// evidence redacts the errors in a finding, whose title may quote one. What finds rows by an error is left out if that
// may not be shown.
func (h *handler) evidence(f doctor.Finding) doctor.Finding {
	if h.Redact == nil {
		return f
	}
	all := f.Evidence
	f.Evidence = make([]doctor.Evidence, len(all))
	quotes := false
	for i, e := range all {
		f.Evidence[i] = slices.Clone(e)
		for k, v := range e {
			text, ok := v.Value.(string)
			if !ok || v.Name != "error" && v.Name != "last_error" && v.Name != "cause" {
				continue
			}
			quotes = true
			if shown := h.errorOf(f.Table, text); shown != text {
				f.Evidence[i][k].Value, f.Remedy = shown, without(f.Remedy, survey.Literal(text))
			}
		}
	}
	if quotes {
		f.Title = h.errorOf(f.Table, f.Title)
	}
	return f
}

// without leaves out commands and SQL that find rows by a part of an error.
func without(r doctor.Remedy, part string) doctor.Remedy {
	if part == "" {
		return r
	}
	quotes := func(text string) bool {
		return strings.Contains(text, postgres.Shell(part)) || strings.Contains(text, postgres.Literal(part))
	}
	r.Commands = slices.DeleteFunc(slices.Clone(r.Commands), quotes)
	r.SQL = slices.DeleteFunc(slices.Clone(r.SQL), quotes)
	return r
}

// A stateLabel is what people call a state.
type stateLabel struct {
	State        string
	Label, Empty string // the second says what it means that no row is in it
}

// stateLabels are the states in the order in which a row goes through them.
var stateLabels = []stateLabel{
	{string(workqueue.StateReady), "Ready", "No row is due. Workers keep up, or nothing was enqueued."},
	{string(workqueue.StateScheduled), "Scheduled", "No row is due later."},
	{string(workqueue.StateWaiting), "Waiting", "No row waits for its turn in a key, or for a join."},
	{string(workqueue.StateInProgress), "In progress", "No row runs. If rows are ready, check that a worker runs."},
	{string(workqueue.StateExpired), "Lease expired", "No lease has expired: no process died with rows, or they were " +
		"requeued."},
	{string(workqueue.StateDone), "Done", "No row is done: none was processed yet, or rows are deleted when they are, " +
		"or when their retention ends."},
	{string(workqueue.StateFailed), "Dead letters", "No row has failed for good."},
	{string(workqueue.StateCancelled), "Cancelled", "No row was cancelled."},
}

func labelOf(state string) (l stateLabel, ok bool) {
	for _, l := range stateLabels {
		if l.State == state {
			return l, true
		}
	}
	return l, false
}

// depth is how many rows a state has, as far as the survey counts them.
func (f tableFigures) depth(state string) (rows int64, atLeast, counted bool) {
	w := f.Whole
	switch workqueue.State(state) {
	case workqueue.StateReady:
		return w.Ready, w.AtLeast, true
	case workqueue.StateScheduled:
		return w.Scheduled, w.MoreLater, true
	case workqueue.StateInProgress:
		return w.InProgress, w.AtLeast, true
	case workqueue.StateExpired:
		return w.Expired, w.AtLeast, true
	case workqueue.StateWaiting:
		if f.Divided {
			break
		}
		return f.Held.Rows, f.Held.More || f.Filtered, true
	case workqueue.StateFailed:
		if f.Divided {
			break
		}
		return f.Dead.Rows, f.Dead.More || f.Filtered, true
	}
	return 0, false, false
}

// Depth is depth for templates.
func (f tableFigures) Depth(state string) string {
	rows, atLeast, counted := f.depth(state)
	if !counted {
		return ""
	}
	return number(rows, atLeast)
}
