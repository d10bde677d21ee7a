package bench

import (
	"sync"
	"time"
)

const watchEvery = 200 * time.Millisecond

// watch reports progress until the function that it returns is called.
func (l *lab) watch(phase string, total int64, done func() int64) (stop func()) {
	end := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			l.Progress(phase, min(done(), total), total)
			select {
			case <-tick.C:
			case <-end:
				l.Progress(phase, min(done(), total), total)
				return
			}
		}
	})
	return func() {
		close(end)
		watcher.Wait()
	}
}
