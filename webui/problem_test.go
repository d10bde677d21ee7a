package webui_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/webui"
)

// everyPage are addresses of all kinds of pages.
var everyPage = []string{"/", "/queues", "/schedules", "/dead", "/keys", "/joins", "/inbox", "/maintenance",
	"/processes", "/find?q=01976f3c-6f5e-7c3a-9d1b-5a0c2f4e8b17",
	"/t/jobs/ready",
	"/t/jobs/failed?error=x", "/t/jobs/row/01976f3c-6f5e-7c3a-9d1b-5a0c2f4e8b17"}

// noRow is the id of nothing.
const noRow = "01976f3c-6f5e-7c3a-9d1b-5a0c2f4e8b17"

func TestASchemaWithoutMigrations(t *testing.T) {
	t.Parallel()
	s := serve(t, pgtest.New(t))
	more := []string{"/audit", "/history", "/alarms", "/logs", "/joins/jobs/" + noRow}
	for _, path := range slices.Concat(everyPage, more) {
		s.shows(path, http.StatusServiceUnavailable, "The schema has no tables", "migrate up --schema "+s.db.Schema)
	}
}

func TestAddressesThatAreWrong(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill()
	cursor := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for path, want := range map[string]string{
		"/t/none/ready":  "There is no such table",
		"/t/jobs/asleep": "There is no such state",
		"/t/jobs/row/17": "This is no id",
		"/nowhere":       "There is no such page",
		"/t/jobs/row/01976f3c-6f5e-7c3a-9d1b-5a0c2f4e8b17": "The row is not there",
	} {
		s.shows(path, http.StatusNotFound, want, "What to do:")
	}
	for _, query := range []string{"after=made-up", "after=%ff", "after=" + cursor("ready"),
		"after=" + cursor("failed [\"x\",\"y\"]"), "after=" + cursor("ready [\"a\",\"b\",\"c\",\"d\"]"),
		"after=" + cursor("ready [null,null,null,null]"), "after=" + cursor("ready [\"mail\",\"2\",\"now\",\"\\u0000\"]"),
		"after=" + cursor(`ready ["mail","99999999999","now","x"]`),
		"topic=x", "priority=high", "priority=0", "priority=99999", "limit=0", "limit=-1", "limit=1000000", "limit=x",
		"newer=soon", "older=1h&newer=30m", "older=-1h",
		"kind=%00", "kind=%ff", "error=%00", "key=%fe"} {
		a := s.get("/t/jobs/ready?" + query)
		if a.status != http.StatusBadRequest || !strings.Contains(a.body, "What to do:") {
			t.Errorf("%s has status %d:\n%s", query, a.status, a.body)
		}
		if strings.Contains(a.body, "SQLSTATE") {
			t.Errorf("%s shows an error of the database:\n%s", query, a.body)
		}
	}
	for _, query := range []string{"nothing=x", "kind=" + url.QueryEscape("'; DROP TABLE jobs; --"),
		"key=" + strings.Repeat("x", 5000), "error=%25%25", "newer=3650d", "%zz=1"} {
		s.shows("/t/jobs/ready?"+query, http.StatusOK)
	}
}

func TestATableOfAnotherVersion(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, version := range []string{"999", "0"} { // newer, older
		s.exec("COMMENT ON TABLE {schema}.outbox IS 'txwork core " + version + "'")
		s.shows("/t/outbox/ready", http.StatusServiceUnavailable, "The table does not fit this version", "What to do:")
		s.shows("/t/outbox/row/"+noRow, http.StatusServiceUnavailable, "The table does not fit this version")
	}
	s.exec("DROP TABLE {schema}.audit_keep") // as it was before
	s.shows("/audit", http.StatusServiceUnavailable, "The schema does not fit this version", "migrate validate")
	s.shows("/t/jobs/ready", http.StatusOK)
	s.read().shows("/", http.StatusOK, "outbox")
}

// A role that lacks a right is told what to run, and a viewer has all that the pages need.
func TestRightsOfTheRole(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill()
	name := strings.ReplaceAll(s.db.Schema, "test", "r")
	s.exec("CREATE ROLE " + name + "_reader LOGIN")
	s.exec("GRANT USAGE ON SCHEMA {schema} TO " + name + "_reader")
	t.Cleanup(func() { dropRoles(s, name) })
	pool := pgtest.NewPool(t, s.db, pgtest.WithPool(func(c *pgxpool.Config) { c.ConnConfig.User = name + "_reader" }))
	reader := serve(t, s.db, func(c *webui.Config) { c.Pool = pool })
	for _, path := range everyPage[9:] {
		reader.shows(path, http.StatusServiceUnavailable, "The dashboard lacks a right", "txwork roles",
			"GRANT txwork_viewer")
	}
	reader.read()
	for _, path := range everyPage[:8] {
		reader.shows(path, http.StatusOK, "lacks a right")
	}
	text, err := migrations.Roles(migrations.RoleOptions{Schema: s.db.Schema, Prefix: name})
	must(t, err)
	s.exec(text)
	own, err := migrations.Roles(migrations.RoleOptions{Schema: s.db.Schema, Prefix: name,
		Tables: []migrations.RoleTable{{Name: "postcards"}}})
	must(t, err)
	s.exec(own)
	s.exec("GRANT " + name + "_viewer TO " + name + "_reader")
	viewer := serve(t, s.db, func(c *webui.Config) { c.Pool = pool })
	viewer.read()
	for address, body := range viewer.crawl() {
		if strings.Contains(body, "lacks a right") {
			t.Errorf("%s lacks a right:\n%s", address, body)
		}
	}

	// A difference that it may not look for is not one that is not there.
	viewer.shows("/maintenance", http.StatusOK, "found no differences")
	s.exec("REVOKE SELECT ON {schema}.audit_id_seq FROM " + name + "_viewer")
	viewer = serve(t, s.db, func(c *webui.Config) { c.Pool = pool }).read()
	viewer.shows("/maintenance", http.StatusOK, "could not look for all differences", "audit_id_seq")
	viewer.lacks("/maintenance", "found no differences")
}

// Figures that lack a right say so, although they are read on the pool's only connection.
func TestRightsOfARoleWithOneConnection(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	name := strings.ReplaceAll(s.db.Schema, "test", "o")
	s.exec("CREATE ROLE " + name + "_reader LOGIN")
	t.Cleanup(func() { dropRoles(s, name) })
	s.exec("GRANT USAGE ON SCHEMA {schema} TO " + name + "_reader")
	pool := pgtest.NewPool(t, s.db, pgtest.WithPool(func(c *pgxpool.Config) {
		c.ConnConfig.User, c.MaxConns, c.MinConns = name+"_reader", 1, 0
	}))
	reader := serve(t, s.db, func(c *webui.Config) { c.Pool, c.Refresh = pool, time.Hour })
	reader.read().shows("/", http.StatusOK, "outbox was not read in full", "lacks a right")
	reader.lacks("/", "took too long")
	reader.shows("/t/outbox/ready", http.StatusServiceUnavailable, "GRANT txwork_viewer")
}

// dropRoles removes the roles of a test, which belong to the whole server.
func dropRoles(s *site, prefix string) {
	for _, role := range []string{"reader", "operator", "viewer", "worker", "producer", "migrator", "owner"} {
		for _, statement := range []string{"DROP OWNED BY " + prefix + "_" + role + " CASCADE",
			"DROP ROLE " + prefix + "_" + role} {
			if _, err := s.db.Pool.Exec(s.T.Context(), statement); err != nil && s.T.Context().Err() == nil {
				s.Log(err)
			}
		}
	}
}

func TestRowsThatSecurityHides(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill()
	name := strings.ReplaceAll(s.db.Schema, "test", "p")
	s.exec("CREATE ROLE " + name + "_reader LOGIN")
	t.Cleanup(func() { dropRoles(s, name) })
	s.exec("GRANT USAGE ON SCHEMA {schema} TO " + name + "_reader")
	s.exec("GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO " + name + "_reader")
	id := s.id("SELECT id FROM {schema}.outbox")
	s.exec("ALTER TABLE {schema}.outbox ENABLE ROW LEVEL SECURITY")
	s.exec("CREATE POLICY none ON {schema}.outbox USING (topic = 'mine')")
	pool := pgtest.NewPool(t, s.db, pgtest.WithPool(func(c *pgxpool.Config) { c.ConnConfig.User = name + "_reader" }))
	reader := serve(t, s.db, func(c *webui.Config) { c.Pool = pool })
	reader.read()
	for _, path := range []string{"/", "/dead", "/queues", "/t/outbox/ready"} {
		reader.shows(path, http.StatusOK, "<strong>Partial.</strong>", "outbox")
	}
	reader.lacks("/t/jobs/ready", "<strong>Partial.</strong>")
	reader.shows("/t/outbox/row/"+id, http.StatusNotFound, "The row is not there, or hidden")
}

// A table that is locked costs its page, and the overview only what is read of it.
func TestATableThatIsLocked(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill()
	other := serve(t, s.db, func(c *webui.Config) { c.StatementTimeout = 3 * time.Second })
	tx, err := s.db.Pool.Begin(t.Context())
	must(t, err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), "LOCK TABLE "+s.db.Schema+".outbox IN ACCESS EXCLUSIVE MODE")
	must(t, err)
	other.shows("/t/outbox/ready", http.StatusGatewayTimeout, "This took too long", "What to do:")
	other.read().shows("/", http.StatusOK, "outbox was not read in full", "A table is locked")
}

func TestADatabaseThatCannotBeReached(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig("postgres://nobody:secret@127.0.0.1:1/none?connect_timeout=2")
	must(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	s := serve(t, &pgtest.DB{Pool: pool, Schema: "txwork"})
	for _, path := range everyPage {
		s.shows(path, http.StatusServiceUnavailable, "The database cannot be reached")
		s.lacks(path, "127.0.0.1", "nobody", "secret")
	}
}

// What nobody would send is a page that says what is wrong, on every page with a position or an id, and costs no error
// that has no explanation.
func TestPositionsAndIDsThatWereMadeUp(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting).as("ann")
	s.fill()
	for path, want := range map[string]int{
		"/audit?after=x": 400, "/audit?after=-1": 400, "/audit?after=99999999999999999999": 400, "/audit?after=1": 200,
		"/audit?newer=soon": 400, "/audit?who=%00": 400, "/audit?who=%ff": 400,
		"/audit/17": 404, "/audit/" + noRow: 404,
		"/joins?table=jobs&after=x": 400, "/joins?table=jobs&status=none": 400, "/joins?label=%00": 200,
		"/joins/jobs/17": 404, "/joins/jobs/" + noRow: 404, "/joins/none/" + noRow: 404,
		"/schedules?hours=5": 400, "/schedules?hours=x": 400, "/schedules?zone=%00": 400, "/schedules?after=%00": 200,
		"/keys?table=jobs&after=%ff": 200, "/inbox?table=inbox&consumer=%00": 200, "/history?range=century": 200,
		"/keys?table=none": 404, "/joins?table=none": 404, "/inbox?table=none": 404, "/schedules?table=none": 404,
		"/history?table=none": 404, "/t/none/row/" + noRow: 404, "/t/jobs/row/" + noRow + "x": 404,
		"/t/jobs/failed/redrive?error=%00": 400, "/t/jobs/none/redrive": 404, "/t/jobs/done/redrive": 404,
		"/t/none/failed/redrive": 404, "/find?q=%00": 200, "/find?q=": 200,
	} {
		a := s.get(path)
		if a.status != want || want >= 400 && !strings.Contains(a.body, "What to do:") {
			t.Errorf("%s has status %d, want %d:\n%s", path, a.status, want, content(a.body))
		}
		if strings.Contains(a.body, "SQLSTATE") || strings.Contains(a.body, "in the log of the program") {
			t.Errorf("%s has no explanation:\n%s", path, content(a.body))
		}
	}
	s.is("", audited)
}

// A user of some tables sees what was done to these only.
func TestTheAuditOfAUserOfSomeTables(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting)
	s.fill()
	s.letters(1, "secret")
	s.as("ann").post("/t/outbox/row/"+s.id("SELECT id FROM {schema}.outbox WHERE status = 3")+"/redrive", nil)
	s.as("ann").post("/queues/pause", url.Values{"queue": {"hidden"}})
	s.as("outboxer").shows("/audit", http.StatusOK, "redrive")
	s.as("outboxer").lacks("/audit", "hidden", "pause")
	s.as("planner").shows("/audit", http.StatusOK, "Nobody has changed anything", "90 days")
	action := s.id("SELECT action FROM {schema}.audit WHERE target = 'jobs'")
	s.as("outboxer").shows("/audit/"+action, http.StatusNotFound, "There is no such action")
	s.exec("INSERT INTO {schema}.audit_keep (max_age) VALUES ('400 days')")
	s.exec("UPDATE {schema}.audit SET at = now() - interval '399 days'")
	s.as("ann").post("/queues/pause", url.Values{"queue": {"more"}})
	s.is("3", "SELECT count(*)::text FROM {schema}.audit")
	s.as("ann").shows("/audit", http.StatusOK, "kept for 400 days")
	s.exec("UPDATE {schema}.audit_keep SET max_age = '300 days'")
	s.as("ann").post("/queues/pause", url.Values{"queue": {"more"}})
	s.is("2", "SELECT count(*)::text FROM {schema}.audit")
}
