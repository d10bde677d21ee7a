//go:build unix

package torture

import (
	"slices"
	"time"
)

// A claim commits without waiting for the disk, so a crash may forget one whose handler runs already, and that handler
// then has no claim on record. But a log is lost from its end: where anything is left that was written after the
// handler had begun and before the crash, its claim was not forgotten.
type forgotten struct {
	outages  []Span
	kept     []time.Time // what was written last before each outage and is left
	suspects []suspect
}

// A suspect is a handler whose claim is not on record.
type suspect struct {
	start time.Time
	Violation
}

func newForgotten(outages []Span) *forgotten {
	ordered := slices.SortedFunc(slices.Values(outages), func(a, b Span) int { return a.From.Compare(b.From) })
	return &forgotten{outages: ordered, kept: make([]time.Time, len(outages))}
}

func (f *forgotten) add(w *walk) {
	f.suspects = append(f.suspects, w.suspects...)
	for _, c := range w.h.Changes {
		next, _ := slices.BinarySearchFunc(f.outages, c.At, func(s Span, t time.Time) int { return s.From.Compare(t) })
		if next < len(f.kept) && c.Op != 'F' {
			f.kept[next] = latest(f.kept[next], c.At)
		}
	}
}

// check returns what no crash explains.
func (f *forgotten) check() (found []Violation) {
	lost := f.lost()
	for _, s := range f.suspects {
		explained := slices.ContainsFunc(lost, func(l Span) bool {
			return s.start.After(l.From) &&
				s.start.Before(l.To)
		})
		if !explained {
			found = append(found, s.Violation)
		}
	}
	return found
}

// lost is when a claim was made that an outage has forgotten.
func (f *forgotten) lost() (all []Span) {
	var last time.Time
	for i, outage := range f.outages {
		last = latest(last, f.kept[i])
		all = append(all, Span{last, outage.To})
	}
	return all
}
