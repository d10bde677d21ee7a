// Command txwork is txwork as a peer: package jobs for jobs that are kept, and a table of package workqueue for jobs
// that are deleted, which package jobs does not do.
package main

import (
	"context"
	"fmt"

	"github.com/txwork/txwork/bench/peer"
	"github.com/txwork/txwork/bench/protocol"
	"github.com/txwork/txwork/workqueue"
)

func main() {
	peer.Main(peer.Peer{Describe: describe, Prepare: prepare, Open: open})
}

// defaults is the only profile: there is nothing to set for throughput.
const defaults = "defaults"

// unfinishedJobs counts what is live or failed, in a form that has an index for each part: whoever asks for the end
// does not want to read what is done.
const unfinishedJobs = `SELECT count(*) FROM txwork.jobs
WHERE completed_at IS NULL AND NOT waiting OR completed_at IS NULL AND waiting OR failed_at IS NOT NULL`

func describe(c protocol.Config) protocol.Description {
	api, unfinished := "package jobs", unfinishedJobs
	if c.Deleted {
		api, unfinished = "a table of package workqueue with DeleteDone", "SELECT count(*) FROM txwork."+deletedTable
	}
	return protocol.Description{
		Name:    "txwork",
		Version: "devel", // the runner names the commit
		Profiles: map[string]string{defaults: fmt.Sprintf("%s, default options (%d handlers; NOTIFY in every "+
			"transaction that inserts)", api, workqueue.DefaultConcurrency)},
		Retained:      true,
		Deleted:       true,
		UnfinishedSQL: unfinished,
	}
}

func prepare(ctx context.Context, c protocol.Config) error {
	ddl := retainedDDL
	if c.Deleted {
		ddl = deletedDDL
	}
	up, _, err := ddl()
	if err != nil {
		return err
	}
	return peer.Exec(ctx, c, "CREATE SCHEMA "+workqueue.DefaultSchema+";\n"+up)
}

func open(ctx context.Context, c protocol.Config) (peer.Session, error) {
	pool, err := peer.Pool(ctx, c)
	if err != nil {
		return nil, err
	}
	options := workqueue.WorkerOptions{Concurrency: c.Concurrency}
	if c.Deleted {
		return openDeleted(pool, options)
	}
	return openRetained(pool, options, c.Queues)
}
