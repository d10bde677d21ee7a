//go:build unix

package series

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/page"
	"github.com/txwork/txwork/proof/torture"
)

// marker names the lines of the page that enclose the report.
const marker = "torture"

func writePage(file string, results []result) error {
	return page.Write(file, marker, section(results))
}

// section renders the report as Markdown.
func section(results []result) string {
	var b strings.Builder
	var runs []result
	for _, r := range results {
		if r.Report != nil {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		return "No run has ended yet.\n"
	}
	b.WriteString(runTable(runs))
	b.WriteString("\n" + faultTable(runs))
	b.WriteString(missing(runs))
	for _, r := range results {
		if len(r.Builds) > 0 {
			b.WriteString("\n" + buildTable(r))
		}
	}
	return b.String()
}

func runTable(runs []result) string {
	var b strings.Builder
	b.WriteString("| run | rows | redeliveries | leases reaped | stale handlers | processes, servers ended | lost | " +
		"double settles | order violations | early timers | other violations |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range runs {
		p := r.Report
		fmt.Fprintf(&b, "| seed %d, %v%s | %s | %s | %s | %s | %s, %d | %d | %d | %d | %d | %d |\n", p.Seed,
			r.Report.Duration.Round(time.Second), only(r),
			count(p.Rows), count(p.Redeliveries), count(p.Reaped), count(p.Refused), count(p.ProcessesEnded), p.Outages,
			p.Lost, p.DoubleSettles, p.OrderViolations, p.EarlyTimers, others(p))
	}
	fmt.Fprintf(&b, "\n%s\n", conditions(runs))
	return b.String()
}

// only describes a run that does not have all faults.
func only(r result) string {
	if r.planned.kind == manyRows {
		return fmt.Sprintf(", PostgreSQL crashed %d times", r.Report.Faults[crashedFault].Strikes)
	}
	return ""
}

// others counts failures, and violations that have no column of their own.
func others(p *torture.Report) (n int) {
	for _, found := range p.Violations {
		n += found
	}
	return n + len(p.Failures) - p.Lost - p.DoubleSettles - p.OrderViolations - p.Violations["I9"]
}

func conditions(runs []result) string {
	seen := map[string]bool{}
	for _, r := range runs {
		beside := "alone"
		if r.Beside > 0 {
			beside = fmt.Sprintf("beside up to %d others", r.Beside)
		}
		seen[fmt.Sprintf("%s, %s, code of %s", r.Machine, beside, r.Code)] = true
	}
	return "Machines: " + strings.Join(slices.Sorted(maps.Keys(seen)), "; ") + "."
}

// A faultSum adds up one fault over all runs.
type faultSum struct {
	strikes, failed int
	recoveries      []time.Duration
}

func sumFaults(runs []result) map[string]*faultSum {
	sums := map[string]*faultSum{}
	for _, r := range runs {
		for name, f := range r.Report.Faults {
			if sums[name] == nil {
				sums[name] = &faultSum{}
			}
			s := sums[name]
			s.strikes += f.Strikes
			s.failed += len(f.Errors)
			s.recoveries = append(s.recoveries, f.Recoveries...)
		}
	}
	return sums
}

func faultTable(runs []result) string {
	var b strings.Builder
	b.WriteString("| fault | strikes | recovery p50 | max | could not be made |\n|---|---|---|---|---|\n")
	sums := sumFaults(runs)
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		s := sums[name]
		slices.Sort(s.recoveries)
		p50, longest := torture.Spread(s.recoveries)
		fmt.Fprintf(&b, "| `%s` | %s | %.1f s | %.1f s | %d |\n", name, count(s.strikes), p50.Seconds(),
			longest.Seconds(), s.failed)
	}
	return b.String()
}

// missing says which faults did not strike, if any.
func missing(runs []result) string {
	var b strings.Builder
	for _, r := range runs {
		for _, s := range r.Report.Skipped {
			fmt.Fprintf(&b, "\n**SKIPPED** in %s: `%s`: %s\n", r.planned.name, s.Fault, s.Reason)
		}
		for _, s := range r.Report.NotStruck {
			fmt.Fprintf(&b, "\n**NOT STRUCK** in %s: `%s`: %s\n", r.planned.name, s.Fault, s.Reason)
		}
	}
	return b.String()
}

func buildTable(r result) string {
	var b strings.Builder
	b.WriteString("| build that is broken on purpose | found | after |\n|---|---|---|\n")
	for _, build := range r.Builds {
		found := "**no**"
		if build.Found {
			found = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s | %.0f s |\n", build.Name, found, build.Took.Seconds())
	}
	return b.String()
}

// count writes whole numbers with a comma every three digits.
func count(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
