package survey

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/history"
)

// A HistoryRange is which history to read.
type HistoryRange struct {
	Tables []string // without their schema
	Lane   *string  // nil: all lanes
	Length time.Duration
	Step   time.Duration // whole minutes; the points of a range are so far apart
	Hours  bool          // read hours instead of minutes
	Now    bool          // also the last step, which is not complete
}

// A HistoryPoint is what happened in one step, as far as somebody maintained the table.
type HistoryPoint struct {
	At                                                     time.Time
	Known                                                  bool // otherwise this is a gap
	Done, Retried, Dead, Snoozed, Cancelled, Lost, Expired int64
	Enqueued                                               *int64 // nil: not known
	Waits, Runs                                            []int64
}

// A HistoryLine is the points of a lane, the oldest first, and all of them in one.
type HistoryLine struct {
	Table, Lane string // the lane is empty for the whole table
	Points      []HistoryPoint
	All         HistoryPoint // At is the begin of the range
}

// Rates are how many rows of the line were claimed in a second, and how many ended, in the minutes or hours that are
// known.
func (l HistoryLine) Rates() (claimed, ended float64, known bool) {
	seconds := 0.0
	for i, p := range l.Points {
		if p.Known && i+1 < len(l.Points) {
			seconds += l.Points[i+1].At.Sub(p.At).Seconds()
		} else if p.Known && i > 0 {
			seconds += p.At.Sub(l.Points[i-1].At).Seconds()
		}
	}
	if seconds == 0 {
		return 0, 0, false
	}
	return float64(l.All.Claimed()) / seconds, float64(l.All.Done+l.All.Dead+l.All.Cancelled) / seconds, true
}

// Claimed is how many rows handlers have begun with.
func (p HistoryPoint) Claimed() int64 { return history.Sum(p.Waits) }

// A historyRow is one of the table, or several of a lane added up. The first has no table.
type historyRow struct {
	Upto                                                   time.Time
	Table, Lane                                            *string
	At                                                     *time.Time
	Done, Retried, Dead, Snoozed, Cancelled, Lost, Expired int64
	Enqueued                                               *int64
	Waits, Runs                                            []int64
	Stored                                                 int64 // how many rows of the table it is
	Longest                                                int   // the most buckets of one of those that are added up
}

// History reads the lines of a range, by table and lane, those of whole tables first. There is none if the schema has
// no history, or the role may not read it. cut tells that the oldest rows were left out.
func History(ctx context.Context, r Reader, schema string, h HistoryRange) (lines []HistoryLine, cut bool, err error) {
	table, readable, err := historyTable(ctx, r, schema)
	if err != nil || !readable {
		return nil, false, err
	}
	stored := time.Minute
	if h.Hours {
		stored = time.Hour
	}
	of := struct {
		Table   string
		Buckets int // how many are added up
	}{Table: table}
	if h.Step == h.Length {
		used, err := one[struct{ Buckets int }](ctx, r, "history_buckets", table, h.Tables, int64(h.Length.Seconds()),
			int(stored.Seconds()))
		if err != nil {
			return nil, false, err
		}
		of.Buckets = max(used.Buckets, 1)
		r.hashes = true
	}
	lanes := func() ([]historyRow, error) {
		return rows[historyRow](ctx, r, "history", of, h.Tables, h.Lane, int64(h.Length.Seconds()),
			int64(h.Step.Seconds()), h.Now, int(stored.Seconds()))
	}
	all, err := lanes()
	if of.Buckets > 0 && slices.ContainsFunc(all, func(row historyRow) bool { return row.Longest > of.Buckets }) {
		of.Buckets = history.Buckets // something was written between the two statements, or by another program
		all, err = lanes()
	}
	if err != nil || len(all) == 0 {
		return nil, false, err
	}
	read := int64(0)
	for _, row := range all {
		read += row.Stored
	}
	return h.lines(all), read >= 20_000, nil
}

// historyTable is the qualified name of the history, empty if the schema has none, and whether the role may read it.
func historyTable(ctx context.Context, r Reader, schema string) (table string, readable bool, err error) {
	table = pgx.Identifier{schema, "history"}.Sanitize()
	all, err := Rows[struct{ Is *bool }](ctx, r, "SELECT has_table_privilege(to_regclass($1::text), 'SELECT')", table)
	if err != nil || all[0].Is == nil {
		return "", false, err
	}
	return table, *all[0].Is, nil
}

// An HourOfWeek is what happened in a lane in the hour from At, and in the same hour of the week before. The lane is
// empty for the whole table.
type HourOfWeek struct {
	Table, Lane                           string
	At                                    time.Time
	Done, Retried, Dead                   int64
	Waits, Runs                           []int64
	DoneBefore, RetriedBefore, DeadBefore int64
	WaitsBefore, RunsBefore               []int64
}

// MaxHoursOfWeek is how many [HoursOfWeek] returns at most.
const MaxHoursOfWeek = 5000

// HoursOfWeek reads the latest hour of which the history knows at least half an hour, where it knows the same hour of
// the week before. There is none if the schema has no history, or row-level security shows the role a part of it.
func HoursOfWeek(ctx context.Context, r Reader, schema string, tables []string) ([]HourOfWeek, error) {
	table, _, err := historyTable(ctx, r, schema)
	if err != nil || table == "" {
		return nil, err
	}
	return rows[HourOfWeek](ctx, r, "history_week", table, tables, MaxHoursOfWeek)
}

func (h HistoryRange) lines(all []historyRow) []HistoryLine {
	from := all[0].Upto.Add(-h.Length)
	type key struct{ table, lane string }
	lines := map[key]*HistoryLine{}
	for _, row := range all {
		if row.Table == nil {
			continue
		}
		k, at := key{*row.Table, *row.Lane}, int(row.At.Sub(from)/h.Step)
		line := lines[k]
		if line == nil {
			line = &HistoryLine{Table: k.table, Lane: k.lane, All: HistoryPoint{At: from, Known: true}}
			for t := from; t.Before(all[0].Upto); t = t.Add(h.Step) {
				line.Points = append(line.Points, HistoryPoint{At: t})
			}
			lines[k] = line
		}
		line.Points[at].add(row)
		line.All.add(row)
	}
	result := make([]HistoryLine, 0, len(lines))
	for k, line := range lines {
		if whole := lines[key{k.table, ""}]; whole != nil { // what happened in no lane is known, too
			for i := range line.Points {
				line.Points[i].Known = whole.Points[i].Known
			}
		}
		result = append(result, *line)
	}
	slices.SortFunc(result, func(a, b HistoryLine) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Lane, b.Lane))
	})
	return result
}

func (p *HistoryPoint) add(row historyRow) {
	p.Known = true
	p.Done, p.Retried, p.Dead = p.Done+row.Done, p.Retried+row.Retried, p.Dead+row.Dead
	p.Snoozed, p.Cancelled, p.Lost = p.Snoozed+row.Snoozed, p.Cancelled+row.Cancelled, p.Lost+row.Lost
	p.Expired += row.Expired
	if row.Enqueued != nil {
		n := *row.Enqueued
		if p.Enqueued != nil {
			n += *p.Enqueued
		}
		p.Enqueued = &n
	}
	p.Waits, p.Runs = history.Add(p.Waits, row.Waits), history.Add(p.Runs, row.Runs)
}

// Wait is the end of the bucket in which the share q of the waits ends, such as 0.95, and Run that of the runs.
func (p HistoryPoint) Wait(q float64) (time.Duration, bool) { return history.Percentile(p.Waits, q) }
func (p HistoryPoint) Run(q float64) (time.Duration, bool)  { return history.Percentile(p.Runs, q) }
