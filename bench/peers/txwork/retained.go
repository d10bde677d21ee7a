package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/bench/peer"
	"github.com/txwork/txwork/bench/protocol"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// noop is the job.
type noop struct{ protocol.Body }

// Kind implements [jobs.Args].
func (noop) Kind() string { return "noop" }

// retained is a session of package jobs, which keeps done jobs.
type retained struct {
	pool    *pgxpool.Pool
	client  *jobs.Client
	options workqueue.WorkerOptions
	queues  *peer.Queues
}

func retainedDDL() (up, down string, err error) { return jobs.DDL("") }

func openRetained(pool *pgxpool.Pool, o workqueue.WorkerOptions, queues int) (*retained, error) {
	client, err := jobs.Open(jobs.Options{})
	return &retained{pool: pool, client: client, options: o, queues: peer.NewQueues(queues)}, err
}

func (r *retained) InsertMany(ctx context.Context, bodies []protocol.Body) error {
	inserts := make([]jobs.Insert, len(bodies))
	for i, b := range bodies {
		inserts[i].Args = noop{b}
	}
	return workqueue.InTx(ctx, r.pool, func(tx workqueue.Tx) error {
		_, err := r.client.EnqueueMany(ctx, tx, inserts...)
		return err
	})
}

func (r *retained) InsertOne(ctx context.Context, body protocol.Body) error {
	return workqueue.InTx(ctx, r.pool, func(tx workqueue.Tx) error {
		_, err := r.client.Enqueue(ctx, tx, jobs.Insert{Args: noop{body}, Queue: r.queues.Next()})
		return err
	})
}

func (r *retained) Work(ctx context.Context, handled func()) error {
	registry := jobs.NewRegistry()
	jobs.Register(registry, func(context.Context, *jobs.Job[noop]) error {
		handled()
		return nil
	}, jobs.KindOptions[noop]{})
	o := jobs.WorkerOptions{Registry: registry, WorkerOptions: r.options}
	for _, name := range r.queues.Names {
		o.Queues = append(o.Queues, jobs.QueueOptions{Name: name})
	}
	worker, err := jobs.NewWorker(r.pool, r.client, o)
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

func (r *retained) Close() { r.pool.Close() }
