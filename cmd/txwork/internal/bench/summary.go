package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Write writes a result for people.
func (r *Result) Write(w io.Writer) error {
	t := &summary{out: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	t.line(r.Workload, "%d jobs in %.2f s%s", r.Jobs, r.Seconds, interruption(r.Interrupted))
	t.line("rate", "%.0f jobs/s", r.JobsPerSecond)
	if len(r.PerSecond) > 1 {
		t.line("by second", "%s", strings.Trim(fmt.Sprint(r.PerSecond), "[]"))
	}
	if r.LastToFirstQuarter > 0 {
		t.line("last quarter", "%.2f of the first one's speed", r.LastToFirstQuarter)
	}
	t.percentiles(r)
	t.costs(r.Costs)
	t.line("lost", "%d", r.Lost)
	s := r.Settings
	t.line("server", "PostgreSQL %s, fsync %s, synchronous_commit %s; %d cores here", s.ServerVersion, s.Fsync,
		s.SynchronousCommit, s.Cores)
	return t.out.Flush()
}

type summary struct{ out *tabwriter.Writer }

func (t *summary) line(name, format string, args ...any) {
	fmt.Fprintf(t.out, "%s\t"+format+"\n", append([]any{name}, args...)...)
}

func (t *summary) percentiles(r *Result) {
	p := r.Percentiles
	if p == nil {
		return
	}
	t.line(r.measured, "p50 %.2f ms, p95 %.2f ms, p99 %.2f ms, max %.2f ms", p.P50, p.P95, p.P99, p.Max)
	if r.clockDoubt > 0 {
		t.line("", "give or take %.2f ms: the clocks of two machines", r.clockDoubt)
	}
	if r.Early != nil {
		t.line("early", "%d", *r.Early)
	}
}

func (t *summary) costs(c *Costs) {
	if c == nil {
		return
	}
	t.line("per job", "%.0f bytes of write-ahead log, %.3f commits", c.WALBytes, c.Commits)
	cpu := fmt.Sprintf("%.1f µs of the client", c.ClientCPU)
	if c.ServerCPU != nil {
		cpu = fmt.Sprintf("%.1f µs of the server, ", *c.ServerCPU) + cpu
	}
	t.line("CPU per job", "%s", cpu)
	t.line("memory", "%.0f MiB of the client at most", float64(c.ClientMemory)/(1<<20))
	if c.HotShare != nil {
		t.line("heap-only", "%.3f updates a claim", *c.HotShare)
	}
	t.line("dead tuples", "%d", c.DeadTuples)
}

func interruption(interrupted bool) string {
	if interrupted {
		return " until the interruption"
	}
	return ""
}
