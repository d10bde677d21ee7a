package workqueue_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// Environment of a child process: its table, and how many handlers have to run before it reports that they do.
const (
	childEnv        = "TXWORK_TEST_CHILD_URL"
	childSchemaEnv  = "TXWORK_TEST_CHILD_SCHEMA"
	childNameEnv    = "TXWORK_TEST_CHILD_NAME"    // of a process that sweeps
	childWorkersEnv = "TXWORK_TEST_CHILD_WORKERS" // how many, with the default lease; default: 1, with a short one
	childBatchEnv   = "TXWORK_TEST_CHILD_BATCH"   // a worker with a batch handler, if it is set
	childRows       = 1000
	poisoned        = 9 // the exit code of a process that a row has ended
)

// runChild is a worker process whose handlers never return. It reports when all of them run, and ends no later than its
// parent.
func runChild() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	if err := childWork(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func childWork(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(os.Getenv(childEnv))
	if err != nil {
		return err
	}
	spec, rows := noteSpec(os.Getenv(childSchemaEnv)), int32(childRows)
	config.ConnConfig.RuntimeParams["application_name"] = childName(os.Getenv(childSchemaEnv))
	if name := os.Getenv(childNameEnv); name != "" {
		spec, rows = sweptSpec(spec), 1
		config.ConnConfig.RuntimeParams["application_name"] = name
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	table, err := workqueue.Open(spec, workqueue.Telemetry{})
	if err != nil {
		return err
	}
	runtime, err := workqueue.NewRuntime(pool, workqueue.RuntimeOptions{})
	if err != nil {
		return err
	}
	if os.Getenv(childBatchEnv) != "" {
		return childBatches(ctx, pool, table)
	}
	var running atomic.Int32
	handle := func(_ context.Context, c *noteClaim) error {
		switch c.Body.Topic {
		case "poison":
			os.Exit(poisoned)
		case "slow poison":
			pgtest.Pass(50 * time.Millisecond)
			os.Exit(poisoned)
		case "innocent": // takes longer than either
			pgtest.Pass(100 * time.Millisecond)
			return nil
		}
		if running.Add(1) == rows {
			fmt.Println("all running")
		}
		select {}
	}
	workers, lease := 1, 2*time.Second // which the parent waits for
	if several := os.Getenv(childWorkersEnv); several != "" {
		workers, _ = strconv.Atoi(several)
		lease = workqueue.DefaultLease
	}
	var group errgroup.Group
	for range workers {
		w, err := workqueue.NewWorker(pool, noteDomain(table), handle, workqueue.WorkerOptions{Concurrency: int(rows),
			ClaimLimit: 100 / (workers * workers), Lease: lease, Runtime: runtime})
		if err != nil {
			return err
		}
		group.Go(func() error { return w.Run(ctx) })
	}
	return group.Wait()
}

// childBatches handles batches until a poison is in one, which ends the process.
func childBatches(ctx context.Context, pool *pgxpool.Pool, table *workqueue.Table) error {
	batch, err := workqueue.NewBatch(workqueue.BatchOptions{}, nil, func(_ context.Context,
		b []*noteClaim) ([]error, error) {
		if slices.ContainsFunc(b, func(c *noteClaim) bool { return c.Body.Topic == "poison" }) {
			os.Exit(poisoned)
		}
		return nil, nil
	})
	if err != nil {
		return err
	}
	w, err := workqueue.NewBatchWorker(pool, noteDomain(table), batch, workqueue.WorkerOptions{})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// childName is the application_name of the connections of a process on the schema's table.
func childName(schema string) string { return "child " + schema }

// awaitChild waits until a worker process has ended. Meanwhile it reaps, as in production: if the reply to a claim is
// lost, the process does not know of the rows.
func (r *rig) awaitChild(child *exec.Cmd) error {
	r.Helper()
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	for {
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Second):
			reap(r, childRows)
		}
	}
}

// startChild starts a worker process on the rig's table and returns when all its handlers run.
func (r *rig) startChild(env ...string) *exec.Cmd {
	r.Helper()
	cmd, stdout := r.spawnChild(env...)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "all running\n" {
		r.Fatalf("the child says %q, %v", line, err)
	}
	return cmd
}

// spawnChild starts a worker process on the rig's table.
func (r *rig) spawnChild(env ...string) (*exec.Cmd, io.Reader) {
	r.Helper()
	binary, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	cmd := exec.CommandContext(r.Context(), binary)
	cmd.Env = append(append(os.Environ(), childEnv+"="+r.URL, childSchemaEnv+"="+r.Schema), env...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // closes with this process
	if err != nil {
		r.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, stdout
}

// A process is killed with a thousand claims in flight: all of them run again, none is lost, and none has used up
// an attempt: they lost their leases together.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.insertMany("killed", childRows)
	child := r.startChild()
	if n := r.count("status = 1 AND attempts = 1 AND locked_until > now()"); n != childRows {
		t.Errorf("%d rows in flight, want %d", n, childRows)
	}
	if reaped, err := r.Queue.ReapExpired(t.Context(), childRows); err != nil || reaped.Requeued+reaped.Failed != 0 {
		t.Errorf("reaped %+v, %v from a process that lives", reaped, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	if n := r.count("status = 1"); n != childRows {
		t.Errorf("%d rows in flight after the kill, want %d", n, childRows)
	}

	r.start(workqueue.WorkerOptions{Concurrency: 50}, func(_ context.Context, c *noteClaim) error {
		if c.Attempt != 1 {
			t.Errorf("attempt %d, want 1", c.Attempt)
		}
		return nil
	})
	// Half of them through the SQL function, as pg_cron would, half through Go.
	r.eventually("the leases to end",
		func() bool { return r.count("status = 1 AND locked_until < now()") == childRows })
	requeued := ask[int](r, "SELECT requeued FROM notes_reap_expired(500)")
	reaped, err := r.Queue.ReapExpired(t.Context(), childRows)
	if err != nil || requeued != 500 || reaped != (workqueue.Reaped{Requeued: childRows - 500}) {
		t.Errorf("reaped %d by SQL and %+v by Go, %v", requeued, reaped, err)
	}
	r.eventually("every row to run again", func() bool { return r.count("status = 2 AND attempts = 1") == childRows })
}
