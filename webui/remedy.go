package webui

import (
	"html/template"
	"slices"
	"strings"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/internal/survey"
)

// A remedy is what these pages can do about a finding. Without fields it is a link: to a page that asks, or to what has
// to be looked at first.
type remedy struct {
	Label  string
	Path   template.URL // below the root
	Fields []field      // of a form
}

// A field is one of a form that is hidden.
type field struct{ Name, Value string }

// A finding is one of the doctor, with what can be done about it here.
type finding struct {
	doctor.Finding
	Here []remedy
}

// Of is what the finding is about, beside its table: a page that is updated tells findings of one kind apart by it.
func (f finding) Of() string {
	var of []string
	for _, e := range f.Evidence {
		for _, name := range named {
			of = append(of, textOf(e, name))
		}
	}
	return strings.Join(of, " ")
}

// textOf is the text that evidence has under a name; "" if it has none.
func textOf(e doctor.Evidence, name string) string {
	for _, v := range e {
		if text, ok := v.Value.(string); ok && v.Name == name {
			return text
		}
	}
	return ""
}

// named are the names of evidence that stay while the figures change.
var named = []string{"id", "queue", "topic", "lane", "subscription", "schedule", "kind", "key"}

// remedies returns what is safe to be done about a finding at a click: what can be taken back, and what asks first. The
// finding is as the doctor has it: an error that may not be shown stands in no address.
func (h *handler) remedies(f doctor.Finding, acts bool) (all []remedy) {
	if len(f.Evidence) == 0 {
		return nil
	}
	of := func(name string) string { return textOf(f.Evidence[0], name) }
	row := func(label, id string) {
		if id != "" {
			all = append(all, remedy{Label: label, Path: template.URL(below("t", f.Table, "row", id))})
		}
	}
	switch f.Code {
	case "blocked-key":
		row("Look at the dead letter", of("blocked_by"))
	case "schedule-dead", "schedule-failing":
		row("Look at the schedule", of("id"))
	}
	if !acts {
		return all
	}
	switch f.Code {
	case "queue-paused":
		all = append(all, remedy{"Resume the queue", "queues/resume", []field{{"queue", of("queue")}}})
	case "topic-paused":
		all = append(all, remedy{"Resume the topic", "topics/resume",
			[]field{{"table", f.Table}, {"topic", of("topic")}, {"consumer", of("lane")}}})
	case "poison":
		by := []string{"newer", "1h"}
		for _, name := range []string{"kind", "topic", "subscription"} {
			by = append(by, name, of(name))
		}
		if text := of("error"); h.errorOf(f.Table, text) == text {
			by = append(by, "error", survey.Literal(text))
		}
		all = append(all, remedy{Label: "Redrive them…",
			Path: template.URL(below("t", f.Table, "failed", "redrive")) + query(by...)})
	}
	return all
}

// hides tells whether row-level security hides rows of a table, so that actions by a filter are refused.
func (r *reading) hides(table string) bool {
	return slices.ContainsFunc(r.Tables, func(t tableFigures) bool { return t.Name == table && t.Filtered })
}
