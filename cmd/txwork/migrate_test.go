package main

import (
	"bufio"
	"context"
	"hash/fnv"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
)

func TestMigrateUpAndDown(t *testing.T) {
	c := newCLI(t)
	c.run("migrate",
		"validate").exits(exitFailure).prints("has none of the domains outbox, reaper",
		": run `txwork migrate up --schema ")
	c.run("migrate", "status").exits(exitFailure).prints("001_outbox",
		"pending").says("6 migrations pending: run `txwork migrate up --schema ")

	c.run("migrate", "up").ok().prints("applied 001_outbox", "schema "+c.db.Schema+" is at version")
	up := decode[migrated](c.run("migrate", "up", "--json").ok())
	if len(up.Migrations) != 0 || up.Version < 1 {
		t.Errorf("a second up did %+v", up)
	}
	c.run("migrate", "validate").ok().prints("as this version of txwork needs it")
	status := decode[struct{ Migrations []migrations.Status }](c.run("migrate", "status", "--json").ok())
	if len(status.Migrations) != 6 {
		t.Errorf("%d migrations are reported, want 6", len(status.Migrations))
	}
	for _, m := range status.Migrations {
		if !m.Applied {
			t.Errorf("%s is not applied", m.Name)
		}
	}

	c.run("migrate", "down").exits(exitUsage).says("would take back 006_jobs and drop its tables, which hold no " +
		"rows: pass --yes")
	c.run("migrate", "validate").ok()
	c.run("migrate", "down", "--yes").ok().prints("took back 006_jobs", "is at version 5")
	down := decode[migrated](c.run("migrate", "down", "--yes", "--to-version", "0", "--json").ok())
	if down.Version != 0 {
		t.Errorf("down to 0 ended at version %d", down.Version)
	}
	c.run("migrate", "up", "--to-version", "1").ok().prints("is at version 1")
	c.run("migrate", "up", "--to-version", "99").exits(exitFailure).says("version 99 is unknown")
}

// Rows are counted, and are not dropped without --drop-rows.
func TestMigrateDownDropsNoRowsUnasked(t *testing.T) {
	c := newMigratedCLI(t)
	c.enqueue(outbox.Message{Topic: "a"}, outbox.Message{Topic: "b"})
	c.exec("INSERT INTO jobs (kind, queue, priority, args) VALUES ('a', 'b', 1, '')")
	const jobs = "would take back 006_jobs and drop 1 row (jobs 1): pass --yes and --drop-rows"
	for _, flags := range [][]string{{}, {"--yes"}, {"--drop-rows"}, {"--yes", "--json"}} {
		c.run(append([]string{"migrate", "down"}, flags...)...).exits(exitUsage).says(jobs)
	}
	c.run("migrate", "down", "--yes", "--to-version", "0").exits(exitUsage).says("drop 3 rows (outbox 2, jobs 1)")
	c.run("migrate", "validate").ok()
	c.run("migrate", "down", "--yes", "--drop-rows").ok().prints("took back 006_jobs", "dropped 1 row (jobs 1)",
		"is at version 5")
	c.run("migrate", "down", "--yes", "--to-version", "1").ok().prints("is at version 1") // the outbox stays
	down := decode[migrated](c.run("migrate", "down", "--yes", "--drop-rows", "--json").ok())
	if want := []migrations.TableRows{{Table: "outbox", Rows: 2}}; !slices.Equal(down.DroppedRows, want) ||
		down.Version != 0 {
		t.Errorf("%+v, want the rows %v and version 0", down, want)
	}
	c.run("migrate", "down").ok().prints("is at version 0") // nothing to drop, so no question
}

// A command that waits for another migrator says so.
func TestMigrateSaysThatItWaits(t *testing.T) {
	c := newMigratedCLI(t)
	holder, err := c.db.Pool.Begin(t.Context())
	must(t, err)
	defer holder.Rollback(context.Background())
	lock := fnv.New64a()
	lock.Write([]byte("txwork migrations " + c.db.Schema)) // the lock of this schema's migrators
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", int64(lock.Sum64()))
	must(t, err)
	r, w := io.Pipe()
	ctx, interrupt := context.WithCancelCause(t.Context())
	defer interrupt(nil)
	done := make(chan int, 1)
	go func() {
		defer w.Close()
		a := &app{stdout: io.Discard, stderr: w, getenv: os.Getenv}
		done <- a.run(ctx, c.args("migrate", "up"))
	}()
	said := bufio.NewScanner(r)
	if !said.Scan() || said.Text() != "txwork: waiting for another migrator" {
		t.Errorf("it said %q", said.Text())
	}
	interrupt(errInterrupted)
	if !said.Scan() || !strings.Contains(said.Text(), "interrupted") || <-done != exitInterrupted {
		t.Errorf("it ended with %q", said.Text())
	}
}

func TestMigrateDownWaitsForNobodyForLong(t *testing.T) {
	c := newMigratedCLI(t)
	tx, err := c.db.Pool.Begin(t.Context())
	must(t, err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), "LOCK TABLE jobs IN ROW EXCLUSIVE MODE")
	must(t, err)
	c.run("migrate", "down", "--yes", "--lock-timeout", "50ms").exits(exitFailure).
		says("a table was in use for more than 50ms (process ", "nothing of this was done")
	c.run("migrate", "down", "--yes", "--lock-timeout", "-1s").exits(exitUsage).says("lock timeout is -1s")
	c.run("migrate", "validate").ok()
}

// Differences are printed with the SQL that repairs them, or as JSON; the exit code is 1 in both cases.
func TestMigrateValidatePrintsWhatMends(t *testing.T) {
	c := newMigratedCLI(t)
	c.exec("ALTER TABLE outbox SET (fillfactor = 90)")
	c.run("migrate", "validate").ok().prints("as this version of txwork needs it", "note: table "+c.db.Schema+
		".outbox has the storage parameters ")

	for _, breakage := range []string{"DROP INDEX outbox_claim_idx", "ALTER TABLE jobs DISABLE TRIGGER jobs_announce",
		"DROP FUNCTION inbox_begin",
		"ALTER TABLE timers ADD COLUMN \"a\nDROP SCHEMA public;\" text NOT NULL"} {
		c.exec(breakage)
	}
	r := c.run("migrate", "validate").exits(exitFailure).says("schema "+c.db.Schema+
		" is not as this version of txwork needs it").prints(
		"\n-- index "+c.db.Schema+".outbox_claim_idx is missing\nCREATE INDEX CONCURRENTLY outbox_claim_idx ON "+
			c.db.Schema+".outbox ",
		"\n-- trigger jobs_announce of "+c.db.Schema+`.jobs is disabled`+"\n"+`ALTER TABLE "`+c.db.Schema+
			`"."jobs" ENABLE TRIGGER "jobs_announce";`,
		"\n-- function "+c.db.Schema+".inbox_begin(text, text, text, bytea, bytea, uuid, text) is missing\nCREATE OR "+
			"REPLACE FUNCTION ",
		"\n-- note: table "+c.db.Schema+".outbox has the storage parameters ")
	if strings.Contains(r.stdout, "\nDROP SCHEMA public;\n") || strings.Contains(r.stdout, "SET (fillfactor") {
		t.Errorf("the output contains SQL that must not be run:\n%s", r.stdout)
	}

	found := decode[validated](c.run("migrate", "validate", "--json").exits(exitFailure))
	if found.Valid || found.Version == 0 || len(found.Differences) != 5 {
		t.Errorf("%+v", found)
	}
	for _, d := range found.Differences {
		for _, statement := range d.DDL {
			c.exec(statement)
		}
	}
	if mended := decode[validated](c.run("migrate", "validate", "--json").ok()); !mended.Valid ||
		len(mended.Differences) != 0 {
		t.Errorf("mended, %+v", mended)
	}
}

func TestMigrateSQLIsWhatUpDoes(t *testing.T) {
	c := newCLI(t)
	text := execute(t, t.Context(), nil, nil, "migrate", "sql", "--schema", c.db.Schema).ok().stdout
	c.exec(text)
	c.run("migrate", "validate").ok()
}

func TestTableNewPrintsAMigration(t *testing.T) {
	t.Parallel()
	r := execute(t, t.Context(), nil, nil, "table", "new", "invoices", "--schema", "billing",
		"--column", "customer:bigint:not-null", "--column", "amount:double precision", "--lane", "customer",
		"--unique", "customer,amount", "--delete-done", "--max-attempts", "3")
	r.ok().prints("-- +goose Up", "-- +goose Down", `CREATE TABLE "billing"."invoices"`, `"customer" bigint NOT NULL`,
		`"amount" double precision,`, "DEFAULT 3", `("customer", due_at, id)`, `"invoices_unique_idx"`)
	if !strings.Contains(r.stdout, `DELETE FROM "billing"."invoices" AS t
WHERE t.id = ANY ($2::uuid[]) AND t.owner_token = $3[1]::uuid`) {
		t.Error("--delete-done had no effect")
	}
}
