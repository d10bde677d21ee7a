package lab

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/txwork/txwork/bench/results"
)

// counters are values of the server's counters.
type counters struct {
	wal    float64 // bytes
	cpu    time.Duration
	hasCPU bool
}

func (d *database) counters(ctx context.Context) (c counters, err error) {
	c.cpu, c.hasCPU = serverCPU(d.dir)
	const wal = "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8"
	return c, d.conn.QueryRow(ctx, wal).Scan(&c.wal)
}

// costs returns the differences of the counters, divided by the number of jobs.
func costs(before, after counters, clientCPU time.Duration, jobs int) results.Costs {
	c := results.Costs{
		WALBytes:  (after.wal - before.wal) / float64(jobs),
		ClientCPU: microseconds(clientCPU) / float64(jobs),
	}
	if before.hasCPU && after.hasCPU {
		cpu := microseconds(after.cpu-before.cpu) / float64(jobs)
		c.ServerCPU = &cpu
	}
	return c
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// tick is the unit of times in /proc, the same for every Linux that Go runs on.
const tick = 10 * time.Millisecond

// serverCPU returns the processor time of all processes of the server: the postmaster, its children, and the children
// that have ended. It is only known on Linux.
func serverCPU(dir string) (time.Duration, bool) {
	postmaster, ok := postmasterPID(dir)
	if !ok {
		return 0, false
	}
	all, err := procfs.AllProcs()
	if err != nil {
		return 0, false
	}
	var ticks uint
	for _, p := range all {
		s, err := p.Stat()
		switch {
		case err != nil: // the process has ended
		case s.PID == postmaster:
			ticks += s.UTime + s.STime + uint(s.CUTime+s.CSTime)
		case s.PPID == postmaster:
			ticks += s.UTime + s.STime
		}
	}
	return time.Duration(ticks) * tick, ticks > 0
}

func postmasterPID(dir string) (int, bool) {
	file, err := os.Open(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return 0, false
	}
	defer file.Close()
	line := bufio.NewScanner(file)
	line.Scan()
	pid, err := strconv.Atoi(strings.TrimSpace(line.Text()))
	return pid, err == nil
}
