package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/bench/results"
)

func TestParse(t *testing.T) {
	f, err := parse([]string{"--peers", "txwork,river:bench", "--workloads", "drain,latency", "--rounds", "2",
		"--resume", "--docs", "../docs"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.Peers, []string{"txwork", "river:bench"}) ||
		!slices.Equal(f.Workloads, []results.Workload{results.Drain, results.Latency}) {
		t.Errorf("peers %v, workloads %v", f.Peers, f.Workloads)
	}
	if f.Rounds != 2 || !f.Resume || f.Options.Jobs != 200_000 || f.File != "peers.json" {
		t.Errorf("flags %+v", f)
	}
}

func TestParseRefusesWhatCannotBeRun(t *testing.T) {
	for flags, want := range map[string]string{
		"--workloads dance": `no workload "dance"`,
		"--rounds 0":        "--rounds is 0",
		"--jobs 0":          "--jobs is 0",
		"--seconds 0":       "--seconds must be positive",
		"--seconds NaN":     "--seconds must be positive",
		"--seconds Inf":     "--seconds must be positive",
		"--cell-limit -1s":  "--cell-limit positive",
		"--payload -1":      "--payload not negative",
		"--json a,b":        "which only --report-only takes",
		"--docs /nowhere":   "no report can be written to /nowhere/performance.md",
		"drain":             `unknown argument "drain"`,
	} {
		if _, err := parse(strings.Fields(flags)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", flags, err, want)
		}
	}
}
