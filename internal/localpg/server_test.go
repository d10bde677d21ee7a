//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localpg_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgtest"
)

const patience = pgtest.Patience

func start(t *testing.T, o localpg.Options) *localpg.Server {
	t.Helper()
	s, err := localpg.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// query runs one statement that returns one text value.
func query(url, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	var value string
	err = conn.QueryRow(ctx, sql).Scan(&value)
	return value, err
}

func mustQuery(t *testing.T, url, sql string) string {
	t.Helper()
	value, err := query(url, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func mustExec(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func postmaster(t *testing.T, dir string) int {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(file), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// alive does not count a process that ended but was not waited for, since the test does not choose who waits for an
// orphan.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err == nil && strings.Contains(string(stat), ") Z") {
		return false
	}
	return syscall.Kill(pid, 0) == nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	if !pgtest.Await(patience, condition) {
		t.Fatalf("not within %v: %s", patience, what)
	}
}

func expectGone(t *testing.T, pid int, dir string) {
	t.Helper()
	eventually(t, "the server's process is gone", func() bool { return !alive(pid) })
	eventually(t, "the server's directory is gone", func() bool { return !exists(dir) })
}

func TestStartAnswers(t *testing.T) {
	t.Parallel()
	s := start(t, localpg.Options{Settings: map[string]string{"application_name": `it's a \ test`}})
	for setting, want := range map[string]string{
		"fsync":                   "off",
		"full_page_writes":        "off",
		"max_connections":         "200",
		"listen_addresses":        "",
		"TimeZone":                "UTC",
		"server_encoding":         "UTF8",
		"unix_socket_directories": s.Dir(),
		"application_name":        `it's a \ test`,
	} {
		if got := mustQuery(t, s.URL(), "SHOW "+setting); got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
	collation := "SELECT datcollate FROM pg_database WHERE datname = current_database()"
	if got := mustQuery(t, s.URL(), collation); got != "C" {
		t.Errorf("collation %q, want C", got)
	}
}

func TestDurableKeepsPostgreSQLsGuarantees(t *testing.T) {
	t.Parallel()
	s := start(t, localpg.Options{Durable: true})
	for _, setting := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		if got := mustQuery(t, s.URL(), "SHOW "+setting); got != "on" {
			t.Errorf("%s = %s, want on", setting, got)
		}
	}
}

// It is not parallel, because it examines the goroutines of the whole process.
func TestStopLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s := start(t, localpg.Options{})
	goleak.VerifyNone(t, before)

	pid := postmaster(t, s.Dir())
	supervisor := s.SupervisorPID()
	for range 2 { // the second call does nothing
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if exists(s.Dir()) {
		t.Error("directory still there after Stop")
	}
	if alive(supervisor) {
		t.Error("supervisor still there after Stop")
	}
	expectGone(t, pid, s.Dir())
	goleak.VerifyNone(t, before)
}

func TestStopWithOpenTransaction(t *testing.T) {
	t.Parallel()
	s := start(t, localpg.Options{})
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

func TestStoppedServerRefuses(t *testing.T) {
	t.Parallel()
	s := start(t, localpg.Options{})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.Crash(); err == nil {
		t.Error("Crash after Stop succeeded")
	}
	if err := s.Restart(t.Context()); err == nil {
		t.Error("Restart after Stop succeeded")
	}
}

func TestRestartKeepsCommittedData(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *localpg.Server){
		"running": func(*testing.T, *localpg.Server) {},
		"crashed": func(t *testing.T, s *localpg.Server) {
			if err := s.Crash(); err != nil {
				t.Fatal(err)
			}
			if _, err := query(s.URL(), "SELECT 'up'"); err == nil {
				t.Error("answers after Crash")
			}
		},
		"killed": func(t *testing.T, s *localpg.Server) {
			if err := syscall.Kill(postmaster(t, s.Dir()), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		},
		"crashed twice": func(t *testing.T, s *localpg.Server) {
			if err := errors.Join(s.Crash(), s.Restart(t.Context()), s.Crash(), s.Crash()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, localpg.Options{Durable: true})
			mustExec(t, s.URL(), "CREATE TABLE kept AS SELECT 'committed' AS value")
			end(t, s)
			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := mustQuery(t, s.URL(), "SELECT value FROM kept"); got != "committed" {
				t.Errorf("read %q", got)
			}
		})
	}
}

func TestManyServersAtOnce(t *testing.T) {
	t.Parallel()
	const servers = 3
	var dirs sync.Map
	t.Run("servers", func(t *testing.T) {
		for range servers {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				s := start(t, localpg.Options{})
				if _, shared := dirs.LoadOrStore(s.Dir(), nil); shared {
					t.Errorf("two servers in %s", s.Dir())
				}
				mustExec(t, s.URL(), "CREATE TABLE private (id int)")
			})
		}
	})
}

func TestFailedStartShowsTheLog(t *testing.T) {
	t.Parallel()
	s, err := localpg.Start(t.Context(), localpg.Options{Settings: map[string]string{"max_connections": "many"}})
	if err == nil {
		t.Fatal(errors.Join(errors.New("started with a bad setting"), s.Stop()))
	}
	if !strings.Contains(err.Error(), `invalid value for parameter "max_connections"`) {
		t.Errorf("error without the server's reason: %v", err)
	}
}

func TestCancelledStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond) // no server starts that fast
	defer cancel()
	s, err := localpg.Start(ctx, localpg.Options{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Start returned %v, %v", s, err)
	}
}

func TestLongTempDir(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(long, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	s := start(t, localpg.Options{})
	if filepath.Dir(s.Dir()) != "/tmp" {
		t.Errorf("directory %s, want one in /tmp", s.Dir())
	}
}

// PostgreSQL's own environment variables refer to other servers and are ignored.
func TestEnvironmentOfOtherServers(t *testing.T) {
	t.Setenv("PGDATA", "/nowhere")
	t.Setenv("PGHOST", "nowhere.invalid")
	t.Setenv("PGPORT", "1")
	t.Setenv("PGUSER", "nobody")
	t.Setenv("PGDATABASE", "nothing")
	t.Setenv("LC_ALL", "xx_XX.UTF-8")
	t.Setenv("PATH", "")
	start(t, localpg.Options{})
}

func TestSupervisorSurvivesSignals(t *testing.T) {
	t.Parallel()
	s := start(t, localpg.Options{})
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if err := syscall.Kill(s.SupervisorPID(), signal); err != nil {
			t.Fatal(err)
		}
	}
	mustExec(t, s.URL(), "SELECT 1")
}

func TestStopAfterSupervisorWasKilled(t *testing.T) {
	t.Parallel()
	s := start(t, localpg.Options{})
	pid := postmaster(t, s.Dir())
	if err := syscall.Kill(s.SupervisorPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	expectGone(t, pid, s.Dir())
}

func TestStartSweepsWhatIsDead(t *testing.T) {
	t.Parallel()
	running := start(t, localpg.Options{})
	killed := start(t, localpg.Options{})
	for _, pid := range []int{killed.SupervisorPID(), postmaster(t, killed.Dir())} {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the killed server's directory is swept", func() bool {
		start(t, localpg.Options{})
		return !exists(killed.Dir())
	})
	mustExec(t, running.URL(), "SELECT 1")
}
