package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/txwork/txwork/bench/results"
)

// titles are the titles of the workloads.
var titles = map[results.Workload]string{
	results.Drain:        "Drain, done jobs kept",
	results.DrainDeleted: "Drain, done jobs deleted",
	results.Processes:    "Several processes on one queue",
	results.Enqueue:      "Enqueue in bulk",
	results.Single:       "Enqueue one job a transaction",
	results.Served:       "Enqueue one job a transaction, a worker beside it",
	results.Latency:      "Idle latency",
}

// explanation describes a workload, with the sizes of the run.
func explanation(w results.Workload, o results.Options) string {
	switch w {
	case results.Drain, results.DrainDeleted:
		return fmt.Sprintf("%s jobs are there when one worker process starts; the time ends when the database has "+
			"none that is not done.", count(float64(o.Jobs)))
	case results.Processes:
		return fmt.Sprintf("%s jobs are there when 1, 2, 4 and 8 worker processes start, each with the same settings "+
			"as one that is alone, and jobs are kept. The time goes from the start of the first job, in whichever "+
			"process, until the database has none that is not done; jobs/s are those of all processes together.",
			count(float64(o.Jobs)))
	case results.Enqueue:
		return fmt.Sprintf("%s jobs with each peer's fastest public call, %s a transaction, on one connection.",
			count(float64(o.Jobs)), count(float64(o.Batch)))
	case results.Single:
		return fmt.Sprintf("%d connections write one job a transaction for %g s, and notify workers as often as the "+
			"peer does by itself.", o.Connections, o.Seconds)
	default:
		return fmt.Sprintf("From just before the insert's call, its transaction included, to the start of the "+
			"handler; %d jobs a round, 20 to 60 ms (random) after the one before. Lower is better.", o.LatencyJobs)
	}
}

// section returns the report as Markdown: the first run in full, and the others next to it. Plots maps workloads to the
// addresses of their plots.
func section(runs []results.Run, plots map[results.Workload]string) string {
	h, cells := runs[0].Header, runs[0].Cells
	var b strings.Builder
	fmt.Fprintf(&b, "## Side by side\n\n%s\n", conditions(h))
	for _, w := range results.Workloads {
		if rows := rows(cells, w); len(rows) > 0 {
			body, says := table, verdict
			if w == results.Processes {
				body, says = processesTable, processesVerdict
			}
			fmt.Fprintf(&b, "\n### %s\n\n%s\n\n%s", titles[w], explanation(w, h.Options), body(w, h.Options, rows))
			if v := says(w, rows); v != "" {
				fmt.Fprintf(&b, "\n%s\n", v)
			}
			fmt.Fprintf(&b, "\n![%s: medians and spread](%s)\n", titles[w], plots[w])
		}
	}
	b.WriteString(versions(runs))
	fmt.Fprintf(&b, "\n### Who took part\n\n%s", entrants(cells))
	if failures := allFailures(runs); failures != "" {
		fmt.Fprintf(&b, "\nThese measurements failed and are left out:\n\n%s", failures)
	}
	return b.String()
}

func conditions(h results.Header) string {
	return fmt.Sprintf(`Each peer through its own public API, in a process of its own, on the same PostgreSQL %s with the same settings
(%s),
on %d CPUs that server and client share. Every measurement has a fresh database, VACUUM ANALYZE and CHECKPOINT before it, %d-byte payloads and
handlers that do nothing. Pools have %d connections unless the settings below say otherwise; txwork and bare SQL claim and settle
on a few of their own besides. Peers take turns, in the opposite order every other round. Done is what the database says is
done. Bare SQL is no queue: it is the least that PostgreSQL has to do to claim jobs under a lease and to settle them under an
owner token. Write-ahead log is that after a checkpoint, whole pages included; CPU of a client is that of its process, start
included. Medians; the spread is from the worst to the best run. txwork is commit %s.%s

    %s`, h.Postgres, h.Settings, h.CPUs, h.Options.PayloadBytes, h.Options.Connections, h.Commit, unusual(h.Options), command(h.Options))
}

// unusual returns a warning if the sizes are not those of published figures.
func unusual(o results.Options) string {
	if len(deviations(o)) == 0 {
		return ""
	}
	return " **The sizes are not the usual ones.**"
}

// command returns the command that repeats the run.
func command(o results.Options) string {
	if flags := deviations(o); len(flags) > 0 {
		return "make bench-peers FLAGS='" + strings.Join(flags, " ") + "'"
	}
	return "make bench-peers"
}

// deviations returns the flags for sizes that are not the defaults.
func deviations(o results.Options) (flags []string) {
	d := results.DefaultOptions
	for _, f := range []struct {
		name      string
		got, want float64
	}{
		{"jobs", float64(o.Jobs), float64(d.Jobs)},
		{"latency-jobs", float64(o.LatencyJobs), float64(d.LatencyJobs)},
		{"payload", float64(o.PayloadBytes), float64(d.PayloadBytes)},
		{"batch", float64(o.Batch), float64(d.Batch)},
		{"connections", float64(o.Connections), float64(d.Connections)},
		{"seconds", o.Seconds, d.Seconds},
	} {
		if f.got != f.want {
			flags = append(flags, "--"+f.name+" "+strconv.FormatFloat(f.got, 'f', -1, 64))
		}
	}
	return flags
}

// entrants lists versions and settings.
func entrants(cells []results.Cell) string {
	var b strings.Builder
	b.WriteString("| | version | settings |\n|---|---|---|\n")
	seen := map[string]bool{}
	for _, c := range cells {
		line := fmt.Sprintf("| %s, %s | %s | %s |\n", c.Name, c.Profile, c.Version, c.Settings)
		if !seen[line] {
			b.WriteString(line)
		}
		seen[line] = true
	}
	return b.String()
}

func allFailures(runs []results.Run) string {
	var b strings.Builder
	for i, run := range runs {
		on := ""
		if i > 0 {
			on = " on PostgreSQL " + run.Postgres
		}
		b.WriteString(failures(run.Cells, on))
	}
	return b.String()
}

func failures(cells []results.Cell, on string) string {
	var b strings.Builder
	for _, c := range cells {
		if c.Error != "" {
			first, _, _ := strings.Cut(c.Error, "\n")
			fmt.Fprintf(&b, "- %s%s: %s\n", c.Key, on, first)
		}
	}
	return b.String()
}
