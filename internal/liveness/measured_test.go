package liveness

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/page"
)

var measured = flag.Duration("measured", 0, "how long each holder holds while bystanders are counted; 0: none is")

// reliability is the page with the table.
const reliability = "../../docs/reliability.md"

// TestMeasured counts what bystanders get done beside each holder, and the same without it, in equal windows: one without,
// two with, one without. It is for a quiet machine, so only `make liveness` asks for it.
func TestMeasured(t *testing.T) {
	if *measured == 0 {
		return
	}
	w := newWorld(t)
	finish := w.populate()
	lines := []string{"| holder | least | bystander | half of them at least |", "|---|---|---|---|"}
	for _, h := range slices.Concat(applications, w.maintenance(), w.rows()) {
		lines = append(lines, w.measure(h).line(h))
	}
	finish()
	about := fmt.Sprintf("Each holder held for %v, %s.", *measured, time.Now().UTC().Format(time.DateOnly))
	if err := page.Write(reliability, "liveness", strings.Join(append(lines, "", about), "\n")+"\n"); err != nil {
		t.Fatal(err)
	}
}

// shares are what bystanders got done beside a holder, of what they do without.
type shares map[string]float64

func (w *world) measure(h holder) shares {
	without := w.window(h, "before")
	release := h.hold(w)
	with := w.window(h, "first")
	for name, n := range w.window(h, "second") {
		with[name] += n
	}
	release()
	for name, n := range w.window(h, "after") {
		without[name] += n
	}
	s := shares{}
	for name, n := range without {
		if s[name] = with[name] / n; s[name] < 0.9 {
			w.Errorf("%s beside %s: %.2f of what is done without", name, h.name, s[name])
		}
	}
	return s
}

// window has all bystanders go on for half as long as a holder holds, and counts.
func (w *world) window(h holder, name string) map[string]float64 {
	ctx, cancel := context.WithTimeout(context.Background(), *measured/2)
	defer cancel()
	counts, mu := map[string]float64{}, sync.Mutex{}
	var running sync.WaitGroup
	for _, b := range bystanders {
		if shared[h.name+"/"+b.name] != "" {
			continue
		}
		running.Go(func() {
			n := 0.0
			for i := 0; b.unit(ctx, w, fmt.Sprintf("%s %s %s %d", b.name, h.name, name, i)) == nil; i++ {
				n++
			}
			mu.Lock()
			defer mu.Unlock()
			counts[b.name] = n
		})
	}
	running.Wait()
	return counts
}

// line is a holder's in the table.
func (s shares) line(h holder) string {
	names := make([]string, 0, len(s))
	for name := range s {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return int(1000 * (s[a] - s[b])) })
	return fmt.Sprintf("| %s | %.2f | %s | %.2f |", h.name, s[names[0]], names[0], s[names[len(names)/2]])
}
