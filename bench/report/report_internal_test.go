package report

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/bench/results"
	"github.com/txwork/txwork/internal/measure"
)

var update = flag.Bool("update", false, "write the golden files")

func TestFormats(t *testing.T) {
	for got, want := range map[string]string{
		count(999): "999", count(1000): "1,000", count(1234567.4): "1,234,567",
		millis(2.34): "2.3", millis(1234): "1,234",
		ratio(0.123): "0.12", ratio(12.3): "12",
		known(nil): "–", known(new(9.94)): "9.9", known(new(10.4)): "10",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// sample returns a run in which txwork and the peers each win something, one measurement failed, and one peer can only
// delete done jobs.
func sample() (results.Header, []results.Cell) {
	h := results.Header{
		Commit: "0123456789ab", Postgres: "15.18", CPUs: 2, Settings: "fsync = on",
		Options: results.Options{Jobs: 200_000, LatencyJobs: 300, PayloadBytes: 30, Batch: 1000, Connections: 8,
			Seconds: 10},
	}
	var cells []results.Cell
	add := func(w results.Workload, peer, profile, name string, deleted bool, jobs int, values ...float64) {
		for i, v := range values {
			c := results.Cell{
				Key:  results.Key{Workload: w, Entrant: results.Entrant{Peer: peer, Profile: profile}, Round: i + 1},
				Name: name, Version: "v1", Settings: "settings of " + profile, Deleted: deleted, Jobs: jobs,
				Costs: measure.Costs{WALBytes: 600 + v/1000, ClientCPU: 5},
			}
			if w == results.Latency {
				c.P50, c.P99 = v, 3*v
			} else {
				c.PerSecond = v
				c.Costs.ServerCPU = new(12.0)
			}
			if w == results.Drain {
				c.FillCosts = &measure.Costs{WALBytes: 300}
			}
			cells = append(cells, c)
		}
	}
	add(results.Drain, "txwork", "defaults", "txwork", false, 200_000, 90_000, 100_000, 110_000)
	add(results.Drain, "sql", "bench", "bare SQL", false, 200_000, 120_000, 125_000, 130_000)
	add(results.Drain, "river", "bench", "River", false, 200_000, 20_000, 15_000, 16_000)
	add(results.Drain, "river", "defaults", "River", false, 10_000, 1000, 990, 995)
	for i, n := range results.ProcessCounts {
		at := func(v float64) []float64 { return []float64{v - 500, v, v + 500} }
		start := len(cells)
		add(results.Processes, "txwork", "defaults", "txwork", false, 200_000, at(100_000-float64(9_000*i))...)
		add(results.Processes, "river", "bench", "River", false, 200_000, at(30_000+float64(16_000*i))...)
		for j := range cells[start:] {
			cells[start+j].Processes = n
		}
	}
	add(results.Enqueue, "river", "bench", "River", false, 200_000, 120_000, 95_000, 110_000)
	add(results.Enqueue, "txwork", "defaults", "txwork", false, 200_000, 100_000, 90_000, 80_000)
	add(results.Enqueue, "deleting", "bench", "Deleting", true, 200_000, 50_000, 50_000, 50_000)
	add(results.Latency, "txwork", "defaults", "txwork", false, 300, 2, 2.5, 1.5)
	add(results.Latency, "river", "defaults", "River", false, 20, 50, 52, 51)
	cells = append(cells, results.Cell{
		Key: results.Key{Workload: results.Single, Entrant: results.Entrant{Peer: "river", Profile: "bench"},
			Round: 1},
		Name: "River", Version: "v1", Settings: "settings of bench", Error: "it ended\nwith a long log",
	})
	return h, cells
}

// elsewhere returns a smaller run on another server, in which not all entrants took part.
func elsewhere() results.Run {
	h, cells := sample()
	h.Postgres, h.Options.Jobs = "17.10", 1000
	cells = slices.DeleteFunc(cells, func(c results.Cell) bool { return c.Profile == "defaults" && c.Peer != own })
	for i := range cells {
		cells[i].PerSecond *= 1.1
	}
	return results.Run{Header: h, Cells: cells}
}

func TestSizesThatAreNotTheUsualOnesAreSaid(t *testing.T) {
	o := results.DefaultOptions
	if got := unusual(o) + command(o); got != "make bench-peers" {
		t.Errorf("of the usual sizes it says %q", got)
	}
	o.Jobs, o.Seconds = 1000, 0.5
	if got, want := command(o), "make bench-peers FLAGS='--jobs 1000 --seconds 0.5'"; got != want || unusual(o) == "" {
		t.Errorf("got %q and %q, want %q and a warning", got, unusual(o), want)
	}
}

func TestTheReportSaysWhoFallsAndWhoIsAheadByProcesses(t *testing.T) {
	_, cells := sample()
	got := processesVerdict(results.Processes, rows(cells, results.Processes))
	for _, want := range []string{
		"txwork is at its best with 1 process; with 8 it does 73 % of that.",
		"River, bench is at its best with 8 processes; with 1 it does 38 % of that.",
		"**With 8 processes River, bench is ahead of txwork, 1.07 times.**",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it says\n%s\nwant %q", got, want)
		}
	}
	if strings.Contains(got, "With 4 processes River") {
		t.Errorf("it has River ahead where it is not:\n%s", got)
	}
}

func TestTheReportIsAsItWas(t *testing.T) {
	h, cells := sample()
	plots := map[results.Workload]string{}
	for _, w := range results.Workloads {
		plots[w] = string(w) + ".svg"
	}
	got := section([]results.Run{{Header: h, Cells: cells}, elsewhere()}, plots)
	golden := filepath.Join("testdata", "report.golden.md")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || got != string(want) {
		t.Errorf("the report differs from %s (%v); if that is meant, run go test ./report -update\n%s", golden, err,
			got)
	}
}

func TestTheReportSaysWhoWins(t *testing.T) {
	_, cells := sample()
	drain := verdict(results.Drain, rows(cells, results.Drain))
	for _, want := range []string{"txwork reaches 80 % of the limit", "txwork is ahead of River, bench, 6.25 times."} {
		if !strings.Contains(drain, want) {
			t.Errorf("of the drain it says\n%s\nwant %q", drain, want)
		}
	}
	enqueue := verdict(results.Enqueue, rows(cells, results.Enqueue))
	if want := "**River, bench is ahead of txwork, 1.22 times.** Their spreads overlap."; !strings.Contains(enqueue,
		want) {
		t.Errorf("of the enqueue it says\n%s\nwant %q", enqueue, want)
	}
	latency := verdict(results.Latency, rows(cells, results.Latency))
	if want := "txwork is ahead of River, defaults, 26 times."; !strings.Contains(latency, want) {
		t.Errorf("of the latency it says\n%s\nwant %q", latency, want)
	}
}

func TestRowsAreSortedByWhatIsBest(t *testing.T) {
	_, cells := sample()
	for w, want := range map[results.Workload]string{results.Drain: "sql", results.Latency: "txwork"} {
		if got := rows(cells, w)[0].Peer; got != want {
			t.Errorf("the first in %s is %s, want %s", w, got, want)
		}
	}
}

func TestThePageKeepsTheRest(t *testing.T) {
	page := filepath.Join(t.TempDir(), "performance.md")
	const before, after = "# Performance\n\nabove\n\n", "\n\nbelow\n"
	const begin, end = "<!-- peers:begin -->", "<!-- peers:end -->"
	write := func(text string) {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h, cells := sample()
	write(before + begin + "\nold\n" + end + after)
	for range 2 { // again over its own
		if err := Write(page, []results.Run{{Header: h, Cells: cells}}); err != nil {
			t.Fatal(err)
		}
	}
	text, _ := os.ReadFile(page)
	middle, kept := strings.CutPrefix(string(text), before+begin+"\n## Side by side\n")
	middle, keptAfter := strings.CutSuffix(middle, end+after)
	if !kept || !keptAfter || strings.Contains(middle, "old") || strings.Count(middle, "### Who took part") != 1 {
		t.Errorf("the page is now\n%s", text)
	}
	for _, without := range []string{"no markers", begin + " only", end + begin} {
		write(without)
		if err := Write(page, []results.Run{{Header: h, Cells: cells}}); err == nil ||
			!strings.Contains(err.Error(), "lacks the line") {
			t.Errorf("with the page %q: error %v", without, err)
		}
	}
}

func TestPlotsAreXMLAndNameWhoTookPart(t *testing.T) {
	_, cells := sample()
	svg, err := picture(results.Drain, rows(cells, results.Drain))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"River, bench", "bare SQL (limit)", "Drain, done jobs kept", "Arial"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the plot lacks %q", want)
		}
	}
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
