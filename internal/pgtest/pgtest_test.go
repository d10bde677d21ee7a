package pgtest_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgtest"
)

// outside runs a query that returns one value on a connection of the server.
func outside[T any](t *testing.T, url, query string, args ...any) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var value T
	if err := conn.QueryRow(t.Context(), query, args...).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestEveryTestHasItsSchema(t *testing.T) {
	t.Parallel()
	for range 4 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			if _, err := db.Pool.Exec(t.Context(), "CREATE TABLE same_name (id int)"); err != nil {
				t.Fatal(err)
			}
			query := "SELECT schemaname FROM pg_tables WHERE tablename = 'same_name' AND schemaname = current_schema()"
			if schema := outside[string](t, db.URL, query); schema != db.Schema {
				t.Errorf("the table is in %s, want %s", schema, db.Schema)
			}
		})
	}
}

func TestSchemaIsDropped(t *testing.T) {
	t.Parallel()
	var schema string
	t.Run("uses a schema", func(t *testing.T) {
		db := pgtest.New(t)
		schema = db.Schema
		if _, err := db.Pool.Exec(t.Context(), "CREATE TABLE gone (id int)"); err != nil {
			t.Fatal(err)
		}
	})
	if outside[bool](t, pgtest.URL(t), "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema) {
		t.Errorf("schema %s is still there", schema)
	}
}

func TestSQL(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	handle := db.SQL(t)
	if _, err := handle.ExecContext(t.Context(), "CREATE TABLE shared AS SELECT 7 AS id"); err != nil {
		t.Fatal(err)
	}
	var id int
	if err := db.Pool.QueryRow(t.Context(), "SELECT id FROM shared").Scan(&id); err != nil || id != 7 {
		t.Errorf("the pool reads %d, %v", id, err)
	}
}

func TestWithPool(t *testing.T) {
	t.Parallel()
	if got := pgtest.New(t).Pool.Config().MaxConns; got != 8 {
		t.Errorf("default MaxConns %d, want 8", got)
	}
	db := pgtest.New(t, pgtest.WithPool(func(c *pgxpool.Config) { c.MaxConns = 3 }))
	if got := db.Pool.Config().MaxConns; got != 3 {
		t.Errorf("MaxConns %d, want 3", got)
	}
}

// It is not parallel, because it examines the goroutines of the whole process.
func TestNoGoroutineRemains(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("uses everything", func(t *testing.T) {
		db := pgtest.New(t)
		if err := errors.Join(db.Pool.Ping(t.Context()), db.SQL(t).PingContext(t.Context())); err != nil {
			t.Fatal(err)
		}
	})
	goleak.VerifyNone(t, before)
}

// inChild makes TestInChild do its work.
const inChild = "PGTEST_IN_CHILD"

// TestInChild is run by the tests below in a child process.
func TestInChild(t *testing.T) {
	if os.Getenv(inChild) == "" {
		t.Skip("runs in a child process")
	}
	db := pgtest.New(t)
	t.Logf("server %s", pgtest.URL(t))
	if err := db.Pool.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func runChild(t *testing.T, env ...string) (string, error) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestInChild$", "-test.v")
	cmd.Env = append(append(os.Environ(), inChild+"=1"), env...)
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func TestGivenServer(t *testing.T) {
	t.Parallel()
	given := pgtest.URL(t)
	output, err := runChild(t, localpg.DatabaseURLEnv+"="+given)
	if err != nil || !strings.Contains(output, "server "+given+"\n") {
		t.Errorf("%v, want the server %s:\n%s", err, given, output)
	}
}

func TestServerEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	output, err := runChild(t, localpg.DatabaseURLEnv+"=")
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	_, rest, _ := strings.Cut(output, "server ")
	server, _, _ := strings.Cut(rest, "\n")
	u, err := url.Parse(server)
	if err != nil || u.Query().Get("host") == "" {
		t.Fatalf("no URL of a private server in\n%s", output)
	}
	for deadline := time.Now().Add(pgtest.Patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(u.Query().Get("host")); errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still there: %s", server)
		}
	}
}

func TestNoPostgreSQL(t *testing.T) {
	t.Parallel()
	output, err := runChild(t, localpg.DatabaseURLEnv+"=", localpg.BinDirEnv+"=/nowhere")
	if err == nil || !strings.Contains(output, "no PostgreSQL") || !strings.Contains(output, localpg.BinDirEnv) {
		t.Errorf("%v, want a failure that says what is missing:\n%s", err, output)
	}
}
