//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
)

// newDatabase creates a database for the test, because the schemas of several benches cannot be told apart.
func newDatabase(t *testing.T) (address string, conn *pgx.Conn) {
	t.Helper()
	name := "bench_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	admin, err := pgx.Connect(t.Context(), pgtest.URL(t))
	must(t, err)
	_, err = admin.Exec(t.Context(), "CREATE DATABASE "+name)
	must(t, err)
	u, err := url.Parse(pgtest.URL(t))
	must(t, err)
	u.Path = "/" + name
	conn, err = pgx.Connect(t.Context(), u.String())
	must(t, err)
	t.Cleanup(func() {
		ctx := context.Background()
		_ = conn.Close(ctx)
		_, err := admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		must(t, err)
		_ = admin.Close(ctx)
	})
	return u.String(), conn
}

func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	address, conn := newDatabase(t)
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self, "bench", "steady", "--rate", "200", "--duration", "10m", "--json")
	cmd.Env = append(os.Environ(), asCommand+"=1", databaseURLEnv+"="+address)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	must(t, cmd.Start())
	eventually(t, "a job is done", func() bool {
		schema := benchSchema(t, conn)
		var done int
		return schema != "" && conn.QueryRow(t.Context(), fmt.Sprintf("SELECT count(*) FROM %s.jobs WHERE status = 2",
			schema)).Scan(&done) == nil && done > 0
	})
	must(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait() // the exit code says enough

	r := result{t: t, code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
	got := decode[benchResult](r.exits(exitInterrupted).says("until the interruption", "txwork: interrupted"))
	if !got.Interrupted || got.Jobs == 0 || got.Lost != 0 {
		t.Errorf("got %+v, want what was measured so far", got)
	}
	if schema := benchSchema(t, conn); schema != "" {
		t.Errorf("schema %s is left behind; stderr: %s", schema, r.stderr)
	}
}

// benchSchema returns the bench's schema in the database, or an empty string.
func benchSchema(t *testing.T, conn *pgx.Conn) (name string) {
	t.Helper()
	must(t, conn.QueryRow(t.Context(), "SELECT coalesce(max(nspname), '') FROM pg_namespace WHERE nspname LIKE "+
		"'txwork\\_bench\\_%'").Scan(&name))
	return name
}
