package main

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/outbox"
)

// What a role from which row-level security hides rows is shown is a part, and every command that lists, counts or
// looks for rows says so, in text and in JSON.
func TestEveryListOfATenantSaysThatItIsAPart(t *testing.T) {
	c := newMigratedCLI(t)
	c.enqueue(outbox.Message{Topic: "t"})
	c.tenants()
	for _, table := range []string{"jobs", "timers", "jobs_schedule"} {
		c.exec("ALTER TABLE {schema}." + table + " ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON {schema}." + table +
			" USING (false)")
	}
	tenant := c.role(workerRights)
	const hides = ": row-level security hides rows from the role"
	id := uuid.NewString()
	for _, command := range []struct {
		text, table string
		code        int
		lists       bool
	}{
		{"list outbox --status ready", "outbox", exitOK, true},
		{"list jobs --status failed --newer-than 1h", "jobs", exitOK, true},
		{"keys outbox", "outbox", exitOK, true},
		{"joins jobs", "jobs", exitOK, true},
		{"outbox topics", "outbox", exitOK, true},
		{"jobs queues", "jobs", exitOK, true},
		{"timers list", "timers", exitOK, true},
		{"schedules list", "timers, {schema}.jobs, {schema}.jobs_schedule", exitOK, true},
		{"show outbox " + id, "outbox", exitFailure, false},
		{"joins jobs " + id, "jobs", exitFailure, false},
		{"jobs show " + id, "jobs", exitFailure, false},
		{"cancel outbox " + id, "outbox", exitFailure, false},
		{"redrive jobs --older-than 1h --dry-run", "jobs", exitOK, false},
		{"delete jobs " + id, "jobs", exitFailure, false},
		{"purge timers --done-older-than 1h --dry-run", "timers", exitOK, false},
	} {
		args := strings.Fields(command.text)
		said := strings.ReplaceAll("txwork: {schema}."+command.table, "{schema}", c.db.Schema) + hides
		tenant.run(args...).exits(command.code).says(said)
		if r := c.run(args...); strings.Contains(r.stderr, hides) {
			t.Errorf("txwork %s of the owner says %s", command.text, r.stderr)
		}
		if !command.lists {
			continue
		}
		type part struct {
			Partial bool `json:"partial"`
		}
		if !decode[part](tenant.run(append(args, "--json")...).ok()).Partial {
			t.Errorf("the JSON of txwork %s does not say that rows are hidden", command.text)
		}
		if decode[part](c.run(append(args, "--json")...).ok()).Partial {
			t.Errorf("the JSON of txwork %s of the owner says that rows are hidden", command.text)
		}
	}
}
