//go:build unix

package backup

import (
	"testing"
	"time"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/outbox"
)

// begin starts OLD with a busy application.
func (r *recipe) begin(settings map[string]string) {
	r.Helper()
	r.served = r.server("OLD", settings)
	r.application = open(r.T, r.served.URL())
	r.application.install()
	r.application.start()
	r.application.produce()
	r.application.busy()
	r.application.until("a key is blocked", "SELECT count(*) = 1 FROM txwork.outbox WHERE concurrency_key = 'dead' AND "+
		"status = 3")
}

// goOn opens the application on the copy and proves that it continues.
func (r *recipe) goOn() {
	r.Helper()
	r.application.stop()
	copied := open(r.T, r.variables["NEW"])
	copied.old = r.application
	copied.prove()
}

func TestDumpAndRestore(t *testing.T) {
	t.Parallel()
	r := newRecipe(t)
	r.begin(nil)
	r.run("dump")
	r.server("NEW", nil)
	r.run("restore")
	r.goOn()
}

func TestDataOnly(t *testing.T) {
	t.Parallel()
	r := newRecipe(t)
	r.begin(nil)
	r.server("NEW", nil)
	r.run("schema")
	r.run("data")
	r.goOn()
}

// Triggers are disabled during the restore, and the notes that they would have written are missing too.
func TestDataWithoutTriggersAndNotes(t *testing.T) {
	t.Parallel()
	r := newRecipe(t)
	r.begin(nil)
	r.server("NEW", nil)
	r.run("schema")
	r.run("data", "pg_dump --data-only", "pg_dump --data-only --exclude-table='txwork.*_note'",
		"pg_restore --data-only", "pg_restore --data-only --disable-triggers")
	r.aMinuteLater()
	r.goOn()
}

func TestDataIntoAMigratedSchema(t *testing.T) {
	t.Parallel()
	r := newRecipe(t)
	r.begin(nil)
	r.server("NEW", nil)
	r.application.stop() // the table of orders is not in the dump
	r.run("migrated")
	r.copyOrders()
	r.goOn()
}

func TestRowsThatAreCopied(t *testing.T) {
	t.Parallel()
	r := newRecipe(t)
	r.begin(nil)
	r.server("NEW", nil)
	open(r.T, r.variables["NEW"]).migrate()
	r.application.stop()
	r.run("copy")
	r.copyOrders()
	r.goOn()
}

func TestLogicalReplication(t *testing.T) {
	t.Parallel()
	r := newRecipe(t)
	r.begin(r.settings("logical"))
	r.server("NEW", nil)
	r.run("subscribe")
	r.application.busy() // the publication does not block the application
	r.application.stop()
	r.run("cutover")
	copied := open(r.T, r.variables["NEW"])
	copied.old = r.application
	copied.complete()
	copied.prove() // even without sequences
	if _, err := copied.pool.Exec(t.Context(), nextVersion); err == nil {
		t.Error("a migration works without the sequences, although the document says that it needs them")
	}
	r.run("sequences")
	copied.exec(nextVersion)
}

func TestPointInTime(t *testing.T) {
	t.Parallel()
	r := newRecipe(t)
	r.begin(r.settings("archive"))
	r.run("base")
	a := r.application
	again := a.send(outbox.Message{Topic: topic, ScheduledAt: time.Now().Add(300 * time.Millisecond),
		Payload: []byte("again")})
	r.variables["TARGET"] = ask[string](a, "SELECT clock_timestamp()::text")
	a.until("the message is delivered", "SELECT status = 2 FROM txwork.outbox WHERE id = $1", again)
	never := a.send(outbox.Message{Topic: topic, Payload: []byte("never")})
	a.stop()
	r.run("switch")
	recovered := r.withoutData()
	r.run("recover")
	r.restart(recovered)
	r.goOn()
	copied := open(t, r.variables["NEW"])
	if !ask[bool](copied, "SELECT status = 2 FROM txwork.outbox WHERE id = $1", again) {
		t.Error("rows that were settled after the moment of the copy were not redelivered")
	}
	if ask[bool](copied, "SELECT EXISTS (SELECT FROM txwork.outbox WHERE id = $1)", never) {
		t.Error("rows that were written after the moment of the copy exist")
	}
}

func TestAStandby(t *testing.T) {
	t.Parallel()
	r := newRecipe(t)
	r.begin(nil)
	standby := r.withoutData()
	r.run("follow")
	if err := standby.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.run("synchronous")
	r.application.stop()
	busy := open(t, either(r.served, standby)) // a program that knows both servers and is not restarted
	busy.orders = r.application.orders
	busy.start()
	busy.produce()
	busy.busy()
	if err := r.served.Crash(); err != nil {
		t.Fatal(err)
	}
	r.run("promote")
	busy.busy()
	busy.stop()
	copied := open(t, r.variables["NEW"])
	copied.old = busy
	copied.complete()
	copied.prove()
}

// restart starts a server on copied data, and waits until it accepts writes.
func (r *recipe) restart(s *localpg.Server) {
	r.Helper()
	if err := s.Restart(r.Context()); err != nil {
		r.Fatal(err)
	}
	open(r.T, s.URL()).until("the server has recovered", "SELECT NOT pg_is_in_recovery()")
}

// copyOrders copies the application's own tables.
func (r *recipe) copyOrders() {
	r.Helper()
	to := open(r.T, r.variables["NEW"])
	to.makeOrders()
	for _, o := range all[order](r.application, "SELECT * FROM orders") {
		to.exec("INSERT INTO orders VALUES ($1, $2, $3)", o.ID, o.Key, o.N)
	}
}

// Waiting rows continue even if all notes, on which a fold depends, are lost.
func TestLostNotes(t *testing.T) {
	t.Parallel()
	r := newRecipe(t)
	r.begin(nil)
	r.variables["NEW"] = r.variables["OLD"]
	r.application.stop()
	a := open(t, r.variables["NEW"])
	a.exec("TRUNCATE txwork.outbox_key_note, txwork.outbox_key_state, txwork.outbox_key_cursor, " +
		"txwork.outbox_join_note")
	a.exec("TRUNCATE txwork.jobs_key_note, txwork.jobs_key_state, txwork.jobs_key_cursor, txwork.jobs_join_note, " +
		"txwork.jobs_slot, txwork.jobs_bucket")
	r.aMinuteLater()
	r.goOn()
}

// aMinuteLater makes the next sweep of the copy examine the joins.
func (r *recipe) aMinuteLater() {
	r.Helper()
	for _, table := range []string{"txwork.outbox_join", "txwork.jobs_join"} {
		open(r.T, r.variables["NEW"]).exec("UPDATE " + table + " SET look_at = now() WHERE completed_at IS NULL")
	}
}
