package reaper_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

// Environment variables that turn the test binary into a process that runs a reaper.
const (
	processURLEnv    = "REAPER_TEST_URL"
	processSchemaEnv = "REAPER_TEST_SCHEMA"
)

// reaperProcess runs a reaper until it is interrupted or killed.
func reaperProcess(url string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := runProcess(ctx, url, os.Getenv(processSchemaEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runProcess(ctx context.Context, url, schema string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	table, err := workqueue.Open(workqueue.Spec{Schema: schema, Table: "work"}, workqueue.Telemetry{Logger: quiet})
	if err != nil {
		return err
	}
	return reaper.Run(ctx, pool, []*workqueue.Table{table}, shortTimes(schema))
}

// process starts a reaper in a process of its own.
func (db *database) process() *exec.Cmd {
	db.t.Helper()
	binary, err := os.Executable()
	if err != nil {
		db.t.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), processURLEnv+"="+db.URL, processSchemaEnv+"="+db.Schema)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		db.t.Fatal(err)
	}
	db.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func (db *database) signal(cmd *exec.Cmd, s os.Signal) {
	db.t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		db.t.Fatal(err)
	}
}

func TestKilledLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	leader := db.process()
	db.awaitTerm(table, 1)
	db.run(db.Pool, db.options(), table)
	db.signal(leader, syscall.SIGKILL)
	db.awaitTerm(table, 2)
	db.rows(table, 10, expired)
	db.await("reaped rows", func() bool { return db.count(table, workqueue.InProgress) == 0 })
}

func TestFrozenLeaderIsReplacedAndStaysReplaced(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	leader := db.process()
	db.awaitTerm(table, 1)
	db.signal(leader, syscall.SIGSTOP)
	db.run(db.Pool, db.options(), table)
	db.awaitTerm(table, 2)
	holder := db.leader(table).Holder
	db.signal(leader, syscall.SIGCONT)
	db.rows(table, 10, expired)
	db.await("reaped rows", func() bool { return db.count(table, workqueue.InProgress) == 0 })
	if l := db.leader(table); l.Term != 2 || l.Holder != holder {
		t.Errorf("leader %+v, want %v in term 2", l, holder)
	}
}

func TestTerminatedProcessHandsOver(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	leader := db.process()
	db.awaitTerm(table, 1)
	db.signal(leader, syscall.SIGTERM)
	if err := leader.Wait(); err != nil {
		t.Errorf("exit: %v", err)
	}
	if l := db.leader(table); l.ExpiresIn > 0 {
		t.Errorf("leadership %+v lasts after the stop", l)
	}
}
