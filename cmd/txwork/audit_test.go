package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
)

// Every command that decides about something leaves a row of the audit, and only then.
func TestCommandsWriteTheAudit(t *testing.T) {
	c := newMigratedCLI(t)
	ids := c.enqueue(slices.Repeat([]outbox.Message{{Topic: "t"}}, 1500)...)
	c.fail("no", ids...)
	c.run("redrive", "outbox", ids[0].String(), "--as", "mary").ok()
	c.run("discard", "outbox", "--topic", "t", "--error", "no", "--yes", "--reason", "old", "--as", "mary").ok()
	c.run("redrive", "outbox", "--all-failed", "--dry-run").ok()
	c.run("purge", "outbox", "--done-older-than", "0s", "--limit", "700", "--yes").ok()
	c.run("outbox", "pause", "t").ok()
	c.run("outbox", "pause", "t").ok()
	c.run("inbox", "pause", "c", "t").ok()
	c.greet(jobs.Insert{})
	c.run("jobs", "pause", "default").ok()
	c.run("jobs", "limit", "default", "--max-running", "2").ok()
	c.run("timers", "cancel", "nothing").exits(exitFailure)
	c.run("schedules", "pause", "nothing").exits(exitFailure)
	p := decode[operate.AuditPage](c.run("audit", "--json").ok())
	var all []string
	for _, r := range p.Rows {
		if r.Origin == "" || r.User == "" || r.Who == "" {
			t.Errorf("who, from where? %+v", r)
		}
		all = append(all, fmt.Sprint(r.Event, " ", r.Verb, " ", r.Table, " ", r.Rows))
	}
	slices.Reverse(all)
	if got, want := strings.Join(all, ", "), "done redrive outbox 1, begun discard outbox 0, batch discard outbox 1000, "+
		"batch discard outbox 499, ended discard outbox 0, begun purge outbox 0, batch purge outbox 700, ended purge outbox 0, "+
		"done pause outbox 1, done pause outbox 0, done pause inbox 1, done pause jobs 1, done limit jobs 1, "+
		"done cancel timers 0"; got != want {
		t.Errorf("the audit has\n%s, want\n%s", got, want)
	}
	mary := c.run("audit", "--who", "mary", "--verb", "discard", c.db.Schema+".outbox", "--since", "1h").ok()
	mary.prints("discard begun", "discard batch", `"args": ["old"]`, "mary")
	if rest := c.run("audit", "--limit", "1").ok(); strings.Count(rest.stdout, "\n") != 2 ||
		!strings.Contains(rest.stderr, "--after ") {
		t.Errorf("one row of many: %s%s", rest.stdout, rest.stderr)
	}
	c.run("audit", "--action", p.Rows[0].Action.String()).ok().prints("cancel", "timers")
	c.run("audit", "--action", "x").exits(exitUsage).says("no id")
}
