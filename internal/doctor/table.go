package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/survey"
)

// Bounds of what is read of a table.
const (
	maxHead   = 5000 // rows at the heads of all lanes together
	maxSample = 1000 // dead letters, rows of one key, and the like
	maxShown  = 5    // rows of a finding
)

// A table is one of the core, and what is known of its rows once they were looked at.
type table struct {
	survey.Facts

	heads     []survey.Head
	headsErr  error
	headsRead bool
	rates     *survey.Rates

	slow   int // statements that took too long
	last   error
	gaveUp error // why nobody looks at its rows any more
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

// readHeads reads the heads of all lanes, once.
func (x *examination) readHeads(ctx context.Context, t *table) ([]survey.Head, error) {
	if !t.headsRead {
		t.heads, t.headsErr = survey.Heads(ctx, x.reader(), &t.Facts, x.Thresholds.Expired)
		t.headsRead = true
		if len(t.heads) >= survey.MaxLanes {
			x.report.Skipped = append(x.report.Skipped, Skipped{Check: "lanes", Table: t.Name,
				Reason: fmt.Sprintf("there are more than %d combinations of %s: the rest was not looked at",
					survey.MaxLanes, strings.Join(t.LaneNames, " and "))})
		}
	}
	return t.heads, t.headsErr
}

// of names a lane, in words.
func (t *table) of(h survey.Head) string {
	if len(h.Lane) == 0 || len(t.LaneNames) == 0 {
		return t.Name
	}
	return fmt.Sprintf("%s, %s %s", t.Name, t.LaneNames[0], strings.Join(h.Lane, ", "))
}

const (
	ratesOver = time.Minute
	maxRate   = 20_000 // rows that are counted
)

// readRates reads what has happened in the last minute, once.
func (x *examination) readRates(ctx context.Context, t *table) (survey.Rates, error) {
	if t.rates == nil {
		r, err := survey.RatesOver(ctx, x.reader(), &t.Facts, ratesOver, maxRate)
		if err != nil {
			return survey.Rates{}, err
		}
		t.rates = &r
	}
	return *t.rates, nil
}
