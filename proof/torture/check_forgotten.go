//go:build unix

package torture

import (
	"slices"
	"time"
)

// A claim commits without waiting for the disk, so a crash may lose a claim whose handler is already running. That
// handler then has no claim on record. But a log loses only its end: if anything written after the handler began and
// before the crash still exists, its claim was not lost.
type forgotten struct {
	outages  []Span
	kept     []time.Time // for each outage, when the last surviving change before it was written
	suspects []suspect
}

// A suspect is a handler without a recorded claim.
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

// check returns the suspects that no crash explains.
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

// lost returns the periods in which a claim may have been made that an outage lost.
func (f *forgotten) lost() (all []Span) {
	var last time.Time
	for i, outage := range f.outages {
		last = latest(last, f.kept[i])
		all = append(all, Span{last, outage.To})
	}
	return all
}
