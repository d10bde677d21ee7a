package liveness

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
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

// together is how many holders hold at once: what bystanders get done beside all of them, they get done beside each.
const together = 5

// enough is how much bystanders have to get done, as a share of what they do without the holders.
const enough = 0.9

// rounds is how often holders are measured at most. The counts of all rounds are added up.
const rounds = 3

// demand is how much work each bystander asks for, as a share of what it gets done when all work as fast as they can.
// On a fully loaded machine, any additional work of one would slow down the others.
const demand = 0.5

// TestMeasured counts what bystanders get done beside holders, and without them, in equal windows: one without, two
// with, one without. They ask for half of what they could get done. If a bystander gets too little done beside several
// holders, these are measured one by one. The test needs a quiet machine, so only `make liveness` runs it.
func TestMeasured(t *testing.T) {
	if *measured == 0 {
		return
	}
	w := newWorld(t)
	finish := w.populate()
	nobody := []holder{{name: "nobody"}}
	// otherwise empty tables that grow would make the first holders look slow
	w.window(nobody, "warm up", nil, map[string]float64{})
	most := map[string]float64{}
	w.window(nobody, "as fast as they can", nil, most)
	pace := paces(most)
	lines := []string{"| holders | least | bystander | half of them at least |", "|---|---|---|---|"}
	for _, group := range groups(slices.Concat(applications, w.maintenance(), w.rows())) {
		s := w.measure(group, pace)
		if len(group) == 1 || s.least() >= enough {
			lines = append(lines, s.line(group))
			continue
		}
		for _, h := range group {
			alone := []holder{h}
			lines = append(lines, w.measure(alone, pace).line(alone))
		}
	}
	finish()
	about := fmt.Sprintf("Each holder held for %v, %s.", *measured, time.Now().UTC().Format(time.DateOnly))
	if err := page.Write(reliability, "liveness", strings.Join(append(lines, "", about), "\n")+"\n"); err != nil {
		t.Fatal(err)
	}
}

// groups divides the holders into groups that hold at once. A holder that shares something with a bystander is measured
// without that bystander, and so alone.
func groups(holders []holder) (groups [][]holder) {
	var free []holder
	for _, h := range holders {
		if sharesSomething(h) {
			groups = append(groups, []holder{h})
		} else {
			free = append(free, h)
		}
	}
	return slices.AppendSeq(groups, slices.Chunk(free, together))
}

func sharesSomething(h holder) bool {
	return slices.ContainsFunc(bystanders, func(b bystander) bool { return shared[h.name+"/"+b.name] != "" })
}

// shares are what bystanders got done beside holders, relative to what they do without.
type shares map[string]float64

// least returns the smallest share.
func (s shares) least() float64 { return slices.Min(slices.Collect(maps.Values(s))) }

// measure repeats the windows while a bystander gets too little done, because a single window is subject to chance.
func (w *world) measure(group []holder, pace map[string]time.Duration) shares {
	with, without, s := map[string]float64{}, map[string]float64{}, shares{}
	size := fmt.Sprint(len(group), " ") // so that a unit done together is not done again alone
	for round := 0; round == 0 || round < rounds && s.least() < enough; round++ {
		w.window(group, fmt.Sprint(size, "before ", round), pace, without)
		var releases []func()
		for _, h := range group {
			releases = append(releases, h.hold(w))
		}
		w.window(group, fmt.Sprint(size, "first ", round), pace, with)
		w.window(group, fmt.Sprint(size, "second ", round), pace, with)
		for _, release := range releases {
			release()
		}
		w.window(group, fmt.Sprint(size, "after ", round), pace, without)
		for name, n := range without {
			if n == 0 {
				w.Fatalf("%s does nothing without %s", name, names(group))
			}
			s[name] = with[name] / n
		}
	}
	w.Log(s.line(group))
	for name, share := range s {
		if share < enough && len(group) == 1 {
			w.Errorf("%s beside %s: %.2f of what is done without", name, names(group), share)
		}
	}
	return s
}

// paces returns the time between two units of each bystander.
func paces(most map[string]float64) map[string]time.Duration {
	pace := map[string]time.Duration{}
	for name, n := range most {
		pace[name] = time.Duration(float64(*measured/2) / max(n*demand, 1))
	}
	return pace
}

// window runs all bystanders for half as long as a holder holds, and counts their units. A bystander that is late
// begins its next unit at once.
func (w *world) window(group []holder, name string, pace map[string]time.Duration, counts map[string]float64) {
	ctx, cancel := context.WithTimeout(context.Background(), *measured/2)
	defer cancel()
	var mu sync.Mutex
	var running sync.WaitGroup
	begun := time.Now()
	for _, b := range bystanders {
		if shared[group[0].name+"/"+b.name] != "" {
			continue
		}
		running.Go(func() {
			n := 0.0
			for i := 0; b.unit(ctx, w, fmt.Sprintf("%s %s %s %d", b.name, group[0].name, name, i)) == nil; i++ {
				n++
				time.Sleep(time.Until(begun.Add(time.Duration(i+1) * pace[b.name])))
			}
			mu.Lock()
			defer mu.Unlock()
			counts[b.name] += n
		})
	}
	running.Wait()
}

// line renders the row of some holders in the table.
func (s shares) line(group []holder) string {
	all := slices.Collect(maps.Keys(s))
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(s[a], s[b]) })
	return fmt.Sprintf("| %s | %.2f | %s | %.2f |", names(group), s[all[0]], all[0], s[all[len(all)/2]])
}

func names(group []holder) string {
	var all []string
	for _, h := range group {
		all = append(all, h.name)
	}
	return strings.Join(all, " · ")
}
