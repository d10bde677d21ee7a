package webui

import (
	"fmt"
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

// Dead letters are redriven by all that the finding says of them. An error that may not be shown is in no address, and
// in no command.
func TestDeadLettersOfAFindingAreRedriven(t *testing.T) {
	t.Parallel()
	f := doctor.Finding{Code: "poison", Table: "outbox_log_parked",
		Evidence: []doctor.Evidence{{{Name: "subscription", Value: "billing"}, {Name: "topic", Value: "t"},
			{Name: "error", Value: "card … of O'Hara is declined"}}},
		Remedy: doctor.Remedy{Commands: []string{"txwork show 1", `txwork redrive --error 'of O'\''Hara is declined'`},
			SQL: []string{"SELECT 1 WHERE strpos(last_error, 'of O''Hara is declined') > 0"}}}
	const hidden = "t/outbox_log_parked/failed/redrive?newer=1h&subscription=billing&topic=t"
	const shown = "t/outbox_log_parked/failed/redrive?error=of+O%27Hara+is+declined&newer=1h&subscription=billing" +
		"&topic=t"
	for redacted, want := range map[string]string{"O'Hara": hidden, "O'Brien": shown} {
		h := &handler{Config: Config{Redact: func(c Content) string {
			return strings.ReplaceAll(string(c.Bytes), redacted, "****")
		}}}
		all := h.remedies(f, true)
		if len(all) != 1 || string(all[0].Path) != want {
			t.Errorf("without %s: %+v, want %s", redacted, all, want)
		}
		text := fmt.Sprint(h.evidence(f))
		if strings.Contains(text, redacted) || !strings.Contains(text, "txwork show 1") ||
			strings.Contains(text, "SELECT 1") != (want == shown) {
			t.Errorf("without %s: %s", redacted, text)
		}
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
