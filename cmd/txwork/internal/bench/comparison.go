package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/txwork/txwork/jobs"
)

// A Comparison is the same work in a table without and with rows that it has to get past.
type Comparison struct {
	Without              Side    `json:"without"`                 // the side without the rows in the way
	With                 Side    `json:"with"`                    // the side with the rows in the way
	BuffersPerClaimRatio float64 `json:"buffers_per_claim_ratio"` // ratio of with to without
	BuffersPerJobRatio   float64 `json:"buffers_per_job_ratio"`   // ratio of with to without
	JobsPerSecondRatio   float64 `json:"jobs_per_second_ratio"`   // ratio of with to without
}

// A Side is one of the two.
type Side struct {
	JobsPerSecond float64 `json:"jobs_per_second"` // over the whole drain
	// BuffersPerClaim is how many pages the server looks at to claim a hundred jobs from the start of the queue.
	BuffersPerClaim float64 `json:"buffers_per_claim"`
	// BuffersPerJob counts everything that a worker does meanwhile in the table and its indexes: claims, acks,
	// and looks at what cannot be claimed.
	BuffersPerJob float64 `json:"buffers_per_job"`
}

// claimSample is how many jobs the claim takes whose page reads are counted.
const claimSample = 100

func compare(without, with Side) *Comparison {
	return &Comparison{
		Without: without, With: with,
		BuffersPerClaimRatio: ratio(with.BuffersPerClaim, without.BuffersPerClaim),
		BuffersPerJobRatio:   ratio(with.BuffersPerJob, without.BuffersPerJob),
		JobsPerSecondRatio:   ratio(with.JobsPerSecond, without.JobsPerSecond),
	}
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// A contrast measures both sides in one table: first without, then with the rows that are in the way.
type contrast struct {
	jobs    int64
	payload int
	// add writes the rows that are in the way.
	add func(ctx context.Context, l *lab, s *jobStore) error
}

func (c contrast) run(ctx context.Context, l *lab, s *jobStore) (*Result, error) {
	warmUp := max(c.jobs/10, 1)
	if _, _, err := c.side(ctx, l, s, "warming up", warmUp); err != nil {
		return nil, err
	}
	without, _, err := c.side(ctx, l, s, "without", c.jobs)
	if err != nil {
		return nil, err
	}
	if err := c.add(ctx, l, s); err != nil {
		return nil, err
	}
	with, r, err := c.side(ctx, l, s, "with", c.jobs)
	if err != nil {
		return nil, err
	}
	r.Comparison = compare(without, with)
	return r, nil
}

// side measures one side. The result is that of this side alone.
func (c contrast) side(ctx context.Context, l *lab, s *jobStore, phase string, n int64) (side Side, r *Result,
	err error) {
	before, err := s.done(ctx, l, 0)
	if err != nil {
		return side, nil, err
	}
	if err := l.fill(ctx, "filling", s, n, c.payload); err != nil {
		return side, nil, err
	}
	if side.BuffersPerClaim, err = l.claimBuffers(ctx, s); err != nil {
		return side, nil, err
	}
	m, err := l.begin(ctx, s.table())
	if err != nil {
		return side, nil, err
	}
	t := newTally(n)
	took, err := l.exhaust(ctx, phase, s, 1, t, func(int64, int) error { t.add(); return nil })
	if err != nil {
		return side, nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return side, nil, err // half a comparison says nothing
	}
	return c.conclude(ctx, l, s, m, t, took, before, side)
}

func (c contrast) conclude(ctx context.Context, l *lab, s *jobStore, m *measurement, t *tally, took time.Duration,
	before int64, side Side) (Side, *Result, error) {
	after, err := l.read(ctx, s.table())
	if err != nil {
		return side, nil, err
	}
	r := &Result{PerSecond: t.perSecond()}
	if r.Costs, err = m.end(ctx, t.count(), t.count()); err != nil {
		return side, nil, err
	}
	done, err := s.done(ctx, l, 0)
	if err != nil {
		return side, nil, err
	}
	r.Jobs = done - before
	r.Lost = t.total - r.Jobs
	r.took(took.Seconds())
	side.JobsPerSecond = r.JobsPerSecond
	side.BuffersPerJob = ratio(float64(after.buffers-m.before.buffers), float64(r.Jobs))
	return side, r, r.Err()
}

// claimBuffers counts the pages that a claim reads, and rolls the claim back. It returns the least of several runs,
// because the first also reads what the session has not cached.
func (l *lab) claimBuffers(ctx context.Context, s *jobStore) (float64, error) {
	const samples = 3
	query := fmt.Sprintf("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM %s(gen_random_uuid(), 30, %d, '%s', "+
		"%d::smallint)",
		l.in(s.table()+"_claim"), claimSample, jobs.DefaultQueue, jobs.Normal)
	least := 0.0
	for i := range samples {
		n, err := l.explain(ctx, query)
		if err != nil {
			return 0, err
		}
		if i == 0 || n < least {
			least = n
		}
	}
	return least, l.settle(ctx, s.table())
}

// explain runs a statement, rolls it back, and returns how many pages it has read.
func (l *lab) explain(ctx context.Context, query string) (float64, error) {
	if err := l.meter.exec(ctx, "BEGIN"); err != nil {
		return 0, err
	}
	var text []byte
	queryErr := l.meter.query(ctx, []any{&text}, query)
	if err := l.meter.exec(ctx, "ROLLBACK"); queryErr == nil {
		queryErr = err
	}
	var plans []struct {
		Plan struct {
			Hit  float64 `json:"Shared Hit Blocks"`
			Read float64 `json:"Shared Read Blocks"`
		}
	}
	if queryErr == nil {
		queryErr = json.Unmarshal(text, &plans)
	}
	if queryErr != nil || len(plans) == 0 {
		return 0, queryErr
	}
	return plans[0].Plan.Hit + plans[0].Plan.Read, nil
}
