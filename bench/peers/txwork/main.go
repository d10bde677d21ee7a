// Command txwork is txwork as a peer: package jobs for jobs that are kept, and a table of package workqueue for jobs
// that are deleted, which package jobs does not do.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/txwork/txwork/bench/peer"
	"github.com/txwork/txwork/bench/protocol"
	"github.com/txwork/txwork/workqueue"
)

func main() {
	peer.Main(peer.Peer{Describe: describe, Prepare: prepare, Open: open})
}

// riversCooldown is the default of River's FetchCooldown.
const riversCooldown = 100 * time.Millisecond

// profiles are the profiles of txwork. Nothing has to be set for throughput. At low rates, jobs cost less if they share
// claims.
var profiles = map[string]struct {
	description string
	options     workqueue.WorkerOptions
}{
	"defaults": {description: fmt.Sprintf("default options (%d handlers; NOTIFY in every transaction that inserts)",
		workqueue.DefaultConcurrency)},
	"cooldown": {
		description: "default options but for a claim cooldown of 100 ms, which is River's default",
		options:     workqueue.WorkerOptions{ClaimCooldown: riversCooldown},
	},
	"polling": {
		description: "default options but for polling every 100 ms without notifications",
		options:     workqueue.WorkerOptions{PollInterval: riversCooldown, NoListen: true},
	},
}

// unfinishedJobs counts live and failed jobs. It is written so that each part can use an index and does not read done
// jobs.
const unfinishedJobs = `SELECT count(*) FROM txwork.jobs
WHERE completed_at IS NULL AND NOT waiting OR completed_at IS NULL AND waiting OR failed_at IS NOT NULL`

func describe(c protocol.Config) protocol.Description {
	api, unfinished := "package jobs", unfinishedJobs
	if c.Deleted {
		api, unfinished = "a table of package workqueue with DeleteDone", "SELECT count(*) FROM txwork."+deletedTable
	}
	d := protocol.Description{
		Name:          "txwork",
		Version:       "devel", // the runner names the commit
		Profiles:      map[string]string{},
		Retained:      true,
		Deleted:       true,
		UnfinishedSQL: unfinished,
	}
	for name, p := range profiles {
		d.Profiles[name] = api + ", " + p.description
	}
	return d
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
	options := profiles[c.Profile].options
	options.Concurrency = c.Concurrency
	if c.Deleted {
		return openDeleted(pool, options)
	}
	return openRetained(pool, options, c.Queues)
}
