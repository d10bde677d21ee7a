//go:build unix

package torture

import (
	"os"
	"strings"
	"testing"
	"time"
)

// A short run with the faults that need nothing but a private server.
func TestRun(t *testing.T) {
	var progress strings.Builder
	report, err := Run(t.Context(), Options{
		Seed: 1, Duration: 15 * time.Second, Faults: []string{"worker-kill", "zombie", "backend-terminate", "postgres-crash"},
		Program: []string{os.Args[0]}, Progress: &progress,
	})
	if report == nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	var shown strings.Builder
	if writeErr := report.Write(&shown); writeErr != nil {
		t.Error(writeErr)
	}
	t.Logf("%s\n%s", progress.String(), shown.String())
	if err != nil {
		t.Error(err)
	}
	if report.Rows == 0 || report.Claims < report.Rows/2 {
		t.Errorf("%d rows and %d claims are no run", report.Rows, report.Claims)
	}
}
