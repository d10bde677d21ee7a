package webui_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

type report struct{}

func (report) Kind() string { return "report" }

// nightly puts a schedule of timers and one of jobs, at a time that a night in March does not have.
func (s *site) nightly() {
	s.Helper()
	t, err := timers.Open(timers.Options{Schema: s.db.Schema})
	must(s, err)
	c, err := jobs.Open(jobs.Options{Schema: s.db.Schema})
	must(s, err)
	must(s, pgx.BeginFunc(s.Context(), s.db.Pool, func(tx pgx.Tx) error {
		err := t.Schedules().Put(s.Context(), workqueue.Pgx(tx), timers.Schedule{Name: "nightly", Expr: "30 2 * * *",
			Zone: "Europe/Zagreb", Topic: "t"})
		must(s, err)
		return c.Schedules().Put(s.Context(), workqueue.Pgx(tx), jobs.Schedule{Name: "nightly", Expr: "30 2 * * *",
			Zone: "Europe/Zagreb", Args: report{}})
	}))
}

const march = "&from=2026-03-28T00:00&to=2026-03-30T23:00"

func backfillOf(table string) string {
	return "/schedules/backfill?table=" + table + "&schedule=nightly"
}

// previewed opens the preview of a backfill, and returns the form that confirms it.
func (s *site) previewed(path string, texts ...string) url.Values {
	s.Helper()
	_, body, _ := strings.Cut(s.shows(path, http.StatusOK, texts...), `<form method="post"`)
	form := url.Values{}
	for _, m := range hiddenField.FindAllStringSubmatch(body, -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	return form
}

// A range that has passed is shown in a zone before it is written, and is written once, also while the schedule is
// paused.
func TestAPastRangeIsBackfilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting)
	s.nightly()
	s.exec("UPDATE {schema}.timers_schedule SET paused = true")
	ann := s.as("ann")
	for _, rows := range []string{"timers", "jobs"} {
		table := rows + "_schedule"
		ann.shows("/schedules", http.StatusOK, "schedules/backfill?schedule=nightly&amp;table="+table)
		ann.shows(backfillOf(table), http.StatusOK, ">Preview<", "Europe/Zagreb")
		form := ann.previewed(backfillOf(table)+march, "<strong>3</strong> of the 3 rows",
			"Sun 2026-03-29 03:00:00 &#43;02:00", "2026-03-29 01:00:00 UTC", "missing")
		ann.shows(backfillOf(table)+march+"&zone=Asia/Tokyo", http.StatusOK, "Sun 2026-03-29 10:00:00 &#43;09:00")
		s.is("0", "SELECT count(*)::text FROM {schema}."+rows)
		a := ann.post("/schedules/backfill", form)
		if a.status != http.StatusSeeOther {
			t.Fatalf("status %d:\n%s", a.status, content(a.body))
		}
		_, to, _ := strings.Cut(a.header.Get("Location"), "schedules/backfill")
		ann.shows("/schedules/backfill"+to, http.StatusOK, "All rows of this range exist", ">exists<")
		s.is("ann backfill "+table+" 3 nightly 2026-03-27T23:00:00Z", `SELECT concat_ws(' ', who, verb,
			target, rows, about->>'schedule', about->>'from') FROM {schema}.audit ORDER BY id DESC LIMIT 1`)
		if a := ann.post("/schedules/backfill", form); a.status != http.StatusConflict { // sent twice
			t.Errorf("the second time: status %d:\n%s", a.status, content(a.body))
		}
		s.is("3", "SELECT count(*)::text FROM {schema}."+rows)
		ann.shows(backfillOf(table)+"&from=2026-03-28T00:00&to=2026-03-31T23:00", http.StatusOK,
			"<strong>1</strong> of the 4 rows", "The others exist")
	}
	s.is("true", "SELECT paused::text FROM {schema}.timers_schedule")
}

// What is confirmed is what was shown: the same times, of which the same ones are missing, with the same content.
func TestABackfillThatWouldWriteOtherRows(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting)
	s.nightly()
	ann := s.as("ann")
	last := backfillOf("jobs_schedule") + strings.Replace(march, "03-28T00:00", "03-30T00:00", 1)
	for _, c := range []struct{ changed, rows string }{
		{"UPDATE {schema}.jobs_schedule SET expr = '@hourly'", "0"},
		{`UPDATE {schema}.jobs_schedule SET expr = '30 2 * * *',
			template = convert_to(replace(convert_from(template, 'UTF8'), 'report', 'other'), 'UTF8')`, "0"},
		{"", "1"}, // somebody else writes one of the rows
		{"DELETE FROM {schema}.jobs", "0"},
	} {
		form := ann.previewed(backfillOf("jobs_schedule") + march)
		if c.changed != "" {
			s.exec(c.changed)
		} else if a := ann.post("/schedules/backfill", ann.previewed(last)); a.status != http.StatusSeeOther {
			t.Fatalf("status %d:\n%s", a.status, content(a.body))
		}
		a := ann.post("/schedules/backfill", form)
		if a.status != http.StatusConflict || !strings.Contains(a.body, "It would write other rows now") {
			t.Errorf("%s: status %d:\n%s", c.changed, a.status, content(a.body))
		}
		s.is(c.rows, "SELECT count(*)::text FROM {schema}.jobs")
	}
	s.is("1", "SELECT count(*)::text FROM {schema}.audit")
}

func TestBackfillsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting)
	s.nightly()
	ann := s.as("ann")
	for query, want := range map[string]string{
		"&from=2026-03-02T00:00&to=2026-03-01T00:00":               "before it begins",
		"&from=2026-03-02T00:00&to=2126-03-01T00:00":               "later than now",
		"&from=2016-03-02T00:00&to=2026-03-01T00:00":               "more than the 1000 occurrences",
		"&from=soon&to=2026-03-01T00:00":                           "cannot be read",
		"&from=2026-03-02T00:00&to=":                               "cannot be read",
		"&from=2026-03-02T00:00&to=2026-03-03T00:00&zone=Mars":     "is not known",
		"&from=2026-03-02T00:00&to=2026-03-03T00:00&zone=../../up": "is not known",
	} {
		ann.shows(backfillOf("jobs_schedule")+query, http.StatusBadRequest, want, ">Preview<")
	}
	ann.shows("/schedules/backfill?table=jobs_schedule&schedule=none", http.StatusNotFound, "It is not there")
	ann.shows("/schedules/backfill?table=jobs&schedule=nightly", http.StatusNotFound)
	ann.shows("/schedules/backfill?table=none&schedule=nightly", http.StatusNotFound)
	ann.shows(backfillOf("jobs_schedule")+"&from=2026-03-28T04:00&to=2026-03-28T05:00", http.StatusOK,
		"has no time in this range")

	form := ann.previewed(backfillOf("jobs_schedule") + march)
	s.as("vic").shows(backfillOf("jobs_schedule"), http.StatusForbidden, "You may only look")
	s.as("planner").shows(backfillOf("jobs_schedule"), http.StatusNotFound) // it writes to jobs
	for user, status := range map[string]int{"vic": http.StatusForbidden, "planner": http.StatusNotFound,
		"outboxer": http.StatusNotFound, "nobody": http.StatusForbidden} {
		if a := s.as(user).post("/schedules/backfill", form); a.status != status {
			t.Errorf("%s: status %d, want %d", user, a.status, status)
		}
	}
	for name, value := range map[string]string{"from": "soon", "to": "2126-01-01T00:00:00Z", "sum": ""} {
		wrong := url.Values{}
		for field, v := range form {
			wrong[field] = v
		}
		wrong.Set(name, value)
		if a := ann.post("/schedules/backfill", wrong); a.status != 400 && a.status != 409 {
			t.Errorf("%s: status %d", name, a.status)
		}
	}

	operator := s.asOperator().as("ann")
	a := operator.post("/schedules/backfill", form)
	if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "_worker") {
		t.Errorf("without the right to write rows: status %d:\n%s", a.status, content(a.body))
	}
	s.exec("ALTER TABLE {schema}.jobs ENABLE ROW LEVEL SECURITY")
	operator.shows(backfillOf("jobs_schedule"), http.StatusConflict, "sees only a part")
	if a := operator.post("/schedules/backfill", form); a.status != http.StatusConflict {
		t.Errorf("of a table that shows a part: status %d", a.status)
	}
	s.is("0", "SELECT count(*)::text FROM {schema}.jobs")
	s.is("", audited)
}

// A schedule is triggered by the role of operators, which may not write jobs: a scheduler does.
func TestAnOperatorTriggersASchedule(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting)
	s.nightly()
	operator := s.asOperator().as("ann")
	trigger := func(name string) answer {
		return operator.post("/schedules/trigger", url.Values{"table": {"jobs_schedule"}, "schedule": {name}})
	}
	if a := trigger("nightly"); a.status != http.StatusSeeOther {
		t.Errorf("status %d:\n%s", a.status, content(a.body))
	}
	s.is("1", "SELECT jsonb_array_length(triggers)::text FROM {schema}.jobs_schedule")
	if a := trigger("none"); a.status != http.StatusNotFound {
		t.Errorf("a schedule that is gone: status %d", a.status)
	}
	s.exec("UPDATE {schema}.jobs_schedule SET status = 2, completed_at = now()")
	if a := trigger("nightly"); a.status != http.StatusConflict {
		t.Errorf("one that has ended: status %d", a.status)
	}
	s.is("ann done trigger jobs_schedule 1", audited)
}
