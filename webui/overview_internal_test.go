package webui

import (
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/doctor"
)

// The title of a finding quotes an error, with its numbers masked or not, and is redacted as the error is.
func TestTitlesOfFindingsAreRedacted(t *testing.T) {
	t.Parallel()
	h := &handler{Config: Config{Redact: func(c Content) string {
		return strings.ReplaceAll(string(c.Bytes), "card", "****")
	}}}
	f := h.evidence(doctor.Finding{Title: "schedule report fails: card 4711 is refused", Table: "jobs_schedule",
		Evidence: []doctor.Evidence{{{Name: "last_error", Value: "card 4711 is refused"}}}})
	if want := "schedule report fails: **** 4711 is refused"; f.Title != want {
		t.Errorf("the title is %q, want %q", f.Title, want)
	}
	if value := f.Evidence[0][0].Value; value != "**** 4711 is refused" {
		t.Errorf("the evidence is %v", value)
	}
}

// Two paused queues are two findings, which an update of the page must not take for one another.
func TestFindingsAreToldApart(t *testing.T) {
	t.Parallel()
	of := func(queue string) string {
		return finding{Finding: doctor.Finding{Code: "queue-paused", Evidence: []doctor.Evidence{{{Name: "queue",
			Value: queue}, {Name: "ready", Value: 3}}}}}.Of()
	}
	if of("a") == of("b") {
		t.Errorf("both are %q", of("a"))
	}
}
