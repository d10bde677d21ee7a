package webui

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/txwork/txwork/internal/survey"
)

// A moment is one of a row's life that is stored.
type moment struct {
	What string
	At   time.Time
	Why  string // an error, or the name of a step
	Join string // that it is about
}

// maxAttempts is how many ended attempts of a row are on its page.
const maxAttempts = 50

// readAttempts reads how attempts have ended, and steps, where that is stored.
func (p *rowPage) readAttempts(ctx context.Context, h *handler, t *survey.Facts) (err error) {
	p.Recorded = t.Records()
	if p.Ended, err = survey.Attempts(ctx, h.reader(), t, p.ID.String(), maxAttempts+1); len(p.Ended) > maxAttempts {
		p.Ended, p.MoreEnded = p.Ended[:maxAttempts], true
	}
	for i := range p.Ended {
		if a := &p.Ended[i]; a.Attempt > 0 {
			a.Error = h.errorOf(p.Name, a.Error)
		}
	}
	return err
}

// Moments are all that is stored, in the order of time. What is at the same time stays in the order of a row's life.
func (p rowPage) Moments() []moment {
	created, due := p.CreatedAt, p.DueAt
	var all []moment
	add := func(what string, at *time.Time) {
		if at != nil {
			all = append(all, moment{What: what, At: *at})
		}
	}
	add("written", &created)
	for _, j := range p.Joins {
		if j.EndedAt != nil {
			all = append(all, moment{What: "its join ended", At: *j.EndedAt, Join: j.ID})
		}
	}
	add("due", &due)
	for _, a := range p.Ended {
		what := "step done"
		if a.Attempt > 0 {
			what = fmt.Sprintf("attempt %d: %s", a.Attempt, a.Outcome)
		}
		all = append(all, moment{What: what, At: a.EndedAt, Why: a.Error})
	}
	add("running since", p.RunningFrom)
	add("lease ends", p.LockedUntil)
	add("cancelled", p.CancelledAt)
	add("failed for good", p.FailedAt)
	add("ended", p.CompletedAt)
	slices.SortStableFunc(all, func(a, b moment) int { return a.At.Compare(b.At) })
	return all
}

// Unstored says what the line lacks because nothing stores it.
func (p rowPage) Unstored() string {
	switch {
	case p.Attempts == 0:
		return ""
	case p.Recorded:
		return "When attempts began is not stored, nor attempts that were given back, as by a snooze or a shutdown."
	}
	return "Of attempts, only their number and the last error are stored."
}
