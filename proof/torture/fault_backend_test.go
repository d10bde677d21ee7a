//go:build unix

package torture

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
)

// The server may notice late that a backend was killed, and until then all other sessions continue. What they commit
// asynchronously is lost too, so the outage must last until the server has recovered.
func TestAKilledBackendsOutageLastsUntilTheServerHasRecovered(t *testing.T) {
	t.Parallel()
	server, err := localpg.Start(t.Context(), localpg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	pool := func(name string) *pgxpool.Pool {
		config, err := pgxpool.ParseConfig(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		config.ConnConfig.RuntimeParams["application_name"] = name
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		if err := pool.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		return pool
	}
	pool(crewPrefix + "victim")
	l := &lab{admin: pool("admin")}
	if err := l.admin.Ping(t.Context()); err != nil { // opens a session before the kill
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(server.Dir(), "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.SplitN(string(file), "\n", 2)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := backendKill{}.strike(t.Context(), l, rand.New(rand.NewPCG(1, 1)))
		ended <- err
	}()
	time.Sleep(time.Second)
	heard := time.Now()
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if len(l.outages) != 1 || l.outages[0].To.Before(heard) {
		t.Errorf("the outages are %v, and the server noticed the kill at %v", l.outages, heard)
	}

	// That crash is a strike. Another one is nobody's.
	l.server = server
	if l.checkCrashes(); len(l.failures) != 0 {
		t.Errorf("the strike counts as a crash of its own: %v", l.failures)
	}
	l.killed = 0
	if l.checkCrashes(); len(l.failures) != 1 {
		t.Errorf("nobody killed anything, and the server crashed, but the failures are %v", l.failures)
	}
}
