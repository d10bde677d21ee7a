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

// crowdQueue is also served by the measured worker.
const crowdQueue = "crowd"

// A stranger is a job of a kind that no worker here has registered.
type stranger struct{ errand }

func (stranger) Kind() string { return "stranger" }

const aYear = 365 * 24 * time.Hour

// crowds are functions that put jobs into the table that cannot be claimed.
var crowds = map[string]func(j *jobTable, n int){
	"done": func(j *jobTable, n int) {
		j.enqueue(j.db, n, anErrand, jobs.Insert{})
		j.drain(n)
	},
	"far future": func(j *jobTable, n int) {
		j.enqueue(j.db, n, anErrand, jobs.Insert{Delay: aYear})
	},
	"paused queue": func(j *jobTable, n int) {
		j.inTx(j.db, func(tx workqueue.Tx) error { return j.client.Pause(j.Context(), tx, crowdQueue) })
		j.enqueue(j.db, n, anErrand, jobs.Insert{Queue: crowdQueue})
	},
	"exhausted rate": func(j *jobTable, n int) {
		j.inTx(j.db, func(tx workqueue.Tx) error {
			return j.client.SetLimits(j.Context(), tx, crowdQueue, jobs.Limits{Rate: 1 / aYear.Seconds(), Burst: 1})
		})
		j.enqueue(j.db, n, anErrand, jobs.Insert{Queue: crowdQueue})
		j.drain(1)
	},
	"blocked key": func(j *jobTable, n int) {
		g := keyed.Ordered{Key: "crowd"}
		j.enqueue(j.db, 1, anErrand, jobs.Insert{ByKey: g, Delay: aYear})
		j.enqueue(j.db, n-1, anErrand, jobs.Insert{ByKey: g})
	},
	"unknown kind": func(j *jobTable, n int) {
		j.enqueue(j.db, n, stranger{anErrand}, jobs.Insert{})
		j.meet()
		// Until they come again, however long this machine takes for the rest.
		j.exec("UPDATE " + j.name + " SET due_at = due_at + interval '1 hour' WHERE completed_at IS NULL")
	},
}

func crowdOptions() jobs.WorkerOptions {
	return jobs.WorkerOptions{
		Queues:  []jobs.QueueOptions{{Name: jobs.DefaultQueue}, {Name: crowdQueue}},
		Unknown: jobs.LeaveUnknown,
	}
}

// drain lets a worker do n jobs.
func (j *jobTable) drain(n int) {
	j.Helper()
	var done atomic.Int64
	stop := j.run(j.worker(j.db, crowdOptions(), func() error { done.Add(1); return nil }))
	j.eventually("the jobs have been done", func() bool { return done.Load() == int64(n) })
	stop()
}

// meet lets a worker examine each stranger once, as happens soon after such jobs are written.
func (j *jobTable) meet() {
	j.Helper()
	stop := j.run(j.worker(j.db, crowdOptions(), func() error { return nil }))
	j.eventually("every stranger was put off", func() bool {
		return j.count("SELECT count(*) FROM "+j.name+" WHERE completed_at IS NULL AND due_at = created_at") == 0
	})
	stop()
}

// crowdSize is smaller in ordinary runs of the tests, and with the race detector, which slows the client down.
func crowdSize() int {
	if raceEnabled {
		return 10_000
	}
	return pgtest.Size(10_000, 100_000)
}

// TestWhatCannotBeClaimedCostsNothing compares the pages that a worker reads to claim jobs in an otherwise empty table
// and behind a crowd.
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
				t.Error("the worker has sent nothing but claims")
			}
			for kind, n := range with.looks {
				if before := without.looks[kind]; float64(n) > crowdRatio*float64(before)+lookPages {
					t.Errorf("it reads %d pages, without the crowd %d: %s", n, before, kind)
				}
			}
		})
	}
}

// fold applies the notes that the crowd has written. Their cost belongs to writing the crowd.
func (j *jobTable) fold() {
	j.Helper()
	_, err := j.client.Table().On(j.db).Fold(j.Context())
	j.ok(err)
}

// pages are the pages that a worker reads.
type pages struct {
	claim float64 // for every hundred rows
	looks map[string]int
}

// pages lets a worker claim jobs and counts the pages that it has read. It claims few, because it reads what is behind
// the start of the queue only once.
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

// warm makes each session call what a worker calls before it is measured. The first call of each function looks up
// hundreds of pages of the catalogs, and which session makes it would otherwise depend on chance.
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
		// claims nothing: nothing of the crowd's queue is admitted
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
