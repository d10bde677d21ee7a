package costs_test

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// errand is the args of the jobs: 30 bytes, as in the figures of docs/performance.md.
type errand struct {
	Text string `json:"text"`
}

func (errand) Kind() string { return "errand" }

var anErrand = errand{"nineteen bytes here"}

// jobTable is the table of package jobs in a lab.
type jobTable struct {
	*lab
	client *jobs.Client
	name   string
}

func (l *lab) jobs() *jobTable {
	l.Helper()
	up, _, err := jobs.DDL("public")
	l.ok(err)
	l.exec(up)
	client, err := jobs.Open(jobs.Options{Schema: "public"})
	l.ok(err)
	return &jobTable{lab: l, client: client, name: client.Table().Name()}
}

const enqueueBatch = 1000

// enqueue writes n jobs, in transactions of at most one statement's size.
func (j *jobTable) enqueue(pool *pgxpool.Pool, n int, args jobs.Args, job jobs.Insert) {
	j.Helper()
	job.Args = args
	for ; n > 0; n -= enqueueBatch {
		inserts := slices.Repeat([]jobs.Insert{job}, min(n, enqueueBatch))
		j.inTx(pool, func(tx workqueue.Tx) error {
			_, err := j.client.EnqueueMany(j.Context(), tx, inserts...)
			return err
		})
	}
}

func (j *jobTable) inTx(pool *pgxpool.Pool, fn func(workqueue.Tx) error) {
	j.Helper()
	j.ok(pgx.BeginFunc(j.Context(), pool, func(tx pgx.Tx) error { return fn(workqueue.Pgx(tx)) }))
}

// fill writes n due jobs and brings the table into the state in which every measurement starts.
func (j *jobTable) fill(n int) {
	j.Helper()
	j.enqueue(j.db, n, anErrand, jobs.Insert{})
	j.settle()
}

func (j *jobTable) settle() {
	j.Helper()
	j.exec("VACUUM ANALYZE " + j.name)
	j.exec("CHECKPOINT")
}

func (j *jobTable) worker(pool *pgxpool.Pool, o jobs.WorkerOptions, handler func() error) *jobs.Worker {
	j.Helper()
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(context.Context, *jobs.Job[errand]) error { return handler() },
		jobs.KindOptions[errand]{})
	o.Registry = kinds
	o.WorkerOptions = undisturbed(o.WorkerOptions)
	o.NoSchedules = true
	w, err := jobs.NewWorker(pool, j.client, o)
	j.ok(err)
	return w
}

// inPhases lets a worker claim n jobs, calls between while all of them are claimed and none is settled, and then
// settles them.
func (j *jobTable) inPhases(pool *pgxpool.Pool, n int, o jobs.WorkerOptions, between func()) {
	j.Helper()
	o.Concurrency = n
	j.lab.inPhases(j.name, n, func(handler func() error) runner { return j.worker(pool, o, handler) }, between)
}
