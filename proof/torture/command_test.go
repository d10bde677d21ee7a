//go:build unix

package torture

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/proof/program"
)

// commandEnv makes the test binary run the command.
const commandEnv = "TXWORK_TORTURE_COMMAND"

func runCommand() {
	program.Main("proof", program.Chore{Name: "torture", Run: Command}, program.Chore{Name: MemberCommand,
		Run: CommandOfMember})
}

// commandLine runs the command as a process.
func commandLine(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, append([]string{"torture"}, args...)...)
	cmd.Env = append(os.Environ(), commandEnv+"=yes")
	return cmd
}

func TestTheCommandRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, want, args string }{
		{"fault", `there is no fault "rain"`, "--faults rain"},
		{"argument", `unexpected argument "rain"`, "rain"},
		{"duration", "too short", "--duration 1ms"},
		{"no duration", "--duration is 0s", "--duration 0s"},
		{"no workers", "--workers is 0", "--workers 0"},
		{"no workers by SQL", "--sql-workers is 0", "--sql-workers 0"},
		{"workers by SQL", "cannot be", "--sql-workers -1"},
		{"rows", "cannot be", "--rows -1"},
		{"pause", "cannot be", "--pause -1s"},
		{"workers", "cannot be", "--workers -1"},
		{"poll", "cannot be", "--poll 1h"},
		{"database", "database URL is wrong", "--database-url postgres://%"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found, err := Command(t.Context(), strings.Fields(c.args), io.Discard, io.Discard)
			if found || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("found %v, error %v, want %q", found, err, c.want)
			}
		})
	}
}

func TestTheCommandHelps(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	if _, err := Command(t.Context(), []string{"--help"}, io.Discard, &said); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("the error is %v", err)
	}
	for _, want := range append(Faults(), "-database-url", "130 if it was interrupted") {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the help lacks %s", want)
		}
	}
}

// A server that does not answer is reported before anything else is done, such as building an older revision.
func TestTheCommandWithoutAServer(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	_, err := Command(t.Context(), []string{"--database-url", "postgres://nobody@127.0.0.1:1/none"}, io.Discard, &said)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1") || strings.Contains(said.String(), "SKIPPED") {
		t.Errorf("the error is %v, said was %s", err, said.String())
	}
}

// After an interruption the command reports nothing that it saw, and leaves nothing behind.
func TestTheCommandIsInterrupted(t *testing.T) {
	t.Parallel()
	temp, err := os.MkdirTemp("", "interrupted-") // not the test's own directory, which the server's user cannot enter
	must(t, err)
	defer os.RemoveAll(temp)
	must(t, os.Chmod(temp, 0o777))
	cmd := commandLine(t, "--json", "--duration", "10m", "--faults", "worker-kill,poison,clock,disk-full")
	cmd.Env = append(cmd.Env, "TMPDIR="+temp)
	var stdout, stderr bytes.Buffer
	cmd.Stdout = &stdout
	progress, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	for lines := bufio.NewScanner(io.TeeReader(progress, &stderr)); lines.Scan(); {
		if strings.Contains(lines.Text(), "rows committed") {
			must(t, cmd.Process.Signal(os.Interrupt))
		}
	}
	_ = cmd.Wait() // the exit code says enough

	if code := cmd.ProcessState.ExitCode(); code != 130 ||
		!strings.Contains(stderr.String(), "proof torture: interrupted") {
		t.Errorf("the exit code is %d: %s", code, stderr.String())
	}
	if stdout.Len() > 0 {
		t.Errorf("it has printed %s", stdout.String())
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v are left behind, error %v", left, err)
	}
}

// With --json, the command prints one line with these fields, for programs.
func TestTheCommandsJSON(t *testing.T) {
	t.Parallel()
	cmd := commandLine(t, "--json", "--seed", "7", "--duration", "2s", "--workers", "1",
		"--faults", "worker-kill,failover", "--database-url", pgtest.URL(t))
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
		"announcers", "claims", "crews", "double_settles", "drained_in", "duration", "early_timers", "failures",
		"faults", "found", "log", "lost", "not_struck", "order_violations", "outages", "overtime", "processes_ended",
		"reaped", "redeliveries", "refused", "repeat", "rows", "seed", "skipped",
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
	if !slices.Equal(fault, []string{"details", "errors", "recoveries", "recovery_max", "recovery_p50", "strikes",
		"took"}) {
		t.Errorf("faults are %s", struck)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
