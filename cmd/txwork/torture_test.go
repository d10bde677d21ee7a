//go:build unix

package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
)

func TestTortureRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, want, args string }{
		{"fault", `there is no fault "rain"`, "--faults rain"},
		{"schema", "leave out --schema", "--schema mine"},
		{"duration", "too short", "--duration 1ms"},
		{"rows", "cannot be", "--rows -1"},
		{"pause", "cannot be", "--pause -1s"},
		{"workers", "cannot be", "--workers -1"},
		{"database", "database URL is wrong", "--database-url postgres://%"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"torture"}, strings.Fields(c.args)...)
			execute(t, t.Context(), strings.NewReader(""), nil, args...).exits(exitUsage).says(c.want)
		})
	}
}

// Programs read what --json prints: one line, with these fields.
func TestTortureJSON(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self, "torture", "--json", "--seed", "7", "--duration", "2s", "--workers", "1",
		"--faults", "worker-kill,failover", "--database-url", pgtest.URL(t))
	cmd.Env = append(os.Environ(), asCommand+"=yes")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if lines := strings.Count(string(out), "\n"); lines != 1 {
		t.Errorf("%d lines, want one:\n%s", lines, out)
	}
	var report map[string]any
	must(t, json.Unmarshal(out, &report))
	want := []string{
		"claims", "double_settles", "drained_in", "duration", "early_timers", "failures", "faults", "found", "lost", "not_struck",
		"order_violations", "outages", "processes_ended", "reaped", "redeliveries", "refused", "repeat", "rows", "seed", "skipped",
		"violations",
	}
	if fields := slices.Sorted(maps.Keys(report)); !slices.Equal(fields, want) {
		t.Errorf("the fields are %v, want %v", fields, want)
	}
	if report["seed"] != 7.0 || report["rows"] == 0.0 || report["lost"] != 0.0 || report["double_settles"] != 0.0 {
		t.Errorf("the report is %s", out)
	}
	skipped, _ := json.Marshal(report["skipped"])
	if !strings.Contains(string(skipped), `[{"fault":"failover","reason":"`) {
		t.Errorf("skipped are %s", skipped)
	}
	struck, _ := json.Marshal(report["faults"])
	var faults map[string]map[string]any
	must(t, json.Unmarshal(struck, &faults))
	fault := slices.Sorted(maps.Keys(faults["worker-kill"]))
	if !slices.Equal(fault, []string{"details", "errors", "recoveries", "recovery_max", "recovery_p50", "strikes"}) {
		t.Errorf("faults are %s", struck)
	}
}
