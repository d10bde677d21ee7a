package webui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
)

const (
	// deadRows is how many dead letters are read, of all tables together: the latest of each.
	deadRows = 5000

	maxCauses = 100 // of a table

	// Of the chart of a cause.
	bars      = 24
	barWidth  = 5 // pixels
	barHeight = 20
)

// A deadPage is what dead.html shows.
type deadPage struct {
	Tables []deadTable
	Sample int // rows that were read of each table at most
}

// A deadTable is the dead letters of a table by their causes, the most frequent first.
type deadTable struct {
	Name, By string // the column that a label is a value of
	Causes   []cause
	Over     time.Duration // since the first of the dead letters that were read
	Cut      bool          // there are more causes
	Sampled  bool          // there may be more dead letters than were read
	Filtered bool          // row-level security hides some
	Problem  string
}

// A cause is what many errors have in common: label and first line, with … for numbers and ids.
type cause struct {
	survey.Errors
	First, Latest time.Duration // ago
	Text          string        // a part of the error without …, by which the list finds these rows
	Bars          string        // a path: how many there were over the time that the table's sample covers
}

// deadLetters shows dead letters by their causes.
func deadLetters(ctx context.Context, r *request) (view, error) {
	tables, err := r.tables(ctx)
	if err != nil {
		return view{}, err
	}
	facts, err := r.handler.facts(ctx)
	if err != nil {
		return view{}, err
	}
	v := view{title: "Dead letters", page: "dead.html", tables: tables}
	p := deadPage{Sample: deadRows / max(len(tables), 1)}
	for i := range facts {
		t := &facts[i]
		if !has(tables, t.Name) {
			continue
		}
		if t.Filtered {
			v.partial = append(v.partial, t.Name)
		}
		one := deadTable{Name: t.Name, By: t.LabelName(), Filtered: t.Filtered}
		var found []survey.Errors
		found, one.Sampled, err = survey.DeadErrors(ctx, r.handler.reader(), t, p.Sample, maxCauses+1)
		if err != nil {
			one.Problem = r.handler.explain(ctx, "causes of "+t.Name, err).Error()
		}
		one.group(found)
		for i := range one.Causes {
			c := &one.Causes[i]
			if shown := r.handler.errorOf(t.Name, c.Error); shown != c.Error {
				c.Error, c.Text = shown, "" // which the list would find these rows by
			}
		}
		if len(one.Causes) > 0 || one.Sampled || one.Problem != "" {
			p.Tables = append(p.Tables, one)
		}
	}
	v.data = p
	return v, nil
}

// group takes the causes of the dead letters in a sample.
func (d *deadTable) group(found []survey.Errors) {
	for _, e := range found {
		d.Causes = append(d.Causes, cause{Errors: e, First: postgres.Seconds(slices.Max(e.Ages)),
			Latest: postgres.Seconds(e.Latest), Text: survey.Literal(e.Error)})
		d.Over = max(d.Over, d.Causes[len(d.Causes)-1].First)
	}
	for i := range d.Causes {
		d.Causes[i].draw(d.Over.Seconds())
	}
	d.Cut = len(d.Causes) > maxCauses
	d.Causes = d.Causes[:min(len(d.Causes), maxCauses)]
}

// draw draws how many there were from the beginning of a period of seconds until now.
func (c *cause) draw(over float64) {
	var counts [bars]int
	for _, age := range c.Ages {
		bar := int(age / max(over, 1) * bars)
		counts[bars-1-min(bars-1, max(0, bar))]++ // a clock that was set back makes ages negative
	}
	most := slices.Max(counts[:])
	var path strings.Builder
	for i, n := range counts {
		if n > 0 {
			fmt.Fprintf(&path, "M%d %dv-%d", i*barWidth+2, barHeight, max(2, n*barHeight/most))
		}
	}
	c.Bars = path.String()
}

// Width and Height are those of the chart, for the template.
func (deadPage) Width() int  { return bars * barWidth }
func (deadPage) Height() int { return barHeight }
