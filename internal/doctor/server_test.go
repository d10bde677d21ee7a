package doctor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/internal/localpg"
)

func TestATransactionThatHoldsBackVacuum(t *testing.T) {
	w := newWard(t)
	report := w.session("nightly report")
	w.says(report, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT FROM outbox LIMIT 1")
	pid := fmt.Sprintf("{pid %d}", report.PgConn().PID())
	w.goneNow("horizon-held", []string{pid})
	soon := thresholds(func(th *doctor.Thresholds) { th.Horizon = time.Millisecond })
	f := w.finds("horizon-held", []string{pid, "nightly report", "idle in transaction"}, soon)
	w.ends(f, []string{pid}, soon)
}

func TestAPreparedTransactionThatHoldsBackVacuum(t *testing.T) {
	w := newWard(t)
	name := "it's " + w.Schema
	conn := w.session("two phases")
	w.says(conn, "BEGIN", "CREATE TABLE held (id int)", "PREPARE TRANSACTION 'it''s "+w.Schema+"'")
	soon := thresholds(func(th *doctor.Thresholds) { th.Horizon = time.Millisecond })
	w.mends(w.finds("horizon-held", []string{name, "prepared_transaction"}, soon), []string{name}, soon)
}

func TestReplicationSlots(t *testing.T) {
	w := newWard(t)
	logical, physical := "l_"+w.Schema, "p_"+w.Schema
	w.exec("SELECT pg_create_logical_replication_slot('" + logical + "', 'pgoutput')")
	w.exec("SELECT pg_create_physical_replication_slot('" + physical + "', true)")
	for range 5 {
		w.exec("INSERT INTO outbox (topic, payload) VALUES ('a', '')")
	}
	w.goneNow("slot-behind", nil)
	w.goneNow("horizon-held", []string{logical})
	soon := thresholds(func(th *doctor.Thresholds) { th.SlotAge, th.SlotBytes = 1, 1 })
	// The doctor names the oldest holders only, and other tests have transactions open, also the next moment.
	var held *doctor.Finding
	w.becomes("older transactions have ended", func() bool {
		held = w.with("horizon-held", []string{logical}, soon)
		return held != nil
	})
	w.complete(*held)
	if said := fmt.Sprint(held.Title, held.Evidence, held.Remedy); !strings.Contains(said, "the system catalogs") {
		t.Errorf("the finding does not say what is held: %s", said)
	}
	w.mends(w.finds("slot-behind", []string{physical, "physical"}, soon), []string{physical}, soon)
	w.mends(w.finds("slot-behind", []string{logical}, soon), []string{logical}, soon)
	w.goneAfter(*held, bySQL, []string{logical}, soon) // its statement has just been run
}

func TestAutovacuumThatIsOffForATable(t *testing.T) {
	w := newWard(t)
	w.exec("ALTER TABLE jobs SET (autovacuum_enabled = off)")
	w.fixes(w.finds("autovacuum-off", []string{"jobs"}), nil)
}

func TestBloat(t *testing.T) {
	w := newWard(t)
	w.exec("ALTER TABLE outbox SET (autovacuum_enabled = off, autovacuum_vacuum_threshold = 10, " +
		"autovacuum_vacuum_scale_factor = 0)")
	w.enqueue(messages("a", 200)...)
	w.goneNow("bloat", nil)
	few := thresholds(func(th *doctor.Thresholds) { th.Dead = 150 })
	// The time is indexed. Row versions that no index refers to are pruned when a page is read, and the statistics then
	// change: doctor itself would remove the bloat by looking at it.
	w.exec("UPDATE outbox SET due_at = due_at - interval '1 second'; SELECT pg_stat_force_next_flush()")
	said := []string{"outbox: 200 dead rows, vacuumed never"}
	w.becomes("the statistics say so", func() bool { return w.with("bloat", said, few) != nil })
	f := w.finds("bloat", said, few)
	w.mends(f, nil, few)
}

func TestASessionThatHasTheAnnouncersLock(t *testing.T) {
	w := newWard(t)
	conn := w.session("pooler")
	w.says(conn, "SELECT pg_advisory_lock(hashtextextended('"+w.Schema+".jobs announcer', 0))")
	w.goneNow("stuck-announcer", nil)
	soon := thresholds(func(th *doctor.Thresholds) { th.Announcer = time.Millisecond })
	f := w.finds("stuck-announcer", []string{"jobs", fmt.Sprintf("{pid %d}", conn.PgConn().PID()), "pooler"}, soon)
	w.ends(f, nil, soon)
}

func TestWhoKeepsOthersWaiting(t *testing.T) {
	w := newWard(t)
	holder, waiter := w.session("migration by hand"), w.session("producer")
	w.says(holder, "BEGIN", "LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE")
	waited := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(w.Context(), "INSERT INTO outbox (topic, payload) VALUES ('a', '')")
		waited <- err
	}()
	soon := func(o *doctor.Options) { o.Thresholds.LockWait = time.Millisecond }
	var f *doctor.Finding
	w.becomes("somebody waits", func() bool {
		o := w.options()
		soon(&o)
		r, err := doctor.Examine(w.Context(), w.Pool, o)
		must(t, err)
		w.took = r.Took
		for _, found := range r.Findings {
			if found.Code == "lock-wait" {
				f = &found
			}
		}
		for _, s := range r.Skipped {
			if s.Table != "outbox" && s.Check != "schema" || s.Reason != "a table was locked for longer than 100ms" {
				t.Errorf("skipped %+v", s)
			}
		}
		return f != nil
	})
	w.complete(*f)
	said := fmt.Sprint(f.Evidence)
	for _, text := range []string{fmt.Sprintf("{holder_pid %d}", holder.PgConn().PID()), "migration by hand",
		fmt.Sprintf("{waiting_pid %d}", waiter.PgConn().PID()), "producer"} {
		if !strings.Contains(said, text) {
			t.Errorf("evidence %s, want %s in it", said, text)
		}
	}
	w.exec(f.Remedy.SQL[0])
	must(t, <-waited)
	w.goneAfter(*f, bySQL, nil, soon)
}

func TestNotificationsThatNobodyReads(t *testing.T) {
	w := newServerWard(t, localpg.Options{})
	listener := w.session("deaf")
	w.says(listener, "LISTEN x", "BEGIN", "SELECT 1")
	for range 40 {
		w.exec("SELECT pg_notify('x', repeat('a', 7000) || i) FROM generate_series(1, 10) AS s (i)")
	}
	w.goneNow("notify-queue", nil)
	soon := thresholds(func(th *doctor.Thresholds) { th.Notify = 1e-9 })
	f := w.finds("notify-queue", []string{fmt.Sprintf("{pid %d}", listener.PgConn().PID()), "deaf"}, soon)
	w.exec(f.Remedy.SQL[0])
	took := w.took
	w.becomes("the queue is read", func() bool {
		w.exec("SELECT pg_notify('x', '')") // makes the server discard what is no longer needed
		return w.with("notify-queue", nil, soon) == nil
	})
	w.took = took
	w.mended(f, bySQL)
}

// localpg's default server may lose its last transactions.
func TestSettingsOfTheServer(t *testing.T) {
	w := newServerWard(t, localpg.Options{Settings: map[string]string{"synchronous_commit": "off",
		"autovacuum": "off"}})
	mends := func(name string, f doctor.Finding) {
		w.ends(f, []string{name + " is off"})
	}
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		mends(name, w.finds("durability", []string{name + " is off"}))
	}
	database := ask[string](w, "SELECT current_database()")
	w.exec("ALTER DATABASE " + database + " SET synchronous_commit = off")
	w.mends(w.finds("durability", []string{"synchronous_commit is off for database " + database}), nil)
	w.exec("ALTER ROLE ALL SET synchronous_commit = off")
	w.mends(w.finds("durability", []string{"synchronous_commit is off for all roles"}), nil)
	mends("autovacuum", w.finds("autovacuum-off", []string{"autovacuum is off"}))
	if f := w.examine().Findings; len(f) > 0 {
		t.Errorf("findings are left: %+v", f)
	}
}

func TestDurabilityOfARole(t *testing.T) {
	w := newWard(t)
	role, _ := w.as()
	w.exec("ALTER ROLE " + role + " SET synchronous_commit = off")
	database := ask[string](w, "SELECT current_database()")
	w.mends(w.finds("durability", []string{"synchronous_commit", role}), []string{role})
	w.exec("ALTER ROLE " + role + " IN DATABASE " + database + " SET synchronous_commit = off")
	w.mends(w.finds("durability", []string{role, database}), []string{role})
}

// Settings with which workers and commands refuse their sessions are found wherever they are stored.
func TestSettingsThatSessionsAreRefusedWith(t *testing.T) {
	w := newServerWard(t, localpg.Options{Settings: map[string]string{"fsync": "on", "full_page_writes": "on",
		"synchronous_commit": "on"}})
	w.goneNow("session-settings", nil)
	w.exec(`CREATE SCHEMA "a, b"`)
	w.exec(`CREATE ROLE "Odd ""name" LOGIN; GRANT USAGE ON SCHEMA ` + w.Schema + ` TO "Odd ""name"`)
	database := ask[string](w, "SELECT quote_ident(current_database())")
	for of, in := range map[string]string{
		`ROLE "Odd ""name"`:                         `for role Odd "name`,
		`ROLE "Odd ""name" IN DATABASE ` + database: `for role Odd "name in database`,
		"DATABASE " + database:                      "for database",
		"ROLE ALL":                                  "for all roles",
		"SYSTEM":                                    "on the server",
	} {
		for setting, says := range map[string]string{
			`search_path = public, "a, b", "$user", pg_catalog`: "search_path is ",
			"session_replication_role = replica":                "session_replication_role is replica",
		} {
			if of == "SYSTEM" && says == "search_path is " {
				continue // the command line refuses its own session
			}
			w.exec("ALTER " + of + " SET " + setting)
			if of == "SYSTEM" {
				w.exec("SELECT pg_reload_conf()")
				w.becomes("a finding", func() bool { return w.with("session-settings", nil) != nil })
			}
			f := w.finds("session-settings", []string{says, in})
			w.ends(f, nil)
			w.exec("ALTER " + of + " RESET ALL")
		}
	}
}

func TestLimitsOfConnections(t *testing.T) {
	w := newWard(t)
	role, pool := w.as()
	w.exec("ALTER ROLE " + role + " CONNECTION LIMIT 2")
	for range 2 {
		conn, err := pool.Acquire(t.Context())
		must(t, err)
		defer conn.Release()
	}
	f := w.finds("connections", []string{role, "2 of at most 2"})
	w.mends(f, []string{role})
	if want := `ALTER ROLE "` + role + `" CONNECTION LIMIT 4;`; f.Remedy.SQL[0] != want {
		t.Errorf("remedy %+v", f.Remedy)
	}
}

func TestLimitsOfConnectionsOfADatabaseAndAServer(t *testing.T) {
	w := newServerWard(t, localpg.Options{Settings: map[string]string{"max_connections": "20",
		"fsync": "on", "full_page_writes": "on"}})
	database := ask[string](w, "SELECT current_database()")
	w.exec("ALTER DATABASE " + database + " CONNECTION LIMIT 8")
	for range 8 {
		w.session("worker")
	}
	w.mends(w.finds("connections", []string{database, "of at most 8"}), []string{"of at most 8"})
	for range 8 {
		w.session("worker")
	}
	f := w.finds("connections", []string{"of the server are in use", "max_connections = 34"})
	for _, statement := range f.Remedy.SQL {
		w.exec(statement)
	}
	must(t, errors.Join(w.server.Crash(), w.server.Restart(t.Context()))) // as the remedy says
	w.Pool.Reset()
	w.session("worker")
	w.goneAfter(f, bySQL, []string{"of the server"})
	if most := ask[string](w, "SHOW max_connections"); most != "34" {
		t.Errorf("max_connections is %s", most)
	}
}

func TestClocksThatDiffer(t *testing.T) {
	w := newWard(t)
	w.goneNow("clock-skew", nil)
	f := w.finds("clock-skew", []string{"10m0s ahead of"}, func(o *doctor.Options) {
		o.Now = func() time.Time { return time.Now().Add(10 * time.Minute) }
	})
	w.goneAfter(f, byWord, nil)
	w.finds("clock-skew", []string{"behind"}, func(o *doctor.Options) {
		o.Now = func() time.Time { return time.Now().Add(-10 * time.Minute) }
	})
}
