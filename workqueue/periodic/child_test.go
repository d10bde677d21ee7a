package periodic_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// The environment variables that tell a child process what to work on.
const (
	childEnv       = "TXWORK_TEST_CHILD_URL"
	childSchemaEnv = "TXWORK_TEST_CHILD_SCHEMA"
)

// killed is the exit code of a child process that has done its work.
const killed = 9

// TestMain lets the test binary also run as a scheduler's process.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		sdktest.Install()
		os.Exit(runChild())
	}
	goleak.VerifyTestMain(sdktest.Under(m))
}

// runChild runs a scheduler whose process ends after it has written an occurrence and before it commits.
func runChild() int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pool, err := pgxpool.New(ctx, os.Getenv(childEnv))
	if err != nil {
		return 1
	}
	plan, err := periodic.Open(periodic.Options{
		Schema: os.Getenv(childSchemaEnv), Table: "runs_schedule", Live: liveRuns,
		Insert: func(ctx context.Context, tx workqueue.Tx, occurrences []periodic.Occurrence) (int, error) {
			n, err := insertRuns(ctx, tx, occurrences)
			if err == nil && n == 1 {
				os.Exit(killed)
			}
			return n, err
		},
	})
	if err != nil {
		return 1
	}
	s, err := periodic.NewScheduler(pool, plan,
		periodic.SchedulerOptions{WorkerOptions: workqueue.WorkerOptions{Lease: pgtest.Lease}})
	if err != nil || s.Run(ctx) != nil {
		return 1
	}
	return 0
}

func TestAProcessThatDiesBetweenInsertAndCommit(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.put(hourly(schedule.Rule{}))
	f.missed("s", time.Hour)

	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), binary)
	child.Env = append(os.Environ(), childEnv+"="+f.URL, childSchemaEnv+"="+f.Schema)
	child.Stderr = os.Stderr
	if child.Run(); child.ProcessState.ExitCode() != killed {
		t.Fatalf("the child ended with %v", child.ProcessState)
	}
	if got := f.get("s"); got.Status != workqueue.InProgress || got.Fired != 0 || len(f.runs("s")) != 0 {
		t.Errorf("it left %+v and %d runs", got, len(f.runs("s")))
	}

	f.scheduler()
	f.until("its lease has ended and is reaped", func() bool {
		r, err := f.plan.Table().On(f.Pool).ReapExpired(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		return r.Requeued == 1
	})
	f.until("the occurrence is written", func() bool { return f.get("s").Fired == 1 })
	if n := len(f.runs("s")); n != 1 {
		t.Errorf("%d runs", n)
	}
}
