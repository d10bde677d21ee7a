package webui

import (
	"fmt"
	"strings"
	"time"

	"github.com/txwork/txwork/schedule"
)

// A timeline shows occurrences of schedules on one axis of time, in a zone.
type timeline struct {
	From, Until time.Time
	Hours       int
	Zone        *time.Location
	Now         time.Time
}

// Sizes of a time line, in pixels.
const (
	lineWidth  = 480
	lineHeight = 22
	maxMarks   = 48 // of a schedule; more are a bar
)

// lineHours are how many hours a time line may show, a quarter of them past.
var lineHours = []int{6, 24, 168}

func newTimeline(now time.Time, hours int, zone *time.Location) timeline {
	past := time.Duration(hours) * time.Hour / 4
	until := now.Add(time.Duration(hours)*time.Hour - past)
	return timeline{From: now.Add(-past), Until: until, Hours: hours, Zone: zone, Now: now}
}

// X is where a time is on the axis.
func (l timeline) X(t time.Time) int {
	return int(float64(t.Sub(l.From)) / float64(l.Until.Sub(l.From)) * lineWidth)
}

// A tick is a label of the axis.
type tick struct {
	X     int
	Label string
}

// Ticks are full hours or days of the zone.
func (l timeline) Ticks() (all []tick) {
	step, layout := time.Duration(l.Hours)*time.Hour/6, "15:04"
	if l.Hours > 24 {
		step, layout = 24*time.Hour, "Mon 2"
	}
	first := l.From.In(l.Zone)
	first = time.Date(first.Year(), first.Month(), first.Day(), 0, 0, 0, 0, l.Zone)
	for t := first; t.Before(l.Until); t = t.Add(step) {
		if x := l.X(t); x >= 0 && x < lineWidth-34 {
			all = append(all, tick{x, t.In(l.Zone).Format(layout)})
		}
	}
	return all
}

// Marks are the drawing of the occurrences of a schedule: a path of ticks, or a bar from From on if there are too many.
type marks struct {
	Path       string
	From, Last int // -1: there is none
	Late       bool
	Text       string // the same in words
}

// of draws the occurrences of a schedule from the next on, and the last.
func (l timeline) of(s scheduleLine) marks {
	m := marks{From: -1, Last: -1, Late: s.Late(l.Now)}
	if s.LastAt != nil && s.LastAt.After(l.From) && s.LastAt.Before(l.Until) {
		m.Last = l.X(*s.LastAt)
	}
	rule, err := schedule.Parse(s.Expr, s.Zone)
	if s.Paused || s.NextAt == nil || err != nil {
		m.Text = "no occurrence is due"
		return m
	}
	var path strings.Builder
	n := 0
	for at, ok := *s.NextAt, true; ok && at.Before(l.Until); at, ok = rule.Next(at) {
		if n++; n > maxMarks {
			m.From, m.Text = max(l.X(*s.NextAt), 0), fmt.Sprintf("more than %d times until the end", maxMarks)
			return m
		}
		fmt.Fprintf(&path, "M%d 4v14", max(l.X(at), 1))
	}
	m.Path, m.Text = path.String(), fmt.Sprintf("%d times until the end", n)
	return m
}

// Width and Height are sizes for the template.
func (timeline) Width() int { return lineWidth }

// Height is that of one schedule's line.
func (timeline) Height() int { return lineHeight }

// NowX is where now is.
func (l timeline) NowX() int { return l.X(l.Now) }
