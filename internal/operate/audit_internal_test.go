package operate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

// audited is a schema with the tables of the migrations.
func audited(t *testing.T) (*DB, *pgtest.DB) {
	t.Helper()
	db := pgtest.New(t)
	text, err := migrations.SQL(migrations.FileOptions{Schema: db.Schema})
	must(t, err)
	db.Define(t, text)
	return &DB{Pool: db.Pool, Schema: db.Schema, Actor: Actor{"ann", "here"}}, db
}

func nothing(workqueue.Tx) (int, error) { return 0, nil }

// Whatever programs say of themselves, the audit takes it, in parts if it is long.
func TestTheAuditTakesAnyText(t *testing.T) {
	t.Parallel()
	d, _ := audited(t)
	for _, text := range []string{"", "\x00\xff", strings.Repeat("é", 300), "'; DROP TABLE jobs --", "a\u202eb"} {
		d.Actor = Actor{text, text}
		must(t, d.Act(t.Context(), Act{"redrive", "jobs", map[string]string{"key": text}}, nothing))
	}
	p, err := d.Audit(t.Context(), AuditFilter{}, 0, 10)
	must(t, err)
	if len(p.Rows) != 5 || p.Rows[4].Who != "unknown" || p.Rows[3].Who != "\uFFFD\uFFFD" ||
		p.Rows[2].Who != strings.Repeat("é", 127) {
		t.Errorf("%+v", p.Rows)
	}
	err = d.Act(t.Context(), Act{"redrive", "jobs", strings.Repeat("x", 70_000)}, nothing)
	if err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("a long text: %v", err)
	}
}

// Rows that are older than 90 days go as others come, without maintenance.
func TestTheAuditIsBounded(t *testing.T) {
	t.Parallel()
	d, _ := audited(t)
	_, err := d.Pool.Exec(t.Context(), `INSERT INTO `+d.audit()+` (at, who, origin, action, event, verb, target, about, rows)
		SELECT now() - CASE WHEN i < 250 THEN interval '91 days' ELSE interval '89 days' END, 'w', '', gen_random_uuid(), 'done',
			'v', 't', '{}', 1 FROM generate_series(1, 260) AS i`)
	must(t, err)
	for range 3 {
		must(t, d.Act(t.Context(), Act{"v", "t", nil}, nothing))
	}
	var n, old int
	must(t, d.Pool.QueryRow(t.Context(), "SELECT count(*), count(*) FILTER (WHERE at < now() - interval '90 days') FROM "+
		d.audit()).Scan(&n, &old))
	if n != 14 || old != 0 {
		t.Errorf("%d rows, of which %d are old", n, old)
	}
}

// A page ends after a bounded number of rows, and goes on from there.
func TestTheAuditIsSearchedInParts(t *testing.T) {
	t.Parallel()
	d, _ := audited(t)
	_, err := d.Pool.Exec(t.Context(), `INSERT INTO `+d.audit()+` (at, who, origin, action, event, verb, target, about, rows)
		SELECT now() - interval '1 day' + i * interval '1 second', CASE WHEN i % 25000 < 2 THEN 'ann' ELSE 'bob' END, '', gen_random_uuid(),
			'done', 'v', CASE WHEN i % 2 = 0 THEN 'jobs' ELSE 'outbox' END, '{}', 1 FROM generate_series(0, 50000) AS i`)
	must(t, err)
	var found, pages int
	for before := int64(0); pages == 0 || before != 0; pages++ {
		p, err := d.Audit(t.Context(), AuditFilter{Who: "ann"}, before, 3)
		must(t, err)
		found, before = found+len(p.Rows), p.Next
	}
	if found != 5 || pages != 11 {
		t.Errorf("%d rows on %d pages", found, pages)
	}
	for _, c := range []struct {
		filter AuditFilter
		want   int
	}{{AuditFilter{Tables: []string{"jobs"}, Who: "bob"}, 3}, {AuditFilter{Tables: []string{}}, 0},
		{AuditFilter{Table: "none"}, 0}, {AuditFilter{Since: time.Now().Add(time.Hour)}, 0},
		{AuditFilter{Action: uuid.New()}, 0}, {AuditFilter{Verb: "v"}, 3}} {
		p, err := d.Audit(t.Context(), c.filter, 0, 3)
		must(t, err)
		if len(p.Rows) != c.want {
			t.Errorf("%+v: %d rows", c.filter, len(p.Rows))
		}
	}
}

// A small table without an index, such as that of how long the audit is kept, is read without compiling the statement,
// which takes longer than all else of a page.
func TestReadsAreNotCompiled(t *testing.T) {
	t.Parallel()
	d, db := audited(t)
	config := db.Pool.Config()
	config.ConnConfig.RuntimeParams["jit"] = "on"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	d.Pool = pool
	var compiles string
	must(t, d.Read(t.Context(), func(tx pgx.Tx) error { return tx.QueryRow(t.Context(), "SHOW jit").Scan(&compiles) }))
	if compiles != "off" {
		t.Errorf("jit is %s", compiles)
	}
}

// What a filter selects is fixed when it is counted: neither rows that come later nor ages that go on change it.
func TestAnOrderIsWhatWasCounted(t *testing.T) {
	t.Parallel()
	d, db := audited(t)
	table, err := workqueue.Open(workqueue.Spec{Schema: d.Schema, Table: "outbox"}, workqueue.Telemetry{})
	must(t, err)
	insert := func(columns, values string) {
		t.Helper()
		_, err := db.Pool.Exec(t.Context(), "INSERT INTO "+pgx.Identifier{d.Schema, "outbox"}.Sanitize()+
			" (topic, payload, "+columns+") SELECT 't', '', "+values+" FROM generate_series(1, 3)")
		must(t, err)
	}
	const ended = "status, attempts, completed_at, failed_at"
	insert(ended, "3, 1, now(), now() - interval '59 minutes 58 seconds'")
	insert(ended, "3, 1, now(), now() - interval '2 hours'")
	insert("due_at", "now() + interval '2 seconds'")
	insert("due_at", "now()")
	now, err := d.Now(t.Context())
	must(t, err)
	orders := []Order{{States: []string{"failed"}, Filter: Filter{OlderThan: Age{true, time.Hour}}},
		{States: []string{"ready"}}, {States: []string{"scheduled"}}, {States: []string{"failed"}}}
	wants := []int{3, 3, 3, 6}
	counts := func(when string) {
		t.Helper()
		for i, o := range orders {
			o.Before = now
			n, err := d.Count(t.Context(), table, o.Selection(), func(int) {})
			must(t, err)
			if n != wants[i] {
				t.Errorf("%s, %v has %d rows, want %d", when, o.States, n, wants[i])
			}
		}
	}
	counts("at the count")
	insert(ended, "3, 1, now(), now()")
	insert("due_at", "now()")
	pgtest.Await(pgtest.Patience, func() bool {
		later, err := d.Now(t.Context())
		must(t, err)
		return later.Sub(now) > 3*time.Second
	})
	counts("later")
}

// Whoever carries an order out learns that somebody has stopped it.
func TestAnOrderThatIsStopped(t *testing.T) {
	t.Parallel()
	d, _ := audited(t)
	table, err := workqueue.Open(workqueue.Spec{Schema: d.Schema, Table: "outbox"}, workqueue.Telemetry{})
	must(t, err)
	_, err = d.Pool.Exec(t.Context(), "INSERT INTO "+table.Name()+" (topic, payload) VALUES ('t', '')")
	must(t, err)
	o := Order{Action: uuid.New(), Table: "outbox", Verb: "cancel", Args: []any{"why"}, States: []string{"ready"}}
	o.Before, err = d.Now(t.Context())
	must(t, err)
	must(t, d.BeginOrder(t.Context(), o))
	p, err := d.Progress(t.Context(), o.Action)
	must(t, err)
	must(t, d.Stop(t.Context(), p))
	if err := d.CarryOut(t.Context(), table, o, func(int) {}); !errors.Is(err, ErrStopped) {
		t.Errorf("the order ends with %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
