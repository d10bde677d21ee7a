package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/txwork/txwork/migrations"
)

// A schema for a single domain is created with one flag, and the commands work with the tables that it has.
func TestASchemaOfJobsAlone(t *testing.T) {
	c := newCLI(t)
	c.run("migrate", "up", "--domain", "mail").exits(exitUsage).says("there are outbox, reaper, inbox, timers, " +
		"alarms, jobs, log")
	c.run("migrate", "up", "--domain", "jobs").ok().prints("applied 002_reaper", "applied 006_jobs")
	c.run("migrate", "up").ok()
	c.run("migrate", "validate").ok()
	status := decode[struct{ Migrations []migrations.Status }](c.run("migrate", "status", "--json").ok())
	if len(status.Migrations) != 2 || status.Migrations[1].Domain != migrations.Jobs {
		t.Errorf("%+v", status)
	}
	c.run("stats").ok().prints("jobs")
	c.run("reap").ok()
	c.run("jobs", "queues").ok()
	c.doctor().ok()
	c.run("timers", "list").exits(exitFailure).says("timers")
	c.run("migrate", "up", "--domain", "timers").ok().prints("applied 004_timers")
	c.run("timers", "list").ok()
	c.run("migrate", "down", "--domain", "reaper", "--yes").exits(exitFailure).says("reaper is needed by")
	c.run("migrate", "down", "--domain",
		"timers").exits(exitUsage).says("would take back 004_timers and drop its tables")
	c.run("migrate", "down", "--domain", "timers", "--yes").ok().prints("took back 004_timers")
	c.run("migrate", "validate").ok()
}

// A log is added by name, and the commands know it.
func TestASchemaWithALog(t *testing.T) {
	c := newCLI(t)
	c.run("migrate", "up").ok()
	c.run("migrate", "up", "--domain", "log").ok().prints("applied 007_log")
	c.run("migrate", "validate").ok()
	c.run("stats").ok().prints("outbox_log_parked")
	c.doctor().ok()
	c.run("roles").ok().prints(`"outbox_log_position"`, `"jobs"`)
}

func TestMigrationsAsFiles(t *testing.T) {
	c := newCLI(t)
	dir := filepath.Join(t.TempDir(), "db", "migrations")
	c.run("migrate", "export", "--format", "goose", "--first", "20261123000001", "--domain", "reaper", "--domain",
		"jobs", dir).ok()
	text, err := os.ReadFile(filepath.Join(dir, "20261123000002_txwork_jobs.sql"))
	must(t, err)
	if !strings.HasPrefix(string(text), "-- +goose Up\n") || !strings.Contains(string(text), c.db.Schema) {
		t.Errorf("%.200s", text)
	}
	dir = filepath.Join(t.TempDir(), "ours") // all domains, ordered by version
	if got := decode[exported](c.run("migrate", "export", "--json", dir).ok()); len(got.Written) != 12 ||
		got.Directory != dir {
		t.Errorf("%+v", got)
	}
	c.run("migrate", "export", dir).ok().prints("has all migrations already")
	if _, err := os.Stat(filepath.Join(dir, "001_outbox.down.sql")); err != nil {
		t.Error(err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "001_outbox.down.sql"), []byte("-- edited"), 0o600))
	c.run("migrate", "export", dir).exits(exitFailure).says("has another content", "nothing was written")
	c.run("migrate", "export", "--format", "flyway", dir).exits(exitUsage).says("want golang-migrate or goose")
	if text := c.run("migrate", "sql", "--domain", "inbox").ok().stdout; !strings.Contains(text, "003_inbox") ||
		strings.Contains(text, "006_jobs") {
		t.Errorf("%.300s", text)
	}
	c.run("roles", "--domain", "jobs").ok().prints(`"jobs"`)
}
