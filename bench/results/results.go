package results

import (
	"fmt"
	"slices"

	"github.com/txwork/txwork/internal/measure"
)

// A Workload is what is measured.
type Workload string

// The workloads.
const (
	Drain        Workload = "drain"         // jobs that are there are done and kept
	DrainDeleted Workload = "drain-deleted" // jobs that are there are done and deleted
	Enqueue      Workload = "enqueue"       // jobs are written in bulk
	Processes    Workload = "processes"     // drain by several worker processes on one queue
	Single       Workload = "single"        // jobs are written one a transaction
	Latency      Workload = "latency"       // from insert to handler start on an idle queue

	// Served is Single with a worker of the peer beside it, on a queue without jobs. It is measured only if it is
	// named.
	Served Workload = "served"
)

// Workloads are the workloads of the report, in the order in which they are run.
var Workloads = []Workload{Drain, DrainDeleted, Processes, Enqueue, Single, Latency}

// ProcessCounts are the numbers of worker processes in the workload [Processes].
var ProcessCounts = []int{1, 2, 4, 8}

// Known reports whether there is such a workload.
func (w Workload) Known() bool { return w == Served || slices.Contains(Workloads, w) }

// A Header describes the conditions under which the cells were measured.
type Header struct {
	Commit   string  `json:"commit"`   // of txwork
	Postgres string  `json:"postgres"` // version
	CPUs     int     `json:"cpus"`     // shared by server and clients
	Settings string  `json:"settings"` // of the server
	Options  Options `json:"options"`
}

// Options are the sizes of a run.
type Options struct {
	Jobs         int     `json:"jobs"`          // number of jobs of drains and bulk enqueues
	LatencyJobs  int     `json:"latency_jobs"`  // samples of a latency cell
	PayloadBytes int     `json:"payload_bytes"` // of each job
	Batch        int     `json:"batch"`         // jobs in one transaction of a bulk enqueue
	Connections  int     `json:"connections"`   // clients of single, and the size of each pool
	Seconds      float64 `json:"seconds"`       // duration of single
}

// DefaultOptions are the sizes of published figures.
var DefaultOptions = Options{Jobs: 200_000, LatencyJobs: 300, PayloadBytes: 30, Batch: 1000, Connections: 8,
	Seconds: 10}

// A Run is the content of one file.
type Run struct {
	Header
	Cells []Cell
}

// An Entrant is a peer with one of its profiles.
type Entrant struct {
	Peer    string `json:"peer"`
	Profile string `json:"profile"`
}

// String names the entrant as flags do.
func (e Entrant) String() string { return e.Peer + ":" + e.Profile }

// String names the cell for progress messages.
func (k Key) String() string {
	name := string(k.Workload)
	if k.Processes > 0 {
		name += fmt.Sprintf(" %d", k.Processes)
	}
	return fmt.Sprintf("%s, round %d, %s", name, k.Round, k.Entrant)
}

// A Key names a cell.
type Key struct {
	Workload Workload `json:"workload"`
	Entrant
	Processes int `json:"processes,omitempty"` // of the workload Processes
	Round     int `json:"round"`               // from 1
}

// A Cell is one measurement.
type Cell struct {
	Key
	Name     string `json:"name"`     // the peer's own
	Version  string `json:"version"`  // of the peer
	Settings string `json:"settings"` // of the profile
	Deleted  bool   `json:"deleted"`  // done jobs were deleted, else kept

	Jobs      int     `json:"jobs"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"jobs_per_second,omitempty"`

	P50 float64 `json:"p50_ms,omitempty"` // of the workload Latency
	P99 float64 `json:"p99_ms,omitempty"`

	Costs     measure.Costs  `json:"costs"`
	FillCosts *measure.Costs `json:"fill_costs,omitempty"` // of writing the jobs of a drain

	PeakMemory float64 `json:"client_peak_memory_mib,omitempty"` // of a process that drains alone, on Linux

	Took  float64 `json:"took_seconds"` // including preparation
	Error string  `json:"error,omitempty"`
}
