package reaper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/workqueue"
)

// Run maintains the tables until ctx ends, whenever it is elected; see the package documentation. It then
// gives up the leadership, which may take a few seconds if the database does not answer, and returns nil.
// Any other error is about the arguments, is a [workqueue.ErrInvalid] and comes at once: what goes wrong
// later is logged and tried again.
func Run(ctx context.Context, pool *pgxpool.Pool, tables []*workqueue.Table, o Options) error {
	r, err := newReaper(pool, tables, o)
	if err != nil {
		return err
	}
	defer r.resign(ctx)
	defer r.outages.Flush()
	defer r.registerGauges()()
	loop{interval: r.options.Interval, random: rand.Float64, logger: r.logger, turn: r.next,
		outage: r.noteOutage}.run(ctx)
	return nil
}

// RunOnce does one round and returns what it did.
//
// It takes part in the election: it works when nobody leads and gives the leadership back afterwards.
// While somebody else leads it does nothing, which is not an error: Report.Leader is false. So it may run
// beside [Run], and from cron on every machine.
//
// With an error the report tells what was done before it. If Report.More is set, there is more to do.
func RunOnce(ctx context.Context, pool *pgxpool.Pool, tables []*workqueue.Table, o Options) (Report, error) {
	r, err := newReaper(pool, tables, o)
	if err != nil {
		return Report{}, err
	}
	defer r.resign(ctx)
	report, _, err := r.turn(ctx)
	return report, err
}

// A reaper is one call of Run or RunOnce.
type reaper struct {
	pool      connections
	tables    []*workqueue.Table
	options   Options
	logger    *slog.Logger
	candidate candidate
	term      int64 // the last one in which it led; 0 while it does not
	outages   outage.Log
}

// noteOutage is told how a round or an observation ended. Outages are logged once, together with those of the runtime's
// workers where there is one; it tells whether the error is one.
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
	return &reaper{
		pool:      from,
		tables:    tables,
		options:   o,
		logger:    o.Logger.With("election", o.Name),
		candidate: newCandidate(from, o),
	}, nil
}

// turn stands for election and does a round if it is won. If not, ends tells when to stand again. A panic, as of one
// of the pool's hooks, is an error like any other: it must not end the program that the reaper runs in.
func (r *reaper) turn(ctx context.Context) (report Report, ends time.Duration, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("txwork: reaper: %w: %v\n%s", errPanicked, p, debug.Stack())
		}
	}()
	start := time.Now()
	result, err := r.candidate.stand(ctx)
	if err != nil {
		return Report{Tables: []TableReport{}}, 0, err
	}
	first := result.elected && result.term != r.term
	r.noteTerm(ctx, result)
	if !result.elected {
		return Report{Term: result.term, Tables: []TableReport{}}, result.ends, nil
	}
	round := round{candidate: r.candidate, pool: r.pool, options: r.options, term: result.term, renewed: start}
	report, err = round.run(ctx, r.tables)
	r.noteRound(ctx, report)
	if first {
		report.Unserved = r.unserved(ctx)
	}
	return report, 0, err
}

// next is a turn of the loop. Losing the leadership is no failure: the winner goes on.
func (r *reaper) next(ctx context.Context) (pace, error) {
	report, ends, err := r.turn(ctx)
	if errors.Is(err, ErrNotLeader) {
		r.noteTerm(ctx, result{})
		return pace{}, nil
	}
	if err != nil || report.Leader {
		return pace{again: report.More}, err
	}
	return pace{within: max(ends, MinInterval)}, nil
}

func (r *reaper) resign(ctx context.Context) {
	if err := r.candidate.resign(ctx); err != nil {
		r.logger.WarnContext(ctx, "reaper could not give up the leadership: others wait until its lease ends",
			"error", err, "lease", r.options.Lease)
	}
}

func (r *reaper) noteTerm(ctx context.Context, result result) {
	switch {
	case result.elected && result.term != r.term:
		r.term = result.term
		r.logger.InfoContext(ctx, "reaper leads", "term", r.term)
	case !result.elected && r.term != 0:
		r.logger.InfoContext(ctx, "reaper leads no longer", "term", r.term)
		r.term = 0
	}
}

func (r *reaper) noteRound(ctx context.Context, report Report) {
	for _, t := range report.Tables {
		if t.rows() > 0 {
			r.logger.InfoContext(ctx, "reaped", "table", t.Table, "requeued", t.Requeued, "failed", t.Failed,
				"purged_done", t.PurgedDone, "purged_failed", t.PurgedFailed, "swept", t.Swept, "took", t.Duration)
		}
	}
}
