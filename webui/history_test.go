package webui_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// record makes a history of jobs: of two queues, with a gap.
func (s *site) record() {
	s.Helper()
	s.exec(`INSERT INTO history_flush SELECT 'jobs', 1, n, 'queue<' || n % 2, now() - n * interval '1 minute', n, 1, 1, 0, 0, 0,
			ARRAY[0, 0, n], ARRAY[0, 0, 0, 0, 0, 0, n]
		FROM generate_series(1, 2000) AS n WHERE n % 50 NOT BETWEEN 20 AND 25`)
	s.exec("SELECT history_merge('{jobs}', 10000)")
}

// Charts say nothing of gaps, fit any width, and have their figures in a table beside them.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.shows("/history", http.StatusOK, "Nothing was recorded")
	s.record()
	body := s.shows("/history", http.StatusOK, ">jobs<", `class="gap"`, "95 % within", "The figures as a table", "<svg ")
	if n := strings.Count(body, "<figure"); n != 5 {
		t.Errorf("%d charts", n)
	}
	if rows := strings.Count(body, "<tr><th scope=\"row\">"); rows < 48 || rows > 54 {
		t.Errorf("%d rows of figures, want those of an hour without the gap of six minutes", rows)
	}
	if strings.Contains(body, "style=") || regexp.MustCompile(`d="[^"]*(NaN|Inf)`).MatchString(body) {
		t.Errorf("a style or a number is none:\n%s", content(body))
	}
	for _, path := range []string{"/history?range=day", "/history?range=week", "/history?range=day&table=jobs&lane=queue%3C1",
		"/history?range=forever"} {
		s.shows(path, http.StatusOK, "jobs", "<svg ")
	}
	s.shows("/history?table=jobs&lane=queue%3C1", http.StatusOK, "queue&lt;1")
	s.shows("/history?table=jobs&lane=none", http.StatusOK, "Nothing was recorded")
	s.shows("/history?table=nothing", http.StatusNotFound, "no such table")
	s.shows("/history?table=jobs&lane=%00", http.StatusNotFound)
	s.shows("/history?table=jobs&lane=%ff", http.StatusNotFound)
	s.exec(`INSERT INTO history_flush SELECT t, 2, n, 'billing', now() - n * interval '1 minute', n, 1, 1, 0, 0, 0,
			ARRAY[0, 0, n], '{}' FROM generate_series(1, 50) AS n, unnest('{outbox_log,jobs_schedule}'::text[]) AS t`)
	s.exec("SELECT history_merge('{outbox_log_parked,jobs_schedule}', 10000)")
	s.shows("/history", http.StatusOK, "outbox_log", "Lateness of schedules", "Leases that ended", "claimed")
	s.shows("/history?table=outbox_log&lane=billing", http.StatusOK, "billing", "<svg ")
	s.read()
	s.shows("/", http.StatusOK, "Last hour", "range=week", "<svg ")
	s.exec("DROP TABLE history")
	s.shows("/history", http.StatusOK, "Nothing was recorded")
}
