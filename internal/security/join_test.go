package security_test

import (
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/postgres"
)

// starts are calls that start a join, in a lane of a tenant.
var starts = map[string]string{
	"outbox": `outbox_start_join('[{"topic": "{tenant}.sent", "payload": 1, "key": "{tenant}.k"}]',
		'{"topic": "{tenant}.sent", "payload": 2}', '{"topic": "{tenant}.sent", "payload": 3}', deadline => now())`,
	"jobs": `jobs_start_batch('[{"kind": "print", "args": 1, "queue": "{tenant}.q"}]',
		'{"kind": "print", "args": 2, "queue": "{tenant}.q"}', '{"kind": "print", "args": 3, "queue": "{tenant}.q"}')`,
}

// The rights of a producer are enough to start a join with its rows, and those of a viewer and an operator are not.
func TestAProducerStartsJoinsThroughFunctions(t *testing.T) {
	f := newFixture(t)
	for table, start := range starts {
		start = "SELECT id FROM " + strings.ReplaceAll(start, "{tenant}", "a")
		f.exec(f.as("producer"), start)
		f.exec(f.as("worker"), start)
		for _, role := range []string{"viewer", "operator"} {
			f.refuses(f.as(role), forbidden, start)
		}
		if joins := f.lines("SELECT id::text FROM " + table + "_join"); len(joins) != 2 {
			t.Errorf("%s has %d joins, want 2", table, len(joins))
		}
	}
}

// A join whose rows a policy hides from the producer would never end: it is refused, and so is a session without
// triggers if a row has a key.
func TestStartedJoinsSeeTheirRows(t *testing.T) {
	f := newFixture(t)
	f.separate()
	for _, start := range starts {
		call := func(tenant string) string { return "SELECT id FROM " + strings.ReplaceAll(start, "{tenant}", tenant) }
		f.exec(f.asTenant("producer", "a"), call("a"))
		f.refuses(f.asTenant("producer", "a"), forbidden, call("b"))
	}
	replica := with(t, f.db, "session_replication_role", "replica")
	_, err := replica.Exec(t.Context(), "SELECT id FROM "+strings.ReplaceAll(starts["outbox"], "{tenant}", "a"))
	if postgres.State(err) != "22P02" {
		t.Errorf("without triggers: %v", err)
	}
}
