package webui

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
)

// A historyPage is what history.html shows.
type historyPage struct {
	Spans       []span
	Span        span
	Table, Lane string // of one only; empty: all
	Lines       []historyLine
	Cut         bool
}

// A span is a range that can be chosen. It has so many points that each is wide enough to be seen.
type span struct {
	Name, Label string
	length      time.Duration
	step        time.Duration
	hours       bool
}

var spans = []span{
	{"hour", "Hour", time.Hour, time.Minute, false},
	{"day", "Day", 24 * time.Hour, 10 * time.Minute, false},
	{"week", "Week", 7 * 24 * time.Hour, time.Hour, true},
}

// A historyLine is the charts of a table or lane, and the figures that they are made of.
type historyLine struct {
	survey.HistoryLine
	Charts []chart
}

// history shows what happened in the last hour, day or week, of all tables, or of a lane of one.
func history(ctx context.Context, r *request) (view, error) {
	seen, err := r.seenTables(ctx)
	if err != nil {
		return view{}, err
	}
	tables := seen.whole
	p := historyPage{Spans: spans, Span: spans[0], Table: r.query.Get("table"), Lane: r.query.Get("lane")}
	for _, s := range spans {
		if s.Name == r.query.Get("range") {
			p.Span = s
		}
	}
	if !utf8.ValidString(p.Lane) || strings.ContainsRune(p.Lane, 0) {
		return view{}, notFound
	}
	chosen := tables
	if r.concerns(postgres.LogTable) {
		chosen = append(slices.Clip(tables), postgres.LogTable)
	}
	if has(seen.byQueue, p.Table) || p.Table == "" && len(chosen) == 0 {
		return r.historyByQueue(ctx, p, seen)
	}
	if p.Table != "" {
		if !has(chosen, p.Table) {
			return view{}, noTable(r.handler.Schema, p.Table, tables)
		}
		chosen = []string{p.Table}
	}
	if p.Lines, p.Cut, err = r.handler.lines(ctx, chosen, p.Lane, p.Span); err != nil {
		return view{}, err
	}
	return view{title: "History", page: "history.html", tables: tables, data: p}, nil
}

// maxLanes is how many lanes a page of the history shows for a user of some queues.
const maxLanes = 20

// historyByQueue shows the history of queues that the user sees, of one table or of all those.
func (r *request) historyByQueue(ctx context.Context, p historyPage, seen visible) (view, error) {
	for _, table := range seen.byQueue {
		if p.Table != "" && p.Table != table {
			continue
		}
		for _, lane := range r.among(table) {
			if p.Lane != "" && p.Lane != lane || lane == "" { // which is the table as a whole
				continue
			}
			if p.Cut = p.Cut || len(p.Lines) >= maxLanes; p.Cut {
				break
			}
			lines, cut, err := r.handler.lines(ctx, []string{table}, lane, p.Span)
			if err != nil {
				return view{}, err
			}
			p.Lines, p.Cut = append(p.Lines, lines...), cut
		}
	}
	return view{title: "History", page: "history.html", tables: seen.whole, data: p}, nil
}

// lines reads the history of a lane, or of whole tables.
func (h *handler) lines(ctx context.Context, tables []string, lane string, s span) ([]historyLine, bool, error) {
	return h.linesBy(ctx, h.reader(), tables, lane, s)
}

func (h *handler) linesBy(ctx context.Context, r survey.Reader, tables []string, lane string, s span) (
	lines []historyLine, cut bool, err error) {
	all, cut, err := survey.History(ctx, r, h.Schema, survey.HistoryRange{Tables: tables, Lane: &lane,
		Length: s.length, Step: s.step, Hours: s.hours})
	for _, l := range all {
		if l.Lane == lane {
			lines = append(lines, historyLine{l, charts(l.Points, strings.HasSuffix(l.Table, "_schedule"))})
		}
	}
	return lines, cut, err
}

// A chart is a picture of some series. Lengths are in its own units, so it fits any width.
type chart struct {
	Title     string
	Top       string // the value at its upper edge
	From, To  time.Time
	Lines     []chartLine
	Gaps      []chartGap
	Something bool // otherwise nothing happened
}

type chartLine struct{ Class, Label, Path string }

type chartGap struct{ X, Width string }

const chartWidth, chartHeight = 600, 120

// A value is one of a point; false if there is none.
type value func(survey.HistoryPoint) (v float64, some bool)

// A series is a value for each point.
type series struct {
	class, label string
	of           value
}

func count(of func(survey.HistoryPoint) int64) value {
	return func(p survey.HistoryPoint) (float64, bool) { return float64(of(p)), p.Known }
}

// charts are those of a line. A percentile is the end of the bucket that it is in. What starts an occurrence of a
// schedule is late by the wait of its row.
func charts(points []survey.HistoryPoint, schedule bool) []chart {
	percentile := func(q float64, of func(survey.HistoryPoint, float64) (time.Duration, bool)) value {
		return func(p survey.HistoryPoint) (float64, bool) {
			d, some := of(p, q)
			return d.Seconds(), some
		}
	}
	rows := func(n float64) string { return number(int64(n), false) }
	took := func(s float64) string { return short(time.Duration(s * float64(time.Second))) }
	enqueued := func(p survey.HistoryPoint) (float64, bool) {
		if p.Enqueued == nil {
			return 0, false
		}
		return float64(*p.Enqueued), true
	}
	wait := "Wait until a handler begins"
	if schedule {
		wait = "Lateness of schedules"
	}
	all := []chart{
		draw("Rows", points, rows,
			series{"a", "enqueued", enqueued},
			series{"c", "claimed", count(survey.HistoryPoint.Claimed)},
			series{"b", "done", count(func(p survey.HistoryPoint) int64 { return p.Done })}),
		draw("Failures", points, rows,
			series{"b", "retried", count(func(p survey.HistoryPoint) int64 { return p.Retried })},
			series{"c", "dead letters", count(func(p survey.HistoryPoint) int64 { return p.Dead })}),
		draw("Leases that ended", points, rows,
			series{"b", "reaped", count(func(p survey.HistoryPoint) int64 { return p.Expired })},
			series{"c", "lost to another claim", count(func(p survey.HistoryPoint) int64 { return p.Lost })}),
		draw(wait, points, took,
			series{"b", "half of them within", percentile(0.5, survey.HistoryPoint.Wait)},
			series{"c", "95 % within", percentile(0.95, survey.HistoryPoint.Wait)}),
	}
	if schedule {
		return all[1:]
	}
	return append(all, draw("Time of a handler", points, took,
		series{"b", "half of them within", percentile(0.5, survey.HistoryPoint.Run)},
		series{"c", "95 % within", percentile(0.95, survey.HistoryPoint.Run)}))
}

func draw(title string, points []survey.HistoryPoint, format func(float64) string, all ...series) chart {
	c := chart{Title: title, From: points[0].At, To: points[len(points)-1].At}
	top := 0.0
	for _, p := range points {
		for _, s := range all {
			if v, some := s.of(p); some {
				top = max(top, v)
			}
		}
	}
	c.Something, c.Top = top > 0, format(top)
	width := float64(chartWidth) / float64(len(points))
	for _, s := range all {
		if steps := steps(points, s, width, max(top, 1e-9)); steps != "" {
			c.Lines = append(c.Lines, chartLine{s.class, s.label, steps})
		}
	}
	for i := 0; i < len(points); i++ {
		from := i
		for i < len(points) && !points[i].Known {
			i++
		}
		if i > from {
			c.Gaps = append(c.Gaps, chartGap{coordinate(float64(from) * width), coordinate(float64(i-from) * width)})
		}
	}
	return c
}

// steps is a path from point to point, which ends where there is no value.
func steps(points []survey.HistoryPoint, s series, width, top float64) string {
	var b strings.Builder
	drawing := false
	for i, p := range points {
		v, some := s.of(p)
		if some {
			command := "L"
			if !drawing {
				command = "M"
			}
			y := coordinate(chartHeight * (1 - v/top))
			fmt.Fprintf(&b, "%s%s %sH%s", command, coordinate(float64(i)*width), y, coordinate(float64(i+1)*width))
		}
		drawing = some
	}
	return b.String()
}

func coordinate(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// short formats the end of a bucket.
func short(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return rough(d)
}

// Rows are the points of the table beside the charts, the newest first, without gaps.
func (l historyLine) Rows() []survey.HistoryPoint {
	known := slices.DeleteFunc(slices.Clone(l.Points), func(p survey.HistoryPoint) bool { return !p.Known })
	slices.Reverse(known)
	return known
}

// percentiles are what a table says of waits or runs.
func percentiles(p survey.HistoryPoint, of string) string {
	read := survey.HistoryPoint.Wait
	if of == "run" {
		read = survey.HistoryPoint.Run
	}
	half, some := read(p, 0.5)
	if !some {
		return "–"
	}
	most, _ := read(p, 0.95)
	return short(half) + " / " + short(most)
}
