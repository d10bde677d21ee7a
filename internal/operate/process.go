package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/txwork/txwork/internal/survey"
)

// A Process is one that runs, as it says of itself.
type Process struct {
	Holder
	Workers []Worker // of those that say in the way of workers in Go what they serve
}

// A Worker is one of a process.
type Worker struct {
	Table            string           `json:"table"`
	Lanes            map[string][]any `json:"lanes"`
	Concurrency      int64            `json:"concurrency"`
	TopicConcurrency int64            `json:"topic_concurrency"`
}

// Serves tells whether a worker serves a part of its table, by the first column of the lanes.
func (w Worker) Serves(p Part) bool {
	lane, ok := w.Lanes[p.By]
	return w.Table == p.Table && (!ok || slices.ContainsFunc(lane, func(v any) bool { return fmt.Sprint(v) == p.Name }))
}

// ReadProcesses returns at most limit of the processes that run and say so.
func ReadProcesses(ctx context.Context, r survey.Reader, schema string, limit int) (all []Process, err error) {
	found, err := survey.AllProcesses(ctx, r, schema, limit)
	for _, one := range found {
		p := Process{Holder: *newHolder(one)}
		for _, text := range p.Serves {
			var w Worker
			if json.Unmarshal([]byte(text), &w) == nil && w.Table != "" { // a role may have written anything
				p.Workers = append(p.Workers, w)
			}
		}
		all = append(all, p)
	}
	return all, err
}
