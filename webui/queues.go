package webui

import (
	"context"
	"slices"
	"time"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/survey"
)

// maxTopics is how many topics of a table are on a page.
const maxTopics = 200

// A queuesPage is what queues.html shows.
type queuesPage struct {
	Reading bool // there are no figures yet
	Age     time.Duration
	Old     bool          // an action has changed something since
	Tables  []queuesTable // with parts or topics, or that were not read
}

// A queuesTable is the queues, consumers, topics or kinds of a table.
type queuesTable struct {
	tableFigures
	Queues []queueLine
	Served served // of the table as a whole
	Shown  []survey.Topic
}

// A queueLine is one of them, and who serves it.
type queueLine struct {
	operate.Part
	Served served
}

// Full tells whether the queue's own limit keeps rows waiting.
func (q queueLine) Full() bool { return q.MaxRunning > 0 && q.Counted >= int64(q.MaxRunning) }

// served is how many rows workers run at once.
type served struct {
	Processes   int
	Concurrency int64
}

// servedBy adds up the workers that serve something.
func servedBy(all []operate.Process, serves func(operate.Worker) bool) (s served) {
	for _, p := range all {
		n := int64(-1)
		for _, w := range p.Workers {
			if serves(w) {
				n = max(n, 0) + w.Concurrency
			}
		}
		if n >= 0 {
			s.Processes, s.Concurrency = s.Processes+1, s.Concurrency+n
		}
	}
	return s
}

// queues shows the queues, consumers, topics and kinds of each table.
func queues(ctx context.Context, r *request) (view, error) {
	tables, shown, figures, err := r.seenByQueue(ctx)
	if err != nil {
		return view{}, err
	}
	v := view{title: "Queues and topics", page: "queues.html", tables: tables}
	if figures == nil {
		v.data = queuesPage{Reading: true}
		return v, nil
	}
	p := queuesPage{Age: time.Since(figures.At), Old: figures.Old}
	for _, f := range shown {
		if f.Filtered {
			v.partial = append(v.partial, f.Name)
		}
		if len(f.Parts) > 0 && f.Parts[0].By != "" || len(f.Topics) > 0 || len(f.Problems) > 0 {
			p.Tables = append(p.Tables, r.handler.queuesTable(f, figures.Processes))
		}
	}
	v.data = p
	return v, nil
}

func (h *handler) queuesTable(f tableFigures, processes []operate.Process) queuesTable {
	t := queuesTable{tableFigures: f, Shown: slices.Clone(f.Topics[:min(len(f.Topics), maxTopics)]),
		Served: servedBy(processes, func(w operate.Worker) bool { return w.Table == f.Name })}
	for i := range t.Shown {
		t.Shown[i].Cause = h.errorOf(f.Name, t.Shown[i].Cause)
	}
	for _, part := range f.Parts {
		if part.By != "" {
			t.Queues = append(t.Queues, queueLine{part, servedBy(processes, func(w operate.Worker) bool {
				return w.Serves(part)
			})})
		}
	}
	return t
}
