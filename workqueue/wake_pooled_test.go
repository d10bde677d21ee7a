//go:build unix

package workqueue_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgbouncer"
	"github.com/txwork/txwork/workqueue"
)

// A worker whose listener is behind PgBouncer in transaction mode says so. It says nothing if notifications arrive, in
// session mode or past the pooler, or if it does not listen.
func TestAPoolerThatDeliversNoNotifications(t *testing.T) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("PgBouncer is not installed")
	}
	t.Parallel()
	server, err := localpg.Start(t.Context(), localpg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	direct, err := pgx.ParseConfig(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	hears := workqueue.WorkerOptions{PollInterval: time.Hour}
	polls := workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond}
	past, deaf := hears, polls
	past.ListenConfig, deaf.NoListen = direct, true
	const transaction, session = "auth_type = any", "auth_type = any\npool_mode = session\ndefault_pool_size = 50"
	for schema, test := range map[string]struct {
		settings string // of PgBouncer; empty: there is none
		options  workqueue.WorkerOptions
		says     bool
	}{
		"none":                {"", hears, false},
		"session":             {session, hears, false},
		"transaction":         {transaction, polls, true},
		"transaction_past":    {transaction, past, false},
		"transaction_no_ears": {transaction, deaf, false},
	} {
		t.Run(schema, func(t *testing.T) {
			r := rigOnNew(t, server, schema)
			if test.settings != "" {
				r.Pool = pooled(t, server, program, test.settings)
			}
			w := r.start(test.options, func(context.Context, *noteClaim) error { return nil })
			switch {
			case test.says:
				r.eventually("the log says what to do", func() bool {
					return strings.Contains(r.Logs.String(), "set ListenConfig to a connection to PostgreSQL itself")
				})
			case !test.options.NoListen:
				r.awaitListener()
			}
			for range 3 { // found by a notification, unless the worker polls
				r.awaitStatus(workqueue.Done, r.insert("note")...)
			}
			if err := w.stop(t); err != nil {
				t.Error(err)
			}
			want := map[bool]int{true: 1}[test.says]
			if got := strings.Count(r.Logs.String(), "keep the listener's session"); got != want {
				t.Errorf("%d lines about the pooler:\n%s", got, r.Logs.tail())
			}
		})
	}
}

// rigOnNew creates the schema and its table.
func rigOnNew(t *testing.T, server *localpg.Server, schema string) *rig {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "CREATE SCHEMA "+schema); err != nil {
		t.Fatal(err)
	}
	return rigOn(t, server.URL()+"&search_path="+schema, schema, rigOptions{})
}

// pooled starts PgBouncer, and returns a pool that connects through it.
func pooled(t *testing.T, server *localpg.Server, program, settings string) *pgxpool.Pool {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("/tmp", "txwork-pooler-") // readable for the server's owner, unlike the test's own
	ok(err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	ok(os.Chmod(dir, 0o755))
	cmd, address, err := pgbouncer.Command(server, pgbouncer.Options{Program: program, Dir: dir,
		Database: "user=postgres", Settings: settings})
	ok(err)
	ok(cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	url := "postgres://postgres@" + address + "/postgres?sslmode=disable&default_query_exec_mode=exec"
	ok(pgbouncer.Await(t.Context(), url))
	pool, err := pgxpool.New(t.Context(), url)
	ok(err)
	t.Cleanup(pool.Close)
	return pool
}
