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

// Bounds on what is read of a table.
const (
	maxHead   = 5000        // rows at the heads of all lanes together
	maxSample = 1000        // dead letters, rows of one key, and the like
	maxShown  = 5           // rows shown in a finding
	maxErrors = 2 * maxHead // rows that are read at the heads of all lanes together to find those with an error

	maxListed    = 20  // settings, indexes, limits, slots and sessions that wait
	maxSequences = 200 // sequences of the schema
)

// upTo says that a list of so many reached its bound, so that there may be more.
func upTo(n int, what string) gap {
	return gap{fmt.Sprintf("there are %d or more %s: the rest was not looked at", n, what),
		"mend those that are found, and look again"}
}

// listed reads findings from a list of the catalog or the server, whose last parameter is how many are read, and says
// if there may be more.
func listed[T any](ctx context.Context, x *examination, file, what string, args ...any) ([]T, error) {
	list, err := readRows[T](ctx, x, file, nil, append(args, maxListed)...)
	if err == nil && len(list) >= maxListed {
		x.skip(ctx, x.current.code, "", upTo(maxListed, what))
	}
	return list, err
}

// A table is a table of the core, with what is known of its rows after they were examined.
type table struct {
	survey.Facts

	heads     []survey.Head
	headsErr  error
	headsRead bool
	rules     map[string]survey.QueueRule // once they were read
	long      time.Duration               // what Head.Long counts
	rates     *survey.Rates
	aside     *asideTopics
	suspects  *suspects
	owed      *owedSchedules

	FiresAlarms bool // alarms fire by its rows

	slow   int // number of statements that took too long
	last   error
	gaveUp error // why its rows are no longer examined
}

// maxSlow is how many statements may time out before a table is given up.
const maxSlow = 2

// note records an error that kept a check from examining the table. The same error is not counted twice.
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
		t.heads, t.headsErr = survey.Heads(ctx, x.reader(), &t.Facts, survey.Asked{Expired: x.Thresholds.Expired,
			Long: x.Thresholds.Backlog, Within: x.Thresholds.Running})
		t.headsRead, t.long = true, x.Thresholds.Backlog
	}
	if len(t.heads) >= survey.MaxLanes {
		x.skip(ctx, x.current.code, t.Name, gap{fmt.Sprintf("there are %d or more combinations of %s: the rest was not "+
			"looked at", survey.MaxLanes, strings.Join(t.LaneNames, " and ")), ""})
	}
	return t.heads, t.headsErr
}

// of describes a lane.
func (t *table) of(h survey.Head) string {
	if len(h.Lane) == 0 || len(t.LaneNames) == 0 {
		return t.Name
	}
	return t.Name + ", " + t.lane(h.Lane, 0)
}

const (
	ratesOver = time.Minute
	maxRate   = 20_000 // number of rows that are counted at most
)

// readRates reads the rates of the last minute, once.
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
