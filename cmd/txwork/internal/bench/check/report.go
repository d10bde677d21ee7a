package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
)

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
	Workload string   `json:"workload"`
	Metric   string   `json:"metric"`
	Higher   bool     `json:"higher_is_better"`
	Base     *figures `json:"base,omitempty"`
	Tree     *figures `json:"working_tree,omitempty"`
	// Ratio is the working tree's median divided by the base's.
	Ratio *float64 `json:"ratio,omitempty"`
	// Apart says that the ranges of the two sides do not overlap, and that there are enough runs for this to be more
	// than chance.
	Apart bool `json:"apart"`

	title string
}

// figures summarise one side's runs.
type figures struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Runs   int     `json:"runs"`
}

func (m *measurement) report() report {
	r := report{Base: m.sides[0].commit, Tree: m.sides[1].commit, Rows: []row{}, LeftOut: []string{}}
	for i, c := range m.cells {
		for side, s := range m.sides {
			if why := m.absent[runOf{i, side}]; why != "" {
				r.LeftOut = append(r.LeftOut, fmt.Sprintf("%s, %s: %s", s.name, c.name(), why))
			}
		}
		for _, metric := range c.metrics {
			base, tree := figuresOf(m.runs[runOf{i, 0}], metric.path), figuresOf(m.runs[runOf{i, 1}], metric.path)
			if base != nil || tree != nil {
				r.Rows = append(r.Rows, compare(c.name(), metric, base, tree))
			}
		}
	}
	return r
}

// minRuns is how many runs each side needs before it means something that the ranges do not overlap. With five and five
// runs of equal programs that happens in one case of 126.
const minRuns = 5

func compare(workload string, m metric, base, tree *figures) row {
	r := row{Workload: workload, Metric: m.path, Higher: m.higher, Base: base, Tree: tree, title: m.title}
	if base == nil || tree == nil {
		return r
	}
	r.Apart = min(base.Runs, tree.Runs) >= minRuns && (base.Max < tree.Min || tree.Max < base.Min)
	if base.Median != 0 {
		ratio := tree.Median / base.Median
		r.Ratio = &ratio
	}
	return r
}

// figuresOf returns nil if no run has the number.
func figuresOf(runs []map[string]float64, path string) *figures {
	var all []float64
	for _, numbers := range runs {
		if n, ok := numbers[path]; ok {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	n := len(all)
	return &figures{Median: (all[(n-1)/2] + all[n/2]) / 2, Min: all[0], Max: all[n-1], Runs: n}
}

func (r report) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	fmt.Fprintf(w, "base:         %s\nworking tree: %s, as it is\n\n", r.Base, r.Tree)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "workload\tmetric\tbase: median (min to max)\tworking tree\truns\tratio\t")
	last := ""
	for _, row := range r.Rows {
		name := row.Workload
		if name == last {
			name = ""
		}
		last = row.Workload
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d+%d\t%s\t%s\n", name, row.title, row.Base, row.Tree, row.Base.runs(),
			row.Tree.runs(), row.ratio(), row.verdict())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, why := range r.LeftOut {
		fmt.Fprintln(w, "left out:", why)
	}
	_, err := fmt.Fprintf(w, "\nRatios are the working tree's median by the base's. Without better or worse it is no "+
		"difference: the runs overlap,\nor there are fewer than %d of a side.\n", minRuns)
	return err
}

func (f *figures) String() string {
	if f == nil {
		return "-"
	}
	return fmt.Sprintf("%s (%s to %s)", figure(f.Median), figure(f.Min), figure(f.Max))
}

func (f *figures) runs() int {
	if f == nil {
		return 0
	}
	return f.Runs
}

func (r row) ratio() string {
	if r.Ratio == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *r.Ratio)
}

// verdict returns a text only if the ranges do not overlap.
func (r row) verdict() string {
	switch {
	case !r.Apart:
		return ""
	case (r.Tree.Median > r.Base.Median) == r.Higher:
		return "better"
	}
	return "worse"
}

// figure formats a number with three digits, or with all digits before the decimal point.
func figure(f float64) string {
	if f >= 100 || f <= -100 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}
