package reaper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// Run maintains the tables until ctx ends, each while it is elected leader of it; see the package documentation. It
// then gives up the leadership, which may take a few seconds if the database does not answer, and returns nil.
//
// Run returns an error only for invalid arguments. It returns it at once, and it is a [workqueue.ErrInvalid]. Errors
// that occur later are logged, and the work is retried.
func Run(ctx context.Context, pool *pgxpool.Pool, tables []*workqueue.Table, o Options) error {
	r, err := newReaper(pool, tables, o)
	if err != nil {
		return err
	}
	r.patience = r.options.Lease
	defer r.resign(ctx, r.names)
	defer r.outages.Flush()
	defer r.registerGauges()()
	loop{interval: r.options.Interval, random: rand.Float64, logger: r.logger, turn: r.next,
		outage: r.noteOutage}.run(ctx)
	return nil
}

// RunOnce does one round and returns what it did.
//
// It takes part in the elections: it serves the tables that no other reaper leads, and gives the leadership back
// afterwards. It does nothing to tables that another reaper leads, which is not an error: TableReport.Leader is false.
// So it may run beside [Run], and from cron on every machine.
//
// A table that cannot be served, and a row that cannot be processed ([ErrSkipped]), do not keep the others from being
// served: the error names them. If RunOnce returns an error, the report says what was done nevertheless. If Report.More
// is set, there is more to do.
func RunOnce(ctx context.Context, pool *pgxpool.Pool, tables []*workqueue.Table, o Options) (Report, error) {
	r, err := newReaper(pool, tables, o)
	if err != nil {
		return Report{}, err
	}
	defer r.resign(ctx, r.names)
	report, lost, err := r.turn(ctx)
	if len(lost) > 0 {
		err = errors.Join(err, fmt.Errorf("%w of %s", ErrNotLeader, strings.Join(lost, ", ")))
	}
	if len(r.hidden) > 0 {
		err = errors.Join(err, fmt.Errorf("%w of %s", errHidden, strings.Join(r.hidden, ", ")))
	}
	return report, errors.Join(err, report.skippedError())
}

// A reaper is one call of Run or RunOnce.
type reaper struct {
	pool      connections
	tables    []*workqueue.Table
	names     []string // of the tables
	options   Options
	logger    *slog.Logger
	candidate candidate
	outages   outage.Log

	terms  map[string]int64     // the terms of the tables that it leads
	served map[string]time.Time // end of the last round that served the table in this term and left nothing to do
	ends   map[string]time.Time // for the other tables, when the lease of their leader ends

	failures map[string]int       // rounds in a row that failed for a reason of its own, see unable
	back     map[string]time.Time // until when it does not stand for a table, after it has resigned

	// since is when it began to lead. It looks for tables that no reaper serves once patience has passed, which gives
	// other reapers time to be elected. It looks again only if some tables have never had a row.
	since    time.Time
	patience time.Duration
	looked   bool
	warned   []string // the tables that it has warned about

	chronicles map[string]*chronicle // by schema

	standby bool     // it has said that it waits for another leader
	hidden  []string // the tables for which its role does not stand, see elect.sql
}

// noteOutage notes how a round or an observation ended, and reports whether err is an outage. An outage is logged once,
// and only once for the workers and the reaper of a runtime together.
func (r *reaper) noteOutage(err error) bool {
	switch {
	case err != nil && !isOutage(err):
		return false
	case r.options.Runtime != nil:
		return r.options.Runtime.NoteOutage(r.logger, err)
	case err == nil:
		r.outages.Succeeded(r.logger, r)
		return false
	}
	r.outages.Failed(r.logger, r, err)
	return true
}

func newReaper(pool *pgxpool.Pool, tables []*workqueue.Table, o Options) (*reaper, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := validateTargets(pool, tables); err != nil {
		return nil, err
	}
	var from connections = pool
	if o.Runtime != nil {
		from = o.Runtime
	}
	r := &reaper{
		pool:       from,
		tables:     tables,
		options:    o,
		logger:     o.Logger.With("schema", o.Schema),
		candidate:  newCandidate(from, o),
		terms:      map[string]int64{},
		served:     map[string]time.Time{},
		ends:       map[string]time.Time{},
		failures:   map[string]int{},
		back:       map[string]time.Time{},
		chronicles: map[string]*chronicle{},
	}
	for _, table := range tables {
		r.names = append(r.names, table.Name())
	}
	return r, nil
}

// turn stands for election for every table, and serves the tables that it leads and that are due. It returns the tables
// whose leadership it lost meanwhile.
func (r *reaper) turn(ctx context.Context) (report Report, lost []string, err error) {
	defer contained(&err)
	start := time.Now()
	stands := r.stands(start)
	standings, err := r.candidate.stand(ctx, stands)
	if err != nil {
		return Report{Tables: []TableReport{}}, nil, err
	}
	r.noteTerms(ctx, stands, standings)
	round := round{candidate: r.candidate, pool: r.pool, options: r.options, terms: r.due(start), renewed: start,
		unable: map[string]error{}}
	report, err = round.run(ctx, r.tables, standings)
	r.noteRound(ctx, report, round.complete)
	r.lose(ctx, round.lost)
	r.keepHistory(ctx, report)
	r.judge(ctx, report, &round)
	if err == nil && r.looks() {
		report.Unserved = r.unserved(ctx)
	}
	return report, round.lost, err
}

// due returns the terms of the tables that it leads and that have not been served for almost an interval. A turn may
// come earlier than that, because some tables have more rows to do or the lease of another leader ends. It then skips
// the tables that the previous turn has served.
func (r *reaper) due(now time.Time) map[string]int64 {
	due := map[string]int64{}
	for table, term := range r.terms {
		if served, ok := r.served[table]; !ok ||
			now.Sub(served) >= time.Duration((1-jitter)*float64(r.options.Interval)) {
			due[table] = term
		}
	}
	return due
}

// next runs a turn for the loop. Losing the leadership is not a failure, because the new leader continues the work.
func (r *reaper) next(ctx context.Context) (pace, error) {
	report, _, err := r.turn(ctx)
	if err != nil {
		return pace{again: report.More}, err
	}
	return pace{again: report.More, within: r.within(time.Now())}, nil
}

// within returns how soon there is something to do: a table that it leads is due, or the lease of another leader ends.
func (r *reaper) within(now time.Time) time.Duration {
	within := r.options.Interval
	for _, table := range r.names {
		if _, leads := r.terms[table]; leads {
			within = min(within, r.served[table].Add(r.options.Interval).Sub(now))
		} else {
			within = min(within, r.ends[table].Sub(now))
		}
	}
	return max(within, MinInterval)
}

func (r *reaper) resign(ctx context.Context, tables []string) {
	if err := r.candidate.resign(ctx, tables); err != nil {
		r.logger.WarnContext(ctx, "reaper could not give up the leadership: others wait until its lease ends",
			"error", err, "lease", r.options.Lease)
	}
}

// noteTerms notes which tables it leads, and when the leases of other leaders end.
func (r *reaper) noteTerms(ctx context.Context, stands []string, standings map[string]standing) {
	now, gained, waits := time.Now(), map[string]int64{}, time.Duration(0)
	var lost, hidden []string
	for _, table := range stands {
		s, term := standings[table], r.terms[table]
		switch {
		case s.Elected && s.Term != term:
			gained[table], r.terms[table] = s.Term, s.Term
			delete(r.served, table)
		case s.Hidden:
			r.ends[table] = now.Add(r.options.Interval)
			hidden = append(hidden, table)
			if term != 0 {
				lost = append(lost, table)
			}
		case !s.Elected:
			left := postgres.Seconds(s.Seconds)
			r.ends[table], waits = now.Add(left), max(waits, left)
			if term != 0 {
				lost = append(lost, table)
			}
		}
	}
	r.lose(ctx, lost)
	if len(hidden) > 0 && !slices.Equal(hidden, r.hidden) {
		r.logger.WarnContext(ctx, "reaper does not stand for some tables: row-level security hides rows of them from "+
			"its role; run a reaper as the owner of the tables or as a role with BYPASSRLS", "tables", hidden)
	}
	r.hidden = hidden
	if len(gained) > 0 {
		r.logger.InfoContext(ctx, "reaper leads", "terms", gained)
	}
	if r.since.IsZero() && len(r.terms) > 0 {
		r.since = now
	}
	if waits > 0 && !r.standby {
		// After a crash of the only reaper, nothing else tells why maintenance has not begun yet.
		r.logger.InfoContext(ctx, "reaper stands by: another reaper leads until its lease ends", "lease_ends_in", waits)
	}
	r.standby = waits > 0
}

// lose notes that it no longer leads some tables.
func (r *reaper) lose(ctx context.Context, tables []string) {
	if len(tables) == 0 {
		return
	}
	for _, table := range tables {
		delete(r.terms, table)
	}
	r.logger.InfoContext(ctx, "reaper leads no longer", "tables", tables)
}

// looks reports whether it is time to look for tables that no reaper serves.
func (r *reaper) looks() bool {
	if r.looked || len(r.terms) == 0 || time.Since(r.since) < r.patience {
		return false
	}
	r.looked = true
	return true
}

// looksAgain schedules another look, because the tables of a new deployment are empty at first.
func (r *reaper) looksAgain() {
	r.looked, r.since, r.patience = false, time.Now(), intervalsToLook*r.options.Interval
}

// intervalsToLook is the number of intervals between two looks.
const intervalsToLook = 10

// noteRound logs what a round did. Tables that a complete round served to the end are served again after an interval.
func (r *reaper) noteRound(ctx context.Context, report Report, complete bool) {
	for _, t := range report.Tables {
		if t.rows() > 0 {
			r.logger.InfoContext(ctx, "reaped", "table", t.Table, "requeued", t.Requeued, "failed", t.Failed,
				"purged_done", t.PurgedDone, "purged_failed", t.PurgedFailed, "swept", t.Swept, "took", t.Duration)
		}
		if complete && t.Error == "" && !t.More && t.served {
			r.served[t.Table] = time.Now()
		} else if t.served {
			delete(r.served, t.Table)
		}
	}
}
