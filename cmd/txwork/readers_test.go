package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/internal/exporter"
	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
)

// What watches a schema with all tables of this project sends in a minute, in statements as pg_stat_statements counts
// them, also those that begin and end transactions. Before readers shared transactions: 11,250, 7,812 and 1,500.
const (
	topStatements    = 1400 // a frame every 2 s; measured: 1,140
	doctorStatements = 1000 // an examination every 10 s; measured: 816
	scrapeStatements = 200  // every 15 s; measured: 152
)

func TestStatementsOfReaders(t *testing.T) {
	t.Parallel()
	server, err := localpg.Start(t.Context(), localpg.Options{Settings: map[string]string{
		"shared_preload_libraries": "pg_stat_statements"}})
	must(t, err)
	t.Cleanup(func() { server.Stop() })
	c := newShopOn(t, server)
	c.exec("CREATE EXTENSION pg_stat_statements")
	mail := outbox.Message{Topic: "mail", Payload: []byte("{}")}
	c.enqueue(mail, mail)
	c.fail("no such address", c.enqueue(mail)...)
	minute := func(name string, times, most int64, read func()) {
		t.Helper()
		read() // the first prepares statements
		c.exec("SELECT pg_stat_statements_reset()")
		read()
		n := value[int64](c, `SELECT sum(calls)::bigint FROM pg_stat_statements
			WHERE query NOT LIKE '%pg_stat_statements%' AND query NOT LIKE 'DEALLOCATE%'`)
		t.Logf("%s: %d statements, %d a minute", name, n, n*times)
		if n*times > most {
			t.Errorf("%s sends %d statements a minute, want at most %d", name, n*times, most)
		}
	}
	c.withSteps(func(s steps) {
		minute("top", 30, topStatements, func() {
			_, err := s.reader.read(t.Context())
			must(t, err)
		})
	})
	minute("doctor", 6, doctorStatements, func() {
		r, err := doctor.Examine(t.Context(), c.db.Pool, doctor.Options{Schema: c.db.Schema})
		must(t, err)
		if !r.Complete() {
			t.Errorf("skipped %+v", r.Skipped)
		}
	})
	e, err := exporter.New(c.db.Pool, reaper.GaugeOptions{Schema: c.db.Schema, Freshness: 1})
	must(t, err)
	defer e.Close()
	minute("a scrape", 4, scrapeStatements, func() {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
		if w.Code != 200 {
			t.Error(w.Body)
		}
	})
}

// The server compiles none of the statements that read rows: compiling takes 100 ms where estimates are high, as they
// are for large tables. This server would compile all. Statements that read the catalog alone are left out: their
// estimates stay low.
func TestReadsAreNotCompiled(t *testing.T) {
	t.Parallel()
	server, err := localpg.Start(t.Context(), localpg.Options{Settings: map[string]string{
		"shared_preload_libraries": "pg_stat_statements", "jit": "on", "jit_above_cost": "1"}})
	must(t, err)
	t.Cleanup(func() { server.Stop() })
	c := newShopOn(t, server)
	c.exec("CREATE EXTENSION pg_stat_statements")
	if !value[bool](c, "SELECT pg_jit_available()") {
		t.Skip("this server does not compile")
	}
	c.populate()
	id := c.enqueue(outbox.Message{Topic: "t", Key: "k"})[0].String()
	for _, command := range []string{"stats", "stats --since 7d", "doctor --fail-on never", "top --once",
		"keys outbox", "joins jobs", "jobs list", "jobs queues", "timers list", "outbox topics", "inbox topics",
		"schedules list", "audit", "list outbox --status ready", "list outbox --status done", "show outbox " + id,
		"redrive outbox --all-failed --dry-run", "purge outbox --failed-older-than 1h --dry-run", "migrate status",
		"migrate validate"} {
		c.exec("SELECT pg_stat_statements_reset()")
		c.run(strings.Fields(command)...).ok()
		compiled := value[[]string](c, `SELECT ARRAY(SELECT query FROM pg_stat_statements
			WHERE jit_functions > 0 AND query NOT LIKE '%pg_class%')`)
		if len(compiled) > 0 {
			t.Errorf("txwork %s: the server compiled %q", command, compiled)
		}
	}
}
