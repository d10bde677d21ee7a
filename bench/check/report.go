package check

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/txwork/txwork/bench/results"
	"github.com/txwork/txwork/internal/measure"
)

// A metric is a figure of a cell.
type metric struct {
	name, title string
	higher      bool // higher is better
	of          func(results.Cell) *float64
}

var metrics = []metric{
	{"jobs_per_second", "jobs/s", true, func(c results.Cell) *float64 { return &c.PerSecond }},
	{"p50_ms", "p50, ms", false, func(c results.Cell) *float64 { return &c.P50 }},
	{"p99_ms", "p99, ms", false, func(c results.Cell) *float64 { return &c.P99 }},
	{"wal_bytes_per_job", "log, bytes/job", false, func(c results.Cell) *float64 { return &c.Costs.WALBytes }},
	{"server_cpu_us_per_job", "server CPU, µs/job", false,
		func(c results.Cell) *float64 { return c.Costs.ServerCPU }},
	{"client_cpu_us_per_job", "client CPU, µs/job", false,
		func(c results.Cell) *float64 { return &c.Costs.ClientCPU }},
	{"client_peak_memory_mib", "client memory, MiB", false,
		func(c results.Cell) *float64 { return &c.PeakMemory }},
}

// A report is what was measured. Its JSON names are stable.
type report struct {
	Base string `json:"base"`
	Tree string `json:"working_tree"`
	Rows []row  `json:"rows"`
	// LeftOut says why a side has no figures for a workload.
	LeftOut []string `json:"left_out"`
}

// A row is one metric of one workload.
type row struct {
	Workload results.Workload `json:"workload"`
	Metric   string           `json:"metric"`
	Higher   bool             `json:"higher_is_better"`
	Base     *measure.Spread  `json:"base,omitempty"`
	Tree     *measure.Spread  `json:"working_tree,omitempty"`
	// Ratio is the working tree's median divided by the base's.
	Ratio *float64 `json:"ratio,omitempty"`
	// Apart says that the ranges of the two sides do not overlap, and that there are enough runs for this to be more
	// than chance.
	Apart bool `json:"apart"`
	// Beside are the others that took turns.
	Beside []other `json:"beside,omitempty"`

	title string
}

// An other is a peer beside the two.
type other struct {
	Peer string `json:"peer"`
	measure.Spread
	// Ratio is the working tree's median divided by this peer's.
	Ratio *float64 `json:"ratio,omitempty"`
}

func newReport(c *checkouts, cells []results.Cell) report {
	r := report{Base: c.base, Tree: c.tree, Rows: []row{}, LeftOut: []string{}}
	for _, cell := range cells {
		if cell.Error != "" {
			why, _, _ := strings.Cut(cell.Error, "\n")
			r.LeftOut = append(r.LeftOut, fmt.Sprintf("%s: %s", cell.Key, why))
		}
	}
	for _, w := range workloadsOf(cells) {
		for _, m := range metrics {
			row := compare(w, m, spreadOf(cells, w, m, sides[0]), spreadOf(cells, w, m, sides[1]))
			for _, peer := range othersOf(cells) {
				row.add(peer, spreadOf(cells, w, m, peer))
			}
			if row.Base != nil || row.Tree != nil || row.Beside != nil {
				r.Rows = append(r.Rows, row)
			}
		}
	}
	return r
}

// workloadsOf returns the workloads in the order in which they were measured.
func workloadsOf(cells []results.Cell) (all []results.Workload) {
	for _, c := range cells {
		if !slices.Contains(all, c.Workload) {
			all = append(all, c.Workload)
		}
	}
	return all
}

// The two sides that are compared.
var sides = []results.Entrant{{Peer: base, Profile: profile}, {Peer: tree, Profile: profile}}

// othersOf returns the other peers in the order of their turns.
func othersOf(cells []results.Cell) (all []results.Entrant) {
	for _, c := range cells {
		if !slices.Contains(sides, c.Entrant) && !slices.Contains(all, c.Entrant) {
			all = append(all, c.Entrant)
		}
	}
	return all
}

// spreadOf returns nil if no cell of the entrant has the figure.
func spreadOf(cells []results.Cell, w results.Workload, m metric, e results.Entrant) *measure.Spread {
	var figures []float64
	for _, c := range cells {
		if f := m.of(c); c.Workload == w && c.Entrant == e && c.Error == "" && f != nil && *f > 0 {
			figures = append(figures, *f)
		}
	}
	if len(figures) == 0 {
		return nil
	}
	s := measure.SpreadOf(figures)
	return &s
}

// minRuns is how many runs each side needs before it means something that the ranges do not overlap. With five and five
// runs of equal programs that happens in one case of 126.
const minRuns = 5

func compare(w results.Workload, m metric, base, tree *measure.Spread) row {
	r := row{Workload: w, Metric: m.name, Higher: m.higher, Base: base, Tree: tree, title: m.title}
	r.Ratio = ratioOf(tree, base)
	r.Apart = r.Ratio != nil && min(base.Runs, tree.Runs) >= minRuns && !base.Overlaps(*tree)
	return r
}

// ratioOf divides two medians; nil if one is missing.
func ratioOf(a, b *measure.Spread) *float64 {
	if a == nil || b == nil {
		return nil
	}
	ratio := a.Median / b.Median
	return &ratio
}

// add adds the figures of another peer, unless there are none.
func (r *row) add(peer results.Entrant, s *measure.Spread) {
	if s != nil {
		r.Beside = append(r.Beside, other{peer.String(), *s, ratioOf(r.Tree, s)})
	}
}

func (r report) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "workload\tmetric\tbase: median (min to max)\tworking tree\truns\tratio\t")
	last := results.Workload("")
	for _, row := range r.Rows {
		name := row.Workload
		if name == last {
			name = ""
		}
		last = row.Workload
		base, baseRuns := figures(row.Base)
		tree, treeRuns := figures(row.Tree)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d+%d\t%s\n", name, row.title, base, tree, baseRuns, treeRuns, row.verdict())
		for _, o := range row.Beside {
			theirs, runs := figures(&o.Spread)
			fmt.Fprintf(t, "\t  %s\t%s\t\t%d\t%s\t\n", o.Peer, theirs, runs, ratio(o.Ratio))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, why := range r.LeftOut {
		fmt.Fprintln(w, "left out:", why)
	}
	_, err := fmt.Fprintf(w, "\nRatios are the working tree's median by the base's, or by that of the peer in the line. "+
		"Without better or\nworse it is no difference: the runs overlap, or there are fewer than %d of a side.\n", minRuns)
	return err
}

func figures(s *measure.Spread) (text string, runs int) {
	if s == nil {
		return "-", 0
	}
	return fmt.Sprintf("%s (%s to %s)", figure(s.Median), figure(s.Min), figure(s.Max)), s.Runs
}

// verdict returns the ratio, and a word only if the ranges do not overlap.
func (r row) verdict() string {
	word := ""
	switch {
	case r.Ratio == nil || !r.Apart:
	case (*r.Ratio > 1) == r.Higher:
		word = "better"
	default:
		word = "worse"
	}
	return ratio(r.Ratio) + "\t" + word
}

func ratio(r *float64) string {
	if r == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *r)
}

// figure formats a number with three digits, or with all digits before the decimal point.
func figure(f float64) string {
	if f >= 100 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}
