package main

import (
	"context"
	"time"

	"github.com/riverqueue/river"
)

// A profile is the settings of a client. Zero values are River's defaults.
type profile struct {
	description       string
	maxWorkers        int
	fetchCooldown     time.Duration
	fetchPollInterval time.Duration
}

// profiles are the two profiles that River itself shows.
var profiles = map[string]profile{
	// The command `river bench`, see cmd/river/riverbench in River's repository.
	"bench": {
		description: "settings of its own command river bench: 2,000 workers, fetch cooldown 2 ms, poll " +
			"interval 20 ms; NOTIFY at most once in a cooldown",
		maxWorkers:        2000,
		fetchCooldown:     2 * time.Millisecond,
		fetchPollInterval: 20 * time.Millisecond,
	},
	// The number of workers has no default; this is that of River's documentation.
	"defaults": {
		description: "default options, with the 100 workers of its documentation (fetch cooldown 100 ms; NOTIFY at " +
			"most once in a cooldown)",
		maxWorkers: 100,
	},
}

func descriptions() map[string]string {
	all := map[string]string{}
	for name, p := range profiles {
		all[name] = p.description
	}
	return all
}

func (p profile) config(concurrency int, s *session) *river.Config {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[noop]) error {
		s.handled()
		return nil
	}))
	if concurrency == 0 {
		concurrency = p.maxWorkers
	}
	queues := map[string]river.QueueConfig{}
	for _, name := range s.queues.Names {
		queues[name] = river.QueueConfig{MaxWorkers: concurrency}
	}
	if len(queues) == 0 {
		queues[river.QueueDefault] = river.QueueConfig{MaxWorkers: concurrency}
	}
	return &river.Config{
		FetchCooldown:     p.fetchCooldown,
		FetchPollInterval: p.fetchPollInterval,
		Logger:            quiet,
		Queues:            queues,
		Workers:           workers,
	}
}
