package webui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// rule reads the one value that a statement returns.
func (s *site) rule(statement string, args ...any) string {
	s.Helper()
	return s.id("SELECT coalesce(("+statement+")::text, '')", args...)
}

// Operators change rules on the pages that show them, and each change is in the audit.
func TestRulesAreChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting)
	s.fill()
	s.schedules(2, "nightly", "")
	ann := s.as("ann")
	ann.read()
	for _, step := range []struct {
		path  string
		form  url.Values
		query string
		want  string
	}{
		{"/queues/resume", url.Values{"queue": {"mail"}}, "SELECT paused FROM {schema}.jobs_queue WHERE name = 'mail'", "false"},
		{"/queues/pause", url.Values{"queue": {"mail"}}, "SELECT paused FROM {schema}.jobs_queue WHERE name = 'mail'", "true"},
		{"/queues/limit", url.Values{"queue": {"mail"}, "max_running": {"3"}, "rate": {"2.5"}, "burst": {""}},
			"SELECT max_running || ' ' || rate FROM {schema}.jobs_queue WHERE name = 'mail'", "3 2.5"},
		{"/queues/limit", url.Values{"queue": {"mail"}}, "SELECT max_running FROM {schema}.jobs_queue WHERE name = 'mail'", ""},
		{"/topics/pause", url.Values{"table": {"outbox"}, "topic": {evil}},
			"SELECT paused FROM {schema}.outbox_topic WHERE topic = '" + strings.ReplaceAll(evil, "'", "''") + "'", "true"},
		{"/topics/pause", url.Values{"table": {"inbox"}, "topic": {"t"}, "consumer": {"c"}},
			"SELECT paused FROM {schema}.inbox_topic WHERE topic = 't' AND consumer = 'c'", "true"},
		{"/topics/resume", url.Values{"table": {"inbox"}, "topic": {"t"}, "consumer": {"c"}},
			"SELECT count(*) FILTER (WHERE paused) FROM {schema}.inbox_topic", "0"},
		{"/schedules/resume", url.Values{"table": {"jobs_schedule"}, "schedule": {"nightly001"}},
			"SELECT paused FROM {schema}.jobs_schedule WHERE name = 'nightly001'", "false"},
		{"/schedules/pause", url.Values{"table": {"jobs_schedule"}, "schedule": {"nightly001"}},
			"SELECT paused FROM {schema}.jobs_schedule WHERE name = 'nightly001'", "true"},
	} {
		if a := ann.post(step.path, step.form); a.status != http.StatusSeeOther {
			t.Errorf("%s %v has status %d:\n%s", step.path, step.form, a.status, content(a.body))
		}
		ann.lacks("/", "The doctor is looking", "for the first time") // what is known already stays
		if got := s.rule(step.query); got != step.want {
			t.Errorf("after %s %v it is %q, want %q", step.path, step.form, got, step.want)
		}
	}
	if n := s.rule("SELECT count(*) FROM {schema}.audit"); n != "9" {
		t.Errorf("the audit has %s rows", n)
	}
	body := ann.read().shows("/queues", http.StatusOK, `action="./queues/resume"`, `action="./topics/resume"`, "Limit…")
	body += ann.shows("/schedules", http.StatusOK, `action="./schedules/resume"`, `action="./schedules/trigger"`)
	if strings.Contains(body, "<script>alert") {
		t.Error("a topic runs script")
	}
	s.as("vic").lacks("/queues", "<form method=\"post\"")
	s.as("vic").lacks("/schedules", "<form method=\"post\"")
}

// What cannot be done is refused with what is wrong, and leaves no trace.
func TestRulesThatCannotBeChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting)
	s.fill()
	ann := s.as("ann")
	for _, step := range []struct {
		path   string
		form   url.Values
		status int
	}{
		{"/queues/pause", url.Values{"queue": {""}}, 400},
		{"/queues/explode", url.Values{"queue": {"mail"}}, 404},
		{"/queues/limit", url.Values{"queue": {"mail"}, "max_running": {"many"}}, 400},
		{"/queues/limit", url.Values{"queue": {"mail"}, "max_running": {"-1"}}, 400},
		{"/queues/limit", url.Values{"queue": {"mail"}, "rate": {"NaN"}}, 400},
		{"/queues/limit", url.Values{"queue": {"mail"}, "rate": {"1e999"}}, 400},
		{"/topics/delete", url.Values{"table": {"outbox"}, "topic": {"t"}}, 404},
		{"/topics/pause", url.Values{"table": {"none"}, "topic": {"t"}}, 404},
		{"/schedules/pause", url.Values{"table": {"jobs_schedule"}, "schedule": {"none"}}, 404},
		{"/schedules/pause", url.Values{"table": {"jobs"}, "schedule": {"x"}}, 404},
		{"/schedules/drop", url.Values{"table": {"jobs_schedule"}, "schedule": {"x"}}, 404},
	} {
		a := ann.post(step.path, step.form)
		if a.status != step.status || !strings.Contains(a.body, "What to do:") {
			t.Errorf("%s %v has status %d, want %d:\n%s", step.path, step.form, a.status, step.status, content(a.body))
		}
	}
	for _, user := range []string{"vic", "outboxer"} {
		for path, form := range map[string]url.Values{"/queues/resume": {"queue": {"mail"}},
			"/schedules/pause": {"table": {"jobs_schedule"}, "schedule": {"x"}},
			"/topics/pause":    {"table": {"inbox"}, "topic": {"t"}, "consumer": {"c"}}} {
			if a := s.as(user).post(path, form); a.status != http.StatusForbidden && a.status != http.StatusNotFound {
				t.Errorf("%s may send %s: status %d", user, path, a.status)
			}
		}
	}
	s.schedules(1, "nightly", "")
	s.as("planner").lacks("/schedules", "schedules/trigger") // which writes to jobs
	form := url.Values{"table": {"jobs_schedule"}, "schedule": {"nightly001"}}
	if a := s.as("planner").post("/schedules/trigger", form); a.status != http.StatusNotFound {
		t.Errorf("a schedule is triggered by a user that sees no jobs: status %d", a.status)
	}
	if n := s.rule("SELECT count(*) FROM {schema}.audit"); n != "0" {
		t.Errorf("the audit has %s rows", n)
	}
}
