//go:build unix

package torture

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
)

// reported runs, and shows all that is known of a run that fails.
func reported(t *testing.T, o Options) *Report {
	t.Helper()
	var shown strings.Builder
	o.Program, o.Progress = []string{os.Args[0]}, &shown
	report, err := Run(t.Context(), o)
	if report != nil {
		if writeErr := report.Write(&shown); writeErr != nil {
			t.Error(writeErr)
		}
	}
	t.Log(shown.String())
	if err != nil || report == nil {
		t.Fatal(err)
	}
	return report
}

// This is a short run with the faults that need only a private server.
func TestRun(t *testing.T) {
	t.Parallel()
	report := reported(t, Options{
		Seed: 1, Duration: 12 * time.Second, Faults: []string{"worker-kill", "zombie", "backend-terminate",
			"postgres-crash"},
	})
	if report.Rows == 0 || report.Claims < report.Rows/2 {
		t.Errorf("%d rows and %d claims are too few for a run", report.Rows, report.Claims)
	}
}

// One holder after another holds something, and nothing else stands still. On a machine that is too slow for the first
// holder, whose turn takes all of a short run, longer runs follow.
func TestHolders(t *testing.T) {
	t.Parallel()
	faults := []string{"frozen-session", "hot-key", "locked-tables", "many-keys", "open-transaction", "refused-rows"}
	strikes := 0
	for duration := 12 * time.Second; strikes == 0; duration *= 2 {
		if duration > 4*time.Minute {
			t.Fatal("no holder has held anything")
		}
		report := reported(t, Options{Seed: 1, Duration: duration, Pause: 100 * time.Millisecond, Faults: faults})
		for _, f := range report.Faults {
			strikes += f.Strikes
		}
	}
}

// Announcers are struck in the middle of their steps, and no row waits for too long. If a machine is too slow for a
// burst, no announcer wakes up and nothing is struck. One that is struck before it is awake may die without a record.
func TestAnnouncers(t *testing.T) {
	t.Parallel()
	report := reported(t, Options{
		Seed: 1, Duration: 12 * time.Second, Pause: 100 * time.Millisecond, Poll: 2 * time.Second,
		Faults: []string{"announcer-kill", "announcer-freeze", "announcer-double"},
	})
	struck := 0 // that were awake
	for _, f := range report.Faults {
		for _, s := range steps {
			if s.when != beforeBurst && strings.Contains(fmt.Sprint(f.Details), " that "+s.point+" ") {
				struck++
			}
		}
	}
	if struck > 0 && report.Announcers.Awake == 0 {
		t.Errorf("announcers were struck, but none is recorded: %+v", report.Announcers)
	}
}

// On the user's server, a run leaves other objects alone and leaves nothing behind.
func TestRunOnAnotherServer(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	report, err := Run(t.Context(), Options{
		Seed: 2, Duration: 3 * time.Second, Workers: 1, Faults: []string{"worker-kill", "postgres-crash"},
		Program: []string{os.Args[0]}, DatabaseURL: pgtest.URL(t),
	})
	if err != nil {
		t.Fatalf("%v\n%+v", err, report)
	}
	if report.Rows == 0 || len(report.Skipped) != 1 || report.Skipped[0].Fault != "postgres-crash" ||
		report.Faults["worker-kill"].Strikes == 0 {
		t.Errorf("the report is %+v", report)
	}
	left := -1
	pgtest.Await(time.Minute, func() bool { // other tests that use this server end
		err = db.Pool.QueryRow(t.Context(),
			`SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'txwork\_torture\_%'`).Scan(&left)
		return err != nil || left == 0
	})
	if err != nil || left != 0 {
		t.Errorf("%d schemas are left behind, error %v", left, err)
	}
}
