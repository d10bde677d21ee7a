package report

import (
	"strings"
	"testing"

	"github.com/txwork/txwork/bench/lab"
	"github.com/txwork/txwork/bench/results"
)

// fields returns the lines of a text with single spaces between their words.
func fields(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestAComparisonIsOfMedians(t *testing.T) {
	cell := func(peer string, processes int, rate float64) results.Cell {
		return results.Cell{Key: results.Key{Entrant: results.Entrant{Peer: peer, Profile: "p"}, Processes: processes},
			PerSecond: rate}
	}
	var text strings.Builder
	err := WriteComparison(&text, []results.Cell{
		cell("a", 1, 100), cell("b", 1, 50), cell("a", 1, 300), cell("a", 1, 200), cell("a", 2, 100), cell("b", 2, 50),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a:p 1 200 100 300 1.00 1.00 0.00 0.00", "b:p 1 50 50 50 4.00 1.00 0.00 0.00",
		"a:p 2 100 100 100 1.00 0.50 0.00 0.00", "b:p 2 50 50 50 2.00 1.00 0.00 0.00"}
	if got := fields(text.String()); len(got) != 5 || strings.Join(got[1:], "\n") != strings.Join(want, "\n") {
		t.Errorf("wrote\n%s", &text)
	}
}

func TestAComparisonOfLatenciesIsOfTheirMedians(t *testing.T) {
	var text strings.Builder
	err := WriteComparison(&text, []results.Cell{
		{Key: results.Key{Entrant: results.Entrant{Peer: "a", Profile: "p"}}, P50: 2, P99: 5},
		{Key: results.Key{Entrant: results.Entrant{Peer: "b", Profile: "p"}}, P50: 4, P99: 6},
	})
	if got := fields(text.String()); err != nil || len(got) != 3 || got[2] != "b:p - 0 0 0 0.50 1.00 4.00 6.00" {
		t.Errorf("wrote\n%s%v", &text, err)
	}
}

func TestLoadsAreWrittenByMedians(t *testing.T) {
	load := func(rate, server float64) lab.Load {
		return lab.Load{Entrant: results.Entrant{Peer: "a", Profile: "p"}, Rate: rate, PerSecond: rate,
			ServerCPU: server, ClientCPU: 1000, Connections: 4, Transactions: 2}
	}
	all := []lab.Load{load(0, 500), load(50, 5000), load(50, 20_000), load(50, 10_000)}
	var text strings.Builder
	if err := WriteLoads(&text, all); err != nil {
		t.Fatal(err)
	}
	want := []string{"a:p 0.0 0 4 2.0 - - - 0.05 % 0.10 %", "a:p 50.0 0 4 2.0 200 20 220 1.00 % 0.10 %"}
	if got := fields(text.String()); len(got) != 3 || got[1] != want[0] || got[2] != want[1] {
		t.Errorf("wrote\n%s", &text)
	}
	if all[0].Rate != 0 || all[3].ServerCPU != 10_000 {
		t.Error("the measurements were changed")
	}
}
