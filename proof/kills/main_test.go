package kills

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

var full = flag.Bool("full", false, "the large numbers, as `make prove` runs them")

// size returns the small number in ordinary runs, and the large one with -full.
func size(small, large int) int {
	if *full {
		return large
	}
	return small
}

// A role is what a worker process does until ctx is cancelled. The processes have different members.
type role func(ctx context.Context, pool *pgxpool.Pool, schema string, member string) error

var roles = map[string]role{"per-key": relayPerKey, "joins": relayJoins, "inbox": consume, "beside": workBeside}

// Environment variables for a process of the crew.
const (
	roleEnv   = "TXWORK_PROOF_ROLE"
	urlEnv    = "TXWORK_PROOF_URL"
	schemaEnv = "TXWORK_PROOF_SCHEMA"
	memberEnv = "TXWORK_PROOF_MEMBER"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(roleEnv); name != "" {
		os.Exit(play(roles[name]))
	}
	os.Exit(m.Run())
}

// play is the main function of a worker process. It ends with its parent, whose death closes stdin.
func play(r role) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// From here on SIGTERM stops the process in order. Before, it kills a process that has not begun.
	fmt.Println("ready")
	go func() {
		os.Stdin.Read(make([]byte, 1))
		os.Exit(1)
	}()
	pool, err := pgxpool.New(ctx, os.Getenv(urlEnv))
	if err == nil {
		defer pool.Close()
		err = r(ctx, pool, os.Getenv(schemaEnv), os.Getenv(memberEnv))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// lease is short, so that the rows of a killed process are requeued while the test runs.
const lease = 2 * time.Second

func workerOptions() workqueue.WorkerOptions {
	return workqueue.WorkerOptions{Lease: lease, Concurrency: 8}
}

// quiet drops log messages about the attempts of killed processes.
func quiet() workqueue.Telemetry {
	return workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}
}
