package webui_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/webui"
)

// acting configures a dashboard whose users may act: each request says in a header who sends it.
func acting(c *webui.Config) {
	c.Insecure, c.Actions = false, true
	c.Authenticate = func(r *http.Request) (webui.User, error) {
		users := map[string]webui.User{"ann": {Name: "ann", Role: webui.Operator},
			"bob": {Name: "bob", Role: webui.Operator},
			"vic": {Name: "vic"}, "nobody": {Role: webui.Operator},
			"planner":  {Name: "planner", Role: webui.Operator, Tables: []string{"jobs_schedule"}},
			"outboxer": {Name: "outboxer", Role: webui.Operator, Tables: []string{"outbox"}},
			"proxied":  {Name: "proxied", Role: webui.Operator, Address: "192.0.2.7"}}
		u, ok := users[r.Header.Get("X-User")]
		if !ok {
			return u, errors.New("unknown")
		}
		return u, nil
	}
}

// as sends requests as a user.
func (s *site) as(user string) *site {
	other := *s
	other.header = http.Header{"X-User": {user}}
	return &other
}

// post sends a form.
func (s *site) post(path string, form url.Values, header ...http.Header) answer {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.server.URL+prefix+path,
		strings.NewReader(form.Encode()))
	must(s, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, all := range append(header, s.header) {
		for name, values := range all {
			r.Header[name] = values
		}
	}
	return s.do(r)
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// confirm opens the page that asks, and returns its form.
func (s *site) confirm(path string) url.Values {
	s.Helper()
	form := url.Values{}
	for _, m := range hiddenField.FindAllStringSubmatch(s.shows(path, http.StatusOK), -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	if form.Get("order") == "" {
		s.Fatalf("%s asks nothing", path)
	}
	return form
}

// ended waits until an action has ended, and returns its page.
func (s *site) ended(action string) string {
	s.Helper()
	var body string
	if !pgtest.Await(pgtest.Patience, func() bool {
		body = s.get("/audit/" + action).body
		return strings.Contains(body, "Done.") || strings.Contains(body, "Stopped.")
	}) {
		s.Fatalf("the action does not end:\n%s", content(body))
	}
	return body
}

// letters writes dead letters.
func (s *site) letters(n int, topic string) {
	s.Helper()
	s.exec(`INSERT INTO {schema}.outbox (topic, payload, status, attempts, completed_at, failed_at, last_error)
		SELECT $2, '', 3, 1, now(), now(), 'no route ' || i FROM generate_series(1, $1::int) AS i`, n, topic)
}

func (s *site) is(want, query string, args ...any) {
	s.Helper()
	if got := s.id(query, args...); got != want {
		s.Errorf("%s: %s, want %s", query, got, want)
	}
}

const audited = `SELECT coalesce(string_agg(concat_ws(' ', who, event, verb, target, rows), ', ' ORDER BY id), '')
	FROM {schema}.audit WHERE event <> 'alive'`

// What can be done to a row, with the state in which the row is before and after.
func TestAnOperatorChangesARow(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting).as("ann")
	for verb, c := range map[string]struct {
		before, after string
		form          url.Values
	}{
		"redrive": {"status = 3, attempts = 1, completed_at = now(), failed_at = now()", "status = 0", nil},
		"discard": {"status = 3, attempts = 1, completed_at = now(), failed_at = now()",
			"cancelled_at IS NOT NULL AND last_error LIKE '%why%'", url.Values{"reason": {"why"}}},
		"delete":     {"status = 2, attempts = 1, completed_at = now()", "false", nil},
		"cancel":     {"status = 0", "cancelled_at IS NOT NULL AND last_error LIKE '%by ann on the dashboard'", nil},
		"run_now":    {"due_at = now() + interval '1 day'", "due_at <= now()", nil},
		"reschedule": {"status = 0", "due_at = '2040-01-02 03:04Z'", url.Values{"at": {"2040-01-02T03:04"}}},
	} {
		id := s.id(`INSERT INTO {schema}.outbox (topic, payload) VALUES ('t', '') RETURNING id`)
		s.exec(`UPDATE {schema}.outbox SET `+c.before+` WHERE id = $1`, id)
		path := "/t/outbox/row/" + id
		s.shows(path, http.StatusOK, id+"/"+verb+`"`)
		a := s.post(path+"/"+verb, c.form)
		if a.status != http.StatusSeeOther {
			t.Fatalf("%s has status %d:\n%s", verb, a.status, content(a.body))
		}
		s.is(fmt.Sprint(map[bool]int{true: 0, false: 1}[verb == "delete"]),
			`SELECT count(*)::text FROM {schema}.outbox WHERE id = $1 AND (`+c.after+`)`, id)
		s.is("ann done "+verb+" outbox 1 "+id, `SELECT concat_ws(' ', who, event, verb, target, rows, about->'ids'->>0)
			FROM {schema}.audit WHERE about->'ids'->>0 = $1`, id)
		if verb != "delete" && verb != "reschedule" { // once more: it is as intended, or the page says why not
			if a := s.post(path+"/"+verb, c.form); a.status != http.StatusSeeOther && a.status != http.StatusConflict {
				t.Errorf("%s again has status %d", verb, a.status)
			}
		}
	}
	s.is("true", `SELECT bool_and(origin LIKE '127.0.0.1:%' AND db_user = session_user)::text FROM {schema}.audit`)
	s.as("proxied").post("/t/outbox/row/"+uuid.NewString()+"/redrive", nil)
	s.is("192.0.2.7 0", `SELECT origin || ' ' || rows FROM {schema}.audit ORDER BY id DESC LIMIT 1`)
}

// What a filter selects is counted, confirmed, changed in batches, and shown; what comes after the count stays.
func TestAnOperatorChangesWhatAFilterSelects(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting).as("ann")
	s.letters(2500, "mail")
	s.letters(10, "other")
	s.shows("/t/outbox/failed?topic=mail", http.StatusOK, "All that match the filter",
		"/t/outbox/failed/redrive?topic=mail")
	s.shows("/dead", http.StatusOK, "failed/redrive?error=no&#43;route&amp;topic=mail")
	form := s.confirm("/t/outbox/failed/redrive?topic=mail")
	s.shows("/t/outbox/failed/redrive?topic=mail", http.StatusOK, "2,500 rows")
	s.letters(1, "mail") // after the count
	a := s.post("/t/outbox/failed/redrive", form)
	if a.status != http.StatusSeeOther || !strings.HasSuffix(a.header.Get("Location"), "audit/"+form.Get("action")) {
		t.Fatalf("status %d to %q:\n%s", a.status, a.header.Get("Location"), content(a.body))
	}
	if body := s.ended(form.Get("action")); !strings.Contains(body, "2,500 of 2,500 rows") {
		t.Errorf("the page of the action:\n%s", content(body))
	}
	s.is("1 10 2500", `SELECT concat_ws(' ', count(*) FILTER (WHERE status = 3 AND topic = 'mail'),
		count(*) FILTER (WHERE status = 3 AND topic = 'other'), count(*) FILTER (WHERE status = 0)) FROM {schema}.outbox`)
	s.is("ann begun redrive outbox 0, ann batch redrive outbox 1000, ann batch redrive outbox 1000, "+
		"ann batch redrive outbox 500, ann ended redrive outbox 0", audited)
	if a := s.post("/t/outbox/failed/redrive", form); a.status != http.StatusSeeOther { // the form is sent again
		t.Errorf("status %d", a.status)
	}
	s.is("5", `SELECT count(*)::text FROM {schema}.audit WHERE event <> 'alive'`)
	s.shows("/audit?who=ann&verb=redrive&table=outbox&newer=1h", http.StatusOK, form.Get("action"), "mail")
	s.shows("/audit?who=bob", http.StatusOK, "No action matches")
	s.shows("/t/outbox/failed/discard?topic=none", http.StatusOK, "There is nothing to do")
}

// halfway discards 3000 rows, and waits until the first batch is done. The second waits for a row that somebody has
// locked, until goOn is called.
func (s *site) halfway() (form url.Values, goOn func()) {
	s.Helper()
	s.letters(3000, "mail")
	form = s.confirm("/t/outbox/failed/discard")
	tx, err := s.db.Pool.Begin(s.Context())
	must(s, err)
	s.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // if the test has failed
	_, err = tx.Exec(s.Context(), `SELECT FROM `+s.db.Schema+`.outbox WHERE id = (SELECT id FROM `+s.db.Schema+
		`.outbox ORDER BY failed_at, id OFFSET 1500 LIMIT 1) FOR UPDATE`)
	must(s, err)
	s.post("/t/outbox/failed/discard", form)
	path := "/audit/" + form.Get("action")
	if !pgtest.Await(pgtest.Patience, func() bool { return strings.Contains(s.get(path).body, "1,000 of 3,000") }) {
		s.Fatalf("no batch is done:\n%s", content(s.get(path).body))
	}
	return form, func() { s.Helper(); must(s, tx.Rollback(s.Context())) }
}

// An action that runs is not resumed; one that is resumed before it has noticed that it was stopped goes on.
func TestAnActionIsResumedBeforeItHasStopped(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting).as("ann")
	form, goOn := s.halfway()
	path := "/audit/" + form.Get("action")
	for _, verb := range []string{"resume", "stop", "resume"} {
		if a := s.post(path+"/"+verb, nil); a.status != http.StatusSeeOther {
			t.Errorf("%s has status %d", verb, a.status)
		}
	}
	goOn()
	if body := s.ended(form.Get("action")); !strings.Contains(body, "3,000 of 3,000") {
		t.Errorf("it did not go on:\n%s", content(body))
	}
	s.is("begun, batch, stopped, resumed, batch, batch, ended",
		`SELECT string_agg(event, ', ' ORDER BY id) FROM {schema}.audit WHERE event <> 'alive'`)
}

// Rows do not say since when they are scheduled: no more of them are changed than were counted.
func TestAnActionChangesNoMoreThanWasCounted(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting).as("ann")
	s.exec(`INSERT INTO {schema}.outbox (topic, payload, due_at)
		SELECT 't', '', now() + i * interval '1 day' FROM generate_series(0, 2) AS i`)
	form := s.confirm("/t/outbox/scheduled/cancel")
	s.shows("/t/outbox/scheduled/cancel", http.StatusOK, "not more than were counted")
	s.exec(`UPDATE {schema}.outbox SET due_at = now() + interval '1 hour' WHERE due_at <= now()`)
	s.post("/t/outbox/scheduled/cancel", form)
	if body := s.ended(form.Get("action")); !strings.Contains(body, "2 of 2 rows") {
		t.Errorf("the page of the action:\n%s", content(body))
	}
	s.is("2", "SELECT count(*)::text FROM {schema}.outbox WHERE cancelled_at IS NOT NULL")
}

// An action by a filter cannot have the id of another action, so that neither hides the other.
func TestAnActionHasAnIDOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting).as("ann")
	s.letters(3, "mail")
	s.post("/t/outbox/row/"+s.id("SELECT id FROM {schema}.outbox LIMIT 1")+"/redrive", nil)
	form := s.confirm("/t/outbox/failed/redrive")
	form.Set("action", s.id("SELECT action FROM {schema}.audit"))
	if a := s.post("/t/outbox/failed/redrive", form); a.status != http.StatusSeeOther {
		t.Errorf("status %d:\n%s", a.status, content(a.body))
	}
	s.is("ann done redrive outbox 1", audited)
}

// An action that is stopped stays so, also if the process that carried it out is another; it is resumed where it was.
func TestAnActionIsStoppedAndResumed(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting).as("ann")
	form, goOn := s.halfway()
	path := "/audit/" + form.Get("action")
	s.shows(path, http.StatusOK, "Running.", "http-equiv", "/stop")
	other := serve(t, s.db, acting).as("bob") // another process
	other.shows(path, http.StatusOK, "Running.")
	other.post(path+"/stop", nil)
	goOn()
	s.ended(form.Get("action"))
	s.is("bob stopped discard outbox 0", `SELECT concat_ws(' ', who, event, verb, target, rows) FROM {schema}.audit
		WHERE event = 'stopped'`)
	left := s.id(`SELECT count(*)::text FROM {schema}.outbox WHERE cancelled_at IS NULL`)
	if left != "1000" && left != "2000" { // the batch that was under way
		t.Errorf("%s rows are left", left)
	}
	other.shows(path, http.StatusOK, "Stopped.", "/resume")
	other.post(path+"/resume", nil)
	if !pgtest.Await(pgtest.Patience, func() bool { return strings.Contains(other.get(path).body, "Done.") }) {
		t.Fatalf("it is not resumed:\n%s", content(other.get(path).body))
	}
	other.shows(path, http.StatusOK, "3,000 of 3,000")
	s.is("0", `SELECT count(*)::text FROM {schema}.outbox WHERE cancelled_at IS NULL`)
}

// Rows of a list are chosen, shown once more, and changed together.
func TestAnOperatorChangesChosenRows(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting).as("ann")
	s.letters(3, "mail")
	s.shows("/t/outbox/failed", http.StatusOK, `form="chosen"`, "t/outbox/chosen/failed/redrive")
	ids := strings.Fields(s.id("SELECT string_agg(id::text, ' ' ORDER BY id) FROM {schema}.outbox"))
	form := url.Values{"id": ids[:2]}
	a := s.post("/t/outbox/chosen/failed/discard", form)
	if a.status != http.StatusOK || !strings.Contains(a.body, "the 2 rows that you have chosen") {
		t.Fatalf("status %d:\n%s", a.status, content(a.body))
	}
	s.is("", audited)
	form.Set("confirmed", "yes")
	for range 2 { // the second time they are as intended
		if a := s.post("/t/outbox/chosen/failed/discard", form); a.status != http.StatusSeeOther {
			t.Fatalf("status %d:\n%s", a.status, content(a.body))
		}
	}
	s.is("2 1", `SELECT concat_ws(' ', count(cancelled_at), count(*) FILTER (WHERE cancelled_at IS NULL))
		FROM {schema}.outbox`)
	s.is("ann done discard outbox 2, ann done discard outbox 0", audited)
	gone := url.Values{"id": {ids[2], uuid.NewString()}, "confirmed": {"yes"}}
	a = s.post("/t/outbox/chosen/failed/redrive", gone)
	if a.status != http.StatusConflict || !strings.Contains(a.body, "1 of 2 rows were not redriven") {
		t.Errorf("status %d:\n%s", a.status, content(a.body))
	}
	for name, c := range map[string]struct {
		path string
		form url.Values
		want int
	}{
		"none":          {"failed/redrive", nil, 400},
		"no id":         {"failed/redrive", url.Values{"id": {"17"}}, 400},
		"too many":      {"failed/redrive", url.Values{"id": slices.Repeat(ids[:1], 201)}, 400},
		"another state": {"ready/redrive", form, 404},
		"no time":       {"ready/reschedule", form, 400},
	} {
		if a := s.post("/t/outbox/chosen/"+c.path, c.form); a.status != c.want {
			t.Errorf("%s has status %d, want %d:\n%s", name, a.status, c.want, content(a.body))
		}
	}
}

// attempts are requests that would change something.
func (s *site) attempts() map[string]url.Values {
	s.Helper()
	id := s.id("SELECT id FROM {schema}.outbox WHERE status = 3 LIMIT 1")
	form := s.as("ann").confirm("/t/outbox/failed/redrive")
	all := map[string]url.Values{"/t/outbox/failed/redrive": form, "/audit/" + form.Get("action") + "/stop": nil,
		"/audit/" + form.Get("action") + "/resume": nil}
	for _, verb := range []string{"redrive", "discard", "delete", "cancel", "run_now", "reschedule", "unblock"} {
		all["/t/outbox/row/"+id+"/"+verb] = url.Values{"at": {"2040-01-02T03:04"}}
		all["/t/outbox/failed/"+verb] = form
		all["/t/outbox/chosen/failed/"+verb] = url.Values{"id": {id}, "confirmed": {"yes"}}
	}
	return all
}

// A viewer has no buttons, and calls every action in vain; so do another site, a stranger, somebody without a name, and
// a user of other tables.
func TestOnlyOperatorsAct(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting)
	s.letters(3, "mail")
	s.exec(`INSERT INTO {schema}.jobs (kind, queue, priority, args) VALUES ('k', 'q', 2, '')`)
	const state = "SELECT md5(string_agg(o::text, '' ORDER BY id)) FROM {schema}.outbox AS o"
	before := s.id(state)
	id := s.id("SELECT id FROM {schema}.outbox LIMIT 1")
	s.as("vic").lacks("/t/outbox/failed", "/redrive", "that match the filter", "in this state:")
	s.as("vic").lacks("/t/outbox/row/"+id, "<form method=\"post\"")
	s.as("vic").shows("/t/outbox/failed/redrive", http.StatusForbidden, "You may only look")
	s.as("vic").shows("/audit", http.StatusOK, "Nobody has changed anything")
	for path, form := range s.attempts() {
		for user, want := range map[string]int{"vic": http.StatusForbidden, "nobody": http.StatusForbidden,
			"stranger": http.StatusUnauthorized} {
			if a := s.as(user).post(path, form); a.status != want {
				t.Errorf("%s as %s has status %d", path, user, a.status)
			}
		}
		foreign := http.Header{"Origin": {"https://evil.example"}, "Sec-Fetch-Site": {"cross-site"}}
		if a := s.as("ann").post(path, form, foreign); a.status != http.StatusForbidden {
			t.Errorf("%s of another site has status %d", path, a.status)
		}
		jobs := strings.Replace(path, "/t/outbox", "/t/jobs", 1)
		if a := s.as("outboxer").post(jobs, form); a.status != http.StatusNotFound {
			t.Errorf("%s of another table has status %d", path, a.status)
		}
		if a := s.as("ann").get(path); a.status == http.StatusOK && !strings.Contains(path, "/failed/") {
			t.Errorf("GET %s has status %d", path, a.status)
		}
	}
	s.is(before, state)
	s.is("", audited)
}

// Without Config.Actions there is nothing to call, and no button.
func TestADashboardWithoutActions(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting)
	s.letters(3, "mail")
	all := s.attempts()
	quiet := serve(t, s.db, func(c *webui.Config) { acting(c); c.Actions = false }).as("ann")
	for path, form := range all {
		if a := quiet.post(path, form); a.status != http.StatusMethodNotAllowed {
			t.Errorf("%s has status %d", path, a.status)
		}
	}
	quiet.lacks("/t/outbox/failed", "that match the filter", "in this state:")
	quiet.shows("/t/outbox/failed/redrive", http.StatusNotFound)
	s.is("", audited)
	_, err := webui.New(webui.Config{Pool: s.db.Pool, Insecure: true, Actions: true})
	if err == nil || !strings.Contains(err.Error(), "Actions") {
		t.Errorf("actions without authentication: %v", err)
	}
}

// Neither an action without its row of the audit, nor a row without its action.
func TestAnActionAndItsAuditAreOne(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting).as("ann")
	s.letters(3, "mail")
	const state = "SELECT string_agg(status::text, '') FROM {schema}.outbox"
	id := s.id("SELECT id FROM {schema}.outbox LIMIT 1")
	s.exec(`ALTER TABLE {schema}.outbox ADD CONSTRAINT no CHECK (status = 3)`)
	if a := s.post("/t/outbox/row/"+id+"/redrive", nil); a.status < 500 {
		t.Errorf("status %d", a.status)
	}
	form := s.confirm("/t/outbox/failed/redrive")
	s.post("/t/outbox/failed/redrive", form)
	if body := s.ended(form.Get("action")); !strings.Contains(body, "Stopped.") ||
		!strings.Contains(body, "violates check constraint") {
		t.Errorf("the page does not say why:\n%s", content(body))
	}
	s.is("ann begun redrive outbox 0, ann stopped redrive outbox 0", audited)
	s.exec(`ALTER TABLE {schema}.outbox DROP CONSTRAINT no`)
	s.exec(`ALTER TABLE {schema}.audit RENAME TO audit_gone`)
	for _, path := range []string{"/t/outbox/row/" + id + "/redrive", "/t/outbox/failed/redrive"} {
		form.Set("action", uuid.NewString())
		a := s.post(path, form)
		if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "Nothing was changed") ||
			!strings.Contains(a.body, "migrate") {
			t.Errorf("%s has status %d:\n%s", path, a.status, content(a.body))
		}
	}
	s.is("333", state)
}

// Two operators redrive the same rows at once: each row is redriven once.
func TestTwoOperatorsActAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting)
	s.letters(3000, "mail")
	forms := map[string]url.Values{}
	for _, user := range []string{"ann", "bob"} {
		forms[user] = s.as(user).confirm("/t/outbox/failed/redrive")
	}
	var all sync.WaitGroup
	for user, form := range forms {
		all.Go(func() { s.as(user).post("/t/outbox/failed/redrive", form) })
	}
	all.Wait()
	for user, form := range forms {
		s.as(user).ended(form.Get("action"))
	}
	s.is("3000 0", `SELECT concat_ws(' ', (SELECT sum(rows) FROM {schema}.audit),
		(SELECT count(*) FROM {schema}.outbox WHERE status <> 0))`)
}

// Forms that nobody filled in are refused, and change nothing.
func TestFormsThatNobodyFilledIn(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting).as("ann")
	s.letters(3, "mail")
	form := s.confirm("/t/outbox/failed/redrive")
	id := s.id("SELECT id FROM {schema}.outbox LIMIT 1")
	order := func(text string) url.Values { return url.Values{"action": {uuid.NewString()}, "order": {text}} }
	for name, c := range map[string]struct {
		path string
		form url.Values
		want int
	}{
		"no order":      {"/t/outbox/failed/redrive", nil, 400},
		"no id":         {"/t/outbox/failed/redrive", url.Values{"order": form["order"]}, 400},
		"no time":       {"/t/outbox/failed/redrive", order(`{"states": ["failed"]}`), 400},
		"another state": {"/t/outbox/failed/redrive", order(`{"states": ["ready"], "before": "2040-01-01T00:00:00Z"}`), 400},
		"no state":      {"/t/outbox/failed/redrive", order(`{"states": ["x"], "before": "2040-01-01T00:00:00Z"}`), 400},
		"another verb":  {"/t/outbox/failed/drop", form, 404},
		"another column": {"/t/outbox/failed/redrive",
			order(`{"states": ["failed"], "filter": {"kind": "x"}, "before": "2020-01-01T00:00:00Z"}`), 303},
		"a time to come":  {"/t/outbox/failed/redrive", order(`{"states": ["failed"], "before": "2040-01-01T00:00:00Z"}`), 400},
		"a long form":     {"/t/outbox/failed/redrive", order(strings.Repeat("x", 100_000)), 400},
		"no time to move": {"/t/outbox/row/" + id + "/reschedule", url.Values{"at": {"soon"}}, 400},
		"no row":          {"/t/outbox/row/" + uuid.NewString() + "/redrive", nil, 409},
		"no such action":  {"/audit/" + uuid.NewString() + "/resume", nil, 404},
	} {
		if a := s.post(c.path, c.form); a.status != c.want {
			t.Errorf("%s has status %d, want %d:\n%s", name, a.status, c.want, content(a.body))
		}
	}
	s.is("333", "SELECT string_agg(status::text, '') FROM {schema}.outbox")
}

// Of a table that shows a part only, no filter is carried out.
func TestActionsOnAPartialTable(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting)
	s.letters(3, "mail")
	form := s.as("ann").confirm("/t/outbox/failed/redrive")
	id := s.id("SELECT id FROM {schema}.outbox LIMIT 1")
	s.exec(`ALTER TABLE {schema}.outbox ENABLE ROW LEVEL SECURITY`)
	s.exec(`CREATE POLICY all_of_them ON {schema}.outbox USING (true)`)
	part := s.asOperator().as("ann")
	part.lacks("/t/outbox/failed", "that match the filter", "in this state:")
	for _, a := range []answer{part.get("/t/outbox/failed/redrive"), part.post("/t/outbox/failed/redrive", form)} {
		if a.status != http.StatusConflict {
			t.Errorf("status %d", a.status)
		}
	}
	s.is("", audited)
	if a := part.post("/t/outbox/row/"+id+"/redrive", nil); a.status != http.StatusSeeOther {
		t.Errorf("one row: status %d:\n%s", a.status, content(a.body))
	}
	s.is("ann done redrive outbox 1", audited)
	s.exec(`REVOKE INSERT (who) ON {schema}.audit FROM ` + s.operator())
	if a := part.post("/t/outbox/row/"+id+"/cancel", nil); a.status != http.StatusServiceUnavailable ||
		!strings.Contains(a.body, "again: the schema has something that role "+s.operator()) {
		t.Errorf("without the right to write the audit: status %d:\n%s", a.status, content(a.body))
	}
	s.is("0", "SELECT status::text FROM {schema}.outbox WHERE id = $1", id)
}

// operator is the name of the role of operators.
func (s *site) operator() string { return strings.ReplaceAll(s.db.Schema, "test", "p") + "_operator" }

// asOperator serves the schema as the role of operators.
func (s *site) asOperator() *site {
	s.Helper()
	pool := s.roles()("operator")
	return serve(s.T, s.db, acting, func(c *webui.Config) { c.Pool = pool })
}

// roles makes the roles of `txwork roles`, and returns what opens a pool of one.
func (s *site) roles() (pool func(kind string) *pgxpool.Pool) {
	s.Helper()
	name := strings.TrimSuffix(s.operator(), "_operator")
	text, err := migrations.Roles(migrations.RoleOptions{Schema: s.db.Schema, Prefix: name})
	must(s, err)
	s.Cleanup(func() { dropRoles(s, name) })
	s.db.Define(s.T, text)
	return func(kind string) *pgxpool.Pool {
		return pgtest.NewPool(s.T, s.db, pgtest.WithPool(func(c *pgxpool.Config) {
			c.ConnConfig.User = name + "_" + kind
		}))
	}
}

// Pages are read by a role that may change nothing, while forms are carried out by another.
func TestActionsHaveAPoolOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting)
	s.letters(3, "mail")
	pool := s.roles()
	viewer, operator := pool("viewer"), pool("operator")
	both := serve(t, s.db, acting, func(c *webui.Config) { c.Pool, c.ActionPool = viewer, operator }).as("ann")
	form := both.confirm("/t/outbox/failed/redrive")
	if a := both.post("/t/outbox/failed/redrive", form); a.status != http.StatusSeeOther {
		t.Fatalf("a filter: status %d:\n%s", a.status, content(a.body))
	}
	if body := both.ended(form.Get("action")); !strings.Contains(body, "3 of 3 rows") {
		t.Errorf("the action says:\n%s", content(body))
	}
	id := s.id("SELECT id FROM {schema}.outbox LIMIT 1")
	if a := both.post("/t/outbox/row/"+id+"/cancel", nil); a.status != http.StatusSeeOther {
		t.Errorf("a row: status %d:\n%s", a.status, content(a.body))
	}
	for _, path := range []string{"/t/outbox/cancelled", "/t/outbox/row/" + id, "/audit"} {
		both.shows(path, http.StatusOK)
	}
	wrong := serve(t, s.db, acting, func(c *webui.Config) { c.Pool, c.ActionPool = operator, viewer }).as("ann")
	wrong.shows("/t/outbox/cancelled", http.StatusOK)
	if a := wrong.post("/t/outbox/row/"+id+"/redrive", nil); a.status != http.StatusServiceUnavailable ||
		!strings.Contains(a.body, "GRANT txwork_operator") {
		t.Errorf("the wrong way round: status %d:\n%s", a.status, content(a.body))
	}
	_, err := webui.New(webui.Config{Pool: viewer, ActionPool: operator, Insecure: true})
	if err == nil || !strings.Contains(err.Error(), "ActionPool") {
		t.Errorf("a pool of actions without actions: %v", err)
	}
}
