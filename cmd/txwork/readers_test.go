package main

import (
	"net/http/httptest"
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
	doctorStatements = 1200 // an examination every 10 s; measured: 966
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
