package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/internal/survey"
)

// Bounds on what is read of a table.
const (
	maxHead   = 5000 // alarms and dead letters, and rows at the heads of all lanes together
	maxSample = 1000 // dead letters, rows of one key, and the like
	maxShown  = 5    // rows shown in a finding
	maxLater  = 500  // rows of all lanes together that become due next

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

	read  *read
	rules map[string]survey.QueueRule // once they were read
	long  time.Duration               // what Head.Long counts
	rates *survey.Rates
	aside *asideTopics
	owed  *owedSchedules

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

// A read is what was read once of the rows of a table, for all checks that look at them.
type read struct {
	Heads     []survey.Head
	Expired   []expiredClaim
	Deadly    []deadly
	Unhandled []unhandled
	Lanes     int64
	MoreDead  bool // there are more dead letters than were looked at
	most      int  // due rows of all lanes together
	err       error
}

// Most is how many due rows of all lanes together are read, for the template.
func (t *table) Most() int { return t.MaxRunning() }

// readRows reads the rows of a table, once. If there is no time for all due rows, it reads fewer.
func (x *examination) readRows(ctx context.Context, t *table) *read {
	if t.read != nil {
		return t.read
	}
	of := *t
	of.HeadRows, of.DueRows = maxLater, survey.RunningRows
	r, err := x.readRowsOf(ctx, &of)
	if pg, is := errors.AsType[*pgconn.PgError](err); is && pg.Code == "57014" {
		of.DueRows = maxLater
		r, err = x.readRowsOf(ctx, &of)
	}
	t.read, t.long = r, x.Thresholds.Backlog
	r.most, r.err = of.DueRows, err
	return r
}

func (x *examination) readRowsOf(ctx context.Context, t *table) (*read, error) {
	var r read
	return &r, x.read(ctx, func(tx pgx.Tx) error {
		row := tx.QueryRow(ctx, sqltext.Statement(templates, "rows", t), deadlyFrom, deadLettersOf.Seconds(), maxSample,
			maxSample, x.Thresholds.Unserved.Seconds(), x.Thresholds.Expired.Seconds(), x.Thresholds.Backlog.Seconds(),
			x.Thresholds.Running.Seconds(), maxShown)
		return row.Scan(&r.Heads, &r.Expired, &r.Deadly, &r.Unhandled, &r.Lanes, &r.MoreDead)
	})
}

// readHeads returns the heads of all lanes.
func (x *examination) readHeads(ctx context.Context, t *table) ([]survey.Head, error) {
	r := x.readRows(ctx, t)
	if r.Lanes >= survey.MaxLanes {
		x.skip(ctx, x.current.code, t.Name, gap{fmt.Sprintf("there are %d or more combinations of %s: the rest was not "+
			"looked at", survey.MaxLanes, strings.Join(t.LaneNames, " and ")), ""})
	}
	return r.Heads, r.err
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
