package lab_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/bench/lab"
	"github.com/txwork/txwork/bench/results"
)

func TestLoadsOfTxworkAndBareSQL(t *testing.T) {
	var log bytes.Buffer
	loads, err := lab.RunLoads(t.Context(), lab.LoadRequest{
		Options: results.Options{PayloadBytes: 30, Connections: 2, Seconds: 0.5},
		Peers:   []string{"txwork:defaults", "sql"}, Rates: []float64{0, 100}, Queues: []int{0}, Rounds: 1,
		Progress: lab.Progress{Out: &log},
	})
	if err != nil || len(loads) != 4 {
		t.Fatalf("%d loads, %v\n%s", len(loads), err, &log)
	}
	for _, l := range loads {
		if l.Connections == 0 || (l.PerSecond > 0) != (l.Rate > 0) || l.ClientCPU <= 0 {
			t.Errorf("measured %+v", l)
		}
		if server, client := l.PerJob(); l.Rate > 0 && (client <= 0 || server < 0) {
			t.Errorf("a job costs %v and %v", server, client)
		}
	}
	if n := strings.Count(log.String(), "connections"); n != 4 {
		t.Errorf("%d loads were told:\n%s", n, &log)
	}
}

// The queues of a txwork worker share its connections.
func TestALoadOfSeveralQueues(t *testing.T) {
	loads, err := lab.RunLoads(t.Context(), lab.LoadRequest{
		Options: results.Options{PayloadBytes: 30, Connections: 2, Seconds: 0.5},
		Peers:   []string{"txwork:defaults"}, Rates: []float64{100}, Queues: []int{5}, Rounds: 1,
		Progress: lab.Progress{Out: &bytes.Buffer{}},
	})
	if err != nil || len(loads) != 1 || loads[0].PerSecond <= 0 {
		t.Fatalf("%+v, %v", loads, err)
	}
}

// Every flush of the server takes longer. Processes that are started later are not affected.
func TestASlowDisk(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("the shim wants a C compiler")
	}
	const slow = 20 * time.Millisecond
	l, err := lab.Open(t.Context(), results.Options{}, "", slow)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if out, err := exec.Command("sh", "-c", "echo $LD_PRELOAD").Output(); err != nil ||
		strings.Contains(string(out), "slowdisk") {
		t.Errorf("the shim is loaded by others, too: %s, %v", out, err)
	}
	conn, err := pgx.Connect(t.Context(), l.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	begun := time.Now()
	if _, err := conn.Exec(t.Context(), "CREATE TABLE slow (id int)"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < slow {
		t.Errorf("a commit took %v, want at least %v", took, slow)
	}
}
