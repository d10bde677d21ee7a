//go:build unix

package backup

import (
	"strings"
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
	r.beginReplication()
	r.run("everything")
	r.run("subscribe")
	r.cutOver()
	copied := r.continued() // even without sequences
	if _, err := copied.pool.Exec(t.Context(), nextVersion); err == nil {
		t.Error("a migration works without the sequences, although the document says that it needs them")
	}
	r.run("sequences")
	copied.exec(nextVersion)
	r.run("check")
}

func TestReplicationIntoAMigratedSchema(t *testing.T) {
	t.Parallel()
	r := newRecipe(t)
	r.beginReplication()
	to := open(t, r.variables["NEW"])
	to.makeOrders()
	r.run("publish")
	r.verdicts(to)
	r.run("subscribe")
	r.cutOver()
	r.run("sequences")
	r.run("check")
	r.continued().exec(nextVersion)
}

// verdicts checks the document's list of tables. Those in which a migration has written rows must not be replicated,
// because they would arrive a second time, and all others must be.
func (r *recipe) verdicts(migrated *application) {
	r.Helper()
	replicated := map[string]string{}
	for _, row := range r.rowsOf("replicated") {
		for _, table := range strings.Split(row[0], ", ") {
			table = strings.Trim(table, "`")
			if replicated[table] != "" {
				r.Errorf("the document lists %s twice", table)
			}
			replicated[table] = row[1]
		}
	}
	published := map[string]bool{}
	for _, table := range all[struct{ Name string }](r.application,
		"SELECT tablename::text FROM pg_publication_tables WHERE schemaname = 'txwork'") {
		published[table.Name] = true
	}
	for _, table := range all[struct{ Name string }](migrated,
		"SELECT tablename::text FROM pg_tables WHERE schemaname = 'txwork'") {
		written := ask[bool](migrated, "SELECT EXISTS (SELECT FROM txwork."+table.Name+")")
		want := "yes"
		if written {
			want = "no"
		}
		if replicated[table.Name] != want {
			r.Errorf("is %s replicated? The document says %q, want %q", table.Name, replicated[table.Name], want)
		}
		if published[table.Name] == written {
			r.Errorf("published: %t: %s, in which a migration has written: %t", !written, table.Name, written)
		}
		delete(replicated, table.Name)
	}
	if len(replicated) > 0 {
		r.Errorf("no such tables: %v", replicated)
	}
}

// The application migrates its own table, and does the same on the new server after the subscription has stopped.
func TestReplicationThatContinues(t *testing.T) {
	t.Parallel()
	r := newRecipe(t)
	r.beginReplication()
	r.run("everything")
	r.run("subscribe")
	const migrate = "ALTER TABLE orders ADD COLUMN amount integer NOT NULL DEFAULT 0"
	r.application.exec(migrate)
	r.application.busy()
	r.stops("cutover")
	open(t, r.variables["NEW"]).exec(migrate)
	r.run("continue")
	r.cutOver()
	r.continued()
}

// The old server is migrated, and the replication starts again.
func TestReplicationThatStartsAgain(t *testing.T) {
	t.Parallel()
	r := newRecipe(t)
	r.beginReplication()
	r.run("everything")
	r.run("subscribe")
	r.application.exec("ALTER TABLE txwork.outbox ADD COLUMN amount integer NOT NULL DEFAULT 0")
	r.application.busy()
	r.stops("cutover")
	r.run("again")
	r.server("NEW", nil)
	r.run("everything")
	r.run("subscribe")
	r.cutOver()
	r.continued()
}

// stops runs a block in which a wait must end although what it waits for does not happen.
func (r *recipe) stops(name string) {
	r.Helper()
	if out, err := r.try(name); err == nil || !strings.Contains(out, "is not running") {
		r.Fatalf("%s does not tell that the subscription has stopped: %v\n%s", name, err, out)
	}
	if !ask[bool](open(r.T, r.variables["NEW"]), "SELECT EXISTS (SELECT FROM pg_subscription)") {
		r.Fatalf("%s ends the replication that has stopped", name)
	}
}

// beginReplication starts OLD, so that it can be replicated, and defines the function that waits.
func (r *recipe) beginReplication() {
	r.Helper()
	settings := r.settings("logical")
	settings["wal_writer_delay"] = "10s" // what nobody waits for is written late
	r.begin(settings)
	r.define("await")
	r.server("NEW", nil)
}

// cutOver ends a replication while producers do not wait for the disk.
func (r *recipe) cutOver() {
	r.Helper()
	r.application.busy() // the publication does not block the application
	r.application.stop()
	r.application.exec("ALTER ROLE CURRENT_USER SET synchronous_commit = off")
	r.application.lastOrder()
	r.run("cutover")
}

// continued proves that everything has arrived, and continues on the copy, which it returns.
func (r *recipe) continued() *application {
	r.Helper()
	copied := open(r.T, r.variables["NEW"])
	copied.old = r.application
	copied.complete()
	copied.prove()
	return copied
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
		"txwork.jobs_slot, txwork.jobs_start")
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
