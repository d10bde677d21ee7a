//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/localpg"
)

// benchProcess starts the bench as a process on a database of its own. The bench runs worker processes.
func benchProcess(t *testing.T, args ...string) (cmd *exec.Cmd, conn *pgx.Conn, finished func() result) {
	t.Helper()
	address, conn := newDatabase(t)
	cmd, finished = benchOn(t, address, args...)
	return cmd, conn, finished
}

func benchOn(t *testing.T, address string, args ...string) (cmd *exec.Cmd, finished func() result) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd = exec.CommandContext(t.Context(), self, append([]string{"bench"}, args...)...)
	cmd.Env = append(os.Environ(), asCommand+"=1", databaseURLEnv+"="+address)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	must(t, cmd.Start())
	return cmd, func() result {
		_ = cmd.Wait() // the exit code says enough
		return result{t: t, code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
	}
}

func TestBenchWithWorkerProcesses(t *testing.T) {
	t.Parallel()
	_, conn, finished := benchProcess(t, "drain", "--jobs", "400", "--processes", "2", "--fail", "10%", "--json")
	r := finished().ok()
	checkBench(t, decode[benchResult](r), "drain", 400)
	object := decode[map[string]json.RawMessage](r)
	if string(object["hot_share"]) == "0" || !strings.Contains(string(object["parameters"]), `"processes":2`) {
		t.Errorf("claims of other processes are not counted, or not attributed to them: %s", r.stdout)
	}
	if schema := benchSchema(t, conn); schema != "" {
		t.Errorf("schema %s is left behind", schema)
	}
}

// workersOf returns the worker processes that a bench has started.
func workersOf(t *testing.T, bench *exec.Cmd) (pids []int) {
	t.Helper()
	task := fmt.Sprintf("/proc/%d/task", bench.Process.Pid)
	if _, err := os.Stat(task); err != nil {
		t.Skip("there is no /proc here")
	}
	files, _ := filepath.Glob(task + "/*/children")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, pid := range strings.Fields(string(text)) {
			n, err := strconv.Atoi(pid)
			must(t, err)
			pids = append(pids, n)
		}
	}
	return pids
}

// inTheMiddle starts a drain by two processes that cannot finish until release, because one job is locked.
func inTheMiddle(t *testing.T) (bench *exec.Cmd, conn *pgx.Conn, pids []int, release func(), finished func() result) {
	t.Helper()
	bench, conn, finished = benchProcess(t, "drain", "--jobs", "2000", "--processes", "2", "--json")
	release = lockOneJob(t, conn)
	someJobIsDone(t, conn)
	if pids = workersOf(t, bench); len(pids) != 2 {
		t.Fatalf("worker processes %v, want two", pids)
	}
	return bench, conn, pids, release, finished
}

func someJobIsDone(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	eventually(t, "a job is done", func() bool {
		var done bool
		query := fmt.Sprintf("SELECT EXISTS (SELECT FROM %s.jobs WHERE status = 2)", benchSchema(t, conn))
		return conn.QueryRow(t.Context(), query).Scan(&done) == nil && done
	})
}

// lockOneJob locks the first job that it finds ready, so that it cannot be claimed.
func lockOneJob(t *testing.T, conn *pgx.Conn) (release func()) {
	t.Helper()
	holder, err := pgx.ConnectConfig(t.Context(), conn.Config().Copy())
	must(t, err)
	release = func() { _ = holder.Close(context.Background()) }
	t.Cleanup(release)
	eventually(t, "a job is there", func() bool {
		schema := benchSchema(t, conn)
		if schema == "" {
			return false
		}
		_, err := holder.Exec(t.Context(), "BEGIN")
		must(t, err)
		locked, err := holder.Exec(t.Context(),
			fmt.Sprintf("SELECT FROM %s.jobs WHERE status = 0 LIMIT 1 FOR UPDATE", schema))
		if err == nil && locked.RowsAffected() == 1 {
			return true
		}
		_, err = holder.Exec(t.Context(), "ROLLBACK")
		must(t, err)
		return false
	})
	return release
}

func TestAWorkerProcessThatIsKilledFailsTheBench(t *testing.T) {
	t.Parallel()
	_, conn, pids, release, finished := inTheMiddle(t)
	must(t, syscall.Kill(pids[0], syscall.SIGKILL))
	release()
	finished().exits(exitFailure).says("a worker process has ended: signal: killed")
	nothingIsLeft(t, conn, pids)
}

func TestABenchThatIsKilledTakesItsWorkerProcessesAlong(t *testing.T) {
	t.Parallel()
	cmd, _, pids, release, finished := inTheMiddle(t)
	must(t, cmd.Process.Signal(syscall.SIGKILL))
	release()
	finished()
	eventually(t, "the worker processes have ended", func() bool { return !anyAlive(pids) })
}

func TestABenchWithWorkerProcessesIsInterrupted(t *testing.T) {
	t.Parallel()
	cmd, conn, pids, release, finished := inTheMiddle(t)
	must(t, cmd.Process.Signal(os.Interrupt))
	release()
	got := decode[benchResult](finished().exits(exitInterrupted).says("txwork: interrupted"))
	if !got.Interrupted || got.Jobs == 0 || got.Lost != 0 {
		t.Errorf("got %+v, want what was measured so far", got)
	}
	nothingIsLeft(t, conn, pids)
}

func TestABenchWhoseServerDiesSaysSo(t *testing.T) {
	t.Parallel()
	server, err := localpg.Start(t.Context(), localpg.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, server.Stop()) })
	conn, err := pgx.Connect(t.Context(), server.URL())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, finished := benchOn(t, server.URL(), "drain", "--jobs", "2000", "--json")
	lockOneJob(t, conn)
	someJobIsDone(t, conn)
	must(t, server.Crash())
	r := finished().exits(exitFailure).says("the database no longer answers", "is left behind")
	if f := decode[failure](r); !strings.Contains(f.Error, "no longer answers") {
		t.Errorf("printed %+v", f)
	}
}

func nothingIsLeft(t *testing.T, conn *pgx.Conn, pids []int) {
	t.Helper()
	if schema := benchSchema(t, conn); schema != "" {
		t.Errorf("schema %s is left behind", schema)
	}
	if anyAlive(pids) {
		t.Errorf("of the processes %v some are left behind", pids)
	}
}

func anyAlive(pids []int) bool {
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil && !zombie(pid) {
			return true
		}
	}
	return false
}

// zombie tells whether a process has ended but was not waited for.
func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(text, []byte(") Z "))
}
