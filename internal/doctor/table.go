package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Bounds of what is read of a table.
const (
	maxLanes  = 100  // combinations of lanes
	maxHead   = 5000 // rows at the heads of all lanes together
	maxSample = 1000 // dead letters, rows of one key, and the like
	maxShown  = 5    // rows of a finding
)

// A table is one of the core, as the catalog has it.
type table struct {
	schema string

	// Of the catalog and the statistics.
	name         string
	filtered     bool // by row-level security
	columns      []string
	lanes, types []string // columns that a claim names the values of
	retention    *float64
	live         float64 // rows in the claim index, as estimated when that was last looked at
	indexed      bool    // it has a valid claim index
	options      []string
	dead         int64
	threshold    float64 // dead rows at which autovacuum comes
	vacuumed     *float64
	vacuuming    bool
	bytes        int64
	deletes      bool // what is done

	// Of its rows, once they were looked at.
	heads     []head
	headsErr  error
	headsRead bool
	rates     *rates

	slow   int // statements that took too long
	last   error
	gaveUp error // why nobody looks at its rows any more
}

func scanTable(row pgx.CollectableRow) (*table, error) {
	t := &table{}
	err := row.Scan(&t.name, &t.filtered, &t.columns, &t.lanes, &t.types, &t.retention, &t.live, &t.indexed,
		&t.options, &t.dead, &t.threshold, &t.vacuumed, &t.vacuuming, &t.bytes, &t.deletes)
	return t, err
}

// maxSlow is how many statements may take too long before a table is given up.
const maxSlow = 2

// note remembers what has kept a check from looking. An error that a later check has met before does not count again.
func (t *table) note(err error) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return
	}
	if pg.Code == "57014" && err != t.last {
		t.slow++
	}
	t.last = err
	if pg.Code == "55P03" || t.slow >= maxSlow {
		t.gaveUp = err
	}
}

func (t *table) has(column string) bool { return slices.Contains(t.columns, column) }

// label is the column that says what a row is about; empty without one.
func (t *table) label() string {
	for _, column := range []string{"kind", "topic"} {
		if t.has(column) {
			return column
		}
	}
	return ""
}

// schedule tells a table of schedules.
func (t *table) schedule() bool { return t.has("next_at") && t.has("expr") }

// What the templates see.

func (t *table) Table() string { return pgx.Identifier{t.schema, t.name}.Sanitize() }

// Q is the qualified name of something that belongs to the table.
func (t *table) Q(suffix string) string { return pgx.Identifier{t.schema, t.name + suffix}.Sanitize() }

// Lane is one of the columns that a claim names the values of.
type Lane struct{ Quoted, Alias, Type string }

func (t *table) Lanes() (all []Lane) {
	for i, name := range t.lanes {
		lane := Lane{Quoted: pgx.Identifier{name}.Sanitize(), Alias: fmt.Sprintf("c%d", i)}
		if i < len(t.types) {
			lane.Type = t.types[i]
		}
		all = append(all, lane)
	}
	return all
}

// Label is an expression for what a row r is about.
func (t *table) Label() string {
	if l := t.label(); l != "" {
		return "r." + pgx.Identifier{l}.Sanitize() + "::text"
	}
	return "''"
}

func (t *table) MaxLanes() int { return maxLanes }

// MaxHead is how many rows of each lane are read.
func (t *table) MaxHead() int { return maxHead }

// A head is the beginning of one lane in the claim index: the rows that are due, the oldest first.
type head struct {
	Lane          []string
	Seen          int64
	Ready         int64
	Running       int64
	Expired       int64   // whose lease ended longer ago than the threshold
	OldestReady   float64 // in seconds
	OldestExpired float64
}

// readHeads reads the heads of all lanes, once.
func (x *examination) readHeads(ctx context.Context, t *table) ([]head, error) {
	if !t.headsRead {
		t.heads, t.headsErr = readRows[head](ctx, x, "heads", t, x.Thresholds.Expired.Seconds())
		t.headsRead = true
		if len(t.heads) >= maxLanes {
			x.report.Skipped = append(x.report.Skipped, Skipped{Check: "lanes", Table: t.name,
				Reason: fmt.Sprintf("there are more than %d combinations of %s: the rest was not looked at", maxLanes, strings.Join(t.lanes, " and "))})
		}
	}
	return t.heads, t.headsErr
}

// byFirst adds up the heads by the first column of the lane: priorities of a queue are one queue's.
func byFirst(heads []head) (all []head) {
	for _, h := range heads {
		if len(h.Lane) > 1 {
			h.Lane = h.Lane[:1]
		}
		i := slices.IndexFunc(all, func(o head) bool { return slices.Equal(o.Lane, h.Lane) })
		if i < 0 {
			all = append(all, h)
			continue
		}
		o := &all[i]
		o.Seen, o.Ready, o.Running, o.Expired = o.Seen+h.Seen, o.Ready+h.Ready, o.Running+h.Running, o.Expired+h.Expired
		o.OldestReady, o.OldestExpired = max(o.OldestReady, h.OldestReady), max(o.OldestExpired, h.OldestExpired)
	}
	return all
}

// of names a lane, in words.
func (t *table) of(h head) string {
	if len(h.Lane) == 0 || len(t.lanes) == 0 {
		return t.name
	}
	return fmt.Sprintf("%s, %s %s", t.name, t.lanes[0], strings.Join(h.Lane, ", "))
}

// rates are what has happened in the last minute, as far as indexes tell.
type rates struct {
	Arrived int64 // rows whose id is of this minute
	Ended   int64
}

const (
	ratesOver = time.Minute
	maxRate   = 20_000 // rows that are counted
)

func (x *examination) readRates(ctx context.Context, t *table) (rates, error) {
	if t.rates == nil {
		all, err := readRows[rates](ctx, x, "rates", t, ratesOver.Seconds(), maxRate)
		if err != nil {
			return rates{}, err
		}
		t.rates = &all[0]
	}
	return *t.rates, nil
}
