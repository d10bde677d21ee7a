//go:build unix

package torture

import (
	"strings"
	"sync"
	"testing"
)

// Several goroutines report progress to a writer that need not be safe for concurrent use.
func TestProgressIsWrittenALineAtATime(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	l := &lab{options: Options{Progress: &said}}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				l.say("%s", "a line")
			}
		})
	}
	all.Wait()
	if got := strings.Count(said.String(), "a line\n"); got != 800 {
		t.Errorf("%d lines", got)
	}
}
