package main

import (
	"strings"
	"testing"

	"github.com/txwork/txwork/migrations"
)

func TestMigrateUpAndDown(t *testing.T) {
	c := newCLI(t)
	c.run("migrate", "validate").exits(exitFailure).says("001_outbox is pending", "txwork migrate up")
	c.run("migrate", "status").ok().prints("001_outbox", "pending")

	c.run("migrate", "up").ok().prints("applied 001_outbox", "schema "+c.db.Schema+" is at version")
	up := decode[migrated](c.run("migrate", "up", "--json").ok())
	if len(up.Migrations) != 0 || up.Version < 1 {
		t.Errorf("a second up did %+v", up)
	}
	c.run("migrate", "validate").ok().prints("as this version of txwork needs it")
	status := decode[struct{ Migrations []migrations.Status }](c.run("migrate", "status", "--json").ok())
	for _, m := range status.Migrations {
		if !m.Applied {
			t.Errorf("%s is not applied", m.Name)
		}
	}

	c.run("migrate", "down").exits(exitUsage)
	c.run("migrate", "down", "--yes").ok().prints("took back ")
	down := decode[migrated](c.run("migrate", "down", "--yes", "--to", "0", "--json").ok())
	if down.Version != 0 {
		t.Errorf("down to 0 ended at version %d", down.Version)
	}
	c.run("migrate", "up", "--to", "1").ok().prints("is at version 1")
	c.run("migrate", "up", "--to", "99").exits(exitFailure).says("version 99 is unknown")
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
	if strings.Contains(r.stdout, "invoices_done_idx") {
		t.Error("--delete-done had no effect")
	}
}
