package fault_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/workqueue/internal/fault"
)

// Work that fails together is one outage, however many statements of it fail.
func TestAnOutageOfSeveralTablesIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var logs bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&logs, nil))
	var log outage.Log
	var one, other fault.Outage
	one.LogTo(&log)
	other.LogTo(&log)
	away := errors.New("no route to host")
	for range 2 {
		for _, o := range []*fault.Outage{&one, &other} {
			if !o.Note(logger, away) || !o.Ongoing() {
				t.Error("a statement without an answer is no outage")
			}
		}
	}
	if one.Note(logger, state("23505")) || !one.Ongoing() {
		t.Error("the error of one statement begins or ends an outage")
	}
	if one.Note(logger, nil) || one.Ongoing() || one.State() != "" {
		t.Error("an answer does not end the outage")
	}
	if !strings.Contains(other.State(), "does not answer") {
		t.Errorf("the other's state is %q", other.State())
	}
	other.End()
	if n := strings.Count(logs.String(), "level=ERROR"); n != 1 {
		t.Errorf("%d errors were logged, want one:\n%s", n, &logs)
	}
}
