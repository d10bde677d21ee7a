package workqueue

import (
	"context"
	"testing"
	"time"
)

// A worker waits for others, to look together. If it is woken or is to end meanwhile, it waits no longer.
func TestAWokenWorkerWaitsForNoLook(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wake func(woken chan<- struct{}, end func())
	}{
		"woken": {func(woken chan<- struct{}, _ func()) { woken <- struct{}{} }},
		"ended": {func(_ chan<- struct{}, end func()) { end() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLooks(&system{runtime: &Runtime{workers: 2}})
			l.window = time.Hour
			defer l.close()
			ctx, end := context.WithCancel(t.Context())
			defer end()
			woken, answered := make(chan struct{}), make(chan bool)
			go func() { answered <- l.ask(ctx, new(look), woken) }()
			c.wake(woken, end)
			if <-answered {
				t.Error("the look was answered")
			}
		})
	}
}
