package main

import (
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

// A profile is the settings of a queue. Zero values are DBOS's defaults.
type profile struct {
	description  string
	concurrency  int // workflows at once in a process
	pollInterval time.Duration
}

var profiles = map[string]profile{
	// DBOS's own benchmark of queues (benchmarks/dbos_queue.py in its repository dbos-postgres-benchmark) runs 1,000
	// workflows at once in a process, and spreads the load over many processes that poll every second.
	"bench": {
		description: workflows + "; 1,000 at once, as in its own benchmark of queues, polled every 10 ms, because " +
			"the default of 1 s would limit a process to 1,000 jobs/s",
		concurrency:  1000,
		pollInterval: 10 * time.Millisecond,
	},
	"defaults": {
		description: workflows + "; default options: polled every second, and a process takes at once all that are " +
			"there",
	},
}

// workflows describes what both profiles have in common.
const workflows = "a job is a workflow without steps on a queue; filled by the SQL function enqueue_workflow; no NOTIFY"

func descriptions() map[string]string {
	all := map[string]string{}
	for name, p := range profiles {
		all[name] = p.description
	}
	return all
}

func (p profile) options(concurrency int) (options []dbos.QueueOption) {
	if concurrency == 0 {
		concurrency = p.concurrency
	}
	if concurrency > 0 {
		options = append(options, dbos.WithWorkerConcurrency(concurrency))
	}
	if p.pollInterval > 0 {
		options = append(options, dbos.WithQueueBasePollingInterval(p.pollInterval))
	}
	return options
}
