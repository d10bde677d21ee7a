package bench

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// A memoryPeak measures the most memory that this process held, as the Go runtime counts it: memory that was mapped and
// not returned to the system, whatever it is used for.
type memoryPeak struct {
	peak    uint64
	end     chan struct{}
	watcher sync.WaitGroup
}

const memoryEvery = 20 * time.Millisecond

// watchMemory first returns unused memory to the system, and then watches until stop or the end of ctx.
func watchMemory(ctx context.Context) *memoryPeak {
	debug.FreeOSMemory()
	m := &memoryPeak{end: make(chan struct{})}
	m.watcher.Go(func() { m.watch(ctx) })
	return m
}

func (m *memoryPeak) watch(ctx context.Context) {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		metrics.Read(samples)
		m.peak = max(m.peak, samples[0].Value.Uint64()-samples[1].Value.Uint64())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		case <-m.end:
			return
		}
	}
}

// stop returns the peak in bytes. It may be called only once.
func (m *memoryPeak) stop() uint64 {
	close(m.end)
	m.watcher.Wait()
	return m.peak
}
