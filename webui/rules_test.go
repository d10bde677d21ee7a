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
	topic := func(table, topic string) url.Values { return url.Values{"table": {table}, "topic": {topic}} }
	schedule := func(name string) url.Values { return url.Values{"table": {"jobs_schedule"}, "schedule": {name}} }
	job := s.id("SELECT id FROM {schema}.jobs LIMIT 1")
	for _, step := range []struct {
		path   string
		form   url.Values
		status int
		says   string
	}{
		{"/queues/pause", url.Values{"queue": {""}}, 400, "queue is empty"},
		{"/queues/explode", url.Values{"queue": {"mail"}}, 404, ""},
		{"/queues/limit", url.Values{"queue": {"mail"}, "max_running": {"many"}}, 400, "max_running is no number"},
		{"/queues/limit", url.Values{"queue": {"mail"}, "max_running": {"-1"}}, 400, "MaxRunning is -1"},
		{"/queues/limit", url.Values{"queue": {"mail"}, "rate": {"NaN"}}, 400, "Rate is NaN"},
		{"/queues/limit", url.Values{"queue": {"mail"}, "rate": {"1e999"}}, 400, "rate is no number"},
		{"/topics/delete", topic("outbox", "t"), 404, ""},
		{"/topics/pause", topic("none", "t"), 404, ""},
		{"/topics/pause", topic("outbox", ""), 400, "topic must have 1 to 255 bytes"},
		{"/topics/pause", topic("outbox", strings.Repeat("x", 256)), 400, "topic must have 1 to 255 bytes"},
		{"/topics/pause", topic("outbox", "a\x00b"), 400, "invalid byte sequence"},
		{"/topics/pause", topic("inbox", "t"), 400, "consumer is missing"},
		{"/topics/pause", topic("jobs", "mail"), 400, "jobs has no topics"}, // its function pauses the queue
		{"/schedules/pause", schedule("none"), 404, ""},
		{"/schedules/pause", url.Values{"table": {"jobs"}, "schedule": {"x"}}, 404, ""},
		{"/schedules/drop", schedule("x"), 404, ""},
		{"/schedules/trigger", schedule("\x00"), 400, "invalid byte sequence"},
		{"/t/jobs/row/" + job + "/cancel", url.Values{"reason": {"\x00"}}, 400, "invalid byte sequence"},
		{"/t/jobs/row/" + job + "/reschedule", url.Values{"at": {"soon"}}, 400, "time cannot be read"},
		{"/t/jobs/chosen/failed/redrive", nil, 400, "choose 1 to"},
		{"/nowhere", nil, 405, "There is no such action"},
	} {
		a := ann.post(step.path, step.form)
		if a.status != step.status || !strings.Contains(a.body, "What to do:") || !strings.Contains(a.body, step.says) {
			t.Errorf("%s %v has status %d, want %d and %q:\n%s", step.path, step.form, a.status, step.status, step.says,
				content(a.body))
		}
		if a.status == http.StatusBadRequest && (!strings.Contains(a.body, "correct the form") ||
			!strings.Contains(a.body, "Nothing was changed")) {
			t.Errorf("%s %v does not say what to do with the form:\n%s", step.path, step.form, content(a.body))
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
