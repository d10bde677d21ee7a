package costs_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// crowdQueue is served by the measured worker, too.
const crowdQueue = "crowd"

// A stranger is a job that no worker here knows.
type stranger struct{ errand }

func (stranger) Kind() string { return "stranger" }

const aYear = 365 * 24 * time.Hour

// A crowd is jobs that are in the table and not to be claimed.
var crowds = map[string]func(j *jobTable, n int){
	"done": func(j *jobTable, n int) {
		j.enqueue(j.db, n, anErrand, jobs.InsertOptions{})
		j.drain(n)
	},
	"far future": func(j *jobTable, n int) {
		j.enqueue(j.db, n, anErrand, jobs.InsertOptions{Delay: aYear})
	},
	"paused queue": func(j *jobTable, n int) {
		j.inTx(j.db, func(tx workqueue.Tx) error { return j.client.Pause(j.Context(), tx, crowdQueue) })
		j.enqueue(j.db, n, anErrand, jobs.InsertOptions{Queue: crowdQueue})
	},
	"exhausted rate": func(j *jobTable, n int) {
		j.inTx(j.db, func(tx workqueue.Tx) error {
			return j.client.SetLimits(j.Context(), tx, crowdQueue, jobs.Limits{Rate: 1 / aYear.Seconds(), Burst: 1})
		})
		j.enqueue(j.db, n, anErrand, jobs.InsertOptions{Queue: crowdQueue})
		j.drain(1)
	},
	"blocked key": func(j *jobTable, n int) {
		g := keyed.Ordered{Key: "crowd"}
		j.enqueue(j.db, 1, anErrand, jobs.InsertOptions{ByKey: g, Delay: aYear})
		j.enqueue(j.db, n-1, anErrand, jobs.InsertOptions{ByKey: g})
	},
	"unknown kind": func(j *jobTable, n int) {
		j.enqueue(j.db, n, stranger{anErrand}, jobs.InsertOptions{})
		j.meet()
	},
}

func crowdOptions() jobs.WorkerOptions {
	return jobs.WorkerOptions{
		Queues:  []jobs.QueueOptions{{Name: jobs.DefaultQueue}, {Name: crowdQueue}},
		Unknown: jobs.LeaveUnknown,
	}
}

// drain has a worker do n jobs.
func (j *jobTable) drain(n int) {
	j.Helper()
	var done atomic.Int64
	stop := j.run(j.worker(j.db, crowdOptions(), func() error { done.Add(1); return nil }))
	j.eventually("the jobs have been done", func() bool { return done.Load() == int64(n) })
	stop()
}

// meet has a worker look at each stranger once, as it does soon after such jobs come.
func (j *jobTable) meet() {
	j.Helper()
	stop := j.run(j.worker(j.db, crowdOptions(), func() error { return nil }))
	j.eventually("every stranger was put off", func() bool {
		return j.count("SELECT count(*) FROM "+j.name+" WHERE completed_at IS NULL AND due_at = created_at") == 0
	})
	stop()
}

// crowdSize is smaller in every run of the tests, and where the client is slow.
func crowdSize() int {
	if raceEnabled {
		return 10_000
	}
	return pgtest.Size(10_000, 100_000)
}

// TestWhatCannotBeClaimedCostsNothing compares what a worker reads to claim jobs in a table of their own and behind a
// crowd.
func TestWhatCannotBeClaimedCostsNothing(t *testing.T) {
	for name, gather := range crowds {
		t.Run(name, func(t *testing.T) {
			j := newLab(t).jobs()
			without := j.pages()
			if without.claim > claimPages {
				t.Errorf("a claim of 100 rows reads %.0f pages, want at most %d", without.claim, claimPages)
			}
			gather(j, crowdSize())
			j.fold()
			j.settle()
			with := j.pages()
			t.Logf("a claim of 100 rows reads %.0f pages, and %.0f without the crowd", with.claim, without.claim)
			if with.claim > crowdRatio*without.claim {
				t.Errorf("a claim of 100 rows reads %.0f pages, without the crowd %.0f, want at most %v times that",
					with.claim, without.claim, crowdRatio)
			}
			if len(with.looks) == 0 {
				t.Error("the worker has looked at nothing beside its claims")
			}
			for kind, n := range with.looks {
				if before := without.looks[kind]; float64(n) > crowdRatio*float64(before)+lookPages {
					t.Errorf("it reads %d pages, without the crowd %d: %s", n, before, kind)
				}
			}
		})
	}
}

// fold applies the notes that the crowd has written: what they cost, writing it costs.
func (j *jobTable) fold() {
	j.Helper()
	_, err := j.client.Table().On(j.db).Fold(j.Context())
	j.ok(err)
}

// pages are those that a worker reads.
type pages struct {
	claim float64 // by a hundred rows
	looks map[string]int
}

// pages has a worker claim jobs and counts what it has read until then: few, since it reads what is behind the start of
// the queue only once.
func (j *jobTable) pages() (p pages) {
	j.Helper()
	const n = 4 * claimLimit
	j.fill(n)
	j.seen.forget()
	pool := j.watched(j.warm)
	o := crowdOptions()
	o.ClaimLimit = claimLimit
	j.inPhases(pool, n, o, func() {
		all := j.seen.list(j.lab)
		p = pages{perHundred(j.lab, claims(all)), looks(all)}
	})
	pool.Close()
	j.quiet()
	return p
}

// warm has each session call what a worker calls before it is measured. Which session calls what meanwhile is chance,
// and the first call of each looks up hundreds of pages of the catalogs.
func (j *jobTable) warm(config *pgxpool.Config) {
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		spec := j.client.Table().Spec()
		calls := []string{"SET auto_explain.log_min_duration = -1"}
		for _, f := range spec.Folds {
			calls = append(calls, "SELECT FROM "+j.name+"_"+f.Suffix+"(1)")
		}
		for _, sweep := range spec.Sweeps {
			calls = append(calls, "SELECT "+j.name+"_"+sweep+"(1)")
		}
		// claims nothing: no crowd of that queue is let through
		calls = append(calls, "SELECT FROM "+j.name+"_claim_admitted(gen_random_uuid(), '1 hour', 1, '{-infinity}', "+
			"ARRAY[gen_random_uuid()], '{"+crowdQueue+"}', '{0}')")
		for _, call := range append(calls, "SET auto_explain.log_min_duration = 0") {
			if _, err := conn.Exec(ctx, call); err != nil {
				return err
			}
		}
		return nil
	}
}
