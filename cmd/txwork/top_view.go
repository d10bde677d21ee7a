package main

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"github.com/txwork/txwork/internal/postgres"
)

// A style is how a line looks on a terminal.
type style int

const (
	plain style = iota
	bold
	warning
	alarm
	reverse
)

// A styledLine is one line of the screen.
type styledLine struct {
	text  string
	style style
	item  string // the item that the cursor can stand on; empty if there is none
}

// topWidth is the width of a frame that is not printed to a terminal.
const topWidth = 80

// A topColumn is a column of a topTable.
type topColumn struct {
	head   string
	left   bool // left-aligned; otherwise right-aligned
	grows  bool // takes the width that the other columns leave
	beside bool // shown only if all other columns fit
	prose  bool // not a name: texts that are cut may look alike
}

// A topTable is rows under a header.
type topTable struct {
	title   string
	columns []topColumn
	rows    []topRow
	none    string // shown if there are no rows
	rest    topRest
	notes   []string // what is said of rows below them
}

type topRow struct {
	cells []string
	style style
	item  string
}

// lines lays out the table. Columns that grow are cut to the available width.
func (t topTable) lines(width int) []styledLine {
	lines := []styledLine{{text: ""}, {text: fit(t.title, width), style: bold}}
	if len(t.rows) == 0 {
		none := t.none
		if t.rest.AtLeast {
			none = "none among what was read"
		}
		return append(lines, styledLine{text: fit("  "+none, width)})
	}
	shown, widths := t.layout(width - 2)
	gap := gapOf(width)
	fitted := map[int][]string{}
	for _, i := range shown {
		column := make([]string, len(t.rows))
		for n, r := range t.rows {
			column[n] = r.cells[i]
		}
		fitted[i] = fitAll(column, widths[i], !t.columns[i].prose)
	}
	line := func(cell func(column int) string) string {
		var b strings.Builder
		for n, i := range shown {
			if n > 0 {
				b.WriteString(strings.Repeat(" ", gap))
			}
			text := cell(i)
			pad := strings.Repeat(" ", widths[i]-uniseg.StringWidth(text))
			if t.columns[i].left {
				text += pad
			} else {
				text = pad + text
			}
			b.WriteString(text)
		}
		return strings.TrimRight(b.String(), " ")
	}
	head := line(func(i int) string { return fit(t.columns[i].head, widths[i]) })
	lines = append(lines, styledLine{text: fit("  "+head, width), style: bold})
	for n, r := range t.rows {
		text := line(func(i int) string { return fitted[i][n] })
		lines = append(lines, styledLine{fit("  "+text, width), r.style, r.item})
	}
	if rest := t.rest.String(); rest != "" {
		lines = append(lines, styledLine{text: fit("  "+rest, width)})
	}
	for _, note := range t.notes {
		lines = append(lines, styledLine{text: fit("  "+note, width), style: warning})
	}
	return lines
}

// String tells how many others there are; it is empty if there are none.
func (r topRest) String() string {
	switch {
	case r.Number > 0:
		return "and " + brief(r.Number, r.AtLeast) + " more"
	case r.AtLeast:
		return "and perhaps others: not everything was read"
	}
	return ""
}

func gapOf(width int) int {
	if width < 120 {
		return 1
	}
	return 2
}

// layout returns the columns that are shown, and their widths.
func (t topTable) layout(width int) (shown []int, widths []int) {
	widths = make([]int, len(t.columns))
	total, gap := -gapOf(width+2), gapOf(width+2)
	for i, c := range t.columns {
		widths[i] = uniseg.StringWidth(c.head)
		for _, r := range t.rows {
			widths[i] = max(widths[i], uniseg.StringWidth(r.cells[i]))
		}
		if !c.beside {
			total += widths[i] + gap
		}
	}
	for i, c := range t.columns {
		if c.beside {
			if total+widths[i]+gap > width {
				continue
			}
			total += widths[i] + gap
		}
		shown = append(shown, i)
	}
	const least = 8
	for ; total > width; total-- {
		widest := -1
		for _, i := range shown {
			if t.columns[i].grows && widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break // the lines are cut instead
		}
		widths[widest]--
	}
	return shown, widths
}

// fit cuts a text to a width, in the columns of a terminal.
func fit(s string, width int) string {
	if uniseg.StringWidth(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	var b strings.Builder
	used := 0
	for g := uniseg.NewGraphemes(s); g.Next(); {
		if used+g.Width() > width-1 {
			break
		}
		b.WriteString(g.Str())
		used += g.Width()
	}
	return b.String() + "…"
}

// markWidth is how much of a name that is cut tells it apart from others.
const markWidth = 6

// fitAll cuts texts to a width. If they are names, different ones that would look alike then get a number at their end,
// which is the same for the same name, where there is room for it.
func fitAll(texts []string, width int, areNames bool) []string {
	of, alike := map[string]string{}, map[string]bool{}
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = fit(text, width)
		if other, seen := of[all[i]]; seen && other != text {
			alike[all[i]] = true
		}
		of[all[i]] = text
	}
	if !areNames || width < 2*markWidth {
		return all
	}
	for i, text := range texts {
		if alike[all[i]] && all[i] != text {
			h := fnv.New32a()
			h.Write([]byte(text))
			all[i] = fit(text, width-markWidth) + fmt.Sprintf("%0*x", markWidth, h.Sum32()&0xffffff)
		}
	}
	return all
}

// lines returns the whole frame, whatever the height of the screen.
func (f *topFrame) lines(width int) []styledLine {
	title := fmt.Sprintf("txwork top  schema %s of database %s  %s  (%s)", f.Schema, harmless(f.Database),
		f.At.Format("15:04:05Z"), rough(seconds(f.Took)))
	lines := []styledLine{{text: fit(title, width), style: bold}}
	tables := []topTable{f.queueTable(), f.leaseTable(), f.sessionTable(), f.errorTable()}
	if len(f.Topics) > 0 {
		tables = slices.Insert(tables, 1, f.topicTable())
	}
	for i := range f.Logs {
		tables = slices.Insert(tables, 1+i, logTable(&f.Logs[i]))
	}
	for _, t := range tables {
		lines = append(lines, t.lines(width)...)
	}
	for i, s := range f.Skipped {
		if i == 0 {
			lines = append(lines, styledLine{})
		}
		lines = append(lines, styledLine{text: fit("not read: "+s.What+": "+s.Reason, width), style: warning})
	}
	return lines
}

func seconds(s float64) time.Duration { return postgres.Seconds(s) }

func (f *topFrame) queueTable() topTable {
	t := topTable{title: "QUEUES", none: "no table has a row", rest: f.More.Queues}
	t.columns = []topColumn{
		{head: "NAME", left: true, grows: true}, {head: "READY"}, {head: "SCHED"}, {head: "RUN"}, {head: "EXPIR"},
		{head: "WAIT"}, {head: "DEAD"},
		{head: "IN/s"}, {head: "CLAIM/s"}, {head: "OUT/s"}, {head: "OLDEST"}, {head: "RUNS", beside: true},
		{head: "DEAD 1H", beside: true}, {head: "WAITING FOR", beside: true},
		{head: "RULES", left: true, beside: true},
	}
	for _, q := range f.Queues {
		t.rows = append(t.rows, q.row())
	}
	return t
}

func (q topQueue) row() topRow {
	name := "  " + dashedName(q.Name)
	if q.Of != nil {
		name = q.Table
	}
	if q.Paused {
		name += " (paused)"
	}
	count := func(n int64) string { return brief(n, q.AtLeast) }
	oldest := "-"
	if q.Ready > 0 {
		oldest = rough(seconds(q.OldestReady))
	}
	runs := "-"
	if q.Longest > 0 {
		runs = rough(seconds(q.Longest))
	}
	cells := []string{name, count(q.Ready), brief(q.Scheduled, q.MoreLater), count(q.InProgress), count(q.Expired)}
	if w := q.Of; w != nil {
		cells = append(cells, brief(w.Waiting, w.MoreWaiting), brief(w.DeadLetters, w.MoreDead))
		since := "-"
		if w.Waiting > 0 {
			since = rough(seconds(w.OldestWaiting))
		}
		cells = append(cells, perSecond(&w.Arrived, w.MoreArrived), perSecond(w.Claimed, w.MoreSettled),
			perSecond(w.Settled, w.MoreSettled), oldest, runs, brief(w.RecentDead, w.MoreRecent), since, "")
	} else {
		cells = append(cells, "", "", "", "", "", oldest, runs, "", "", q.rules())
	}
	r := topRow{cells: cells, item: q.key()}
	switch {
	case q.Expired > 0:
		r.style = alarm
	case q.Overdue > 0 || q.Paused && q.Ready > 0:
		r.style = warning
	}
	return r
}

func (q topQueue) rules() string {
	var all []string
	if q.MaxRunning > 0 {
		all = append(all, fmt.Sprintf("max %d", q.MaxRunning))
	}
	if q.Rate > 0 {
		all = append(all, strconv.FormatFloat(q.Rate, 'g', -1, 64)+"/s")
	}
	return strings.Join(all, ", ")
}

// key identifies the line on the screen.
func (q topQueue) key() string { return "queue " + q.Table + " " + q.By + " " + q.Name }

func (f *topFrame) leaseTable() topTable {
	t := topTable{title: "LEASES, the first to expire", none: "no row is in progress", rest: f.More.Leases}
	known := slices.ContainsFunc(f.Leases, func(l topLease) bool { return l.Process != nil })
	t.columns = []topColumn{
		{head: "TABLE", left: true}, {head: "ABOUT", left: true, grows: true}, {head: "ROWS"}, {head: "EXPIR"},
		{head: "RUNS", beside: true}, {head: "LEASE", left: true},
		{head: "OWNER TOKEN", left: true, grows: !known, beside: known},
	}
	if known {
		t.columns = slices.Insert(t.columns, 6, topColumn{head: "PROCESS", left: true, grows: true})
	}
	for _, l := range f.Leases {
		runs := "-"
		if l.Longest > 0 {
			runs = rough(seconds(l.Longest))
		}
		r := topRow{cells: []string{l.Table, dashedName(l.About), brief(l.Rows, l.AtLeast), brief(l.Expired, l.AtLeast),
			runs, lease(l.Ends), l.Owner}}
		if known {
			r.cells = slices.Insert(r.cells, 6, briefHolder(l.Process))
		}
		if l.Expired > 0 {
			r.style = alarm
		}
		t.rows = append(t.rows, r)
	}
	return t
}

func lease(ends float64) string {
	if ends < 0 {
		return "expired " + rough(seconds(-ends)) + " ago"
	}
	return "ends in " + rough(seconds(ends))
}

func (f *topFrame) sessionTable() topTable {
	t := topTable{title: "SESSIONS of the database, by program", none: "nobody is connected", rest: f.More.Sessions}
	t.columns = []topColumn{
		{head: "APPLICATION", left: true, grows: true}, {head: "ROLE", left: true, grows: true},
		{head: "CLIENT", left: true}, {head: "CONNS"}, {head: "ACTIVE"}, {head: "IN TX"},
		{head: "LOCKED"}, {head: "OLDEST TX"}, {head: "SEEN", left: true},
	}
	for _, s := range f.Sessions {
		client, oldest := s.Client, "-"
		if client == "" {
			client = "local"
		}
		if s.OldestTransaction > 0 {
			oldest = rough(seconds(s.OldestTransaction))
		}
		r := topRow{cells: []string{dashedName(s.Application), dashedName(s.Role), client, brief(s.Sessions, false),
			brief(s.Active, false), brief(s.InTransaction, false),
			brief(s.Waiting, false), oldest, rough(max(seconds(s.Silent), 0)) + " ago"}}
		if s.Waiting > 0 {
			r.style = warning
		}
		t.rows = append(t.rows, r)
	}
	return t
}

func (f *topFrame) errorTable() topTable {
	t := topTable{title: "ERRORS of the last hour, by kind or topic", none: "nothing has failed", rest: f.More.Errors}
	t.columns = []topColumn{
		{head: "TABLE", left: true}, {head: "ABOUT", left: true, grows: true}, {head: "DEAD"}, {head: "RETRY"},
		{head: "LATEST"}, {head: "ERROR", left: true, grows: true, prose: true},
	}
	for _, e := range f.Errors {
		latest := "-"
		if e.Failed > 0 {
			latest = rough(seconds(e.Latest)) + " ago"
		}
		t.rows = append(t.rows, topRow{item: e.key(), cells: []string{e.Table, dashedName(e.Name),
			brief(e.Failed, e.AtLeast),
			brief(e.Retrying, e.MoreLive), latest, harmless(e.Error)}})
	}
	return t
}

func (e topError) key() string { return "error " + e.Table + " " + e.Name + " " + e.Error }

// dashedName returns a name in full, or a dash if it is empty.
func dashedName(name string) string {
	if name == "" {
		return "-"
	}
	return named(name)
}

// brief formats a number in at most five characters, with a + if there may be more.
func brief(n int64, more bool) string {
	var text string
	switch {
	case n < 10_000:
		text = strconv.FormatInt(n, 10)
	case n < 10_000_000:
		text = strconv.FormatInt(n/1000, 10) + "k"
	default:
		text = strconv.FormatInt(n/1_000_000, 10) + "M"
	}
	if more {
		text += "+"
	}
	return text
}

// perSecond formats a rate, or a dash if it is not known yet.
func perSecond(rate *float64, more bool) string {
	switch {
	case rate == nil:
		return "-"
	case *rate == 0:
		return "0"
	case *rate < 10:
		return strconv.FormatFloat(*rate, 'f', 1, 64)
	}
	return brief(int64(math.Round(*rate)), more)
}
