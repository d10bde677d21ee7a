package jobs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
)

// reportUnserved logs the kinds that have a handler here but whose default queue this worker does not serve. Another
// worker has to serve it, or their jobs wait for ever. The level is a warning if this is probably a mistake: the
// program chose no queues, or no kind is left for the queues that it chose. Otherwise the program probably divides its
// kinds among several workers, and the level is info.
func (w *Worker) reportUnserved(ctx context.Context) {
	var served, unserved []string
	for _, k := range w.options.Registry.handled() {
		queue := cmp.Or(k.queue, DefaultQueue)
		if slices.ContainsFunc(w.options.Queues, func(q QueueOptions) bool {
			return cmp.Or(q.Name, DefaultQueue) == queue
		}) {
			served = append(served, k.name)
		} else {
			unserved = append(unserved, fmt.Sprintf("%s in queue %s", k.name, queue))
		}
	}
	if len(unserved) == 0 {
		return
	}
	level := slog.LevelInfo
	if w.noQueues || len(served) == 0 {
		level = slog.LevelWarn
	}
	cmp.Or(w.client.options.Telemetry.Logger, slog.Default()).
		Log(ctx, level, "this worker does not serve the queues of some kinds that it has handlers for", "table",
			w.client.table.Name(), "kinds", unserved)
}

// handled returns the kinds with a handler, sorted by name.
func (r *Registry) handled() (list []*kind) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, k := range r.kinds {
		if k.handle != nil {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b *kind) int { return cmp.Compare(a.name, b.name) })
	return list
}
