package outage_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txwork/txwork/internal/outage"
)

// lines returns the lines of a log after its timers have run.
func lines(b *strings.Builder) []string {
	synctest.Wait()
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

func TestAnOutageOfSeveralIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		logger := slog.New(slog.NewTextHandler(&text, nil))
		var l outage.Log
		l.Succeeded(logger, "a") // there was no outage
		for range 5 {
			l.Failed(logger, "a", errors.New("no route"))
			l.Failed(logger, "b", errors.New("no route"))
			time.Sleep(time.Second)
		}
		l.Succeeded(logger, "a")
		time.Sleep(10 * time.Second) // b still waits
		if got := lines(&text); len(got) != 1 ||
			!strings.Contains(got[0], `level=ERROR msg="database does not answer`) {
			t.Fatalf("while it lasts: %q", got)
		}
		l.Succeeded(logger, "b")
		l.Failed(logger, "a", errors.New("a connection that broke"))
		time.Sleep(time.Second / 2)
		l.Succeeded(logger, "a")
		time.Sleep(time.Second / 2)
		l.Failed(logger, "b", errors.New("another one"))
		l.Succeeded(logger, "b")
		time.Sleep(time.Minute)
		got := lines(&text)
		if len(got) != 2 || !strings.Contains(got[1], `level=INFO msg="database answers again" after=16s failures=12`) {
			t.Errorf("afterwards: %q", got)
		}
		l.Failed(logger, "a", errors.New("the next one"))
		l.Succeeded(logger, "a")
		time.Sleep(time.Minute)
		if got := lines(&text); len(got) != 4 || !strings.Contains(got[3], "failures=1") {
			t.Errorf("after another one: %q", got)
		}
	})
}
