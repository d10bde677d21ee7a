package lab

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/bench/protocol"
	"github.com/txwork/txwork/bench/results"
)

func entrantOf(name string, retained, deleted bool) entrant {
	d := protocol.Description{Retained: retained, Deleted: deleted}
	return entrant{Entrant: results.Entrant{Peer: name, Profile: "p"}, retained: d, deleted: d}
}

// order writes the peers of the steps, round by round.
func order(steps []step, w results.Workload) string {
	var rounds []string
	for _, s := range steps {
		if s.Workload != w {
			continue
		}
		if s.Round > len(rounds) {
			rounds = append(rounds, "")
		}
		rounds[s.Round-1] += s.Peer
		if s.Processes > 0 {
			rounds[s.Round-1] += fmt.Sprint(s.Processes)
		}
	}
	return strings.Join(rounds, " ")
}

func TestRoundsRunInOppositeOrders(t *testing.T) {
	entrants := []entrant{entrantOf("A", true, true), entrantOf("B", true, false), entrantOf("C", false, true)}
	steps := plan([]results.Workload{results.Drain, results.DrainDeleted, results.Processes, results.Single}, entrants,
		3)
	for workload, want := range map[results.Workload]string{
		results.Drain:        "AB BA AB", // C cannot keep jobs
		results.DrainDeleted: "AC CA AC", // B cannot delete them
		results.Processes:    "A1B1A2B2A4B4A8B8 B8A8B4A4B2A2B1A1 A1B1A2B2A4B4A8B8",
		results.Single:       "ABC CBA ABC",
	} {
		if got := order(steps, workload); got != want {
			t.Errorf("%s runs %q, want %q", workload, got, want)
		}
	}
	if !slices.IsSortedFunc(steps, func(a, b step) int {
		return slices.Index(results.Workloads, a.Workload) - slices.Index(results.Workloads, b.Workload)
	}) {
		t.Error("the workloads are mixed")
	}
}

func TestAPeerThatOnlyDeletesIsMarkedWhereModesDoNotMatter(t *testing.T) {
	if deleted, can := entrantOf("C", false, true).mode(results.Enqueue); !deleted || !can {
		t.Errorf("mode = %v, %v; want deleted, able", deleted, can)
	}
	spared := entrantOf("A", true, true)
	spared.without = []results.Workload{results.Latency}
	if deleted, can := spared.mode(results.Enqueue); deleted || !can {
		t.Errorf("mode = %v, %v; want kept, able", deleted, can)
	}
	if _, can := spared.mode(results.Latency); can {
		t.Error("a workload that the profile cannot do is measured all the same")
	}
}

func TestWhatHasSucceededIsNotMeasuredAgain(t *testing.T) {
	steps := plan([]results.Workload{results.Drain}, []entrant{entrantOf("A", true, true), entrantOf("B", true, true)},
		2)
	done := []results.Cell{{Key: steps[0].Key}, {Key: steps[1].Key, Error: "failed"}, {Key: steps[3].Key}}
	if got := order(without(steps, done), results.Drain); got != "B B" { // round 1, round 2
		t.Errorf("left are %q, want the failed one and the missing one", got)
	}
}

func TestWantedPeers(t *testing.T) {
	for _, c := range []struct {
		wanted   []string
		name     string
		profiles []string
		want     bool
	}{
		{nil, "river", nil, true},
		{[]string{"txwork"}, "river", nil, false},
		{[]string{"txwork", "river"}, "river", nil, true},
		{[]string{"river:bench"}, "river", []string{"bench"}, true},
		{[]string{"river:bench", "river"}, "river", nil, true},
	} {
		profiles, want := wantedProfile(c.wanted, c.name)
		if want != c.want || !slices.Equal(profiles, c.profiles) {
			t.Errorf("wantedProfile(%v, %s) = %v, %v", c.wanted, c.name, profiles, want)
		}
	}
	err := checkNames(peers, []string{"txwork", "rivre:bench"})
	if err == nil || !strings.Contains(err.Error(), "rivre") {
		t.Errorf("error %v, want one that names rivre", err)
	}
}

func TestTheEstimateGoesByWhatCellsOfTheKindTook(t *testing.T) {
	steps := plan([]results.Workload{results.Drain}, []entrant{entrantOf("A", true, true), entrantOf("B", true, true)},
		2)
	e := newEstimate(nil)
	if left := e.left(steps); left != 0 {
		t.Errorf("%v left when nothing is known, want 0", left)
	}
	e.add(results.Cell{Key: steps[0].Key, Took: 10}) // A
	if left := e.left(steps[1:]); left != 30*time.Second {
		t.Errorf("%v left, want 30 s: B counts as A as long as it is unknown", left)
	}
	e.add(results.Cell{Key: steps[1].Key, Took: 2}) // B
	if left := e.left(steps[2:]); left != 12*time.Second {
		t.Errorf("%v left, want 12 s", left)
	}
}

func TestPercentilesLeaveOutTheWarmUp(t *testing.T) {
	millis := []float64{1000}
	for i := range 101 {
		millis = append(millis, float64(100-i))
	}
	p50, p99, err := percentiles(millis)
	if p50 != 50 || p99 != 99 || err != nil {
		t.Errorf("percentiles = %v, %v, %v; want 50, 99", p50, p99, err)
	}
	if _, _, err := percentiles(millis[:1]); err == nil {
		t.Error("a warm-up alone has percentiles")
	}
}
