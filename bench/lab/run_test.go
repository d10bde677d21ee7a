package lab_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/bench/lab"
	"github.com/txwork/txwork/bench/results"
)

// small returns a request for a run that takes seconds.
func small(t *testing.T) lab.Request {
	return lab.Request{
		Options: results.Options{Jobs: 200, LatencyJobs: 5, PayloadBytes: 30, Batch: 50, Connections: 2,
			Seconds: 0.2},
		Rounds:    1,
		Peers:     []string{"txwork:defaults", "sql"},
		File:      filepath.Join(t.TempDir(), "results.json"),
		CellLimit: 5 * time.Minute,
	}
}

// TestEveryWorkloadOfTxworkAndBareSQL interrupts a run after the first cell, and resumes it.
func TestEveryWorkloadOfTxworkAndBareSQL(t *testing.T) {
	r := small(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.Progress.Out = &until{text: "jobs/s", then: cancel}
	if err := lab.Run(ctx, r); !errors.Is(err, context.Canceled) {
		t.Fatalf("the interrupted run ended with %v", err)
	}

	var log bytes.Buffer
	r.Progress.Out, r.Resume = &log, true
	if err := lab.Run(t.Context(), r); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	all := 2 * (len(results.Workloads) - 1 + len(results.ProcessCounts))
	if missing := fmt.Sprintf("%[1]d/%[1]d", all-1); !strings.Contains(log.String(), missing) {
		t.Errorf("the second run did not measure the %s cells that were missing:\n%s", missing, &log)
	}
	header, cells, err := results.Read(r.File)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(header.Settings, "fsync = on") ||
		!strings.Contains(header.Settings, "synchronous_commit = on") {
		t.Errorf("the server's settings are %q", header.Settings)
	}
	if len(cells) != all {
		t.Errorf("%d cells, want one for each workload, number of processes and peer", len(cells))
	}
	for _, c := range cells {
		checkCell(t, c)
	}
}

func checkCell(t *testing.T, c results.Cell) {
	t.Helper()
	want := map[results.Workload]int{results.Drain: 200, results.DrainDeleted: 200, results.Processes: 200,
		results.Enqueue: 200, results.Latency: 5}
	if n, exact := want[c.Workload]; exact && c.Jobs != n || c.Jobs == 0 {
		t.Errorf("%s of %s counts %d jobs", c.Workload, c.Entrant, c.Jobs)
	}
	if latency := c.Workload == results.Latency; latency && (c.P50 <= 0 || c.P99 < c.P50) ||
		!latency && c.PerSecond <= 0 {
		t.Errorf("%s of %s has measured nothing: %+v", c.Workload, c.Entrant, c)
	}
	if c.Costs.WALBytes <= 0 || c.Costs.ClientCPU <= 0 {
		t.Errorf("%s of %s costs nothing: %+v", c.Workload, c.Entrant, c.Costs)
	}
	if c.Deleted != (c.Workload == results.DrainDeleted) {
		t.Errorf("%s of %s: deleted = %v", c.Workload, c.Entrant, c.Deleted)
	}
}

// until calls then when a text is written.
type until struct {
	text string
	then func()
}

func (u *until) Write(p []byte) (int, error) {
	if strings.Contains(string(p), u.text) {
		u.then()
	}
	return len(p), nil
}

func TestACellThatTakesTooLongFailsAloneAndIsTriedAgain(t *testing.T) {
	r := small(t)
	r.Peers, r.Workloads = []string{"sql"}, []results.Workload{results.Single}
	r.Options.Seconds, r.CellLimit = 600, 2*time.Second
	var log bytes.Buffer
	r.Progress.Out = &log
	if err := lab.Run(t.Context(), r); !errors.Is(err, lab.ErrCells) {
		t.Fatalf("error %v, want ErrCells\n%s", err, &log)
	}
	_, cells, err := results.Read(r.File)
	if err != nil || len(cells) != 1 || !strings.Contains(cells[0].Error, "limit") {
		t.Errorf("the cell is noted as %+v, %v", cells, err)
	}
}

func TestWhatCannotBeMeasuredIsFoundBeforeAServerStarts(t *testing.T) {
	existing, missing, unknown := small(t), small(t), small(t)
	if err := os.WriteFile(existing.File, []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := lab.Run(t.Context(), existing); !errors.Is(err, os.ErrExist) {
		t.Errorf("error %v, want that the results are there", err)
	}
	nowhere := small(t)
	nowhere.File = filepath.Join(filepath.Dir(nowhere.File), "no such directory", "results.json")
	if err := lab.Run(t.Context(), nowhere); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "open") {
		t.Errorf("error %v, want that the file cannot be made", err)
	}
	missing.Resume = true
	if err := lab.Run(t.Context(), missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want that there is nothing to resume", err)
	}
	unknown.Peers = []string{"rivre"}
	if err := lab.Run(t.Context(), unknown); err == nil || !strings.Contains(err.Error(), "rivre") {
		t.Errorf("error %v, want one that names rivre", err)
	}
}
